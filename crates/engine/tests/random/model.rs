//! Random transactions from several threads, compared with a `BTreeMap`.
//!
//! In the paged engine, under strict two-phase locking, the order of commit records is a serial
//! order: if two transactions conflict, one of them appends its commit record before the other gets
//! the lock. So the test replays the committed transactions on the model in the order of their
//! commit stamps, which is the order of the commit records. Every point or range that a transaction
//! read must be what the model holds at that moment. Each transaction writes, so each has a commit
//! record and a stamp of its own.
//!
//! If the log does not keep the order of appends, the order of commit records is no serial order: a
//! transaction that replaces what another has read may lie lower in the log. With such a log each
//! transaction draws a ticket while it holds all its locks, and the tickets are the order.
//!
//! Memory engine: a commit returns the transaction's timestamp, and the timestamps are the order. A
//! commit may be refused, and the reads of a refused transaction need not be true.

use crate::common::{self, Rng, chunked, key, options_for, seed, with_advanced};
use katydid::{CommitStamp, Database, EngineKind, Error, LockRelease, Options, Range, Table};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

suite! {
    transactions_of_one_thread_match_the_model,
    transactions_of_four_threads_match_the_model,
    contended_transactions_match_the_model,
    transactions_that_keep_locks_until_durable_match_the_model,
    a_large_cache_changes_nothing,
    a_log_without_order_matches_the_model,
}

suite! {
    in_nvram:
    transactions_of_one_thread_match_the_model,
    contended_transactions_match_the_model,
    a_ring_that_goes_round_and_round_matches_the_model,
    a_ring_without_order_matches_the_model,
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Step {
    Read {
        key: Vec<u8>,
        found: Option<Vec<u8>>,
    },
    Scan {
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
        back: bool,
        taken: usize,
        found: Vec<(Vec<u8>, Vec<u8>)>,
    },
    /// An insertion that was refused because the key exists.
    Exists {
        key: Vec<u8>,
    },
    Write {
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    },
}

struct Committed {
    ticket: u64,
    stamp: CommitStamp,
    steps: Vec<Step>,
}

static TICKETS: AtomicU64 = AtomicU64::new(0);

fn value(random: &mut Rng, tag: u64) -> Vec<u8> {
    // Most values are short; now and then a value needs an overflow chain.
    let length = match random.u32(0..20) {
        0 => random.usize(0..60_000),
        1..4 => random.usize(0..3000),
        _ => random.usize(0..200),
    };
    let mut value: Vec<u8> = tag.to_le_bytes().to_vec();
    value.resize(8 + length, tag as u8);
    value
}

type Row = (Vec<u8>, Vec<u8>);

/// Returns the entries of a range, taken one by one as the range lends them.
fn lent(mut range: Range<'_>, back: bool) -> Result<Vec<Row>, Error> {
    let mut entries = Vec::new();
    while let Some((key, value)) = if back { range.next_back_ref()? } else { range.next_ref()? } {
        entries.push((key.to_vec(), value.to_vec()));
    }
    Ok(entries)
}

fn range_bound(random: &mut Rng, keys: u64) -> Bound<Vec<u8>> {
    match random.u32(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key(random.u64(0..keys))),
        _ => Bound::Excluded(key(random.u64(0..keys))),
    }
}

/// Runs one transaction. Returns `None` if it met a conflict or rolled back.
fn run_one(database: &Database, table: &Table, random: &mut Rng, keys: u64, tag: u64) -> Option<Committed> {
    let txn = database.begin().expect("begin");
    let mut steps = Vec::new();
    let mut savepoints = Vec::new();
    let retry = |error: Error| {
        // Some transactions are too large for the smallest rings.
        assert!(error.is_retryable() || matches!(error, Error::LogFull { .. }), "{error}");
        None
    };
    for _ in 0..random.usize(1..8) {
        let key = key(random.u64(0..keys));
        match random.u32(0..100) {
            0..20 => match txn.get(table, &key) {
                Ok(found) => steps.push(Step::Read { key, found }),
                Err(error) => return retry(error),
            },
            20..30 => match txn.get_for_update(table, &key) {
                Ok(found) => steps.push(Step::Read { key, found }),
                Err(error) => return retry(error),
            },
            30..60 => {
                let value = value(random, tag);
                match txn.put(table, &key, &value) {
                    Ok(()) => steps.push(Step::Write { key, value: Some(value) }),
                    Err(error) => return retry(error),
                }
            }
            60..68 => {
                let value = value(random, tag);
                match txn.insert(table, &key, &value) {
                    Ok(()) => {
                        steps.push(Step::Read { key: key.clone(), found: None });
                        steps.push(Step::Write { key, value: Some(value) });
                    }
                    Err(Error::KeyExists { .. }) => {
                        let found = match txn.get(table, &key) {
                            Ok(found) => found,
                            Err(error) => return retry(error),
                        };
                        steps.push(Step::Exists { key: key.clone() });
                        steps.push(Step::Read { key, found });
                    }
                    Err(error) => return retry(error),
                }
            }
            68..82 => match txn.delete(table, &key) {
                Ok(_) => steps.push(Step::Write { key, value: None }),
                Err(error) => return retry(error),
            },
            82..92 => {
                let (from, to) = (range_bound(random, keys), range_bound(random, keys));
                let (back, limit) = (random.bool(), random.usize(1..12));
                let range = txn.range(table, (from.clone(), to.clone()));
                let found: Result<Vec<_>, Error> = match random.u32(0..3) {
                    0 if back => range.rev().take(limit).collect(),
                    0 => range.take(limit).collect(),
                    1 if back => range.limit(limit).rev().collect(),
                    1 => range.limit(limit).collect(),
                    _ => lent(range.limit(limit), back),
                };
                match found {
                    Ok(found) => {
                        let taken = if found.len() < limit { usize::MAX } else { limit };
                        steps.push(Step::Scan { from, to, back, taken, found });
                    }
                    Err(error) => return retry(error),
                }
            }
            92..96 => savepoints.push((txn.savepoint(), steps.len())),
            _ => {
                if !savepoints.is_empty() {
                    let at = random.usize(0..savepoints.len());
                    savepoints.truncate(at + 1);
                    let (savepoint, length) = &savepoints[at];
                    txn.rollback_to(savepoint).expect("rollback to a savepoint");
                    // The writes since the savepoint are undone, and the model leaves out the reads
                    // since then. Earlier reads stay locked, so they must still hold at the commit.
                    steps.truncate(*length);
                }
            }
        }
    }
    let own = format!("own-{tag}").into_bytes();
    match txn.put(table, &own, b"here") {
        Ok(()) => steps.push(Step::Write { key: own, value: Some(b"here".to_vec()) }),
        Err(error) => return retry(error),
    }
    let ticket = TICKETS.fetch_add(1, Ordering::SeqCst);
    match random.u32(0..10) {
        0 => {
            txn.rollback().expect("rollback");
            None
        }
        1 => {
            drop(txn);
            None
        }
        2..4 => common::committed(database, common::block_on(txn.commit_async())).map(|stamp| Committed {
            ticket,
            stamp,
            steps,
        }),
        _ => common::committed(database, txn.commit()).map(|stamp| Committed { ticket, stamp, steps }),
    }
}

fn replay(committed: &[Committed]) -> Model {
    let mut model = Model::new();
    for (nth, transaction) in committed.iter().enumerate() {
        // Reads see the transaction's own writes: replay them in order.
        for (step_nth, step) in transaction.steps.iter().enumerate() {
            match step {
                Step::Read { key, found } => {
                    assert_eq!(
                        model.get(key).map(|v| v.len()),
                        found.as_ref().map(|v| v.len()),
                        "transaction {nth} ({}) step {step_nth}, key {}",
                        transaction.stamp,
                        String::from_utf8_lossy(key)
                    );
                    assert!(model.get(key) == found.as_ref());
                }
                Step::Exists { key } => {
                    let name = String::from_utf8_lossy(key);
                    assert!(model.contains_key(key), "transaction {nth} step {step_nth}: no key {name}");
                }
                Step::Scan { from, to, back, taken, found } => {
                    let expected = common::model_range(&model, from, to, *back, *taken);
                    let names = |rows: &[(Vec<u8>, Vec<u8>)]| -> Vec<String> {
                        rows.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
                    };
                    assert_eq!(
                        names(&expected),
                        names(found),
                        "transaction {nth} ({}) step {step_nth}: scan {from:?} {to:?} back {back}",
                        transaction.stamp
                    );
                    assert!(expected == *found, "transaction {nth}: values of a scan differ");
                }
                Step::Write { key, value: Some(value) } => {
                    model.insert(key.clone(), value.clone());
                }
                Step::Write { key, value: None } => {
                    model.remove(key);
                }
            }
        }
    }
    model
}

fn check(seed: u64, options: Options, threads: u64, per_thread: u64, keys: u64, checkpoints: bool) {
    println!("KATYDID_SEED={seed}");
    let folder = tempfile::tempdir().expect("folder");
    let database = Database::open_with(folder.path(), options.clone()).expect("open");
    let table = database.table("model").expect("table");
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut committed: Vec<Committed> = std::thread::scope(|scope| {
        let checkpointer = checkpoints.then(|| {
            let (database, done) = (database.clone(), done.clone());
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    database.checkpoint().expect("checkpoint");
                    database.verify(None).expect("verify while in use");
                }
            })
        });
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (database, table) = (&database, &table);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(seed.wrapping_mul(1000) + thread);
                    let mut committed = Vec::new();
                    for nth in 0..per_thread {
                        let tag = thread * per_thread + nth + 1;
                        committed.extend(run_one(database, table, &mut random, keys, tag));
                    }
                    committed
                })
            })
            .collect();
        let outcomes: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(checkpointer) = checkpointer {
            checkpointer.join().expect("checkpointer");
        }
        outcomes.into_iter().flat_map(|outcome| outcome.expect("worker")).collect()
    });
    assert!(committed.len() as u64 > threads * per_thread / 10, "only {} committed", committed.len());
    match options.engine.kind() == EngineKind::Memory || options.advanced.log.medium.keeps_order() {
        true => committed.sort_by_key(|transaction| transaction.stamp),
        false => committed.sort_by_key(|transaction| transaction.ticket),
    }
    let model = replay(&committed);
    assert!(common::contents(&database, &table) == model, "the table is not what the commits say");
    common::assert_sound(&database.verify(None).expect("verify"));
    drop(table);
    database.close().expect("close");
    drop(database);
    let closed = Database::verify_path(folder.path(), None).expect("verify the closed database");
    common::assert_sound_as_it_lies(&closed);
    let database = Database::open_with(folder.path(), options).expect("open again");
    let table = database.open_table("model").expect("open table").expect("the table is there");
    assert!(common::contents(&database, &table) == model, "the table changed by closing and opening");
}

fn transactions_of_one_thread_match_the_model(engine: EngineKind) {
    check(seed(1), options_for(engine), 1, 1500, 60, false);
}

fn transactions_of_four_threads_match_the_model(engine: EngineKind) {
    check(seed(2), options_for(engine), 4, 400, 200, true);
}

fn contended_transactions_match_the_model(engine: EngineKind) {
    check(seed(3), options_for(engine), 4, 300, 12, false);
}

fn transactions_that_keep_locks_until_durable_match_the_model(engine: EngineKind) {
    check(
        seed(4),
        with_advanced(options_for(engine), |advanced| advanced.lock_release = LockRelease::AfterDurable),
        4,
        300,
        40,
        true,
    );
}

fn a_large_cache_changes_nothing(engine: EngineKind) {
    let mut options = options_for(engine);
    if let Some(paged) = options.engine.paged_mut() {
        paged.cache_bytes = 64 << 20;
    }
    check(seed(5), options, 4, 400, 100, false);
}

fn a_log_without_order_matches_the_model(engine: EngineKind) {
    check(seed(6), chunked(options_for(engine)), 4, 400, 200, true);
    check(seed(7), chunked(options_for(engine)), 4, 300, 12, true);
    let options = with_advanced(chunked(options_for(engine)), |advanced| {
        advanced.lock_release = LockRelease::AfterDurable
    });
    check(seed(8), options, 4, 200, 40, true);
}

/// Returns options with a ring that is full again and again, so transactions wait for checkpoints,
/// even after their first changes.
fn small_ring(engine: EngineKind) -> Options {
    crate::common::with_memory(crate::common::with_streams(options_for(engine), 2), 256 << 10)
}

fn a_ring_that_goes_round_and_round_matches_the_model(engine: EngineKind) {
    check(seed(9), small_ring(engine), 4, 300, 60, false);
    check(
        seed(10),
        with_advanced(small_ring(engine), |advanced| advanced.lock_release = LockRelease::AfterDurable),
        3,
        200,
        40,
        true,
    );
}

fn a_ring_without_order_matches_the_model(engine: EngineKind) {
    check(seed(11), chunked(small_ring(engine)), 4, 200, 60, true);
}
