//! `changes`: committed transactions as JSON Lines.

use crate::text::put_json;
use clap::Args;
use katydid::{ChangePosition, Changes, ChangesFrom, CommittedTransaction, Database, Error};
use katydid_command::database::{DatabaseDir, close_after};
use katydid_command::failure::{Failure, Result};
use katydid_command::look::{Look, has_closed_socket};
use katydid_command::output::Output;
use katydid_command::signals;
use katydid_observe::{
    AskError, ChangesBegin, Client, Committed, CommittedChange, CommittedValue, ConsumerName, Refusal, Reply,
    Request,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reads the value of `--from`.
fn from(text: &str) -> std::result::Result<ChangesFrom, String> {
    match text {
        "oldest" => Ok(ChangesFrom::Oldest),
        "now" => Ok(ChangesFrom::Now),
        _ => text.parse::<ChangePosition>().map(ChangesFrom::Position).map_err(|error| error.to_string()),
    }
}

/// Print the committed transactions that the log still has, in order, as JSON Lines
///
/// Each line has the transaction's "stamp", its "changes", and the "position" after it, which
/// --from takes. The change of a row has "table", "key", and one of "value", "deleted" and "patch";
/// it has "patch" if the log has only the changed bytes. The change of a table has "created",
/// "renamed", "dropped" or "loaded". For bytes that are not text the fields are "key_hex",
/// "value_hex" and "old_hex". If a process has the database open and listens at its socket, that
/// process sends the changes, and --follow ends when that process closes the database.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid changes --dir ./db --limit 10\n  \
                        katydid changes --dir ./db --from 4096@512 --old\n  \
                        katydid changes --dir ./db --consumer outbox --follow")]
pub struct ChangesCommand {
    /// Position to begin at: `oldest`, `now`, or the "position" of the last line that was read
    #[arg(long, value_name = "POSITION", default_value = "oldest", value_parser = from)]
    from: ChangesFrom,
    /// Continue with later commits until SIGINT or SIGTERM
    #[arg(long)]
    follow: bool,
    /// Print also the former value of each row, as "old", if the log has it
    #[arg(long)]
    old: bool,
    /// Print at most this number of transactions
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Begin at the position of the consumer of this name, and acknowledge the printed transactions
    ///
    /// If there is no such consumer, the command makes it at --from. The database keeps its log for
    /// the consumer, up to --keep bytes.
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Maximum bytes of log that the database keeps for a new consumer
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = katydid_command::bytes::parse)]
    keep: u64,
    #[command(flatten)]
    place: DatabaseDir,
}

/// Source of the transactions.
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
        // Without --consumer and --follow the database is opened read-only, so that opening does
        // not even trim the log.
        let look = match self.consumer {
            None if !self.follow => self.place.look()?,
            _ => self.place.open_or_ask()?,
        };
        let database = match look {
            Look::Closed(database) => database,
            Look::Running(client) => return self.print_running(client),
        };
        if self.follow {
            // Closing ends the wait for the next transaction.
            let closes = database.clone();
            signals::on_stop(move || drop(closes.close()))?;
        }
        let printed = self.print(&database);
        close_after(&database, printed)
    }

    /// Prints the transactions of a database that another process has open. That process sends
    /// them.
    fn print_running(&self, mut client: Client) -> Result<()> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        if self.follow {
            let cannot =
                |error| Failure::failed(format_args!("cannot prepare to stop the connection: {error}"));
            let (stopper, stops) = (client.stopper().map_err(cannot)?, is_stopped.clone());
            signals::on_stop(move || {
                stops.store(true, Ordering::Release);
                stopper.stop();
            })?;
        }
        let mut begin = Some(ChangesBegin {
            from: match &self.from {
                ChangesFrom::Oldest => "oldest".to_owned(),
                ChangesFrom::Now => "now".to_owned(),
                ChangesFrom::Position(position) => position.to_string(),
            },
            consumer: self.consumer.clone().map(|name| ConsumerName { name, keep: self.keep }),
            old: self.old,
        });
        let mut out = Output::new();
        // The parts received so far of an incomplete transaction, and the number of transactions
        // that may still be printed.
        let (mut parts, mut left) = (None::<Committed>, self.limit.unwrap_or(u64::MAX));
        let mut ends = left == 0;
        loop {
            let has_whole = parts.is_none();
            let request = Request::Changes {
                begin: begin.take(),
                // Acknowledge only between two transactions, because all complete transactions are
                // printed at such a point.
                acknowledge: has_whole && self.consumer.is_some(),
                wait: self.follow && !ends,
                limit: if ends { 0 } else { left },
            };
            let given = match client.ask(&request) {
                Ok(Reply::Changes(given)) => given,
                Ok(other) => {
                    return Err(Failure::failed(format_args!(
                        "the process that has the database open sent an unexpected reply: {other:?}"
                    )));
                }
                Err(AskError::Refused(Refusal::Closed)) if self.follow => return Ok(()),
                Err(AskError::Ended)
                    if is_stopped.load(Ordering::Acquire)
                        || self.follow && has_closed_socket(&self.place.dir) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(Failure::failed(error)),
            };
            if ends {
                return Ok(());
            }
            let was_empty = given.is_empty();
            for mut part in given {
                if let Some(mut first) = parts.take() {
                    first.changes.append(&mut part.changes);
                    part.changes = first.changes;
                }
                if part.more {
                    parts = Some(part);
                } else {
                    out.json(&line(&part))?;
                    left -= 1;
                }
            }
            out.flush()?;
            // A consumer needs one more request, which acknowledges the printed transactions.
            ends = parts.is_none() && (left == 0 || (was_empty && !self.follow));
            if ends && self.consumer.is_none() {
                return Ok(());
            }
        }
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
                    // All transactions that the feed has returned are printed, so acknowledge them.
                    acknowledged(feed.acknowledge())?;
                    feed.next(true)
                }
                other => other,
            };
            match transaction {
                Ok(Some(transaction)) => {
                    out.json(&line(&Committed::of(transaction, &feed.position(), self.old)))?;
                }
                Ok(None) => break,
                Err(Error::Closed) if self.follow => break,
                Err(error) => {
                    // The transactions before the failure are printed. The exit code tells of the
                    // failure even if no program reads them.
                    let _may_be_unread = out.flush();
                    return Err(error.into());
                }
            }
            left -= 1;
        }
        out.flush()?;
        acknowledged(feed.acknowledge())
    }
}

fn line(transaction: &Committed) -> Value {
    let changes: Vec<Value> = transaction.changes.iter().map(change).collect();
    json!({ "stamp": transaction.stamp, "position": transaction.position, "changes": changes })
}

fn change(change: &CommittedChange) -> Value {
    let mut object = Map::new();
    match change {
        CommittedChange::Row { table, name, key, new, old } => {
            match name {
                Some(name) => object.insert("table".to_owned(), json!(name)),
                None => object.insert("table_id".to_owned(), json!(table)),
            };
            put_json(&mut object, "key", &key.0);
            match new {
                CommittedValue::Value(value) => put_json(&mut object, "value", &value.0),
                CommittedValue::Deleted => drop(object.insert("deleted".to_owned(), json!(true))),
                CommittedValue::Patch { offset, replaced, bytes } => {
                    let mut patch = Map::new();
                    patch.insert("offset".to_owned(), json!(offset));
                    patch.insert("replaced".to_owned(), json!(replaced));
                    put_json(&mut patch, "value", &bytes.0);
                    object.insert("patch".to_owned(), Value::Object(patch));
                }
                _ => {}
            }
            if let Some(old) = old {
                put_json(&mut object, "old", &old.0);
            }
        }
        CommittedChange::Created(name) => drop(object.insert("created".to_owned(), json!(name))),
        CommittedChange::Renamed { from, to } => {
            object.insert("renamed".to_owned(), json!(from));
            object.insert("to".to_owned(), json!(to));
        }
        CommittedChange::Dropped(name) => drop(object.insert("dropped".to_owned(), json!(name))),
        CommittedChange::Loaded { table, name } => {
            drop(object.insert("loaded".to_owned(), name.as_ref().map_or(json!(table), |name| json!(name))));
        }
        _ => {}
    }
    Value::Object(object)
}

/// Ignores the error if a signal has closed the database. The transactions printed since the last
/// acknowledgement are then printed again by the next run.
fn acknowledged(outcome: katydid::Result<()>) -> Result<()> {
    match outcome {
        Err(Error::Closed) => Ok(()),
        outcome => outcome.map_err(Failure::from),
    }
}
