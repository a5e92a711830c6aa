//! Read views. A transaction that only reads sees the transactions that had committed when it
//! began. It takes no locks, and neither waits for writers nor makes them wait (docs/adr/0038).
//!
//! Modules: `images` (what a writing transaction keeps for views), `versions` (published images, by
//! table and key), `slots` (where open views are noted), `view` (reading), `unshown` (commits that
//! wait for the log). This file has the order of commits for views, and the images that open views
//! need.
//!
//! Runs on any thread. Latches, in their order: the list of waiting commits (`unshown`), `all`, a
//! transaction's images, `dead`, the slots outside of the shards, the lists of a slot, a table's
//! map. A thread holds neither the lists of a slot nor those slots while it takes the latch of a
//! map. A thread that holds a leaf's latch may take all of these latches except the first.
//! Invariants:
//!
//! 1. For views, a transaction commits at the instant at which it reads `clock`, with its images
//!    latched and all its locks held. A view's stamp is below `clock`: a thread that opens a view
//!    raises `clock` if a commit has read it. The view sees the transactions that have read its
//!    stamp or a lower value. A transaction that comes after another one in the order of locks
//!    reads no lower value than the earlier one. So a view sees a prefix of that order.
//! 2. A transaction that keeps an image finds the view in its slot, and publishes the image itself,
//!    unless it has kept the image before the view got its stamp. Such a transaction still holds
//!    the key's exclusive lock, or has ended. So a view visits all transactions with images before
//!    it reads a key that is locked exclusively, or a range. It publishes the images that they have
//!    kept. For each of them, it waits no longer than for a latch. A transaction that keeps no
//!    images gives the view the ids of its tables in the same cases.
//! 3. An image of a committed transaction is in the list of a view that needs it, the newest one.
//!    When that view closes, the image moves to the newest other view that needs it, or is removed.
//!    So no image survives the last view that needs it. The images of views that are given up are
//!    in `dead` until they are moved or removed.
//! 4. Images take at most `bytes_max`, plus the images that are kept while others are being
//!    removed. If the images exceed this limit, the oldest views are given up first: those with the
//!    lowest stamp. When no view is left, the transaction whose images do not fit stops keeping
//!    any.
//!
//! A crash ends all views.

mod images;
mod slots;
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
use crate::latch::{Mutex, ShardedLock, ShardedLockReadGuard};
use crate::paged::page::Value;
use crate::paged::tree::Chain;
use crate::pause::{self, PausePoint};
use crate::stat::OldestView;
use images::{ImageState, KeyPlace, Phase, Settled};
use slots::Slots;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use versions::{Before, Outcome, Stamp};

/// Number of images that a writer removes for each image that it keeps, while the images take too
/// many bytes. It removes images of views that are given up.
const REMOVED_PER_KEPT: usize = 64;
/// The first stamp of a commit. A view that opens before it has the stamp below, which is not zero.
const FIRST_STAMP: u64 = 2;
/// Bytes by which a transaction's own images grow before they are counted again.
const CHARGE: usize = 64 << 10;

/// Images of one committed transaction.
#[derive(Debug)]
struct CommittedImages {
    stamp: Stamp,
    writer: Arc<Outcome>,
    places: Vec<KeyPlace>,
}

/// Images of views that were given up.
#[derive(Debug, Default)]
struct Dead {
    images: Vec<CommittedImages>,
    given_up: u64,
}

/// The open views, and the images that they may need.
#[derive(Debug)]
pub(crate) struct Views {
    /// The stamp of transactions that commit now. SeqCst, like `read`: see `open`.
    clock: AtomicU64,
    /// The greatest stamp of a commit. A view that finds it below `clock` need not raise `clock`.
    read: AtomicU64,
    slots: Slots,
    dead: Mutex<Dead>,
    /// The images of all transactions, present and past.
    all: ShardedLock<Vec<Arc<TxnImages>>>,
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
            clock: AtomicU64::new(FIRST_STAMP),
            read: AtomicU64::new(0),
            slots: Slots::new(),
            dead: Mutex::default(),
            all: ShardedLock::default(),
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
        self.all.write().unwrap_or_else(PoisonError::into_inner).push(images.clone());
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
            drop(tables);
            // An open view may have found the key unlocked, and may not have read the leaf yet.
            self.slots.add_forgotten(Stamp::LAST, forgotten);
            return;
        }
        images.remember(&mut kept, versions, key, before);
        match self.slots.newest() {
            Some(newest) => self.publish(&mut kept, newest),
            None => kept.keep_back(),
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

    fn publish(&self, kept: &mut ImageState, newest: Stamp) {
        let published = kept.publish(newest);
        self.charge(published);
    }

    /// Returns the stamp of a transaction that commits now.
    fn stamp(&self) -> Stamp {
        let stamp = self.clock.load(Ordering::SeqCst);
        pause::at(PausePoint::Stamped);
        if self.read.load(Ordering::SeqCst) < stamp {
            self.read.fetch_max(stamp, Ordering::SeqCst);
        }
        Stamp(stamp)
    }

    /// Commits a transaction, for views (invariant 1). The transaction holds all its locks, and its
    /// commit record ends at `end`.
    pub(crate) fn committed(&self, images: &TxnImages, end: Lsn) {
        if !images.is_in_use() {
            return;
        }
        let mut kept = images.kept.lock();
        let stamp = self.stamp();
        pause::at(PausePoint::Stamped);
        images.commit(&mut kept, stamp, end);
        // A view that is not found here finds `stamp` in `read`. So the view has this stamp or a
        // higher one, and sees the transaction.
        let newest = self.slots.newest();
        if let Some(newest) = newest {
            self.publish(&mut kept, newest);
        }
        if let Some(tables) = &kept.forgotten {
            self.slots.add_forgotten(stamp, tables);
        }
        if images.has_long() && newest.is_none() {
            // No view will need the long values.
            drop(images.take_long(&mut kept));
        }
        let published = kept.take_published();
        self.uncharge(&mut kept);
        drop(kept);
        if let Some((writer, places)) = published {
            self.settle_in(CommittedImages { stamp, writer, places });
        }
    }

    /// Commits a bulk load, for views. The load has the table's exclusive lock, and the table's
    /// tree already has the load's keys.
    pub(crate) fn loaded(&self, versions: &Versions) {
        versions.end_load(|| self.stamp());
    }

    /// Puts the images of a transaction into the list of the newest view that needs them, and
    /// removes the images that no view needs. Every view that opens meanwhile sees the transaction.
    fn settle_in(&self, mut images: CommittedImages) {
        loop {
            let newest = self.slots.newest_below(images.stamp);
            let needed = newest.as_ref().map(|(_, view)| *view);
            let mut freed = 0;
            images.places.retain(|place| {
                let removed = place.versions.remove_unless_needed(&place.key, &images.writer, needed);
                freed += removed.unwrap_or(0);
                removed.is_none()
            });
            self.free(freed);
            let Some((slot, view)) = newest else { return };
            if images.places.is_empty() {
                return;
            }
            match slot.add(view, images) {
                None => return,
                // The view has closed.
                Some(back) => images = back,
            }
        }
    }

    /// Reads the long values among the images, before their pages are freed.
    pub(crate) fn settle_long(&self, images: &TxnImages, read: impl Fn(&Versions, Chain) -> Option<Vec<u8>>) {
        if !images.has_long() {
            return;
        }
        let long = images.take_long(&mut images.kept.lock());
        // Pages are read with no latch held, so that a view that visits the transaction does not
        // wait for the device.
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
    /// none of these is left and there are still too many bytes, gives up the oldest views. If
    /// there is no view either, makes the writer of `kept` stop keeping images.
    #[cold]
    fn make_room(&self, kept: Option<&mut ImageState>) {
        let mut dead = self.dead.lock();
        take_chunk(&mut dead.images, REMOVED_PER_KEPT).into_iter().for_each(|images| self.settle_in(images));
        let bytes = self.bytes();
        if bytes <= self.bytes_max || !dead.images.is_empty() {
            return;
        }
        if let Some((views, images)) = self.slots.give_up_oldest(bytes) {
            dead.given_up += views;
            dead.images = images;
        } else if let Some(kept) = kept {
            let freed = kept.forget();
            self.free(freed);
            self.uncharge(kept);
        }
    }

    // ---- views

    /// Opens a view of the transactions that have committed. `reserved` returns the end of the log,
    /// and is called after the view has its stamp.
    ///
    /// If no commit has read the present value of `clock`, the view takes the value before it, like
    /// the view that has raised `clock` last. Otherwise the view raises `clock`, and takes the
    /// present value. In both cases it sees every transaction that has committed before.
    ///
    /// The view stores its stamp in its slot before it looks at `read` again or raises `clock`. A
    /// transaction stores its stamp in `read` before it looks for views. All these accesses are
    /// SeqCst. So a transaction that the view does not see finds the view's stamp in the slot, and
    /// knows which images the view needs. A stamp that the view tries in vain is not above the one
    /// that it gets.
    pub(crate) fn open(&self, reserved: impl FnOnce() -> Lsn) -> View {
        let slot = self.slots.take();
        let stamp = slot.open(|| {
            loop {
                let now = self.clock.load(Ordering::SeqCst);
                let is_read = || self.read.load(Ordering::SeqCst) >= now;
                if !is_read() {
                    let shared = Stamp(now - 1);
                    pause::at(PausePoint::Stamped);
                    slot.set(shared);
                    pause::at(PausePoint::Stamped);
                    if !is_read() {
                        return shared;
                    }
                }
                slot.set(Stamp(now));
                pause::at(PausePoint::Stamped);
                let raised = self.clock.compare_exchange(now, now + 1, Ordering::SeqCst, Ordering::SeqCst);
                if raised.is_ok() {
                    return Stamp(now);
                }
            }
        });
        pause::at(PausePoint::Stamped);
        let mut view = View::new(stamp, slot);
        view.has_visited = !self.all().iter().any(|images| images.is_in_use());
        view.limit = reserved();
        view
    }

    /// Visits the transactions with images, and publishes the images that the view needs. A view
    /// visits once: before it reads a range, or a key that a transaction holds exclusively.
    ///
    /// A view sees a transaction T whole or not at all. Let T have kept the image of a key before
    /// the view had its stamp, and let the view read the key before T releases its locks. Then the
    /// view has visited T. T reads `clock` and stores its outcome with its images latched. If the
    /// view has visited T after this store, every read of the key comes after the store. If it has
    /// visited T before T reads `clock`, T reads a stamp above the view's, because `clock` is above
    /// the view's stamp already. Then the view never sees T, and has published what T had kept. If
    /// T has stopped keeping images, the visit gives the view the ids of T's tables.
    ///
    /// Now let T release its locks before the view reads the key. Then T has stored its outcome,
    /// and if the view does not see T, T's commit has published the image or given the view the ids
    /// of T's tables.
    pub(crate) fn visit(&self, view: &mut View) {
        if view.has_visited {
            return;
        }
        view.has_visited = true;
        for images in self.all().iter().filter(|images| images.is_in_use()) {
            let mut kept = images.kept.lock();
            match kept.phase {
                Phase::Active => {
                    self.publish(&mut kept, view.stamp);
                    view.forgotten.extend(kept.forgotten.clone());
                }
                // The view itself remembers this dependency: the lock table has only the
                // dependencies on transactions that have released their locks, and this one may
                // still hold its locks.
                Phase::Committed { stamp, end } if stamp <= view.stamp => {
                    view.depends = view.depends.max(end);
                }
                Phase::Committed { .. } => {}
            }
        }
    }

    fn all(&self) -> ShardedLockReadGuard<'_, Vec<Arc<TxnImages>>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a view, and removes the images that no other view needs.
    pub(crate) fn close(&self, view: View) {
        let slot = view.into_slot();
        let mut committed = slot.close();
        if slot.given_up() != 0 {
            committed.append(&mut self.dead.lock().images);
        }
        self.slots.give(slot);
        committed.into_iter().for_each(|images| self.settle_in(images));
    }

    /// Maximum bytes of images.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the number and age of open views, and the bytes that are kept for them.
    pub(crate) fn stat(&self) -> ViewsStat {
        let (open, oldest) = self.slots.stat();
        ViewsStat {
            open,
            given_up: self.dead.lock().given_up,
            bytes: self.bytes(),
            oldest: oldest.map(|opened| OldestView { age: opened.elapsed() }),
        }
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
            chunk.push(CommittedImages { stamp: home.stamp, writer: home.writer.clone(), places });
            committed.push(home);
            return chunk;
        }
        left -= home.places.len();
        chunk.push(home);
    }
    chunk
}
