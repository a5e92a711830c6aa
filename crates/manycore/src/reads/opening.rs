//! Words that transactions of both engines share: the reference to the database, and the list of
//! open transactions.
//!
//! Originals: `crates/engine/src/sharded.rs` (`ShardRef`), `opening/open_transactions.rs`. A
//! transaction that writes nothing enters no call, so `opening/calls.rs` has no part in it
//! (`Transaction::commit` in `transaction.rs`).

use super::words::{Bytes, Count, SHARDS, each};
use crossbeam_utils::CachePadded;
use std::array;

/// Number of shards of the list, as in the engine.
const LIST_SHARDS: usize = 16;
/// Number of slots in the first block of a shard; each further block has twice as many.
const FIRST_BLOCK: usize = 8;
const FREE: u64 = 0;
const TAKEN: u64 = u64::MAX;

/// References, and the list of open transactions.
#[derive(Debug)]
pub(super) struct Opening {
    inner: Box<[CachePadded<Count>]>,
    list: Box<[ListShard]>,
}

/// A slot of the list: 32 bytes, so two slots share a line.
#[derive(Debug, Default)]
#[repr(C)]
struct Slot {
    txn: Bytes,
    begun: Bytes,
    origin: Bytes,
    reported: Bytes,
}

#[derive(Debug)]
struct ListShard {
    hint: CachePadded<Bytes>,
    pairs: Box<[CachePadded<[Slot; 2]>]>,
}

/// The place of an open transaction in the list.
#[derive(Debug)]
pub(super) struct Listed {
    shard: usize,
    slot: usize,
}

impl ListShard {
    fn slot(&self, slot: usize) -> Option<&Slot> {
        self.pairs.get(slot / 2).map(|pair| &pair[slot % 2])
    }

    fn take(&self, txn: u64) -> usize {
        let hint = self.hint.value() as usize;
        let took = |slot: &usize| self.slot(*slot).is_some_and(|slot| slot.take(txn));
        let taken = if took(&hint) { hint } else { self.search(hint, took) };
        self.hint.note(taken as u64 + 1);
        taken
    }

    /// Searches again if all slots were taken when the search came to them. There the engine adds a
    /// block.
    fn search(&self, hint: usize, took: impl Fn(&usize) -> bool) -> usize {
        let slots = self.pairs.len() * 2;
        loop {
            if let Some(slot) = (hint..slots).chain(0..hint.min(slots)).find(|slot| took(slot)) {
                return slot;
            }
        }
    }
}

impl Slot {
    fn take(&self, txn: u64) -> bool {
        if self.txn.value() != FREE || !self.txn.exchange(FREE, TAKEN) {
            return false;
        }
        self.begun.note(1);
        self.origin.note(1);
        self.txn.note(txn);
        true
    }

    fn read(&self) {
        [&self.txn, &self.begun, &self.origin, &self.txn].iter().for_each(|word| word.look());
    }
}

impl Opening {
    pub(super) fn new(threads: usize) -> Opening {
        // A search may miss a slot that is freed meanwhile, so there are more slots than threads.
        let wanted = threads.div_ceil(LIST_SHARDS) * 2;
        let mut slots = FIRST_BLOCK;
        while slots < wanted {
            slots = slots * 2 + FIRST_BLOCK;
        }
        let pair = || CachePadded::new(array::from_fn(|_| Slot::default()));
        let shard =
            |_| ListShard { hint: CachePadded::default(), pairs: (0..slots / 2).map(|_| pair()).collect() };
        Opening { inner: each(SHARDS), list: (0..LIST_SHARDS).map(shard).collect() }
    }

    /// Takes the transaction's reference to the database.
    pub(super) fn refer(&self, me: usize) {
        self.inner[me % SHARDS].take();
    }

    /// Gives back the transaction's reference to the database.
    pub(super) fn leave(&self, me: usize) {
        self.inner[me % SHARDS].give();
    }

    /// Adds a transaction to the list.
    pub(super) fn begins(&self, me: usize) -> Listed {
        let shard = me % LIST_SHARDS;
        Listed { shard, slot: self.list[shard].take(me as u64 + 1) }
    }

    /// Removes a transaction from the list.
    pub(super) fn ends(&self, Listed { shard, slot }: Listed) {
        let shard = &self.list[shard];
        if let Some(of) = shard.slot(slot) {
            of.read();
            of.txn.note(FREE);
        }
        shard.hint.note(slot as u64);
    }
}
