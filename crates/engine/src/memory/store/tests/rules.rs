//! Rules that users of the store rely on, one test each.

use super::super::{
    FoundIn, HandClock, Loader, RecoveredVersion, Scan, Settings, Source, Store, Timestamp, Validated,
};
use super::*;
use crate::direction::Direction;
use crate::error::{ConflictKind, Error};
use crate::ids::{TableId, TxnId};
use katydid_wal::{Lsn, StreamId, StreamLsn};
use std::ops::Bound;

fn hand() -> Source {
    Source::Hand(HandClock::new(1))
}

fn scan(running: &mut ActiveTxn, table: &Arc<Table>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = Scan::new(table, Bound::Unbounded, Bound::Unbounded, direction);
    std::iter::from_fn(|| scan.next(running).expect("scan"))
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn keys(running: &mut ActiveTxn, table: &Arc<Table>, direction: Direction) -> Vec<u8> {
    scan(running, table, direction).into_iter().map(|(key, _)| key[0]).collect()
}

fn kind(outcome: Result<Validated, Error>) -> Option<ConflictKind> {
    match outcome {
        Ok(_) => None,
        Err(Error::Conflict { kind, .. }) => Some(kind),
        Err(error) => panic!("{error}"),
    }
}

fn place(end: u64) -> StreamLsn {
    StreamLsn { stream: StreamId::new(0), end: Lsn::new(end) }
}

#[test]
fn own_writes_are_seen_before_anybody_else_sees_them() {
    let (store, _) = store(hand());
    let table = table(&store);
    for key in [b"a", b"c", b"e"] {
        put(&store, &table, key, b"old");
    }
    let mut running = begin(&store);
    running.put(&table, b"b", b"new").expect("put");
    running.put(&table, b"c", b"new").expect("put");
    assert!(running.delete(&table, b"e").expect("delete"));
    assert!(!running.delete(&table, b"e").expect("delete"));
    running.insert(&table, b"e", b"again").expect("insert");
    assert!(running.delete(&table, b"a").expect("delete"));
    assert!(matches!(running.insert(&table, b"b", b""), Err(Error::KeyExists { .. })));
    assert_eq!(keys(&mut running, &table, Direction::Up), b"bce");
    assert_eq!(keys(&mut running, &table, Direction::Down), b"ecb");
    assert_eq!(keys(&mut begin_read(&store), &table, Direction::Up), b"ace");
    commit(running);
    assert_eq!(keys(&mut begin_read(&store), &table, Direction::Up), b"bce");
    assert_eq!(get(&store, &table, b"e"), Some(b"again".to_vec()));
}

#[test]
fn rolling_back_to_a_savepoint_undoes_writes_and_not_reads() {
    let (store, _) = store(hand());
    let table = table(&store);
    put(&store, &table, b"a", b"1");
    let mut running = begin(&store);
    running.put(&table, b"a", b"2").expect("put");
    let mark = running.savepoint();
    running.put(&table, b"a", b"3").expect("put");
    for number in 0..40u8 {
        running.insert(&table, &[b'b', number], b"x").expect("insert");
    }
    assert_eq!(scan(&mut running, &table, Direction::Up).len(), 41);
    running.rollback_to(mark);
    assert_eq!(scan(&mut running, &table, Direction::Up), [(b"a".to_vec(), b"2".to_vec())]);
    // The undone insert has read that the key is absent. This read still counts, so a key that was
    // put since then makes the commit fail.
    put(&store, &table, &[b'b', 7], b"y");
    running.is_late = true;
    assert_eq!(kind(running.validate()), Some(ConflictKind::Changed));
}

#[test]
fn a_write_that_hid_a_row_from_a_scan_and_was_undone_is_no_conflict() {
    let (store, _) = store(hand());
    let table = table(&store);
    put(&store, &table, b"a", b"1");
    let mut running = begin(&store);
    let mark = running.savepoint();
    running.put(&table, b"a", b"2").expect("put");
    assert_eq!(keys(&mut running, &table, Direction::Up), b"a");
    running.rollback_to(mark);
    running.put(&table, b"z", b"1").expect("put");
    commit(running);
}

#[test]
fn of_two_that_read_what_the_other_writes_one_gives_way() {
    let (store, _) = store(hand());
    let table = table(&store);
    let (mut left, mut right) = (begin(&store), begin(&store));
    assert_eq!(left.get(&table, b"a").expect("get"), None);
    assert_eq!(right.get(&table, b"b").expect("get"), None);
    left.put(&table, b"b", b"left").expect("put");
    right.put(&table, b"a", b"right").expect("put");
    commit(left);
    assert_eq!(kind(right.validate()), Some(ConflictKind::Changed));
}

#[test]
fn nobody_inserts_into_what_another_has_passed_over() {
    let (store, _) = store(hand());
    let table = table(&store);
    put(&store, &table, b"a", b"1");
    put(&store, &table, b"m", b"1");
    let (mut counter, mut late) = (begin(&store), begin(&store));
    assert_eq!(keys(&mut counter, &table, Direction::Up), b"am");
    counter.put(&table, b"count", b"2").expect("put");
    late.insert(&table, b"f", b"1").expect("insert");
    let late_began_after = late.timestamp > counter.timestamp;
    assert!(late_began_after);
    // The later transaction commits first. Both can commit, because `counter` comes before `late`
    // in the order of timestamps and does not see the key that `late` wrote.
    commit(late);
    commit(counter);
    let (mut early, mut counter) = (begin(&store), begin(&store));
    assert_eq!(keys(&mut counter, &table, Direction::Up), b"acfm");
    counter.put(&table, b"count", b"4").expect("put");
    early.insert(&table, b"g", b"1").expect("insert");
    let began_at = early.timestamp;
    commit(counter);
    // `early` has read only that there is no `g`, so it can commit at a later timestamp.
    let early = early.validate().expect("it takes a new timestamp");
    assert!(early.timestamp() > began_at);
}

#[test]
fn a_version_that_is_not_decided_is_waited_for_and_not_for_ever() {
    let (store, log) = store(hand());
    let table = table(&store);
    let mut writer = begin(&store);
    writer.put(&table, b"a", b"1").expect("put");
    let pending = writer.validate().expect("nobody is in the way");
    let holder = TxnId::new(pending.timestamp().get());
    // The waiting transaction runs on the thread of the pending one, so its wait can only time out.
    let mut other = store.begin(Access::ReadWrite, Duration::from_millis(1)).expect("begin");
    let Err(Error::Conflict { victim, holder: found, kind, .. }) = other.get(&table, b"a") else {
        panic!("it is not decided")
    };
    assert_eq!((victim, found, kind), (other.id(), Some(holder), ConflictKind::Timeout));
    assert!(
        log.waits.load(std::sync::atomic::Ordering::SeqCst) > 0,
        "its own group may have to be written first"
    );
    assert_eq!((store.waiting(), store.wait_time().count), (vec![], 1));
    let waiter = {
        let (store, table) = (store.clone(), table.clone());
        std::thread::spawn(move || {
            let mut running = begin(&store);
            let found = running.get(&table, b"a").expect("get").map(|value| value.to_vec());
            running.put(&table, b"a", b"2").expect("put");
            commit(running);
            found
        })
    };
    let wait = loop {
        match store.waiting().pop() {
            Some(wait) => break wait,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(wait.blockers, [holder]);
    assert!(wait.wanted.to_string().starts_with("key \"a\" of table"), "{}", wait.wanted);
    std::thread::spawn(move || pending.committed()).join().expect("ended on another thread");
    assert_eq!(waiter.join().expect("no panic"), Some(b"1".to_vec()));
    assert_eq!(get(&store, &table, b"a"), Some(b"2".to_vec()));
}

#[test]
fn who_only_reads_waits_for_nobody_and_sees_what_was_acknowledged() {
    let (store, _) = store(hand());
    let table = table(&store);
    put(&store, &table, b"a", b"1");
    let mut writer = begin(&store);
    writer.put(&table, b"a", b"2").expect("put");
    let pending = writer.validate().expect("nobody is in the way");
    let mut before = store.begin(Access::ReadOnly, Duration::ZERO).expect("begin");
    assert_eq!(before.get(&table, b"a").expect("get").as_deref(), Some(&b"1"[..]));
    pending.committed();
    assert_eq!(before.get(&table, b"a").expect("get").as_deref(), Some(&b"1"[..]), "one state");
    assert_eq!(get(&store, &table, b"a"), Some(b"2".to_vec()));
    assert!(matches!(before.put(&table, b"a", b"3"), Err(Error::ReadOnly)));
    assert!(matches!(before.insert(&table, b"b", b"3"), Err(Error::ReadOnly)));
    assert!(matches!(before.delete(&table, b"b"), Err(Error::ReadOnly)));
    commit(before);
}

#[test]
fn a_writer_below_what_a_reader_was_promised_commits_later() {
    let (store, _) = store(hand());
    let table = table(&store);
    let mut writer = begin(&store);
    writer.put(&table, b"a", b"late").expect("put");
    let meant = writer.timestamp;
    put(&store, &table, b"b", b"1");
    let mut reader = begin_read(&store);
    assert_eq!(reader.get(&table, b"b").expect("get").as_deref(), Some(&b"1"[..]));
    let validated = writer.validate().expect("nothing it has read was changed");
    assert!(validated.timestamp() > meant);
    validated.committed();
    assert_eq!(reader.get(&table, b"a").expect("get"), None);
    assert_eq!(get(&store, &table, b"a"), Some(b"late".to_vec()));
}

#[test]
fn what_was_read_and_is_not_durable_is_depended_on() {
    let (store, log) = store(hand());
    let table = table(&store);
    log.durable_below(0);
    let mut first = begin(&store);
    first.put(&table, b"a", b"1").expect("put");
    let first = first.validate().expect("nobody is in the way");
    assert!(first.depends().is_empty());
    first.pre_committed(place(100));
    let mut second = begin(&store);
    second.get(&table, b"a").expect("get");
    second.put(&table, b"b", b"2").expect("put");
    let second = second.validate().expect("nobody is in the way");
    assert_eq!(second.depends().iter().collect::<Vec<_>>(), [place(100)]);
    second.pre_committed(StreamLsn { stream: StreamId::new(1), end: Lsn::new(50) });
    let both = [place(100), StreamLsn { stream: StreamId::new(1), end: Lsn::new(50) }];
    let mut third = begin(&store);
    third.get(&table, b"b").expect("get");
    assert_eq!(third.depends().iter().collect::<Vec<_>>(), both);
    // A deleted key makes a reader depend on the deletion, also in a scan.
    let mut deleter = begin(&store);
    assert!(deleter.delete(&table, b"b").expect("delete"));
    deleter.validate().expect("nobody is in the way").pre_committed(place(200));
    let mut fourth = begin(&store);
    keys(&mut fourth, &table, Direction::Up);
    assert_eq!(fourth.depends().iter().next(), Some(place(200)));
    log.durable_below(u64::MAX);
    let mut fifth = begin(&store);
    fifth.get(&table, b"a").expect("get");
    assert!(fifth.depends().is_empty());
}

#[test]
fn each_transaction_that_finds_a_version_in_doubt_gets_the_log_failure() {
    let (store, _) = store(hand());
    let table = table(&store);
    let mut writer = begin(&store);
    writer.put(&table, b"a", b"1").expect("put");
    writer.validate().expect("nobody is in the way").in_doubt();
    assert!(matches!(begin(&store).get(&table, b"a"), Err(Error::Internal("the log failed"))));
    let mut other = begin(&store);
    other.put(&table, b"a", b"2").expect("put");
    assert!(matches!(other.validate(), Err(Error::Internal("the log failed"))));
}

#[test]
fn old_versions_are_kept_for_as_long_as_somebody_reads_them() {
    let (store, _) = store(hand());
    let table = table(&store);
    put(&store, &table, b"a", b"0");
    let mut reader = begin_read(&store);
    for number in 1..200 {
        put(&store, &table, b"a", format!("{number}").as_bytes());
    }
    let mut deleter = begin(&store);
    deleter.delete(&table, b"a").expect("delete");
    commit(deleter);
    store.collect();
    assert_eq!(reader.get(&table, b"a").expect("get").as_deref(), Some(&b"0"[..]));
    let oldest = store.oldest().expect("one is open");
    assert_eq!(oldest.id, reader.id());
    assert!(oldest.age > Duration::ZERO);
    assert!(store.used() > 200);
    commit(reader);
    store.collect();
    assert_eq!((store.used(), store.uncollected(), store.oldest()), (0, 0, None));
}

#[test]
fn committers_keep_old_versions_few_without_being_asked() {
    let (store, _) = store(hand());
    let table = table(&store);
    for number in 0..10_000u64 {
        put(&store, &table, &number.to_le_bytes()[..1], b"some value");
    }
    let versions: usize = (0..256u64)
        .map(|number| {
            table.index.get(&number.to_le_bytes()[..1]).map_or(0, |record| record.chain().versions())
        })
        .sum();
    assert!(versions < 256 + 128, "{versions}");
    assert!(store.uncollected() < 128);
}

#[test]
fn tombstones_stay_while_a_checkpoint_needs_them() {
    let (store, _) = store(hand());
    let table = table(&store);
    let keep = store.keep_tombstones();
    put(&store, &table, b"a", b"1");
    put(&store, &table, b"b", b"1");
    let mut deleter = begin(&store);
    deleter.delete(&table, b"a").expect("delete");
    let deleted = deleter.validate().expect("nobody is in the way");
    let at = deleted.timestamp();
    deleted.committed();
    store.collect();
    let mut rows = Vec::new();
    assert_eq!(store.rows(&table, Bound::Unbounded, LONG, &mut rows).expect("rows"), None);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].timestamp, &rows[0].value), (at, &None));
    drop(keep);
    store.collect();
    let mut rows = Vec::new();
    store.rows(&table, Bound::Unbounded, LONG, &mut rows).expect("rows");
    assert_eq!(rows.iter().map(|row| row.key.to_vec()).collect::<Vec<_>>(), [b"b"]);
}

#[test]
fn memory_is_limited_and_deleting_makes_room() {
    let log = Arc::new(FakeLog::default());
    let store = Store::new(Settings::new(1 << 20, 8, hand()), log);
    let table = table(&store);
    let mut keys = 0u64;
    let full = loop {
        let mut running = begin(&store);
        match running.put(&table, &keys.to_be_bytes(), &[7; 1000]) {
            Ok(()) => commit(running),
            Err(error) => break error,
        }
        keys += 1;
    };
    assert!(
        matches!(full, Error::MemoryFull { used, limit: 0x10_0000, held_by: None } if used <= 1 << 20),
        "{full}"
    );
    assert!(keys > 700, "{keys}");
    for key in 0..keys {
        let mut running = begin(&store);
        assert!(running.delete(&table, &key.to_be_bytes()).expect("delete"));
        commit(running);
    }
    let mut running = begin(&store);
    running.put(&table, b"big", &vec![7; 1_000_000]).expect("there is room");
    drop(running);
    store.collect();
    assert_eq!(store.used(), 0);
}

#[test]
fn a_reader_for_whom_old_versions_fill_the_memory_is_named() {
    let log = Arc::new(FakeLog::default());
    let store = Store::new(Settings::new(1 << 20, 8, hand()), log);
    let table = table(&store);
    let reader = begin_read(&store);
    let full = loop {
        let mut running = begin(&store);
        match running.put(&table, b"a", &[7; 1000]) {
            Ok(()) => commit(running),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::MemoryFull { held_by: Some(id), .. } if id == reader.id()), "{full}");
    drop(reader);
    put(&store, &table, b"a", &[7; 1000]);
}

#[test]
fn no_more_than_so_many_are_open_at_a_time() {
    let log = Arc::new(FakeLog::default());
    let store = Store::new(Settings::new(1 << 20, 3, hand()), log);
    let open: Vec<_> = (0..3).map(|_| begin(&store)).collect();
    let refused = store.begin(Access::ReadOnly, Duration::ZERO);
    assert!(matches!(refused, Err(Error::TooManyTransactions { limit: 3 })), "{refused:?}");
    let waiter = {
        let store = store.clone();
        std::thread::spawn(move || drop(begin(&store)))
    };
    drop(open);
    waiter.join().expect("no panic");
}

#[test]
fn recovery_keeps_the_newest_of_each_key_whatever_the_order() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut versions: Vec<(u64, u64)> = (1..2000).map(|at| (random.u64(0..100), at)).collect();
    let mut newest = std::collections::BTreeMap::new();
    newest.extend(versions.iter().copied());
    random.shuffle(&mut versions);
    let settings = Settings::new(1 << 30, 64, hand());
    let loader = Loader::new(settings);
    let value = |at: u64| (!at.is_multiple_of(3)).then(|| at.to_be_bytes());
    std::thread::scope(|scope| {
        for part in versions.chunks(500) {
            let loader = &loader;
            scope.spawn(move || {
                for part in part.chunks(30) {
                    let owned: Vec<_> =
                        part.iter().map(|(key, at)| (key.to_be_bytes(), value(*at), *at << 12)).collect();
                    let found = owned.iter().map(|(key, value, at)| RecoveredVersion {
                        table: TableId::new(1),
                        key,
                        value: value.as_ref().map(<[u8; 8]>::as_slice),
                        timestamp: Timestamp::new(*at),
                    });
                    loader.load(FoundIn::Log, &mut found.collect::<Vec<_>>()).expect("room");
                }
            });
        }
    });
    let store = loader.finish(Timestamp::new(2000 << 12), 3, Arc::new(FakeLog::default()));
    let table = table(&store);
    let mut reader = begin_read(&store);
    let rows = scan(&mut reader, &table, Direction::Up);
    let there: Vec<_> = newest
        .iter()
        .filter_map(|(key, at)| Some((key.to_be_bytes().to_vec(), value(*at)?.to_vec())))
        .collect();
    assert_eq!(rows, there);
    let running = begin(&store);
    assert!(running.timestamp > Timestamp::new(2000 << 12));
    drop((running, reader));
    let held: u64 = rows.iter().map(|(key, value)| (key.len() + value.len() + 96 + 192) as u64).sum();
    assert_eq!(store.used(), held);
    store.forget(table.id());
    assert_eq!(store.used(), 0);
}

/// A checkpoint is taken while transactions run, and has rows of different times. So it may have
/// more rows than the database ever had at one time.
#[test]
fn rows_that_the_log_removes_do_not_count_against_the_limit() {
    type Found = ([u8; 8], Option<Vec<u8>>, Timestamp);
    let rows = |keys: std::ops::Range<u64>, value: Option<&[u8]>, at: u64| -> Vec<Found> {
        let timestamp = Timestamp::new(at << 12);
        keys.map(|key| (key.to_be_bytes(), value.map(<[u8]>::to_vec), timestamp)).collect()
    };
    let load = |loader: &Loader, source, rows: &[Found]| {
        let found = rows.iter().map(|(key, value, timestamp)| RecoveredVersion {
            table: TableId::new(1),
            key,
            value: value.as_deref(),
            timestamp: *timestamp,
        });
        loader.load(source, &mut found.collect::<Vec<_>>())
    };
    let loader = || Loader::new(Settings::new(1 << 20, 64, hand()));
    let finish = |loader: Loader| loader.finish(Timestamp::new(9 << 12), 1, Arc::new(FakeLog::default()));
    // A row takes 1,296 bytes.
    let value = [7; 1000];
    let removes = loader();
    load(&removes, FoundIn::Checkpoint, &rows(0..1500, Some(&value), 1)).expect("less than twice the limit");
    load(&removes, FoundIn::Log, &rows(2000..2700, Some(&value), 2)).expect("the log is not limited");
    load(&removes, FoundIn::Log, &rows(0..1450, None, 3)).expect("tombstones");
    let store = finish(removes);
    store.check_limit().expect("750 rows are left");
    assert_eq!(store.used(), 750 * 1296);
    let full = store.charge(100_000).expect_err("the limit is that of the settings again");
    assert!(matches!(full, Error::MemoryFull { limit: 0x10_0000, .. }), "{full}");

    let keeps = loader();
    load(&keeps, FoundIn::Checkpoint, &rows(0..1500, Some(&value), 1)).expect("less than twice the limit");
    let full = finish(keeps).check_limit().expect_err("1,500 rows are left");
    assert!(matches!(full, Error::MemoryFull { used: 1_944_000, limit: 0x10_0000, .. }), "{full}");
    let full = load(&loader(), FoundIn::Checkpoint, &rows(0..1700, Some(&value), 1)).expect_err("too much");
    assert!(matches!(full, Error::MemoryFull { limit: 0x10_0000, .. }), "{full}");
}

#[test]
fn what_is_begun_after_an_acknowledgement_is_later_in_whatever_slot() {
    for per_tick in [1, 5, 50] {
        let (store, _) = store(Source::Hand(HandClock::new(per_tick)));
        let table = table(&store);
        let mut open = vec![begin(&store), begin(&store), begin(&store)];
        for number in 0..100 {
            // The loop ends the transactions in turn, so that a new transaction may use a lower
            // slot than the transaction before it.
            let mut running = open.remove(number % 3);
            running.put(&table, b"a", b"1").expect("put");
            let validated = running.validate().expect("only blind writes");
            let before = validated.timestamp();
            validated.committed();
            open.push(begin(&store));
            assert!(open[2].timestamp > before);
            assert!(begin_read(&store).bound > before);
        }
    }
}

#[test]
fn two_walks_from_both_ends_meet() {
    let (store, _) = store(hand());
    let table = table(&store);
    (0..20u8).for_each(|key| put(&store, &table, &[key], b"v"));
    let mut running = begin(&store);
    running.put(&table, &[99], b"own").expect("put");
    let (low, high) = ([3u8], [99u8]);
    let mut up = Scan::new(&table, Bound::Included(&low), Bound::Included(&high), Direction::Up);
    let mut down = Scan::new(&table, Bound::Included(&low), Bound::Included(&high), Direction::Down);
    let mut random = fastrand::Rng::with_seed(7);
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        let next = if random.bool() {
            let next = up.next(&mut running).expect("scan").map(|(key, _)| key);
            next.inspect(|key| {
                down.narrow(Bound::Excluded(key));
                front.push(key[0]);
            })
        } else {
            let next = down.next(&mut running).expect("scan").map(|(key, _)| key);
            next.inspect(|key| {
                up.narrow(Bound::Excluded(key));
                back.push(key[0]);
            })
        };
        if next.is_none() {
            break;
        }
    }
    back.reverse();
    assert_eq!([front, back].concat(), Vec::from_iter((3..20).chain([99])));
    commit(running);
}
