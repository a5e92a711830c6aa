//! Sync protocols of the papers, as their counters show them: the existing scheme of *Efficient
//! flushing of log records* (section 2.2), the non-group commit, and ELEDA's I/O unit.

use katydid_device::{MemoryDirectory, Method, SimDevice};
use katydid_wal::{
    Append, Background, Dependencies, Durability, FileOptions, Group, Kind, Log, Lsn, Options, SyncDesign,
    SyncKind,
};
use std::sync::Arc;

fn open(sync: SyncDesign) -> Log {
    let files = FileOptions { sync, ..FileOptions::default() };
    let options = Options { medium: files.into(), method: Method::Buffered, ..Options::default() };
    Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open")
}

/// Writes two records to the operating system's cache, where any sync makes both durable. Returns
/// their ends.
fn two_written(log: &Log) -> [Lsn; 2] {
    let mut session = log.session().expect("session");
    let ends =
        [1, 2].map(|byte| session.append(&Append::new(Kind::USER, &[&[byte; 100]])).expect("append").end);
    log.first().wait(ends[1], Durability::Written).expect("written");
    ends
}

fn syncs_of_waits(sync: SyncKind, order: [usize; 2]) -> u64 {
    let log = open(sync.into());
    let ends = two_written(&log);
    let before = log.counters().syncs;
    for which in order {
        log.first().wait(ends[which], Durability::Durable).expect("durable");
    }
    log.counters().syncs - before
}

#[test]
fn a_covered_commit_syncs_again_if_its_lsn_is_above_that_of_the_sync() {
    assert_eq!(
        syncs_of_waits(SyncKind::Slotted, [0, 1]),
        2,
        "the first sync covered both, and counts for its own LSN"
    );
    assert_eq!(syncs_of_waits(SyncKind::Slotted, [1, 0]), 1, "the larger LSN covers the smaller");
    for sync in [SyncKind::Grouped, SyncKind::Aggregated, SyncKind::Adaptive] {
        assert_eq!(syncs_of_waits(sync, [0, 1]), 1, "{sync} looks at what is durable");
    }
}

#[test]
fn an_old_record_costs_no_sync_after_opening() {
    let directory = Arc::new(MemoryDirectory::new());
    let files = FileOptions { sync: SyncKind::Slotted.into(), ..FileOptions::default() };
    let options = Options { medium: files.into(), method: Method::Buffered, ..Options::default() };
    let log = Log::open_in(directory.clone(), options.clone()).expect("open");
    let end = two_written(&log)[1];
    log.close().expect("close");
    let log = Log::open_in(directory, options).expect("open again");
    let before = log.counters().syncs;
    log.first().wait(end, Durability::Durable).expect("durable");
    assert_eq!(log.counters().syncs, before, "opening made it durable");
}

/// The counters count each thread of a slot once, and each request of a queue once.
#[test]
fn threads_that_meet_are_counted() {
    const THREADS: u64 = 8;
    const EACH: u64 = 200;
    for sync in [SyncDesign::Slotted { flush_slots: 2 }, SyncDesign::Aggregated { flush_slots: 2 }] {
        let log = open(sync);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut session = log.session().expect("session");
                    for _ in 0..EACH {
                        let end = session.append(&Append::new(Kind::USER, &[&[7; 100]])).expect("append").end;
                        log.first().wait(end, Durability::Durable).expect("durable");
                    }
                });
            }
        });
        let counters = log.counters();
        let what = format!("{sync:?}: {counters:?}");
        assert!(counters.slots <= counters.slot_threads, "a slot has a thread: {what}");
        // Threads that are in no slot were alone, or found their records durable. In a slot one
        // thread flushes for all, so there are at most this many flushes.
        let flushes = THREADS * EACH - counters.slot_threads + counters.slots;
        let (made, served) = match sync {
            SyncDesign::Slotted { .. } => (counters.sync_locks, counters.sync_locks),
            _ => (counters.sync_queued, counters.sync_queues),
        };
        assert!(made <= flushes, "one thread of a slot flushes: {what}");
        assert!(counters.syncs <= served && served <= made, "{what}");
        assert!(made > 0, "{what}");
    }
}

/// Returns the number of syncs for five commits without a waiter. One thread serves the requests
/// when all five have been made.
fn syncs_of_requests(sync: SyncKind) -> u64 {
    let files = FileOptions { sync: sync.into(), ..FileOptions::default() };
    let options = Options {
        medium: files.into(),
        method: Method::Buffered,
        background: Background::Caller,
        ..Options::default()
    };
    let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    let mut session = log.session().expect("session");
    let before = log.counters().syncs;
    let mut end = Lsn::ZERO;
    for byte in 0..5 {
        end = session.append(&Append::new(Kind::USER, &[&[byte; 100]])).expect("append").end;
        log.first().request(end, Durability::Durable);
    }
    log.run_background();
    assert_eq!(log.first().durable(), end, "{sync}");
    log.counters().syncs - before
}

#[test]
fn commits_without_a_waiter_are_synced_one_by_one_where_each_is_synced_by_itself() {
    assert_eq!(syncs_of_requests(SyncKind::PerCommit), 5);
    for sync in [SyncKind::Grouped, SyncKind::Aggregated, SyncKind::Slotted, SyncKind::Adaptive] {
        assert_eq!(syncs_of_requests(sync), 1, "{sync} takes all that is reserved");
    }
}

#[test]
fn commits_that_queue_behind_a_slow_write_are_synced_one_by_one() {
    let device = SimDevice::new(1);
    let files = FileOptions { sync: SyncKind::PerCommit.into(), ..FileOptions::default() };
    let options = Options { medium: files.into(), method: Method::Buffered, ..Options::default() };
    let log = Log::open_in(device.directory(), options).expect("open");
    let mut session = log.session().expect("session");
    let before = log.counters().syncs;
    device.stall_writes(true);
    let mut end = Lsn::ZERO;
    for byte in 0..5 {
        end = session.append(&Append::new(Kind::USER, &[&[byte; 100]])).expect("append").end;
        log.first().request(end, Durability::Durable);
        if byte == 0 {
            device.wait_stalled(1);
        }
    }
    device.stall_writes(false);
    while log.first().durable() < end {
        std::thread::yield_now();
    }
    assert_eq!(log.counters().syncs - before, 5);
}

/// Group commit by the worker (Cicada with P-WAL, III-B.2): five commits a group, and a time-out
/// that is never reached.
#[test]
fn a_thread_with_commits_in_flight_writes_each_group_that_it_completes() {
    let group = Group { commits: 5, bytes: 0, microseconds: 10_000_000 };
    let log = open(SyncDesign::Inline { group });
    let mut session = log.session().expect("session");
    let mut append = || session.append(&Append::new(Kind::USER, &[&[7; 100]])).expect("append").end;
    // The time-out of the first group counts as reached, because there was no write before this
    // group. Here the test's own thread waits, so it writes this group. Without a waiting thread, a
    // thread of the log would write it.
    log.first().wait(append(), Durability::Durable).expect("durable");
    let before = log.counters();
    let mut completed = Vec::new();
    let mut queue = log.completions();
    for number in 0..10 {
        queue.push(log.first().at(append()), &Dependencies::default(), Durability::Durable, number);
        queue.poll_with(|number, _| panic!("{number} was written by another thread"));
        queue.wait_below_with(100, |number, outcome| {
            outcome.expect("durable");
            completed.push(number);
        });
        let complete = (number + 1) / 5 * 5;
        assert_eq!(completed.len(), complete, "after {number}");
    }
    let after = log.counters();
    assert_eq!((after.syncs - before.syncs, after.sync_locks - before.sync_locks), (2, 2));
}

/// Returns the number of writes for four units of commits without a waiter. After each unit the
/// test waits for the unit's last commit.
fn writes_of_units(group: Group) -> u64 {
    const UNIT: u64 = 64 << 10;
    const RECORD: u64 = 1 << 10;
    // A write takes whole blocks, so it may be longer than the records of a unit.
    let files = FileOptions { sync: SyncDesign::pipelined(group), ..FileOptions::default() };
    let options = Options { medium: files.into(), ..Options::default() };
    let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    let mut session = log.session().expect("session");
    let before = log.counters().writes;
    for _ in 0..4 {
        let mut end = Lsn::ZERO;
        let payload = [7; RECORD as usize - katydid_wal::HEADER_BYTES];
        for _ in 0..UNIT / RECORD {
            end = session.append(&Append::new(Kind::USER, &[&payload])).expect("append").end;
            log.first().request(end, Durability::Durable);
            // Without a time-out no write waits for a full unit. The test waits for each write, so
            // that each commit gets a write of its own.
            while group.microseconds == 0 && log.first().durable() < end {
                std::thread::yield_now();
            }
        }
        log.first().wait(end, Durability::Durable).expect("durable");
    }
    log.counters().writes - before
}

#[test]
fn a_write_begins_when_a_unit_is_full() {
    // The time-out of 10 s is longer than any run of this test.
    let unit = Group { commits: 0, bytes: 64 << 10, microseconds: 10_000_000 };
    assert_eq!(writes_of_units(unit), 4, "one for each unit");
    assert_eq!(writes_of_units(Group::default()), 256, "one for each commit");
}
