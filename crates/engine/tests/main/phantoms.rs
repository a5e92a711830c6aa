//! Reads that see that a key is absent: no other transaction makes the key appear before the reader
//! has ended.
//!
//! Two transactions read the same keys before either of them writes. Each transaction writes only
//! if it saw the state before both transactions, and its write changes what the other transaction
//! has read. So in any serial order exactly one of them writes.

use crate::common::{self, options_for};
use katydid::{Database, EngineKind, Prefix, Result, Table, Transaction};
use std::ops::Bound;
use std::sync::Barrier;

suite! {
    what_a_read_did_not_find_does_not_appear,
    a_key_is_popped_once,
    what_is_put_into_a_cleared_range_is_seen_by_the_next_to_clear_it,
    updates_of_several_threads_add_up,
    of_several_swaps_of_one_value_one_succeeds,
}

/// One kind of read: its name, the keys that are there, a read that returns whether it sees no
/// other keys, and the keys that the two transactions put.
type Case =
    (&'static str, &'static [&'static str], fn(&Transaction, &Table) -> Result<bool>, [&'static str; 2]);

const CASES: &[Case] = &[
    ("contains", &["m"], |txn, table| Ok(!txn.contains(table, "x")?), ["x", "x"]),
    (
        "multi_get",
        &["m"],
        |txn, table| Ok(txn.multi_get(table, ["x", "m", "y"])?.iter().flatten().count() == 1),
        ["x", "y"],
    ),
    ("is_empty", &[], |txn, table| txn.is_empty(table), ["a", "z"]),
    ("first", &["m"], |txn, table| Ok(txn.first(table)?.is_some_and(|(key, _)| key == b"m")), ["a", "b"]),
    ("first of none", &[], |txn, table| Ok(txn.first(table)?.is_none()), ["a", "z"]),
    ("last", &["m"], |txn, table| Ok(txn.last(table)?.is_some_and(|(key, _)| key == b"m")), ["y", "z"]),
    ("last of none", &[], |txn, table| Ok(txn.last(table)?.is_none()), ["a", "z"]),
    ("count", &["a", "m", "z"], |txn, table| Ok(txn.count(table, "a".."y")? == 2), ["b", "x"]),
    ("count of all", &["m"], |txn, table| Ok(txn.count(table, ..)? == 1), ["a", "z"]),
    ("prefix", &["p", "q"], |txn, table| Ok(txn.prefix(table, "p/").next().is_none()), ["p/", "p/z"]),
    ("prefix from its end", &["p/m"], |txn, table| seen(txn.prefix(table, "p/").rev(), 1), ["p/a", "p/z"]),
    ("all", &["m"], |txn, table| seen(txn.range(table, ..), 1), ["a", "z"]),
    ("all from the end", &["m"], |txn, table| seen(txn.range(table, ..).rev(), 1), ["a", "z"]),
    (
        "behind a key",
        &["m"],
        |txn, table| seen(txn.range(table, (Bound::Excluded("m"), Bound::Unbounded)), 0),
        ["n", "z"],
    ),
    ("count of a prefix", &["p/m"], |txn, table| Ok(txn.count(table, Prefix("p/"))? == 1), ["p/a", "p/z"]),
];

fn seen(rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>, count: usize) -> Result<bool> {
    Ok(rows.collect::<Result<Vec<_>>>()?.len() == count)
}

fn what_a_read_did_not_find_does_not_appear(engine: EngineKind) {
    for (name, there, is_as_before, puts) in CASES {
        let database = Database::in_memory_with(options_for(engine)).unwrap();
        let table = database.table("t").unwrap();
        for key in *there {
            database.put(&table, key, "before").unwrap();
        }
        let both_read = Barrier::new(2);
        let put_if_absent = |key: &str| {
            let mut is_first = true;
            let write = database.transact(|txn| {
                let is_free = is_as_before(txn, &table)?;
                if std::mem::take(&mut is_first) {
                    both_read.wait();
                }
                if is_free {
                    txn.put(&table, key, "after")?;
                }
                Ok(is_free)
            });
            write.unwrap()
        };
        let wrote = std::thread::scope(|scope| {
            let other = scope.spawn(|| put_if_absent(puts[1]));
            [put_if_absent(puts[0]), other.join().unwrap()]
        });
        assert_eq!(wrote.into_iter().filter(|wrote| *wrote).count(), 1, "{name}: {wrote:?}");
        let count = database.transact(|txn| txn.count(&table, ..)).unwrap();
        assert_eq!(count, there.len() as u64 + 1, "{name}");
    }
}

/// Two transactions run `body` on a table with one row. Both have run it before either runs `then`.
/// Returns the results of `body`.
fn side_by_side<T: Send>(
    database: &Database,
    body: impl Fn(&Transaction) -> Result<T> + Sync,
    then: impl Fn(&Transaction) -> Result<()> + Sync,
) -> [T; 2] {
    let both_ran = Barrier::new(2);
    let run = || {
        let mut is_first = true;
        let outcome = database.transact(|txn| {
            let done = body(txn);
            if std::mem::take(&mut is_first) {
                both_ran.wait();
            }
            let done = done?;
            then(txn)?;
            Ok(done)
        });
        outcome.unwrap()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(run);
        [run(), other.join().unwrap()]
    })
}

/// Returns a database and a table in it. The database runs a body again after more conflicts than
/// these tests can cause.
fn with_table(engine: EngineKind) -> (Database, Table) {
    let mut options = options_for(engine);
    options.advanced.retries = 100_000;
    let database = Database::in_memory_with(options).unwrap();
    let table = database.table("t").unwrap();
    (database, table)
}

fn a_key_is_popped_once(engine: EngineKind) {
    const KEYS: u64 = 100;
    let (database, table) = with_table(engine);
    database
        .transact(|txn| (0..KEYS).try_for_each(|number| txn.put(&table, common::key(number), [1])))
        .unwrap();
    let pop_all = || {
        let popped = std::iter::from_fn(|| database.pop_first(&table).unwrap());
        popped.map(|(key, _)| key).collect::<Vec<_>>()
    };
    let mut popped: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(pop_all)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    popped.sort();
    assert_eq!(popped, (0..KEYS).map(common::key).collect::<Vec<_>>());
}

fn what_is_put_into_a_cleared_range_is_seen_by_the_next_to_clear_it(engine: EngineKind) {
    let (database, table) = with_table(engine);
    database.put(&table, "outside", "").unwrap();
    let mut deleted = side_by_side(
        &database,
        |txn| txn.delete_range(&table, Prefix("in/")),
        |txn| {
            let key = format!("in/{}", txn.id());
            txn.put(&table, key, "")
        },
    );
    deleted.sort();
    assert_eq!(deleted, [0, 1], "the second one deletes what the first one put");
    assert_eq!(database.transact(|txn| txn.count(&table, ..)).unwrap(), 2);
}

fn updates_of_several_threads_add_up(engine: EngineKind) {
    let (database, table) = with_table(engine);
    let add = |old: Option<Vec<u8>>| Some(vec![old.map_or(1, |old| old[0] + 1)]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| drop(database.update(&table, "n", add).unwrap())));
        }
    });
    assert_eq!(database.get(&table, "n").unwrap(), Some(vec![200]));
}

fn of_several_swaps_of_one_value_one_succeeds(engine: EngineKind) {
    let (database, table) = with_table(engine);
    for round in 0..50u8 {
        let old = [round];
        let expected = (round > 0).then_some(&old[..]);
        let swap = || database.compare_and_swap(&table, "k", expected, Some(&[round + 1])).unwrap();
        let swapped: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(swap)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        assert_eq!(swapped.iter().filter(|swapped| **swapped).count(), 1, "round {round}: {swapped:?}");
    }
}
