//! The records of a table by their keys, for lookups of one key: a hash table in shards.
//!
//! A thread that changes the entry of a key holds the latch of the key's leaf exclusively, except
//! while recovery loads the table. So after recovery, whenever a leaf's latch is free, the hash
//! table and the leaf agree on the keys of the leaf's interval. (A thread takes the latch of a
//! shard after that of a leaf, and before that of a chain.) Entries are in an array with open
//! addressing, so a lookup misses the cache once in the array and once at the record.

use super::super::found::{Bytes, RecoveredVersion, loaded_bytes};
use super::super::record::Record;
use crate::ids::TableId;
use crate::latch::RwLock;
use crossbeam_utils::CachePadded;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

pub(super) const SHARDS: usize = 64;
const PLACES_MIN: usize = 16;

struct Entry {
    /// Hash of the record's key, kept here so that growing the array touches no record.
    hash: u64,
    record: Arc<Record>,
}

/// A hash table. The number of slots is a power of two, and at least a quarter of them are free. An
/// entry lies in the slot of its hash, or in a later slot with no free slot between.
#[derive(Default)]
struct Shard {
    places: Vec<Option<Entry>>,
    entries: usize,
}

impl Shard {
    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    /// Index of the key, or the index at which it would be inserted.
    fn find(&self, hash: u64, key: &[u8]) -> Result<usize, usize> {
        let mut at = hash as usize & self.mask();
        loop {
            match &self.places[at] {
                None => return Err(at),
                Some(entry) if entry.hash == hash && entry.record.key.as_slice() == key => return Ok(at),
                Some(_) => at = (at + 1) & self.mask(),
            }
        }
    }

    fn get(&self, hash: u64, key: &[u8]) -> Option<&Arc<Record>> {
        if self.entries == 0 {
            return None;
        }
        let at = self.find(hash, key).ok()?;
        self.places[at].as_ref().map(|entry| &entry.record)
    }

    fn add(&mut self, hash: u64, record: Arc<Record>) {
        self.make_room(1);
        let place = self.find(hash, &record.key);
        debug_assert!(place.is_err(), "the ordered index knows no such key");
        if let Err(at) = place {
            self.places[at] = Some(Entry { hash, record });
            self.entries += 1;
        }
    }

    fn make_room(&mut self, more: usize) {
        let wanted = self.entries + more;
        if wanted * 4 > self.places.len() * 3 {
            self.grow((wanted * 4).div_ceil(3).next_power_of_two().max(PLACES_MIN));
        }
    }

    fn grow(&mut self, length: usize) {
        let old = std::mem::take(&mut self.places);
        self.places.resize_with(length, || None);
        for entry in old.into_iter().flatten() {
            let mut at = entry.hash as usize & self.mask();
            while self.places[at].is_some() {
                at = (at + 1) & self.mask();
            }
            self.places[at] = Some(entry);
        }
    }

    /// Reads the slots of keys that are about to be looked up. The processor fetches these slots at
    /// the same time, whereas lookups would fetch them one after another.
    fn touch(&self, hashes: impl Iterator<Item = u64>) {
        let places = hashes.filter_map(|hash| self.places[hash as usize & self.mask()].as_ref());
        std::hint::black_box(places.fold(0, |all, entry| all ^ entry.hash));
    }

    fn load(
        &mut self,
        table: TableId,
        found: &RecoveredVersion<'_>,
        hash: u64,
        bytes: &mut Bytes,
    ) -> Option<&Arc<Record>> {
        let at = match self.find(hash, found.key) {
            Err(at) => {
                let record = Arc::new(Record::loaded(table, found));
                bytes.held += found.bytes();
                self.places[at] = Some(Entry { hash, record });
                self.entries += 1;
                at
            }
            Ok(at) => {
                let record = &self.places[at].as_ref()?.record;
                let replaced = record.chain().load(found.timestamp, found.value)?;
                bytes.held += found.bytes();
                bytes.freed += replaced.map_or(0, |old| loaded_bytes(found.key, old.value.as_deref()));
                at
            }
        };
        self.places[at].as_ref().map(|entry| &entry.record)
    }

    fn remove(&mut self, hash: u64, key: &[u8]) {
        if self.entries == 0 {
            return;
        }
        let Ok(mut hole) = self.find(hash, key) else { return };
        self.places[hole] = None;
        self.entries -= 1;
        // Moves back each entry that lies after the free slot only because that slot was taken.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask();
            let Some(entry) = &self.places[at] else { return };
            let from_its_own = at.wrapping_sub(entry.hash as usize) & self.mask();
            let from_the_hole = at.wrapping_sub(hole) & self.mask();
            if from_its_own >= from_the_hole {
                self.places[hole] = self.places[at].take();
                hole = at;
            }
        }
    }
}

pub(super) struct Points {
    seed: u64,
    shards: Box<[CachePadded<RwLock<Shard>>]>,
}

impl Points {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| CachePadded::default()).collect();
        Points { seed: RandomState::new().hash_one(0u64), shards }
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[shard_of(hash)]
    }

    pub(super) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().entries as u64).sum()
    }

    /// Hash of a key in this table.
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        hash(self.seed, key)
    }

    pub(super) fn get(&self, hash: u64, key: &[u8]) -> Option<Arc<Record>> {
        self.shard(hash).read().get(hash, key).cloned()
    }

    pub(super) fn add(&self, record: Arc<Record>) {
        let hash = hash(self.seed, &record.key);
        self.shard(hash).write().add(hash, record);
    }

    /// Loads versions that recovery has read, each if it is newer than the key's present version.
    /// Adds the charged and the freed bytes to `bytes`, and the deleted records to `deleted`. The
    /// versions are loaded shard by shard, so that each latch is taken once and cache misses
    /// overlap.
    pub(super) fn load(
        &self,
        table: TableId,
        found: &[RecoveredVersion<'_>],
        bytes: &mut Bytes,
        deleted: &mut Vec<Arc<Record>>,
    ) {
        let mut places: Vec<(u64, &RecoveredVersion<'_>)> =
            found.iter().map(|found| (hash(self.seed, found.key), found)).collect();
        let start = places.first().map(|(hash, _)| *hash);
        places.sort_unstable_by_key(|(hash, _)| shard_of(*hash));
        // Threads begin at different shards, so that they do not wait for each other at every
        // latch.
        let start = start.map_or(0, |hash| hash as usize % SHARDS);
        let (last, first) = places.split_at(places.partition_point(|(hash, _)| shard_of(*hash) < start));
        let same = |(left, _): &(u64, _), (right, _): &(u64, _)| shard_of(*left) == shard_of(*right);
        for group in first.chunk_by(same).chain(last.chunk_by(same)) {
            let mut shard = self.shards[shard_of(group[0].0)].write();
            shard.make_room(group.len());
            shard.touch(group.iter().map(|(hash, _)| *hash));
            for (hash, found) in group {
                let record = shard.load(table, found, *hash, bytes);
                if found.value.is_none() {
                    deleted.extend(record.cloned());
                }
            }
        }
    }

    /// Visits all records of a shard, in no particular order.
    pub(super) fn for_each(&self, shard: usize, mut visit: impl FnMut(&Arc<Record>)) {
        let shard = self.shards[shard].read();
        shard.places.iter().flatten().for_each(|entry| visit(&entry.record));
    }

    pub(super) fn remove(&self, key: &[u8]) {
        let hash = hash(self.seed, key);
        self.shard(hash).write().remove(hash, key);
    }
}

/// The shard of a hash. High bits choose the shard, because the lowest bits choose the slot in it.
fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// Hashes a key by folded multiplications of eight bytes at a time. The hash is seeded, so that no
/// program can choose keys that collide.
fn hash(seed: u64, key: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    };
    let mut state = seed ^ (key.len() as u64).wrapping_mul(MIX);
    let mut pieces = key.chunks_exact(8);
    for piece in &mut pieces {
        let word = piece.try_into().map_or(0, u64::from_le_bytes);
        state = fold(state ^ word, MIX ^ seed.rotate_left(17));
    }
    let mut last = [0; 8];
    last[..pieces.remainder().len()].copy_from_slice(pieces.remainder());
    fold(state ^ u64::from_le_bytes(last), MIX)
}

#[cfg(test)]
mod tests {
    use super::super::super::record::Key;
    use super::*;
    use crate::ids::TableId;
    use katydid_kernels::txn::Timestamp;
    use std::collections::BTreeMap;

    #[test]
    fn a_shard_finds_what_it_holds_though_hashes_collide() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut shard = Shard::default();
        let mut there = BTreeMap::new();
        for _ in 0..20_000 {
            let number = random.u64(0..200);
            let hash = number % 37 * 3;
            let key = number.to_be_bytes();
            match there.remove(&number) {
                Some(()) => shard.remove(hash, &key),
                None => {
                    let record = Record::new(TableId::new(1), Key::from_slice(&key), Timestamp::ZERO);
                    shard.add(hash, Arc::new(record));
                    there.insert(number, ());
                }
            }
            let number = random.u64(0..200);
            let found = shard.get(number % 37 * 3, &number.to_be_bytes());
            assert_eq!(found.is_some(), there.contains_key(&number));
            assert!(found.is_none_or(|record| record.key.as_slice() == number.to_be_bytes()));
        }
        assert_eq!(shard.entries, there.len());
    }
}
