//! `dump` and `restore-dump`: write all rows of a database as text that any program can read, and
//! read it back.

mod check;
mod format;
mod restore;

pub use restore::RestoreDump;

use crate::text;
use check::Checked;
use clap::Args;
use katydid::Database;
use katydid_command::database::{self, DatabaseDir, close_after};
use katydid_command::failure::Result;
use katydid_command::output::Output;
use serde_json::{Map, Value};

/// Print all tables as JSON Lines, which `restore-dump` reads back
///
/// The first line is {"katydid_dump":1}. A line {"table":NAME} begins a table, and each line
/// {"key":...,"value":...} after it is one of its rows, in the order of keys. Bytes that are not
/// UTF-8 are in "key_hex" or "value_hex". The last line has the numbers of tables and rows, and a
/// checksum of all earlier lines, by which `restore-dump` detects a dump that is cut off or
/// changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid dump --dir ./db > db.jsonl\n  \
                        katydid dump --dir ./db --table fruit | gzip > fruit.jsonl.gz")]
pub struct Dump {
    /// Print only this table
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Dump {
    pub fn run(self) -> Result<()> {
        self.place.must_exist()?;
        let database = self.place.open_read_only()?;
        let mut out = Output::new();
        let printed = self.print(&database, &mut out).and_then(|()| out.flush());
        close_after(&database, printed)
    }

    fn print(&self, database: &Database, out: &mut Output) -> Result<()> {
        let names = match &self.table {
            Some(name) => vec![name.clone()],
            None => database.tables()?,
        };
        let mut checked = Checked::default();
        let mut line = |value: Value, checked: &mut Checked| {
            let line = value.to_string();
            checked.add(line.as_bytes());
            out.line(line)
        };
        line(format::header(), &mut checked)?;
        for name in names {
            let table = database::table(database, &name)?;
            line(format::table(&name), &mut checked)?;
            checked.tables += 1;
            let txn = database.begin_read_only()?;
            for row in txn.range(&table, ..) {
                let (key, value) = row?;
                let mut object = Map::new();
                text::put_json(&mut object, "key", &key);
                text::put_json(&mut object, "value", &value);
                line(Value::Object(object), &mut checked)?;
                checked.rows += 1;
            }
        }
        let last = format::end(&checked);
        out.json(&last)
    }
}
