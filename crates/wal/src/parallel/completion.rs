//! Being told later that a place and all it depends on are durable: a future, and queues.
//!
//! As `completion` for one log, with its rules. Either may be dropped at any time without changing what becomes durable. A queue belongs to
//! one thread at a time, and remembers how far it has seen each stream's frontiers: they are read again only when the first one queued
//! waits for more. So being told costs a few loads from the queue's own memory.

use super::log::ParallelLog;
use crate::completion::{Callback, Completion};
use crate::error::Result;
use crate::log::Log;
use katydid_kernels::dependencies::{Dependencies, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that resolves when a place and all it depends on have got to a level. Made by [`ParallelLog::wait_async`].
///
/// The requests were made when the future was: dropping it, before or after it was polled, changes nothing about the log.
#[must_use = "a future does nothing unless polled; drop it to not be told"]
pub struct ParallelCompletion {
    /// Those to come; the next one last.
    waits: SmallVec<[Completion; 2]>,
}

impl ParallelCompletion {
    pub(super) fn new(
        log: &ParallelLog,
        place: StreamLsn,
        depends: &Dependencies,
        level: Durability,
    ) -> Self {
        let mut waits = SmallVec::new();
        if level != Durability::Buffered {
            waits.extend(depends.iter().map(|place| log.stream(place.stream).wait_async(place.end, level)));
            waits.push(log.stream(place.stream).wait_async(place.end, level));
        }
        ParallelCompletion { waits }
    }
}

impl Future for ParallelCompletion {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(next) = self.waits.last_mut() {
            match Pin::new(next).poll(context) {
                Poll::Ready(Ok(())) => drop(self.waits.pop()),
                // It stays the next one, and says the same again.
                other => return other,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for ParallelCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelCompletion").field("waits", &self.waits).finish()
    }
}

#[derive(Debug)]
struct Queued<T> {
    place: StreamLsn,
    depends: Dependencies,
    level: Durability,
    payload: T,
}

/// How far a stream was seen, and what was asked of it, at one level.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    reached: Lsn,
    requested: Lsn,
}

/// What a queue remembers of each stream.
#[derive(Debug)]
struct Memory {
    written: Box<[Seen]>,
    durable: Box<[Seen]>,
}

impl Memory {
    #[inline]
    fn of(&mut self, place: StreamLsn, level: Durability) -> &mut Seen {
        let index = place.stream.index();
        match level {
            Durability::Buffered | Durability::Written => &mut self.written[index],
            Durability::Durable => &mut self.durable[index],
        }
    }

    /// Whether the place is at the level; an error if it never will be.
    #[inline]
    fn look(&mut self, log: &ParallelLog, place: StreamLsn, level: Durability) -> Option<Result<()>> {
        let seen = self.of(place, level);
        if place.end <= seen.reached {
            return Some(Ok(()));
        }
        let stream = log.stream(place.stream);
        seen.reached = match level {
            Durability::Buffered | Durability::Written => stream.written(),
            Durability::Durable => stream.durable(),
        };
        if place.end <= seen.reached {
            return Some(Ok(()));
        }
        outcome(stream, place.end, level)
    }

    /// Asks for it, if that is still to be done; whether there is anything to wait for.
    #[inline]
    fn request(&mut self, log: &ParallelLog, place: StreamLsn, level: Durability) -> bool {
        let seen = self.of(place, level);
        if place.end <= seen.reached {
            return false;
        }
        if place.end > seen.requested {
            seen.requested = place.end;
            log.stream(place.stream).request(place.end, level);
        }
        true
    }
}

#[cold]
fn outcome(stream: &Log, end: Lsn, level: Durability) -> Option<Result<()>> {
    let core = stream.core();
    core.check_reserved(end).err().map(Err).or_else(|| core.poll(end, level))
}

/// A queue of things to be told about, owned by one thread at a time; in order.
///
/// `T` is what is handed back when its place and all it depends on have got to its level: a [`Callback`], or a plain value with
/// [`ParallelCompletions::poll_with`]. Those still queued when the queue is dropped are dropped untold.
pub struct ParallelCompletions<T = Callback> {
    log: ParallelLog,
    queue: VecDeque<Queued<T>>,
    memory: Memory,
}

impl<T> ParallelCompletions<T> {
    /// An empty queue.
    pub fn new(log: &ParallelLog) -> Self {
        let none = || vec![Seen::default(); log.streams().len()].into_boxed_slice();
        let memory = Memory { written: none(), durable: none() };
        ParallelCompletions { log: log.clone(), queue: VecDeque::new(), memory }
    }

    /// Queues `payload` until the place and all it depends on are at `durability`, and asks for that. What lies beyond the end of its stream
    /// is handed back with an error as soon as it is looked at.
    #[inline]
    pub fn push(&mut self, place: StreamLsn, depends: &Dependencies, durability: Durability, payload: T) {
        let mut waits = Dependencies::default();
        if durability != Durability::Buffered {
            self.memory.request(&self.log, place, durability);
            for place in depends.iter() {
                if self.memory.request(&self.log, place, durability) {
                    waits.join(place);
                }
            }
        }
        self.queue.push_back(Queued { place, depends: waits, level: durability, payload });
    }

    /// How many are queued.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Hands those that are ready to `told`, in order; how many. Never blocks.
    pub fn poll_with(&mut self, mut told: impl FnMut(T, Result<()>)) -> usize {
        let mut ran = 0;
        let mut last = None;
        while let Some(first) = self.queue.front() {
            let Some(outcome) = settled(&mut self.memory, &self.log, first) else { break };
            let Some(first) = self.queue.pop_front() else { break };
            ran += 1;
            last = Some(first.place);
            told(first.payload, outcome);
        }
        if let Some(place) = last {
            self.log.stream(place.stream).core().tally.callbacks.add(ran as u64);
        }
        ran
    }

    /// Hands out those that are ready, and blocks until fewer than `limit` (at least 1) are queued.
    pub fn wait_below_with(&mut self, limit: usize, mut told: impl FnMut(T, Result<()>)) {
        let limit = limit.max(1);
        self.poll_with(&mut told);
        while self.queue.len() >= limit {
            // Those before the last one may ask for more than it does.
            let last = self.queue.len() - limit;
            for place in self.missing(last) {
                // How it went is looked at by `poll_with`.
                let _outcome = self.log.stream(place.1.stream).wait(place.1.end, place.0);
            }
            self.poll_with(&mut told);
        }
    }

    /// The farthest place of each stream and level that those up to the one of this index wait for.
    fn missing(&self, last: usize) -> SmallVec<[(Durability, StreamLsn); 4]> {
        let mut farthest: SmallVec<[(Durability, StreamLsn); 4]> = SmallVec::new();
        for queued in self.queue.range(..=last).filter(|queued| queued.level != Durability::Buffered) {
            for place in std::iter::once(queued.place).chain(queued.depends.iter()) {
                let known = farthest
                    .iter_mut()
                    .find(|(level, known)| (*level, known.stream) == (queued.level, place.stream));
                match known {
                    Some((_, known)) => known.end = known.end.max(place.end),
                    None => farthest.push((queued.level, place)),
                }
            }
        }
        farthest
    }

    /// Hands out all of them, blocking until each is ready.
    pub fn drain_with(&mut self, told: impl FnMut(T, Result<()>)) {
        self.wait_below_with(1, told);
    }
}

/// How the queued one came out, or that it has not yet.
#[inline]
fn settled<T>(memory: &mut Memory, log: &ParallelLog, queued: &Queued<T>) -> Option<Result<()>> {
    if queued.level == Durability::Buffered {
        return Some(Ok(()));
    }
    let mut places = std::iter::once(queued.place).chain(queued.depends.iter());
    places.try_fold(Ok(()), |sofar: Result<()>, place| match sofar {
        Ok(()) => memory.look(log, place, queued.level),
        failed => Some(failed),
    })
}

impl<F: FnOnce(Result<()>)> ParallelCompletions<F> {
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

impl<T> fmt::Debug for ParallelCompletions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelCompletions").field("pending", &self.queue.len()).finish_non_exhaustive()
    }
}
