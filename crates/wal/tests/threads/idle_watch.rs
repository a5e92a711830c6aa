//! The watcher of an idle log's device is parked: it has no timer running.
//!
//! The test does not depend on how long anything takes: a watcher that wakes up by a timer would do
//! so while the test works.

use katydid_device::MemoryDirectory;
use katydid_wal::{Append, Durability, FileOptions, Kind, Log, Options, SyncKind};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// Returns the state and context switches of the watchers in this process, by thread.
fn watchers() -> BTreeMap<String, (bool, String)> {
    let mut found = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let path = task.path();
        if fs::read_to_string(path.join("comm")).unwrap_or_default().trim() != "katydid-watch" {
            continue;
        }
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        let asleep = status.lines().any(|line| line.starts_with("State:\tS"));
        let switches: Vec<&str> = status.lines().filter(|line| line.contains("ctxt_switches")).collect();
        found.insert(path.display().to_string(), (asleep, switches.join(" ")));
    }
    found
}

/// Maximum number of times that a test works and then checks whether the watchers are asleep.
const ROUNDS: usize = 50;

fn work() -> u64 {
    (0..40_000_000u64)
        .fold(1, |sum, number| std::hint::black_box(sum ^ sum.rotate_left(7).wrapping_add(number)))
}

#[test]
fn the_watcher_of_an_idle_log_does_not_wake_up() {
    let _alone = crate::alone();
    let mut logs = Vec::new();
    for sync in SyncKind::ALL {
        let options = Options {
            medium: FileOptions { sync: sync.into(), segment_bytes: 64 << 10, ..FileOptions::default() }
                .into(),
            reserve_bytes: 4 << 10,
            // The threshold is short, so that a timer would run out often.
            stall_after: Duration::from_millis(20),
            ..Options::default()
        };
        let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
        let mut session = log.session().expect("session");
        for _ in 0..500 {
            let end = session.append(&Append::new(Kind::USER, &[&[3; 200]])).expect("append").end;
            log.first().wait(end, Durability::Durable).expect("wait");
        }
        logs.push((log, session));
    }
    // A watcher that has only just started may have no name yet, and each watcher may wake up once
    // more because of the activity.
    let mut before = watchers();
    for _ in 0..ROUNDS {
        std::hint::black_box(work());
        let now = watchers();
        if now.len() == logs.len() && now == before && now.values().all(|(asleep, _)| *asleep) {
            break;
        }
        before = now;
    }
    assert_eq!(before.len(), logs.len(), "each log has one watcher");
    for round in 0..10 {
        std::hint::black_box(work());
        assert_eq!(watchers(), before, "round {round}: the watcher of an idle log ran");
    }
    // Dropping a log ends its watcher and joins it. The kernel may list a joined thread for a
    // moment longer.
    drop(logs);
    let mut left = watchers();
    for _ in 0..ROUNDS {
        if left.is_empty() {
            break;
        }
        std::hint::black_box(work());
        left = watchers();
    }
    assert!(left.is_empty(), "watchers outlive their logs: {left:?}");
    // A log that watches nothing has no watcher. While the test works, a watcher that was started
    // by mistake has time to take its name.
    let options = Options { stall_after: Duration::ZERO, ..Options::default() };
    let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    std::hint::black_box(work());
    assert!(watchers().is_empty(), "a log that watches nothing has a watcher");
    log.close().expect("close");
}
