//! The list of the locks that one transaction holds. A request for a held lock is answered from
//! this list, and the end of the transaction releases the locks in the list.
//!
//! One thread at a time uses the list (the lock calls borrow it exclusively), so the list needs no
//! latch. The bytes of all keys lie in one buffer, and an index of hashes is made for more than
//! [`UNINDEXED`] keys. So most acquisitions allocate no memory here. Memory is bounded by the locks
//! held, and freed when a large transaction ends. An emptied list is reused by the next transaction
//! together with its lock spaces, so that the reference counts of the spaces do not change with
//! each transaction.

use super::OWN_AFTER;
use super::mode::PointMode;
use super::owner::Owner;
use super::range::{Interval, RangeId};
use super::resource::Resource;
use super::space::LockSpace;
use super::wait::Parker;
use crate::Lsn;
use crate::ids::TxnId;
use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Number of held points up to which comparing each of them is quicker than an index.
const UNINDEXED: usize = 8;
/// Maximum capacity, in elements, of each vector that is kept for the next transaction.
const KEPT: usize = 1024;
/// Maximum number of lock spaces that are kept for the next transaction.
const KEPT_SPACES: usize = 4;
const FREE: u32 = u32::MAX;

struct HeldSpace {
    space: Arc<LockSpace>,
    ranges: Vec<HeldRange>,
    /// True if an exclusive point of this space (a table's locks) is held.
    writes: bool,
    /// True if a key of this space was removed.
    removes: bool,
}

/// A granted range.
pub(super) struct HeldRange {
    pub(super) id: RangeId,
    pub(super) interval: Interval,
    /// The greatest dependency ([`super::LockGrant`]) with which a part of the range was granted.
    pub(super) depends_on: Lsn,
}

/// A held point.
#[derive(Clone, Copy)]
pub(super) struct HeldPoint {
    pub(super) hash: u64,
    key_at: usize,
    key_len: u32,
    /// Index of the key's space among the spaces of the transaction.
    pub(super) space: u32,
    pub(super) mode: PointMode,
}

/// The locks of one transaction.
///
/// The exclusive borrows of the lock calls ensure that one thread at a time uses a transaction; the
/// transaction may move to another thread. `Locks::release_all` must be called before the list is
/// dropped.
pub(crate) struct TxnLocks {
    id: TxnId,
    spaces: Vec<HeldSpace>,
    points: Vec<HeldPoint>,
    keys: Vec<u8>,
    /// A hash table with open addressing, of positions in `points`. Its length is a power of two
    /// and at most half of it is in use. The table is empty while at most [`UNINDEXED`] points are
    /// held.
    index: Vec<u32>,
    parker: Option<Arc<Parker>>,
    /// The transaction that uses this list, and the thread that used this transaction last. The
    /// next transaction of the list reuses this memory, like that of the vectors.
    owner: Option<Arc<CachePadded<Owner>>>,
    /// True if each wait checks at once whether the waiting thread was the last to use a
    /// transaction for which it waits. False if a wait first checks this after [`OWN_AFTER`].
    asks_at_once: bool,
}

impl TxnLocks {
    /// An empty list for transaction `id`. In a deadlock the transaction with the largest id, which
    /// is the youngest, is the victim.
    pub(crate) fn new(id: TxnId) -> Self {
        TxnLocks {
            id,
            spaces: Vec::new(),
            points: Vec::new(),
            keys: Vec::new(),
            index: Vec::new(),
            parker: None,
            owner: None,
            asks_at_once: false,
        }
    }

    /// The transaction that holds the locks.
    pub(crate) fn id(&self) -> TxnId {
        self.id
    }

    pub(super) fn begin(&mut self, enlist: impl FnOnce() -> Arc<CachePadded<Owner>>) {
        self.owner.get_or_insert_with(enlist).begin(self.id);
    }

    /// Notes that the calling thread uses the transaction.
    #[inline]
    pub(crate) fn used(&self) {
        if let Some(owner) = &self.owner {
            owner.used();
        }
    }

    /// Notes that the transaction has ended except for its locks. The thread that used the
    /// transaction last need not do anything for the release of these locks.
    pub(crate) fn disown(&self) {
        if let Some(owner) = &self.owner {
            owner.end();
        }
    }

    /// Makes each later wait check before it sleeps whether the waiting thread was the last to use
    /// a transaction for which it waits.
    pub(super) fn ask_at_once(&mut self) {
        self.asks_at_once = true;
    }

    /// Time after which a wait first checks whether the waiting thread was the last to use a
    /// transaction for which it waits.
    pub(super) fn asks_after(&self) -> Duration {
        if self.asks_at_once { Duration::ZERO } else { OWN_AFTER }
    }

    /// The held points in the order of acquisition, then the held ranges.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Resource, PointMode)> {
        let points = self.points.iter().map(|point| {
            let space = &self.spaces[point.space as usize].space;
            (space.resource(self.key(point)), point.mode)
        });
        let ranges = self.spaces.iter().flat_map(|held| {
            let table = held.space.table();
            held.ranges
                .iter()
                .map(move |range| (Resource::Range(table, range.interval.clone()), PointMode::Shared))
        });
        points.chain(ranges)
    }

    pub(super) fn parker(&mut self) -> Arc<Parker> {
        self.parker.get_or_insert_default().clone()
    }

    /// Returns the index of `space` in `spaces`, and adds `space` if it is new.
    pub(super) fn enter(&mut self, space: &Arc<LockSpace>) -> u32 {
        // The list is searched from the end, because a transaction mostly makes several calls on
        // one table in a row.
        let at = self.spaces.iter().rposition(|held| Arc::ptr_eq(&held.space, space)).unwrap_or_else(|| {
            self.spaces.push(HeldSpace {
                space: space.clone(),
                ranges: Vec::new(),
                writes: false,
                removes: false,
            });
            self.spaces.len() - 1
        });
        at as u32
    }

    pub(super) fn space(&self, at: u32) -> &Arc<LockSpace> {
        &self.spaces[at as usize].space
    }

    /// The spaces of the list, each with two flags: whether an exclusive point is held, and whether
    /// a range is held. Both flags are false for a space that is only kept from an earlier
    /// transaction.
    pub(super) fn spaces(&self) -> impl Iterator<Item = (&Arc<LockSpace>, bool, bool)> {
        self.spaces.iter().map(|held| (&held.space, held.writes, !held.ranges.is_empty()))
    }

    /// Notes that a locked key of `space` was removed.
    pub(crate) fn removed_from(&mut self, space: &Arc<LockSpace>) {
        let at = self.enter(space);
        self.spaces[at as usize].removes = true;
    }

    /// The spaces with a removed key.
    pub(super) fn spaces_removed_from(&self) -> impl Iterator<Item = &Arc<LockSpace>> {
        self.spaces.iter().filter(|held| held.removes).map(|held| &held.space)
    }

    pub(super) fn points(&self) -> &[HeldPoint] {
        &self.points
    }

    pub(super) fn key(&self, point: &HeldPoint) -> &[u8] {
        &self.keys[point.key_at..point.key_at + point.key_len as usize]
    }

    /// The index of a key in `points`, and the mode in which it is held.
    #[inline]
    pub(super) fn find(&self, space: u32, hash: u64, key: &[u8]) -> Option<(usize, PointMode)> {
        let is_it = |point: &HeldPoint| point.hash == hash && point.space == space && self.key(point) == key;
        let at = if self.index.is_empty() {
            self.points.iter().position(is_it)?
        } else {
            let mask = self.index.len() - 1;
            let mut slot = hash as usize & mask;
            loop {
                match self.index[slot] {
                    FREE => return None,
                    at if is_it(&self.points[at as usize]) => break at as usize,
                    _ => slot = (slot + 1) & mask,
                }
            }
        };
        Some((at, self.points[at].mode))
    }

    /// Adds a granted point. If the point was already held in a weaker mode, `known` is its index
    /// in `points`.
    #[inline]
    pub(super) fn note(&mut self, known: Option<usize>, space: u32, hash: u64, key: &[u8], mode: PointMode) {
        self.spaces[space as usize].writes |= mode == PointMode::Exclusive;
        if let Some(known) = known {
            self.points[known].mode = mode;
            return;
        }
        let (key_at, key_len) = (self.keys.len(), key.len() as u32);
        if key_at == 0 {
            // With 128 bytes, the buffer of a small transaction need not grow again.
            self.keys.reserve(key.len().max(128));
        }
        self.keys.extend_from_slice(key);
        self.points.push(HeldPoint { hash, key_at, key_len, space, mode });
        let points = self.points.len();
        if points * 2 > self.index.len() && points > UNINDEXED {
            self.index.clear();
            self.index.resize((points * 4).next_power_of_two(), FREE);
            (0..points).for_each(|at| self.index_point(at));
        } else if !self.index.is_empty() {
            self.index_point(points - 1);
        }
    }

    fn index_point(&mut self, at: usize) {
        let mask = self.index.len() - 1;
        let mut slot = self.points[at].hash as usize & mask;
        while self.index[slot] != FREE {
            slot = (slot + 1) & mask;
        }
        self.index[slot] = at as u32;
    }

    /// The granted ranges of a space.
    pub(super) fn ranges(&self, space: u32) -> &[HeldRange] {
        &self.spaces[space as usize].ranges
    }

    pub(super) fn ranges_mut(&mut self, space: u32) -> &mut Vec<HeldRange> {
        &mut self.spaces[space as usize].ranges
    }

    /// The held range that contains `key`, if there is one.
    pub(super) fn covering(&self, space: u32, key: &[u8]) -> Option<&HeldRange> {
        self.ranges(space).iter().find(|range| range.interval.contains(key))
    }

    /// Empties the list after the locks were released.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.disown();
        self.asks_at_once = false;
        if self.spaces.len() > KEPT_SPACES {
            self.spaces.clear();
        }
        for held in &mut self.spaces {
            held.ranges = Vec::new();
            held.writes = false;
            held.removes = false;
        }
        self.points.clear();
        self.keys.clear();
        self.index.clear();
        self.spaces.shrink_to(KEPT);
        self.points.shrink_to(KEPT);
        self.keys.shrink_to(KEPT);
        self.index.shrink_to(KEPT);
    }

    /// Reuses the emptied list for transaction `id`.
    pub(crate) fn reuse(&mut self, id: TxnId) {
        debug_assert!(self.points.is_empty(), "the transaction still holds locks");
        self.id = id;
    }
}

impl fmt::Debug for TxnLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {} holds", self.id)?;
        for (i, (on, mode)) in self.held().enumerate() {
            write!(f, "{} {mode:?} {on}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
