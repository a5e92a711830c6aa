//! The before-images of one writing transaction: the value of each key before the transaction's
//! first change of it.
//!
//! Images are in the transaction's own memory until a view needs them; then they are published
//! ([`Versions`]). The transaction's own thread keeps images, and publishes them at once if a view
//! is open. A view publishes the images that were kept before it had its stamp (`Views::visit`).
//! Invariants about `state`, and about everything that the latch `kept` guards:
//!
//! 1. An image is kept before the transaction changes the leaf, while its thread holds the leaf's
//!    latch.
//! 2. No view with a stamp up to `flushed` needs an image that is not published, even if the view
//!    opens later.
//! 3. `phase` is [`Phase::Active`] from the first image until the transaction has committed, then
//!    [`Phase::Committed`] until the first image of the next transaction. `state` is `ENDED` from
//!    the release of the locks, or the undoing of all changes, until the first image of the next
//!    transaction.
//! 4. If the images take more bytes than allowed and no view is left to give up, the transaction
//!    keeps no images any more. The views that read one of its keys before the transaction ends get
//!    the ids of its tables (`forgotten`), and cannot read these tables.

use super::versions::{Before, Outcome, Publishing, Stamp, Versions};
use crate::Lsn;
use crate::ids::TableId;
use crate::latch::Mutex;
use crate::paged::page::Value;
use crate::paged::tree::Chain;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Capacity, in bytes, that is retained for the next transaction.
const KEPT_BYTES: usize = 64 << 10;
/// Number of tables that are retained for the next transaction.
const KEPT_TABLES: usize = 8;

/// Phase of a transaction that has kept images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// The transaction has not committed, or is undone.
    #[default]
    Active,
    /// The transaction has committed. It may still hold locks, or it may have ended. Its commit
    /// record ends at `end`.
    Committed { stamp: Stamp, end: Lsn },
}

/// A key of a table.
#[derive(Debug)]
pub(super) struct KeyPlace {
    pub(super) versions: Arc<Versions>,
    pub(super) key: Box<[u8]>,
}

/// Tables for which a transaction has not kept images.
pub(super) type Forgotten = Arc<Mutex<Vec<TableId>>>;

const ENDED: u8 = 0;
const ACTIVE: u8 = 1;
const COMMITTED: u8 = 2;

/// The images of one transaction, and later those of another one.
#[derive(Debug, Default)]
pub(crate) struct TxnImages {
    /// Phase of the transaction: `ENDED`, `ACTIVE` or `COMMITTED`. The transaction's thread stores
    /// `ACTIVE` and then loads the stamps in the slots of views; a thread that opens a view stores
    /// its stamp and then loads the state. All four accesses are SeqCst, so at least one of the two
    /// threads reads the store of the other. `ENDED` is stored with Release after the locks are
    /// released or all changes are undone. `COMMITTED` is stored and loaded relaxed. Only the
    /// thread that ends the transaction looks for it. If another thread has stored it, that thread
    /// held the latch of [`Unshown`](super::Unshown), which the ending thread has taken since.
    /// While the state is `ENDED`, the contents under the latch belong to an earlier transaction.
    state: AtomicU8,
    /// True if there are long values among the images. Stored with `kept` latched. Relaxed, because
    /// the transaction's thread loads its own stores, and other threads load with `kept` latched.
    has_long: AtomicBool,
    pub(super) kept: Mutex<ImageState>,
}

impl TxnImages {
    /// Returns whether a transaction has images here.
    #[inline]
    pub(super) fn is_in_use(&self) -> bool {
        self.state.load(Ordering::SeqCst) != ENDED
    }

    /// Returns whether there are long values among the images.
    #[inline]
    pub(super) fn has_long(&self) -> bool {
        self.has_long.load(Ordering::Relaxed)
    }

    /// Takes the list of the long values among the images.
    pub(super) fn take_long(&self, kept: &mut ImageState) -> Vec<(KeyPlace, Chain)> {
        self.has_long.store(false, Ordering::Relaxed);
        std::mem::take(&mut kept.long)
    }

    /// Keeps the value of a key before a change.
    pub(super) fn remember(
        &self,
        kept: &mut ImageState,
        versions: &Arc<Versions>,
        key: &[u8],
        before: Option<Value<'_>>,
    ) {
        kept.remember(versions, key, before);
        if !kept.long.is_empty() {
            self.has_long.store(true, Ordering::Relaxed);
        }
    }

    /// Begins the images of a transaction, before the first image is kept.
    pub(super) fn begin(&self, kept: &mut ImageState) {
        kept.reset();
        self.has_long.store(false, Ordering::Relaxed);
        self.state.store(ACTIVE, Ordering::SeqCst);
    }

    /// Notes that the transaction has committed.
    pub(super) fn commit(&self, kept: &mut ImageState, stamp: Stamp, end: Lsn) {
        kept.commit(stamp, end);
        self.state.store(COMMITTED, Ordering::Relaxed);
    }

    /// Returns whether the transaction has committed and holds locks. The images of such a
    /// transaction, if it has any, are in the lists of views.
    #[inline]
    pub(super) fn is_committed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == COMMITTED
    }

    /// Notes that the transaction needs the images no more.
    #[inline]
    pub(super) fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
    }
}

/// A former value in an image that is not published.
#[derive(Debug)]
enum OwnValue {
    Absent,
    Bytes(Range<usize>),
    Other(Before),
}

/// An image that is not published.
#[derive(Debug)]
struct Private {
    /// Index of the table in `tables`.
    table: usize,
    key: Range<usize>,
    before: OwnValue,
}

/// A long value of an image, after it was read.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) place: KeyPlace,
    pub(super) chain: Chain,
    pub(super) before: Before,
}

/// The state under the latch of [`TxnImages`].
#[derive(Debug, Default)]
pub(super) struct ImageState {
    pub(super) phase: Phase,
    /// Tables of this and of earlier transactions. An image has an index into this list, so that no
    /// reference is counted for it.
    tables: Vec<Arc<Versions>>,
    private: Vec<Private>,
    /// Keys and values of `private`.
    bytes: Vec<u8>,
    /// By table, the keys of the images that stayed in `private` because no view needed them. No
    /// second image of such a key is kept: the second image would have a value of the transaction
    /// itself, and could be published once no view needs the key's older images.
    held_back: HashMap<usize, HashSet<Box<[u8]>>>,
    /// Bytes of the keys in `held_back`.
    held_back_bytes: usize,
    pub(super) published: Vec<KeyPlace>,
    /// Long values among the images, published or not.
    long: Vec<(KeyPlace, Chain)>,
    outcome: Option<Arc<Outcome>>,
    flushed: Stamp,
    pub(super) forgotten: Option<Forgotten>,
    /// Bytes of `private` that are counted in the sum of all images.
    pub(super) charged: usize,
}

impl ImageState {
    #[inline]
    pub(super) fn reset(&mut self) {
        self.phase = Phase::Active;
        if self.tables.len() > KEPT_TABLES {
            self.tables.clear();
        }
        self.clear_private();
        if self.published.capacity() + self.long.capacity() > 0 {
            self.published = Vec::new();
            self.long = Vec::new();
        }
        self.outcome = None;
        self.flushed = Stamp::NONE;
        self.forgotten = None;
    }

    #[inline]
    fn clear_private(&mut self) {
        const KEPT: usize = KEPT_BYTES / size_of::<Private>();
        self.private.clear();
        self.bytes.clear();
        self.clear_held_back();
        if self.private.capacity() > KEPT || self.bytes.capacity() > KEPT_BYTES {
            self.private.shrink_to(KEPT);
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }

    #[inline]
    fn clear_held_back(&mut self) {
        if self.held_back_bytes > 0 {
            self.held_back = HashMap::new();
            self.held_back_bytes = 0;
        }
    }

    /// Bytes of the images that are not published.
    pub(super) fn private_bytes(&self) -> usize {
        self.bytes.len() + self.private.len() * size_of::<Private>() + self.held_back_bytes
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    /// Keeps an image, unless the last image is of the same key, or an image of the key is held
    /// back.
    fn remember(&mut self, versions: &Arc<Versions>, key: &[u8], before: Option<Value<'_>>) {
        let table = match self.tables.iter().position(|known| Arc::ptr_eq(known, versions)) {
            Some(table) => table,
            None => {
                self.tables.push(versions.clone());
                self.tables.len() - 1
            }
        };
        if let Some(last) = self.private.last()
            && last.table == table
            && self.bytes[last.key.clone()] == *key
        {
            return;
        }
        if self.held_back.get(&table).is_some_and(|keys| keys.contains(key)) {
            return;
        }
        let key_at = self.store(key);
        let before = match before {
            None => OwnValue::Absent,
            Some(Value::Inline(value)) => OwnValue::Bytes(self.store(value)),
            long => {
                let before = Before::of(long);
                if let Before::Chain(chain) = before {
                    self.long.push((KeyPlace { versions: versions.clone(), key: key.into() }, chain));
                }
                OwnValue::Other(before)
            }
        };
        self.private.push(Private { table, key: key_at, before });
    }

    fn outcome(&mut self) -> Arc<Outcome> {
        let phase = self.phase;
        self.outcome
            .get_or_insert_with(|| {
                let outcome = Arc::new(Outcome::default());
                if let Phase::Committed { stamp, .. } = phase {
                    outcome.commit(stamp);
                }
                outcome
            })
            .clone()
    }

    /// Publishes the images that views with stamps up to `newest` need (invariant 2). Returns the
    /// bytes that the published images take.
    pub(super) fn publish(&mut self, newest: Stamp) -> usize {
        if self.private.is_empty() {
            self.flushed = newest;
            return 0;
        }
        let from = if newest > self.flushed { 0 } else { self.private.len() - 1 };
        let begin = self.private[from].key.start;
        self.flushed = newest;
        if from == 0 {
            self.clear_held_back();
        }
        let writer = self.outcome();
        let (mut published, mut kept) = (0, from);
        for at in from..self.private.len() {
            let Private { table, key, before } = &self.private[at];
            let (versions, key) = (&self.tables[*table], &self.bytes[key.clone()]);
            let before = || match before {
                OwnValue::Absent => Before::Absent,
                OwnValue::Bytes(range) => Before::Bytes(self.bytes[range.clone()].into()),
                OwnValue::Other(before) => before.clone(),
            };
            if from == 0 && self.held_back.get(table).is_some_and(|keys| keys.contains(key)) {
                // A second image of the key. It has a value of the transaction itself.
                continue;
            }
            match versions.publish(key, &writer, newest, before) {
                Publishing::Published(bytes) => {
                    published += bytes;
                    self.published.push(KeyPlace { versions: versions.clone(), key: key.into() });
                }
                Publishing::Doubled => {}
                Publishing::Unneeded => {
                    if self.held_back.entry(*table).or_default().insert(key.into()) {
                        self.held_back_bytes += key.len() + size_of::<Box<[u8]>>();
                    }
                    self.private.swap(kept, at);
                    kept += 1;
                }
            }
        }
        self.private.truncate(kept);
        if kept == from {
            self.bytes.truncate(begin);
        }
        published
    }

    /// Notes that the last image may be needed by a view that opens later.
    #[inline]
    pub(super) fn keep_back(&mut self) {
        self.flushed = Stamp::NONE;
    }

    /// Notes that the transaction has committed with `stamp`, and that its commit record ends at
    /// `end`.
    fn commit(&mut self, stamp: Stamp, end: Lsn) {
        self.phase = Phase::Committed { stamp, end };
        if let Some(outcome) = &self.outcome {
            outcome.commit(stamp);
        }
    }

    /// Takes the published images, with the outcome of their transaction, if there are any. Drops
    /// the images that are not published, which no view needs.
    #[inline]
    pub(super) fn take_published(&mut self) -> Option<(Arc<Outcome>, Vec<KeyPlace>)> {
        self.clear_private();
        if self.published.is_empty() {
            return None;
        }
        Some((self.outcome(), std::mem::take(&mut self.published)))
    }

    /// Stops keeping images: from now on the transaction lists the ids of its tables instead
    /// (invariant 4). Returns the bytes that were freed.
    pub(super) fn forget(&mut self) -> usize {
        let mut tables: Vec<TableId> = Vec::new();
        let of_private = self.private.iter().map(|image| self.tables[image.table].table);
        for table in of_private.chain(self.published.iter().map(|place| place.versions.table)) {
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        let freed = self.remove_published();
        self.clear_private();
        self.long = Vec::new();
        self.forgotten = Some(Arc::new(Mutex::new(tables)));
        freed
    }

    /// Removes the published images. Returns the bytes that were freed.
    pub(super) fn remove_published(&mut self) -> usize {
        let Some(outcome) = &self.outcome else { return 0 };
        self.published.drain(..).map(|place| place.versions.remove(&place.key, outcome)).sum()
    }

    /// Puts the bytes of long values into their images, published or not. Returns the bytes by
    /// which the images have grown.
    pub(super) fn settle(&mut self, settled: Vec<Settled>) -> usize {
        let (mut grown, mut private) = (0, HashMap::new());
        for Settled { place, chain, before } in settled {
            if let Some(outcome) = &self.outcome {
                grown += place.versions.settle(&place.key, outcome, chain, &before);
            }
            private.insert(chain.head, before);
        }
        for image in &mut self.private {
            if let OwnValue::Other(Before::Chain(chain)) = image.before
                && let Some(before) = private.remove(&chain.head)
            {
                grown += before.bytes();
                self.charged += before.bytes();
                image.before = OwnValue::Other(before);
            }
        }
        grown
    }
}
