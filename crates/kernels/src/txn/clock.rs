//! Timestamps that every transaction makes for itself. The high bits are the time, the low bits the
//! number of the transaction's slot.
//!
//! Any thread may call this code. To make a timestamp, a thread only reads the clock and adds the
//! number of its slot; no memory that threads share is written (except by the clock for tests).
//! Invariants:
//!
//! 1. The tick of a timestamp is the time at which its owner read the clock, so no timestamp is
//!    ahead of the clock. A thread that reads the clock after the tick of another timestamp has
//!    passed gets a greater timestamp, in any slot. So the order of timestamps agrees with real
//!    time.
//! 2. Timestamps are unique, because the ticks of one slot grow and the slots differ in the low
//!    bits.
//! 3. `base` is greater than the tick of every timestamp known from earlier openings. `set_base` is
//!    called before the first transaction.
//!
//! 52 bits of ticks of 64 ns last for nine years of running time, summed over all openings.

use crate::sync_shim::{AtomicU64, Instant, Ordering, raise, spin_loop};
use std::sync::Arc;
use std::time::Duration;

const SLOT_BITS: u32 = 12;
const TICK_BITS: u32 = 6;

/// The maximum number of slots: one less than the number of values of a timestamp's low bits.
pub const SLOTS_MAX: usize = (1 << SLOT_BITS) - 1;

/// A transaction's place in the total order of all transactions. Zero is before all transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The timestamp before every transaction.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The timestamp after every transaction.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// The timestamp with the given number.
    pub const fn new(number: u64) -> Self {
        Timestamp(number)
    }

    /// The number of this timestamp.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The timestamp of a tick and a slot.
    pub const fn of(tick: u64, slot: usize) -> Self {
        Timestamp(tick << SLOT_BITS | slot as u64)
    }

    /// The time at which the timestamp was made, in ticks of the clock.
    pub const fn tick(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    /// The slot of the transaction that made the timestamp.
    pub const fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    /// Returns the next greater timestamp; for the greatest timestamp, the timestamp itself.
    pub const fn next(self) -> Self {
        Timestamp(self.0.saturating_add(1))
    }

    /// Returns the next lower timestamp; for zero, zero.
    pub const fn before(self) -> Self {
        Timestamp(self.0.saturating_sub(1))
    }
}

/// A clock for tests. The clock advances with its readings, so that no thread waits for it in vain.
#[derive(Debug, Clone)]
pub struct HandClock {
    readings: Arc<AtomicU64>,
    per_tick: u64,
}

impl HandClock {
    /// Makes a clock that advances by one tick for every `per_tick` readings.
    pub fn new(per_tick: u64) -> Self {
        HandClock { readings: Arc::new(AtomicU64::new(per_tick)), per_tick }
    }
}

/// Source of time.
#[derive(Debug)]
pub enum Source {
    /// The machine's monotonic clock, counted from this moment.
    Monotonic(Instant),
    /// A clock for tests.
    Hand(HandClock),
}

impl Source {
    /// The machine's monotonic clock, counted from now.
    pub fn monotonic() -> Self {
        Source::Monotonic(Instant::now())
    }
}

/// The one clock of a store.
#[derive(Debug)]
pub struct Clock {
    source: Source,
    /// Written before transactions begin.
    base: AtomicU64,
}

impl Clock {
    /// A clock whose ticks begin at 1.
    #[inline]
    pub fn new(source: Source) -> Self {
        Clock { source, base: AtomicU64::new(1) }
    }

    /// Moves the clock beyond `known`, a timestamp of an earlier opening (invariant 3).
    pub fn set_base(&self, known: Timestamp) {
        raise(&self.base, known.tick() + 1, Ordering::SeqCst);
    }

    /// The present time as a tick.
    #[inline]
    pub fn now(&self) -> u64 {
        let since = match &self.source {
            Source::Monotonic(begin) => (begin.elapsed().as_nanos() as u64) >> TICK_BITS,
            Source::Hand(hand) => hand.readings.fetch_add(1, Ordering::SeqCst) / hand.per_tick,
        };
        self.base.load(Ordering::Relaxed) + since
    }

    /// Returns the present time once the tick `passed` is over. The call waits at most one tick, by
    /// invariant 1.
    #[inline]
    pub fn after(&self, passed: u64) -> u64 {
        loop {
            let now = self.now();
            if now > passed {
                return now;
            }
            spin_loop();
        }
    }

    /// Time since `timestamp`.
    pub fn age(&self, timestamp: Timestamp) -> Duration {
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
