//! Batches of records: one thread reads a stream, and all threads apply its records.
//!
//! A dealer, on the thread that reads a stream, copies records into a batch and gives a full batch
//! to an applier. If all appliers are busy and their queue is full, the dealer's own thread applies
//! the batch. So no thread waits while there is something to do, whichever of reading and applying
//! costs more. Without appliers (none are wanted, or none could be started) the dealers do
//! everything in order.
//!
//! 1. Every record is visited once, on some thread, in any order; only after a visit has failed are
//!    the rest thrown away.
//! 2. When [`with_appliers`] returns, no visit is under way.
//! 3. Memory is a few batches for each thread, whatever a stream contains; one record may be larger
//!    than a batch, and is then alone in it or the last.

use super::Replayed;
use katydid_kernels::dependencies::StreamLsn;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Kind;
use katydid_kernels::stamp::CommitStamp;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a batch; few in debug builds, so that the logs of tests fill many.
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
    /// The records.
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
    /// The first that a visit refused. A leaf latch, as the next.
    refused: Mutex<Option<E>>,
    /// Empty ones: fresh memory for each batch would cost more than filling it.
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
    /// None: there are none.
    queue: Option<SyncSender<Batch>>,
}

impl<'a, E> Appliers<'a, E> {
    /// A dealer, for one thread.
    pub(super) fn dealer(&self) -> Dealer<'a, E> {
        Dealer { shared: self.shared, queue: self.queue.clone(), batch: Batch::default() }
    }
}

/// Does `work` beside this number of appliers. Returns its result, and the error of the first visit
/// that was refused.
pub(super) fn with_appliers<E: Send, R>(
    count: usize,
    visit: &Visit<'_, E>,
    work: impl FnOnce(&Appliers<'_, E>) -> R,
) -> (R, Option<E>) {
    let shared = Shared { visit, refused: Mutex::new(None), used: Mutex::default() };
    let outcome = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(count);
        // Theirs alone: if all have panicked, nothing is sent to them any more.
        let receiver = Arc::new(Mutex::new(receiver));
        let started = (0..count).filter(|_| {
            let (shared, receiver) = (&shared, receiver.clone());
            let name = "katydid-apply".to_owned();
            let applier = move || {
                while let Some(batch) = next(&receiver) {
                    shared.apply(batch);
                }
            };
            // What cannot be helped with is done by the dealers.
            std::thread::Builder::new().name(name).spawn_scoped(scope, applier).is_ok()
        });
        let queue = (started.count() > 0).then_some(sender);
        drop(receiver);
        // Dropped with the last dealer's, it ends the appliers.
        work(&Appliers { shared: &shared, queue })
    });
    let refused = shared.refused().take();
    (outcome, refused)
}

fn next(receiver: &Mutex<Receiver<Batch>>) -> Option<Batch> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Deals out what one thread reads.
pub(super) struct Dealer<'a, E> {
    shared: &'a Shared<'a, E>,
    queue: Option<SyncSender<Batch>>,
    batch: Batch,
}

impl<E> Dealer<'_, E> {
    /// Adds a record, which is visited at the latest at the next [`Dealer::flush`]. Returns whether
    /// it is worth going on.
    #[inline]
    pub(super) fn add(&mut self, record: &Replayed<'_>) -> bool {
        self.batch.add(record);
        !self.batch.is_full() || self.flush()
    }

    /// Hands over what was added. Returns whether it is worth going on.
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
