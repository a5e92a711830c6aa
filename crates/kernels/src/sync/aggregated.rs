//! Protocol `aggregated`: requests with completion flags in a queue; who wins the sync lock syncs once for all of them, and
//! they leave without
//! taking the lock.
//!
//! Efficient flushing, section 3.1. Each committer writes, enters its request into the primary queue, and tries the sync lock.
//! The
//! winner closes the primary queue by swapping it with the empty secondary one, syncs for the largest LSN in it, and completes
//! all.
//! Ours to settle, since the paper does not say: who syncs for those that came after the swap. The winner wakes the first of them
//! when it has given the lock back; that one competes for it with whoever comes by.
//!
//! Invariants:
//!
//! 1. A request is in the primary queue, or in the winner's hands, until its flag is set.
//! 2. Whoever gives the lock back looks at the primary queue afterwards; whoever enters a request tries the lock afterwards, or
//!    is woken to. Both under the queue's
//!    latch or in sequence with the lock's, so a request left behind is seen by one of them.

use super::grouped::Writing;
use super::requests::Requests;
use super::rounds::{Rounds, Stopwatch, SyncProtocol};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU32, Mutex, Ordering, Thread, current, park, return_token};
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};

#[derive(Debug)]
struct Request {
    end: Lsn,
    thread: Thread,
    // WAITING, TRY or DONE, which is the completion flag and final. Set (Release) by winners, read (Acquire) by the owner, who
    // takes TRY back.
    signal: AtomicU32,
}

const WAITING: u32 = 0;
const TRY: u32 = 1;
const DONE: u32 = 2;

impl Request {
    /// Blocks until there may be something to win; whether it is completed instead.
    fn wait(&self) -> bool {
        let mut parked = false;
        let is_completed = loop {
            match self.signal.load(Ordering::Acquire) {
                DONE => break true,
                // Back to WAITING, unless it was completed in the meantime.
                TRY if self.change(TRY, WAITING) => break false,
                TRY => {}
                _ => {
                    park();
                    parked = true;
                }
            }
        };
        if parked {
            return_token();
        }
        is_completed
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.signal.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Aggregated {
    writing: Writing,
    /// The primary queue, and whether the sync lock is held. A leaf latch, held for a few instructions.
    queue: Mutex<Queue>,
    requests: Requests,
}

#[derive(Debug, Default)]
struct Queue {
    primary: VecDeque<Arc<Request>>,
    /// Empty, but for its memory, whenever the lock is free.
    secondary: VecDeque<Arc<Request>>,
    locked: bool,
}

impl Aggregated {
    pub(super) fn new() -> Self {
        Aggregated { writing: Writing::new(), queue: Mutex::new(Queue::default()), requests: Requests::new() }
    }

    fn commit(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        self.writing.write_to(rounds, end);
        if level != Durability::Durable {
            return;
        }
        let watch = Stopwatch::start();
        let request = Arc::new(Request { end, thread: current(), signal: AtomicU32::new(WAITING) });
        self.with_queue(|queue| queue.primary.push_back(request.clone()));
        loop {
            if let Some(secondary) = self.win() {
                rounds.tally().got_lock(watch.nanoseconds());
                self.sync_for(rounds, secondary, &request);
            }
            if request.wait() {
                break;
            }
        }
        rounds.tally().waited(watch.nanoseconds(), false);
    }

    /// Takes the sync lock if it is free and there is anything to do; the closed queue.
    fn win(&self) -> Option<VecDeque<Arc<Request>>> {
        self.with_queue(|queue| {
            if queue.locked || queue.primary.is_empty() {
                return None;
            }
            queue.locked = true;
            let empty = mem::take(&mut queue.secondary);
            Some(mem::replace(&mut queue.primary, empty))
        })
    }

    /// The winner's part.
    fn sync_for(&self, rounds: &dyn Rounds, mut secondary: VecDeque<Arc<Request>>, own: &Arc<Request>) {
        let last = secondary.iter().map(|request| request.end).max().unwrap_or(Lsn::ZERO);
        if !rounds.settled(last, Durability::Durable) {
            rounds.sync(false);
        }
        rounds.tally().told((secondary.len() as u64).saturating_sub(1));
        for request in secondary.drain(..) {
            request.signal.store(DONE, Ordering::Release);
            if !Arc::ptr_eq(&request, own) {
                request.thread.unpark();
            }
        }
        let next = self.with_queue(|queue| {
            queue.secondary = secondary;
            queue.locked = false;
            queue.primary.front().cloned()
        });
        if let Some(next) = next
            && next.change(WAITING, TRY)
        {
            next.thread.unpark();
        }
    }

    fn with_queue<T>(&self, look: impl FnOnce(&mut Queue) -> T) -> T {
        look(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SyncProtocol for Aggregated {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if !rounds.settled(end, level) {
            self.commit(rounds, end, level);
        }
    }

    fn request(&self, rounds: &dyn Rounds, level: Durability) {
        self.requests.make(rounds, level, |end, level| self.wait(rounds, end, level));
    }

    fn serve(&self, rounds: &dyn Rounds, number: usize) {
        self.requests.run(rounds, number, |end, level| self.wait(rounds, end, level));
    }

    fn stop(&self) {
        self.requests.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.requests.wakeups()
    }
}
