//! Counts the calls in flight on one open database. Closing refuses new calls and waits for those
//! in flight.
//!
//! Any thread counts its calls. There is a counter for each group of threads (a shard), in a cache
//! line of its own, so a call touches a cache line that few threads share. A call is an operation
//! that closing waits for; a visit is a part of an operation that may reach the device
//! (`opening/mod.rs`).
//!
//! Invariants:
//!
//! 1. After [`Calls::refuse`] with [`CLOSING`] no call enters. After [`Calls::refuse`] with
//!    [`ENDING`] no visit begins either.
//! 2. A call or visit that entered before its flag was set is counted until it leaves, even if it
//!    leaves by a panic. [`Calls::drain`] waits until it has seen each shard once with a count of
//!    zero. When it returns, no call is in flight if [`CLOSING`] was set before, and no visit
//!    either if [`ENDING`] was set before.
//! 3. A thread that holds `asleep` takes no other lock and does not block.
//!
//! There is one atomic word for each shard:
//!
//! - Value: the two lowest bits are the flags [`CLOSING`] and [`ENDING`], which are never cleared.
//!   The rest counts calls and visits in flight, in steps of [`CALL`].
//! - Written by each call and visit when it enters and when it leaves; `refuse` sets the flags.
//!   All of these operations are atomic read-modify-writes. The value that `enter` finds says
//!   whether the call or visit is refused. The value that `leave` finds says whether `drain` has to
//!   be notified.
//! - Read by `drain`, and by the operations that write.
//! - Ordering: acquire and release. `drain` loads (Acquire) the counts that the leaving calls have
//!   stored (Release), so a thread that finds no call in flight sees everything that the calls did.
//!
//! Why no call slips through: the operations on one shard have one order. A call that is counted
//! before the flag is set is in the count that `drain` finds. A call that is counted later finds
//! the flag and is refused. Why `drain` is notified: `drain` looks at the shards under `asleep`,
//! and a call that leaves and finds a flag takes `asleep` before it notifies. So a notification
//! cannot fall between `drain`'s look at the count and its sleep.

use crate::latch::{Condvar, Mutex};
use crate::shard::{SHARDS, shard_of_thread};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// Flag: no call enters any more.
pub(super) const CLOSING: u64 = 1;
/// Flag: no visit begins any more.
pub(super) const ENDING: u64 = 2;
const CALL: u64 = 4;

/// The counters of calls in flight; see the head of this file.
#[derive(Debug)]
pub(super) struct Calls {
    shards: Box<[CachePadded<AtomicU64>]>,
    /// True while `drain` sleeps. A leaf latch.
    asleep: Mutex<bool>,
    left: Condvar,
}

/// The shard that a call in flight is counted in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shard(usize);

impl Calls {
    pub(super) fn new() -> Calls {
        let shards = (0..SHARDS).map(|_| CachePadded::default()).collect();
        Calls { shards, asleep: Mutex::new(false), left: Condvar::new() }
    }

    /// Counts a call or visit as in flight. Returns `None`, and counts nothing, if one of the flags
    /// `refused_by` is set.
    #[inline]
    pub(super) fn enter(&self, refused_by: u64) -> Option<Shard> {
        let shard = Shard(shard_of_thread());
        let before = self.shards[shard.0].fetch_add(CALL, Ordering::AcqRel);
        if before & refused_by != 0 {
            self.leave(shard);
            return None;
        }
        Some(shard)
    }

    /// Counts a call or visit in flight as ended.
    #[inline]
    pub(super) fn leave(&self, Shard(shard): Shard) {
        let before = self.shards[shard].fetch_sub(CALL, Ordering::AcqRel);
        if before & (CLOSING | ENDING) != 0 {
            self.notify();
        }
    }

    #[cold]
    fn notify(&self) {
        let _asleep_or_awake = self.asleep.lock();
        self.left.notify_all();
    }

    /// Sets the flag `bit` in all shards, for the rest of the opening.
    pub(super) fn refuse(&self, bit: u64) {
        self.shards.iter().for_each(|shard| {
            shard.fetch_or(bit, Ordering::AcqRel);
        });
    }

    /// Waits until it has seen each shard once without a call or visit in flight.
    pub(super) fn drain(&self) {
        let mut asleep = self.asleep.lock();
        for shard in &self.shards {
            while shard.load(Ordering::Acquire) >= CALL {
                *asleep = true;
                self.left.wait(&mut asleep);
                *asleep = false;
            }
        }
    }

    /// Returns whether `drain` sleeps because of calls in flight.
    pub(super) fn is_draining(&self) -> bool {
        *self.asleep.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::with_number;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_is_refused_is_not_counted() {
        let calls = Calls::new();
        let inside = calls.enter(CLOSING).expect("it is open");
        calls.refuse(CLOSING);
        assert!(calls.enter(CLOSING).is_none());
        let visit = calls.enter(ENDING).expect("visits go on");
        calls.leave(visit);
        calls.leave(inside);
        calls.drain();
        calls.refuse(ENDING);
        assert!(calls.enter(ENDING).is_none());
        calls.drain();
    }

    #[test]
    fn each_shard_refuses_calls_and_is_drained() {
        for shard in 0..SHARDS {
            let calls = Calls::new();
            let enter = || with_number(shard, || calls.enter(CLOSING));
            let inside = enter().expect("it is open");
            calls.refuse(CLOSING);
            assert!(enter().is_none(), "shard {shard}: a call enters");
            std::thread::scope(|scope| {
                let drain = scope.spawn(|| calls.drain());
                while !calls.is_draining() && !drain.is_finished() {
                    std::thread::yield_now();
                }
                assert!(!drain.is_finished(), "shard {shard}: a call is in flight");
                calls.leave(inside);
            });
        }
    }

    #[test]
    fn no_call_is_under_way_after_draining() {
        for _ in 0..200 {
            let (calls, closed) = (Calls::new(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        while let Some(shard) = calls.enter(CLOSING) {
                            assert!(
                                !closed.load(Ordering::Relaxed),
                                "a call entered that draining did not see"
                            );
                            calls.leave(shard);
                        }
                    });
                }
                calls.refuse(CLOSING);
                calls.drain();
                closed.store(true, Ordering::Relaxed);
            });
        }
    }
}
