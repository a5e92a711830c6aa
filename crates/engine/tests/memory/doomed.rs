//! Transactions that have read two states: no caller gets a result that such a transaction draws
//! from both states.
//!
//! The memory engine checks reads when a transaction ends. Until then a transaction may have seen a
//! part of the writes of another transaction, which commits with an earlier timestamp. The
//! deterministic cases begin such a writer first, and let it commit between two reads of the
//! victim.

use super::common::options_for;
use katydid::{Database, EngineKind, Error, Result, Table, Transaction};
use katydid_device::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn open() -> Database {
    Database::open_in(Arc::new(MemoryDirectory::new()), options_for(EngineKind::Memory)).unwrap()
}

/// Returns a caller's own error: out of stock.
fn none() -> Error {
    Error::Option { option: "stock", reason: "there is none".to_owned() }
}

/// A queue: each job is in one of two tables, never in both.
struct Jobs {
    database: Database,
    ready: Table,
    leased: Table,
}

impl Jobs {
    fn new(names: impl IntoIterator<Item = u64>) -> Self {
        let database = open();
        let (ready, leased) = (database.table("ready").unwrap(), database.table("leased").unwrap());
        let jobs = Jobs { database, ready, leased };
        let txn = jobs.database.begin().unwrap();
        names.into_iter().for_each(|name| txn.put(&jobs.ready, name.to_be_bytes(), "job").unwrap());
        txn.commit().unwrap();
        jobs
    }

    /// Takes a job over; `KeyExists` would mean that the job is in both tables.
    fn lease(&self, txn: &Transaction, name: u64) -> Result<bool> {
        let key = name.to_be_bytes();
        Ok(txn.delete(&self.ready, key)? && txn.insert(&self.leased, key, "lease").map(|()| true)?)
    }
}

#[test]
fn transact_runs_again_instead_of_telling_of_a_key_that_its_reads_exclude() {
    let jobs = Jobs::new([7]);
    let mut earlier = Some(jobs.database.begin().unwrap());
    let outcome = jobs.database.transact(|txn| {
        let is_ready = txn.get(&jobs.ready, 7u64.to_be_bytes())?.is_some();
        if let Some(earlier) = earlier.take() {
            assert!(jobs.lease(&earlier, 7)?);
            earlier.commit()?;
        }
        match is_ready {
            true => txn.insert(&jobs.leased, 7u64.to_be_bytes(), "lease").map(|()| true),
            false => Ok(false),
        }
    });
    assert!(!outcome.expect("a job is never in both tables"), "the second run finds it taken");
}

#[test]
fn insert_returns_a_conflict_to_an_explicit_transaction_instead_of_a_key_that_its_reads_exclude() {
    type Before = fn(&Jobs, &Transaction);
    let key = 7u64.to_be_bytes();
    let looks: [Before; 4] = [
        |jobs, txn| assert!(txn.get(&jobs.ready, 7u64.to_be_bytes()).unwrap().is_some()),
        |jobs, txn| assert_eq!(txn.range(&jobs.ready, ..).count(), 1),
        |jobs, txn| assert!(txn.delete(&jobs.ready, 7u64.to_be_bytes()).unwrap()),
        // A deletion also reads the job. Rolling the deletion back does not undo this read.
        |jobs, txn| {
            let savepoint = txn.savepoint();
            assert!(txn.delete(&jobs.ready, 7u64.to_be_bytes()).unwrap());
            txn.rollback_to(&savepoint).unwrap();
        },
    ];
    for look in looks {
        let jobs = Jobs::new([7]);
        let earlier = jobs.database.begin().unwrap();
        let txn = jobs.database.begin().unwrap();
        look(&jobs, &txn);
        assert!(jobs.lease(&earlier, 7).unwrap());
        earlier.commit().unwrap();
        let error = txn.insert(&jobs.leased, key, "lease").unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(txn.commit().unwrap_err().is_retryable(), "it can only roll back");
    }
}

#[test]
fn an_absence_that_does_not_hold_any_more_is_noticed_before_a_key_is_said_to_exist() {
    type Before = fn(&Table, &Transaction);
    let looks: [Before; 3] = [
        |table, txn| assert_eq!(txn.get(table, "a").unwrap(), None),
        |table, txn| assert_eq!(txn.range(table, .."b").count(), 0),
        |table, txn| txn.insert(table, "a", "mine").unwrap(),
    ];
    for look in looks {
        let database = open();
        let table = database.table("t").unwrap();
        let earlier = database.begin().unwrap();
        let txn = database.begin().unwrap();
        look(&table, &txn);
        // `a` and `b` are written only together, so a transaction that finds no `a` finds no `b`.
        earlier.put(&table, "a", "1").unwrap();
        earlier.put(&table, "b", "1").unwrap();
        earlier.commit().unwrap();
        let error = txn.insert(&table, "b", "mine").unwrap_err();
        assert!(error.is_retryable(), "{error}");
    }
}

/// An insert of the transaction fails with `KeyExists`, and then the transaction reads to its end a
/// range that it had begun before.
#[test]
fn a_range_that_goes_on_after_a_refusal_is_validated_before_the_next_one() {
    let database = open();
    let table = database.table("t").unwrap();
    database.put(&table, "a", "there").unwrap();
    let earlier = database.begin().unwrap();
    let txn = database.begin().unwrap();
    let mut rows = txn.range(&table, ..);
    assert_eq!(rows.next().unwrap().unwrap().0, b"a");
    let error = txn.insert(&table, "a", "mine").unwrap_err();
    assert!(matches!(error, Error::KeyExists { .. }), "{error}");
    assert!(rows.next().is_none());
    // The row `b` is written together with `c`, so a transaction that finds no `b` finds no `c`.
    earlier.put(&table, "b", "1").unwrap();
    earlier.put(&table, "c", "1").unwrap();
    earlier.commit().unwrap();
    let error = txn.insert(&table, "c", "mine").unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

#[test]
fn a_key_that_exists_beside_all_that_was_read_is_reported_and_the_transaction_goes_on() {
    let database = open();
    let table = database.table("t").unwrap();
    (0..50u64).for_each(|number| database.put(&table, number.to_be_bytes(), "there").unwrap());
    let txn = database.begin().unwrap();
    // There are many reads, so that each check skips those that an earlier check has validated.
    for number in 0..50u64 {
        assert_eq!(
            txn.range(&table, number.to_be_bytes()..50u64.to_be_bytes()).limit(3).count() as u64,
            3.min(50 - number)
        );
        txn.put(&table, (1000 + number).to_be_bytes(), "new").unwrap();
        assert_eq!(txn.get(&table, (2000 + number).to_be_bytes()).unwrap(), None);
        let outcome = txn.insert(&table, number.to_be_bytes(), "mine");
        assert!(matches!(outcome, Err(Error::KeyExists { .. })), "{outcome:?}");
        assert!(txn.delete(&table, number.to_be_bytes()).unwrap());
        txn.insert(&table, number.to_be_bytes(), "again").unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(database.get(&table, 49u64.to_be_bytes()).unwrap().as_deref(), Some(&b"again"[..]));
    assert_eq!(database.get(&table, 1049u64.to_be_bytes()).unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn transact_runs_again_instead_of_handing_out_an_error_made_of_two_states() {
    let database = open();
    let stock = database.table("stock").unwrap();
    let amount = |txn: &Transaction, place: &str| -> Result<u8> {
        Ok(txn.get(&stock, place)?.map_or(0, |value| value[0]))
    };
    database.put(&stock, "east", [1]).unwrap();
    let mut earlier = Some(database.begin().unwrap());
    let mut runs = 0;
    let outcome = database.transact(|txn| {
        runs += 1;
        txn.put(&stock, "note", [runs])?;
        let west = amount(txn, "west")?;
        if let Some(mover) = earlier.take() {
            mover.put(&stock, "east", [0])?;
            mover.put(&stock, "west", [1])?;
            mover.commit()?;
        }
        match west + amount(txn, "east")? {
            0 => Err(none()),
            there => Ok(there),
        }
    });
    assert_eq!(outcome.expect("there is always one"), 1);
    assert_eq!(runs, 2);
}

#[test]
fn a_body_that_hides_a_conflict_behind_its_own_error_is_run_again() {
    let database = open();
    let table = database.table("t").unwrap();
    database.put(&table, "k", "1").unwrap();
    let mut runs = 0;
    let outcome = database.transact(|txn| {
        runs += 1;
        let _seen = txn.get(&table, "k")?;
        if runs == 1 {
            let other = database.begin()?;
            other.put(&table, "k", "2")?;
            other.commit()?;
            // The put itself is refused, and the body turns the conflict into another error.
            return txn.put(&table, "k", "3").map_err(|_| Error::ReadOnly);
        }
        txn.put(&table, "k", "4")
    });
    outcome.expect("what the conflict was turned into is not an outcome");
    assert_eq!(runs, 2);
}

#[test]
fn what_a_failed_body_has_written_is_rolled_back_and_counted() {
    let database = open();
    let table = database.table("t").unwrap();
    database.put(&table, "there", "1").unwrap();
    let before = database.stat().unwrap();
    let outcome = database.transact(|txn| {
        txn.put(&table, "new", "1")?;
        txn.insert(&table, "there", "2")
    });
    assert!(matches!(outcome, Err(Error::KeyExists { .. })), "{outcome:?}");
    assert_eq!(database.get(&table, "new").unwrap(), None);
    let after = database.stat().unwrap();
    assert_eq!(after.rollbacks, before.rollbacks + 1);
    assert_eq!(after.commits, before.commits);
    assert_eq!(after.transactions_active, 0);
}

/// Number of threads. This number is greater than the number of processors, so that threads are
/// preempted in the middle of transactions.
const THREADS: u64 = 8;

#[test]
fn threads_that_claim_jobs_never_find_one_claimed_which_they_saw_ready() {
    const JOBS: u64 = 1500;
    let jobs = Jobs::new(0..JOBS);
    let claimed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let outcome = jobs.database.transact(|txn| {
                        let first = txn.range(&jobs.ready, ..).limit(1).next().transpose()?;
                        let Some((key, _)) = first else { return Ok(false) };
                        // Give other threads time to commit writes of which this transaction has
                        // seen only a part.
                        std::thread::yield_now();
                        txn.delete(&jobs.ready, &key)?;
                        txn.insert(&jobs.leased, &key, "lease")?;
                        Ok(true)
                    });
                    match outcome {
                        Ok(true) => drop(claimed.fetch_add(1, Relaxed)),
                        Ok(false) => return,
                        // All attempts of this transaction met conflicts.
                        Err(error) if error.is_retryable() => {}
                        Err(error) => panic!("no serial order gives this: {error}"),
                    }
                }
            });
        }
    });
    assert_eq!(claimed.into_inner(), JOBS);
}

#[test]
fn threads_that_look_for_stock_never_find_none() {
    const PLACES: u64 = 6;
    let database = open();
    let stock = database.table("stock").unwrap();
    database.put(&stock, 0u64.to_be_bytes(), "the only one").unwrap();
    let looking = AtomicU64::new(THREADS);
    let look = || {
        database.transact(|txn| {
            for place in 0..PLACES {
                if txn.get(&stock, place.to_be_bytes())?.is_some() {
                    return Ok(());
                }
                std::thread::yield_now();
            }
            Err(none())
        })
    };
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let lookers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut outcomes = (0..500).map(|_| look());
                    let wrong =
                        outcomes.find(|outcome| matches!(outcome, Err(error) if !error.is_retryable()));
                    looking.fetch_sub(1, Relaxed);
                    wrong.unwrap_or(Ok(()))
                })
            })
            .collect();
        let mut place = 0u64;
        while looking.load(Relaxed) > 0 {
            let to = (place + 5) % PLACES;
            let moved = database.transact(|txn| {
                txn.delete(&stock, place.to_be_bytes())?;
                txn.insert(&stock, to.to_be_bytes(), "the only one")?;
                std::thread::yield_now();
                Ok(())
            });
            if moved.is_ok() {
                place = to;
            }
        }
        lookers.into_iter().map(|looker| looker.join().expect("no panic")).collect()
    });
    assert!(outcomes.iter().all(Result::is_ok), "no serial order gives this: {outcomes:?}");
}
