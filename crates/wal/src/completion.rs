//! Being told later: a future, and queues of callbacks.
//!
//! Futures are woken by the holder of the baton; callbacks run only on the thread that owns their queue, when it calls
//! [`Completions::poll`] and the like. Either may be dropped at any time without changing what becomes durable.
//!
//! Invariants:
//!
//! 1. A waker is registered under the lock and the frontiers are looked at once more under it; whoever moves a frontier takes
//!    the lock afterwards. So either the waker is seen, or the movement is.
//! 2. Wakers are called outside the lock. They must not block on this log.
//!    A log in NVRAM has no wakers: who polls persists what is missing himself, when a copy has ended that is being made.
//! 3. The callbacks of one queue run in the order they were queued: one that waits for less may wait behind one that
//!    waits for more.

use crate::core::{Core, locked};
use crate::error::Result;
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::Durability;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

/// Wakers of futures that are waiting.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// Held for a few instructions by pollers and by the holder of the baton. A leaf latch.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    written: BTreeMap<(Lsn, u64), Waker>,
    durable: BTreeMap<(Lsn, u64), Waker>,
    next: u64,
}

impl Waiting {
    fn of(&mut self, level: Durability) -> &mut BTreeMap<(Lsn, u64), Waker> {
        match level {
            Durability::Buffered | Durability::Written => &mut self.written,
            Durability::Durable => &mut self.durable,
        }
    }
}

impl Wakers {
    /// Wakes those for whose end and level `settled` holds. It must be monotone in the end.
    pub(crate) fn release(&self, settled: impl Fn(Lsn, Durability) -> bool) {
        let mut ready = Vec::new();
        {
            let mut waiting = locked(&self.waiting);
            for level in [Durability::Written, Durability::Durable] {
                let waiting = waiting.of(level);
                while let Some(first) = waiting.first_entry()
                    && settled(first.key().0, level)
                {
                    ready.push(first.remove());
                }
            }
        }
        for waker in ready {
            // Whoever wakes holds the baton: a panic of somebody's waker, which has been reported by itself, must not
            // leave everybody else waiting for ever.
            let _panicked = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

/// A future that resolves when a position has got to a level. Made by [`Log::wait_async`].
///
/// The request was made when the future was: dropping it, before or after it was polled, changes nothing about the log.
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
        locked(&self.log.core().wakers.waiting).of(self.level).remove(&(self.end, ticket))
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
        if this.log.core().store.nvram().is_some() {
            // As long as copies and fences take: nobody would wake this future then.
            return Poll::Ready(this.log.core().wait(this.end, this.level));
        }
        // Cloned before and dropped after the lock: a waker's code is not ours (invariant 2).
        let waker = context.waker().clone();
        let replaced = {
            let mut waiting = locked(&this.log.core().wakers.waiting);
            let ticket = *this.ticket.get_or_insert_with(|| {
                waiting.next += 1;
                waiting.next
            });
            let replaced = waiting.of(this.level).insert((this.end, ticket), waker);
            if this.settled().is_none() {
                drop(waiting);
                drop(replaced);
                return Poll::Pending;
            }
            replaced
        };
        drop(replaced);
        drop(this.forget());
        this.settled().map_or(Poll::Pending, Poll::Ready)
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
