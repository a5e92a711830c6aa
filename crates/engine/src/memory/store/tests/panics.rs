//! A panic in the middle of a validation leaves no version for which other transactions would wait.
//!
//! The panic is planted where the store asks the log whether a version is durable: while versions
//! are put in place, and while reads are validated.

use super::super::HandClock;
use super::*;
use katydid_wal::{Lsn, StreamId, StreamLsn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;

/// `k` has a version that is not durable. A transaction does `work` with `k` and panics in its
/// validation. Afterwards the store is as if this transaction had never run.
fn panics_in_validation(work: impl FnOnce(&mut ActiveTxn, &Arc<Table>)) {
    let (store, log) = store(Source::Hand(HandClock::new(1)));
    let table = table(&store);
    put(&store, &table, b"b", b"old");
    log.durable_below(0);
    let mut early = begin(&store);
    early.put(&table, b"k", b"old").expect("put");
    let place = StreamLsn { stream: StreamId::new(0), end: Lsn::new(100) };
    early.validate().expect("nobody is in the way").pre_committed(place);
    let mut running = begin(&store);
    for key in [b"a", b"b"] {
        running.put(&table, key, b"new").expect("put");
    }
    work(&mut running, &table);
    log.panics.store(true, SeqCst);
    catch_unwind(AssertUnwindSafe(|| running.validate().map(drop))).expect_err("the panic was planted");
    log.panics.store(false, SeqCst);
    // These transactions have a wait limit of zero, so they would fail if they had to wait.
    let mut reader = store.begin(Access::ReadOnly, Duration::ZERO).expect("begin");
    let mut read =
        |key: &[u8]| reader.get(&table, key).expect("nothing is pending").map(|value| value.to_vec());
    assert_eq!(read(b"a"), None);
    assert_eq!(read(b"b"), Some(b"old".to_vec()));
    assert_eq!(read(b"k"), Some(b"old".to_vec()));
    let mut writer = store.begin(Access::ReadWrite, Duration::ZERO).expect("begin");
    for key in [b"a", b"b", b"k"] {
        writer.put(&table, key, b"next").expect("put");
    }
    commit(writer);
    assert_eq!(get(&store, &table, b"a"), Some(b"next".to_vec()));
    drop(reader);
    store.collect();
    assert_eq!(store.oldest(), None, "the slot was given back");
}

#[test]
fn a_panic_while_versions_are_put_in_place_leaves_none_pending() {
    panics_in_validation(|running, table| assert!(running.delete(table, b"k").expect("delete")));
}

#[test]
fn a_panic_while_reads_are_made_sure_of_leaves_no_version_pending() {
    panics_in_validation(|running, table| assert!(running.get(table, b"k").expect("get").is_some()));
}
