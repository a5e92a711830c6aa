//! Following a stream: reading its durable records, and waiting for the next one.
//!
//! Any thread may use a follower, one thread at a time. Followers and appending threads share only
//! the start of the log and the durable frontier. Invariants:
//!
//! 1. A record that a follower returns is durable: the follower's reader sees nothing beyond the
//!    durable frontier, which is the end of a record. Every record that a follower has returned
//!    therefore survives a crash.
//! 2. No wake-up is lost. A follower that waits registers a waker for the first position that it
//!    has not seen, under the rules of `wakers.rs`: the waker is counted before the follower reads
//!    the frontier once more.
//! 3. Waiting has no thread and no timer of its own, and asks for no sync: a follower never leads a
//!    write to make a record durable.
//!
//! All state of a follower is in memory only. Recovery needs none of it.
//! [`Log::pin`](crate::Log::pin) retains the records that a follower still has to read.

use crate::core::{Core, locked};
use crate::error::{Error, ReadError, Result};
use crate::head::Head;
use crate::log::Log;
use crate::open_log::OpenLog;
use crate::reader::{Reader, Record, RecordFilter, RecordRef};
use crate::segment::Extent;
use crate::stream::Stream;
use crate::truncated::{Range, Truncations};
use katydid_device::{self as device, Verb};
use katydid_kernels::dependencies::{StreamId, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::stamp::CommitStamp;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The durable part of a stream.
#[derive(Debug)]
pub(crate) struct Durable(pub(crate) Arc<Core>);

impl Extent for Durable {
    fn start(&self) -> Lsn {
        self.0.medium.start()
    }

    fn written(&self) -> Lsn {
        let readable = self.0.medium.readable(&self.0);
        self.0.frontiers().durable().min(readable)
    }

    fn truncations(&self) -> Option<Arc<Truncations>> {
        Some(self.0.truncations.clone())
    }
}

/// A reader of the durable records of one stream, in the order of their LSNs. A follower can wait
/// for more records. Made by [`Stream::follow`].
///
/// ```
/// use katydid_wal::{Append, Kind, Log, Options};
/// # use katydid_device::SimDevice;
/// # let directory = SimDevice::new(1).directory();
/// let log = Log::open_in(directory, Options::default())?;
/// let mut follower = log.first().follow(log.first().start())?;
/// log.session()?.append(&Append::new(Kind::USER, &[b"record"]))?;
/// assert!(follower.try_next()?.is_none(), "it is not durable yet");
/// log.sync()?;
/// assert_eq!(follower.next()?.payload, b"record");
/// # log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Follower {
    stream: Stream,
    extent: Durable,
    reader: Reader,
    /// Number of the stream's truncations that the follower has reported, or need not report.
    seen: usize,
    /// The ticket of the registered waker, and the position that it waits for.
    waits: Option<(u64, Lsn)>,
}

impl Stream {
    /// Returns a follower of the durable records from `from` on. `from` is the start of a record,
    /// or [`Stream::durable`].
    ///
    /// A follower passes over records that [`Stream::truncate_after`] has dropped. If the follower
    /// has returned some of these records, its next call returns [`ReadError::Truncated`] once. The
    /// records at and above the error's position `from` are no longer part of the stream.
    ///
    /// # Errors
    /// [`Error::Read`] if `from` is outside of the durable log. [`ReadError::Truncated`] if `from`
    /// is inside of a part that was dropped before: a consumer that stopped there has read dropped
    /// records, and must follow from the beginning of that part.
    pub fn follow(&self, from: Lsn) -> Result<Follower> {
        let source = self.core().medium.source();
        let truncations = &self.core().truncations;
        let seen = truncations.made();
        if let Some(Range { from: beginning, to }) = truncations.inside(from) {
            return Err(ReadError::Truncated { at: from, from: beginning, to }.into());
        }
        let extent = Durable(self.shared_core());
        let reader = Reader::new(source, Arc::new(Durable(self.shared_core())), from, RecordFilter::Users)?;
        Ok(Follower { stream: self.clone(), extent, reader, seen, waits: None })
    }
}

impl Follower {
    /// Returns the position at which the follower looks for the next record. This is the end of the
    /// last returned record, or of a dropped part that the follower has skipped since.
    pub fn position(&self) -> Lsn {
        self.reader.position()
    }

    /// Returns the next record if it is durable. Never blocks.
    ///
    /// # Errors
    /// Those of [`Reader::next_record`], as [`Error::Read`]; the position stays as it is.
    /// [`ReadError::Trimmed`] if the log was trimmed past the follower. [`ReadError::Truncated`]
    /// once, if a part of the log below the position was dropped; call again to go on.
    /// [`Error::Closed`] if the log was closed and the record cannot be read any more: the next
    /// opening may have trimmed it.
    pub fn try_next(&mut self) -> Result<Option<RecordRef<'_>>> {
        let (truncations, at) = (&self.stream.core().truncations, self.position());
        let made = truncations.made();
        if made != self.seen {
            let dropped = truncations.since(self.seen, at);
            self.seen = made;
            if let Some(Range { from, to }) = dropped {
                return Err(ReadError::Truncated { at, from, to }.into());
            }
        }
        self.reader.next_record().map_err(|error| self.stream.found(error))
    }

    /// Returns the next record; blocks until it is durable.
    ///
    /// # Errors
    /// Those of [`Follower::try_next`]. [`Error::Closed`] or [`Error::Poisoned`] if the log has
    /// ended and every durable record was returned. [`Error::Device`] if the thread that calls
    /// wakers cannot be started.
    #[expect(clippy::should_implement_trait, reason = "a log has no end at which an iterator would stop")]
    pub fn next(&mut self) -> Result<Record> {
        loop {
            if let Some(record) = self.try_next()? {
                return Ok(record.to_record());
            }
            self.wait()?;
        }
    }

    /// Returns the next record when it is durable. Dropping the future loses no record.
    ///
    /// # Errors
    /// Those of [`Follower::next`].
    pub async fn next_async(&mut self) -> Result<Record> {
        loop {
            if let Some(record) = self.try_next()? {
                return Ok(record.to_record());
            }
            poll_fn(|context| self.poll_more(context)).await?;
        }
    }

    /// Blocks until the log is durable beyond [`Follower::position`].
    ///
    /// # Errors
    /// [`Error::Closed`] or [`Error::Poisoned`] if the log has ended. [`Error::Device`] if the
    /// thread that calls wakers cannot be started.
    pub fn wait(&mut self) -> Result<()> {
        let log = self.stream.log().clone();
        block_on(&log, |context| self.poll_more(context))
    }

    /// Returns ready if the log is durable beyond [`Follower::position`], even if the only record
    /// there is one of the log's own. Otherwise registers the waker, in place of an earlier one.
    ///
    /// # Errors
    /// [`Error::Closed`] or [`Error::Poisoned`] if the log has ended. [`Error::Device`] if the
    /// thread that calls wakers cannot be started.
    pub fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let at = self.position().plus(1);
        let core = self.stream.core();
        let settled = |core: &Core| core.is_kept(at) || core.is_over();
        if settled(core) {
            return Poll::Ready(self.more(at));
        }
        if let Err(error) = core.wakers.ensure_thread() {
            let error = device::Error::from_io(Verb::Open, "the thread that calls wakers", error);
            return Poll::Ready(Err(error.into()));
        }
        if self.waits.is_some_and(|(_, end)| end != at) {
            drop(self.forget());
        }
        let core = self.stream.core();
        let mut ticket = self.waits.map(|(ticket, _)| ticket);
        let waker = context.waker().clone();
        let left = core.wakers.register(&mut ticket, (at, Durability::Durable), waker, || settled(core));
        self.waits = ticket.map(|ticket| (ticket, at));
        drop(left);
        match self.waits {
            Some(_) => Poll::Pending,
            None => Poll::Ready(self.more(at)),
        }
    }

    /// Returns the outcome of a wait for `at` that has ended.
    fn more(&mut self, at: Lsn) -> Result<()> {
        drop(self.forget());
        let core = self.stream.core();
        core.look();
        if self.extent.written() >= at || !core.is_over() {
            return Ok(());
        }
        Err(core.failure().map_or(Error::Closed, |cause| Error::Poisoned { cause }))
    }

    fn forget(&mut self) -> Option<Waker> {
        let (ticket, at) = self.waits.take()?;
        self.stream.core().wakers.forget(ticket, (at, Durability::Durable))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.forget());
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("stream", &self.stream)
            .field("at", &self.position())
            .finish_non_exhaustive()
    }
}

/// Notifies a thread that blocks.
#[derive(Default)]
struct ThreadWaker {
    notified: Mutex<bool>,
    changed: Condvar,
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        *locked(&self.notified) = true;
        self.changed.notify_one();
    }
}

/// Blocks until `poll` is ready.
pub(crate) fn block_on<T>(log: &OpenLog, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let thread_waker = Arc::new(ThreadWaker::default());
    let waker = Waker::from(thread_waker.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = poll(&mut context) {
            return value;
        }
        // If a log has no threads, this thread does their work.
        log.streams.iter().for_each(|stream| stream.core.run_background());
        let mut notified = locked(&thread_waker.notified);
        while !std::mem::take(&mut *notified) {
            notified = thread_waker.changed.wait(notified).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The decision whether a durable record with a stamp is kept, as far as its dependencies are
/// known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyStatus {
    /// All dependencies of the record are durable.
    Kept,
    /// A dependency was lost in a crash, so the record is dropped.
    Dropped,
    /// A dependency is not durable yet.
    Undecided,
}

/// The parts of the body of a stamped record.
#[derive(Debug, Clone, Copy)]
pub struct Stamped<'a> {
    /// The transaction's place in the order of commits.
    pub stamp: CommitStamp,
    /// The decision whether the record is kept, as far as its dependencies are known now.
    pub status: DependencyStatus,
    /// The payload, without dependencies.
    pub payload: &'a [u8],
}

impl Log {
    /// Splits the body of a stamped record into its parts. The record must come from a follower of
    /// `stream`.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] if the body is not that of a stamped record.
    pub fn stamped<'a>(
        &self,
        stream: StreamId,
        record: &RecordRef<'a>,
    ) -> std::result::Result<Stamped<'a>, ReadError> {
        let open = self.inside();
        let head = Head::decode(record.chain, record.payload, open.streams.len()).map_err(|reason| {
            let file = open.core(stream).medium.source().file_name(record.lsn);
            ReadError::Corrupt { at: record.lsn, file, reason }
        })?;
        let status = |(at, incarnation): (StreamLsn, u32)| {
            if incarnation == open.incarnation(at.stream) {
                if self.is_durable(at) { DependencyStatus::Kept } else { DependencyStatus::Undecided }
            } else if open.incarnations[at.stream.index()].holds(incarnation, at.end) {
                DependencyStatus::Kept
            } else {
                DependencyStatus::Dropped
            }
        };
        let statuses = head.positions().map(status);
        let worst = statuses.fold(DependencyStatus::Kept, |worst, status| match (worst, status) {
            (DependencyStatus::Dropped, _) | (_, DependencyStatus::Dropped) => DependencyStatus::Dropped,
            (DependencyStatus::Undecided, _) | (_, DependencyStatus::Undecided) => {
                DependencyStatus::Undecided
            }
            _ => DependencyStatus::Kept,
        });
        Ok(Stamped { stamp: head.stamp, status: worst, payload: head.payload })
    }

    /// Passes a waker to the thread that calls wakers. A follower must have waited before, because
    /// its wait starts that thread. A caller that holds a latch uses this if the waker might take
    /// that latch.
    #[doc(hidden)]
    pub fn call(&self, waker: Waker) {
        self.first().core().wakers.hand_over(waker);
    }

    /// Blocks until `poll` is ready. If the log has no background threads, this thread does their
    /// work meanwhile.
    #[doc(hidden)]
    pub fn block_on<T>(&self, poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        block_on(self.inside(), poll)
    }
}
