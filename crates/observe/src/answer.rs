//! Answers requests from an open database.
//!
//! The thread of a connection runs this code, or the thread of a program that has opened the
//! database itself. Rows are read in a short read-only transaction, which ends before the reply is
//! sent. So a client that does not read its reply blocks nothing in the database.

use crate::bytes::Bytes;
use crate::protocol::{Refusal, Reply, Request};
use crate::stat;
use katydid::{ArchiveMark, Database, Error, Table, Transaction};
use std::ops::Bound;

/// Maximum number of entries in one reply.
const ROWS_MAX: usize = 1000;
/// Bytes of keys and values after which a reply takes no further entry.
const ROWS_BYTES: usize = 1 << 20;
/// Maximum number of keys that one reply counts.
const COUNTED_MAX: u64 = 10_000;
/// Maximum number of times that a transaction is repeated after conflicts.
const TRIES: usize = 10;

/// Answers `request` from `database`. An error becomes a [`Reply::Refused`]. [`Request::Changes`]
/// and [`Request::Backup`] are refused: a connection answers these two itself, and does not pass
/// them to this function. A program that has the database open calls the database's methods
/// instead.
pub fn answer(database: &Database, request: &Request) -> Reply {
    match read(database, request) {
        Ok(reply) => reply,
        Err(error) => Reply::Refused(Refusal::Failed(error.to_string())),
    }
}

fn read(database: &Database, request: &Request) -> Result<Reply, Error> {
    match request {
        Request::Tables => Ok(Reply::Tables(database.tables()?)),
        Request::Stat => Ok(Reply::Stat(stat::as_json(&database.stat()?))),
        Request::LogStretch { archiver, keep, archived, note } => {
            log_stretch(database, (archiver, *keep), archived.as_ref(), *note)
        }
        Request::Changes { .. } | Request::Backup { .. } => {
            let reason = "only a connection to a socket answers it".to_owned();
            Ok(Reply::Refused(Refusal::Request(reason)))
        }
        Request::Get { table, key } => {
            in_table(database, table, |txn, table| Ok(Reply::Value(txn.get(table, &key.0)?.map(Bytes))))
        }
        Request::Scan { table, keys, reverse, limit } => {
            in_table(database, table, |txn, table| rows(txn, table, bounds(keys), *reverse, *limit))
        }
        Request::Count { table, keys } => {
            in_table(database, table, |txn, table| count(txn, table, bounds(keys)))
        }
    }
}

/// Answers [`Request::LogStretch`]. This request changes the database: it moves the position from
/// which the log is kept for the archiver.
fn log_stretch(
    database: &Database,
    (archiver, keep): (&str, u64),
    archived: Option<&Bytes>,
    note: bool,
) -> Result<Reply, Error> {
    let mut archiver = match archived {
        Some(mark) => database.log_archiver_after(archiver, keep, &ArchiveMark::from_bytes(&mark.0)?)?,
        None => database.log_archiver(archiver, keep)?,
    };
    let stretch = match archiver.try_next()? {
        None if note => archiver.note()?,
        stretch => stretch,
    };
    Ok(Reply::LogStretch { stretch: stretch.map(|stretch| Bytes(stretch.to_bytes())), left: archiver.left() })
}

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn bounds((low, high): &(Bound<Bytes>, Bound<Bytes>)) -> Bounds {
    (low.clone().map(|key| key.0), high.clone().map(|key| key.0))
}

/// Runs `read` in a read-only transaction, and repeats it after a conflict.
fn in_table(
    database: &Database,
    name: &str,
    read: impl Fn(&Transaction, &Table) -> Result<Reply, Error>,
) -> Result<Reply, Error> {
    let Some(table) = database.open_table(name)? else {
        return Ok(Reply::Refused(Refusal::NoTable(name.to_owned())));
    };
    let mut tries = 0;
    loop {
        let txn = database.begin_read_only()?;
        // The reply is returned only after the commit, which waits until all that was read is
        // durable.
        match read(&txn, &table).and_then(|reply| txn.commit().map(|_| reply)) {
            Err(error) if error.is_retryable() && tries < TRIES => tries += 1,
            outcome => return outcome,
        }
    }
}

fn rows(txn: &Transaction, table: &Table, keys: Bounds, reverse: bool, limit: u64) -> Result<Reply, Error> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX).min(ROWS_MAX);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    // Read one entry more than is returned, to know whether the range has more.
    let mut range = txn.range(table, keys).limit(most.saturating_add(1));
    let mut more = false;
    while let Some((key, value)) = if reverse { range.next_back_ref()? } else { range.next_ref()? } {
        if rows.len() == most || bytes > ROWS_BYTES {
            more = true;
            break;
        }
        bytes += key.len() + value.len();
        rows.push((Bytes(key.to_vec()), Bytes(value.to_vec())));
    }
    Ok(Reply::Rows { rows, more })
}

fn count(txn: &Transaction, table: &Table, keys: Bounds) -> Result<Reply, Error> {
    let mut range = txn.range(table, keys).limit(COUNTED_MAX as usize);
    let (mut count, mut last) = (0, Vec::new());
    while let Some((key, _)) = range.next_ref()? {
        count += 1;
        if count == COUNTED_MAX {
            last = key.to_vec();
        }
    }
    Ok(Reply::Count { count, last: (count == COUNTED_MAX).then_some(Bytes(last)) })
}
