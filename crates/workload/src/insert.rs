//! Transactions that insert one key each: the workload of a log. Keys never repeat.

use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::sync::Arc;

/// Length in bytes of the shortest key that can hold a number.
pub const KEY_BYTES_MIN: usize = 8;

/// Order of the keys of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeyOrder {
    /// Ascending keys; each thread has a range of its own.
    #[default]
    Ascending,
    /// Keys scattered over the key space by a hash without collisions.
    Hashed,
}

/// Bits of a key's number that count the inserts of one thread in one run. `THREAD_BITS` bits
/// number the thread, and the remaining bits number the run.
const COUNT_BITS: u32 = 36;
const THREAD_BITS: u32 = 14;

/// Maximum number of runs on one table. The keys of all these runs differ.
pub const RUNS_MAX: u64 = 1 << (64 - COUNT_BITS - THREAD_BITS);

/// First number of one thread in one run. No other thread or run uses this thread's numbers.
pub(crate) fn first_number(run: u64, thread: usize) -> u64 {
    assert!(thread < 1 << THREAD_BITS && run < RUNS_MAX, "more threads or runs than keys are numbered for");
    run << (COUNT_BITS + THREAD_BITS) | (thread as u64) << COUNT_BITS
}

/// Endless inserts; the driver's limits end the run.
#[derive(Debug)]
pub struct Inserts {
    key_bytes: usize,
    value_bytes: usize,
    order: KeyOrder,
    run: u64,
}

impl Inserts {
    /// Inserts of keys and values of the given lengths in bytes. A key has at least
    /// [`KEY_BYTES_MIN`] bytes. Each run on the same table needs another `run`, which is less than
    /// [`RUNS_MAX`].
    pub fn new(key_bytes: usize, value_bytes: usize, order: KeyOrder, run: u64) -> Arc<Self> {
        assert!(key_bytes >= KEY_BYTES_MIN && run < RUNS_MAX, "the caller has checked this");
        Arc::new(Inserts { key_bytes, value_bytes, order, run })
    }
}

impl Workload for Inserts {
    type Source = InsertSource;

    fn source(self: &Arc<Self>, thread: usize, mut rng: Rng) -> InsertSource {
        let mut value = vec![0; self.value_bytes];
        rng.fill(&mut value);
        InsertSource {
            next: first_number(self.run, thread),
            inserts: Arc::clone(self),
            key: Vec::new(),
            value,
        }
    }
}

/// The inserts of one thread.
#[derive(Debug)]
pub struct InsertSource {
    inserts: Arc<Inserts>,
    next: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Source for InsertSource {
    fn plan(&mut self) -> Option<Planned> {
        let number = match self.inserts.order {
            KeyOrder::Ascending => self.next,
            KeyOrder::Hashed => scatter(self.next),
        };
        write_key(number, self.inserts.key_bytes, &mut self.key);
        // Each value differs from the value before, so that no test mistakes one for the other.
        let stamp = self.next.to_le_bytes();
        let length = self.value.len().min(stamp.len());
        self.value[..length].copy_from_slice(&stamp[..length]);
        self.next += 1;
        Some(Planned { class: Class::Write, ticket: None })
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        transaction.insert(&self.key, &self.value)?;
        Ok(Ending::Commit)
    }
}

/// A permutation of all 64-bit numbers (the finalizer of SplitMix64).
fn scatter(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Encodes the number as a key of exactly `bytes` bytes. Keys sort like numbers. The key consists
/// of decimal digits if 20 digits fit.
fn write_key(number: u64, bytes: usize, out: &mut Vec<u8>) {
    const DIGITS: usize = 20;
    out.clear();
    if bytes < DIGITS {
        out.resize(bytes - size_of::<u64>(), b'0');
        out.extend_from_slice(&number.to_be_bytes());
        return;
    }
    out.resize(bytes, b'0');
    let mut rest = number;
    for digit in out.iter_mut().rev().take(DIGITS) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_have_their_length_and_order() {
        for bytes in [8, 12, 19, 20, 33] {
            let mut last = Vec::new();
            for number in [0, 1, 9, 10, 255, 256, 1 << 36, u64::MAX] {
                let mut key = Vec::new();
                write_key(number, bytes, &mut key);
                assert_eq!(key.len(), bytes);
                assert!(key > last, "{number} in {bytes}");
                last = key;
            }
        }
    }

    #[test]
    fn keys_never_repeat() {
        for order in [KeyOrder::Ascending, KeyOrder::Hashed] {
            let mut seen = HashSet::new();
            for run in 0..3 {
                let inserts = Inserts::new(20, 4, order, run);
                for thread in 0..4 {
                    let mut source = inserts.source(thread, Rng::with_seed(1));
                    for _ in 0..1000 {
                        source.plan().unwrap();
                        assert!(seen.insert(source.key.clone()));
                    }
                }
            }
        }
    }
}
