//! `scan` and `count`: print or count the keys and values of a range.

use crate::key_range::KeyFlags;
use crate::load::parse::csv_record;
use crate::point::print_entry;
use crate::text;
use clap::Args;
use katydid_command::database::DatabaseDir;
use katydid_command::failure::Result;
use katydid_command::look::Wanted;
use katydid_command::output::Output;
use serde_json::json;

/// Print `key<TAB>value` of all keys of a table, or of a range, in key order
///
/// Bytes that are not text are printed as escapes, which `load` reads back. With --json each line
/// is an object with the fields "key" and "value"; bytes that are not text are in "key_hex" or
/// "value_hex".
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid scan --dir ./db unicode --prefix 1F4 --limit 3\n  \
                        katydid scan --dir ./db log --from 2026-01 --to 2026-02 --json\n  \
                        katydid scan --dir ./db log --reverse --limit 10")]
pub struct Scan {
    /// Name of the table
    table: String,
    #[command(flatten)]
    keys: KeyFlags,
    /// Print at most this number of keys
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print one JSON object for each key
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV with escapes in the fields, which `load` reads back
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Scan {
    pub fn run(self) -> Result<()> {
        let keys = self.keys.range()?;
        let mut look = self.place.look()?;
        let mut out = Output::new();
        let wanted = Wanted { keys, reverse: self.reverse, limit: self.limit.unwrap_or(u64::MAX) };
        let printed = look.scan(&self.table, wanted, |key, value| match self.csv {
            true => {
                let (key, value) = (text::escaped(key), text::escaped(value));
                out.line(csv_record(b',', [key.as_bytes(), value.as_bytes()]))
            }
            false => print_entry(&mut out, key, value, self.json),
        });
        look.finish(printed.and_then(|()| out.flush()))
    }
}

/// Print the number of keys of a table, or of a range
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  katydid count --dir ./db unicode\n  katydid count --dir ./db unicode --prefix 1F4"
)]
pub struct Count {
    /// Name of the table
    table: String,
    #[command(flatten)]
    keys: KeyFlags,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Count {
    pub fn run(self) -> Result<()> {
        let keys = self.keys.range()?;
        let mut look = self.place.look()?;
        let count = look.count(&self.table, keys)?;
        let mut out = Output::new();
        let printed = match self.json {
            true => out.json(&json!({ "count": count })),
            false => out.line(count.to_string()),
        };
        let printed = printed.and_then(|()| out.flush());
        look.finish(printed)
    }
}
