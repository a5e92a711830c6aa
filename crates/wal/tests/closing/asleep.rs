//! Waits until every thread of the process sleeps, so that nothing more happens until the test does
//! something. There is no clock: the kernel says which threads sleep, and a thread that was woken
//! between two looks has a greater count of sleeps.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test that uses [`wait_until_all_sleep`]: the threads of another test would never
/// all sleep.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of looks after which a thread that is still awake will never sleep.
const LOOKS_MAX: usize = 1_000_000;

/// Returns when every other thread has slept at two looks in a row, without waking up between them.
pub fn wait_until_all_sleep() {
    let mut before = None;
    for _ in 0..LOOKS_MAX {
        let now = looks();
        if now.is_some() && now == before {
            return;
        }
        before = now;
        std::thread::yield_now();
    }
    panic!("a thread never sleeps");
}

/// Counts of sleeps of each other thread so far; none if one of them is awake.
fn looks() -> Option<Vec<(String, String)>> {
    let own = std::fs::read_link("/proc/thread-self").expect("Linux");
    let own = own.file_name().expect("a thread's number").to_string_lossy().into_owned();
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let name = task.file_name().to_string_lossy().into_owned();
        if name == own {
            continue;
        }
        // A thread that has just ended has no status.
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { return None };
        let line = |start: &str| status.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        if !line("State:").contains('S') {
            return None;
        }
        all.push((name, format!("{} {}", line("voluntary"), line("nonvoluntary"))));
    }
    all.sort();
    Some(all)
}
