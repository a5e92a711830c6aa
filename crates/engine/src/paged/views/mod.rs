//! Read views. A transaction that only reads sees the transactions that had committed when it
//! began. It takes no locks, and neither waits for writers nor makes them wait (docs/adr/0038).
//!
//! Modules: `images` (what a writing transaction keeps for views), `versions` (published images, by
//! table and key), `view` (reading), `unshown` (commits that wait for the log). This file has the
//! open views, the images that they need, and the order of commits for views.
//!
//! Runs on any thread. Latches, in their order: the list of waiting commits (`unshown`), `all`, a
//! transaction's images, `registry`, a table's map. A thread that holds a leaf's latch may take all
//! of these latches except the first. Invariants:
//!
//! 1. For views, a transaction commits at the instant at which it reads `clock`, with its images
//!    latched and all its locks held. A view opens at the instant at which it raises `clock`; its
//!    stamp is the value before the raise. The view sees the transactions that have read its stamp
//!    or a lower value. A transaction that comes after another one in the order of locks reads no
//!    lower value than the earlier one. So a view sees a prefix of that order.
//! 2. A thread that opens a view visits all transactions with images, and publishes the images that
//!    they have kept. For each of them, the thread waits no longer than for a latch. A transaction
//!    that keeps images later finds the view registered, and publishes these images itself.
//! 3. An image of a committed transaction is in the list (`committed`) of the newest view that
//!    needs it. When that view closes, the image moves to the newest older view that needs it, or
//!    is removed. So no image survives the last view that needs it.
//! 4. Images take at most `bytes_max`, plus the images that are kept while others are being
//!    removed. If the images exceed this limit, the oldest view is given up first. When no view is
//!    left, the transaction whose images do not fit stops keeping any.
//!
//! A crash ends all views.

mod images;
#[cfg(test)]
mod tests;
mod unshown;
mod versions;
mod view;

pub(crate) use images::TxnImages;
pub(crate) use unshown::Unshown;
pub(crate) use versions::Versions;
pub(crate) use view::View;

use crate::Lsn;
use crate::latch::{Mutex, RwLock};
use crate::paged::page::Value;
use crate::paged::tree::Chain;
use crate::pause::{self, PausePoint};
use crate::stat::OldestView;
use images::{Forgotten, ImageState, KeyPlace, Phase, Settled};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use versions::{Before, Outcome, Stamp};
use view::Shared;

/// Number of images that are removed or moved to another view while the registry is latched once.
const CHUNK: usize = 256;
/// Number of images that a writer removes for each image that it keeps, while the images take too
/// many bytes. It removes images of views that are given up.
const REMOVED_PER_KEPT: usize = 64;
/// Bytes by which a transaction's own images grow before they are counted again.
const CHARGE: usize = 64 << 10;

/// Images of one committed transaction.
#[derive(Debug)]
struct CommittedImages {
    writer: Arc<Outcome>,
    places: Vec<KeyPlace>,
}

/// An open view.
#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    shared: Arc<Shared>,
    opened: Instant,
    /// Images of committed transactions that this view needs (invariant 3).
    committed: Vec<CommittedImages>,
}

#[derive(Debug, Default)]
struct Registry {
    /// Open views by their stamps, the oldest first.
    open: VecDeque<Entry>,
    /// Images that were needed by views that are given up.
    dead: Vec<CommittedImages>,
    given_up: u64,
}

/// The open views, and the images that they may need.
#[derive(Debug)]
pub(crate) struct Views {
    /// The stamp of transactions that commit now. Each view that opens raises it. SeqCst: see
    /// `open`.
    clock: AtomicU64,
    /// Number of open views. `newest` is the stamp of the newest one. Threads store `count` and
    /// `newest` under `registry`, and writers load them; all accesses are SeqCst.
    count: AtomicUsize,
    newest: AtomicU64,
    registry: Mutex<Registry>,
    /// The images of all transactions, present and past.
    all: RwLock<Vec<Arc<TxnImages>>>,
    /// Members of `all` that no writer has.
    idle: Mutex<Vec<Arc<TxnImages>>>,
    /// Bytes of all images. Images that are not published are counted in steps. Relaxed, because it
    /// is only compared with a limit and orders nothing. The sum is below zero for a moment if an
    /// image is removed before its growth is counted.
    bytes: AtomicI64,
    bytes_max: u64,
}

/// Numbers about views, for `stat`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewsStat {
    pub(crate) open: u64,
    pub(crate) given_up: u64,
    pub(crate) bytes: u64,
    pub(crate) oldest: Option<OldestView>,
}

impl Views {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Views {
            clock: AtomicU64::new(1),
            count: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
            registry: Mutex::default(),
            all: RwLock::default(),
            idle: Mutex::default(),
            bytes: AtomicI64::new(0),
            bytes_max,
        }
    }

    // ---- writers

    /// Takes a `TxnImages` that no transaction uses, or makes one.
    pub(crate) fn take_images(&self) -> Arc<TxnImages> {
        if let Some(images) = self.idle.lock().pop() {
            return images;
        }
        let images = Arc::new(TxnImages::default());
        self.all.write().push(images.clone());
        images
    }

    /// Gives back a `TxnImages` that no transaction uses any more.
    pub(crate) fn give_images(&self, images: Arc<TxnImages>) {
        self.idle.lock().push(images);
    }

    /// Keeps the value of a key before a change. The caller holds the key's exclusive lock and the
    /// latch of its leaf, and has not changed the leaf yet.
    pub(crate) fn keep(
        &self,
        images: &TxnImages,
        versions: &Arc<Versions>,
        key: &[u8],
        before: Option<Value<'_>>,
    ) {
        let mut kept = images.kept.lock();
        if !images.is_in_use() {
            images.begin(&mut kept);
        }
        if let Some(forgotten) = &kept.forgotten {
            let mut tables = forgotten.lock();
            if !tables.contains(&versions.table) {
                tables.push(versions.table);
            }
            return;
        }
        images.remember(&mut kept, versions, key, before);
        if self.count.load(Ordering::SeqCst) != 0 {
            self.publish(&mut kept);
        }
        let private = kept.private_bytes();
        if private >= kept.charged + CHARGE {
            self.charge(private - kept.charged);
            kept.charged = private;
        }
        if self.bytes() > self.bytes_max {
            self.make_room(Some(&mut kept));
        }
    }

    fn publish(&self, kept: &mut ImageState) {
        let published = kept.publish(Stamp(self.newest.load(Ordering::SeqCst)));
        self.charge(published);
    }

    /// Commits a transaction, for views (invariant 1). The transaction holds all its locks, and its
    /// commit record ends at `end`.
    pub(crate) fn committed(&self, images: &TxnImages, end: Lsn) {
        if !images.is_in_use() {
            return;
        }
        let mut kept = images.kept.lock();
        let stamp = Stamp(self.clock.load(Ordering::SeqCst));
        pause::at(PausePoint::Stamped);
        images.commit(&mut kept, stamp, end);
        // If this load of `count` misses a view, that view has the stamp loaded above or a higher
        // one. So the view sees the transaction.
        if self.count.load(Ordering::SeqCst) != 0 {
            self.publish(&mut kept);
        }
        if let Some(tables) = &kept.forgotten {
            self.registry.lock().add_forgotten(stamp, tables);
        }
        if images.has_long() && self.count.load(Ordering::SeqCst) == 0 {
            // No view will need the long values.
            drop(images.take_long(&mut kept));
        }
        let published = kept.take_published();
        self.uncharge(&mut kept);
        drop(kept);
        if let Some((writer, places)) = published {
            self.settle_in(stamp, vec![CommittedImages { writer, places }]);
        }
    }

    /// Commits a bulk load, for views. The load has the table's exclusive lock, and the table's
    /// tree already has the load's keys.
    pub(crate) fn loaded(&self, versions: &Versions) {
        versions.end_load(|| Stamp(self.clock.load(Ordering::SeqCst)));
    }

    /// Puts each image into the list of the newest view below `stamp` that needs it, and removes
    /// the images that no view needs.
    fn settle_in(&self, stamp: Stamp, mut committed: Vec<CommittedImages>) {
        while !committed.is_empty() {
            let mut registry = self.registry.lock();
            for home in take_chunk(&mut committed, CHUNK) {
                let freed = registry.settle_in(stamp, home);
                self.free(freed);
            }
        }
    }

    /// Reads the long values among the images, before their pages are freed.
    pub(crate) fn settle_long(&self, images: &TxnImages, read: impl Fn(&Versions, Chain) -> Option<Vec<u8>>) {
        if !images.has_long() {
            return;
        }
        let long = images.take_long(&mut images.kept.lock());
        // Pages are read with no latch held, so that a view that opens does not wait for the
        // device.
        let settled: Vec<Settled> = long
            .into_iter()
            .map(|(place, chain)| {
                let bytes = read(&place.versions, chain);
                let before = bytes.map_or(Before::Lost, |bytes| Before::Bytes(bytes.into()));
                Settled { place, chain, before }
            })
            .collect();
        let grown = images.kept.lock().settle(settled);
        self.charge(grown);
        if self.bytes() > self.bytes_max {
            self.make_room(None);
        }
    }

    /// Ends the images of a transaction that has released its locks, or whose changes are undone.
    pub(crate) fn ended(&self, images: &TxnImages) {
        if images.is_committed() {
            // No latch is taken, because each transaction would pay for it.
            images.end();
            return;
        }
        if !images.is_in_use() {
            return;
        }
        let published = {
            let mut kept = images.kept.lock();
            let published = kept.take_published();
            self.uncharge(&mut kept);
            kept.reset();
            images.end();
            published
        };
        // The pages have the values of the images again.
        if let Some((writer, places)) = published {
            let freed = places.iter().map(|place| place.versions.remove(&place.key, &writer)).sum();
            self.free(freed);
        }
    }

    fn uncharge(&self, kept: &mut ImageState) {
        self.free(std::mem::take(&mut kept.charged));
    }

    fn charge(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_add(bytes as i64, Ordering::Relaxed);
        }
    }

    fn free(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes as i64, Ordering::Relaxed);
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Makes room for images (invariant 4). First removes images of views that are given up. If
    /// none of these is left and there are still too many bytes, gives up the oldest view. If there
    /// is no view either, makes the writer of `kept` stop keeping images.
    #[cold]
    fn make_room(&self, kept: Option<&mut ImageState>) {
        let mut registry = self.registry.lock();
        let freed = registry.remove_dead(REMOVED_PER_KEPT);
        self.free(freed);
        let bytes = self.bytes();
        if bytes <= self.bytes_max || !registry.dead.is_empty() {
            return;
        }
        if let Some(oldest) = registry.open.pop_front() {
            // The flag is set before any image is removed, so that a reader that misses an image
            // finds it set.
            oldest.shared.give_up(bytes);
            registry.given_up += 1;
            registry.dead = oldest.committed;
            self.count_views(&registry);
        } else if let Some(kept) = kept {
            let freed = kept.forget();
            self.free(freed);
            self.uncharge(kept);
        }
    }

    fn count_views(&self, registry: &Registry) {
        let newest = registry.open.back().map_or(0, |entry| entry.stamp.0);
        self.newest.store(newest, Ordering::SeqCst);
        self.count.store(registry.open.len(), Ordering::SeqCst);
    }

    // ---- views

    /// Opens a view of the transactions that have committed. `reserved` returns the end of the log,
    /// and is called after the view has its stamp and has visited all transactions.
    ///
    /// A view sees a transaction T whole or not at all. T reads `clock` and stores its outcome with
    /// its images latched. If the loop below visits T after this store, every read of the view
    /// comes after the store. If the loop visits T before T reads `clock`, T reads a stamp above
    /// the view's, because the view has raised `clock` already. Then the view never sees T. If the
    /// loop does not visit T, T's `state` was `ENDED` after `clock` was raised. Then T had ended,
    /// or T keeps its first image later and reads a higher stamp. If T has stopped keeping images,
    /// reads a higher stamp, and commits before the visit, T's commit gives the view the ids of T's
    /// tables.
    pub(crate) fn open(&self, reserved: impl FnOnce() -> Lsn) -> View {
        let shared = Arc::new(Shared::default());
        let stamp = {
            let mut registry = self.registry.lock();
            // `clock` is raised only with the registry latched.
            let stamp = Stamp(self.clock.load(Ordering::SeqCst));
            let (opened, committed) = (Instant::now(), Vec::new());
            registry.open.push_back(Entry { stamp, shared: shared.clone(), opened, committed });
            // A transaction that reads a higher stamp finds the view in this count. From the view's
            // stamp the transaction knows which images the view needs.
            self.count_views(&registry);
            pause::at(PausePoint::Stamped);
            self.clock.store(stamp.0 + 1, Ordering::SeqCst);
            pause::at(PausePoint::Stamped);
            stamp
        };
        let mut view = View::new(stamp, shared);
        for images in self.all.read().iter().filter(|images| images.is_in_use()) {
            let mut kept = images.kept.lock();
            match kept.phase {
                Phase::Active => {
                    self.publish(&mut kept);
                    view.forgotten.extend(kept.forgotten.clone());
                }
                // The view itself remembers this dependency: the lock table has only the
                // dependencies on transactions that have released their locks, and this one may
                // still hold its locks.
                Phase::Committed { stamp: of, end } if of <= stamp => view.depends = view.depends.max(end),
                Phase::Committed { .. } => {}
            }
        }
        view.take_forgotten();
        view.limit = reserved();
        view
    }

    /// Closes a view, and removes the images that no other view needs.
    pub(crate) fn close(&self, view: View) {
        let committed = {
            let mut registry = self.registry.lock();
            match registry.open.binary_search_by_key(&view.stamp, |entry| entry.stamp) {
                Ok(at) => {
                    let entry = registry.open.remove(at);
                    self.count_views(&registry);
                    entry.map_or_else(Vec::new, |entry| entry.committed)
                }
                // The view was given up.
                Err(_) => std::mem::take(&mut registry.dead),
            }
        };
        self.settle_in(view.stamp, committed);
    }

    /// Maximum bytes of images.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the number and age of open views, and the bytes that are kept for them.
    pub(crate) fn stat(&self) -> ViewsStat {
        let registry = self.registry.lock();
        ViewsStat {
            open: registry.open.len() as u64,
            given_up: registry.given_up,
            bytes: self.bytes(),
            oldest: registry.open.front().map(|entry| OldestView { age: entry.opened.elapsed() }),
        }
    }
}

impl Registry {
    /// Tells the views below `stamp` which tables the transaction with this stamp has changed
    /// without keeping images. A view whose opening visited the transaction knows these tables
    /// already.
    fn add_forgotten(&self, stamp: Stamp, tables: &Forgotten) {
        for entry in self.open.iter().take_while(|entry| entry.stamp < stamp) {
            entry.shared.add_forgotten(tables.clone());
        }
    }

    /// Puts the images that the newest view below `stamp` needs into that view's list, and removes
    /// the other images. Returns the bytes that were freed.
    fn settle_in(&mut self, stamp: Stamp, mut home: CommittedImages) -> usize {
        let below = self.open.partition_point(|entry| entry.stamp < stamp);
        let entry = below.checked_sub(1).and_then(|at| self.open.get_mut(at));
        let needed = entry.as_ref().map(|entry| entry.stamp);
        let mut freed = 0;
        home.places.retain(|place| {
            let removed = place.versions.remove_unless_needed(&place.key, &home.writer, needed);
            freed += removed.unwrap_or(0);
            removed.is_none()
        });
        if let Some(entry) = entry
            && !home.places.is_empty()
        {
            entry.committed.push(home);
        }
        freed
    }

    /// Removes up to `most` images of views that are given up. Returns the bytes that were freed.
    fn remove_dead(&mut self, most: usize) -> usize {
        let mut freed = 0;
        for home in take_chunk(&mut self.dead, most) {
            freed += home
                .places
                .iter()
                .map(|place| place.versions.remove(&place.key, &home.writer))
                .sum::<usize>();
        }
        freed
    }
}

/// Takes lists from the end, with at most `most` images in all.
fn take_chunk(committed: &mut Vec<CommittedImages>, most: usize) -> Vec<CommittedImages> {
    let (mut chunk, mut left) = (Vec::new(), most);
    while left > 0
        && let Some(mut home) = committed.pop()
    {
        if home.places.len() > left {
            let places = home.places.split_off(home.places.len() - left);
            chunk.push(CommittedImages { writer: home.writer.clone(), places });
            committed.push(home);
            return chunk;
        }
        left -= home.places.len();
        chunk.push(home);
    }
    chunk
}
