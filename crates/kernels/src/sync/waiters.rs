//! The hand-over kernel: it decides which thread leads and which threads wait, and wakes them. At
//! most one thread holds the baton, which is the right to lead.
//!
//! Every thread that waits for or requests durability runs this code. Loom and the explorer check
//! it.
//!
//! `state` is one word, so there is no order between words to get wrong:
//!
//! | `state` | meaning |
//! |---|---|
//! | 0 | no thread leads, none waits, nothing is requested |
//! | `LED` | a thread holds the baton |
//! | `LED`, request bits | the baton is held, and a write or sync is requested |
//! | `LED`, a [`Waiter`]'s address, perhaps request bits | held, waiters, perhaps requests |
//!
//! The address leads to a stack of the waiters that have arrived since the leader last looked.
//!
//! Invariants:
//!
//! 1. `state != 0` exactly while one thread holds the baton, or the baton is being handed over
//!    through a `signal`.
//! 2. A queued waiter that is not signalled yet is reachable from exactly one of: `state`, the
//!    holder's `pending` list, a [`Covered`] list, an [`Appointed`]. A waiter's thread does not
//!    leave [`Waiter::wait`] before `signal` is set. A thread that sets `signal` does not touch the
//!    waiter afterwards (it takes the thread handle out before). So the borrowed waiter on the
//!    stack outlives every use. If a panic unwinds the waiter's frame before `signal` is set, the
//!    process aborts.
//! 3. Only the holder of the baton touches `pending`, `kept` and `count`. These fields pass to the
//!    next holder through `signal` (Release to Acquire), or through `state` (from the release of
//!    the baton to its next acquisition).
//! 4. The baton is released only by a compare-and-swap of exactly `LED` to 0. The swap fails if a
//!    waiter or request has come since the last `take`, so the releasing thread cannot overlook
//!    one.
//!
//! All state of this file is in memory only. Recovery needs none of it.

use crate::durability::Durability;
use crate::sync_shim::{
    AtomicU32, AtomicUsize, CHECKED, Ordering, PlainAccess, Thread, current, park, return_token, yield_now,
};
use crossbeam_utils::CachePadded;
use std::cell::{Cell, UnsafeCell};
use std::ptr;

const LED: usize = 1;
const REQUEST_WRITTEN: usize = 2;
const REQUEST_DURABLE: usize = 4;
const REQUESTED: usize = REQUEST_WRITTEN | REQUEST_DURABLE;
const BITS: usize = LED | REQUESTED;

const WAITING: u32 = 0;
const DONE: u32 = 1;
const LEAD: u32 = 2;

/// Requests of non-blocking callers that are not served yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SyncRequests(usize);

impl SyncRequests {
    pub(crate) const NONE: SyncRequests = SyncRequests(0);

    pub(crate) fn of(level: Durability) -> Self {
        match level {
            Durability::Buffered => SyncRequests(0),
            Durability::Written => SyncRequests(REQUEST_WRITTEN),
            Durability::Durable => SyncRequests(REQUEST_DURABLE),
        }
    }

    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    /// The highest requested level.
    pub(crate) fn level(self) -> Durability {
        if self.0 & REQUEST_DURABLE != 0 {
            Durability::Durable
        } else if self.0 & REQUEST_WRITTEN != 0 {
            Durability::Written
        } else {
            Durability::Buffered
        }
    }

    pub(crate) fn and(self, other: SyncRequests) -> SyncRequests {
        SyncRequests(self.0 | other.0)
    }
}

/// Reason why a waiter was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The position for which the thread waited was reached, or the log has failed.
    Done,
    /// The woken thread holds the baton now.
    Lead,
}

/// Outcome of a waiter's arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// No thread led: the caller holds the baton.
    Leads,
    /// The caller must call [`Waiter::wait`].
    Queued,
}

/// A blocked thread. The value is on that thread's stack.
#[repr(align(64))]
pub(crate) struct Waiter {
    /// The position, an exclusive end, for which the thread waits.
    pub(crate) end: u64,
    /// The level for which the thread waits.
    pub(crate) level: Durability,
    next: Cell<*const Waiter>,
    thread: Cell<Option<Thread>>,
    /// True if the waiter was ever queued. Touched only by its own thread.
    queued: Cell<bool>,
    plain: PlainAccess,
    // Written once, by the thread that has the waiter in a `Covered` or `Appointed` (Release); read
    // by the waiter's thread (Acquire).
    signal: AtomicU32,
}

impl Waiter {
    pub(crate) fn new(end: u64, level: Durability) -> Self {
        Waiter {
            end,
            level,
            next: Cell::new(ptr::null()),
            thread: Cell::new(None),
            queued: Cell::new(false),
            plain: PlainAccess::new(),
            signal: AtomicU32::new(WAITING),
        }
    }

    /// Blocks until the waiter is signalled: yields up to `yields` times, then parks.
    pub(crate) fn wait(&self, yields: u32) -> Signal {
        let (mut tried, mut parked) = (0, false);
        let signal = loop {
            match self.signal.load(Ordering::Acquire) {
                DONE => break Signal::Done,
                LEAD => break Signal::Lead,
                _ if tried < yields => {
                    tried += 1;
                    yield_now();
                }
                _ => {
                    park();
                    parked = true;
                }
            }
        };
        if parked {
            return_token();
        }
        signal
    }
}

/// Invariant 2 does not hold for a thread that unwinds: its waiter would be freed while other
/// threads can reach it. No known step panics while a waiter is queued (the steps of a leader are
/// guarded), so a panic here is a bug of Katydid. The process aborts before the bug can corrupt
/// memory.
impl Drop for Waiter {
    fn drop(&mut self) {
        // Checkers end a failed run by unwinding.
        if !CHECKED && self.queued.get() && self.signal.load(Ordering::Acquire) == WAITING {
            std::process::abort();
        }
    }
}

/// Sets a waiter's signal and wakes its thread. Afterwards the waiter may no longer exist.
///
/// # Safety
/// The caller must be the only thread that can reach the waiter (invariant 2), and the waiter must
/// not have been signalled.
unsafe fn signal(waiter: *const Waiter, signal: u32) {
    // SAFETY: the caller vouches that the waiter has not been signalled, so it still exists
    // (invariant 2).
    let waiter = unsafe { &*waiter };
    waiter.plain.write();
    let thread = waiter.thread.take();
    waiter.signal.store(signal, Ordering::Release);
    if let Some(thread) = thread {
        thread.unpark();
    }
}

/// Waiters for which no further write is planned: their wait is over, or a write under way covers
/// them. Each must still be signalled.
#[must_use]
#[derive(Debug)]
pub(crate) struct Covered {
    head: *const Waiter,
    count: u64,
}

// SAFETY: the waiters are reachable only from this list (invariant 2), and any thread may signal a
// waiter.
unsafe impl Send for Covered {}

impl Covered {
    /// An empty list.
    pub(crate) fn none() -> Self {
        Covered { head: ptr::null(), count: 0 }
    }

    /// Adds a waiter, which is queued nowhere else. The caller is the waiter's thread, and calls
    /// [`Waiter::wait`] next.
    pub(crate) fn push(&mut self, waiter: &Waiter) {
        waiter.thread.set(Some(current()));
        waiter.queued.set(true);
        waiter.next.set(self.head);
        waiter.plain.write();
        self.head = waiter;
        self.count += 1;
    }

    /// Appends all waiters of `others` to this list.
    pub(crate) fn append(&mut self, others: Covered) {
        if self.head.is_null() {
            *self = others;
            return;
        }
        self.count += others.count;
        let mut at = self.head;
        loop {
            // SAFETY: invariant 2: the waiter is on this list and not signalled, so it is alive.
            let next = unsafe { &(*at).next };
            if next.get().is_null() {
                next.set(others.head);
                return;
            }
            at = next.get();
        }
    }

    /// Number of waiters.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Signals and wakes each waiter of the list.
    pub(crate) fn finish(self) {
        let mut at = self.head;
        while !at.is_null() {
            // SAFETY: invariant 2: the waiter is on this list and not signalled, so it is alive.
            // Its successor is read before the signal.
            let next = unsafe {
                (*at).plain.read();
                (*at).next.get()
            };
            // SAFETY: invariant 2: the waiter is on this list and not signalled, so it is alive.
            // Only this list can reach the waiter.
            unsafe { signal(at, DONE) };
            at = next;
        }
    }
}

/// A waiter that is not covered and will lead next. The waiter was taken off the pending list.
#[must_use]
#[derive(Debug)]
pub(crate) struct Appointed(*const Waiter);

impl Appointed {
    /// Hands the baton over to the waiter. The caller no longer holds the baton.
    pub(crate) fn hand_over(self) {
        // SAFETY: invariant 2: the waiter was on the pending list of the caller, and is now
        // reachable only from `self`.
        unsafe { signal(self.0, LEAD) }
    }
}

/// Result of [`Baton::settle`]: the covered waiters, and the waiter that leads next.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) covered: Covered,
    pub(crate) next: Option<Appointed>,
}

/// The baton. See the head of this file.
#[derive(Debug)]
pub(crate) struct Baton {
    state: CachePadded<AtomicUsize>,
    pending: UnsafeCell<*const Waiter>,
    kept: Cell<SyncRequests>,
    /// Length of the pending list.
    count: Cell<u64>,
    plain: PlainAccess,
}

// SAFETY: only the holder of the baton touches `pending`, `kept` and `count` (invariant 3). The
// other fields are atomic.
unsafe impl Sync for Baton {}
// SAFETY: the pointers lead to waiters that are shared between threads by design (invariant 2).
unsafe impl Send for Baton {}

impl Baton {
    pub(crate) fn new() -> Self {
        Baton {
            state: CachePadded::new(AtomicUsize::new(0)),
            pending: UnsafeCell::new(ptr::null()),
            kept: Cell::new(SyncRequests::NONE),
            count: Cell::new(0),
            plain: PlainAccess::new(),
        }
    }

    /// Takes the baton if it is free, or queues `waiter`.
    pub(crate) fn arrive(&self, waiter: &Waiter) -> Arrival {
        match self.state.compare_exchange(0, LED, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Arrival::Leads,
            Err(seen) => self.push(waiter, seen, true),
        }
    }

    /// Queues `waiter`. Returns true if the baton was free; the caller then holds it and must give
    /// it to the syncer thread.
    pub(crate) fn enqueue(&self, waiter: &Waiter) -> bool {
        self.push(waiter, self.state.load(Ordering::Relaxed), false) == Arrival::Leads
    }

    fn push(&self, waiter: &Waiter, mut seen: usize, may_lead: bool) -> Arrival {
        waiter.thread.set(Some(current()));
        let address = ptr::from_ref(waiter).expose_provenance();
        loop {
            let free = seen == 0;
            waiter.queued.set(!(free && may_lead));
            let new = if free && may_lead {
                LED
            } else {
                waiter.next.set(ptr::with_exposed_provenance(seen & !BITS));
                waiter.plain.write();
                address | (seen & REQUESTED) | LED
            };
            match self.state.compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if free => return Arrival::Leads,
                Ok(_) => return Arrival::Queued,
                Err(now) => seen = now,
            }
        }
    }

    /// Makes a request. Returns true if the baton was free; the caller then holds it and must give
    /// it to a thread that serves the request.
    ///
    /// A request that is already there is not made again. This rule is sound because four accesses
    /// are sequentially consistent: the caller reserves and then loads `state` here; the leader
    /// calls [`Baton::take`] and then loads the reserved frontier. Either the caller's load sees
    /// that the request is cleared, or the leader's load sees the reservation.
    pub(crate) fn request(&self, request: SyncRequests) -> bool {
        let seen = self.state.load(Ordering::SeqCst);
        if seen & request.0 == request.0 {
            return false;
        }
        self.state.fetch_or(request.0 | LED, Ordering::SeqCst) == 0
    }

    /// Holder only: hands the next holder the requests that this thread has taken.
    pub(crate) fn keep(&self, requests: SyncRequests) {
        self.plain.write();
        self.kept.set(requests);
    }

    /// Holder only: moves the arrived waiters to the pending list. Clears the requests and returns
    /// them.
    pub(crate) fn take(&self) -> SyncRequests {
        let taken = self.state.swap(LED, Ordering::SeqCst);
        debug_assert!(taken & LED != 0, "only the holder takes");
        self.plain.write();
        let kept = self.kept.replace(SyncRequests::NONE);
        let mut at: *const Waiter = ptr::with_exposed_provenance(taken & !BITS);
        if !at.is_null() {
            // The newest waiter is on top of the stack. The stack goes before the pending list as a
            // whole, so the list stays newest first. `settle` restores the order of arrival.
            let mut count = self.count.get();
            let first_in = loop {
                count += 1;
                // SAFETY: invariant 2: the waiter was reachable from `state` until the swap, and is
                // not signalled.
                let waiter = unsafe { &*at };
                waiter.plain.read();
                let next = waiter.next.get();
                if next.is_null() {
                    break at;
                }
                at = next;
            };
            self.count.set(count);
            // SAFETY: invariant 2: `first_in`, the oldest arrival, is on this list and not yet
            // signalled, so it is alive. The holder alone touches `pending` (invariant 3).
            unsafe {
                (*first_in).plain.write();
                (*first_in).next.set(*self.pending.get());
                *self.pending.get() = ptr::with_exposed_provenance(taken & !BITS);
            }
        }
        SyncRequests(taken & REQUESTED).and(kept)
    }

    /// Holder only: returns the highest level for which a pending waiter waits.
    pub(crate) fn pending_level(&self) -> Durability {
        self.plain.read();
        let mut most = Durability::Buffered;
        // SAFETY: the holder alone touches `pending` (invariant 3).
        let mut at = unsafe { *self.pending.get() };
        while !at.is_null() && most != Durability::Durable {
            // SAFETY: invariant 2: the waiter is pending, so it is not signalled.
            let waiter = unsafe { &*at };
            waiter.plain.read();
            most = most.max(waiter.level);
            at = waiter.next.get();
        }
        most
    }

    /// Holder only: takes off the pending list the waiters for which `reached` returns true. If
    /// `appoint` is true, also takes one of the other waiters off the list, to lead next. This is
    /// the waiter with the lowest end, because a leader waits until the holes below its own end are
    /// filled. No other waiter has a lower end, so all of them need the same holes filled.
    pub(crate) fn settle(&self, appoint: bool, reached: impl Fn(&Waiter) -> bool) -> Settled {
        self.plain.write();
        let mut covered = Covered::none();
        let mut kept: *const Waiter = ptr::null();
        let mut kept_last: *const Waiter = ptr::null();
        let mut lowest: *const Waiter = ptr::null();
        // SAFETY: the holder alone touches `pending` (invariant 3).
        let mut at = unsafe { *self.pending.get() };
        while !at.is_null() {
            // SAFETY: invariant 2: the waiter is pending, so it is not signalled.
            let waiter = unsafe { &*at };
            waiter.plain.write();
            let next = waiter.next.get();
            if reached(waiter) {
                // The pending list is newest first, so the covered list becomes oldest first.
                waiter.next.set(covered.head);
                covered.head = at;
                covered.count += 1;
            } else {
                waiter.next.set(ptr::null());
                if kept_last.is_null() {
                    kept = at;
                } else {
                    // SAFETY: the waiter stays on the pending list, so it is not signalled.
                    unsafe { (*kept_last).next.set(at) };
                }
                kept_last = at;
                // SAFETY: the waiter stays on the pending list, so it is not signalled.
                if lowest.is_null() || unsafe { waiter.end <= (*lowest).end } {
                    lowest = at;
                }
            }
            at = next;
        }
        self.count.set(self.count.get() - covered.count);
        let next = (appoint && !lowest.is_null()).then(|| {
            kept = without(kept, lowest);
            self.count.set(self.count.get() - 1);
            Appointed(lowest)
        });
        // SAFETY: the holder alone touches `pending` (invariant 3).
        unsafe { *self.pending.get() = kept };
        Settled { covered, next }
    }

    /// Holder only: returns the number of waiters on the pending list.
    pub(crate) fn pending(&self) -> u64 {
        self.plain.read();
        self.count.get()
    }

    /// Holder only: returns whether the pending list has a waiter.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending() > 0
    }

    /// Returns whether a waiter or request has come since the last [`Baton::take`].
    pub(crate) fn has_arrivals(&self) -> bool {
        self.state.load(Ordering::Relaxed) != LED
    }

    /// Holder only, with an empty pending list: frees the baton. Returns false if a waiter or
    /// request has arrived meanwhile.
    pub(crate) fn release(&self) -> bool {
        debug_assert!(!self.has_pending(), "nobody is left behind");
        self.state.compare_exchange(LED, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Removes `gone` from the list that begins at `head`. Returns the new head.
fn without(head: *const Waiter, gone: *const Waiter) -> *const Waiter {
    // SAFETY: all dereferenced waiters are on the holder's pending list, so they are not signalled
    // (invariant 2).
    unsafe {
        if head == gone {
            return (*head).next.get();
        }
        let mut at = head;
        while !at.is_null() {
            let next = (*at).next.get();
            if next == gone {
                (*at).next.set((*gone).next.get());
                break;
            }
            at = next;
        }
        head
    }
}

#[cfg(all(test, not(any(loom, katydid_explore, miri))))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::{Command, Stdio};

    /// The test body runs in a child process, which must abort.
    #[test]
    fn a_queued_waiter_whose_frame_unwinds_ends_the_process() {
        const CHILD: &str = "KATYDID_TEST_UNWINDS_A_WAITER";
        if std::env::var_os(CHILD).is_some() {
            let baton = Baton::new();
            let unwinds = catch_unwind(AssertUnwindSafe(|| {
                let waiter = Waiter::new(1, Durability::Durable);
                assert!(baton.enqueue(&waiter), "the baton is free");
                panic!("a bug below the queued waiter");
            }));
            println!("it went on: {unwinds:?}");
            return;
        }
        let name = "sync::waiters::tests::a_queued_waiter_whose_frame_unwinds_ends_the_process";
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .stderr(Stdio::null())
            .output()
            .expect("a child");
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(said.contains("running 1 test"), "{said}");
        assert!(!child.status.success() && !said.contains("it went on"), "{said}");
    }

    #[test]
    fn a_waiter_that_never_queued_may_unwind() {
        let baton = Baton::new();
        catch_unwind(AssertUnwindSafe(|| {
            let waiter = Waiter::new(1, Durability::Durable);
            assert_eq!(baton.arrive(&waiter), Arrival::Leads);
            panic!("a bug of a leader");
        }))
        .expect_err("it unwinds");
    }
}
