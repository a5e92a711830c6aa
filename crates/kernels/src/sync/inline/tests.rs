//! Tests of which thread writes, and when. The log is a set of counters. The time of a group is an
//! hour, so it does not end during a test, except in tests that set it to 1 us or 0.

use super::super::rounds::{Ask, Plan, Planned};
use super::super::tally::SyncTally;
use super::*;
use crate::sync_shim::{AtomicU64, Ordering::SeqCst};
use std::thread::{self, ThreadId};

/// One hour in microseconds: longer than any test.
const NEVER: u64 = 3_600_000_000;
const THREE: Group = Group { commits: 3, bytes: 0, microseconds: NEVER };

/// A log of one-byte records. The log notes the thread of each sync.
#[derive(Default)]
struct Counted {
    reserved: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
    synced_by: std::sync::Mutex<Vec<ThreadId>>,
    tally: SyncTally,
}

impl Counted {
    fn reserve(&self) -> Lsn {
        Lsn::new(self.reserved.fetch_add(1, SeqCst) + 1)
    }

    fn durable(&self) -> u64 {
        self.durable.load(SeqCst)
    }

    fn synced_by(&self) -> Vec<ThreadId> {
        self.synced_by.lock().expect("no panic").clone()
    }
}

impl Rounds for Counted {
    fn plan(&self, ask: Ask) -> Plan {
        let (from, to) = (Lsn::new(self.written.load(SeqCst)), self.reserved());
        if from < to {
            return Plan::Write(Planned { from, to, filled: to, all: true, durable: false, parallel: false });
        }
        Plan::Nothing { all: true, under_way: false, needs_sync: ask.level == Durability::Durable }
    }

    fn perform(&self, write: &Planned) {
        self.written.store(write.to.get(), SeqCst);
    }

    fn sync(&self, _: bool) {
        self.synced_by.lock().expect("no panic").push(thread::current().id());
        self.durable.store(self.written.load(SeqCst), SeqCst);
    }

    fn settled(&self, end: Lsn, level: Durability) -> bool {
        let frontier = if level == Durability::Durable { &self.durable } else { &self.written };
        frontier.load(SeqCst) >= end.get()
    }

    fn ended(&self, to: Lsn) -> bool {
        self.durable() >= to.get()
    }

    fn reserved(&self) -> Lsn {
        Lsn::new(self.reserved.load(SeqCst))
    }

    fn is_over(&self) -> bool {
        false
    }

    fn written(&self) -> Lsn {
        Lsn::new(self.written.load(SeqCst))
    }

    /// Starts no thread: a test that needs the thread calls `serve` itself.
    fn start_syncer(&self, _: usize) -> bool {
        true
    }

    fn tally(&self) -> &SyncTally {
        &self.tally
    }
}

/// Makes a protocol that has just performed its first write.
fn begun(group: Group, log: &Counted) -> Inline {
    let inline = Inline::new(group);
    inline.wait(log, log.reserve(), Durability::Durable);
    assert_eq!(
        (log.durable(), log.synced_by().len()),
        (1, 1),
        "no write before, so the group's time is over"
    );
    inline
}

fn request(inline: &Inline, log: &Counted) {
    inline.request(log, log.reserve(), Durability::Durable);
}

#[test]
fn a_worker_goes_on_until_its_commit_completes_the_group_and_then_syncs_once_for_all() {
    let log = Counted::default();
    let inline = begun(THREE, &log);
    for round in 1..4 {
        for _ in 0..2 {
            request(&inline, &log);
            inline.offer(&log);
            assert_eq!(log.synced_by().len(), round, "two of three");
        }
        request(&inline, &log);
        assert_eq!(log.synced_by().len(), round, "a request writes nothing");
        inline.offer(&log);
        assert_eq!((log.durable(), log.synced_by().len()), (1 + 3 * round as u64, round + 1));
        inline.offer(&log);
        assert_eq!(log.synced_by().len(), round + 1, "nothing is left");
    }
    assert!(log.synced_by().iter().all(|thread| *thread == thread::current().id()));
}

#[test]
fn requests_write_nothing_however_many_there_are() {
    let log = Counted::default();
    let inline = begun(THREE, &log);
    (0..20).for_each(|_| request(&inline, &log));
    assert_eq!(log.durable(), 1);
    // A commit counts once, however often it is requested.
    let log = Counted::default();
    let inline = begun(THREE, &log);
    let end = log.reserve();
    (0..20).for_each(|_| inline.request(&log, end, Durability::Durable));
    inline.offer(&log);
    assert_eq!(log.durable(), 1);
}

#[test]
fn bytes_complete_a_group_too() {
    let log = Counted::default();
    let inline = begun(Group { commits: 0, bytes: 100, microseconds: NEVER }, &log);
    log.reserved.fetch_add(98, SeqCst);
    request(&inline, &log);
    inline.offer(&log);
    assert_eq!(log.durable(), 1, "99 bytes");
    request(&inline, &log);
    inline.offer(&log);
    assert_eq!(log.durable(), 101);
}

#[test]
fn without_groups_each_commit_is_written_by_its_own_thread_at_once() {
    let log = Counted::default();
    let inline = begun(Group::default(), &log);
    inline.wait(&log, log.reserve(), Durability::Durable);
    request(&inline, &log);
    inline.offer(&log);
    assert_eq!((log.durable(), log.synced_by().len()), (3, 3));
}

#[test]
fn a_commit_that_is_only_to_be_written_is_not_synced() {
    let log = Counted::default();
    let inline = begun(Group::default(), &log);
    inline.wait(&log, log.reserve(), Durability::Written);
    assert_eq!((log.written().get(), log.durable()), (2, 1));
}

#[test]
fn the_last_of_a_group_writes_for_those_that_wait_and_they_sleep_until_then() {
    let (log, inline) = (Counted::default(), Inline::new(THREE));
    inline.wait(&log, log.reserve(), Durability::Durable);
    let last = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| inline.wait(&log, log.reserve(), Durability::Durable));
        }
        while inline.members().levels.len() < 2 {
            thread::yield_now();
        }
        assert_eq!(log.durable(), 1);
        let last = scope.spawn(|| {
            inline.wait(&log, log.reserve(), Durability::Durable);
            thread::current().id()
        });
        last.join().expect("no panic")
    });
    assert_eq!(log.durable(), 4);
    assert_eq!(log.synced_by()[1..], [last], "one sync, and by the last");
}

#[test]
fn what_no_worker_comes_for_is_written_by_the_carrier_when_the_time_is_over() {
    let log = Counted::default();
    let inline = begun(Group { microseconds: 1, ..THREE }, &log);
    request(&inline, &log);
    let carrier = thread::scope(|scope| {
        let carrier = scope.spawn(|| inline.serve(&log, 0)).thread().id();
        while log.durable() < 2 {
            thread::yield_now();
        }
        inline.stop();
        carrier
    });
    assert_eq!(log.synced_by()[1..], [carrier]);
}

#[test]
fn closing_does_not_wait_for_the_time_of_a_group() {
    let (log, inline) = (Counted::default(), Inline::new(THREE));
    inline.wait(&log, log.reserve(), Durability::Durable);
    request(&inline, &log);
    thread::scope(|scope| {
        scope.spawn(|| inline.serve(&log, 0));
        scope.spawn(|| inline.wait(&log, log.reserve(), Durability::Durable));
        while inline.members().levels.len() < 2 {
            thread::yield_now();
        }
        inline.stop();
    });
    assert_eq!(log.durable(), 3, "what was requested and what was waited for");
    request(&inline, &log);
    assert_eq!(log.durable(), 4, "nobody is left to write it but its own thread");
}

/// One thread waits until a commit is written, and another thread requests that the commit becomes
/// durable. When the commit is written, the first thread returns, but the commit stays a member of
/// its group: the group makes it durable.
#[test]
fn a_member_stays_while_another_thread_asks_more_of_its_position() {
    let log = Counted::default();
    let inline = begun(THREE, &log);
    let end = log.reserve();
    thread::scope(|scope| {
        let waits = scope.spawn(|| inline.wait(&log, end, Durability::Written));
        while inline.members().levels.is_empty() {
            thread::yield_now();
        }
        inline.request(&log, end, Durability::Durable);
        // Another thread writes the commit.
        log.written.store(end.get(), SeqCst);
        while !waits.is_finished() {
            inline.written.notify_all();
            thread::yield_now();
        }
    });
    (0..2).for_each(|_| request(&inline, &log));
    inline.offer(&log);
    assert!(log.durable() >= end.get(), "what was requested is written by the group that it completes");
}
