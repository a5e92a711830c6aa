//! The slots in which views are noted.
//!
//! A thread notes its view in the slot of its shard of threads, which mostly no other thread
//! writes. So threads that open and close views at the same time write different cache lines. If
//! the slot is taken, the thread takes one of `others`, under a latch.
//!
//! Runs on any thread. A thread that commits, or keeps an image, looks at all slots, and holds the
//! latch of its transaction's images. The latch of a slot's `lists` comes after that latch.
//! Invariants:
//!
//! 1. `stamp` is set and cleared with `lists` latched. It is zero in a slot without a view, and in
//!    the slot of a view that was given up.
//! 2. Each image in `committed` is of a transaction above the view's stamp.

use super::CommittedImages;
use super::images::Forgotten;
use super::versions::Stamp;
use crate::ids::TableId;
use crate::latch::{Mutex, RwLock};
use crate::shard::{SHARDS, shard_of_thread};
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// A place for one view.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// In `Slots::own`: true while a transaction has the slot. Set with Acquire, cleared with
    /// Release. In `Slots::others`: false.
    is_taken: AtomicBool,
    /// Stamp of the open view; zero if there is none. SeqCst: see `Views::open`.
    stamp: AtomicU64,
    /// Bytes of all images when the view was given up; zero if it was not. Stored (Release) before
    /// the view's images are removed; loaded (Acquire) by the reader after each read.
    given_up: AtomicU64,
    /// True if `forgotten` has tables. Stored (Release) with `lists` latched, before the
    /// transaction changes a leaf or releases its locks; loaded (Acquire) by the reader after each
    /// read.
    is_forgotten: AtomicBool,
    lists: Mutex<Lists>,
}

/// Images and tables that other threads note for the view of a slot.
#[derive(Debug, Default)]
pub(super) struct Lists {
    opened: Option<Instant>,
    /// Images of committed transactions that this view needs.
    committed: Vec<CommittedImages>,
    /// Lists of tables that transactions above the view's stamp change without keeping images.
    forgotten: Vec<Forgotten>,
}

impl Slot {
    /// Opens a view in this slot, which the caller has taken. `opening` calls `set`. Other threads
    /// can see each stamp that `opening` sets, but they add nothing to the lists before `opening`
    /// has returned.
    pub(super) fn open<R>(&self, opening: impl FnOnce() -> R) -> R {
        let mut lists = self.lists.lock();
        self.given_up.store(0, Ordering::Relaxed);
        self.is_forgotten.store(false, Ordering::Relaxed);
        lists.opened = Some(Instant::now());
        opening()
    }

    /// Sets the stamp of a view that opens. Called inside `open`.
    pub(super) fn set(&self, stamp: Stamp) {
        self.stamp.store(stamp.0, Ordering::SeqCst);
    }

    fn stamp(&self) -> Option<Stamp> {
        Stamp::of_word(self.stamp.load(Ordering::SeqCst))
    }

    /// Returns the bytes of all images when the view was given up; zero if it was not.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Acquire)
    }

    /// Returns whether a transaction above the view's stamp has changed the table without keeping
    /// images.
    #[inline]
    pub(super) fn has_forgotten(&self, table: TableId) -> bool {
        self.is_forgotten.load(Ordering::Acquire)
            && self.lists.lock().forgotten.iter().any(|tables| tables.lock().contains(&table))
    }

    /// Adds images to the list of the view, if the view is still the one with this stamp. Otherwise
    /// returns them.
    pub(super) fn add(&self, view: Stamp, images: CommittedImages) -> Option<CommittedImages> {
        let mut lists = self.lists.lock();
        if self.stamp() != Some(view) {
            return Some(images);
        }
        lists.committed.push(images);
        None
    }

    /// Closes the view. Returns its list of images.
    pub(super) fn close(&self) -> Vec<CommittedImages> {
        let mut lists = self.lists.lock();
        self.stamp.store(0, Ordering::SeqCst);
        lists.forgotten.clear();
        std::mem::take(&mut lists.committed)
    }
}

/// All slots.
#[derive(Debug)]
pub(super) struct Slots {
    /// One slot for each shard of threads.
    own: Box<[CachePadded<Arc<CachePadded<Slot>>>]>,
    /// Number of slots of `own` that views have used: the first ones. It only grows. SeqCst,
    /// because a thread raises it before it sets a stamp.
    own_used: AtomicUsize,
    /// Number of `others` that are taken. SeqCst, because a thread raises it before it sets a
    /// stamp.
    others_taken: AtomicUsize,
    others: RwLock<Others>,
}

#[derive(Debug, Default)]
struct Others {
    all: Vec<Arc<CachePadded<Slot>>>,
    idle: Vec<Arc<CachePadded<Slot>>>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots {
            own: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            own_used: AtomicUsize::new(0),
            others_taken: AtomicUsize::new(0),
            others: RwLock::default(),
        }
    }

    /// Takes a slot without a view.
    pub(super) fn take(&self) -> Arc<CachePadded<Slot>> {
        let shard = shard_of_thread();
        let own = &self.own[shard];
        if !own.is_taken.swap(true, Ordering::Acquire) {
            if self.own_used.load(Ordering::SeqCst) <= shard {
                self.own_used.fetch_max(shard + 1, Ordering::SeqCst);
            }
            return Arc::clone(own);
        }
        self.others_taken.fetch_add(1, Ordering::SeqCst);
        let mut others = self.others.write();
        if let Some(slot) = others.idle.pop() {
            return slot;
        }
        let slot = Arc::default();
        others.all.push(Arc::clone(&slot));
        slot
    }

    /// Gives back a slot whose view is closed.
    pub(super) fn give(&self, slot: Arc<CachePadded<Slot>>) {
        if slot.is_taken.load(Ordering::Relaxed) {
            slot.is_taken.store(false, Ordering::Release);
        } else {
            self.others.write().idle.push(slot);
            self.others_taken.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Calls `see` for each open view.
    fn for_each(&self, mut see: impl FnMut(&Arc<CachePadded<Slot>>, Stamp)) {
        let used = self.own_used.load(Ordering::SeqCst);
        let mut look = |slot: &Arc<CachePadded<Slot>>| {
            if let Some(stamp) = slot.stamp() {
                see(slot, stamp);
            }
        };
        self.own[..used].iter().for_each(|slot| look(slot));
        if self.others_taken.load(Ordering::SeqCst) > 0 {
            self.others.read().all.iter().for_each(look);
        }
    }

    /// Returns the stamp of the newest view.
    #[inline]
    pub(super) fn newest(&self) -> Option<Stamp> {
        let mut newest = None;
        self.for_each(|_, stamp| newest = newest.max(Some(stamp)));
        newest
    }

    /// Returns the newest view below `stamp`.
    pub(super) fn newest_below(&self, stamp: Stamp) -> Option<(Arc<CachePadded<Slot>>, Stamp)> {
        let mut newest: Option<(Arc<CachePadded<Slot>>, Stamp)> = None;
        self.for_each(|slot, view| {
            if view < stamp && newest.as_ref().is_none_or(|(_, other)| *other < view) {
                newest = Some((Arc::clone(slot), view));
            }
        });
        newest
    }

    fn oldest(&self) -> Option<(Arc<CachePadded<Slot>>, Stamp)> {
        let mut oldest: Option<(Arc<CachePadded<Slot>>, Stamp)> = None;
        self.for_each(|slot, view| {
            if oldest.as_ref().is_none_or(|(_, other)| *other > view) {
                oldest = Some((Arc::clone(slot), view));
            }
        });
        oldest
    }

    /// Gives up the views with the lowest stamp. Returns their number and their images, or `None`
    /// if no view is open. `bytes` are those of all images. The views are marked before this
    /// function returns, so that a reader that misses an image finds the mark.
    pub(super) fn give_up_oldest(&self, bytes: u64) -> Option<(u64, Vec<CommittedImages>)> {
        loop {
            let (_, oldest) = self.oldest()?;
            let (mut views, mut images) = (0, Vec::new());
            self.for_each(|slot, view| {
                if view == oldest {
                    let mut lists = slot.lists.lock();
                    if slot.stamp() == Some(oldest) {
                        slot.given_up.store(bytes.max(1), Ordering::Release);
                        slot.stamp.store(0, Ordering::SeqCst);
                        images.append(&mut lists.committed);
                        views += 1;
                    }
                }
            });
            if views > 0 {
                return Some((views, images));
            }
        }
    }

    /// Tells the views below `stamp` which tables a transaction changes without keeping images. The
    /// transaction has this stamp, or gets a stamp above those of all open views.
    pub(super) fn add_forgotten(&self, stamp: Stamp, tables: &Forgotten) {
        self.for_each(|slot, _| {
            let mut lists = slot.lists.lock();
            let is_known = lists.forgotten.iter().any(|known| Arc::ptr_eq(known, tables));
            if !is_known && slot.stamp().is_some_and(|view| view < stamp) {
                lists.forgotten.push(tables.clone());
                slot.is_forgotten.store(true, Ordering::Release);
            }
        });
    }

    /// Returns the number of open views, and the instant at which the oldest was opened.
    pub(super) fn stat(&self) -> (u64, Option<Instant>) {
        let mut open = 0;
        self.for_each(|_, _| open += 1);
        let oldest = self.oldest().and_then(|(slot, _)| slot.lists.lock().opened);
        (open, oldest)
    }
}
