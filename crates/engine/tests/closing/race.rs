//! Threads that commit, roll back and read while another thread closes, over and over on one
//! directory.
//!
//! Before each next opening the closed database is checked, and must be sound. The paged engine
//! must have marked the database as closed cleanly if no transaction that had written was open. The
//! next opening must have each key with its last acknowledged value.

use crate::common::{self, Rng, options_for};
use katydid::{Database, EngineKind, Error, Table};
use katydid_device::MemoryDirectory;
use std::collections::BTreeMap;
use std::sync::Arc;

const THREADS: u64 = 3;
const OPENINGS: u64 = 25;

/// Values acknowledged last, by key.
type Acknowledged = BTreeMap<Vec<u8>, Vec<u8>>;

/// Work of a thread until the database was closed.
struct Work {
    acknowledged: Acknowledged,
    /// True if the thread had a transaction open at the close, and this transaction had written.
    was_open: bool,
}

/// Works until the database is closed.
fn work(database: &Database, table: &Table, thread: u64, opening: u64, seed: u64) -> Work {
    let mut rng = Rng::with_seed(seed ^ opening << 8 ^ thread);
    let mut acknowledged = Acknowledged::new();
    let mut round = 0_u64;
    loop {
        round += 1;
        let key = format!("{thread}-{:02}", rng.u64(..20)).into_bytes();
        let value = format!("{opening}-{round}-{}", "x".repeat(rng.usize(..300))).into_bytes();
        let mut was_open = false;
        let outcome = database.begin().and_then(|txn| {
            txn.get(table, format!("{}-{:02}", rng.u64(..THREADS), rng.u64(..20)))?;
            txn.put(table, &key, &value)?;
            was_open = true;
            match rng.u64(..8) {
                0 => txn.rollback().map(|()| false),
                1 => common::block_on(txn.commit_async()).map(|_| true),
                2 => database.checkpoint().and(txn.commit()).map(|_| true),
                _ => txn.commit().map(|_| true),
            }
        });
        match outcome {
            Ok(true) => drop(acknowledged.insert(key, value)),
            Ok(false) => {}
            Err(Error::Closed) => return Work { acknowledged, was_open },
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("thread {thread}: {error}"),
        }
    }
}

pub fn committers_beside_close_leave_a_true_mark(engine: EngineKind) {
    let seed = common::seed(common::fresh_seed());
    println!("replay with KATYDID_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let memory = MemoryDirectory::new();
    let mut model = Acknowledged::new();
    for opening in 0..OPENINGS {
        let database = Database::open_in(Arc::new(memory.clone()), options_for(engine)).unwrap();
        let table = database.table("t").unwrap();
        let found = common::contents(&database, &table);
        assert!(found == model, "engine {engine}, seed {seed}, opening {opening}: not what was acknowledged");
        let commits = rng.u64(..40);
        let done: Vec<_> = std::thread::scope(|scope| {
            let (database, table) = (&database, &table);
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || work(database, table, thread, opening, seed)))
                .collect();
            while database.stat().unwrap().commits < commits {
                std::thread::yield_now();
            }
            database.close().unwrap();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        let was_open = done.iter().any(|work| work.was_open);
        done.into_iter().for_each(|work| model.extend(work.acknowledged));
        let report = Database::verify_in(Arc::new(memory.clone()), None).unwrap();
        assert!(report.is_sound(), "engine {engine}, seed {seed}, opening {opening}: {:#?}", report.faults);
        // If the log is short compared with the rows, the memory engine leaves it to the next
        // opening, and does not mark the database as closed cleanly.
        let may_be_unclean = was_open || engine == EngineKind::Memory;
        assert!(
            report.clean || may_be_unclean,
            "engine {engine}, seed {seed}, opening {opening}: not marked as closed cleanly"
        );
    }
}
