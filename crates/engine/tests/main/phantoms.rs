//! Reads that see that something is not there: no other transaction makes it appear before the reader has ended.
//!
//! Two transactions read the same before either of them writes. Each writes only if it saw the state before both, and what it writes changes
//! what the other has read. So in any serial order exactly one of them writes.

use crate::common::options_for;
use katydid::{Database, EngineKind, Prefix, Result, Table, Transaction};
use std::ops::Bound;
use std::sync::Barrier;

suite! {
    what_a_read_did_not_find_does_not_appear,
}

/// One kind of read: its name, the keys that are there, whether it sees no more than them, and the keys that the two transactions put.
type Case =
    (&'static str, &'static [&'static str], fn(&mut Transaction, &Table) -> Result<bool>, [&'static str; 2]);

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
