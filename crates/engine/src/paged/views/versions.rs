//! The before-images of one table that open views may need, in key order.
//!
//! An image is the value of a key before its first change by one transaction. The images of a key
//! are in the order in which their transactions wrote the key. This is also the order of the
//! transactions' exclusive locks and stamps. A view reads the first image whose transaction it does
//! not see, or the leaf if it sees all these transactions.
//!
//! Images are distributed over shards by their keys. Writers publish and remove images under the
//! latch of a shard's `map`. Readers look at images under this latch while they hold the leaf's
//! latch. A thread takes the latches of several maps only to read them. Invariants:
//!
//! 1. An image that an open view needs is in its `map` before the view can find the transaction's
//!    change in the leaf. The image stays there until the change is undone or no view needs the
//!    image. So a reader that finds the change in the leaf finds the image.
//! 2. A key has at most one image of each transaction: the value before the transaction's first
//!    change of the key.
//! 3. If a reader with a leaf's latch loads a `count` of zero, every image that was published under
//!    earlier latchings of this leaf has been removed from the shard.
//!
//! A crash loses the images. That does no harm, because a crash also ends all views.

use crate::direction::Direction;
use crate::ids::TableId;
use crate::key_hash;
use crate::latch::RwLock;
use crate::paged::page::Value;
use crate::paged::tree::{Chain, LeafEntries};
use crossbeam_utils::CachePadded;
use parking_lot::RwLockReadGuard;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of shards of a table's images.
const SHARDS: usize = 16;
/// Bytes of an image and its bookkeeping, without its key and value.
const IMAGE_BYTES: usize = 192;

/// A place in the order of commits for views. A view sees the transactions whose stamps are not
/// above its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Stamp(pub(super) u64);

impl Stamp {
    /// A stamp below every other.
    pub(super) const NONE: Stamp = Stamp(0);
    /// A stamp above every other.
    pub(super) const LAST: Stamp = Stamp(u64::MAX);

    /// Returns the stamp in a word that is zero if it has none.
    pub(super) fn of_word(word: u64) -> Option<Stamp> {
        (word != 0).then_some(Stamp(word))
    }
}

/// Outcome of a writing transaction.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Stamp of the transaction; zero until it has committed. Stored (Release) once, under the
    /// latch of the transaction's images; loaded (Acquire) by readers. The store changes nothing
    /// for an open view, which sees the transaction always or never: see `Views::visit`.
    stamp: AtomicU64,
}

impl Outcome {
    pub(super) fn commit(&self, stamp: Stamp) {
        self.stamp.store(stamp.0, Ordering::Release);
    }

    fn stamp(&self) -> Option<Stamp> {
        Stamp::of_word(self.stamp.load(Ordering::Acquire))
    }

    fn is_seen_by(&self, view: Stamp) -> bool {
        self.stamp().is_some_and(|stamp| stamp <= view)
    }
}

/// The value of a key before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Before {
    /// The key had no value.
    Absent,
    /// The bytes of the value.
    Bytes(Box<[u8]>),
    /// A long value in its pages. The pages exist until the image's transaction has committed and
    /// [`Before::Bytes`] has replaced this variant.
    Chain(Chain),
    /// A long value that could not be read when its pages were about to be freed.
    Lost,
}

impl Before {
    pub(super) fn of(value: Option<Value<'_>>) -> Self {
        match value {
            None => Before::Absent,
            Some(Value::Inline(bytes)) => Before::Bytes(bytes.into()),
            Some(Value::Overflow { head, length }) => Before::Chain(Chain { head, length }),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Before::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

#[derive(Debug)]
struct BeforeImage {
    writer: Arc<Outcome>,
    /// Number of bulk loads of the table before this image.
    era: usize,
    /// Stamp of the key's previous writer. Views below this stamp do not need the image. Zero if
    /// the previous writer has no image here, because then no view is below its stamp.
    since: Stamp,
    before: Before,
}

/// The images of a key, in the order in which their transactions wrote it.
type BeforeImages = SmallVec<[BeforeImage; 1]>;

fn cost(key: &[u8], before: &Before) -> usize {
    IMAGE_BYTES + 2 * key.len() + before.bytes()
}

/// Outcome of publishing an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publishing {
    /// Published, with this number of bytes.
    Published(usize),
    /// The transaction has an older image of the key.
    Doubled,
    /// No open view needs the image.
    Unneeded,
}

/// The images of one table.
#[derive(Debug)]
pub(crate) struct Versions {
    pub(super) table: TableId,
    /// Number of images in each map (invariant 3). Raised and lowered under the map's latch; loaded
    /// (Acquire) by readers under the leaf's latch. The counters share a cache line, because a scan
    /// reads all of them for each leaf.
    counts: CachePadded<[AtomicU32; SHARDS]>,
    maps: Box<[CachePadded<RwLock<ImageMap>>]>,
    loads: Loads,
}

type ImageMap = BTreeMap<Box<[u8]>, BeforeImages>;

/// The images of the keys of a shard.
#[derive(Debug, Clone, Copy)]
struct Shard<'a> {
    count: &'a AtomicU32,
    map: &'a RwLock<ImageMap>,
}

impl Shard<'_> {
    #[inline]
    fn is_empty(self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}

/// Bulk loads of a table since the database was opened. Each load found the table empty, and held
/// the table's exclusive lock.
///
/// A view that is older than the last load reads nothing that the leaves hold. It reads only the
/// images that were made between the last load that the view sees and the next load.
#[derive(Debug, Default)]
struct Loads {
    /// Stamp of the last load. It is [`UNDECIDED`] from before the table gets the load's keys until
    /// the load has read the clock. Stored (Release) by the load; loaded (Acquire) under a leaf's
    /// latch.
    last: AtomicU64,
    /// Stamps of all loads. Latched while the last load reads the clock.
    stamps: RwLock<Vec<Stamp>>,
}

/// The stamp of a load that has not read the clock yet.
const UNDECIDED: u64 = Stamp::LAST.0;

impl Loads {
    /// Returns the number of loads that the view sees, or `None` if it sees all of them.
    #[inline]
    fn hidden_from(&self, view: Stamp) -> Option<usize> {
        if self.last.load(Ordering::Acquire) <= view.0 {
            return None;
        }
        let stamps = self.stamps.read();
        let seen = stamps.partition_point(|stamp| *stamp <= view);
        (seen < stamps.len()).then_some(seen)
    }
}

impl Versions {
    pub(crate) fn new(table: TableId) -> Self {
        let maps = (0..SHARDS).map(|_| CachePadded::default()).collect();
        Versions { table, counts: CachePadded::default(), maps, loads: Loads::default() }
    }

    fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        self.counts.iter().zip(&self.maps).map(|(count, map)| Shard { count, map })
    }

    #[inline]
    fn shard(&self, key: &[u8]) -> Shard<'_> {
        let at = key_hash::hash(0, key) as usize % SHARDS;
        Shard { count: &self.counts[at], map: &self.maps[at] }
    }

    pub(crate) fn table(&self) -> TableId {
        self.table
    }

    /// Returns whether the view reads every leaf as it is: no key has an image, and no load is
    /// newer than the view.
    #[inline]
    pub(super) fn is_clear(&self, view: Stamp) -> bool {
        self.shards().all(Shard::is_empty) && self.loads.hidden_from(view).is_none()
    }

    /// Begins to give the table the keys of a bulk load, which no open view sees. The load has the
    /// table's exclusive lock.
    pub(crate) fn begin_load(&self) {
        let mut stamps = self.loads.stamps.write();
        stamps.push(Stamp(UNDECIDED));
        self.loads.last.store(UNDECIDED, Ordering::Release);
    }

    /// Ends a bulk load, whose keys the table now has. Views that open from now on see these keys.
    /// A view that reads meanwhile waits until `clock` has given the load's stamp.
    pub(super) fn end_load(&self, clock: impl FnOnce() -> Stamp) {
        let mut stamps = self.loads.stamps.write();
        let stamp = clock();
        if let Some(last) = stamps.last_mut() {
            *last = stamp;
        }
        self.loads.last.store(stamp.0, Ordering::Release);
    }

    /// Returns whether the view reads every key between the bounds as the leaf has it. The caller
    /// holds the leaf's latch, and the bounds lie between its fences.
    pub(super) fn is_clear_between(&self, view: Stamp, low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
        if is_empty(low, high) {
            return true;
        }
        if self.loads.hidden_from(view).is_some() {
            return false;
        }
        self.maps().iter().all(|map| {
            map.range::<[u8], _>((low, high)).all(|(_, images)| unseen(images, view, None).is_none())
        })
    }

    /// Latches the maps that have images.
    fn maps(&self) -> SmallVec<[RwLockReadGuard<'_, ImageMap>; SHARDS]> {
        self.shards().filter(|shard| !shard.is_empty()).map(|shard| shard.map.read()).collect()
    }

    /// Publishes the image of a key whose exclusive lock the writer holds, for views with stamps up
    /// to `newest`. If even such a view does not see the key's last writer, all of them read an
    /// older image, and this image is not published.
    pub(super) fn publish(
        &self,
        key: &[u8],
        writer: &Arc<Outcome>,
        newest: Stamp,
        before: impl FnOnce() -> Before,
    ) -> Publishing {
        // Memory is taken before the latch, and freed after it.
        let (key, before) = (Box::<[u8]>::from(key), before());
        let bytes = cost(&key, &before);
        let shard = self.shard(&key);
        let mut map = shard.map.write();
        let images = map.get_mut(&key);
        let since = match images.as_ref().and_then(|images| images.last()) {
            None => Stamp::NONE,
            Some(last) if Arc::ptr_eq(&last.writer, writer) => return Publishing::Doubled,
            Some(last) => match last.writer.stamp() {
                Some(stamp) if stamp > newest => return Publishing::Unneeded,
                stamp => stamp.unwrap_or(Stamp::NONE),
            },
        };
        let era = self.loads.stamps.read().len();
        let image = BeforeImage { writer: writer.clone(), era, since, before };
        match images {
            Some(images) => images.push(image),
            None => drop(map.insert(key, SmallVec::from_buf([image]))),
        }
        shard.count.fetch_add(1, Ordering::AcqRel);
        Publishing::Published(bytes)
    }

    /// Removes the writer's image of a key, unless `view` needs it. Returns the bytes that were
    /// freed, or `None` if the image stays.
    pub(super) fn remove_unless_needed(
        &self,
        key: &[u8],
        writer: &Arc<Outcome>,
        view: Option<Stamp>,
    ) -> Option<usize> {
        let shard = self.shard(key);
        let mut map = shard.map.write();
        let Some(images) = map.get_mut(key) else { return Some(0) };
        let Some(at) = images.iter().position(|image| Arc::ptr_eq(&image.writer, writer)) else {
            return Some(0);
        };
        if view.is_some_and(|view| images[at].since <= view) {
            return None;
        }
        let image = images.remove(at);
        let of_key = if images.is_empty() { map.remove_entry(key) } else { None };
        shard.count.fetch_sub(1, Ordering::AcqRel);
        // Memory is freed after the latch.
        drop(map);
        drop(of_key);
        Some(cost(key, &image.before))
    }

    /// Removes the writer's image of a key, if there is one. Returns the bytes that were freed.
    pub(super) fn remove(&self, key: &[u8], writer: &Arc<Outcome>) -> usize {
        self.remove_unless_needed(key, writer, None).unwrap_or(0)
    }

    /// Puts the bytes of a long value into the writer's image of a key, if the image still names
    /// `chain`. Returns the bytes by which the image has grown.
    pub(super) fn settle(&self, key: &[u8], writer: &Arc<Outcome>, chain: Chain, before: &Before) -> usize {
        let mut map = self.shard(key).map.write();
        let Some(images) = map.get_mut(key) else { return 0 };
        let named = Before::Chain(chain);
        let of_writer =
            |image: &&mut BeforeImage| Arc::ptr_eq(&image.writer, writer) && image.before == named;
        let Some(image) = images.iter_mut().find(of_writer) else { return 0 };
        image.before = before.clone();
        before.bytes()
    }

    /// Calls `see` with the former value that the view reads in place of the leaf's value of `key`.
    /// If the view reads the leaf's value, calls `see` with `None`. The caller holds the leaf's
    /// latch, or looks again after it has read a long value.
    #[inline]
    pub(super) fn look<R>(&self, key: &[u8], view: Stamp, see: impl FnOnce(Option<&Before>) -> R) -> R {
        let (shard, era) = (self.shard(key), self.loads.hidden_from(view));
        if shard.is_empty() {
            return see(era.is_some().then_some(&Before::Absent));
        }
        let map = shard.map.read();
        match map.get(key).and_then(|images| unseen(images, view, era)) {
            Some(image) => see(Some(image)),
            None => {
                drop(map);
                see(era.is_some().then_some(&Before::Absent))
            }
        }
    }

    /// Shows to `see` the entries between the bounds as the view reads them, in order, until `see`
    /// returns false. `leaf` has the leaf's entries in the same order. The caller holds the leaf's
    /// latch, and the bounds lie between its fences. Returns whether `see` was shown all entries.
    pub(super) fn merge(
        &self,
        view: Stamp,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        leaf: LeafEntries<'_, '_>,
        see: &mut dyn FnMut(&[u8], Value<'_>) -> bool,
    ) -> bool {
        if self.is_clear(view) || is_empty(low, high) {
            return merge(leaf, std::iter::empty(), |_, _| true, see);
        }
        let era = self.loads.hidden_from(view);
        let leaf: LeafEntries<'_, '_> = if era.is_some() { &mut std::iter::empty() } else { leaf };
        let maps = self.maps();
        let images = maps.iter().flat_map(|map| map.range::<[u8], _>((low, high)));
        let changed = images.filter_map(|(key, images)| Some((&**key, unseen(images, view, era)?)));
        let mut changed: SmallVec<[(&[u8], &Before); 8]> = changed.collect();
        changed.sort_unstable_by_key(|(key, _)| *key);
        let changed = changed.into_iter();
        match direction {
            Direction::Up => merge(leaf, changed, |leaf, image| leaf < image, see),
            Direction::Down => merge(leaf, changed.rev(), |leaf, image| leaf > image, see),
        }
    }

    /// Number of images.
    #[cfg(test)]
    pub(crate) fn images(&self) -> usize {
        let of_shard = |shard: Shard<'_>| {
            let images = shard.map.read().values().map(|images| images.len()).sum::<usize>();
            assert_eq!(shard.count.load(Ordering::Acquire) as usize, images, "the counter of images");
            images
        };
        self.shards().map(of_shard).sum()
    }
}

/// Returns the image of the first transaction that the view does not see. With `era`, returns the
/// image only if exactly that number of bulk loads came before it.
fn unseen(images: &[BeforeImage], view: Stamp, era: Option<usize>) -> Option<&Before> {
    let first = images.iter().find(|image| !image.writer.is_seen_by(view))?;
    era.is_none_or(|era| first.era == era).then_some(&first.before)
}

/// Returns whether no key lies between the bounds.
pub(super) fn is_empty(low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low >= high
        }
    }
}

/// Merges the leaf's entries and the images in one order. An image takes the place of the leaf's
/// entry of the same key.
fn merge<'i>(
    leaf: LeafEntries<'_, '_>,
    images: impl Iterator<Item = (&'i [u8], &'i Before)>,
    comes_first: impl Fn(&[u8], &[u8]) -> bool,
    see: &mut dyn FnMut(&[u8], Value<'_>) -> bool,
) -> bool {
    let mut leaf = leaf.peekable();
    for (key, before) in images {
        while let Some((own, value)) = leaf.next_if(|(own, _)| comes_first(own, key)) {
            if !see(own, value) {
                return false;
            }
        }
        leaf.next_if(|(own, _)| *own == key);
        let value = match before {
            Before::Absent => continue,
            Before::Bytes(bytes) => Value::Inline(bytes),
            Before::Chain(chain) => Value::Overflow { head: chain.head, length: chain.length },
            // The loss is found when the value is read, because no chain begins at page 0.
            Before::Lost => Value::Overflow { head: crate::paged::page::PageId::NONE, length: 0 },
        };
        if !see(key, value) {
            return false;
        }
    }
    leaf.all(|(key, value)| see(key, value))
}
