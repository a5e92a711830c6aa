//! `dump-log`: the log as JSON Lines.

use crate::text;
use clap::Args;
use katydid::{Chain, CommitStamp, LogEntry, LogField, TxnId, dump_log};
use katydid_command::database::DatabaseDir;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::stderr::warn;
use serde_json::{Map, Value};
use std::ops::ControlFlow;

/// Print the records of the log as JSON Lines
///
/// The command neither opens nor changes the database. On standard error it says how the log ends
/// or, with --limit, where the records begin that it has not printed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid dump-log --dir ./db --limit 20")]
pub struct DumpLog {
    /// Print only records from this position (LSN) on or, with the memory engine, from this commit
    /// stamp on
    #[arg(long, value_name = "LSN")]
    from: Option<u64>,
    /// Print at most this number of records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print only the records of the transaction with this id
    #[arg(long, value_name = "ID")]
    txn: Option<u64>,
    #[command(flatten)]
    place: DatabaseDir,
}

impl DumpLog {
    pub fn run(self) -> Result<()> {
        self.place.must_exist()?;
        let mut out = Output::new();
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut failure: Option<Failure> = None;
        let end = dump_log(&self.place.dir, |entry| {
            if self.from.is_some_and(|from| order(entry) < from) {
                return ControlFlow::Continue(());
            }
            if self.txn.is_some_and(|txn| entry.txn != TxnId::new(txn)) {
                return ControlFlow::Continue(());
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            match out.json(&as_json(entry)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        match failure {
            Some(failure) => return Err(failure),
            None => out.flush()?,
        }
        warn(format_args!("the log: {end}"));
        Ok(())
    }
}

/// Returns the number by which the records of a log are ordered: the commit stamp if there is one,
/// else the position.
fn order(entry: &LogEntry) -> u64 {
    entry.chain.stamp().map_or(entry.lsn.get(), CommitStamp::get)
}

fn as_json(entry: &LogEntry) -> Value {
    let mut object = Map::new();
    object.insert("lsn".into(), entry.lsn.get().into());
    object.insert("end".into(), entry.end.get().into());
    object.insert("kind".into(), entry.kind.into());
    object.insert("txn".into(), entry.txn.get().into());
    match entry.chain {
        Chain::Previous(previous) => object.insert("prev".into(), previous.get().into()),
        Chain::Commit { stamp, .. } => object.insert("stamp".into(), stamp.get().into()),
    };
    object.insert("payload_bytes".into(), entry.payload_bytes.into());
    put_fields(&mut object, &entry.fields);
    Value::Object(object)
}

fn put_fields(object: &mut Map<String, Value>, fields: &[(&'static str, LogField)]) {
    for (name, field) in fields {
        let value = match field {
            LogField::Number(number) => Value::from(*number),
            LogField::Text(text) => Value::from(text.as_str()),
            LogField::Numbers(numbers) => Value::from(numbers.as_slice()),
            LogField::Bytes(bytes) => {
                text::put_json(object, name, bytes);
                continue;
            }
            LogField::List(items) => {
                let object = |fields: &Vec<_>| {
                    let mut object = Map::new();
                    put_fields(&mut object, fields);
                    Value::Object(object)
                };
                items.iter().map(object).collect()
            }
            // A field of a kind that this program does not know.
            other => Value::from(format!("{other:?}")),
        };
        object.insert((*name).to_owned(), value);
    }
}
