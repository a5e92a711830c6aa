//! Shortcuts to the leaf of a key, which skip the inner pages.
//!
//! A table has one hint for each shard of threads: the leaf that a thread of the shard changed last
//! (`hint`). The table also has one map from keys to leaves (`routes`). Each shard has its own
//! reference to the map, so threads of different shards write no common word when they go to
//! different leaves.
//!
//! Why a stale shortcut does no harm: the page is taken only if, with its latch held, it is a leaf
//! of this table whose fences are around the key. A page of the table's tree that passes this check
//! is the leaf of the key, because the fences of a tree's leaves do not overlap. A page that has
//! left the tree does not pass: a merge formats it as a free page under its latch. A page that is
//! used again is a page of another table, an inner page, a piece of a long value, or a leaf with
//! the fences of its new keys. A page that is not in memory, or whose latch is held, is left to the
//! descent.
//!
//! Two changes free leaves that keep their bytes, and so still look like leaves of the table:
//!
//! 1. The drop of a table. A thread finds out about the drop in the same way as after a descent,
//!    which reads such pages, too (`PagedTable::dropped`). Table ids are never reused.
//! 2. A bulk load. It makes a second tree of the same table, exchanges the two trees, and frees the
//!    leaves of the former one; a load that is given up frees the leaves of its own tree. So no
//!    shortcut that was made before the end of a load is used after the load's begin. `loads`
//!    counts the begins and ends of loads. A map is made while the count is even. A thread uses the
//!    map only if the count, read with the leaf's latch held, equals the count from before the map
//!    was made. A load raises the count before it changes its first page. So a thread that finds a
//!    change of the load in a page also finds another count. Hints need no count: only writers use
//!    them, and a load has the table's exclusive lock. The begin of a load clears the hints.
//!
//! A thread that descends although there are shortcuts counts the descent. The thread whose count
//! reaches the limit makes a new map. The limit is the number of leaves of the last map, so making
//! maps costs each descent as much as one entry of a map.
//!
//! A crash loses the shortcuts.

use super::descend::{InMemory, Target, is_node};
use super::handle::Tree;
use super::hint::LeafHint;
use super::routes::RouteMap;
use crate::Result;
use crate::latch::Mutex;
use crate::paged::page::{LeafRef, PageId};
use crate::paged::pool::{PageRead, PageWrite, Pool};
use crate::shard::{SHARDS, shard_of_thread};
use crossbeam_utils::CachePadded;
use parking_lot::RwLock;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of descents that a shard counts for itself before it adds them to the table's count.
const BATCH: u64 = if cfg!(any(test, debug_assertions)) { 4 } else { 64 };
/// Least number of descents between two maps.
const DESCENTS_MIN: u64 = if cfg!(any(test, debug_assertions)) { 16 } else { 1024 };
/// Number of descents between two attempts to make a map, if the last attempt made none, for
/// example because the map would be too large.
const DESCENTS_WITHOUT_MAP: u64 = if cfg!(any(test, debug_assertions)) { 64 } else { 1 << 18 };

/// A map, and the number of begins and ends of loads when it was made.
#[derive(Debug)]
struct Routes {
    map: RouteMap,
    loads: u64,
}

/// The shortcuts of one shard of threads.
#[derive(Debug, Default)]
struct Shard {
    hint: LeafHint,
    /// A reader does not wait for this latch: while a new map is being set, it descends.
    routes: RwLock<Option<Arc<Routes>>>,
    /// Descents that are not in the table's count yet. Relaxed loads and stores: a count may be
    /// lost.
    descents: AtomicU64,
}

impl Shard {
    /// Returns the page to which the map leads, and the map's number of begins and ends of loads.
    #[inline]
    fn route(&self, key: &[u8]) -> Option<(PageId, u64)> {
        let routes = self.routes.try_read()?;
        let routes = routes.as_ref()?;
        Some((routes.map.leaf_of(key), routes.loads))
    }
}

/// The shortcuts of one table.
pub(crate) struct Shortcuts {
    shards: Box<[CachePadded<Shard>]>,
    /// Descents since the last map was made. When they reach `limit`, the next map is made. Both
    /// numbers are Relaxed, because they order nothing.
    descents: AtomicU64,
    limit: AtomicU64,
    /// Number of begins and ends of bulk loads. Raised (AcqRel) with the table's exclusive lock
    /// held; loaded (Acquire) by threads that have latched a page, or are about to make a map.
    loads: AtomicU64,
    /// Held by the thread that makes a map. No thread waits for it.
    making: Mutex<()>,
}

impl Shortcuts {
    pub(crate) fn new() -> Self {
        Shortcuts {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            descents: AtomicU64::new(0),
            limit: AtomicU64::new(DESCENTS_MIN),
            loads: AtomicU64::new(0),
            making: Mutex::new(()),
        }
    }

    #[inline]
    fn mine(&self) -> &Shard {
        &self.shards[shard_of_thread()]
    }

    /// Begins a load: until [`Shortcuts::end_load`], no thread uses a map, and no earlier shortcut
    /// is ever used again. The caller has the table's exclusive lock, and none of the load's pages
    /// exists yet.
    pub(crate) fn begin_load(&self) {
        self.loads.fetch_add(1, Ordering::AcqRel);
        self.shards.iter().for_each(|shard| shard.hint.clear());
    }

    /// Ends a load. The caller still has the table's exclusive lock, and has exchanged the trees or
    /// will not do so any more.
    pub(crate) fn end_load(&self) {
        self.loads.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the leaf to which the map leads, if `latch` returns the page and it is the leaf of
    /// `key`.
    #[inline]
    pub(super) fn routed<P: Deref<Target = [u8]>>(
        &self,
        tree: &Tree,
        key: &[u8],
        latch: impl FnOnce(PageId) -> Option<P>,
    ) -> Option<P> {
        let (page, loads) = self.mine().route(key)?;
        let page = latch(page)?;
        (is_leaf_of(&page, tree, key) && self.loads.load(Ordering::Acquire) == loads).then_some(page)
    }

    /// Counts a descent that the calling thread is about to make, and makes a new map if it is
    /// time. The thread holds no page's latch.
    #[inline]
    fn count(&self, tree: Tree, pool: &Pool) {
        let mine = self.mine();
        let descents = mine.descents.load(Ordering::Relaxed) + 1;
        mine.descents.store(descents % BATCH, Ordering::Relaxed);
        if descents >= BATCH {
            let all = self.descents.fetch_add(BATCH, Ordering::Relaxed) + BATCH;
            if all >= self.limit.load(Ordering::Relaxed) {
                self.renew(|| RouteMap::read(tree, pool));
            }
        }
    }

    /// Makes a new map from what `read` returns. Does nothing if another thread is making or has
    /// just made a map, or if a load is running.
    #[cold]
    pub(super) fn renew(&self, read: impl FnOnce() -> Result<Option<RouteMap>>) {
        let Some(_making) = self.making.try_lock() else { return };
        if self.descents.swap(0, Ordering::Relaxed) < self.limit.load(Ordering::Relaxed) {
            return;
        }
        // A load that begins while the pages are read makes the map useless, not wrong, because
        // `loads` was read before the pages.
        let loads = self.loads.load(Ordering::Acquire);
        if loads % 2 == 1 {
            return;
        }
        // If a page cannot be read, the next descent through that page returns the error.
        let map = read().ok().flatten();
        let limit = match &map {
            Some(map) => DESCENTS_MIN.max(map.len() as u64),
            None => DESCENTS_WITHOUT_MAP,
        };
        self.limit.store(limit, Ordering::Relaxed);
        let routes = map.map(|map| Arc::new(Routes { map, loads }));
        for shard in &self.shards {
            *shard.routes.write() = routes.clone();
        }
    }
}

#[cfg(test)]
impl Shortcuts {
    /// Makes the next call of [`Shortcuts::renew`] make a map.
    pub(super) fn renew_next(&self) {
        self.descents.store(self.limit.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the leaf that the calling thread's hint names.
    pub(super) fn hinted(&self) -> Option<PageId> {
        self.mine().hint.get()
    }
}

impl fmt::Debug for Shortcuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shortcuts")
    }
}

/// Returns whether a latched page is the leaf of `key` in `tree`, or in another tree of its table.
#[inline]
fn is_leaf_of(page: &[u8], tree: &Tree, key: &[u8]) -> bool {
    is_node(page, tree.table, 0) && LeafRef::new(page).covers(key)
}

impl Tree {
    /// Returns the leaf of `key`, latched shared. The map's page is taken if it is that leaf;
    /// otherwise the thread descends from the root. The caller must hold no page's latch.
    #[inline]
    pub(crate) fn leaf_by_route(&self, pool: &Pool, shortcuts: &Shortcuts, key: &[u8]) -> Result<PageRead> {
        if let Some(page) = shortcuts.routed(self, key, |page| pool.try_read(page)) {
            return Ok(page);
        }
        shortcuts.count(*self, pool);
        self.leaf_for_read(pool, Target::Key(key))
    }

    /// Returns the leaf of `key` like [`Tree::leaf_by_route`], if it is in memory.
    pub(crate) fn leaf_in_memory_by_route(
        &self,
        pool: &Pool,
        shortcuts: &Shortcuts,
        key: &[u8],
    ) -> Result<InMemory<PageRead>> {
        if let Some(page) = shortcuts.routed(self, key, |page| pool.try_read(page)) {
            return Ok(InMemory::Found(page));
        }
        shortcuts.count(*self, pool);
        self.leaf_in_memory(pool, key)
    }

    /// Returns the leaf of `key`, latched exclusively. The hint's page or the map's page is taken
    /// if it is that leaf; otherwise the thread descends from the root. The caller must hold no
    /// page's latch.
    #[inline]
    pub(super) fn leaf_by_shortcut(
        &self,
        pool: &Pool,
        shortcuts: Option<&Shortcuts>,
        key: &[u8],
    ) -> Result<PageWrite> {
        let Some(shortcuts) = shortcuts else { return self.leaf_for_write(pool, key) };
        let hint = &shortcuts.mine().hint;
        if let Some(page) = hint.get().and_then(|page| pool.try_write(page))
            && is_leaf_of(&page, self, key)
        {
            return Ok(page);
        }
        let page = match shortcuts.routed(self, key, |page| pool.try_write(page)) {
            Some(page) => page,
            None => {
                shortcuts.count(*self, pool);
                self.leaf_for_write(pool, key)?
            }
        };
        hint.note(page.id());
        Ok(page)
    }
}
