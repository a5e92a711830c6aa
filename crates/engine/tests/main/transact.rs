//! `Database::transact` and `try_transact`: the errors that leave them, and the conflicts that make
//! them run the body again.

use crate::common::options_for;
use katydid::{Database, EngineKind, Error, MemoryDirectory, Table, Transaction};
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

suite! {
    an_error_of_the_callers_own_rolls_back_and_comes_out_as_it_was,
    a_failure_of_the_store_is_converted,
    a_conflict_runs_the_body_again_whatever_the_body_makes_of_it,
    a_conflict_after_the_last_run_comes_out_as_the_store_says_it,
    a_nested_body_is_refused_with_any_error_type,
}

#[derive(Debug)]
enum CallerError {
    Refused(u32),
    Store(Error),
}

impl From<Error> for CallerError {
    fn from(error: Error) -> Self {
        CallerError::Store(error)
    }
}

fn in_memory(engine: EngineKind, retries: u32) -> (Database, Table) {
    let mut options = options_for(engine);
    options.advanced.retries = retries;
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    let table = database.table("t").unwrap();
    (database, table)
}

fn an_error_of_the_callers_own_rolls_back_and_comes_out_as_it_was(engine: EngineKind) {
    let (database, table) = in_memory(engine, 100);
    let mut runs = 0;
    let refused = database.try_transact(|txn| -> Result<(), CallerError> {
        runs += 1;
        txn.put(&table, "k", "gone")?;
        Err(CallerError::Refused(7))
    });
    assert!(matches!(refused, Err(CallerError::Refused(7))), "{refused:?}");
    assert_eq!(runs, 1);
    assert_eq!(database.get(&table, "k").unwrap(), None);
    let done = database.try_transact(|txn| {
        txn.put(&table, "k", "7")?;
        let found = txn.get(&table, "k")?.ok_or(CallerError::Refused(1))?;
        Ok::<_, CallerError>(found)
    });
    assert_eq!(done.unwrap(), b"7");
    assert_eq!(database.get(&table, "k").unwrap().as_deref(), Some(&b"7"[..]));
    // A boxed error needs no type of its own.
    let parsed = database.try_transact(|txn| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let number: u32 = "seven".parse()?;
        Ok(txn.put(&table, "k", number.to_le_bytes())?)
    });
    assert!(parsed.unwrap_err().is::<std::num::ParseIntError>());
}

fn a_failure_of_the_store_is_converted(engine: EngineKind) {
    let (database, table) = in_memory(engine, 100);
    let refused = database.try_transact(|txn| -> Result<(), CallerError> {
        txn.put(&table, "k", "v")?;
        Ok(txn.insert(&table, "k", "w")?)
    });
    assert!(matches!(refused, Err(CallerError::Store(Error::KeyExists { .. }))), "{refused:?}");
    assert_eq!(database.get(&table, "k").unwrap(), None);
    database.close().unwrap();
    let closed = database.try_transact(|_txn| -> Result<(), CallerError> { Err(CallerError::Refused(1)) });
    assert!(matches!(closed, Err(CallerError::Store(Error::Closed))), "{closed:?}");
}

/// Two threads read the same key before either writes it, so one of them meets a conflict. Returns
/// their outcomes and how often they ran.
fn collide(
    (database, table): &(Database, Table),
    end: impl Fn(&Transaction, Result<(), Error>) -> Result<(), CallerError> + Sync,
) -> (Vec<Result<(), CallerError>>, u32) {
    database.put(table, "n", [0]).unwrap();
    let (both_read, runs) = (Barrier::new(2), AtomicU32::new(0));
    let add = || {
        let mut is_first = true;
        database.try_transact(|txn| {
            runs.fetch_add(1, Ordering::Relaxed);
            let found = txn.get(table, "n")?.map_or(0, |value| value[0]);
            if std::mem::take(&mut is_first) {
                both_read.wait();
            }
            let outcome = txn.put(table, "n", [found + 1]);
            end(txn, outcome)
        })
    };
    let outcomes = std::thread::scope(|scope| {
        let other = scope.spawn(add);
        let own = add();
        vec![own, other.join().unwrap()]
    });
    (outcomes, runs.into_inner())
}

fn a_conflict_runs_the_body_again_whatever_the_body_makes_of_it(engine: EngineKind) {
    type End = fn(&Transaction, Result<(), Error>) -> Result<(), CallerError>;
    let ends: [(&str, End); 4] = [
        ("passed on", |_, outcome| Ok(outcome?)),
        ("turned into an own error", |_, outcome| outcome.map_err(|_error| CallerError::Refused(1))),
        ("ignored", |_, _outcome| Ok(())),
        ("rolled back to no savepoint", |txn, outcome| {
            let savepoint = txn.savepoint();
            outcome.or_else(|_error| txn.rollback_to(&savepoint)).map_err(|_error| CallerError::Refused(2))
        }),
    ];
    for (name, end) in ends {
        let store = in_memory(engine, 100);
        let (outcomes, runs) = collide(&store, end);
        for outcome in outcomes {
            assert!(outcome.is_ok(), "conflict {name}: {outcome:?}");
        }
        assert!(runs >= 3, "conflict {name}: no transaction met it");
        assert_eq!(store.0.get(&store.1, "n").unwrap(), Some(vec![2]), "conflict {name}");
    }
}

fn a_conflict_after_the_last_run_comes_out_as_the_store_says_it(engine: EngineKind) {
    let store = in_memory(engine, 0);
    let (outcomes, runs) = collide(&store, |_, outcome| outcome.map_err(|_error| CallerError::Refused(1)));
    assert_eq!(runs, 2);
    let failed: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(matches!(&failed[..], [CallerError::Store(error)] if error.is_retryable()), "{failed:?}");
    assert_eq!(store.0.get(&store.1, "n").unwrap(), Some(vec![1]));
}

fn a_nested_body_is_refused_with_any_error_type(engine: EngineKind) {
    let (database, table) = in_memory(engine, 100);
    let nested = database.transact(|_txn| {
        let inner =
            database.try_transact(|txn| -> Result<(), CallerError> { Ok(txn.put(&table, "k", "v")?) });
        assert!(matches!(inner, Err(CallerError::Store(Error::Nested { .. }))), "{inner:?}");
        Ok(())
    });
    nested.unwrap();
    assert_eq!(database.get(&table, "k").unwrap(), None);
}
