//! An idle log has no wake-ups: neither its own counters nor the kernel's account of its threads
//! move.
//!
//! The test does not depend on how long anything takes: a log that wakes up by a timer would do so
//! while the test works.

use katydid_device::MemoryDirectory;
use katydid_wal::{Append, Counters, Durability, FileOptions, InserterKind, Kind, Log, Options, SyncKind};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

/// Returns the voluntary and involuntary context switches of the log's threads in this process, by
/// thread.
fn switches() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let path = task.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.starts_with("katydid-log") {
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            let counts: Vec<&str> = status.lines().filter(|line| line.contains("ctxt_switches")).collect();
            found.insert(path.display().to_string(), counts.join(" "));
        }
    }
    found
}

/// Returns whether every thread of the log sleeps.
fn all_asleep() -> bool {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux").flatten();
    tasks.map(|task| task.path()).all(|path| {
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        !name.starts_with("katydid-log") || status.lines().any(|line| line.starts_with("State:\tS"))
    })
}

fn work() -> u64 {
    (0..40_000_000u64)
        .fold(1, |sum, number| std::hint::black_box(sum ^ sum.rotate_left(7).wrapping_add(number)))
}

#[test]
fn an_idle_log_does_not_wake_up() {
    let _alone = crate::alone();
    let mut logs = Vec::new();
    for inserter in InserterKind::ALL {
        for sync in SyncKind::ALL {
            let options = Options {
                medium: FileOptions {
                    inserter: inserter.into(),
                    sync: sync.into(),
                    segment_bytes: 64 << 10,
                    ..FileOptions::default()
                }
                .into(),
                reserve_bytes: 4 << 10,
                ..Options::default()
            };
            let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
            let mut session = log.session().expect("session");
            // Every kind of background thread has something to do first: syncs without a waiter,
            // segments to prepare.
            for number in 0..2000u64 {
                let end = session.append(&Append::new(Kind::USER, &[&[3; 200]])).expect("append").end;
                if number % 2 == 0 {
                    session.on_complete(end, Durability::Durable, |outcome| outcome.expect("durable"));
                    session.poll();
                }
            }
            session.drain();
            log.sync().expect("sync");
            logs.push((log, session));
        }
    }
    while !all_asleep() {
        std::thread::yield_now();
    }
    // A thread that was seen asleep may have been about to wake up. If its counters do not change
    // while the test works, it did not wake up.
    let mut before: (Vec<Counters>, _) = look(&logs);
    for _ in 0..50 {
        std::hint::black_box(work());
        let now = look(&logs);
        if now == before {
            break;
        }
        before = now;
    }
    for round in 0..10 {
        std::hint::black_box(work());
        let now = look(&logs);
        assert_eq!(now.0, before.0, "round {round}: an idle log counted something");
        assert_eq!(now.1, before.1, "round {round}: a thread of an idle log ran");
    }
    // Logs with Grasshopper and bitmap have a tracker. A log in which several writes were under way
    // has further syncers, so this number is the least.
    let fewest = 2 * logs.len() + 2 * SyncKind::ALL.len();
    assert!(before.1.len() >= fewest, "each log has a syncer and a maintenance thread, some a tracker");
}

fn look<S>(logs: &[(Log, S)]) -> (Vec<Counters>, BTreeMap<String, String>) {
    (logs.iter().map(|(log, _)| log.counters()).collect(), switches())
}
