//! Protocol `aggregated`: committers queue requests with completion flags. The thread that wins the
//! sync lock syncs once for all of them; the others leave without taking the lock.
//!
//! The design is that of Efficient flushing, section 3.1. Each committer writes, enters its request
//! into the primary queue, and tries the sync lock. The winner closes the primary queue by swapping
//! it with the empty secondary one. Then the winner syncs for the largest LSN in the closed queue,
//! and completes all requests in that queue. The paper does not say which thread syncs for requests
//! that come after the swap. Here the winner gives the lock back and then wakes the owner of the
//! first such request. That thread competes for the lock with later committers.
//!
//! Invariants:
//!
//! 1. Until its flag is set, a request is in the primary queue or in the queue that the winner has
//!    taken.
//! 2. No request is left behind. A thread gives the lock back and looks at the primary queue under
//!    one hold of the latch `queue`. A thread that enters a request tries the lock afterwards. So
//!    if the releasing thread has not seen the request, the entering thread finds the lock free.

use super::consolidation::{FlushSlots, Part};
use super::flag::Request;
use super::grouped::Writing;
use super::requests::Committer;
use super::rounds::{Rounds, Stopwatch};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::Mutex;
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Aggregated {
    writing: WriteStage,
    /// The queues and the state of the sync lock. This leaf latch is held for a few instructions.
    queue: Mutex<Queue>,
}

/// The way in which a committer's record is written before its request is made.
#[derive(Debug)]
enum WriteStage {
    /// Each committer writes, under one latch.
    Alone(Writing),
    /// The last thread of a slot writes, and makes one request for all threads of the slot.
    Slots(Box<FlushSlots>),
}

#[derive(Debug, Default)]
struct Queue {
    primary: VecDeque<Arc<Request>>,
    /// Empty whenever the lock is free; its memory is reused.
    secondary: VecDeque<Arc<Request>>,
    locked: bool,
}

impl Aggregated {
    /// Makes the design. `flush_slots` is the number of slots in which committers meet before the
    /// write; 0 means that there are no slots.
    pub(super) fn new(flush_slots: u32) -> Self {
        let writing = match flush_slots {
            0 => WriteStage::Alone(Writing::new()),
            pool => WriteStage::Slots(Box::new(FlushSlots::new(pool))),
        };
        Aggregated { writing, queue: Mutex::new(Queue::default()) }
    }

    fn commit(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        match (&self.writing, level) {
            (WriteStage::Alone(writing), _) => {
                writing.write_to(rounds, end);
                if level == Durability::Durable {
                    self.sync(rounds, end);
                }
            }
            (WriteStage::Slots(slots), Durability::Durable) => match slots.enter(rounds, end) {
                Part::Flush { end, slot } => {
                    self.sync(rounds, end);
                    slots.flushed(slot);
                }
                Part::Wait => slots.wait(rounds, end),
            },
            (WriteStage::Slots(slots), _) => slots.write(rounds, end),
        }
    }

    /// Enters a request for `end` and waits until it is completed. This thread may itself become
    /// the winner.
    fn sync(&self, rounds: &dyn Rounds, end: Lsn) {
        let watch = Stopwatch::start();
        let request = Arc::new(Request::new(end));
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

    /// Takes the sync lock if it is free and a request is queued. Returns the closed queue.
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

    /// Syncs for all requests of the closed queue, gives the sync lock back, and wakes the next
    /// thread.
    fn sync_for(&self, rounds: &dyn Rounds, mut secondary: VecDeque<Arc<Request>>, own: &Arc<Request>) {
        let last = secondary.iter().map(|request| request.end).max().unwrap_or(Lsn::ZERO);
        if !rounds.settled(last, Durability::Durable) {
            rounds.sync(false);
        }
        rounds.tally().aggregated(secondary.len() as u64);
        if let WriteStage::Slots(slots) = &self.writing {
            slots.advance(rounds, last);
        }
        for request in secondary.drain(..) {
            request.complete(Arc::ptr_eq(&request, own));
        }
        let next = self.with_queue(|queue| {
            queue.secondary = secondary;
            queue.locked = false;
            queue.primary.front().cloned()
        });
        if let Some(next) = next {
            next.ask_to_try();
        }
    }

    fn with_queue<T>(&self, look: impl FnOnce(&mut Queue) -> T) -> T {
        look(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Committer for Aggregated {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if !rounds.settled(end, level) {
            self.commit(rounds, end, level);
        }
    }
}
