//! The records of a table by their keys, for lookups of one key: a hash table in shards.
//!
//! Whoever changes it holds the latch of the key's leaf exclusively (rank: below leaves, above chains), so both indexes hold the same keys
//! whenever that latch is free.

use super::super::record::Record;
use crossbeam_utils::CachePadded;
use parking_lot::RwLock;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

const SHARDS: usize = 64;

/// Takes a number that is a hash already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A key and its hash.
trait Hashed {
    fn hash(&self) -> u64;
    fn key(&self) -> &[u8];
}

struct Entry {
    /// Kept, so that growing touches no record.
    hash: u64,
    record: Arc<Record>,
}

impl Hashed for Entry {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn key(&self) -> &[u8] {
        &self.record.key
    }
}

struct Query<'k>(u64, &'k [u8]);

impl Hashed for Query<'_> {
    fn hash(&self) -> u64 {
        self.0
    }

    fn key(&self) -> &[u8] {
        self.1
    }
}

impl Hash for dyn Hashed + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(Hashed::hash(self));
    }
}

impl PartialEq for dyn Hashed + '_ {
    fn eq(&self, other: &Self) -> bool {
        Hashed::hash(self) == Hashed::hash(other) && self.key() == other.key()
    }
}

impl Eq for dyn Hashed + '_ {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.record.key == other.record.key
    }
}

impl Eq for Entry {}

impl<'e> Borrow<dyn Hashed + 'e> for Entry {
    fn borrow(&self) -> &(dyn Hashed + 'e) {
        self
    }
}

type Shard = RwLock<HashSet<Entry, BuildHasherDefault<AsIs>>>;

pub(super) struct Points {
    seed: u64,
    shards: Box<[CachePadded<Shard>]>,
}

impl Points {
    pub(super) fn new() -> Self {
        Points {
            seed: RandomState::new().hash_one(0u64),
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
        }
    }

    fn find_shard(&self, hash: u64) -> &Shard {
        // The table uses the lowest bits and the highest seven.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<Record>> {
        let hash = hash(self.seed, key);
        let shard = self.find_shard(hash).read();
        let query: &dyn Hashed = &Query(hash, key);
        shard.get(query).map(|entry| entry.record.clone())
    }

    pub(super) fn add(&self, record: Arc<Record>) {
        let hash = hash(self.seed, &record.key);
        let added = self.find_shard(hash).write().insert(Entry { hash, record });
        debug_assert!(added, "the ordered index knows no such key");
    }

    pub(super) fn remove(&self, key: &[u8]) {
        let hash = hash(self.seed, key);
        let query: &dyn Hashed = &Query(hash, key);
        self.find_shard(hash).write().remove(query);
    }
}

/// Multiplies sixteen bytes at a time into one number and folds it; seeded, so that nobody outside can choose keys that collide.
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
