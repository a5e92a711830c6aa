//! Admission: the decision whether a record may be reserved now. Asked before the reservation, so
//! that no thread waits while it owns a hole.
//!
//! Read by every appender (two words on one cache line); refreshed by the holder of the baton after
//! each write, and by a thread that was refused.
//!
//! Invariants:
//!
//! 1. A reservation ends at or below `floor4k(written) + ring size` and at or below the prepared
//!    end.
//! 2. The limits that appenders see lie `slack` below those: reservations that were checked against
//!    an older `reserved` may add up to `slack` bytes. Only slots below `adders` may add in this
//!    way, each at most `add_bytes` and one record at a time, hence `slack = adders * add_bytes`,
//!    about a quarter of the ring. All others reserve by compare-and-swap from the value they
//!    checked.
//! 3. Limits are computed and stored under `reserve`'s lock from frontiers read there, so the last
//!    one stored is the newest. But the prepared end is read by the caller, before it takes the
//!    lock: a limit may be computed from an older one and stored last. A limit that is too low is
//!    harmless: an appender that is refused refreshes.
//! 4. The run-ahead limit bounds where a reservation starts, is measured from `filled`, and is soft
//!    by `slack`.
//! 5. Where records lie apart, positions are those of entries, a step of 8 for each record: a
//!    reservation ends at or below the prepared end, for nothing else limits entries, each adder
//!    adds one, and the reserve is kept for as many records as its bytes may be. Their heap keeps
//!    the bytes themselves.
//! 6. The reserve has a standing part, and what was raised. In files the standing part is less
//!    while the log is young ([`young_bytes`]): critical records undo or finish what is in the log,
//!    so they never need more than a few times the bytes that were ever appended. A reservation
//!    leaves the reserve of the position where it ends, so the reserve is there when it is needed,
//!    however the log has grown.

use super::{BufferSizes, Stalled};
use crate::frontier::Frontiers;
#[cfg(test)]
use crate::lsn::BLOCK_BYTES;
use crate::lsn::Lsn;
use crate::record::{HEADER_BYTES, Layout, RECORD_ALIGNMENT};
use crate::sync_shim::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

/// Number of bytes up to which a reservation by `fetch_add` is allowed in every log.
pub const ADD_BYTES: u64 = 1024;
/// Maximum bytes of such a reservation, if a quarter of the ring has room for [`ADDERS`] of them.
const ADD_BYTES_MAX: u64 = 16 << 10;
const ADDERS: u64 = 64;

/// Bytes that a log keeps prepared at its beginning, and for each byte that was appended (invariant
/// 6).
const YOUNG_BYTES: u64 = 256 << 10;
const YOUNG_TIMES: u64 = 3;

/// Maximum bytes of the reserve, and of the ring, that a log in files keeps prepared while it ends
/// at `position`.
pub fn young_bytes(position: u64) -> u64 {
    YOUNG_BYTES.saturating_add(position.saturating_mul(YOUNG_TIMES))
}

/// Permission to use the last of the prepared space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AppendClass {
    /// May not use the reserve: refused with `NoSpace` when only the reserve is left.
    #[default]
    Normal,
    /// May use the reserve. For records that finish or undo what is already in the log.
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
    /// Nothing is admitted any more. For those who fill what they reserved before.
    shut: AtomicBool,
}

/// The limits of reservations.
#[derive(Debug)]
pub struct Admission {
    limits: CachePadded<Limits>,
    /// Bytes only critical reservations may use. Guards the storing of limits too (invariant 3). A
    /// leaf latch.
    reserve: Mutex<Reserve>,
    /// Bytes that are kept besides what was raised, and the part of them that is kept at position 0
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
    /// Beside the standing part.
    raised: u64,
    /// Nothing is admitted any more: the log has failed or is closed.
    shut: bool,
}

impl Admission {
    /// Makes the admission to a log buffer of these sizes. It admits nothing before
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

    /// Makes the admission for records that lie apart. The ring of `sizes` is that of their entries
    /// (invariant 5).
    pub fn of_entries(sizes: &BufferSizes) -> Self {
        const ENTRY: usize = RECORD_ALIGNMENT;
        Self::of(sizes, Layout::Apart, Lsn::LIMIT.get(), sizes.ring_bytes / 16 / ENTRY, ENTRY as u64)
    }

    /// Admission to a model of the log: a ring of `blocks` blocks, and `adders` slots that add at
    /// most `add_blocks` blocks at a time.
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

    /// Positions that are kept for `bytes` of critical appends.
    fn kept(&self, bytes: u64) -> u64 {
        match self.layout {
            Layout::InLine | Layout::InMemory => bytes,
            Layout::Apart => self.layout.positions(0).saturating_mul(bytes.div_ceil(HEADER_BYTES as u64)),
        }
    }

    /// Positions that concurrent reservations may add beyond the limits.
    pub fn slack(&self) -> u64 {
        self.adders as u64 * self.add_bytes
    }

    /// Returns true if `bytes` may be reserved at `reserved`.
    #[inline]
    pub fn admit(&self, reserved: u64, bytes: u64, class: AppendClass) -> Result<(), Stalled> {
        let end = match class {
            AppendClass::Normal => &self.limits.normal,
            AppendClass::Critical => &self.limits.critical,
        };
        // Acquire: the ring bytes below the limit were written out before they are used again (rule
        // 3 of the ring).
        if reserved + bytes <= end.load(Ordering::Acquire)
            && reserved <= self.limits.start.load(Ordering::Relaxed)
        {
            Ok(())
        } else {
            Err(Stalled)
        }
    }

    /// Computes the limits anew.
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

    /// Bytes of prepared space that are kept for critical appends of a log that has grown.
    pub fn reserve(&self) -> u64 {
        self.standing.saturating_add(self.lock().raised)
    }

    /// Bytes of prepared space that are kept for critical appends while the log ends at `position`.
    pub fn reserve_at(&self, position: u64) -> u64 {
        let grown = self.standing_first.saturating_add(position.saturating_mul(YOUNG_TIMES));
        self.standing.min(grown).saturating_add(self.lock().raised)
    }

    /// Positions of prepared space that are kept for them.
    pub fn reserve_positions(&self) -> u64 {
        self.kept(self.reserve())
    }

    /// Changes the reserve beside the standing one, by a function of its present value.
    pub fn change_reserve(&self, frontiers: &Frontiers, prepared_end: Lsn, change: impl FnOnce(u64) -> u64) {
        let mut reserve = self.lock();
        reserve.raised = change(reserve.raised);
        self.store(&reserve, frontiers, prepared_end);
    }

    /// Returns whether `bytes` of positions at `reserved` fit into prepared space, whatever room
    /// the ring has.
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

    /// Exactly the reserve of the place where normal appends stop is left when they stop.
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
                // The ring allows what the prepared space does.
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
