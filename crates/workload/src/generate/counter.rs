//! Hands out the numbers of new records, and knows the number below which all are acknowledged. So
//! a reader never looks for a record whose insert is still in flight.
//!
//! All threads share the counter. `next` is one `fetch_add`. The frontier is the number below which
//! all are acknowledged. An acknowledgement sets a flag in a ring, and a thread that finds the
//! latch free advances the frontier over the flags that are set. Rules:
//!
//! 1. Every number below `acknowledged()` was passed to `acknowledge`, or lies below the first
//!    number.
//! 2. Every number that is handed out must lie less than `WINDOW` above `acknowledged()`, because
//!    numbers share the flags of the ring modulo `WINDOW`. The counter does not check this. The
//!    workload only limits the transactions in flight to half of `WINDOW`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Number of flags in the ring, which limits the numbers by rule 2.
const WINDOW: usize = 1 << 20;

/// A counter whose numbers may be acknowledged in any order.
#[derive(Debug)]
pub struct AcknowledgedCounter {
    next: AtomicU64,
    /// Threads store the frontier under `latch` only; all threads load it. `acknowledge` stores it
    /// with SeqCst, which includes Release, and `acknowledged` loads it with Acquire. So a thread
    /// that finds a number acknowledged also sees the effects of the transaction that had this
    /// number. (The database under test may ensure that already.)
    frontier: AtomicU64,
    flags: Box<[AtomicBool]>,
    latch: Mutex<()>,
}

impl AcknowledgedCounter {
    /// A number that is handed out must be less than [`acknowledged`](Self::acknowledged) plus this
    /// number.
    pub const WINDOW: usize = WINDOW;

    /// A counter that begins at `first`. All numbers below `first` count as acknowledged.
    pub fn new(first: u64) -> Self {
        AcknowledgedCounter {
            next: AtomicU64::new(first),
            frontier: AtomicU64::new(first),
            flags: (0..WINDOW).map(|_| AtomicBool::new(false)).collect(),
            latch: Mutex::new(()),
        }
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that `next` would return.
    pub fn issued(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// All numbers below the result are acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.frontier.load(Ordering::Acquire)
    }

    /// Marks `number` acknowledged.
    pub fn acknowledge(&self, number: u64) {
        self.flags[number as usize % WINDOW].store(true, Ordering::SeqCst);
        loop {
            // The fence pairs with itself in another thread. One thread passes the fence between
            // setting a flag and finding the latch taken; the other thread passes it between
            // dropping the latch and reading the flags again. Without the fence, each thread could
            // rely on the other to advance the frontier.
            fence(Ordering::SeqCst);
            if !self.flags[self.frontier.load(Ordering::SeqCst) as usize % WINDOW].load(Ordering::SeqCst) {
                return;
            }
            // The thread that holds the latch reads the flags again after it has released the
            // latch.
            let Ok(_guard) = self.latch.try_lock() else { return };
            let mut frontier = self.frontier.load(Ordering::Relaxed);
            while self.flags[frontier as usize % WINDOW].swap(false, Ordering::SeqCst) {
                frontier += 1;
            }
            self.frontier.store(frontier, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_frontier_waits_for_the_slowest() {
        let counter = AcknowledgedCounter::new(10);
        let numbers: Vec<u64> = (0..4).map(|_| counter.next()).collect();
        assert_eq!(numbers, [10, 11, 12, 13]);
        counter.acknowledge(12);
        counter.acknowledge(11);
        assert_eq!(counter.acknowledged(), 10);
        counter.acknowledge(10);
        assert_eq!(counter.acknowledged(), 13);
        counter.acknowledge(13);
        assert_eq!(counter.acknowledged(), 14);
        assert_eq!(counter.issued(), 14);
    }

    #[test]
    fn threads_leave_nothing_behind() {
        let counter = Arc::new(AcknowledgedCounter::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || {
                    for _ in 0..20_000 {
                        let number = counter.next();
                        counter.acknowledge(number);
                        assert!(counter.acknowledged() <= counter.issued());
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(counter.acknowledged(), 80_000);
    }
}
