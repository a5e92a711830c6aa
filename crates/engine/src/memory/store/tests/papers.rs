//! Tests of the options that choose the rules of the papers on Cicada instead of Katydid's own.

use super::*;
use crate::cicada_options::{Contention, OldVersions};
use crate::error::{ConflictKind, Error};
use crate::memory::store::HandClock;
use katydid_wal::{Lsn, StreamId, StreamLsn};

fn settings() -> Settings {
    Settings::new(1 << 20, 64, Source::Hand(HandClock::new(1)))
}

fn store_of(settings: Settings) -> (Arc<Store>, Arc<FakeLog>) {
    let log = Arc::new(FakeLog::default());
    (Store::new(settings, log.clone()), log)
}

/// Runs a transaction that cannot commit: it reads `a` and `x` and inserts a new key. Before its
/// end, a transaction with an earlier timestamp changes `x`. Returns whether a third transaction,
/// which began before both transactions, can still write `a` at its own timestamp, and how many
/// records there are afterwards.
fn doomed(store: &Arc<Store>, key: &[u8]) -> (bool, u64) {
    let table = table(store);
    let (mut earlier, mut changer, mut doomed) = (begin(store), begin(store), begin(store));
    assert!(doomed.get(&table, b"a").expect("get").is_some());
    assert!(doomed.get(&table, b"x").expect("get").is_some());
    doomed.put(&table, key, b"new").expect("put");
    changer.put(&table, b"x", b"changed").expect("put");
    commit(changer);
    match doomed.validate() {
        Err(Error::Conflict { kind: ConflictKind::Changed, .. }) => {}
        other => panic!("{other:?}"),
    }
    let began_at = earlier.timestamp;
    earlier.put(&table, b"a", b"earlier").expect("put");
    let validated = earlier.validate().expect("a later timestamp would do, too");
    let kept_its_timestamp = validated.timestamp() == began_at;
    validated.committed();
    (kept_its_timestamp, table.records())
}

#[test]
fn what_is_known_to_have_changed_is_found_before_anything_is_put_in_place() {
    let (store, _) = store_of(Settings { contention: Contention::Early, ..settings() });
    put(&store, &table(&store), b"a", b"1");
    put(&store, &table(&store), b"x", b"1");
    assert_eq!(doomed(&store, b"n"), (true, 2), "nothing of it was in anybody's way");
    // After a failure the next transaction is also checked early.
    assert_eq!(doomed(&store, b"n"), (true, 2));
    // After five transactions without a conflict, a thread leaves the check out.
    (0..5).for_each(|_| put(&store, &table(&store), b"other", b"1"));
    assert_eq!(doomed(&store, b"o"), (false, 4));
    assert_eq!(doomed(&store, b"p"), (true, 4));
    // The check also covers the versions that a transaction would replace. The version that a
    // delete replaces is in no list of reads.
    put(&store, &table(&store), b"y", b"1");
    let table = table(&store);
    let (mut first, mut second) = (begin(&store), begin(&store));
    second.put(&table, b"q", b"second").expect("put");
    assert!(second.delete(&table, b"y").expect("delete"));
    first.put(&table, b"y", b"first").expect("put");
    commit(first);
    assert!(matches!(second.validate(), Err(Error::Conflict { kind: ConflictKind::Changed, .. })));
    assert_eq!(table.records(), 5, "of the new key there is nothing");
}

#[test]
fn without_the_early_check_a_doomed_transaction_is_in_the_way() {
    let (store, _) = store_of(settings());
    put(&store, &table(&store), b"a", b"1");
    put(&store, &table(&store), b"x", b"1");
    assert_eq!(doomed(&store, b"n"), (false, 3));
}

#[test]
fn a_transaction_that_is_late_is_checked_at_the_timestamp_that_it_is_going_to_have() {
    let (store, _) = store_of(Settings { contention: Contention::Early, ..settings() });
    let table = table(&store);
    put(&store, &table, b"a", b"1");
    put(&store, &table, b"x", b"1");
    let mut late = begin(&store);
    assert!(late.get(&table, b"x").expect("get").is_some());
    put(&store, &table, b"x", b"2");
    put(&store, &table, b"a", b"2");
    // The timestamp of `late` is below that of the last versions of `a` and `x`. At its own
    // timestamp `x` still has the value that `late` has read.
    late.put(&table, b"a", b"late").expect("a later timestamp may do");
    late.put(&table, b"n", b"new").expect("put");
    let id = late.id();
    let Err(Error::Conflict { victim, kind, .. }) = late.validate() else { panic!("`x` has changed") };
    // The transaction took a new timestamp, and its id is the same.
    assert_eq!((victim, kind), (id, ConflictKind::Changed));
    assert_eq!(table.records(), 2);
}

/// Commits a put whose log record ends at `end`.
fn log_put(store: &Arc<Store>, key: &[u8], value: &[u8], end: u64) {
    let mut running = begin(store);
    running.put(&table(store), key, value).expect("put");
    let validated = running.validate().expect("nobody is in the way");
    let place = StreamLsn { stream: StreamId::new(0), end: Lsn::new(end) };
    let seen_to = validated.seen_to();
    store.has_logged(validated.timestamp(), place);
    validated.pre_committed(place);
    store.acknowledge(seen_to);
}

fn versions(store: &Arc<Store>, key: &[u8]) -> usize {
    table(store).index.get(key).map_or(0, |record| record.chain().versions())
}

#[test]
fn the_oldest_record_that_is_not_durable_keeps_the_versions_that_were_replaced_after_it() {
    let (store, log) = store_of(Settings { old_versions: OldVersions::UntilDurable, ..settings() });
    log.durable_below(0);
    for (nth, end) in [20, 30, 40].into_iter().enumerate() {
        log_put(&store, b"a", &[nth as u8], end);
    }
    for (durable, left) in [(0, 3), (20, 3), (30, 2), (40, 1)] {
        log.durable_below(durable);
        store.collect();
        assert_eq!(versions(&store, b"a"), left, "durable below {durable}");
    }
    assert_eq!(store.uncollected(), 0);
}

#[test]
fn the_oldest_record_counts_whichever_thread_has_logged_it() {
    let (store, log) = store_of(Settings { old_versions: OldVersions::UntilDurable, ..settings() });
    log.durable_below(0);
    std::thread::scope(|scope| {
        scope.spawn(|| log_put(&store, b"first", b"1", 100)).join().expect("no panic");
    });
    (1..=3).for_each(|end| log_put(&store, b"a", b"1", end));
    for (durable, left) in [(50, 3), (100, 1)] {
        log.durable_below(durable);
        store.collect();
        assert_eq!(versions(&store, b"a"), left, "durable below {durable}");
    }
}

#[test]
fn by_default_versions_that_nobody_reads_go_whatever_the_log_has() {
    let (store, log) = store_of(settings());
    log.durable_below(0);
    for end in [20, 30, 40] {
        log_put(&store, b"a", b"1", end);
    }
    store.collect();
    assert_eq!(versions(&store, b"a"), 1);
}

#[test]
fn committers_pass_by_what_the_log_holds_back_and_take_it_afterwards() {
    let (store, log) = store_of(Settings { old_versions: OldVersions::UntilDurable, ..settings() });
    log.durable_below(0);
    (1..=200).for_each(|end| log_put(&store, b"a", b"1", end));
    assert_eq!(versions(&store, b"a"), 200);
    log.durable_below(u64::MAX);
    (201..=600).for_each(|end| log_put(&store, b"a", b"1", end));
    assert!(versions(&store, b"a") < 128, "{}", versions(&store, b"a"));
}

#[test]
fn memory_that_the_log_holds_back_is_no_reason_to_refuse_a_write() {
    let (store, log) = store_of(Settings { old_versions: OldVersions::UntilDurable, ..settings() });
    log.durable_below(0);
    // These puts write ten times as many bytes as the limit allows.
    (1..=10_000).for_each(|end| log_put(&store, b"a", &[7; 1000], end));
    assert!(store.used() <= 1 << 20);
}
