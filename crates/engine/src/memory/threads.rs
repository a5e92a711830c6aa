//! Work in pieces, on several threads.

use katydid_wal::Background;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of processors; one, where the caller does everything.
pub(super) fn threads(background: Background) -> usize {
    match background {
        Background::Caller => 1,
        Background::Threads => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Does `work` for every number below `count`, on `threads` threads, this one among them; when it
/// returns, all is done.
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
            // What cannot be helped with is done here.
            let _helper = std::thread::Builder::new().name(name).spawn_scoped(scope, some);
        }
        some();
    });
}
