//! Reads that lend the value to a closure. The tests compare them with `get`, and use the
//! transaction and the database inside the closure.

use crate::common::options_for;
use katydid::typed::TypedTable;
use katydid::{Access, Database, EngineKind, Error, Read, Table, TransactionOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};

suite! {
    values_are_those_of_get,
    the_closure_may_use_the_transaction,
    the_closure_may_use_other_transactions,
    a_closure_that_panics_leaves_the_transaction_usable,
    bad_calls_do_not_run_the_closure,
    a_typed_value_is_decoded_and_named_if_it_cannot_be,
}

/// Lengths of values that lie in a leaf, in a chain of pages, and in memory of their own.
const LENGTHS: [usize; 9] = [0, 1, 22, 23, 100, 1000, 9000, 300_000, 5];

fn key(length: usize) -> String {
    format!("key {length:07}")
}

fn value(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn filled(engine: EngineKind) -> (Database, Table) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    for length in LENGTHS {
        database.put(&table, key(length), value(length)).unwrap();
    }
    (database, table)
}

fn values_are_those_of_get(engine: EngineKind) {
    let (database, table) = filled(engine);
    // This view shows former values, which the paged engine keeps as before-images.
    let old = database.begin_read_only().unwrap();
    database
        .transact(|txn| {
            for length in LENGTHS {
                txn.put(&table, key(length), b"changed")?;
            }
            txn.delete(&table, key(1000)).map(drop)
        })
        .unwrap();
    let new = database.begin_read_only().unwrap();
    let own = database.begin().unwrap();
    own.put(&table, key(22), value(24)).unwrap();
    own.put(&table, key(300_000), value(400_000)).unwrap();
    own.delete(&table, key(23)).unwrap();
    let durable = TransactionOptions { read: Read::Durable, ..TransactionOptions::default() };
    let durable = database.begin_with(TransactionOptions { access: Access::ReadOnly, ..durable }).unwrap();
    for txn in [&old, &new, &own, &durable] {
        for length in LENGTHS.into_iter().chain([77]) {
            let lent = txn.get_with(&table, key(length), <[u8]>::to_vec).unwrap();
            assert_eq!(lent, txn.get(&table, key(length)).unwrap(), "{length} bytes");
        }
    }
    let seen = |txn: &katydid::Transaction, length| txn.get_with(&table, key(length), <[u8]>::len).unwrap();
    assert_eq!(LENGTHS.map(|length| seen(&old, length)), LENGTHS.map(Some));
    assert_eq!((seen(&new, 1000), seen(&new, 300_000)), (None, Some(7)));
    assert_eq!((seen(&own, 22), seen(&own, 300_000), seen(&own, 23)), (Some(24), Some(400_000), None));
}

fn the_closure_may_use_the_transaction(engine: EngineKind) {
    let (database, table) = filled(engine);
    let txn = database.begin().unwrap();
    let expected = value(1000);
    let inner = txn.get_with(&table, key(1000), |outer| {
        txn.put(&table, key(1000), b"new").unwrap();
        txn.put(&table, key(100), outer).unwrap();
        let inner = txn.get_with(&table, key(9000), |inner| {
            assert_eq!((outer, inner), (expected.as_slice(), value(9000).as_slice()));
            txn.get(&table, key(23)).unwrap().unwrap()
        });
        assert_eq!(txn.range(&table, ..).count(), LENGTHS.len());
        assert_eq!(outer, expected);
        inner.unwrap().unwrap()
    });
    assert_eq!(inner.unwrap().unwrap(), value(23));
    txn.commit().unwrap();
    assert_eq!(database.get(&table, key(1000)).unwrap().unwrap(), b"new");
    assert_eq!(database.get(&table, key(100)).unwrap().unwrap(), expected);
}

/// If the reader held its leaf's latch, these writes to the leaf would wait for the reader.
fn the_closure_may_use_other_transactions(engine: EngineKind) {
    let (database, table) = filled(engine);
    let view = database.begin_read_only().unwrap();
    let length = view.get_with(&table, key(100), |value| {
        database.put(&table, key(100), b"other").unwrap();
        for more in 0..200 {
            database.put(&table, format!("more {more}"), [7; 400]).unwrap();
        }
        database.checkpoint().unwrap();
        assert_eq!(value, self::value(100));
        value.len()
    });
    assert_eq!(length.unwrap(), Some(100));
    assert_eq!(view.get(&table, key(100)).unwrap().unwrap(), value(100));
    assert_eq!(database.get(&table, key(100)).unwrap().unwrap(), b"other");
}

fn a_closure_that_panics_leaves_the_transaction_usable(engine: EngineKind) {
    let (database, table) = filled(engine);
    let txn = database.begin().unwrap();
    txn.put(&table, key(5), b"written").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        txn.get_with(&table, key(100), |value| panic!("{} bytes", value.len())).map(|_: Option<()>| ())
    }));
    assert!(panicked.is_err());
    assert_eq!(txn.get_with(&table, key(100), <[u8]>::to_vec).unwrap().unwrap(), value(100));
    txn.commit().unwrap();
    assert_eq!(database.get(&table, key(5)).unwrap().unwrap(), b"written");
}

fn bad_calls_do_not_run_the_closure(engine: EngineKind) {
    let (database, table) = filled(engine);
    let (other, foreign) = filled(engine);
    let see = |_: &[u8]| panic!("there is no value");
    let txn = database.begin().unwrap();
    assert!(matches!(txn.get_with(&foreign, key(5), see), Err(Error::ForeignTable { .. })));
    assert!(matches!(txn.get_with(&table, [0; 2000], see), Err(Error::KeyTooLong { .. })));
    assert_eq!(txn.get_with(&table, "absent", see).unwrap(), None);
    database.close().unwrap();
    assert!(matches!(txn.get_with(&table, key(5), see), Err(Error::Closed)));
    other.close().unwrap();
}

fn a_typed_value_is_decoded_and_named_if_it_cannot_be(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let bytes = database.table("t").unwrap();
    let table = TypedTable::<String, u64>::new(bytes.clone());
    database.transact(|txn| table.put(txn, "anna", 7u64)).unwrap();
    // Three bytes are no `u64`.
    let strings = TypedTable::<String, String>::new(bytes);
    database.transact(|txn| strings.put(txn, "karl", "abc")).unwrap();
    let txn = database.begin_read_only().unwrap();
    assert_eq!(table.get(&txn, "anna").unwrap(), Some(7));
    assert_eq!(table.get(&txn, "paul").unwrap(), None);
    let error = table.get(&txn, "karl").unwrap_err();
    assert!(matches!(&error, Error::Undecodable { .. }), "{error}");
}
