//! Waits: spinning, yielding, napping (a sleep for a time), parking, and sleeping on a word.
//!
//! Every wait ends by an operation of another thread or by a time-out. If no thread can run any
//! more, the scheduler reports a deadlock.

use super::{Machinery, Next, State};
use crate::vm::costs::Ps;
use std::collections::VecDeque;

/// Number of pauses before the first yield, as in the real `pause`.
const SPINS: Ps = 32;
/// Number of yields before the first nap, as in the real `rest`. The simulated `pause` yields this
/// number of times too, although the real `pause` yields 4,000 times.
const YIELDS: Ps = 200;

impl Machinery {
    /// Lets the thread wait on its core until the line that it read last changes, for at most
    /// `most`. If the line has changed already, the thread only spends one pause.
    pub(in crate::vm) fn watch(&mut self, most: Ps) -> Next {
        self.events += 1;
        let index = self.current;
        let pause = self.costs.pause;
        let shared = self.others_want_the_core();
        let thread = &mut self.threads[index];
        let seen = thread.seen.filter(|(number, version)| self.lines.at(*number).version == *version);
        let Some((number, _)) = seen else {
            thread.clock += pause;
            return Next::GoOn;
        };
        let slice_end = if shared { thread.slice_end } else { Ps::MAX };
        let until = (thread.clock + most).min(slice_end).max(thread.clock + pause);
        thread.state = State::Watching(number);
        thread.number += 1;
        let wait = thread.number;
        self.lines.at(number).watchers.push((index, wait));
        self.schedule(index, until);
        Next::Suspend
    }

    /// Does one step of a wait that spins first. The first step is 0.
    pub(in crate::vm) fn pause(&mut self, step: u32) -> Next {
        let spins = SPINS * self.costs.pause;
        let waited = self.waited(step);
        if waited < spins { self.watch(spins - waited) } else { self.rest_after(waited - spins) }
    }

    /// Does one step of a wait that does not spin. The first step is 0.
    pub(in crate::vm) fn rest(&mut self, step: u32) -> Next {
        let waited = self.waited(step);
        self.rest_after(waited)
    }

    fn waited(&mut self, step: u32) -> Ps {
        let thread = &mut self.threads[self.current];
        if step == 0 {
            thread.waiting_since = thread.clock;
        }
        thread.clock - thread.waiting_since
    }

    fn rest_after(&mut self, waited: Ps) -> Next {
        let yields = YIELDS * self.costs.yield_now;
        if waited >= yields {
            self.nap(self.costs.nap)
        } else if self.others_want_the_core() {
            self.yield_now()
        } else {
            self.watch(yields - waited)
        }
    }

    pub(in crate::vm) fn yield_now(&mut self) -> Next {
        self.events += 1;
        self.spend(self.costs.yield_now);
        if self.others_want_the_core() { self.requeue() } else { Next::GoOn }
    }

    fn nap(&mut self, time: Ps) -> Next {
        self.events += 1;
        let index = self.current;
        self.spend(self.costs.sleep);
        self.threads[index].state = State::Napping;
        self.threads[index].number += 1;
        let until = self.now() + time;
        self.schedule(index, until);
        self.leave_core(index);
        Next::Suspend
    }

    fn fall_asleep(&mut self) -> Next {
        let index = self.current;
        self.threads[index].state = State::Parked;
        self.threads[index].number += 1;
        self.leave_core(index);
        Next::Suspend
    }

    fn wake_up(&mut self, index: usize) {
        let at = self.now() + self.costs.woken;
        let thread = &mut self.threads[index];
        thread.clock = thread.clock.max(at);
        thread.state = State::Napping;
        thread.number += 1;
        let at = thread.clock;
        self.last_change = self.last_change.max(at);
        self.schedule(index, at);
    }

    pub(in crate::vm) fn park(&mut self) -> Next {
        self.events += 1;
        if std::mem::take(&mut self.threads[self.current].token) {
            return Next::GoOn;
        }
        self.spend(self.costs.sleep);
        self.fall_asleep()
    }

    pub(in crate::vm) fn unpark(&mut self, index: usize) {
        self.events += 1;
        if self.threads[index].state == State::Parked {
            self.spend(self.costs.wake);
            self.wake_up(index);
        } else {
            self.threads[index].token = true;
        }
    }

    /// Sleeps until another thread wakes a sleeper of this word. No wake-up is missed, because no
    /// other thread has run since the caller checked the word.
    pub(in crate::vm) fn sleep_on(&mut self, address: usize) -> Next {
        self.events += 1;
        self.sleepers.entry(address).or_default().push_back(self.current);
        self.spend(self.costs.sleep);
        self.fall_asleep()
    }

    pub(in crate::vm) fn wake_one(&mut self, address: usize) {
        self.events += 1;
        self.spend(self.costs.wake);
        if let Some(index) = self.sleepers.get_mut(&address).and_then(VecDeque::pop_front) {
            self.wake_up(index);
        }
    }
}
