//! Reading from a database, whether or not a process has it open.
//!
//! A closed database is opened read-only, so that it is not changed. If a process has the database
//! open, that process answers the requests at its socket. One function answers requests in both
//! cases.

use crate::database::{DatabaseDir, close_after, no_table};
use crate::failure::{Failure, Result};
use katydid::{ArchiveMark, Database, Error, KeyRange, LogStretch};
use katydid_observe::{AskError, Bytes, Client, ConnectError, Refusal, Reply, Request, SOCKET_NAME, answer};
use serde_json::Value;
use std::ops::Bound;
use std::path::Path;

/// The lower and the upper bound of a range of keys.
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A database to read from.
#[derive(Debug)]
pub enum Look {
    /// No other process has the database open, so this process has opened it.
    Closed(Database),
    /// The database is open in another process, which answers requests.
    Running(Client),
}

/// A request for the entries of a range.
#[derive(Debug)]
pub struct Wanted {
    /// The range.
    pub keys: Bounds,
    /// True for the order from the last key to the first.
    pub reverse: bool,
    /// Maximum number of entries.
    pub limit: u64,
}

/// The request of an archive for the next stretch of the log.
#[derive(Debug)]
pub struct ArchiveRequest<'a> {
    /// Name of the archiver.
    pub archiver: &'a str,
    /// Maximum bytes of log that the database keeps for the archiver.
    pub keep: u64,
    /// True to get, if no further log is durable, a stretch without log that only notes the moment.
    pub note: bool,
}

impl DatabaseDir {
    /// Opens the database, which must exist, for writing. If another process has it open, connects
    /// to that process instead.
    pub fn open_or_ask(&self) -> Result<Look> {
        self.must_exist()?;
        match self.try_open() {
            Err(locked @ Error::Locked { .. }) => self.look_at_running(&locked),
            opened => Ok(Look::Closed(opened?)),
        }
    }

    /// Opens the database, which must exist, read-only. If another process has it open, connects to
    /// that process instead.
    pub fn look(&self) -> Result<Look> {
        self.must_exist()?;
        match self.open_read_only() {
            Err(locked @ Error::Locked { .. }) => self.look_at_running(&locked),
            opened => Ok(Look::Closed(opened?)),
        }
    }

    /// Connects to the process that has the database open. `locked` is the error that says so.
    fn look_at_running(&self, locked: &Error) -> Result<Look> {
        match Client::connect(&self.dir) {
            Ok(client) => Ok(Look::Running(client)),
            Err(ConnectError::NoSocket) => Err(Failure::failed(format_args!(
                "{locked}; other processes cannot read the database, because that process has opened no socket \
                 (a program calls katydid_observe::Socket::open)"
            ))),
            Err(error) => Err(Failure::failed(format_args!("{locked}; {error}"))),
        }
    }
}

/// Returns whether the process that had the database in folder `dir` open has closed its socket.
/// Returns false if that process died, because a crash leaves the socket's file.
pub fn has_closed_socket(dir: &Path) -> bool {
    !dir.join(SOCKET_NAME).exists()
}

impl Look {
    /// Sends a request, and waits for the reply.
    fn ask(&mut self, request: &Request) -> Result<Reply> {
        let refusal = match self {
            Look::Closed(database) => match answer(database, request) {
                Reply::Refused(refusal) => refusal,
                reply => return Ok(reply),
            },
            Look::Running(client) => match ask_again(client, request) {
                Err(AskError::Refused(refusal)) => refusal,
                reply => return reply.map_err(Failure::failed),
            },
        };
        match refusal {
            Refusal::NoTable(name) => Err(no_table(&name, &self.tables()?)),
            refusal => Err(Failure::failed(refusal)),
        }
    }

    /// Returns the names of all tables, sorted.
    pub fn tables(&mut self) -> Result<Vec<String>> {
        match self.ask(&Request::Tables)? {
            Reply::Tables(tables) => Ok(tables),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns positions and counters, as a JSON object.
    pub fn stat(&mut self) -> Result<Value> {
        match self.ask(&Request::Stat)? {
            Reply::Stat(stat) => Ok(stat),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the value of a key.
    pub fn get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.ask(&Request::Get { table: table.to_owned(), key: key.into() })? {
            Reply::Value(value) => Ok(value.map(|value| value.0)),
            other => Err(unexpected(&other)),
        }
    }

    /// Calls `each` with the entries of the request, in order.
    pub fn scan(
        &mut self,
        table: &str,
        wanted: Wanted,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let Wanted { mut keys, reverse, mut limit } = wanted;
        loop {
            let request = Request::Scan { table: table.to_owned(), keys: asked(&keys), reverse, limit };
            let (rows, more) = match self.ask(&request)? {
                Reply::Rows { rows, more } => (rows, more),
                other => return Err(unexpected(&other)),
            };
            rows.iter().try_for_each(|(key, value)| each(&key.0, &value.0))?;
            limit = limit.saturating_sub(rows.len() as u64);
            match rows.into_iter().next_back() {
                Some((last, _)) if more && limit > 0 => {
                    let next = Bound::Excluded(last.0);
                    *(if reverse { &mut keys.1 } else { &mut keys.0 }) = next;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Returns the number of keys in a range.
    pub fn count(&mut self, table: &str, keys: impl KeyRange) -> Result<u64> {
        let mut keys = keys.into_bounds();
        let mut total = 0;
        loop {
            match self.ask(&Request::Count { table: table.to_owned(), keys: asked(&keys) })? {
                Reply::Count { count, last } => {
                    total += count;
                    match last {
                        Some(last) => keys.0 = Bound::Excluded(last.0),
                        None => return Ok(total),
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Returns the stretch of a running database's log that follows an archive's end, and the bytes
    /// of log after that stretch. Acknowledges the log up to the archive's end.
    pub fn log_stretch(
        &mut self,
        ArchiveRequest { archiver, keep, note }: &ArchiveRequest<'_>,
        archived: Option<&ArchiveMark>,
    ) -> Result<Option<(LogStretch, u64)>> {
        let (archiver, keep, note) = ((*archiver).to_owned(), *keep, *note);
        let archived = archived.map(|mark| Bytes(mark.to_bytes().to_vec()));
        match self.ask(&Request::LogStretch { archiver, keep, archived, note })? {
            Reply::LogStretch { stretch: None, .. } => Ok(None),
            Reply::LogStretch { stretch: Some(Bytes(bytes)), left } => {
                Ok(Some((LogStretch::from_bytes(&bytes)?, left)))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Closes the database after the command has printed its output. Returns the error of the
    /// output if there is one, else the error of closing.
    pub fn finish(self, output: Result<()>) -> Result<()> {
        match self {
            Look::Closed(database) => close_after(&database, output),
            Look::Running(_) => output,
        }
    }
}

/// Asks the process that has the database open. If that process has ended the connection, asks once
/// more over a new connection. A process ends a connection on which it gets no request for a
/// minute, and a command may take longer than that between two requests. No request of a [`Look`]
/// depends on the connection of an earlier one.
fn ask_again(client: &mut Client, request: &Request) -> std::result::Result<Reply, AskError> {
    match client.ask(request) {
        Err(AskError::Ended) if client.reconnect().is_ok() => client.ask(request),
        reply => reply,
    }
}

fn asked((low, high): &Bounds) -> (Bound<Bytes>, Bound<Bytes>) {
    (low.clone().map(Bytes), high.clone().map(Bytes))
}

/// Makes the failure for a reply that does not belong to the request. The process must be of
/// another version that has the same protocol number.
fn unexpected(reply: &Reply) -> Failure {
    Failure::failed(format_args!(
        "the process that has the database open sent an unexpected reply: {reply:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_observe::Socket;

    #[test]
    fn a_connection_that_the_process_has_ended_is_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::open(folder.path()).expect("open");
        let table = database.table("t").expect("a table");
        let fill = |txn: &katydid::Transaction| {
            (0..2_000_u32).try_for_each(|number| txn.put(&table, number.to_be_bytes(), "value"))
        };
        database.transact(fill).expect("put");
        let mut socket = Some(Socket::open(&database, folder.path()).expect("a socket"));
        let mut look = Look::Running(Client::connect(folder.path()).expect("connect"));
        // A socket that is closed ends its connections, as a socket does after a minute.
        let mut rows = 0;
        let wanted = Wanted { keys: (Bound::Unbounded, Bound::Unbounded), reverse: false, limit: u64::MAX };
        let scanned = look.scan("t", wanted, |_, _| {
            rows += 1;
            if rows == 10 {
                drop(socket.take());
                socket = Some(Socket::open(&database, folder.path()).expect("a socket"));
            }
            Ok(())
        });
        scanned.expect("the rest is read over another connection");
        assert_eq!(rows, 2_000);
        drop(socket);
        let ended = look.tables().expect_err("no process listens");
        assert!(matches!(&ended, Failure::Failed(why) if why.contains("ended the connection")), "{ended:?}");
    }
}
