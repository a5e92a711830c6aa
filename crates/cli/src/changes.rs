//! `changes`: committed transactions as JSON Lines.

use crate::text::put_json;
use clap::Args;
use katydid::{
    Change, ChangePosition, Changes, ChangesFrom, CommittedTransaction, Database, Error, NewValue, OldValue,
};
use katydid_command::database::{DatabaseDir, close_after};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::signals;
use serde_json::{Map, Value, json};

/// Where to begin.
fn from(text: &str) -> std::result::Result<ChangesFrom, String> {
    match text {
        "oldest" => Ok(ChangesFrom::Oldest),
        "now" => Ok(ChangesFrom::Now),
        _ => text.parse::<ChangePosition>().map(ChangesFrom::Position).map_err(|error| error.to_string()),
    }
}

/// Print the committed transactions that the log still has, one JSON object per line, in the order of their commits
///
/// Each line has the transaction's "stamp", its "changes", and the "position" after it, from which --from goes on. A change has "table" and "key", and
/// "value", or "deleted", or "patch" if the log has only the bytes that changed. Where bytes are not text, "key_hex" and "value_hex" stand
/// instead.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid changes --dir ./db --limit 10\n  \
                        katydid changes --dir ./db --from 4096@512 --old\n  \
                        katydid changes --dir ./db --consumer outbox --follow")]
pub struct ChangesCommand {
    /// Begin here: `oldest`, `now`, or the position of a line
    #[arg(long, value_name = "POSITION", default_value = "oldest", value_parser = from)]
    from: ChangesFrom,
    /// Go on with what is committed later, until stopped
    #[arg(long)]
    follow: bool,
    /// Print former values where the log has them
    #[arg(long)]
    old: bool,
    /// Print at most so many transactions
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Go on where this consumer is, and acknowledge what was printed. It is made, at --from, if there is none; the log is kept for it
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Of a new consumer: the most bytes of log that are kept for it
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = katydid_command::bytes::parse)]
    keep: u64,
    #[command(flatten)]
    place: DatabaseDir,
}

/// What is printed from.
enum Feed {
    Changes(Changes),
    Consumer(katydid::ChangeConsumer),
}

impl Feed {
    fn next(&mut self, follow: bool) -> katydid::Result<Option<CommittedTransaction>> {
        match (self, follow) {
            (Feed::Changes(changes), false) => changes.try_next(),
            (Feed::Changes(changes), true) => changes.next().map(Some),
            (Feed::Consumer(consumer), false) => consumer.try_next(),
            (Feed::Consumer(consumer), true) => consumer.next().map(Some),
        }
    }

    fn position(&self) -> ChangePosition {
        match self {
            Feed::Changes(changes) => changes.position(),
            Feed::Consumer(consumer) => consumer.position(),
        }
    }

    fn acknowledge(&mut self) -> katydid::Result<()> {
        match self {
            Feed::Changes(_) => Ok(()),
            Feed::Consumer(consumer) => consumer.acknowledge(),
        }
    }
}

impl ChangesCommand {
    pub fn run(self) -> Result<()> {
        // To read only, nothing is changed: not even what opening would trim of the log.
        let database = match self.consumer {
            None if !self.follow => Database::open_read_only(&self.place.dir)?,
            _ => self.place.open()?,
        };
        if self.follow {
            // What waits is told that the database is closed.
            let closes = database.clone();
            signals::on_stop(move || drop(closes.close()))?;
        }
        let printed = self.print(&database);
        close_after(&database, printed)
    }

    fn print(&self, database: &Database) -> Result<()> {
        let mut feed = match &self.consumer {
            None => Feed::Changes(database.changes(&self.from)?),
            Some(name) => Feed::Consumer(database.consumer(name, self.keep, &self.from)?),
        };
        let mut out = Output::new();
        let mut left = self.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let transaction = match feed.next(false) {
                Ok(None) if self.follow => {
                    out.flush()?;
                    // Only what was printed is acknowledged.
                    acknowledged(feed.acknowledge())?;
                    feed.next(true)
                }
                other => other,
            };
            match transaction {
                Ok(Some(transaction)) => out.json(&self.line(&transaction, &feed.position()))?,
                Ok(None) => break,
                Err(Error::Closed) if self.follow => break,
                Err(error) => {
                    out.flush()?;
                    return Err(error.into());
                }
            }
            left -= 1;
        }
        out.flush()?;
        acknowledged(feed.acknowledge())
    }

    fn line(&self, transaction: &CommittedTransaction, position: &ChangePosition) -> Value {
        let changes: Vec<Value> = transaction.changes.iter().map(|change| self.change(change)).collect();
        json!({
            "stamp": transaction.stamp.get(),
            "position": position.to_string(),
            "changes": changes,
        })
    }

    fn change(&self, change: &Change) -> Value {
        let mut object = Map::new();
        match change {
            Change::Row { table, name, key, new, old, .. } => {
                match name {
                    Some(name) => object.insert("table".to_owned(), json!(&**name)),
                    None => object.insert("table_id".to_owned(), json!(table.get())),
                };
                put_json(&mut object, "key", key);
                match new {
                    NewValue::Value(value) => put_json(&mut object, "value", value),
                    NewValue::Deleted => drop(object.insert("deleted".to_owned(), json!(true))),
                    NewValue::Patch { offset, replaced, bytes } => {
                        let mut patch = Map::new();
                        patch.insert("offset".to_owned(), json!(offset));
                        patch.insert("replaced".to_owned(), json!(replaced));
                        put_json(&mut patch, "value", bytes);
                        object.insert("patch".to_owned(), Value::Object(patch));
                    }
                    _ => {}
                }
                if let (true, OldValue::Value(old)) = (self.old, old) {
                    put_json(&mut object, "old", old);
                }
            }
            Change::TableCreated { name, .. } => drop(object.insert("created".to_owned(), json!(&**name))),
            Change::TableRenamed { from, to, .. } => {
                object.insert("renamed".to_owned(), json!(&**from));
                object.insert("to".to_owned(), json!(&**to));
            }
            Change::TableDropped { name, .. } => drop(object.insert("dropped".to_owned(), json!(&**name))),
            _ => {}
        }
        Value::Object(object)
    }
}

/// A database that a signal has closed acknowledges nothing more: what was printed since is printed again.
fn acknowledged(outcome: katydid::Result<()>) -> Result<()> {
    match outcome {
        Err(Error::Closed) => Ok(()),
        outcome => outcome.map_err(Failure::from),
    }
}
