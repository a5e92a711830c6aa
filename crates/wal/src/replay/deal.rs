//! Batches of records: one thread reads a stream, and all threads apply its records.
//!
//! A dealer, on the thread that reads a stream, copies records into a batch and gives a full batch
//! to an applier. If all appliers are busy and their queue is full, the dealer's own thread applies
//! the batch. No thread therefore waits while there is work, whether reading or applying costs
//! more. Without appliers (none are wanted, or none could be started) the dealers do everything in
//! order. Rules:
//!
//! 1. Every record is visited once, on some thread, in any order. After a visit has failed, the
//!    remaining records are not visited.
//! 2. When [`with_appliers`] returns, no visit is under way.
//! 3. Memory is a few batches for each thread, whatever a stream contains; a record that is larger
//!    than a batch is alone or the last in its batch.

use super::Replayed;
use katydid_kernels::dependencies::StreamLsn;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Kind;
use katydid_kernels::stamp::CommitStamp;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a batch; few in debug builds, so that the logs of tests fill many batches.
const BATCH_BYTES: usize = if cfg!(any(test, debug_assertions)) { 1 << 10 } else { 256 << 10 };

/// Records that are applied together.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    records: Vec<Dealt>,
}

/// A record in a batch.
#[derive(Debug)]
struct Dealt {
    stamp: CommitStamp,
    kind: Kind,
    position: StreamLsn,
    first: Lsn,
    payload: Range<usize>,
}

impl Batch {
    /// Returns the records of the batch.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Replayed<'_>> {
        self.records.iter().map(|dealt| Replayed {
            stamp: dealt.stamp,
            kind: dealt.kind,
            position: dealt.position,
            first: dealt.first,
            payload: &self.bytes[dealt.payload.clone()],
        })
    }

    fn add(&mut self, record: &Replayed<'_>) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(record.payload);
        let Replayed { stamp, kind, position, first, .. } = *record;
        self.records.push(Dealt { stamp, kind, position, first, payload: begin..self.bytes.len() });
    }

    fn is_full(&self) -> bool {
        self.bytes.len() + self.records.len() * size_of::<Dealt>() >= BATCH_BYTES
    }
}

/// Visitor of a batch, called by several threads at once.
pub(super) type Visit<'a, E> = dyn Fn(&Batch) -> Result<(), E> + Sync + 'a;

/// State that dealers and appliers share.
struct Shared<'a, E> {
    visit: &'a Visit<'a, E>,
    /// The first error of a visit. This is a leaf latch.
    refused: Mutex<Option<E>>,
    /// Empty batches to use again, because fresh memory for each batch would cost more than filling
    /// it. This is a leaf latch.
    used: Mutex<Vec<Batch>>,
}

impl<E> Shared<'_, E> {
    fn refused(&self) -> MutexGuard<'_, Option<E>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used(&self) -> MutexGuard<'_, Vec<Batch>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, mut batch: Batch) {
        if self.refused().is_some() {
            return;
        }
        if let Err(error) = (self.visit)(&batch) {
            self.refused().get_or_insert(error);
        }
        if batch.bytes.capacity() <= 2 * BATCH_BYTES {
            batch.bytes.clear();
            batch.records.clear();
            self.used().push(batch);
        }
    }
}

/// The threads that apply batches.
pub(super) struct Appliers<'a, E> {
    shared: &'a Shared<'a, E>,
    /// `None` if there are no appliers.
    queue: Option<SyncSender<Batch>>,
}

impl<'a, E> Appliers<'a, E> {
    /// Makes a dealer for one thread.
    pub(super) fn dealer(&self) -> Dealer<'a, E> {
        Dealer { shared: self.shared, queue: self.queue.clone(), batch: Batch::default() }
    }
}

/// Runs `work` while this number of appliers run. Returns the result of `work`, and the first error
/// of a visit.
pub(super) fn with_appliers<E: Send, R>(
    count: usize,
    visit: &Visit<'_, E>,
    work: impl FnOnce(&Appliers<'_, E>) -> R,
) -> (R, Option<E>) {
    let shared = Shared { visit, refused: Mutex::new(None), used: Mutex::default() };
    let outcome = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(count);
        // Only the appliers have the receiver: if all of them have panicked, sending fails.
        let receiver = Arc::new(Mutex::new(receiver));
        let started = (0..count).filter(|_| {
            let (shared, receiver) = (&shared, receiver.clone());
            let name = "katydid-apply".to_owned();
            let applier = move || {
                while let Some(batch) = next(&receiver) {
                    shared.apply(batch);
                }
            };
            // If a thread cannot be started, the dealers do its work.
            std::thread::Builder::new().name(name).spawn_scoped(scope, applier).is_ok()
        });
        let queue = (started.count() > 0).then_some(sender);
        drop(receiver);
        // The appliers end when this sender and those of all dealers are dropped.
        work(&Appliers { shared: &shared, queue })
    });
    let refused = shared.refused().take();
    (outcome, refused)
}

fn next(receiver: &Mutex<Receiver<Batch>>) -> Option<Batch> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Deals out the records that one thread reads.
pub(super) struct Dealer<'a, E> {
    shared: &'a Shared<'a, E>,
    queue: Option<SyncSender<Batch>>,
    batch: Batch,
}

impl<E> Dealer<'_, E> {
    /// Adds a record, which is handed over at the latest by the next [`Dealer::flush`]. Returns
    /// false if a visit has failed, so that the caller can stop.
    #[inline]
    pub(super) fn add(&mut self, record: &Replayed<'_>) -> bool {
        self.batch.add(record);
        !self.batch.is_full() || self.flush()
    }

    /// Hands over the records that were added. Returns false if a visit has failed.
    pub(super) fn flush(&mut self) -> bool {
        if self.shared.refused().is_some() {
            self.batch = Batch::default();
            return false;
        }
        if !self.batch.records.is_empty() {
            let fresh = self.shared.used().pop().unwrap_or_default();
            let batch = std::mem::replace(&mut self.batch, fresh);
            let left = match &self.queue {
                Some(queue) => queue.try_send(batch).map_err(|error| match error {
                    TrySendError::Full(batch) | TrySendError::Disconnected(batch) => batch,
                }),
                None => Err(batch),
            };
            if let Err(batch) = left {
                self.shared.apply(batch);
            }
        }
        true
    }
}
