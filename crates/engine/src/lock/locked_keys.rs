//! The locked keys of one shard. This code does no I/O and runs inside the mutex of the shard.
//!
//! Most shards have at most one locked key, because a transaction of few keys spreads them over the
//! shards. The first key lies in the shard itself, so locking and releasing it takes one comparison
//! and allocates no memory. All other keys are in a map.
//!
//! Invariants:
//!
//! 1. A key is in `alone` or in `others`, not in both.
//! 2. The key in `alone` may be below, between or above the keys in `others`, so a visit of an
//!    interval looks at both.

use super::entry::Entry;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// A locked key. A key of at most 24 bytes lies inline.
type Key = SmallVec<[u8; 24]>;

/// The locked keys of one shard.
#[derive(Debug, Default)]
pub(super) struct LockedKeys {
    alone: Option<(Key, Entry)>,
    others: BTreeMap<Key, Entry>,
}

impl LockedKeys {
    /// Returns whether no key is locked.
    pub(super) fn is_empty(&self) -> bool {
        self.alone.is_none() && self.others.is_empty()
    }

    fn is_alone(&self, key: &[u8]) -> bool {
        self.alone.as_ref().is_some_and(|(alone, _)| alone.as_slice() == key)
    }

    /// Returns the lock of `key`, if there is one.
    #[inline]
    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        match &mut self.alone {
            Some((alone, entry)) if alone.as_slice() == key => Some(entry),
            _ if self.others.is_empty() => None,
            _ => self.others.get_mut(key),
        }
    }

    /// Adds the lock of `key`, which has no lock yet.
    #[inline]
    pub(super) fn insert(&mut self, key: &[u8], entry: Entry) {
        debug_assert!(self.get_mut(key).is_none());
        let key = Key::from_slice(key);
        if self.alone.is_none() {
            self.alone = Some((key, entry));
        } else {
            self.others.insert(key, entry);
        }
    }

    /// Removes the lock of `key`, if there is one.
    #[inline]
    pub(super) fn remove(&mut self, key: &[u8]) {
        if self.is_alone(key) {
            self.alone = None;
        } else {
            self.others.remove(key);
        }
    }

    /// The locks of the keys between the bounds, in no order.
    pub(super) fn between(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> impl Iterator<Item = &Entry> {
        let alone = self.alone.iter().filter(move |(key, _)| bounds.contains(key.as_slice()));
        let others = self.others.range::<[u8], _>(bounds);
        alone.map(|(_, entry)| entry).chain(others.map(|(_, entry)| entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TxnId;
    use crate::lock::mode::PointMode;

    /// Random keys come and go. So the key in `alone` is replaced while it is below, between and
    /// above the keys in `others`.
    #[test]
    fn keys_come_and_go_as_in_a_map() {
        let mut rng = fastrand::Rng::with_seed(11);
        let (mut keys, mut model) = (LockedKeys::default(), BTreeMap::new());
        for txn in 1..20_000_u64 {
            let key = [b'k', rng.u8(..6)];
            if model.remove(&key).is_some() {
                keys.remove(&key);
            } else {
                keys.insert(&key, Entry::held_by(TxnId::new(txn), PointMode::Exclusive));
                model.insert(key, TxnId::new(txn));
            }
            let probe = [b'k', rng.u8(..6)];
            assert_eq!(keys.get_mut(&probe).and_then(|entry| entry.writer()), model.get(&probe).copied());
            let (low, high) = ([b'k', rng.u8(..3)], [b'k', 3 + rng.u8(..4)]);
            let bounds = (Bound::Excluded(&low[..]), Bound::Included(&high[..]));
            let mut found: Vec<_> = keys.between(bounds).filter_map(Entry::writer).collect();
            let mut expected: Vec<_> = model
                .range((Bound::Excluded(low), Bound::Included(high)))
                .map(|(_, writer)| *writer)
                .collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(keys.is_empty(), model.is_empty());
        }
    }
}
