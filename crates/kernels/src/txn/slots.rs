//! Slots of open transactions. Each open transaction has one slot. The slot holds the bound of what
//! the transaction reads, and the phase of its writing.
//!
//! The owner writes its slot. A reader that begins may change the phase of another slot from
//! `Reading` to `Overtaken`. All threads scan the slots. Invariants:
//!
//! 1. A writer sets its slot to `Reading` first, and only then reads the clock for its timestamp.
//!    So if a thread reads the clock and then finds the slot idle, every later writer of this slot
//!    gets a tick that is not below the one that the thread has read. The memory model orders
//!    atomic accesses, but not readings of the clock. So the writer waits until the store to its
//!    slot is visible to all threads (`publish_stores`).
//! 2. A reader's bound is above every timestamp that was acknowledged when the reader began, and no
//!    version below the bound appears later. Each writer with a lower timestamp has ended; or it is
//!    overtaken, and takes a new timestamp; or it has all its versions in place. A reader that
//!    meets one of those versions waits for the writer's outcome. So the reader reads a consistent
//!    state, and raises the read timestamp of no version.
//! 3. A version that an open transaction may read is kept. A version that only transactions with
//!    bounds below the horizon could read may be freed. The horizon is at most the smallest
//!    `reads_at`, and at most the first timestamp after those that were acknowledged before the
//!    scan of the slots. If a scan does not see a reader, the reader stored its slot after the scan
//!    had passed it. The reader looks for the acknowledged timestamps after that store, so it finds
//!    at least those that the scan found (all accesses are SeqCst), and its bound is not below the
//!    horizon.

use super::Waits;
use super::clock::{Clock, SLOTS_MAX, Timestamp};
use super::deadline::Deadline;
use crate::sync_shim::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst, publish_stores, raise, yield_now,
};
use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::time::Duration;

const PHASE_BITS: u32 = 12;

/// Phase of a slot's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The owner reads, and may commit with this tick.
    Reading,
    /// The owner reads, and may not commit with this tick. A reader with a higher bound relies on
    /// the absence of versions with this tick.
    Overtaken,
    /// The owner is putting its versions in place.
    Installing,
    /// All versions of the owner are in place. The status of the transaction decides whether they
    /// count.
    Installed,
    /// The owner only reads.
    ReadOnly,
}

const PHASES: [Phase; 6] =
    [Phase::Idle, Phase::Reading, Phase::Overtaken, Phase::Installing, Phase::Installed, Phase::ReadOnly];

fn word(tick: u64, phase: Phase) -> u64 {
    tick << PHASE_BITS | phase as u64
}

fn parts(word: u64) -> (u64, Phase) {
    (word >> PHASE_BITS, PHASES[(word & ((1 << PHASE_BITS) - 1)) as usize])
}

#[derive(Debug)]
struct Slot {
    taken: AtomicBool,
    word: AtomicU64,
    /// The owner reads versions below this timestamp; MAX while the owner reads nothing.
    reads_at: AtomicU64,
    /// The greatest timestamp acknowledged through this slot. Stored by the acknowledging thread.
    acknowledged: AtomicU64,
    /// The last tick that was given to a transaction in this slot. Only the owner writes it.
    last: AtomicU64,
}

impl Slot {
    fn new() -> CachePadded<Self> {
        CachePadded::new(Slot {
            taken: AtomicBool::new(false),
            word: AtomicU64::new(word(0, Phase::Idle)),
            reads_at: AtomicU64::new(u64::MAX),
            acknowledged: AtomicU64::new(0),
            last: AtomicU64::new(0),
        })
    }
}

thread_local! {
    /// The slot that this thread had last. That slot is most likely free and in the processor's
    /// cache.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// All slots of a store.
#[derive(Debug)]
pub struct Slots {
    slots: Box<[CachePadded<Slot>]>,
    /// No thread has used a slot from this number on, except that a thread may just have taken one.
    /// That thread raises the number before it stores anything but `taken` in the slot, so a scan
    /// that reads the old number misses no stored value.
    used: AtomicUsize,
    /// The greatest horizon computed. Only grows.
    horizon: AtomicU64,
    waiting: AtomicUsize,
    /// True if no transaction may wait for a slot any more. Set and read with `latch` held.
    is_shut: AtomicBool,
    /// Guards `is_shut` and the sleep of threads that wait for a slot. A thread takes it while it
    /// holds no other latch.
    latch: Mutex<()>,
    freed: Condvar,
}

impl Slots {
    /// Makes `count` slots, at most [`SLOTS_MAX`].
    pub fn new(count: usize) -> Self {
        Slots {
            slots: (0..count.min(SLOTS_MAX)).map(|_| Slot::new()).collect(),
            used: AtomicUsize::new(1),
            horizon: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            is_shut: AtomicBool::new(false),
            latch: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    // ---- taking and giving back a slot

    fn try_take(&self, slot: usize) -> bool {
        let taken = &self.slots[slot].taken;
        !taken.load(SeqCst) && taken.compare_exchange(false, true, SeqCst, SeqCst).is_ok()
    }

    fn take_any(&self) -> Option<usize> {
        let used = self.used.load(SeqCst);
        let hint = LAST.get().min(used);
        // Start at the slot that this thread had last. If many transactions are open, the slots
        // after that one were freed the longest ago.
        let mut order = (hint..used).chain(0..hint).chain(used..self.slots.len());
        let free = order.find(|slot| self.try_take(*slot))?;
        if free >= used {
            self.used.fetch_max(free + 1, SeqCst);
        }
        LAST.set(free);
        Some(free)
    }

    /// Maximum number of open transactions.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Takes a slot. Returns `None` if no slot becomes free within `at_most`.
    #[inline]
    pub fn take(&self, at_most: Duration, log: &(impl Waits + ?Sized)) -> Option<usize> {
        if let Some(slot) = self.take_any() {
            return Some(slot);
        }
        log.before_wait();
        let deadline = Deadline::after(at_most);
        self.waiting.fetch_add(1, SeqCst);
        let mut latch = self.latch.lock();
        let slot = loop {
            match self.take_any() {
                Some(slot) => break Some(slot),
                None if self.is_shut.load(SeqCst) => break None,
                None if deadline.sleep(&self.freed, &mut latch) => break self.take_any(),
                None => {}
            }
        };
        drop(latch);
        self.waiting.fetch_sub(1, SeqCst);
        slot
    }

    /// Ends every present and later wait for a slot as if its time were over. Called when the open
    /// transactions may never give their slots back.
    pub fn shut(&self) {
        let _asleep_or_awake = self.latch.lock();
        self.is_shut.store(true, SeqCst);
        self.freed.notify_all();
    }

    /// Gives the slot back. The owner must not read or write any more.
    #[inline]
    pub fn give_back(&self, slot: usize) {
        let own = &self.slots[slot];
        own.reads_at.store(u64::MAX, SeqCst);
        own.word.store(word(0, Phase::Idle), SeqCst);
        own.taken.store(false, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            let _asleep_or_awake = self.latch.lock();
            self.freed.notify_one();
        }
    }

    // ---- writers

    /// Returns a timestamp for a writer that begins in `slot`. From now on the slot announces that
    /// its owner reads below this timestamp.
    #[inline]
    pub fn begin_write(&self, slot: usize, clock: &Clock) -> Timestamp {
        let own = &self.slots[slot];
        own.reads_at.store(Timestamp::of(own.last.load(SeqCst), 0).get(), SeqCst);
        let timestamp = self.renew(slot, clock);
        own.reads_at.store(timestamp.get(), SeqCst);
        timestamp
    }

    /// Returns another timestamp for a writer that has no version in place. The versions that the
    /// writer reads stay protected, because the slot's `reads_at` does not change.
    #[inline]
    pub fn renew(&self, slot: usize, clock: &Clock) -> Timestamp {
        let own = &self.slots[slot];
        loop {
            let last = own.last.load(SeqCst);
            let bound = word(last, Phase::Reading);
            own.word.store(bound, SeqCst); // invariant 1
            publish_stores();
            let tick = clock.after(last);
            own.last.store(tick, SeqCst);
            // The exchange fails if a reader has set this slot to `Overtaken` meanwhile. That
            // reader may have read the clock later than this thread, which then takes a new tick.
            if own.word.compare_exchange(bound, word(tick, Phase::Reading), SeqCst, SeqCst).is_ok() {
                return Timestamp::of(tick, slot);
            }
        }
    }

    /// Returns whether the writer may put versions in place at `timestamp`; false if it was
    /// overtaken.
    #[inline]
    pub fn may_install(&self, timestamp: Timestamp) -> bool {
        let word_of = |phase| word(timestamp.tick(), phase);
        let own = &self.slots[timestamp.slot()].word;
        own.compare_exchange(word_of(Phase::Reading), word_of(Phase::Installing), SeqCst, SeqCst).is_ok()
    }

    /// Announces that all versions of this writer are in place.
    #[inline]
    pub fn installed(&self, timestamp: Timestamp) {
        self.slots[timestamp.slot()].word.store(word(timestamp.tick(), Phase::Installed), SeqCst);
    }

    /// Announces that the owner of `slot` reads nothing any more.
    #[inline]
    pub fn read_all(&self, slot: usize) {
        self.slots[slot].reads_at.store(u64::MAX, SeqCst);
    }

    // ---- readers

    /// Returns the timestamp of a reader that begins in `slot`, and the bound below which the
    /// reader reads (invariant 2).
    ///
    /// # Errors
    /// [`Stuck`] if a writer that the reader must wait for does not end in time.
    pub fn begin_read(
        &self,
        slot: usize,
        clock: &Clock,
        at_most: Duration,
        log: &(impl Waits + ?Sized),
    ) -> Result<(Timestamp, Timestamp), Stuck> {
        let own = &self.slots[slot];
        own.reads_at.store(self.horizon.load(SeqCst), SeqCst);
        let acknowledged = self.acknowledged();
        let tick = clock.after(acknowledged.tick().max(own.last.load(SeqCst)));
        own.last.store(tick, SeqCst);
        // The swap stores `tick`, so it comes after the reading of the clock. The loads of the scan
        // come after the swap, because both are sequentially consistent.
        own.word.swap(word(tick, Phase::ReadOnly), SeqCst);
        let mut bound = Timestamp::of(tick, 0);
        for at in 0..self.used.load(SeqCst) {
            let mut wait = Patience::new(at_most);
            loop {
                match self.meet(at, acknowledged, bound) {
                    Meeting::Passed => break,
                    Meeting::Below(lower) => bound = lower,
                    Meeting::Again if wait.is_over(log) => {
                        let writer = Timestamp::of(parts(self.slots[at].word.load(SeqCst)).0, at);
                        return Err(Stuck { reader: Timestamp::of(tick, slot), writer });
                    }
                    Meeting::Again => {}
                }
            }
        }
        own.reads_at.store(bound.get(), SeqCst);
        Ok((Timestamp::of(tick, slot), bound))
    }

    /// Checks a slot for a reader that begins, and overtakes a writer there if necessary.
    fn meet(&self, at: usize, acknowledged: Timestamp, bound: Timestamp) -> Meeting {
        let seen = self.slots[at].word.load(SeqCst);
        let (tick, phase) = parts(seen);
        let timestamp = Timestamp::of(tick, at);
        match phase {
            Phase::Idle | Phase::Overtaken | Phase::ReadOnly => Meeting::Passed,
            _ if timestamp >= bound => Meeting::Passed,
            _ if timestamp > acknowledged => Meeting::Below(timestamp),
            Phase::Installed => Meeting::Passed,
            Phase::Installing => Meeting::Again,
            Phase::Reading => {
                let overtaken = word(tick, Phase::Overtaken);
                match self.slots[at].word.compare_exchange(seen, overtaken, SeqCst, SeqCst) {
                    Ok(_) => Meeting::Passed,
                    Err(_) => Meeting::Again,
                }
            }
        }
    }

    // ---- values computed from all slots

    /// Announces that `timestamp` is about to be acknowledged: readers that begin from now on see
    /// it.
    #[inline]
    pub fn acknowledge(&self, timestamp: Timestamp) {
        // A writer's timestamp names the writer's slot. A reader acknowledges the greatest
        // timestamp that it has seen, which may name a slot that was never used. In that case any
        // slot serves, hence the modulo.
        let slot = &self.slots[timestamp.slot() % self.used.load(SeqCst)];
        raise(&slot.acknowledged, timestamp.get(), SeqCst);
    }

    /// Makes all timestamps up to `base` count as acknowledged. Called before the first
    /// transaction.
    pub fn set_base(&self, base: Timestamp) {
        raise(&self.slots[0].acknowledged, base.get(), SeqCst);
    }

    fn in_use(&self) -> &[CachePadded<Slot>] {
        &self.slots[..self.used.load(SeqCst)]
    }

    /// Returns the greatest acknowledged timestamp.
    fn acknowledged(&self) -> Timestamp {
        Timestamp::new(self.in_use().iter().map(|slot| slot.acknowledged.load(SeqCst)).max().unwrap_or(0))
    }

    /// Returns the smallest of `bound` (a result of [`Slots::begin_read`]) and the timestamps of
    /// all writers in flight. A writer is in flight from its first version until it gives its slot
    /// back, because its versions may still be committed or removed.
    pub fn in_flight_below(&self, bound: Timestamp) -> Timestamp {
        let in_flight = self.in_use().iter().enumerate().filter_map(|(at, slot)| {
            let (tick, phase) = parts(slot.word.load(SeqCst));
            matches!(phase, Phase::Installing | Phase::Installed).then(|| Timestamp::of(tick, at))
        });
        in_flight.min().map_or(bound, |least| least.min(bound))
    }

    /// Number of slots that a scan reads.
    pub fn scanned(&self) -> usize {
        self.used.load(SeqCst)
    }

    /// The horizon as it was last computed.
    #[inline]
    pub fn last_horizon(&self) -> Timestamp {
        Timestamp::new(self.horizon.load(SeqCst))
    }

    /// Computes the horizon. No open or later transaction has a bound below it (invariant 3).
    pub fn horizon(&self) -> Timestamp {
        let acknowledged = self.acknowledged().next().get();
        let oldest = self.in_use().iter().map(|slot| slot.reads_at.load(SeqCst)).min().unwrap_or(u64::MAX);
        let horizon = acknowledged.min(oldest);
        Timestamp::new(raise(&self.horizon, horizon, SeqCst).max(horizon))
    }

    /// Returns the timestamp of the open transaction that needs the oldest versions. The tick of
    /// the result is the last one that the transaction took from the clock.
    pub fn oldest(&self) -> Option<Timestamp> {
        let (at, slot) =
            self.in_use().iter().enumerate().min_by_key(|(_, slot)| slot.reads_at.load(SeqCst))?;
        let is_open = slot.reads_at.load(SeqCst) != u64::MAX;
        is_open.then(|| Timestamp::of(slot.last.load(SeqCst), at))
    }
}

/// Error: a reader could not begin, because a writer that it waited for did not end.
#[derive(Debug)]
pub struct Stuck {
    /// The timestamp of the reader.
    pub reader: Timestamp,
    /// The timestamp of the writer.
    pub writer: Timestamp,
}

/// Result of a beginning reader's check of a slot.
enum Meeting {
    /// The slot's owner adds no version below the reader's bound, or has all its versions in place.
    Passed,
    /// The reader must read below this timestamp.
    Below(Timestamp),
    /// The reader must check the slot again.
    Again,
}

/// A bounded wait for something that takes microseconds.
struct Patience {
    at_most: Duration,
    turns: u32,
    until: Option<Deadline>,
}

impl Patience {
    fn new(at_most: Duration) -> Self {
        Patience { at_most, turns: 0, until: None }
    }

    fn is_over(&mut self, log: &(impl Waits + ?Sized)) -> bool {
        self.turns += 1;
        yield_now();
        if !self.turns.is_multiple_of(64) {
            return false;
        }
        let until = *self.until.get_or_insert_with(|| {
            log.before_wait();
            Deadline::after(self.at_most)
        });
        until.is_over()
    }
}

#[cfg(all(test, katydid_explore))]
mod checks;
