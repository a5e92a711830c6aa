//! Thousands of clients of one database, each of which commits one transaction after the other.
//!
//! Client `c` sets its key to 1, 2, 3 ..., and begins the next commit when the last one is
//! acknowledged. So the key's value is the number of the client's commits in the database, and each
//! acknowledged number above that value is a lost commit.
//!
//! A few threads serve all clients. They pass commits to a session, whose callbacks report the
//! durable commits.

use super::tally::Ack;
use katydid::{AdvancedOptions, Database, FileOptions, LogOptions, Options, Table};
use katydid_command::failure::Result;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Number of threads that serve the clients.
pub const THREADS: u32 = 4;
/// The table of the clients' keys.
pub const TABLE: &str = "clients";

/// Returns options with small segments and frequent checkpoints, so that a power cut may interrupt
/// the preparation of a segment or a checkpoint.
pub fn options() -> Options {
    let files = FileOptions { segment_bytes: 4 << 20, ..FileOptions::default() };
    let log = LogOptions { medium: files.into(), reserve_bytes: 1 << 20, ..LogOptions::default() };
    Options {
        advanced: AdvancedOptions { checkpoint_bytes: 16 << 20, log, ..AdvancedOptions::default() },
        ..Options::default()
    }
}

/// Returns the key of a client.
pub fn key(client: u32) -> [u8; 4] {
    client.to_be_bytes()
}

/// Returns the number of commits that a client's value stands for.
pub fn number(value: &[u8]) -> u64 {
    value.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Runs all `clients` until `stop` is set, or until the database fails. Calls
/// `acknowledged` with acknowledgements, on any of the threads.
///
/// # Errors
/// The first failure of the database.
pub fn run(
    database: &Database,
    clients: u32,
    stop: &AtomicBool,
    acknowledged: impl Fn(&[Ack]) -> Result<()> + Sync,
) -> Result<()> {
    let table = database.table(TABLE)?;
    let part = |thread: u32| {
        let bound = |thread: u32| (u64::from(clients) * u64::from(thread) / u64::from(THREADS)) as u32;
        bound(thread)..bound(thread + 1)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (table, acknowledged) = (&table, &acknowledged);
                scope.spawn(move || serve(database, table, part(thread), stop, acknowledged))
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Outcomes that callbacks have reported and the serving thread has not read yet.
type Outcomes = Arc<Mutex<Vec<katydid::Result<Ack>>>>;

fn serve(
    database: &Database,
    table: &Table,
    clients: Range<u32>,
    stop: &AtomicBool,
    acknowledged: &impl Fn(&[Ack]) -> Result<()>,
) -> Result<()> {
    let session = database.session();
    let first = clients.start;
    let read = |client| Ok(database.get(table, key(client))?.map_or(0, |value| number(&value)));
    let mut numbers = clients.clone().map(read).collect::<Result<Vec<u64>>>()?;
    let mut idle: VecDeque<u32> = clients.collect();
    let reported = Outcomes::default();
    // Relaxed: a thread that reads the flag late only stops late.
    while !stop.load(Ordering::Relaxed) {
        while let Some(client) = idle.pop_front() {
            let number = &mut numbers[(client - first) as usize];
            *number += 1;
            let (number, outcomes, begun) = (*number, reported.clone(), Instant::now());
            let txn = database.begin()?;
            txn.put(table, key(client), number.to_be_bytes())?;
            txn.commit_with(&session, move |outcome| {
                let micros = u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX);
                let ack = outcome.map(|_| Ack { client, micros });
                outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(ack);
            });
        }
        session.wait_below(numbers.len().max(1))?;
        session.poll();
        let outcomes = std::mem::take(&mut *reported.lock().unwrap_or_else(PoisonError::into_inner));
        let acks = outcomes.into_iter().collect::<katydid::Result<Vec<Ack>>>()?;
        acknowledged(&acks)?;
        idle.extend(acks.iter().map(|ack| ack.client));
    }
    Ok(())
}
