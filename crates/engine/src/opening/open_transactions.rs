//! The list of open transactions: when each began, and at which line of the program.
//!
//! Any thread may call this code. A transaction takes a slot in the shard of the thread that began
//! it, by one compare-and-swap, and frees the slot by one store. The compare-and-swap contends with
//! another thread only if threads share the shard, or if a transaction has moved to another thread.
//! `stat` reads slots while other threads write them.
//!
//! Rules:
//! 1. A slot's `txn` is `FREE`, `TAKEN` while its other fields are written, or the number of its
//!    transaction. Numbers are never used twice, so a reader that finds the same number before and
//!    after it reads the other fields has read the fields of that transaction.
//! 2. A shard grows by whole blocks, each twice as long as the one before, and never shrinks: a
//!    slot stays where it is until the database is closed.

use crate::coarse_clock;
use crate::ids::TxnId;
use crate::shard::thread_number;
use crossbeam_utils::CachePadded;
use crossbeam_utils::atomic::AtomicCell;
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Number of shards: enough for the threads that begin transactions at once, and few enough for
/// many databases in one process.
const SHARDS: usize = 16;
/// Number of slots in a shard's first block.
const FIRST: usize = 8;
/// Maximum number of blocks in a shard: enough for more transactions than memory holds.
const BLOCKS: usize = 32;
const FREE: u64 = TxnId::NONE.get();
const TAKEN: u64 = u64::MAX;

/// The list of open transactions; see the head of this file.
#[derive(Debug)]
pub(super) struct OpenTransactions(Box<[CachePadded<Shard>]>);

#[derive(Debug, Default)]
struct Shard {
    blocks: [OnceLock<Box<[Slot]>>; BLOCKS],
    /// The slot from which a search for a free slot begins: the slot that was freed last, or the
    /// slot after the one that was taken last.
    hint: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    txn: AtomicU64,
    /// Beginning of the transaction, by the coarse clock.
    begun: AtomicU64,
    origin: AtomicCell<Option<&'static Location<'static>>>,
    /// The number of the last transaction in this slot that was reported as slow.
    reported: AtomicU64,
}

/// An open transaction, as its slot describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) txn: TxnId,
    /// Beginning of the transaction, by the coarse clock.
    pub(super) begun: u64,
    pub(super) origin: &'static Location<'static>,
}

/// The slot of an open transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    shard: u32,
    slot: u32,
}

impl OpenTransactions {
    pub(super) fn new() -> OpenTransactions {
        OpenTransactions((0..SHARDS).map(|_| CachePadded::default()).collect())
    }

    /// Adds to the list a transaction that the calling thread begins. The caller passes the result
    /// to [`OpenTransactions::ends`].
    #[inline]
    pub(super) fn begins(&self, txn: TxnId, origin: &'static Location<'static>) -> Listed {
        let shard = thread_number() % SHARDS;
        Listed { shard: shard as u32, slot: self.0[shard].take(txn, origin) as u32 }
    }

    /// Removes from the list a transaction that ends, and returns its entry.
    #[inline]
    pub(super) fn ends(&self, listed: Listed) -> Option<Entry> {
        let shard = &self.0[listed.shard as usize];
        let slot = shard.slot(listed.slot as usize)?;
        let entry = slot.read();
        slot.txn.store(FREE, Ordering::Release);
        shard.hint.store(listed.slot as usize, Ordering::Relaxed);
        entry
    }

    /// Returns the open transactions, in no order. A transaction that begins or ends meanwhile may
    /// be missing.
    pub(super) fn all(&self) -> impl Iterator<Item = Entry> {
        self.0.iter().flat_map(|shard| shard.slots()).filter_map(Slot::read)
    }

    /// Returns the open transactions that began at `begun` of the coarse clock or earlier, except
    /// those that an earlier call has returned.
    pub(super) fn unreported(&self, begun: u64) -> impl Iterator<Item = Entry> {
        let old = self.0.iter().flat_map(|shard| shard.slots());
        old.filter_map(move |slot| {
            let entry = slot.read().filter(|entry| entry.begun <= begun)?;
            (slot.reported.swap(entry.txn.get(), Ordering::Relaxed) != entry.txn.get()).then_some(entry)
        })
    }
}

impl Slot {
    fn new() -> Slot {
        Slot {
            txn: AtomicU64::new(FREE),
            begun: AtomicU64::new(0),
            origin: AtomicCell::new(None),
            reported: AtomicU64::new(FREE),
        }
    }

    fn take(&self, txn: TxnId, origin: &'static Location<'static>) -> bool {
        if self.txn.load(Ordering::Relaxed) != FREE
            || self.txn.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return false;
        }
        // This fence pairs with the Acquire fence in `read`. If a reader reads a value that is
        // stored below, its second load of `txn` finds this `TAKEN` or a value stored after it, and
        // never the number of the slot's previous transaction (rule 1).
        fence(Ordering::Release);
        self.begun.store(coarse_clock::now(), Ordering::Relaxed);
        self.origin.store(Some(origin));
        self.txn.store(txn.get(), Ordering::Release);
        true
    }

    fn read(&self) -> Option<Entry> {
        let txn = self.txn.load(Ordering::Acquire);
        if txn == FREE || txn == TAKEN {
            return None;
        }
        let (begun, origin) = (self.begun.load(Ordering::Relaxed), self.origin.load());
        fence(Ordering::Acquire);
        if self.txn.load(Ordering::Relaxed) != txn {
            return None;
        }
        Some(Entry { txn: TxnId::new(txn), begun, origin: origin? })
    }
}

impl Shard {
    /// Takes a free slot, in a new block if there is none.
    fn take(&self, txn: TxnId, origin: &'static Location<'static>) -> usize {
        let hint = self.hint.load(Ordering::Relaxed);
        let took = |slot: usize| self.slot(slot).is_some_and(|slot| slot.take(txn, origin));
        let taken = if took(hint) { hint } else { self.search(hint, took) };
        self.hint.store(taken + 1, Ordering::Relaxed);
        taken
    }

    /// Returns the first slot that `took` accepts, from `hint` to the end and then from the first
    /// slot on. Adds a block if `took` accepts no slot.
    #[cold]
    fn search(&self, hint: usize, took: impl Fn(usize) -> bool) -> usize {
        loop {
            let blocks = self.blocks.iter().take_while(|block| block.get().is_some()).count();
            let slots = slots_before(blocks);
            if let Some(slot) = (hint..slots).chain(0..hint.min(slots)).find(|slot| took(*slot)) {
                return slot;
            }
            self.blocks[blocks].get_or_init(|| (0..FIRST << blocks).map(|_| Slot::new()).collect());
        }
    }

    fn slot(&self, slot: usize) -> Option<&Slot> {
        let (block, at) = block_of(slot);
        self.blocks.get(block)?.get().map(|slots| &slots[at])
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.blocks.iter().map_while(OnceLock::get).flatten()
    }
}

/// Returns the number of slots in all blocks before `block`.
fn slots_before(block: usize) -> usize {
    (FIRST << block) - FIRST
}

/// Returns the block of a slot, and the slot's index in the block.
fn block_of(slot: usize) -> (usize, usize) {
    let block = (slot / FIRST + 1).ilog2() as usize;
    (block, slot - slots_before(block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    fn open(list: &OpenTransactions) -> Vec<u64> {
        let mut open: Vec<u64> = list.all().map(|entry| entry.txn.get()).collect();
        open.sort_unstable();
        open
    }

    #[test]
    fn transactions_are_listed_until_they_end() {
        let list = OpenTransactions::new();
        let here = Location::caller();
        let listed: Vec<Listed> = (1..=3).map(|txn| list.begins(TxnId::new(txn), here)).collect();
        let elsewhere = std::thread::scope(|scope| {
            scope.spawn(|| list.begins(TxnId::new(4), here)).join().expect("no panic")
        });
        assert_eq!(open(&list), [1, 2, 3, 4]);
        assert_eq!(list.ends(listed[1]).map(|entry| entry.txn.get()), Some(2));
        assert_eq!(open(&list), [1, 3, 4]);
        list.begins(TxnId::new(5), here);
        list.ends(elsewhere);
        assert_eq!(open(&list), [1, 3, 5]);
    }

    #[test]
    fn a_thread_may_hold_more_transactions_than_a_block_has_slots() {
        let list = OpenTransactions::new();
        let count = 5 * FIRST as u64 + 3;
        let listed: Vec<Listed> =
            (1..=count).map(|txn| list.begins(TxnId::new(txn), Location::caller())).collect();
        let slots: HashSet<u32> = listed.iter().map(|listed| listed.slot).collect();
        assert_eq!(slots.len() as u64, count, "two transactions share a slot");
        assert_eq!(open(&list), (1..=count).collect::<Vec<_>>());
        // Freed slots in the middle are taken again before the list grows.
        let (freed, kept) = listed.split_at(FIRST);
        assert!(freed.iter().all(|listed| list.ends(*listed).is_some()));
        let again: HashSet<u32> = (0..FIRST as u64)
            .map(|txn| list.begins(TxnId::new(count + 1 + txn), Location::caller()).slot)
            .collect();
        assert!(kept.iter().all(|listed| !again.contains(&listed.slot)));
        assert!(again.iter().all(|slot| (*slot as usize) < slots_before(3)), "{again:?}");
    }

    #[test]
    fn a_slow_transaction_is_reported_once() {
        let list = OpenTransactions::new();
        let one = list.begins(TxnId::new(1), Location::caller());
        let reported = || list.unreported(u64::MAX).map(|entry| entry.txn.get()).collect::<Vec<_>>();
        assert_eq!((reported(), reported()), (vec![1], vec![]));
        list.ends(one);
        list.begins(TxnId::new(2), Location::caller());
        assert_eq!((reported(), reported()), (vec![2], vec![]), "the slot's next transaction");
    }

    /// A reader finds the number and the origin of one and the same transaction: even numbers have
    /// one origin, odd numbers the other.
    #[test]
    fn a_reader_sees_no_mixture_of_two_transactions() {
        let list = OpenTransactions::new();
        let origins: Vec<&'static Location<'static>> = vec![Location::caller(), Location::caller()];
        assert_ne!(origins[0], origins[1]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (list, origins, done) = (&list, &origins, &done);
            scope.spawn(move || {
                for txn in 1..=if cfg!(miri) { 50 } else { 200_000 } {
                    // One thread begins all transactions, so both origins pass through one slot.
                    let listed = list.begins(TxnId::new(txn), origins[txn as usize % 2]);
                    list.ends(listed);
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                for entry in list.all() {
                    assert_eq!(entry.origin, origins[entry.txn.get() as usize % 2], "{entry:?}");
                }
            }
        });
    }
}
