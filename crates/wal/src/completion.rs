//! Waiting without blocking: a future, and queues of callbacks.
//!
//! A worker thread of the log wakes futures (`wakers.rs`). Callbacks run only on the thread that
//! owns their queue, when that thread polls or waits. A future or a queue may be dropped at any
//! time without changing what becomes durable. A queue belongs to one thread at a time, and
//! remembers, for each stream, the frontiers that it has read last. The queue reads a frontier
//! again only when its first callback waits for a higher position, so a poll costs a few loads from
//! the queue's own memory.
//!
//! A future or a callback waits for a position, and for its dependencies in other streams.
//!
//! Invariant: the callbacks of one queue run in the order they were queued. A callback with a lower
//! durability may wait behind a callback with a higher one.

use crate::core::Core;
use crate::error::{Error, Result};
use crate::open_log::OpenLog;
use crate::stream::Stream;
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// A future that is ready when a position and its dependencies are at a durability. Made by
/// [`Log::wait_async`](crate::Log::wait_async) and [`Stream::wait_async`].
///
/// The log is asked for that durability when the future is made; polling only tells the caller the
/// outcome. So dropping the future, polled or not, does not change what the log does.
///
/// A worker thread of the log calls the wakers, one after another. The thread holds no latch of the
/// log, and never writes or syncs for others. A waker may use the log, wait for it, or drop its
/// last handle. A waker that blocks delays the wakers behind it on this stream, but no commit. A
/// waker that panics delays nothing. The first future that has to wait starts the thread; if the
/// system cannot start one, polling blocks instead.
#[must_use = "a future does nothing unless polled; drop it if no notification is needed"]
pub struct Completion {
    /// Stream and end of the position that the future waits for now.
    stream: Stream,
    end: Lsn,
    /// Positions in other streams that the future waits for, once `stream` has reached `end`.
    rest: Dependencies,
    level: Durability,
    ticket: Option<u64>,
    refused: Option<Error>,
}

impl Completion {
    pub(crate) fn new(stream: Stream, end: Lsn, rest: Dependencies, level: Durability) -> Self {
        let mut refused = None;
        for at in std::iter::once(stream.at(end)).chain(rest.iter()) {
            let core = stream.log().core(at.stream);
            match core.check_reserved(at.end) {
                Ok(()) => core.request(at.end, level),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Completion { stream, end, rest, level, ticket: None, refused }
    }

    fn settled(&self) -> Option<Result<()>> {
        match &self.refused {
            Some(refused) => Some(Err(refused.clone())),
            None => self.stream.core().poll(self.end, self.level),
        }
    }

    fn forget(&mut self) -> Option<Waker> {
        let ticket = self.ticket.take()?;
        self.stream.core().wakers.forget(ticket, (self.end, self.level))
    }

    /// Polls for the current stream and end.
    fn poll_current(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(outcome) = self.settled() {
            drop(self.forget());
            return Poll::Ready(outcome);
        }
        let core = self.stream.core();
        // Without a thread that would wake this future, the poll must block.
        if core.wakers.ensure_thread().is_err() {
            return Poll::Ready(core.wait(self.end, self.level));
        }
        // Cloning and dropping a waker run foreign code. So the waker is cloned before the latch is
        // taken, and the old one is dropped after the latch is released.
        let waker = context.waker().clone();
        let (end, level) = (self.end, self.level);
        let left =
            core.wakers.register(&mut self.ticket, (end, level), waker, || core.is_settled(end, level));
        drop(left);
        match self.ticket {
            Some(_) => Poll::Pending,
            None => self.settled().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

impl Future for Completion {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        loop {
            let outcome = ready!(this.poll_current(context));
            // After a failure the future keeps its position, and returns the same error at the next
            // poll.
            if outcome.is_err() {
                return Poll::Ready(outcome);
            }
            let Some(next) = this.rest.pop() else { return Poll::Ready(Ok(())) };
            this.stream = this.stream.sibling(next.stream);
            this.end = next.end;
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        drop(self.forget());
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("at", &self.stream.at(self.end))
            .field("rest", &self.rest)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

/// A callback that [`Session::on_complete`](crate::Session::on_complete) queues.
pub type Callback = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Debug)]
struct Queued<T> {
    at: StreamLsn,
    dependencies: Dependencies,
    level: Durability,
    payload: T,
}

impl<T> Queued<T> {
    /// Returns all positions that the completion waits for.
    #[inline]
    fn positions(&self) -> impl Iterator<Item = StreamLsn> + '_ {
        std::iter::once(self.at).chain(self.dependencies.iter())
    }
}

/// The farthest position of one stream that a queue knows to be at one level, and the farthest
/// position for which the queue has requested this level.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    reached: Lsn,
    requested: Lsn,
}

/// The known and the requested positions of a queue, for each stream and level.
#[derive(Debug)]
struct Memory {
    written: Box<[Seen]>,
    durable: Box<[Seen]>,
}

impl Memory {
    #[inline]
    fn of(&mut self, at: StreamLsn, level: Durability) -> &mut Seen {
        let index = at.stream.index();
        match level {
            Durability::Buffered | Durability::Written => &mut self.written[index],
            Durability::Durable => &mut self.durable[index],
        }
    }

    /// Returns the outcome if the position is at the level, or will never be; otherwise `None`.
    #[inline]
    fn look(&mut self, log: &OpenLog, at: StreamLsn, level: Durability) -> Option<Result<()>> {
        let seen = self.of(at, level);
        if at.end <= seen.reached {
            return Some(Ok(()));
        }
        seen.reached = match level {
            Durability::Buffered | Durability::Written => log.written(at.stream),
            Durability::Durable => log.durable(at.stream),
        };
        if at.end <= seen.reached {
            return Some(Ok(()));
        }
        outcome(log.core(at.stream), at.end, level)
    }

    /// Requests the level for the position, unless the queue has requested it before. Returns
    /// whether the queue still has to wait for the position.
    #[inline]
    fn request(&mut self, log: &OpenLog, at: StreamLsn, level: Durability) -> bool {
        let seen = self.of(at, level);
        if at.end <= seen.reached {
            return false;
        }
        if at.end > seen.requested {
            let core = log.core(at.stream);
            // If `at` lies beyond the reserved frontier, the log serves the request only up to that
            // frontier. So only that much is noted as requested, and a later push of a position
            // above that frontier requests again.
            seen.requested = at.end.min(core.frontiers().reserved());
            core.request(at.end, level);
        }
        true
    }
}

#[cold]
fn outcome(core: &Core, end: Lsn, level: Durability) -> Option<Result<()>> {
    core.check_reserved(end).err().map(Err).or_else(|| core.poll(end, level))
}

/// A queue of notifications, in order, owned by one thread at a time. Made by
/// [`Log::completions`](crate::Log::completions) and [`Stream::completions`].
///
/// The queue returns a `T` when the position of that `T` and its dependencies are at the durability
/// asked for. `T` is a [`Callback`], or a plain value with [`Completions::poll_with`]. Dropping the
/// queue drops every `T` that is left, without a call.
pub struct Completions<T = Callback> {
    log: Arc<OpenLog>,
    queue: VecDeque<Queued<T>>,
    memory: Memory,
    /// The stream of the latest request; `None` if the owner has offered to write since that
    /// request.
    asked_of: Option<StreamId>,
}

impl<T> Completions<T> {
    /// Makes an empty queue.
    pub(crate) fn new(log: &Arc<OpenLog>) -> Self {
        let none = || vec![Seen::default(); log.streams.len()].into_boxed_slice();
        let memory = Memory { written: none(), durable: none() };
        Completions { log: log.clone(), queue: VecDeque::new(), memory, asked_of: None }
    }

    /// Queues `payload` until the position and its dependencies are at `durability`, and requests
    /// that durability from the log. If a position is beyond the end of its stream and `durability`
    /// is not `Buffered`, `payload` is reported with an error when its turn comes.
    ///
    /// # Panics
    /// If the log does not have the stream of a position.
    #[inline]
    pub fn push(&mut self, at: StreamLsn, dependencies: &Dependencies, durability: Durability, payload: T) {
        let mut waits = Dependencies::default();
        if durability != Durability::Buffered {
            if self.memory.request(&self.log, at, durability) {
                self.asked_of = Some(at.stream);
            }
            for at in dependencies.iter() {
                if self.memory.request(&self.log, at, durability) {
                    waits.join(at);
                }
            }
        }
        self.queue.push_back(Queued { at, dependencies: waits, level: durability, payload });
    }

    /// Returns the number of queued completions.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Calls `notify` with the completions that are ready, in order, and returns their number.
    /// Never blocks.
    pub fn poll_with(&mut self, mut notify: impl FnMut(T, Result<()>)) -> usize {
        let mut ran = 0;
        let mut last = None;
        while let Some(first) = self.queue.front() {
            let Some(outcome) = settled(&mut self.memory, &self.log, first) else { break };
            let Some(first) = self.queue.pop_front() else { break };
            ran += 1;
            last = Some(first.at);
            notify(first.payload, outcome);
        }
        if let Some(at) = last {
            self.log.core(at.stream).tally.callbacks.add(ran as u64);
        }
        ran
    }

    /// Empties the queue, and returns all payloads in order, ready or not. The log still makes the
    /// requested positions durable.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.queue).into_iter().map(|queued| queued.payload)
    }

    /// Calls `notify` with the completions that are ready, and blocks until fewer than `limit` (at
    /// least 1) are queued. With [`SyncKind::Inline`](crate::SyncKind::Inline) the calling thread
    /// first writes the group, if the group is complete.
    pub fn wait_below_with(&mut self, limit: usize, mut notify: impl FnMut(T, Result<()>)) {
        let limit = limit.max(1);
        // With a protocol by which committing threads write (`inline`), this thread now writes the
        // group, if the group is complete.
        if let Some(stream) = self.asked_of.take() {
            self.log.core(stream).offer();
        }
        self.poll_with(&mut notify);
        while self.queue.len() >= limit {
            // All completions up to index `last` must be ready, and an earlier one may wait for a
            // higher position or level than the completion `last` itself.
            let last = self.queue.len() - limit;
            for (level, at) in self.missing(last) {
                // `poll_with` reports the outcome.
                let _outcome = self.log.core(at.stream).wait(at.end, level);
            }
            self.poll_with(&mut notify);
        }
    }

    /// Returns, for each stream and level, the farthest position that a completion up to index
    /// `last` waits for.
    fn missing(&self, last: usize) -> SmallVec<[(Durability, StreamLsn); 4]> {
        let mut farthest: SmallVec<[(Durability, StreamLsn); 4]> = SmallVec::new();
        for queued in self.queue.range(..=last).filter(|queued| queued.level != Durability::Buffered) {
            for at in queued.positions() {
                let known = farthest
                    .iter_mut()
                    .find(|(level, known)| (*level, known.stream) == (queued.level, at.stream));
                match known {
                    Some((_, known)) => known.end = known.end.max(at.end),
                    None => farthest.push((queued.level, at)),
                }
            }
        }
        farthest
    }

    /// Calls `notify` with all completions, and blocks until each is ready.
    pub fn drain_with(&mut self, notify: impl FnMut(T, Result<()>)) {
        self.wait_below_with(1, notify);
    }
}

/// Returns the outcome of a queued completion; `None` if it still waits.
#[inline]
fn settled<T>(memory: &mut Memory, log: &OpenLog, queued: &Queued<T>) -> Option<Result<()>> {
    if queued.level == Durability::Buffered {
        return Some(Ok(()));
    }
    let mut outcome = memory.look(log, queued.at, queued.level);
    for at in queued.dependencies.iter() {
        if !matches!(outcome, Some(Ok(()))) {
            break;
        }
        outcome = memory.look(log, at, queued.level);
    }
    outcome
}

impl<F: FnOnce(Result<()>)> Completions<F> {
    /// Runs the callbacks that are ready, in order, and returns their number. Never blocks.
    pub fn poll(&mut self) -> usize {
        self.poll_with(|callback, outcome| callback(outcome))
    }

    /// Runs ready callbacks, and blocks until fewer than `limit` (at least 1) are pending.
    pub fn wait_below(&mut self, limit: usize) {
        self.wait_below_with(limit, |callback, outcome| callback(outcome));
    }

    /// Runs all callbacks, blocking until each is ready.
    pub fn drain(&mut self) {
        self.wait_below(1);
    }
}

impl<T> fmt::Debug for Completions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions").field("pending", &self.queue.len()).finish_non_exhaustive()
    }
}
