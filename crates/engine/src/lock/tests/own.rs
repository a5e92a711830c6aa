//! Tests of a thread that waits for another transaction of its own, and of waits for transactions
//! that this thread used, but that another thread will end.

use super::PointMode::{Exclusive, Shared};
use super::*;
use std::sync::mpsc;

impl Rig {
    /// Begins a transaction on the calling thread, as the engine does.
    fn begin(&self, id: u64) -> TxnLocks {
        let mut txn = self.txn(id);
        self.locks.begin(&mut txn);
        txn
    }

    /// Begins a transaction that looks for blockers of its own thread before it sleeps.
    fn asking(&self, id: u64) -> TxnLocks {
        let mut txn = self.begin(id);
        txn.ask_at_once();
        txn
    }
}

fn own_of(refused: Result<Lsn, Conflict>) -> Option<u64> {
    refused.expect_err("it is locked").own.map(TxnId::get)
}

#[test]
fn a_wait_for_a_transaction_of_the_same_thread_names_it() {
    let rig = Rig::new(LONG);
    let (mut holder, mut waiter) = (rig.begin(1), rig.begin(2));
    rig.point(&mut holder, "k", Exclusive).unwrap();
    assert_eq!(own_of(rig.point(&mut waiter, "k", Shared)), Some(1));
    rig.end(&mut waiter);
    // A refused wait for a range names the blocker, too.
    let refused =
        rig.range(&mut waiter, Bound::Unbounded, Bound::Unbounded).expect_err("a key of it is locked");
    assert_eq!(refused.own, Some(TxnId::new(1)));
    rig.end(&mut waiter);
    rig.end(&mut holder);
    rig.assert_vacant();
}

#[test]
fn a_time_that_is_over_before_the_look_names_it_too() {
    let rig = Rig::new(Duration::ZERO);
    let (mut holder, mut waiter) = (rig.begin(1), rig.begin(2));
    rig.point(&mut holder, "k", Exclusive).unwrap();
    assert_eq!(own_of(rig.point(&mut waiter, "k", Shared)), Some(1));
    rig.end(&mut waiter);
    rig.end(&mut holder);
}

#[test]
fn a_transaction_that_another_thread_uses_now_is_waited_for() {
    let rig = Rig::new(LONG);
    let (mut holder, mut waiter) = (rig.begin(1), rig.asking(2));
    rig.point(&mut holder, "k", Exclusive).unwrap();
    thread::scope(|scope| {
        let (used, is_used) = mpsc::channel();
        let rig = &rig;
        scope.spawn(move || {
            holder.used();
            used.send(()).unwrap();
            rig.until_waiting(1);
            rig.end(&mut holder);
        });
        is_used.recv().unwrap();
        rig.point(&mut waiter, "k", Shared).expect("the other thread ends it");
    });
    rig.end(&mut waiter);
    rig.assert_vacant();
}

#[test]
fn a_transaction_that_only_its_locks_are_left_of_is_waited_for() {
    let rig = Rig::new(LONG);
    let (mut holder, mut waiter) = (rig.begin(1), rig.asking(2));
    rig.point(&mut holder, "k", Exclusive).unwrap();
    holder.disown();
    thread::scope(|scope| {
        let rig = &rig;
        scope.spawn(move || {
            rig.until_waiting(1);
            rig.end(&mut holder);
        });
        rig.point(&mut waiter, "k", Shared).expect("the database ends it");
    });
    rig.end(&mut waiter);
}

#[test]
fn a_list_of_locks_that_is_used_again_belongs_to_its_new_thread() {
    let rig = Rig::new(LONG);
    let mut holder = rig.begin(1);
    rig.end(&mut holder);
    let mut waiter = rig.asking(2);
    thread::scope(|scope| {
        let (held, is_held) = mpsc::channel();
        let rig = &rig;
        scope.spawn(move || {
            holder.reuse(TxnId::new(3));
            rig.locks.begin(&mut holder);
            rig.point(&mut holder, "k", Exclusive).unwrap();
            held.send(()).unwrap();
            rig.until_waiting(1);
            rig.end(&mut holder);
        });
        is_held.recv().unwrap();
        rig.point(&mut waiter, "k", Shared).expect("another thread's");
    });
    rig.end(&mut waiter);
}
