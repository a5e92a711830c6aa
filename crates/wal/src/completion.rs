//! Being told later: a future, and queues of callbacks.
//!
//! Futures are woken by a worker thread of the log (`wakers.rs`). Callbacks run only on the thread that owns their queue, when it calls
//! [`Completions::poll`] and the like. Either may be dropped at any time without changing what becomes durable.
//!
//! Invariant: the callbacks of one queue run in the order they were queued. One that waits for less may wait behind one that waits for more.

use crate::core::Core;
use crate::error::Result;
use crate::log::Log;
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A future that resolves when a position has got to a level. Made by [`Log::wait_async`].
///
/// The request was made when the future was: dropping it, before or after it was polled, changes nothing about the log.
///
/// Wakers are called by a worker thread of the log, which leads nothing and holds nothing, one after another. A waker may use the log, wait for
/// it, or drop its last handle. One that blocks delays the wakers behind it, on this log only, and no commit. One that panics delays
/// nothing. The first future that has to wait starts the thread; polling blocks instead if the system has no thread left.
#[must_use = "a future does nothing unless polled; drop it to not be told"]
pub struct Completion {
    log: Log,
    end: Lsn,
    level: Durability,
    ticket: Option<u64>,
    refused: Option<Result<()>>,
}

impl Completion {
    pub(crate) fn new(log: Log, end: Lsn, level: Durability) -> Self {
        let refused = log.core().check_reserved(end).err().map(Err);
        if refused.is_none() {
            log.core().request(end, level);
        }
        Completion { log, end, level, ticket: None, refused }
    }

    /// The position it waits for.
    pub fn end(&self) -> Lsn {
        self.end
    }

    fn settled(&self) -> Option<Result<()>> {
        self.refused.clone().or_else(|| self.log.core().poll(self.end, self.level))
    }

    fn forget(&mut self) -> Option<Waker> {
        let ticket = self.ticket.take()?;
        self.log.core().wakers.forget(ticket, (self.end, self.level))
    }
}

impl Future for Completion {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if let Some(outcome) = this.settled() {
            drop(this.forget());
            return Poll::Ready(outcome);
        }
        let core = this.log.core();
        // In NVRAM a wait lasts no longer than copies and fences take, and no leader comes by that would have this future woken. And without
        // a thread to wake it, blocking is all that is left.
        if core.store.nvram().is_some() || core.wakers.ensure_thread().is_err() {
            return Poll::Ready(core.wait(this.end, this.level));
        }
        // Cloned before, and what is left over is dropped after the latch was held: a waker's code is not ours.
        let waker = context.waker().clone();
        let (end, level) = (this.end, this.level);
        let left =
            core.wakers.register(&mut this.ticket, (end, level), waker, || core.poll(end, level).is_some());
        drop(left);
        match this.ticket {
            Some(_) => Poll::Pending,
            None => this.settled().map_or(Poll::Pending, Poll::Ready),
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
            .field("end", &self.end)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

/// What [`Session::on_complete`](crate::Session::on_complete) queues.
pub type Callback = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Debug)]
struct Queued<T> {
    end: Lsn,
    level: Durability,
    payload: T,
}

/// A queue of things to be told about, owned by one thread at a time.
///
/// `T` is what is handed back when its position has got to its level: a [`Callback`], or a plain value with
/// [`Completions::poll_with`]. Those still queued when the queue is dropped are dropped untold.
pub struct Completions<T = Callback> {
    log: Log,
    queue: VecDeque<Queued<T>>,
}

impl<T> Completions<T> {
    /// An empty queue.
    pub fn new(log: &Log) -> Self {
        Completions { log: log.clone(), queue: VecDeque::new() }
    }

    /// Queues `payload` until everything below `end` is at `durability`, and asks for that. An `end` beyond the log's is
    /// handed back with an error as soon as it is looked at.
    #[inline]
    pub fn push(&mut self, end: Lsn, durability: Durability, payload: T) {
        self.queue.push_back(Queued { end, level: durability, payload });
        self.log.core().request(end, durability);
    }

    /// How many are queued.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Hands those that are ready to `told`, in order; how many. Never blocks.
    pub fn poll_with(&mut self, mut told: impl FnMut(T, Result<()>)) -> usize {
        if self.queue.is_empty() {
            return 0;
        }
        let core = self.log.core();
        let frontiers = core.frontiers();
        // Read once: the frontiers' lines are being written to.
        let (durable, written) = (frontiers.durable(), frontiers.written());
        let mut ran = 0;
        while let Some(first) = self.queue.front() {
            let reached = match first.level {
                Durability::Buffered => true,
                Durability::Written => first.end <= written,
                Durability::Durable => first.end <= durable,
            };
            let outcome = if reached {
                Ok(())
            } else {
                match self.outcome(first) {
                    Some(outcome) => outcome,
                    None => break,
                }
            };
            let Some(first) = self.queue.pop_front() else { break };
            ran += 1;
            told(first.payload, outcome);
        }
        if ran > 0 {
            core_tally(self.log.core(), ran);
        }
        ran
    }

    #[cold]
    fn outcome(&self, first: &Queued<T>) -> Option<Result<()>> {
        let core = self.log.core();
        core.check_reserved(first.end).err().map(Err).or_else(|| core.poll(first.end, first.level))
    }

    /// Hands out those that are ready, and blocks until fewer than `limit` (at least 1) are queued.
    pub fn wait_below_with(&mut self, limit: usize, mut told: impl FnMut(T, Result<()>)) {
        let limit = limit.max(1);
        self.poll_with(&mut told);
        while self.queue.len() >= limit {
            // The last of them may ask for less than one before it (invariant 3), so each level is waited for.
            let last = self.queue.len() - limit;
            for asked in [Durability::Durable, Durability::Written] {
                let of_level = self.queue.range(..=last).filter(|queued| queued.level == asked);
                if let Some(end) = of_level.map(|queued| queued.end).max() {
                    // How it went is looked at by `poll_with`.
                    let _outcome = self.log.core().wait(end, asked);
                }
            }
            self.poll_with(&mut told);
        }
    }

    /// Hands out all of them, blocking until each is ready.
    pub fn drain_with(&mut self, told: impl FnMut(T, Result<()>)) {
        self.wait_below_with(1, told);
    }
}

impl<F: FnOnce(Result<()>)> Completions<F> {
    /// Runs the callbacks that are ready, in order; how many. Never blocks.
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

fn core_tally(core: &Core, callbacks: usize) {
    core.tally.callbacks.add(callbacks as u64);
}

impl<T> fmt::Debug for Completions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions").field("pending", &self.queue.len()).finish_non_exhaustive()
    }
}
