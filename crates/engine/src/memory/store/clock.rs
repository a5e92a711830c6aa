//! Timestamps that every transaction makes for itself: time in the high bits, its slot's number in the low ones.
//!
//! Any thread; nothing is shared but the time. Invariants:
//!
//! 1. A tick handed out was the time when it was read: no timestamp lies ahead of the clock. So whoever reads the clock after a
//!    timestamp's tick has passed gets a greater one, in whatever slot: that is how the order of timestamps keeps to real time.
//! 2. Ticks of one slot grow, and slots differ in the low bits: timestamps are unique.
//! 3. `base` is greater than the tick of every timestamp known from before this incarnation, and set before the first transaction.
//!
//! 52 bits of 64 ns are nine years of running, added up over all incarnations.

use super::sync_shim::{AtomicU64, Instant, Ordering, spin_loop};
#[cfg(test)]
use std::sync::Arc;
use std::time::Duration;

const SLOT_BITS: u32 = 12;
const TICK_BITS: u32 = 6;

/// The greatest number of slots: one less than the low bits tell apart.
pub(crate) const SLOTS_MAX: usize = (1 << SLOT_BITS) - 1;

/// When a transaction takes place, in the one order of all. Zero is before everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Timestamp(u64);

impl Timestamp {
    pub(crate) const ZERO: Timestamp = Timestamp(0);
    pub(crate) const MAX: Timestamp = Timestamp(u64::MAX);

    pub(crate) const fn new(number: u64) -> Self {
        Timestamp(number)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    pub(super) const fn of(tick: u64, slot: usize) -> Self {
        Timestamp(tick << SLOT_BITS | slot as u64)
    }

    pub(super) const fn tick(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    pub(super) const fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    pub(super) const fn next(self) -> Self {
        Timestamp(self.0.saturating_add(1))
    }

    pub(super) const fn before(self) -> Self {
        Timestamp(self.0.saturating_sub(1))
    }
}

/// A clock that tests move, and that moves on by itself as it is read, so that nobody waits for it in vain.
#[cfg(test)]
#[derive(Debug, Clone)]
pub(crate) struct HandClock {
    readings: Arc<AtomicU64>,
    per_tick: u64,
}

#[cfg(test)]
impl HandClock {
    /// One tick for every `per_tick` readings.
    pub(crate) fn new(per_tick: u64) -> Self {
        HandClock { readings: Arc::new(AtomicU64::new(per_tick)), per_tick }
    }
}

/// Where time comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The machine's monotonic clock, since this moment.
    Monotonic(Instant),
    #[cfg(test)]
    Hand(HandClock),
}

impl Source {
    pub(crate) fn monotonic() -> Self {
        Source::Monotonic(Instant::now())
    }
}

/// The one clock of a store.
#[derive(Debug)]
pub(super) struct Clock {
    source: Source,
    /// Written before transactions begin.
    base: AtomicU64,
}

impl Clock {
    pub(super) fn new(source: Source) -> Self {
        Clock { source, base: AtomicU64::new(1) }
    }

    /// Invariant 3.
    pub(super) fn set_base(&self, known: Timestamp) {
        self.base.fetch_max(known.tick() + 1, Ordering::SeqCst);
    }

    /// Now, as a tick.
    pub(super) fn now(&self) -> u64 {
        let since = match &self.source {
            Source::Monotonic(begin) => (begin.elapsed().as_nanos() as u64) >> TICK_BITS,
            #[cfg(test)]
            Source::Hand(hand) => hand.readings.fetch_add(1, Ordering::SeqCst) / hand.per_tick,
        };
        self.base.load(Ordering::Relaxed) + since
    }

    /// Now, but not before the tick `passed` is over: at most one tick's wait, by invariant 1.
    pub(super) fn after(&self, passed: u64) -> u64 {
        loop {
            let now = self.now();
            if now > passed {
                return now;
            }
            spin_loop();
        }
    }

    /// How long ago `timestamp` was.
    pub(super) fn age(&self, timestamp: Timestamp) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(timestamp.tick()) << TICK_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_its_tick_and_its_slot() {
        let timestamp = Timestamp::of(77, 4094);
        assert_eq!((timestamp.tick(), timestamp.slot()), (77, 4094));
        assert!(timestamp < Timestamp::of(78, 0));
        assert_eq!(Timestamp::of(78, 0).before().next(), Timestamp::of(78, 0));
    }

    #[test]
    fn time_goes_on_above_what_was_recovered() {
        for source in [Source::monotonic(), Source::Hand(HandClock::new(3))] {
            let clock = Clock::new(source);
            clock.set_base(Timestamp::of(1 << 40, 7));
            let first = clock.after(0);
            assert!(first > 1 << 40);
            assert!(clock.after(first) > first);
        }
    }
}
