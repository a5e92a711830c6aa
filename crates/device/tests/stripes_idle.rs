//! An idle striped directory has no wake-ups: the kernel's counts of its helpers' context switches
//! do not move. The test is a program of its own, because it looks at all helpers of the process.

#![cfg(not(miri))] // Miri has no threads that the kernel knows of.

use katydid_device::{Create, Directory, MemoryDirectory, Method, StripedDirectory, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

/// Returns the context switches of the helpers in this process.
fn switches() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .filter(|status| status.contains("katydid-stripe"))
        .map(|status| {
            status.lines().filter(|line| line.starts_with("State:\tS") || line.contains("ctxt")).collect()
        })
        .collect()
}

#[test]
fn helpers_of_an_idle_set_sleep() {
    let memories = (0..4).map(|_| Arc::new(MemoryDirectory::new()) as Arc<dyn Directory>).collect();
    let striped = StripedDirectory::open(memories, 4096).expect("open");
    let file = striped.open("a", Create::New, Method::Direct).expect("create");
    file.write_at(&[IoSlice::new(&[7; 40 * 4096])], 0, WriteMode::Durable).expect("write");
    file.sync().expect("sync");
    let work =
        || (0..40_000_000u64).fold(1u64, |sum, number| std::hint::black_box(sum.rotate_left(7) ^ number));
    // First the helpers start and come to rest. A helper has its name only once it runs.
    let mut before = switches();
    for _ in 0..200 {
        std::hint::black_box(work());
        let now = switches();
        if !now.is_empty() && now == before && now.iter().all(|status| status.contains("State:\tS")) {
            break;
        }
        before = now;
    }
    assert!(!before.is_empty(), "there are helpers");
    for round in 0..5 {
        std::hint::black_box(work());
        assert_eq!(switches(), before, "round {round}: a helper ran");
    }
    drop(striped);
}
