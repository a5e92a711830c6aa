//! The feed, compared with the list of acknowledged commits. The feed returns each durable commit
//! once, in the order of stamps, and nothing that was rolled back. These rules hold while clients
//! commit, from any position, and after crashes. If the log is gone, the feed returns an error.

use crate::common::{self, Rng, contents, options_for, with_advanced};
use katydid::{
    Change, ChangePosition, Changes, ChangesFrom, CommitStamp, CommittedTransaction, Database, Durability,
    EngineKind, Error, LockRelease, NewValue, Options, Table, TransactionOptions,
};
use katydid_device::{Directory, MemoryDirectory, SimDevice, Survival};
use katydid_wal::Background;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;

suite! {
    a_live_feed_gives_every_commit_once_in_the_order_of_stamps,
    a_feed_goes_on_from_any_position_in_any_opening,
    what_was_rolled_back_is_not_given,
    a_commit_that_took_everything_back_is_no_gap_behind_a_position,
    nothing_is_given_before_it_is_durable,
    after_a_crash_a_consumer_goes_on_where_it_has_acknowledged,
    a_consumer_is_listed_pins_the_log_up_to_its_bytes_and_fails_when_it_is_lost,
    a_transaction_that_does_not_end_holds_nobody_up,
    tables_come_and_go_in_the_feed,
    a_dropped_table_has_the_number_of_the_table_that_had_the_name_then,
    a_rename_is_one_change_of_the_feed,
    a_trimmed_log_is_a_gap_and_the_oldest_position_is_none,
    now_begins_with_what_commits_next,
    a_closed_database_ends_the_feed,
}

/// New values by key; `None` for a deleted key.
type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
type Commits = BTreeMap<CommitStamp, Writes>;

/// Returns the last value of each key that the transaction wrote.
fn effect(transaction: &CommittedTransaction) -> Writes {
    let mut writes = Writes::new();
    for change in &transaction.changes {
        if let Change::Row { key, new, name, .. } = change {
            assert_eq!(name.as_deref(), Some("t"));
            let value = match new {
                NewValue::Value(value) => Some(value.clone()),
                NewValue::Deleted => None,
                patch => panic!("values are recorded whole: {patch:?}"),
            };
            writes.insert(key.clone(), value);
        }
    }
    writes
}

/// Returns the transactions of `found` that changed rows. The stamps of `found` must grow.
fn commits(found: &[CommittedTransaction]) -> Commits {
    assert!(found.is_sorted_by(|before, after| before.stamp < after.stamp), "out of order, or twice");
    let all = found.iter().map(|transaction| (transaction.stamp, effect(transaction)));
    all.filter(|(_, writes)| !writes.is_empty()).collect()
}

fn drain(changes: &mut Changes) -> Vec<CommittedTransaction> {
    let mut found = Vec::new();
    while let Some(transaction) = changes.try_next().expect("feed") {
        found.push(transaction);
    }
    found
}

fn key(random: &mut Rng) -> Vec<u8> {
    format!("key {}", random.u32(0..40)).into_bytes()
}

fn value(random: &mut Rng) -> Vec<u8> {
    // Values of equal length differ only in their first four bytes. Some values need pages of their
    // own.
    let length = if random.u32(0..8) == 0 { random.usize(5_000..30_000) } else { random.usize(0..200) };
    let mut value = vec![7; length];
    value.iter_mut().take(4).for_each(|byte| *byte = random.u8(..));
    value
}

/// Runs one transaction of a client. Returns what it has written, if it committed.
fn transact(
    database: &Database,
    table: &Table,
    random: &mut Rng,
    durability: Durability,
) -> Option<(CommitStamp, Writes)> {
    let options = TransactionOptions { durability, ..TransactionOptions::default() };
    let txn = database.begin_with(options).expect("begin");
    let mut writes = Writes::new();
    for _ in 0..random.usize(1..5) {
        let savepoint = txn.savepoint();
        let before = writes.clone();
        for _ in 0..random.usize(1..3) {
            let key = key(random);
            let outcome = if random.u32(0..4) == 0 {
                let outcome = txn.delete(table, &key);
                if matches!(outcome, Ok(true)) {
                    writes.insert(key, None);
                }
                outcome.map(drop)
            } else {
                let value = value(random);
                // Putting the present value is no change.
                let is_there = txn.get(table, &key);
                let outcome = is_there.and_then(|there| {
                    txn.put(table, &key, &value).map(|()| there.as_deref() == Some(&value[..]))
                });
                outcome.map(|same| {
                    if !same {
                        writes.insert(key, Some(value));
                    }
                })
            };
            match outcome {
                Ok(()) => {}
                Err(error) if error.is_retryable() => return None,
                Err(error) => panic!("{error}"),
            }
        }
        if random.u32(0..4) == 0 {
            txn.rollback_to(&savepoint).expect("rollback to");
            writes = before;
        }
    }
    if random.u32(0..6) == 0 {
        txn.rollback().expect("rollback");
        return None;
    }
    match txn.commit() {
        Ok(stamp) => Some((stamp, writes)),
        Err(error) if error.is_retryable() => None,
        Err(error) => panic!("{error}"),
    }
}

fn open(engine: EngineKind, directory: Arc<dyn Directory>, release: LockRelease) -> Database {
    Database::open_in(directory, with_advanced(untrimmed(engine), |advanced| advanced.lock_release = release))
        .expect("open")
}

/// Returns options of a database that takes no checkpoint by itself while it is open.
fn untrimmed(engine: EngineKind) -> Options {
    let log_bytes = 1 << 40;
    with_advanced(options_for(engine), |advanced| {
        advanced.checkpoint_bytes = log_bytes;
        advanced.log_soft_bytes = log_bytes;
        advanced.log_hard_bytes = log_bytes;
    })
}

/// Compares the commits that the feed returned with the acknowledged ones. A put of the present
/// value is no change in the paged engine, and is a change in the memory engine.
fn assert_same(given: &Commits, acknowledged: &Commits, contents: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let stamps = |commits: &Commits| {
        commits.iter().filter(|(_, writes)| !writes.is_empty()).map(|(stamp, _)| *stamp).collect::<Vec<_>>()
    };
    let acknowledged_stamps = stamps(acknowledged);
    let missing: Vec<_> = acknowledged_stamps.iter().filter(|stamp| !given.contains_key(stamp)).collect();
    assert!(missing.is_empty(), "{missing:?} were acknowledged and not given");
    let mut state = BTreeMap::new();
    for (stamp, writes) in given {
        if let Some(written) = acknowledged.get(stamp) {
            for (key, value) in written {
                assert_eq!(writes.get(key), Some(value), "key {:?} of {stamp}", String::from_utf8_lossy(key));
            }
        }
        for (key, value) in writes {
            match value {
                Some(value) => drop(state.insert(key.clone(), value.clone())),
                None => drop(state.remove(key)),
            }
        }
    }
    assert_eq!(state, *contents, "what the feed gives is not what the table holds");
}

fn a_live_feed_gives_every_commit_once_in_the_order_of_stamps(engine: EngineKind) {
    for (round, release) in [LockRelease::Early, LockRelease::AfterDurable].into_iter().enumerate() {
        let seed = common::seed(11 + round as u64);
        let database = open(engine, Arc::new(MemoryDirectory::new()), release);
        let table = database.table("t").expect("table");
        let acknowledged = Mutex::new(Commits::new());
        let mut changes = database.changes(&ChangesFrom::Oldest).expect("changes");
        let given = thread::scope(|scope| {
            let feed = scope.spawn(|| {
                let mut given = Vec::new();
                loop {
                    let transaction = changes.next().expect("feed");
                    let is_last =
                        matches!(transaction.changes.last(), Some(Change::Row { key, .. }) if key == b"last");
                    given.push(transaction);
                    if is_last {
                        return given;
                    }
                }
            });
            let clients: Vec<_> = (0..3)
                .map(|client| {
                    let (database, table, acknowledged) = (&database, &table, &acknowledged);
                    scope.spawn(move || {
                        let mut random = Rng::with_seed(seed * 10 + client);
                        for _ in 0..150 {
                            let done = transact(database, table, &mut random, Durability::Durable);
                            acknowledged.lock().expect("no panic").extend(done);
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().expect("no panic"));
            let txn = database.begin().expect("begin");
            txn.put(&table, "last", "one").expect("put");
            let stamp = txn.commit().expect("commit");
            let last = Writes::from([(b"last".to_vec(), Some(b"one".to_vec()))]);
            acknowledged.lock().expect("no panic").insert(stamp, last);
            feed.join().expect("no panic")
        });
        let acknowledged = acknowledged.into_inner().expect("no panic");
        assert_same(&commits(&given), &acknowledged, &contents(&database, &table));
        let again = drain(&mut database.changes(&ChangesFrom::Oldest).expect("changes"));
        assert!(given.ends_with(&again), "what the log still has is the same when it is read again");
        database.close().expect("close");
    }
}

fn a_feed_goes_on_from_any_position_in_any_opening(engine: EngineKind) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let database = open(engine, directory.clone(), LockRelease::Early);
    let table = database.table("t").expect("table");
    let mut changes = database.changes(&ChangesFrom::Oldest).expect("changes");
    let mut random = Rng::with_seed(common::seed(5));
    let mut given = Vec::new();
    let mut positions = vec![changes.position()];
    for _ in 0..30 {
        transact(&database, &table, &mut random, Durability::Durable);
        while let Some(transaction) = changes.try_next().expect("feed") {
            given.push(transaction);
            positions.push(changes.position());
        }
    }
    for (nth, position) in positions.iter().enumerate() {
        let kept: ChangePosition = position.to_string().parse().expect("a position");
        assert_eq!(kept, *position);
        let rest = drain(&mut database.changes(&ChangesFrom::Position(kept)).expect("changes"));
        assert!(rest == given[nth..], "after {nth}");
    }
}

fn what_was_rolled_back_is_not_given(engine: EngineKind) {
    let database = open(engine, Arc::new(MemoryDirectory::new()), LockRelease::Early);
    let table = database.table("t").expect("table");
    let mut changes = database.changes(&ChangesFrom::Now).expect("changes");
    let txn = database.begin().expect("begin");
    txn.put(&table, "a", "1").expect("put");
    let savepoint = txn.savepoint();
    txn.put(&table, "b", vec![3; 20_000]).expect("put");
    txn.delete(&table, "a").expect("delete");
    txn.rollback_to(&savepoint).expect("rollback to");
    txn.put(&table, "c", "3").expect("put");
    let stamp = txn.commit().expect("commit");
    let txn = database.begin().expect("begin");
    txn.put(&table, "d", "4").expect("put");
    txn.rollback().expect("rollback");
    let found = drain(&mut changes);
    let expected = [("a", "1"), ("c", "3")].map(|(key, value)| (key.into(), Some(value.into())));
    assert_eq!(commits(&found), Commits::from([(stamp, Writes::from(expected))]));
}

/// The feed does not return a commit that took all of its changes back, so the stamp of that commit
/// belongs to no returned transaction.
fn a_commit_that_took_everything_back_is_no_gap_behind_a_position(engine: EngineKind) {
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), untrimmed(engine)).expect("open");
    let table = database.table("t").expect("table");
    let mut changes = database.changes(&ChangesFrom::Now).expect("changes");
    let [nothing, long, short] = [(); 3].map(|()| database.begin().expect("begin"));
    let savepoint = nothing.savepoint();
    nothing.put(&table, "nothing", "never").expect("put");
    nothing.rollback_to(&savepoint).expect("rollback to");
    // A position of the feed after all of these transactions needs the log from here on.
    long.put(&table, "long", "value").expect("put");
    short.put(&table, "short", "value").expect("put");
    short.commit().expect("commit");
    nothing.commit().expect("commit");
    assert_eq!(drain(&mut changes).len(), 1);
    let position = changes.position();
    drop(changes);
    long.commit().expect("commit");
    let mut again = database.changes(&ChangesFrom::Position(position)).expect("changes");
    let found = drain(&mut again);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(effect(&found[0]).contains_key(&b"long"[..]), "{found:?}");
}

fn nothing_is_given_before_it_is_durable(engine: EngineKind) {
    let options = options_for(engine);
    let database = Database::open_in(SimDevice::new(1).directory(), caller(options)).expect("open");
    let table = database.table("t").expect("table");
    let mut changes = database.changes(&ChangesFrom::Now).expect("changes");
    let options = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    let txn = database.begin_with(options).expect("begin");
    txn.put(&table, "a", "1").expect("put");
    let stamp = txn.commit().expect("commit");
    assert!(drain(&mut changes).is_empty(), "it is in memory only");
    database.sync().expect("sync");
    assert_eq!(drain(&mut changes).iter().map(|given| given.stamp).collect::<Vec<_>>(), [stamp]);
}

fn caller(mut options: Options) -> Options {
    options.advanced.log.background = Background::Caller;
    options
}

/// A consumer acknowledges now and then, over several crashes and checkpoints. The consumer gets
/// unacknowledged transactions once more, all other transactions once, and all in one order.
fn after_a_crash_a_consumer_goes_on_where_it_has_acknowledged(engine: EngineKind) {
    for seed in 0..12 {
        let mut random = Rng::with_seed(common::seed(seed * 100));
        let mut device = SimDevice::new(seed);
        let mut acknowledged = Commits::new();
        // The transactions that the consumer got, in the order of stamps, and how many of these it
        // has acknowledged.
        let mut given: Vec<CommittedTransaction> = Vec::new();
        let mut kept = 0;
        for life in 0..5 {
            let options = caller(options_for(engine));
            let database = Database::open_in(device.directory(), options).expect("open");
            let mut consumer = database.consumer("c", u64::MAX, &ChangesFrom::Oldest).expect("consumer");
            let table = database.table("t").expect("table");
            let known = given.split_off(kept);
            let mut again = known.iter();
            for _ in 0..random.u32(1..20) {
                let level = [Durability::Buffered, Durability::Durable][random.usize(..2)];
                let done = transact(&database, &table, &mut random, level);
                acknowledged.extend(done.filter(|_| level == Durability::Durable));
                if random.u32(0..6) == 0 {
                    database.checkpoint().expect("checkpoint");
                }
                if random.bool() {
                    while let Some(transaction) = consumer.try_next().expect("feed") {
                        if let Some(before) = again.next() {
                            assert!(
                                *before == transaction,
                                "seed {seed}: it was another one before the crash"
                            );
                        }
                        given.push(transaction);
                    }
                    if random.bool() {
                        consumer.acknowledge().expect("acknowledge");
                        kept = given.len();
                    }
                }
            }
            if life == 4 {
                database.sync().expect("sync");
                while let Some(transaction) = consumer.try_next().expect("feed") {
                    given.push(transaction);
                }
                assert_same(&commits(&given), &acknowledged, &contents(&database, &table));
            }
            device = device.reopen_with(random.u64(..), Survival::DropAll);
        }
    }
}

fn a_consumer_is_listed_pins_the_log_up_to_its_bytes_and_fails_when_it_is_lost(engine: EngineKind) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let database = open(engine, directory.clone(), LockRelease::Early);
    let table = database.table("t").expect("table");
    let lost = database.consumer("lost", 10_000, &ChangesFrom::Now).expect("consumer");
    database.put(&table, "before", "1").expect("put");
    let kept = database.consumer("kept", 1 << 40, &ChangesFrom::Now).expect("consumer");
    database.put(&table, "first", "1").expect("put");
    for number in 0..100 {
        database.put(&table, format!("{number}"), vec![1; 2_000]).expect("put");
    }
    database.checkpoint().expect("checkpoint");
    database.checkpoint().expect("checkpoint");
    let listed = |database: &Database| {
        let listed = database.stat().expect("stat").log.consumers;
        listed.iter().map(|consumer| (consumer.name.clone(), consumer.is_lost)).collect::<Vec<_>>()
    };
    let expected = [("kept".to_owned(), false), ("lost".to_owned(), true)];
    assert_eq!(listed(&database), expected);
    assert!(database.stat().expect("stat").log.pinned_bytes > 100_000);
    drop((kept, lost));
    database.close().expect("close");
    let database = open(engine, directory, LockRelease::Early);
    assert_eq!(listed(&database), expected, "and after opening again");
    let refused = database.consumer("lost", 10_000, &ChangesFrom::Now).map(drop);
    assert!(matches!(refused, Err(Error::ChangesGap { .. })), "{refused:?}");
    let mut kept = database.consumer("kept", 0, &ChangesFrom::Now).expect("consumer");
    let transaction = kept.next().expect("feed");
    assert!(effect(&transaction).contains_key(&b"first"[..]), "{transaction:?}");
    while kept.try_next().expect("feed").is_some() {}
    kept.acknowledge().expect("acknowledge");
    assert!(database.remove_consumer("lost").expect("remove"));
    assert!(!database.remove_consumer("lost").expect("remove"));
    database.checkpoint().expect("checkpoint");
    assert_eq!(database.stat().expect("stat").log.pinned_bytes, 0, "nothing is kept any more");
    let refused = database.consumer("Not a name", 1, &ChangesFrom::Now).map(drop);
    assert!(matches!(refused, Err(Error::Log(_))), "{refused:?}");
}

fn a_transaction_that_does_not_end_holds_nobody_up(engine: EngineKind) {
    let database = open(engine, Arc::new(MemoryDirectory::new()), LockRelease::Early);
    let table = database.table("t").expect("table");
    let mut changes = database.changes(&ChangesFrom::Now).expect("changes");
    let old = database.begin().expect("begin");
    old.put(&table, "old", "1").expect("put");
    let mut stamps = Vec::new();
    for number in 0..10 {
        let txn = database.begin().expect("begin");
        txn.put(&table, format!("new {number}"), "1").expect("put");
        stamps.push(txn.commit().expect("commit"));
        assert_eq!(changes.next().expect("feed").stamp, stamps[number], "it is given at once");
    }
    let position = changes.position();
    stamps.push(old.commit().expect("commit"));
    assert_eq!(changes.next().expect("feed").stamp, stamps[10]);
    let rest = drain(&mut database.changes(&ChangesFrom::Position(position)).expect("changes"));
    assert_eq!(commits(&rest)[&stamps[10]].keys().collect::<Vec<_>>(), [b"old"], "it is there as a whole");
}

fn a_rename_is_one_change_of_the_feed(engine: EngineKind) {
    let database = open(engine, Arc::new(MemoryDirectory::new()), LockRelease::Early);
    let mut changes = database.changes(&ChangesFrom::Oldest).expect("changes");
    let table = database.table("fruit").expect("table");
    database.put(&table, "apple", "red").expect("put");
    assert!(database.rename_table("fruit", "food").expect("rename"));
    database.put(&table, "pear", "green").expect("put");
    // A feed that is opened after the rename also returns the rename.
    for feed in [&mut changes, &mut database.changes(&ChangesFrom::Oldest).expect("changes")] {
        let all: Vec<Change> = drain(feed).into_iter().flat_map(|given| given.changes).collect();
        let [Change::TableCreated { .. }, Change::Row { .. }, renamed, Change::Row { name, .. }] = &all[..]
        else {
            panic!("{all:?}")
        };
        let (from, to): (Arc<str>, Arc<str>) = ("fruit".into(), "food".into());
        assert_eq!(*renamed, Change::TableRenamed { table: table.id(), from, to });
        assert_eq!(name.as_deref(), Some("food"));
    }
}

fn tables_come_and_go_in_the_feed(engine: EngineKind) {
    let database = open(engine, Arc::new(MemoryDirectory::new()), LockRelease::Early);
    let mut changes = database.changes(&ChangesFrom::Oldest).expect("changes");
    let table = database.table("fruit").expect("table");
    database.put(&table, "apple", "red").expect("put");
    database.drop_table("fruit").expect("drop");
    let all: Vec<Change> = drain(&mut changes).into_iter().flat_map(|given| given.changes).collect();
    let number = match &all[..] {
        [
            Change::TableCreated { table, name },
            Change::Row { table: of, name: named, .. },
            Change::TableDropped { table: gone, name: old },
        ] => {
            assert_eq!((&**name, named.as_deref(), &**old), ("fruit", Some("fruit"), "fruit"));
            assert_eq!((of, gone), (table, &Some(*table)));
            *table
        }
        other => panic!("{other:?}"),
    };
    // A feed that reads the row later knows the table's name only if it also reads the table's
    // creation.
    let again = drain(&mut database.changes(&ChangesFrom::Oldest).expect("changes"));
    assert!(matches!(&again[1].changes[0], Change::Row { table, name: Some(_), .. } if *table == number));
}

/// A table is dropped and made again several times, and the feed is read afterwards.
fn a_dropped_table_has_the_number_of_the_table_that_had_the_name_then(engine: EngineKind) {
    let database = open(engine, Arc::new(MemoryDirectory::new()), LockRelease::Early);
    let mut live = database.changes(&ChangesFrom::Now).expect("changes");
    let mut made = Vec::new();
    for round in 0..8 {
        let table = database.table("fruit").expect("table");
        made.push(table.id());
        if round == 7 {
            break;
        }
        // Every other time the table has got the name from a rename.
        if round % 2 == 1 {
            assert!(database.rename_table("fruit", "food").expect("rename"));
            assert!(database.rename_table("food", "fruit").expect("rename"));
        }
        database.drop_table("fruit").expect("drop");
    }
    for feed in [&mut live, &mut database.changes(&ChangesFrom::Oldest).expect("changes")] {
        let all: Vec<Change> = drain(feed).into_iter().flat_map(|given| given.changes).collect();
        let dropped: Vec<_> = all
            .iter()
            .filter_map(|change| match change {
                Change::TableDropped { table, .. } => Some(table.expect("its creation was given")),
                _ => None,
            })
            .collect();
        assert_eq!(dropped, made[..7]);
    }
    // A feed that begins now knows the number of a table that exists.
    let mut feed = database.changes(&ChangesFrom::Now).expect("changes");
    let position = feed.position();
    database.drop_table("fruit").expect("drop");
    let dropped = drain(&mut feed);
    assert!(
        matches!(dropped[..], [CommittedTransaction { ref changes, .. }]
            if matches!(changes[..], [Change::TableDropped { table: Some(table), .. }] if table == made[7])),
        "{dropped:?}"
    );
    // A table that is created later with this name has another number.
    let table = database.table("fruit").expect("table");
    let again = drain(&mut database.changes(&ChangesFrom::Position(position)).expect("changes"));
    match &again[0].changes[..] {
        [Change::TableDropped { table: dropped, .. }] => assert_ne!(*dropped, Some(table.id())),
        other => panic!("{other:?}"),
    }
}

fn a_trimmed_log_is_a_gap_and_the_oldest_position_is_none(engine: EngineKind) {
    let database = open(engine, Arc::new(MemoryDirectory::new()), LockRelease::Early);
    let table = database.table("t").expect("table");
    let mut changes = database.changes(&ChangesFrom::Oldest).expect("changes");
    let first = changes.position();
    let mut random = Rng::with_seed(common::seed(9));
    for _ in 0..200 {
        transact(&database, &table, &mut random, Durability::Durable);
    }
    // Two checkpoints, because the first leaves the log that the second trims.
    database.checkpoint().expect("checkpoint");
    database.checkpoint().expect("checkpoint");
    let refused = database.changes(&ChangesFrom::Position(first.clone())).map(drop);
    assert!(matches!(refused, Err(Error::ChangesGap { at, .. }) if at == first.stamp()), "{refused:?}");
    let refused = loop {
        // Before the error the feed may return transactions that it has read already.
        match changes.try_next() {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(refused, Err(Error::ChangesGap { .. })), "{refused:?}");
    let mut oldest = database.changes(&ChangesFrom::Oldest).expect("changes");
    drain(&mut oldest);
    let txn = database.begin().expect("begin");
    txn.put(&table, "next", "1").expect("put");
    let stamp = txn.commit().expect("commit");
    assert_eq!(oldest.next().expect("feed").stamp, stamp);
}

fn now_begins_with_what_commits_next(engine: EngineKind) {
    let database = open(engine, Arc::new(MemoryDirectory::new()), LockRelease::Early);
    let table = database.table("t").expect("table");
    let open = database.begin().expect("begin");
    open.put(&table, "open", "1").expect("put");
    database.put(&table, "before", "1").expect("put");
    let mut changes = database.changes(&ChangesFrom::Now).expect("changes");
    let stamp = open.commit().expect("commit");
    database.put(&table, "after", "1").expect("put");
    let found = commits(&drain(&mut changes));
    assert_eq!(found.len(), 2);
    assert_eq!(found[&stamp].keys().collect::<Vec<_>>(), [b"open"], "it is there as a whole");
}

fn a_closed_database_ends_the_feed(engine: EngineKind) {
    let database = open(engine, Arc::new(MemoryDirectory::new()), LockRelease::Early);
    let table = database.table("t").expect("table");
    let mut changes = database.changes(&ChangesFrom::Now).expect("changes");
    thread::scope(|scope| {
        let waits = scope.spawn(|| (changes.next().map(|given| given.stamp), changes.next().map(drop)));
        let txn = database.begin().expect("begin");
        txn.put(&table, "a", "1").expect("put");
        let stamp = txn.commit().expect("commit");
        database.close().expect("close");
        let (first, then) = waits.join().expect("no panic");
        if let Ok(first) = first {
            assert_eq!(first, stamp);
        }
        assert!(matches!(then, Err(Error::Closed)), "{then:?}");
    });
}
