//! Runs the transaction of a request on the database of a replica.
//!
//! The connection's thread runs this code. A refused transaction has changed nothing, and a
//! transaction that is reported as committed is durable.

use super::answers::{ANSWER_BYTES_MAX, Answers, LastAnswer, TABLE};
use super::message::{Action, Operation, Outcome, Refusal, TransactionId};
use katydid::{Database, Error, Table, Transaction};
use std::collections::HashMap;

/// The tables that one connection has used, by name.
#[derive(Debug, Default)]
pub(super) struct KnownTables(HashMap<String, Table>);

impl KnownTables {
    /// Returns the table of this name. The table is created if it is missing.
    pub fn get(&mut self, database: &Database, name: &str) -> Result<Table, Error> {
        if let Some(table) = self.0.get(name) {
            return Ok(table.clone());
        }
        let table = database.table(name)?;
        self.0.insert(name.to_owned(), table.clone());
        Ok(table)
    }

    /// Forgets all tables, because one of them was dropped outside of this connection.
    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Reason why a transaction is not committed.
enum Stopped {
    Refused(Refusal),
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Stopped::Failed(error)
    }
}

/// Runs a transaction and commits it with its row in the table of answers.
pub(super) fn apply(
    database: &Database,
    known: &mut KnownTables,
    answers: &Answers,
    id: TransactionId,
    operations: &[Operation],
) -> Result<LastAnswer, Outcome> {
    // A client that wrote this table could make the replica answer for transactions that the
    // replica does not have, or prevent the replica from starting again.
    if operations.iter().any(|operation| operation.table == TABLE) {
        let text = format!("table {TABLE:?} is reserved for the replica");
        return Err(Outcome::Refused(Refusal::NotAllowed(text)));
    }
    let tables: Result<Vec<Table>, Error> =
        operations.iter().map(|operation| known.get(database, &operation.table)).collect();
    let tables = tables.map_err(failed)?;
    let done = database.try_transact(|transaction| {
        let found = run(transaction, operations, &tables)?;
        let answer = LastAnswer { sequence: id.sequence, found };
        answers.record(transaction, id.client, &answer)?;
        Ok(answer)
    });
    done.map_err(|stopped| match stopped {
        Stopped::Refused(refusal) => Outcome::Refused(refusal),
        Stopped::Failed(error) => {
            if matches!(error, Error::TableDropped { .. }) {
                known.clear();
            }
            failed(error)
        }
    })
}

/// Runs the operations. Returns the values that the reads have found, in order.
fn run(
    transaction: &Transaction,
    operations: &[Operation],
    tables: &[Table],
) -> Result<Vec<Option<Vec<u8>>>, Stopped> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for ((number, Operation { key, action, .. }), table) in (0..).zip(operations).zip(tables) {
        match action {
            Action::Insert(value) => match transaction.insert(table, key, value) {
                Err(Error::KeyExists { .. }) => {
                    return Err(Stopped::Refused(Refusal::KeyExists { operation: number }));
                }
                result => result?,
            },
            Action::Put(value) => transaction.put(table, key, value)?,
            Action::Delete => {
                if !transaction.delete(table, key)? {
                    return Err(Stopped::Refused(Refusal::NoSuchKey { operation: number }));
                }
            }
            Action::Read => {
                let value = transaction.get(table, key)?;
                bytes += value.as_ref().map_or(0, Vec::len);
                if bytes > ANSWER_BYTES_MAX {
                    let text = format!("a transaction reads more than {ANSWER_BYTES_MAX} bytes");
                    return Err(Stopped::Refused(Refusal::NotAllowed(text)));
                }
                found.push(value);
            }
        }
    }
    Ok(found)
}

/// Returns the outcome for an error of the database: refused if the error excludes a commit,
/// otherwise in doubt.
fn failed(error: Error) -> Outcome {
    let text = error.to_string();
    match error {
        error if error.is_retryable() => Outcome::Refused(Refusal::Conflict(text)),
        Error::TableDropped { .. } => Outcome::Refused(Refusal::Conflict(text)),
        Error::NoSpace { .. }
        | Error::LogFull { .. }
        | Error::MemoryFull { .. }
        | Error::TooManyTransactions { .. } => Outcome::Refused(Refusal::NoRoom(text)),
        Error::KeyTooLong { .. }
        | Error::ValueTooLong { .. }
        | Error::TableName { .. }
        | Error::TooManyTables { .. }
        | Error::ReadOnly => Outcome::Refused(Refusal::NotAllowed(text)),
        _ => Outcome::InDoubt(text),
    }
}
