//! The log's four frontiers: how far it is reserved, filled, written and durable.
//!
//! Every thread reads the frontiers. Debug builds check invariant 1 after each change of `filled`,
//! `written` or `durable`. Invariants:
//!
//! 1. durable <= written <= filled <= reserved. A thread that reads two frontiers reads the smaller
//!    one first. Frontiers only grow, so the value that was read first can only be too low, and the
//!    two values read are in order.
//! 2. Each frontier only grows.
//!
//! | word | written by | read by | ordering |
//! |---|---|---|---|
//! | `reserved` | inserters | scans, admission | SeqCst |
//! | `filled` | scans, or inserters in order | threads that write, admission | Release; Acquire |
//! | `written` | threads that write | admission, readers, waiters | Release; Acquire |
//! | `durable` | threads that write or sync | any thread | Release; Acquire |
//!
//! - `reserved`: inserters that reserve under a latch store it, and the others change it by
//!   read-modify-writes. SeqCst orders the reservation of a record before the request for its sync
//!   (`sync/waiters.rs`).
//! - `filled`: scans raise it with Release, after they have acquired the marks. Inserters that fill
//!   in order store it with Release (`mutex`: SeqCst) after the copy. A thread that writes loads it
//!   with Acquire before it reads the ring.
//! - `written`: the thread that has performed a write stores it with Release, under the latch
//!   `leader` of `katydid-wal` (`files/writer.rs`). Admission loads it with Acquire before bytes of
//!   the ring are used again.
//! - `durable`: the thread that has written, or the one thread that syncs, stores it with Release.
//!   A thread loads it with Acquire before it acknowledges a record.
//!
//! In a log in NVRAM `written` and `durable` are equal: both are the persisted frontier. In
//! `nv_direct`, scans raise both words, as they raise `filled` in other logs. In the other NVRAM
//! kinds the thread that runs a pass of `nvram::commit` advances both.
//!
//! A crash loses all four frontiers. Recovery derives the durable frontier from the records
//! (`recover/`).

use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU64, Ordering, raise};
use crossbeam_utils::CachePadded;

/// The four frontiers, each on cache lines of its own.
#[derive(Debug)]
pub struct Frontiers {
    /// The end of all reservations. Inserters advance it (`insert/`).
    pub reserved: CachePadded<AtomicU64>,
    filled: CachePadded<AtomicU64>,
    written: CachePadded<AtomicU64>,
    durable: CachePadded<AtomicU64>,
}

impl Frontiers {
    /// Makes all four frontiers with the value `end`.
    pub fn at(end: Lsn) -> Self {
        let cursor = || CachePadded::new(AtomicU64::new(end.get()));
        Frontiers { reserved: cursor(), filled: cursor(), written: cursor(), durable: cursor() }
    }

    /// The end of the last reservation.
    #[inline]
    pub fn reserved(&self) -> Lsn {
        Lsn::new(self.reserved.load(Ordering::SeqCst))
    }

    /// The filled frontier: every record below it has been copied into the log buffer.
    #[inline]
    pub fn filled(&self) -> Lsn {
        Lsn::new(self.filled.load(Ordering::Acquire))
    }

    /// The written frontier: every record below it has been handed to the operating system.
    #[inline]
    pub fn written(&self) -> Lsn {
        Lsn::new(self.written.load(Ordering::Acquire))
    }

    /// The durable frontier: every record below it is on the device.
    #[inline]
    pub fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }

    /// Returns true if everything below `end` has reached `level`.
    #[inline]
    pub fn reached(&self, end: Lsn, level: Durability) -> bool {
        match level {
            Durability::Buffered => true,
            Durability::Written => self.written() >= end,
            Durability::Durable => self.durable() >= end,
        }
    }

    /// Advances the filled frontier to the result of a scan, and returns the frontier afterwards.
    /// May be called by any thread.
    #[inline]
    pub fn advance_filled(&self, to: u64) -> Lsn {
        let before = self.filled.load(Ordering::Acquire);
        if before >= to {
            return Lsn::new(before);
        }
        let before = raise(&self.filled, to, Ordering::AcqRel);
        self.validate();
        Lsn::new(before.max(to))
    }

    /// Advances the reserved and the filled frontier. The caller holds the lock of the `mutex`
    /// inserter, which fills records as it reserves them.
    #[inline]
    pub fn advance_reserved_and_filled(&self, to: u64) {
        self.reserved.store(to, Ordering::SeqCst);
        // SeqCst orders this store before the request for the record's sync: either the leader that
        // takes the request sees the store, or the request stays for the next leader
        // (`sync/waiters.rs`).
        self.filled.store(to, Ordering::SeqCst);
        self.validate();
    }

    /// Advances the reserved frontier, for inserters that reserve under a latch, one thread at a
    /// time. The store is sequentially consistent, so that a request that a thread makes after the
    /// store is served (`sync/waiters.rs`).
    #[inline]
    pub fn advance_reserved(&self, to: u64) {
        self.reserved.store(to, Ordering::SeqCst);
    }

    /// Advances the filled frontier, for inserters that fill in order. Called by one thread at a
    /// time.
    #[inline]
    pub fn advance_filled_alone(&self, to: u64) {
        debug_assert!(to >= self.filled().get(), "filled only grows");
        self.filled.store(to, Ordering::Release);
        self.validate();
    }

    /// Advances the written frontier. Called by one thread at a time.
    pub fn advance_written(&self, to: Lsn) {
        debug_assert!(to >= self.written(), "written only grows");
        self.written.store(to.get(), Ordering::Release);
        self.validate();
    }

    /// Advances the durable frontier. Called by one thread at a time.
    pub fn advance_durable(&self, to: Lsn) {
        debug_assert!(to >= self.durable(), "durable only grows");
        self.durable.store(to.get(), Ordering::Release);
        self.validate();
    }

    /// Advances the written and the durable frontier to `to`, the result of a scan, in a log whose
    /// appends persist their records. May be called by any thread.
    pub fn advance_persisted(&self, to: Lsn) {
        raise(&self.written, to.get(), Ordering::AcqRel);
        raise(&self.durable, to.get(), Ordering::AcqRel);
        self.validate();
    }

    #[inline]
    fn validate(&self) {
        if cfg!(debug_assertions) && !cfg!(any(loom, katydid_explore)) {
            let (durable, written) = (self.durable(), self.written());
            let (filled, reserved) = (self.filled(), self.reserved());
            assert!(
                durable <= written && written <= filled && filled <= reserved,
                "frontiers out of order: durable {durable}, written {written}, filled {filled}, reserved {reserved}"
            );
        }
    }
}
