//! Waits until every other thread of the process sleeps, so that nothing more happens until the
//! test does something. No clock is used: the kernel says which threads sleep, and how often each
//! of them has gone to sleep. This count is higher at the second of two checks if the thread has
//! woken up between them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns a guard that every test with [`wait_until_all_sleep`] holds. Without it, the threads of
/// another test that runs at the same time might never all sleep.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of checks after which a thread that is still awake counts as one that never sleeps.
const LOOKS_MAX: usize = 1_000_000;

/// Returns when two checks in a row have found every other thread asleep, with equal counts.
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

/// Returns how often each other thread has slept so far; `None` if one of them is awake.
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
