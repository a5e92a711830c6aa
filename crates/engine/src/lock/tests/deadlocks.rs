//! Tests of deadlocks: each has exactly one victim, the youngest transaction, and the other
//! transactions are granted. If waiting behind an earlier waiter would cause a deadlock, the
//! request goes before that waiter.

use super::PointMode::{Exclusive, Shared, Update};
use super::*;
use Bound::{Included, Unbounded};

/// Each transaction takes its first lock. Then the transactions request their second locks, in
/// `order`, and all end. Returns the ids of the transactions that got a conflict.
fn collide(
    ids: &[u64],
    order: &[usize],
    first: impl Fn(usize) -> Ask,
    second: impl Fn(usize) -> Ask + Sync,
) -> Vec<u64> {
    let rig = Rig::new(LONG);
    let mut txns: Vec<_> = ids.iter().map(|id| rig.txn(*id)).collect();
    for (i, txn) in txns.iter_mut().enumerate() {
        first(i).of(&rig, txn).unwrap();
    }
    let mut slots: Vec<_> = txns.into_iter().map(Some).collect();
    let victims = thread::scope(|scope| {
        let mut asking = Vec::new();
        for (turn, i) in order.iter().enumerate() {
            let mut txn = slots[*i].take().unwrap();
            let (rig, second) = (&rig, &second);
            asking.push(scope.spawn(move || {
                let refused = second(*i).of(rig, &mut txn).err();
                rig.end(&mut txn);
                refused.map(|conflict| {
                    assert_eq!((conflict.victim, conflict.kind), (txn.id(), ConflictKind::Deadlock));
                    assert!(!conflict.blockers.is_empty() && !conflict.blockers.contains(&txn.id()));
                    txn.id().get()
                })
            }));
            if turn + 1 < order.len() {
                rig.until_waiting(turn + 1);
            }
        }
        asking.into_iter().filter_map(|asking| asking.join().unwrap()).collect()
    });
    assert_eq!(rig.locks.stat().deadlocks, 1);
    assert_eq!(rig.locks.stat().timeouts, 0);
    rig.assert_vacant();
    victims
}

enum Ask {
    Point(&'static str, PointMode),
    Range(Bound<&'static str>, Bound<&'static str>),
}

impl Ask {
    fn of(&self, rig: &Rig, txn: &mut TxnLocks) -> Result<(), Conflict> {
        match self {
            Ask::Point(key, mode) => rig.point(txn, key, *mode).map(|_| ()),
            Ask::Range(low, high) => rig.range(txn, *low, *high).map(|_| ()),
        }
    }
}

const KEYS: [&str; 3] = ["a", "b", "c"];

#[test]
fn of_two_the_youngest_gives_way_in_any_order() {
    for order in [[0, 1], [1, 0]] {
        for mode in [Shared, Update, Exclusive] {
            let victims = collide(
                &[10, 20],
                &order,
                |i| Ask::Point(KEYS[i], Exclusive),
                |i| Ask::Point(KEYS[1 - i], mode),
            );
            assert_eq!(victims, [20]);
        }
    }
}

#[test]
fn of_three_the_youngest_gives_way_in_any_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let victims = collide(
            &[7, 9, 8],
            &order,
            |i| Ask::Point(KEYS[i], Exclusive),
            |i| Ask::Point(KEYS[(i + 1) % 3], Exclusive),
        );
        assert_eq!(victims, [9]);
    }
}

#[test]
fn of_two_upgraders_one_gives_way() {
    for order in [[0, 1], [1, 0]] {
        let upgrade = |_| Ask::Point("a", Exclusive);
        assert_eq!(collide(&[3, 4], &order, |_| Ask::Point("a", Shared), upgrade), [4]);
    }
}

#[test]
fn of_two_scanners_that_insert_into_each_others_range_one_gives_way() {
    for order in [[0, 1], [1, 0]] {
        let scan = |_| Ask::Range(Included("a"), Unbounded);
        assert_eq!(collide(&[3, 4], &order, scan, |i| Ask::Point(KEYS[i], Exclusive)), [4]);
    }
}

#[test]
fn of_two_writers_that_scan_each_others_key_one_gives_way() {
    for order in [[0, 1], [1, 0]] {
        let scan = |_| Ask::Range(Included("a"), Included("b"));
        assert_eq!(collide(&[3, 4], &order, |i| Ask::Point(KEYS[i], Exclusive), scan), [4]);
    }
}

#[test]
fn a_deadlock_through_the_queue_of_a_key_is_seen() {
    // Transaction 1 holds a; 2 holds b and waits for a; 3 waits for a behind 2; 1 asks for b.
    let rig = Rig::new(LONG);
    let (mut one, mut two) = (rig.txn(1), rig.txn(2));
    rig.point(&mut one, "a", Exclusive).unwrap();
    rig.point(&mut two, "b", Exclusive).unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let refused = rig.point(&mut two, "a", Exclusive).unwrap_err();
            rig.end(&mut two);
            refused
        });
        rig.until_waiting(1);
        let third = scope.spawn(|| {
            let mut three = rig.txn(3);
            let granted = rig.point(&mut three, "a", Exclusive);
            rig.end(&mut three);
            granted
        });
        rig.until_waiting(2);
        rig.point(&mut one, "b", Exclusive).unwrap();
        assert_eq!(second.join().unwrap().blockers, [TxnId::new(1)]);
        assert!(!third.is_finished());
        rig.end(&mut one);
        third.join().unwrap().unwrap();
    });
    rig.assert_vacant();
}

#[test]
fn a_reader_goes_before_a_waiting_writer_that_waits_for_it() {
    // Transaction 1 holds m. 2 holds k and waits for m. 3 waits for k exclusively, so 3 waits for
    // 2, and 2 waits for 1. Then 1 reads k. No holder of k is incompatible, and queueing behind 3
    // would be a deadlock, so 1 goes before 3.
    let rig = Rig::new(LONG);
    let (mut one, mut two) = (rig.txn(1), rig.txn(2));
    rig.point(&mut one, "m", Exclusive).unwrap();
    rig.point(&mut two, "k", Shared).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            rig.point(&mut two, "m", Shared).unwrap();
            rig.end(&mut two);
        });
        rig.until_waiting(1);
        let writer = scope.spawn(|| {
            let mut three = rig.txn(3);
            rig.point(&mut three, "k", Exclusive).unwrap();
            rig.end(&mut three);
        });
        rig.until_waiting(2);
        rig.point(&mut one, "k", Shared).unwrap();
        let behind = rig.locks.waits().into_iter().find(|(txn, ..)| txn.get() == 3).unwrap().2;
        assert!(behind.contains(&TxnId::new(1)), "the writer waits for the one that went first: {behind:?}");
        assert!(!writer.is_finished());
        rig.end(&mut one);
    });
    assert_eq!(rig.locks.stat().deadlocks, 0);
    rig.assert_vacant();
}
