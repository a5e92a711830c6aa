//! Words of the engines that readers share, each with the accesses that the library behind it
//! makes. A writer never comes, so no reader waits for one.

use katydid_virtual_machine::sync_shim::{AtomicU64, AtomicUsize, Ordering, spin_loop};

/// Number of shards into which the engine divides its threads (`crates/engine/src/shard.rs`).
pub(super) const SHARDS: usize = 64;

/// The word of a reader-writer latch, with the accesses of `parking_lot`'s `RawRwLock`: a load and
/// a compare-and-swap to lock it shared, a subtraction to unlock it.
#[derive(Debug, Default)]
pub(super) struct ReadLatch(AtomicUsize);

/// The unit in which the word counts readers; the bits below are those of writers.
const READER: usize = 16;
/// Greatest binary logarithm of the pauses between two attempts (`SpinWait::spin_no_yield`).
const PAUSES_LOG_MAX: u32 = 10;

impl ReadLatch {
    fn attempt(&self, state: usize) -> Result<usize, usize> {
        self.0.compare_exchange(state, state + READER, Ordering::Acquire, Ordering::Relaxed)
    }

    /// Locks as `RwLock::read`: pauses after each failed attempt but the first, longer each time.
    pub(super) fn read(&self) {
        let mut pauses_log = 0;
        if self.attempt(self.0.load(Ordering::Relaxed)).is_ok() {
            return;
        }
        while self.attempt(self.0.load(Ordering::Relaxed)).is_err() {
            pauses_log = (pauses_log + 1).min(PAUSES_LOG_MAX);
            (0..1 << pauses_log).for_each(|_| spin_loop());
        }
    }

    /// Locks as `RwLock::try_read`, which tries again at once after another reader's change.
    pub(super) fn try_read(&self) {
        let mut state = self.0.load(Ordering::Relaxed);
        while let Err(found) = self.attempt(state) {
            state = found;
        }
    }

    pub(super) fn unlock(&self) {
        self.0.fetch_sub(READER, Ordering::Release);
    }
}

/// The strong count of an `Arc`.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(super) fn take(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn give(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Bytes of shared memory that a thread reads or writes under a latch or beside one. One word
/// stands for all of its line.
#[derive(Debug, Default)]
pub(super) struct Bytes(AtomicU64);

impl Bytes {
    pub(super) fn look(&self) {
        self.0.load(Ordering::Acquire);
    }

    /// Reads the bytes and then writes them.
    pub(super) fn edit(&self) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before + 1, Ordering::Relaxed);
    }

    /// A sequentially consistent store.
    pub(super) fn publish(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }

    /// A store that waits for nothing.
    pub(super) fn note(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// An atomic addition.
    pub(super) fn count(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Replaces `from` by `to`. Returns whether it was there.
    pub(super) fn exchange(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes one value for each number below `count`.
pub(super) fn each<T: Default>(count: usize) -> Box<[T]> {
    (0..count).map(|_| T::default()).collect()
}

/// A hash of a number by a folded multiplication, as the engine hashes page ids
/// (`crates/engine/src/paged/pool/shard.rs`).
pub(super) fn hash(number: u64) -> u64 {
    let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product >> 64) as u64 ^ product as u64
}
