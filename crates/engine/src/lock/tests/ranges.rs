//! Tests of interval locks: phantoms, bounds, order between scans and writers, extension.

use super::PointMode::{Exclusive, Shared, Update};
use super::*;
use Bound::{Excluded, Included, Unbounded};

#[test]
fn a_range_keeps_writers_out_of_its_bounds_and_nobody_else() {
    let cases: [(Bound<&str>, Bound<&str>, &str); 7] = [
        (Included("b"), Included("d"), "bcd"),
        (Included("b"), Excluded("d"), "bc"),
        (Excluded("b"), Included("d"), "cd"),
        (Excluded("b"), Excluded("d"), "c"),
        (Unbounded, Excluded("c"), "ab"),
        (Excluded("c"), Unbounded, "de"),
        (Unbounded, Unbounded, "abcde"),
    ];
    for (low, high, inside) in cases {
        for key in ["a", "b", "c", "d", "e"] {
            for mode in [Shared, Update, Exclusive] {
                let rig = Rig::new(LONG);
                let mut scan = rig.txn(1);
                rig.range(&mut scan, low, high).unwrap();
                let waited = rig.waits(2, key, mode, || rig.end(&mut scan));
                assert_eq!(
                    waited,
                    mode == Exclusive && inside.contains(key),
                    "{low:?} {high:?} {key} {mode:?}"
                );
                rig.assert_vacant();
            }
        }
    }
}

#[test]
fn an_empty_range_locks_nothing() {
    let rig = Rig::new(LONG);
    let mut scan = rig.txn(1);
    for (low, high) in [
        (Included("b"), Included("a")),
        (Included("a"), Excluded("a")),
        (Excluded("a"), Included("a")),
        (Excluded("a"), Excluded("a")),
    ] {
        rig.range(&mut scan, low, high).unwrap();
        assert_eq!(scan.held().count(), 0);
    }
    rig.assert_vacant();
    rig.range(&mut scan, Included("a"), Included("a")).unwrap();
    assert_eq!(scan.held().count(), 1);
    rig.end(&mut scan);
}

#[test]
fn a_range_waits_for_writers_inside_it_and_sees_what_they_left() {
    let rig = Rig::new(LONG);
    let (mut inside, mut also, mut outside) = (rig.txn(1), rig.txn(2), rig.txn(3));
    rig.point(&mut inside, "b", Exclusive).unwrap();
    rig.point(&mut also, "c", Exclusive).unwrap();
    rig.point(&mut outside, "x", Exclusive).unwrap();
    thread::scope(|scope| {
        let scan = scope.spawn(|| {
            let mut scan = rig.txn(4);
            let granted = rig.range(&mut scan, Included("a"), Excluded("x"));
            rig.end(&mut scan);
            granted
        });
        rig.until_waiting(1);
        let (txn, on, mut behind) = rig.locks.waits().remove(0);
        behind.sort();
        assert_eq!((txn.get(), behind), (4, vec![TxnId::new(1), TxnId::new(2)]));
        assert_eq!(on.to_string(), "keys [\"a\", \"x\") of table 7");
        rig.locks.release_all(&mut inside, Some(Lsn::new(70)));
        rig.until_waiting(1);
        rig.locks.release_all(&mut also, Some(Lsn::new(60)));
        assert_eq!(scan.join().unwrap().unwrap().depends_on, Lsn::new(70));
    });
    rig.end(&mut outside);
    rig.assert_vacant();
}

#[test]
fn a_scan_and_its_own_writes_do_not_disturb_each_other() {
    let rig = Rig::new(LONG);
    let mut txn = rig.txn(1);
    rig.point(&mut txn, "b", Exclusive).unwrap();
    rig.range(&mut txn, Unbounded, Unbounded).unwrap();
    rig.point(&mut txn, "c", Exclusive).unwrap();
    rig.point(&mut txn, "d", Shared).unwrap();
    assert_eq!(txn.held().count(), 3, "reading what a range covers takes no lock");
    assert_eq!(rig.locks.stat().waits, 0);
    rig.end(&mut txn);
    rig.assert_vacant();
}

#[test]
fn a_waiting_range_holds_up_later_writers_but_not_the_one_it_waits_for() {
    let rig = Rig::new(LONG);
    let mut writer = rig.txn(1);
    rig.point(&mut writer, "b", Exclusive).unwrap();
    thread::scope(|scope| {
        let scan = scope.spawn(|| {
            let mut scan = rig.txn(2);
            rig.range(&mut scan, Included("a"), Included("z")).unwrap();
            // The later writer still waits.
            rig.until_waiting(1);
            rig.end(&mut scan);
        });
        rig.until_waiting(1);
        rig.point(&mut writer, "c", Exclusive).unwrap();
        rig.point(&mut writer, "d", Shared).unwrap();
        rig.point(&mut writer, "d", Exclusive).unwrap();
        let late = scope.spawn(|| {
            let mut late = rig.txn(3);
            rig.point(&mut late, "e", Exclusive).unwrap();
            rig.end(&mut late);
        });
        rig.until_waiting(2);
        rig.end(&mut writer);
        scan.join().unwrap();
        late.join().unwrap();
    });
    assert_eq!(rig.locks.stat().deadlocks, 0);
    rig.assert_vacant();
}

#[test]
fn a_waiting_writer_holds_up_later_ranges() {
    let rig = Rig::new(LONG);
    let mut early = rig.txn(1);
    rig.range(&mut early, Included("a"), Included("m")).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = rig.txn(2);
            rig.point(&mut writer, "c", Exclusive).unwrap();
            // The later scan still waits.
            rig.until_waiting(1);
            rig.end(&mut writer);
        });
        rig.until_waiting(1);
        let late = scope.spawn(|| {
            let mut late = rig.txn(3);
            rig.range(&mut late, Included("b"), Unbounded).unwrap();
            rig.end(&mut late);
        });
        rig.until_waiting(2);
        // A range without the writer's key is granted at once.
        let mut elsewhere = rig.txn(4);
        rig.range(&mut elsewhere, Included("d"), Unbounded).unwrap();
        // The transaction that the writer waits for does not queue behind the writer.
        rig.range(&mut early, Unbounded, Included("z")).unwrap();
        rig.end(&mut elsewhere);
        rig.end(&mut early);
        writer.join().unwrap();
        late.join().unwrap();
    });
    assert_eq!(rig.locks.stat().deadlocks, 0);
    rig.assert_vacant();
}

#[test]
fn a_reader_of_the_key_scans_over_the_writer_that_waits_for_it() {
    let rig = Rig::new(LONG);
    let mut reader = rig.txn(1);
    rig.point(&mut reader, "k", Shared).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = rig.txn(2);
            rig.point(&mut writer, "k", Exclusive).unwrap();
            rig.end(&mut writer);
        });
        rig.until_waiting(1);
        rig.range(&mut reader, Unbounded, Unbounded).unwrap();
        assert!(!writer.is_finished());
        rig.end(&mut reader);
    });
    assert_eq!(rig.locks.stat().deadlocks, 0);
    rig.assert_vacant();
}

#[test]
fn a_range_that_gives_up_lets_writers_on() {
    let rig = Rig::new(Duration::from_millis(5));
    let (mut writer, mut scan, mut late) = (rig.txn(1), rig.txn(2), rig.txn(3));
    rig.point(&mut writer, "b", Exclusive).unwrap();
    let conflict = rig.range(&mut scan, Unbounded, Included("m")).unwrap_err();
    assert_eq!((conflict.kind, &conflict.blockers[..]), (ConflictKind::Timeout, &[TxnId::new(1)][..]));
    assert_eq!(conflict.wanted.to_string(), "keys (.., \"m\"] of table 7");
    rig.point(&mut late, "c", Exclusive).unwrap();
    for txn in [&mut writer, &mut scan, &mut late] {
        rig.end(txn);
    }
    rig.assert_vacant();
}

#[test]
fn a_writer_that_gives_up_lets_ranges_on() {
    let rig = Rig::new(Duration::from_millis(30));
    let mut early = rig.txn(1);
    rig.range(&mut early, Unbounded, Unbounded).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| rig.point(&mut rig.txn(2), "c", Exclusive));
        let late = scope.spawn(|| {
            let mut late = rig.txn(3);
            while rig.range(&mut late, Included("a"), Unbounded).is_err() {}
            rig.end(&mut late);
        });
        assert!(writer.join().unwrap().unwrap_err().blockers.contains(&TxnId::new(1)));
        late.join().unwrap();
    });
    rig.end(&mut early);
    rig.assert_vacant();
}

#[test]
fn a_scan_extends_its_range_and_keeps_one() {
    let rig = Rig::new(LONG);
    let mut scan = rig.txn(1);
    rig.range(&mut scan, Included("f"), Included("g")).unwrap();
    for high in [Included("h"), Excluded("k"), Included("k"), Included("j")] {
        rig.range(&mut scan, Excluded("g"), high).unwrap();
    }
    for low in [Excluded("e"), Included("e"), Excluded("c")] {
        rig.range(&mut scan, low, Excluded("f")).unwrap();
    }
    let held: Vec<_> = scan.held().map(|(on, _)| on.to_string()).collect();
    assert_eq!(held, ["keys (\"c\", \"k\"] of table 7"]);
    // Touching and overlapping ranges are merged; covered ones change nothing.
    for (low, high) in
        [(Excluded("k"), Included("m")), (Included("a"), Included("d")), (Included("b"), Excluded("c"))]
    {
        rig.range(&mut scan, low, high).unwrap();
    }
    let held: Vec<_> = scan.held().map(|(on, _)| on.to_string()).collect();
    assert_eq!(held, ["keys [\"a\", \"m\"] of table 7"]);
    let mut writer = rig.txn(2);
    rig.point(&mut writer, "n", Exclusive).unwrap();
    rig.end(&mut writer);
    assert!(rig.waits(3, "m", Exclusive, || rig.end(&mut scan)));
    rig.assert_vacant();
}

#[test]
fn an_extension_waits_for_the_writer_ahead() {
    let rig = Rig::new(LONG);
    let (mut scan, mut writer) = (rig.txn(1), rig.txn(2));
    rig.range(&mut scan, Included("a"), Included("c")).unwrap();
    rig.point(&mut writer, "d", Exclusive).unwrap();
    thread::scope(|scope| {
        let extension = scope.spawn(|| {
            rig.range(&mut scan, Excluded("c"), Included("e")).unwrap();
            scan
        });
        rig.until_waiting(1);
        rig.locks.release_all(&mut writer, Some(Lsn::new(33)));
        let mut scan = extension.join().unwrap();
        for key in ["b", "d", "e"] {
            let mut again = rig.txn(10);
            assert!(
                rig.space
                    .try_point(again.id(), rig.space.hash(key.as_bytes()), key.as_bytes(), Exclusive, false)
                    .is_none()
            );
            rig.end(&mut again);
        }
        rig.end(&mut scan);
    });
    rig.assert_vacant();
}

/// A range is extended on both sides: the part below is granted, the part above is refused. The
/// conflict must not lose the dependency of the part below.
#[test]
fn an_extension_that_fails_half_way_forgets_no_dependence() {
    let rig = Rig::new(Duration::from_millis(5));
    let (mut scan, mut left, mut stays) = (rig.txn(1), rig.txn(2), rig.txn(3));
    let first = rig.range(&mut scan, Included("f"), Included("g")).unwrap();
    assert_eq!(first.depends_on, Lsn::ZERO);
    rig.point(&mut left, "d", Exclusive).unwrap();
    rig.locks.release_all(&mut left, Some(Lsn::new(70)));
    rig.point(&mut stays, "j", Exclusive).unwrap();
    rig.range(&mut scan, Included("c"), Included("k")).unwrap_err();
    let held: Vec<_> = scan.held().map(|(on, _)| on.to_string()).collect();
    assert_eq!(held, ["keys [\"c\", \"g\"] of table 7"]);

    assert_eq!(rig.point(&mut scan, "d", Shared), Ok(Lsn::new(70)), "a key it covers");
    let covered = rig.range(&mut scan, Included("d"), Included("e")).unwrap();
    assert_eq!(covered.depends_on, Lsn::new(70), "a range it covers");
    rig.locks.release_all(&mut stays, Some(Lsn::new(60)));
    let again = rig.range(&mut scan, Included("c"), Included("k")).unwrap();
    assert_eq!(again.depends_on, Lsn::new(70), "the whole, once more");
    rig.end(&mut scan);
    rig.assert_vacant();
}

#[test]
fn a_transaction_with_many_ranges_locks_too_much_rather_than_many() {
    let rig = Rig::new(LONG);
    let mut txn = rig.txn(1);
    for i in 0..500 {
        let (low, high) = (format!("{i:03}"), format!("{i:03}x"));
        rig.range(&mut txn, Included(&low), Included(&high)).unwrap();
    }
    assert!(txn.held().count() <= 32);
    assert!(rig.waits(2, "400", Exclusive, || rig.end(&mut txn)));
    rig.assert_vacant();
}

#[test]
fn who_has_read_an_interval_depends_on_its_keys_and_on_removals() {
    let rig = Rig::new(LONG);
    let dependence = |keys: &[&str]| rig.space.dependence_of(keys.iter().map(|key| key.as_bytes()));
    let (mut writer, mut remover, mut gave_up) = (rig.txn(1), rig.txn(2), rig.txn(3));
    rig.point(&mut writer, "b", Exclusive).unwrap();
    rig.locks.release_all(&mut writer, Some(Lsn::new(70)));
    assert_eq!(dependence(&["a", "b", "c"]), Lsn::new(70));
    assert_eq!(dependence(&["a", "c", "d"]), Lsn::ZERO);
    assert_eq!(dependence(&[]), Lsn::ZERO);
    rig.point(&mut gave_up, "d", Exclusive).unwrap();
    gave_up.removed_from(&rig.space);
    rig.end(&mut gave_up);
    assert_eq!(dependence(&[]), Lsn::ZERO);
    rig.point(&mut remover, "c", Exclusive).unwrap();
    remover.removed_from(&rig.space);
    rig.locks.release_all(&mut remover, Some(Lsn::new(90)));
    assert_eq!(dependence(&[]), Lsn::new(90), "nobody sees where the key was");
    assert_eq!(dependence(&["b"]), Lsn::new(90));
    let mut later = rig.txn(4);
    rig.point(&mut later, "b", Exclusive).unwrap();
    rig.locks.release_all(&mut later, Some(Lsn::new(120)));
    assert_eq!((dependence(&["b"]), dependence(&[])), (Lsn::new(120), Lsn::new(90)));
    rig.assert_vacant();
}
