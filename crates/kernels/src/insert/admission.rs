//! Admission: the decision whether a record may be reserved now. A thread asks before the
//! reservation, so that no thread waits while it owns a hole.
//!
//! Every appender reads two limits, which lie on one cache line. Two kinds of threads refresh the
//! limits: a leader after each write, and an appender that was refused.
//!
//! Invariants:
//!
//! 1. A reservation ends at or below `floor4k(written) + ring size`, and at or below the prepared
//!    end.
//! 2. The limits that appenders see are `slack` below these bounds, because reservations that were
//!    checked against an older `reserved` may together exceed the limits by `slack` bytes. Only
//!    sessions with slot numbers below `adders` may reserve by addition (`fetch_add`). Each of them
//!    has one such reservation at a time, of at most `add_bytes`. Hence `slack = adders *
//!    add_bytes`, at most a quarter of the ring. All other sessions reserve by compare-and-swap
//!    from the value that they checked.
//! 3. Limits are computed under the lock of `reserve`, from frontiers that are read under that
//!    lock, so the limits stored last come from the newest frontiers. The caller reads the prepared
//!    end before it takes the lock, so a limit from an older prepared end may be stored last. A
//!    limit that is too low is harmless, because an appender that is refused refreshes it.
//! 4. The run-ahead limit bounds the distance from `filled` to the start of a reservation.
//!    Reservations by addition may exceed the limit by `slack`.
//! 5. In a log of entries (`nv_entries`, `nv_logging`) positions belong to entries: each record
//!    takes 8 positions. Of the two bounds of invariant 1 only the prepared end applies. Each
//!    session that reserves by addition reserves one entry at a time. The reserve, which only
//!    critical records may use, is a number of entries: the maximum number of records that fit into
//!    the reserve's bytes. The heap of the log's NVRAM holds back the bytes for these records.
//! 6. The reserve is a standing part and a raised part. In files the standing part is smaller while
//!    the log is young ([`young_bytes`]), because critical records only undo or finish what is in
//!    the log. Such records never need more than a few times the bytes that were ever appended. A
//!    normal reservation leaves free the reserve that belongs to its end position, so the reserve
//!    grows with the log.

use super::{BufferSizes, Stalled};
use crate::frontier::Frontiers;
#[cfg(test)]
use crate::lsn::BLOCK_BYTES;
use crate::lsn::Lsn;
use crate::record::{HEADER_BYTES, Layout, RECORD_ALIGNMENT};
use crate::sync_shim::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

/// Maximum bytes of a reservation by `fetch_add` that every log admits.
pub const ADD_BYTES: u64 = 1024;
/// Maximum bytes of a reservation by `fetch_add`, if a quarter of the ring has room for [`ADDERS`]
/// of them.
const ADD_BYTES_MAX: u64 = 16 << 10;
const ADDERS: u64 = 64;

/// Bytes that a log keeps prepared while it is empty. [`YOUNG_TIMES`] is the number of further
/// bytes for each appended byte (invariant 6).
const YOUNG_BYTES: u64 = 256 << 10;
const YOUNG_TIMES: u64 = 3;

/// Returns a bound in bytes for a log in files that ends at `position`. The log keeps at most this
/// number of bytes prepared for its standing reserve, and at most the same number beside it.
pub fn young_bytes(position: u64) -> u64 {
    YOUNG_BYTES.saturating_add(position.saturating_mul(YOUNG_TIMES))
}

/// Class of an append: whether the append may use the reserve, the last part of the prepared space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AppendClass {
    /// The append may not use the reserve. The log refuses the append with `NoSpace` when only the
    /// reserve is left.
    #[default]
    Normal,
    /// The append may use the reserve. Meant for records that finish or undo what is already in the
    /// log.
    Critical,
}

#[derive(Debug)]
struct Limits {
    /// Maximum end of a normal reservation.
    normal: AtomicU64,
    /// Maximum end of a critical reservation.
    critical: AtomicU64,
    /// Maximum start of any reservation.
    start: AtomicU64,
    /// True if nothing is admitted any more. Appenders that fill a chunk which they reserved
    /// earlier read this flag.
    shut: AtomicBool,
}

/// The limits of reservations.
#[derive(Debug)]
pub struct Admission {
    limits: CachePadded<Limits>,
    /// Bytes that only critical reservations may use. This leaf latch also guards the storing of
    /// limits (invariant 3).
    reserve: Mutex<Reserve>,
    /// The standing part of the reserve in bytes; `standing_first` is its size at position 0
    /// (invariant 6). The two are equal if the reserve does not grow.
    standing: u64,
    standing_first: u64,
    layout: Layout,
    ring_bytes: u64,
    run_ahead: u64,
    adders: usize,
    add_bytes: u64,
}

#[derive(Debug)]
struct Reserve {
    /// Bytes of the reserve beyond the standing part.
    raised: u64,
    /// True if nothing is admitted any more, because the log has failed or is closed.
    shut: bool,
}

impl Admission {
    /// Makes the admission to a log buffer of these sizes. The admission admits nothing before
    /// [`Admission::refresh`].
    pub fn new(sizes: &BufferSizes) -> Self {
        let ring_bytes = sizes.ring_bytes as u64;
        let add_bytes = (ring_bytes / 4 / ADDERS).clamp(ADD_BYTES, ADD_BYTES_MAX);
        let adders = (ring_bytes / 4 / add_bytes) as usize;
        Self::of(sizes, Layout::InLine, ring_bytes, adders, add_bytes)
    }

    /// Makes the admission to a log whose standing reserve grows with it (invariant 6).
    pub fn growing(sizes: &BufferSizes) -> Self {
        let standing_first = sizes.reserve_bytes.min(YOUNG_BYTES);
        Admission { standing_first, ..Self::new(sizes) }
    }

    /// Makes the admission for a log of entries (invariant 5). The ring of `sizes` is the ring of
    /// the entries.
    pub fn of_entries(sizes: &BufferSizes) -> Self {
        const ENTRY: usize = RECORD_ALIGNMENT;
        Self::of(sizes, Layout::Apart, Lsn::LIMIT.get(), sizes.ring_bytes / 16 / ENTRY, ENTRY as u64)
    }

    /// Makes the admission for a model of the log with a ring of `blocks` blocks. Each of the first
    /// `adders` slots may reserve at most `add_blocks` blocks at a time by addition.
    #[cfg(test)]
    pub(super) fn of_blocks(blocks: usize, adders: usize, add_blocks: u64) -> Self {
        let ring_bytes = blocks * BLOCK_BYTES as usize;
        let sizes = BufferSizes { ring_bytes, run_ahead_bytes: ring_bytes, reserve_bytes: 0, sessions: 1024 };
        Self::of(&sizes, Layout::InLine, ring_bytes as u64, adders, add_blocks * BLOCK_BYTES)
    }

    fn of(sizes: &BufferSizes, layout: Layout, ring_bytes: u64, adders: usize, add_bytes: u64) -> Self {
        let adders = sizes.slots().min(adders);
        let limit = || AtomicU64::new(0);
        Admission {
            limits: CachePadded::new(Limits {
                normal: limit(),
                critical: limit(),
                start: limit(),
                shut: AtomicBool::new(false),
            }),
            reserve: Mutex::new(Reserve { raised: 0, shut: false }),
            standing: sizes.reserve_bytes,
            standing_first: sizes.reserve_bytes,
            layout,
            ring_bytes,
            run_ahead: sizes.run_ahead_bytes as u64,
            adders,
            add_bytes,
        }
    }

    /// Returns whether this slot may reserve this many bytes by adding, without a compare-and-swap.
    #[inline]
    pub fn may_add(&self, slot: usize, bytes: u64) -> bool {
        bytes <= self.add_bytes && slot < self.adders
    }

    /// Returns the number of positions that are kept for `bytes` of critical appends.
    pub fn kept(&self, bytes: u64) -> u64 {
        match self.layout {
            Layout::InLine | Layout::InMemory => bytes,
            Layout::Apart => self.layout.positions(0).saturating_mul(bytes.div_ceil(HEADER_BYTES as u64)),
        }
    }

    /// Number of positions by which concurrent reservations may together exceed the limits.
    pub fn slack(&self) -> u64 {
        self.adders as u64 * self.add_bytes
    }

    /// Returns `Ok` if `bytes` may be reserved at `reserved`, and [`Stalled`] if not.
    #[inline]
    pub fn admit(&self, reserved: u64, bytes: u64, class: AppendClass) -> Result<(), Stalled> {
        let end = match class {
            AppendClass::Normal => &self.limits.normal,
            AppendClass::Critical => &self.limits.critical,
        };
        // Acquire: the load reads the limit that `refresh` stored with Release, so the bytes of the
        // ring below the limit were written before this thread reuses them (rule 3 of the ring).
        if reserved + bytes <= end.load(Ordering::Acquire)
            && reserved <= self.limits.start.load(Ordering::Relaxed)
        {
            Ok(())
        } else {
            Err(Stalled)
        }
    }

    /// Computes the limits from the present frontiers and the given prepared end.
    pub fn refresh(&self, frontiers: &Frontiers, prepared_end: Lsn) {
        self.store(&self.lock(), frontiers, prepared_end);
    }

    fn store(&self, reserve: &Reserve, frontiers: &Frontiers, prepared_end: Lsn) {
        let (mut normal, mut critical, mut start) = (0, 0, 0);
        if !reserve.shut {
            let ring = frontiers.written().floor_block().get() + self.ring_bytes;
            let prepared = prepared_end.get();
            critical = ring.min(prepared).saturating_sub(self.slack());
            let beside = |standing: u64| {
                let kept = self.kept(standing.saturating_add(reserve.raised));
                prepared.saturating_sub(self.slack().saturating_add(kept))
            };
            // The last position `p` with `p + slack + reserve_at(p) <= prepared`.
            let young = beside(self.standing_first) / (1 + YOUNG_TIMES);
            normal = critical.min(beside(self.standing).max(young));
            start = frontiers.filled().get() + self.run_ahead;
        }
        self.limits.start.store(start, Ordering::Relaxed);
        self.limits.normal.store(normal, Ordering::Release);
        self.limits.critical.store(critical, Ordering::Release);
    }

    /// Admits nothing from now on.
    pub fn shut(&self, frontiers: &Frontiers) {
        let mut reserve = self.lock();
        reserve.shut = true;
        self.limits.shut.store(true, Ordering::Release);
        self.store(&reserve, frontiers, Lsn::ZERO);
    }

    /// Returns true if nothing is admitted any more.
    #[inline]
    pub fn is_shut(&self) -> bool {
        self.limits.shut.load(Ordering::Acquire)
    }

    /// Bytes of the standing part of the reserve of a log that has grown.
    pub fn standing(&self) -> u64 {
        self.standing
    }

    /// Bytes of prepared space that are kept for critical appends of a log that has grown.
    pub fn reserve(&self) -> u64 {
        self.standing.saturating_add(self.lock().raised)
    }

    /// Bytes of prepared space that are kept for critical appends while the log ends at `position`.
    pub fn reserve_at(&self, position: u64) -> u64 {
        let grown = self.standing_first.saturating_add(position.saturating_mul(YOUNG_TIMES));
        self.standing.min(grown).saturating_add(self.lock().raised)
    }

    /// Number of prepared positions that are kept for critical appends of a log that has grown.
    pub fn reserve_positions(&self) -> u64 {
        self.kept(self.reserve())
    }

    /// Changes the raised part of the reserve to the result of `change`, which gets the present
    /// value.
    pub fn change_reserve(&self, frontiers: &Frontiers, prepared_end: Lsn, change: impl FnOnce(u64) -> u64) {
        let mut reserve = self.lock();
        reserve.raised = change(reserve.raised);
        self.store(&reserve, frontiers, prepared_end);
    }

    /// Returns whether a reservation of `bytes` at `reserved` fits into prepared space, whether or
    /// not the ring has room.
    pub fn fits_prepared(&self, reserved: u64, bytes: u64, prepared_end: Lsn, class: AppendClass) -> bool {
        let end = reserved.saturating_add(bytes);
        let reserve = match class {
            AppendClass::Normal => self.kept(self.reserve_at(end)),
            AppendClass::Critical => 0,
        };
        end.saturating_add(self.slack()).saturating_add(reserve) <= prepared_end.get()
    }

    /// The position up to which the log must be written before `bytes` at `reserved` fit into the
    /// ring; zero if they fit now.
    pub fn written_needed(&self, reserved: u64, bytes: u64) -> Lsn {
        Lsn::new((reserved + bytes + self.slack()).saturating_sub(self.ring_bytes)).ceil_block()
    }

    /// Returns whether a reservation at `reserved` would start too far ahead of `filled`.
    pub fn ran_ahead(&self, reserved: u64, filled: Lsn) -> bool {
        reserved > filled.get() + self.run_ahead
    }

    fn lock(&self) -> MutexGuard<'_, Reserve> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal appends leave free exactly the reserve that belongs to the position at which they
    /// stop.
    #[test]
    fn a_young_log_keeps_the_reserve_of_the_place_where_it_ends() {
        const RESERVE: u64 = 4 << 20;
        let sizes = BufferSizes {
            ring_bytes: 1 << 20,
            run_ahead_bytes: 1 << 19,
            reserve_bytes: RESERVE,
            sessions: 1024,
        };
        let admission = Admission::growing(&sizes);
        for raised in [0, 100_000] {
            admission.change_reserve(&Frontiers::at(Lsn::ZERO), Lsn::ZERO, |_| raised);
            for prepared in (0..9 << 20).step_by(10_001) {
                // The ring allows as much as the prepared space.
                let frontiers = Frontiers::at(Lsn::new(prepared).floor_block());
                admission.refresh(&frontiers, Lsn::new(prepared));
                let left =
                    |end: u64| prepared.checked_sub(end + admission.slack() + admission.reserve_at(end));
                let end = admission.limits.normal.load(Ordering::Relaxed);
                assert!(end == 0 || left(end).is_some(), "{end} of {prepared}");
                assert!(left(end + 1).is_none(), "more than {end} of {prepared} was possible");
                let fits = |bytes| admission.fits_prepared(0, bytes, Lsn::new(prepared), AppendClass::Normal);
                assert!((end == 0 || fits(end)) && !fits(end + 1));
            }
        }
        assert_eq!(admission.reserve_at(0), YOUNG_BYTES + 100_000);
        assert_eq!(admission.reserve_at(u64::MAX), RESERVE + 100_000);
        assert_eq!(Admission::new(&sizes).reserve_at(0), RESERVE);
    }
}
