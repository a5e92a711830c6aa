//! Running numbered pieces of work on several threads.

use katydid_wal::Background;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of threads to use: one if there are no background threads, otherwise the number of
/// processors.
pub(super) fn threads(background: Background) -> usize {
    match background {
        Background::Caller => 1,
        Background::Threads => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Calls `work` for every number below `count`, on at most `threads` threads including the
/// caller's. All calls have returned when this returns.
pub(super) fn on_threads(threads: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let some = || {
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                at if at < count => work(at),
                _ => return,
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            let name = "katydid-restart".to_owned();
            // If no thread can be started, this thread does the work.
            let _helper = std::thread::Builder::new().name(name).spawn_scoped(scope, some);
        }
        some();
    });
}
