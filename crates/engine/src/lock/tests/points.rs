//! Tests of point locks and table locks: the matrix, upgrades, order, timeouts, dependencies of
//! readers.

use super::PointMode::{Exclusive, Shared, Update};
use super::*;
use std::sync::Mutex;

#[test]
fn granted_modes_follow_the_matrix() {
    for held in [Shared, Update, Exclusive] {
        for wanted in [Shared, Update, Exclusive] {
            let rig = Rig::new(LONG);
            let mut holder = rig.txn(1);
            rig.point(&mut holder, "k", held).unwrap();
            let waited = rig.waits(2, "k", wanted, || rig.end(&mut holder));
            assert_eq!(waited, !held.admits(wanted), "{held:?} {wanted:?}");
            rig.assert_vacant();
        }
    }
}

#[test]
fn upgrades_alone_are_granted_at_once() {
    let rig = Rig::new(LONG);
    let mut txn = rig.txn(1);
    for (key, modes) in [
        ("a", [Shared, Exclusive, Shared]),
        ("b", [Shared, Update, Exclusive]),
        ("c", [Update, Exclusive, Update]),
    ] {
        for mode in modes {
            rig.point(&mut txn, key, mode).unwrap();
        }
    }
    assert_eq!(txn.held().map(|(_, mode)| mode).collect::<Vec<_>>(), [Exclusive; 3]);
    assert!(
        format!("{txn:?}").starts_with("transaction 1 holds Exclusive key \"a\" of table 7, "),
        "{txn:?}"
    );
    assert!(rig.waits(2, "c", Shared, || rig.end(&mut txn)));
    rig.assert_vacant();
}

#[test]
fn an_upgrade_goes_before_those_who_wait() {
    let rig = Rig::new(LONG);
    let order = Mutex::new(Vec::new());
    let (mut upgrader, mut reader) = (rig.txn(1), rig.txn(2));
    rig.point(&mut upgrader, "k", Shared).unwrap();
    rig.point(&mut reader, "k", Shared).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = rig.txn(3);
            rig.point(&mut writer, "k", Exclusive).unwrap();
            order.lock().unwrap().push("writer");
            rig.end(&mut writer);
        });
        rig.until_waiting(1);
        scope.spawn(|| {
            rig.point(&mut upgrader, "k", Exclusive).unwrap();
            order.lock().unwrap().push("upgrader");
            rig.end(&mut upgrader);
        });
        rig.until_waiting(2);
        rig.end(&mut reader);
    });
    assert_eq!(*order.lock().unwrap(), ["upgrader", "writer"]);
    rig.assert_vacant();
}

#[test]
fn an_update_lock_becomes_exclusive_when_the_readers_have_left() {
    let rig = Rig::new(LONG);
    let (mut updater, mut reader) = (rig.txn(1), rig.txn(2));
    rig.point(&mut reader, "k", Shared).unwrap();
    rig.point(&mut updater, "k", Update).unwrap();
    thread::scope(|scope| {
        let upgrade = scope.spawn(|| rig.point(&mut updater, "k", Exclusive));
        rig.until_waiting(1);
        rig.end(&mut reader);
        upgrade.join().unwrap().unwrap();
    });
    rig.end(&mut updater);
    rig.assert_vacant();
}

#[test]
fn waiters_are_granted_in_the_order_they_came() {
    let rig = Rig::new(LONG);
    let order = Mutex::new(Vec::new());
    let mut holder = rig.txn(1);
    rig.point(&mut holder, "k", Exclusive).unwrap();
    thread::scope(|scope| {
        for i in 0..8 {
            let (rig, order) = (&rig, &order);
            scope.spawn(move || {
                let mut txn = rig.txn(100 - i);
                rig.point(&mut txn, "k", if i % 3 == 0 { Update } else { Exclusive }).unwrap();
                order.lock().unwrap().push(i);
                rig.end(&mut txn);
            });
            rig.until_waiting(i as usize + 1);
        }
        rig.end(&mut holder);
    });
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    assert_eq!(rig.locks.stat().waits, 8);
    rig.assert_vacant();
}

#[test]
fn readers_do_not_overtake_a_waiting_writer() {
    let rig = Rig::new(LONG);
    let mut reader = rig.txn(1);
    rig.point(&mut reader, "k", Shared).unwrap();
    let late_waited = Mutex::new(None);
    let writer_waited = rig.waits(2, "k", Exclusive, || {
        let waited = rig.waits(3, "k", Shared, || rig.end(&mut reader));
        *late_waited.lock().unwrap() = Some(waited);
    });
    assert!(writer_waited);
    assert_eq!(*late_waited.lock().unwrap(), Some(true));
    rig.assert_vacant();
}

#[test]
fn a_timeout_names_key_and_holder_and_lets_others_on() {
    let rig = Rig::new(Duration::from_millis(5));
    let (mut reader, mut writer, mut other) = (rig.txn(1), rig.txn(2), rig.txn(3));
    rig.point(&mut reader, "k\0", Shared).unwrap();
    let conflict = rig.point(&mut writer, "k\0", Exclusive).unwrap_err();
    assert_eq!((conflict.victim, conflict.kind), (TxnId::new(2), ConflictKind::Timeout));
    assert_eq!(conflict.blockers, [TxnId::new(1)]);
    assert_eq!(
        conflict.to_string(),
        "transaction 2 gave way: it wanted key \"k\\x00\" of table 7, behind transaction 1; \
         the lock was not granted in time"
    );
    rig.point(&mut other, "k\0", Shared).unwrap();
    assert_eq!(rig.locks.stat(), LockStat { waits: 1, deadlocks: 0, timeouts: 1, waiting: 0 });
    for txn in [&mut reader, &mut writer, &mut other] {
        rig.end(txn);
    }
    rig.assert_vacant();
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let rig = Rig::new(Duration::from_millis(50));
    let mut reader = rig.txn(1);
    rig.point(&mut reader, "k", Shared).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| rig.point(&mut rig.txn(2), "k", Exclusive));
        // This request is granted after the writer has timed out, whichever of the two requests
        // came first.
        let late = scope.spawn(|| {
            let mut late = rig.txn(3);
            while rig.point(&mut late, "k", Shared).is_err() {}
            rig.end(&mut late);
        });
        assert_eq!(writer.join().unwrap().unwrap_err().kind, ConflictKind::Timeout);
        late.join().unwrap();
    });
    rig.end(&mut reader);
    rig.assert_vacant();
}

#[test]
fn a_table_is_dropped_when_nobody_uses_it() {
    let rig = Rig::new(LONG);
    let table = TableId::new(7);
    let mut users: Vec<_> = (1..20).map(|id| rig.txn(id)).collect();
    for user in &mut users {
        for _ in 0..2 {
            rig.locks.acquire_table(user, table, TableMode::Shared).unwrap();
        }
        assert_eq!(user.held().count(), 1);
    }
    thread::scope(|scope| {
        let drop = scope.spawn(|| {
            let mut dropper = rig.txn(30);
            rig.locks.acquire_table(&mut dropper, table, TableMode::Exclusive).unwrap();
            rig.locks.acquire_table(&mut dropper, table, TableMode::Shared).unwrap();
            let late =
                scope.spawn(|| rig.locks.acquire_table(&mut rig.txn(31), table, TableMode::Shared).is_ok());
            rig.until_waiting(1);
            let (waiting, on, behind) = rig.locks.waits().remove(0);
            assert_eq!((waiting, on, behind), (TxnId::new(31), Resource::Table(table), vec![TxnId::new(30)]));
            rig.end(&mut dropper);
            assert!(late.join().unwrap());
        });
        for user in &mut users {
            rig.until_waiting(1);
            assert!(!drop.is_finished());
            rig.end(user);
        }
    });
    rig.locks.forget(table);
    assert!(!Arc::ptr_eq(&rig.space, &rig.locks.space(table)));
}

#[test]
fn holders_learn_what_their_locks_depend_on() {
    let rig = Rig::new(LONG);
    let (mut writer, mut reader) = (rig.txn(1), rig.txn(2));
    rig.point(&mut writer, "written", Exclusive).unwrap();
    rig.point(&mut writer, "read", Update).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| rig.point(&mut reader, "written", Shared));
        rig.until_waiting(1);
        rig.locks.release_all(&mut writer, Some(Lsn::new(500)));
        assert_eq!(waiting.join().unwrap(), Ok(Lsn::new(500)));
    });
    assert_eq!(rig.point(&mut reader, "read", Shared), Ok(Lsn::ZERO));
    let mut late = rig.txn(3);
    assert_eq!(rig.point(&mut late, "written", Shared), Ok(Lsn::new(500)));
    rig.end(&mut late);
    let scan = rig.range(&mut late, Bound::Included("x"), Bound::Unbounded).unwrap();
    assert_eq!(scan.depends_on, Lsn::new(500), "intervals depend on the newest of the table");
    rig.end(&mut reader);
    rig.end(&mut late);

    let mut durable = rig.txn(4);
    rig.point(&mut durable, "other", Exclusive).unwrap();
    rig.locks.release_all(&mut durable, None);
    assert_eq!(rig.point(&mut durable, "other", Shared), Ok(Lsn::ZERO));
    rig.locks.release_all(&mut durable, Some(Lsn::new(900)));
    assert_eq!(rig.point(&mut durable, "other", Shared), Ok(Lsn::ZERO), "readers leave nothing behind");
    rig.end(&mut durable);
    rig.assert_vacant();
}

#[test]
fn ten_thousand_locks_of_one_transaction_are_found_again_and_released() {
    let rig = Rig::new(LONG);
    let mut txn = rig.txn(1);
    let keys: Vec<_> = (0..10_000).map(|i| format!("key{i}")).collect();
    for mode in [Shared, Exclusive, Update] {
        for key in &keys {
            rig.point(&mut txn, key, mode).unwrap();
        }
        assert_eq!(txn.held().count(), keys.len());
    }
    assert!(rig.waits(2, "key4711", Shared, || rig.end(&mut txn)));
    rig.assert_vacant();
}
