//! Slots of the calls under way: one slot each, claimed without a lock.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `began` | the caller: the mark of a claim (by compare and swap from free), then the start time of the call, then free | the watcher, before and after the rest | the stores: sequentially consistent when a call begins (see `Shared::parked`), release when it ends. The loads: sequentially consistent, then relaxed after an acquire fence |
//! | `what`, `from`, `to` | the caller, between claiming and beginning | the watcher | relaxed: they count only if `began` is the same before and after |
//! | `reported` | the watcher: `began` of the call that it reported | the caller, at the end | relaxed: the caller misses a report only if it is made just as the call ends |

use crate::error::Verb;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Maximum number of calls that are watched at once.
pub(super) const SLOTS: usize = 64;

const FREE: u64 = 0;
/// Mark of a claimed slot. A clock of nanoseconds reaches it after 584 years.
const CLAIMED: u64 = u64::MAX;

const VERBS: [Verb; 4] = [Verb::Write, Verb::Sync, Verb::Prepare, Verb::SyncDirectory];

/// A call under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) verb: Verb,
    /// Number of the file's or directory's name.
    pub(super) name: u32,
    /// Byte range of the call; empty if the call has none.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Start of the call, in nanoseconds of the watch's clock.
    pub(super) began: u64,
}

/// Slot of a call under way. Each slot has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Slot {
    began: AtomicU64,
    what: AtomicU64,
    from: AtomicU64,
    to: AtomicU64,
    reported: AtomicU64,
}

impl Slot {
    /// Puts a call into a free slot; `None` if none is found.
    pub(super) fn claim<'a>(slots: &'a [Slot], call: &Call) -> Option<&'a Slot> {
        // The search begins at a slot that follows from an address on the stack. Threads have
        // stacks of their own, so most find the first slot free.
        let here = std::ptr::from_ref(call).addr() as u64;
        let first = ((here >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        let slot = (0..slots.len()).map(|step| &slots[(first + step) % slots.len()]).find(|slot| {
            slot.began.load(Ordering::Relaxed) == FREE
                && slot.began.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        // The claim becomes visible before the stores that follow.
        fence(Ordering::Release);
        let verb = VERBS.iter().position(|verb| *verb == call.verb).unwrap_or(0) as u64;
        slot.what.store(verb << 32 | u64::from(call.name), Ordering::Relaxed);
        slot.from.store(call.from, Ordering::Relaxed);
        slot.to.store(call.to, Ordering::Relaxed);
        slot.began.store(call.began, Ordering::SeqCst);
        Some(slot)
    }

    /// Ends the call that began at `began`. Returns whether the watcher has reported this call.
    pub(super) fn free(&self, began: u64) -> bool {
        let reported = self.reported.load(Ordering::Relaxed) == began;
        self.began.store(FREE, Ordering::Release);
        reported
    }

    pub(super) fn mark_reported(&self, began: u64) {
        self.reported.store(began, Ordering::Relaxed);
    }

    /// Returns the call in the slot.
    pub(super) fn read(&self) -> Option<Call> {
        let began = self.began.load(Ordering::SeqCst);
        if began == FREE || began == CLAIMED {
            return None;
        }
        let what = self.what.load(Ordering::Relaxed);
        let (from, to) = (self.from.load(Ordering::Relaxed), self.to.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let verb = *VERBS.get((what >> 32) as usize)?;
        // If `began` has changed, the call has just ended.
        (self.began.load(Ordering::Relaxed) == began).then_some(Call {
            verb,
            name: what as u32,
            from,
            to,
            began,
        })
    }
}
