//! Cost of a live feed to committing threads, and its lag: `change_rate [DIRECTORY]`.
//!
//! Two threads put keys of 16 bytes with values of 100 bytes, each thread with 1,000 commits in
//! flight. For each engine, runs without a thread that reads the feed alternate with runs that have
//! one. Without a directory the device is memory. The lag of a transaction is the time from just
//! before its commit was submitted until the feed returned the transaction. One in 64 transactions
//! is measured.

use katydid::{Change, ChangesFrom, Database, EngineKind, Options};
use katydid_device::{Directory, FileDirectory, MemoryDirectory};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const THREADS: u64 = 2;
const IN_FLIGHT: usize = 1_000;
const SECONDS: u64 = 3;

/// Returns the commits per second and, if `with_feed`, the transactions per second that the feed
/// returned, and the measured lags in microseconds.
fn run(engine: EngineKind, directory: Arc<dyn Directory>, with_feed: bool) -> (f64, f64, Vec<u64>) {
    let options = Options { engine: engine.into(), ..Options::default() };
    let database = Database::open_in(directory, options).expect("open");
    let table = database.table("t").expect("table");
    let mut changes = with_feed.then(|| database.changes(&ChangesFrom::Now).expect("changes"));
    let (stop, begin) = (AtomicBool::new(false), Instant::now());
    let (commits, (given, lags)) = std::thread::scope(|scope| {
        let committers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (database, table, stop) = (&database, &table, &stop);
                scope.spawn(move || {
                    let session = database.session();
                    let mut nth = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        let mut value = [7; 100];
                        if nth.is_multiple_of(64) {
                            value[..8].copy_from_slice(&(begin.elapsed().as_micros() as u64).to_le_bytes());
                            value[8] = 1;
                        }
                        let hash = (thread << 40 | nth).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        let key = [hash.to_le_bytes(), nth.to_le_bytes()].concat();
                        let txn = database.begin().expect("begin");
                        txn.put(table, key, value).expect("put");
                        txn.commit_with(&session, |outcome| {
                            let _stamp = outcome.expect("commit");
                        });
                        session.wait_below(IN_FLIGHT).expect("wait");
                        nth += 1;
                    }
                    session.drain().expect("drain");
                    nth
                })
            })
            .collect();
        let feed = changes.as_mut().map(|changes| {
            let stop = &stop;
            scope.spawn(move || {
                let (mut given, mut lags) = (0u64, Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let transaction = changes.next().expect("feed");
                    given += 1;
                    for change in &transaction.changes {
                        if let Change::Row { new: katydid::NewValue::Value(value), .. } = change
                            && value.get(8) == Some(&1)
                        {
                            let sent = u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
                            lags.push((begin.elapsed().as_micros() as u64).saturating_sub(sent));
                        }
                    }
                }
                (given, lags)
            })
        });
        std::thread::sleep(Duration::from_secs(SECONDS));
        stop.store(true, Ordering::Relaxed);
        let commits: u64 = committers.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        // The thread of the feed may wait for one more transaction, so one more is committed.
        database.put(&table, "last", "one").expect("put");
        (commits, feed.map_or((0, Vec::new()), |feed| feed.join().expect("no panic")))
    });
    let seconds = begin.elapsed().as_secs_f64();
    drop(changes);
    database.close().expect("close");
    (commits as f64 / seconds, given as f64 / seconds, lags)
}

fn main() {
    let place = std::env::args().nth(1);
    for engine in [EngineKind::Paged, EngineKind::Memory] {
        for round in 0..3 {
            for with_feed in [false, true] {
                let directory: Arc<dyn Directory> = match &place {
                    None => Arc::new(MemoryDirectory::new()),
                    Some(place) => {
                        let folder = format!("{place}/{engine}-{round}-{with_feed}");
                        Arc::new(FileDirectory::open(std::path::Path::new(&folder)).expect("a folder"))
                    }
                };
                let (commits, given, mut lags) = run(engine, directory, with_feed);
                lags.sort_unstable();
                let at = |share: usize| lags.get(lags.len() * share / 100).copied().unwrap_or(0);
                println!(
                    "{engine} round {round} feed {with_feed}: {commits:.0} commits/s, {given:.0} given/s, \
                     lag p50 {} us, p99 {} us",
                    at(50),
                    at(99)
                );
            }
        }
    }
}
