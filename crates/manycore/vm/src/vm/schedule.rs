//! The scheduler of the simulated machine: it picks the thread that runs next, and charges time for
//! each operation.
//!
//! One operating system thread runs this code. Invariants:
//!
//! 1. A thread accesses shared memory only while no other running thread has a smaller clock. So
//!    accesses happen in the order of simulated time, and the simulated memory is sequentially
//!    consistent.
//! 2. Each core has at most one thread that runs or watches. The core's other threads are queued,
//!    sleep or have ended. Threads never change their core.
//! 3. An entry of `agenda` is a time, a thread, and the thread's `number` when the entry was made.
//!    The entry is stale if the thread's `number` has changed since. Every thread that runs (except
//!    the current one) or has a time-out has an entry that is not stale.

mod waiting;

use super::costs::{Costs, Ps, ps};
use super::lines::{Cores, Lines};
use crate::machine::Machine;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Time without any change of memory after which a wait counts as a hang: 1 s.
const HANG: Ps = 1_000_000_000_000;
/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The thread runs.
    Running,
    /// The thread waits on its core until this line changes or a time has passed.
    Watching(u32),
    /// The thread could run, but another thread has its core.
    Queued,
    /// The thread has left its core until a given time.
    Napping,
    /// The thread has left its core until another thread wakes it.
    Parked,
    Done,
}

#[derive(Debug)]
struct Thread {
    core: usize,
    clock: Ps,
    state: State,
    number: u32,
    slice_end: Ps,
    /// Time at which all cores see the thread's buffered stores.
    drained: Ps,
    /// The line that the thread read last, and the line's version at that time.
    seen: Option<(u32, u64)>,
    waiting_since: Ps,
    token: bool,
}

#[derive(Debug, Default)]
struct Core {
    running: Option<usize>,
    queue: VecDeque<usize>,
    free_from: Ps,
}

/// An access to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
    /// A store with a fence.
    StrongStore,
    Modify {
        changed: bool,
    },
}

/// The next step of the running thread: it goes on at once, or suspends itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Next {
    GoOn,
    Suspend,
}

/// The state of a simulation: its threads, cores and cache lines.
#[derive(Debug)]
pub(super) struct Machinery {
    pub(super) costs: Costs,
    socket_cores: usize,
    threads: Vec<Thread>,
    cores: Vec<Core>,
    agenda: BinaryHeap<Reverse<(Ps, usize, u32)>>,
    lines: Lines,
    /// Threads that sleep on a word, by the word's address.
    sleepers: HashMap<usize, VecDeque<usize>>,
    /// Time until which the memory of each socket is busy.
    memory: Vec<Ps>,
    pub(super) current: usize,
    pub(super) mutex_spins: u32,
    random: u64,
    last_change: Ps,
    pub(super) events: u64,
}

impl Machinery {
    pub(super) fn new(machine: &Machine, threads: usize, seed: u64) -> Self {
        let mut machinery = Machinery {
            costs: Costs::of(machine),
            socket_cores: machine.cores / machine.sockets,
            threads: Vec::new(),
            cores: (0..machine.cores).map(|_| Core::default()).collect(),
            agenda: BinaryHeap::new(),
            lines: Lines::default(),
            sleepers: HashMap::new(),
            memory: vec![0; machine.sockets],
            current: 0,
            mutex_spins: machine.mutex_spins,
            random: seed.wrapping_mul(2).wrapping_add(0x9E37_79B9_7F4A_7C15),
            last_change: 0,
            events: 0,
        };
        for index in 0..threads {
            // Like real threads, virtual threads do not all start at the same moment.
            let clock = machinery.draw(ps(1000.0));
            machinery.threads.push(Thread {
                core: machine.core_of(index),
                clock,
                state: State::Queued,
                number: 0,
                slice_end: 0,
                drained: 0,
                seen: None,
                waiting_since: 0,
                token: false,
            });
        }
        for index in 0..threads {
            machinery.ready(index, machinery.threads[index].clock);
        }
        machinery
    }

    /// Returns a random number below `limit`, or 0 if `limit` is 0 (SplitMix64).
    fn draw(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)).checked_rem(limit).unwrap_or(0)
    }

    // ---- for the scheduler

    /// Returns the thread to resume; `None` if no thread can ever run again, or if memory has not
    /// changed for [`HANG`].
    pub(super) fn next(&mut self) -> Option<usize> {
        while let Some(Reverse((at, index, number))) = self.agenda.pop() {
            if self.threads[index].number != number {
                continue;
            }
            if at.saturating_sub(self.last_change) > HANG {
                return None;
            }
            match self.threads[index].state {
                State::Running => {}
                State::Watching(_) => self.run_again(index, at),
                State::Napping => {
                    self.ready(index, at);
                    continue;
                }
                State::Queued | State::Parked | State::Done => continue,
            }
            self.current = index;
            return Some(index);
        }
        None
    }

    /// Ends the running thread.
    pub(super) fn finish(&mut self) {
        let index = self.current;
        self.threads[index].state = State::Done;
        self.threads[index].number += 1;
        self.last_change = self.last_change.max(self.threads[index].clock);
        self.leave_core(index);
    }

    /// Returns the threads that have not ended, with their states.
    pub(super) fn unfinished(&self) -> Vec<(usize, State)> {
        let threads = self.threads.iter().enumerate();
        threads
            .filter(|(_, thread)| thread.state != State::Done)
            .map(|(i, thread)| (i, thread.state))
            .collect()
    }

    /// Returns the largest clock of all threads.
    pub(super) fn latest(&self) -> Ps {
        self.threads.iter().map(|thread| thread.clock).max().unwrap_or(0)
    }

    pub(super) fn now(&self) -> Ps {
        self.threads[self.current].clock
    }

    // ---- cores

    fn run_again(&mut self, index: usize, at: Ps) {
        let thread = &mut self.threads[index];
        thread.clock = thread.clock.max(at);
        thread.state = State::Running;
        thread.number += 1;
    }

    fn schedule(&mut self, index: usize, at: Ps) {
        self.agenda.push(Reverse((at, index, self.threads[index].number)));
    }

    fn dispatch(&mut self, index: usize, at: Ps) {
        self.run_again(index, at);
        let thread = &mut self.threads[index];
        thread.slice_end = thread.clock + self.costs.quantum;
        let (core, at) = (thread.core, thread.clock);
        self.cores[core].running = Some(index);
        self.schedule(index, at);
    }

    /// Makes the thread ready to run from `at` on.
    fn ready(&mut self, index: usize, at: Ps) {
        self.threads[index].clock = self.threads[index].clock.max(at);
        let core = &mut self.cores[self.threads[index].core];
        if core.running.is_none() {
            let at = at.max(core.free_from);
            self.dispatch(index, at);
        } else {
            core.queue.push_back(index);
            self.threads[index].state = State::Queued;
            self.threads[index].number += 1;
        }
    }

    fn leave_core(&mut self, index: usize) {
        let at = self.threads[index].clock;
        let core = &mut self.cores[self.threads[index].core];
        core.running = None;
        core.free_from = at;
        if let Some(next) = core.queue.pop_front() {
            self.dispatch(next, at + self.costs.switch);
        }
    }

    fn others_want_the_core(&self) -> bool {
        !self.cores[self.threads[self.current].core].queue.is_empty()
    }

    /// Moves the running thread to the end of its core's queue.
    fn requeue(&mut self) -> Next {
        let index = self.current;
        let core = self.threads[index].core;
        self.threads[index].state = State::Queued;
        self.threads[index].number += 1;
        self.cores[core].queue.push_back(index);
        self.leave_core(index);
        Next::Suspend
    }

    /// Returns [`Next::GoOn`] if the running thread may access shared memory now (invariant 1). If
    /// not, the thread is scheduled again, and must suspend itself. Called before every access.
    pub(super) fn turn(&mut self) -> Next {
        let thread = &self.threads[self.current];
        if thread.clock >= thread.slice_end && self.others_want_the_core() {
            return self.requeue();
        }
        match self.agenda.peek() {
            Some(Reverse(first)) if *first < (thread.clock, self.current, u32::MAX) => {
                self.schedule(self.current, thread.clock);
                Next::Suspend
            }
            _ => Next::GoOn,
        }
    }

    // ---- memory

    /// Charges an access by the running thread to the line of `address`. Called only after
    /// [`Machinery::turn`] has returned [`Next::GoOn`].
    pub(super) fn access(&mut self, address: usize, access: Access) {
        self.events += 1;
        let number = self.lines.number(address);
        let costs = self.costs;
        let index = self.current;
        let (core, socket_cores) = (self.threads[index].core, self.socket_cores);
        let thread = &mut self.threads[index];
        let line = self.lines.at(number);
        let far = |other: usize| other / socket_cores != core / socket_cores;
        let owned = line.owner == Some(core as u16);
        if access == Access::Load {
            if line.holders.has(core) {
                thread.clock += costs.load;
            } else {
                // Fetch the line from the nearest holder.
                let far = !line.holders.is_empty() && line.holders.iter().all(far);
                let start = thread.clock.max(line.busy_until);
                line.busy_until = start + costs.serve;
                line.owner = None;
                line.holders.add(core);
                thread.clock = start + costs.share[usize::from(far)];
            }
            thread.seen = Some((number, line.version));
            return;
        }
        // Fetch the line, unless this core owns it, and drop all other copies.
        let fetch = if owned { 0 } else { costs.own[usize::from(line.holders.iter().any(far))] };
        line.owner = Some(core as u16);
        line.holders = Cores::one(core);
        let start = thread.clock.max(line.busy_until);
        let done = match access {
            Access::Load | Access::Store => {
                // The thread goes on. The store leaves the store buffer after the thread's earlier
                // stores.
                let done = (start + fetch + costs.store).max(thread.drained);
                thread.clock += costs.store;
                thread.drained = done;
                done
            }
            Access::StrongStore | Access::Modify { .. } => {
                let done = start.max(thread.drained) + fetch + costs.modify;
                thread.clock = done;
                done
            }
        };
        line.busy_until = done;
        if access == (Access::Modify { changed: false }) {
            thread.seen = Some((number, line.version));
            return;
        }
        line.version += 1;
        self.last_change = self.last_change.max(done);
        if !line.watchers.is_empty() {
            let watchers = std::mem::take(&mut line.watchers);
            for &(watcher, wait) in &watchers {
                if self.threads[watcher].number == wait {
                    // The watching thread sees the change at a random moment of a pause.
                    let at = done + self.draw(costs.pause);
                    self.run_again(watcher, at);
                    let at = self.threads[watcher].clock;
                    self.schedule(watcher, at);
                }
            }
            let mut watchers = watchers;
            watchers.clear();
            self.lines.at(number).watchers = watchers;
        }
    }

    /// Waits until the running thread's buffered stores are visible.
    pub(super) fn fence(&mut self) {
        self.events += 1;
        let modify = self.costs.modify;
        let thread = &mut self.threads[self.current];
        thread.clock = thread.clock.max(thread.drained) + modify;
    }

    /// Advances the running thread's clock by `time`.
    pub(super) fn spend(&mut self, time: Ps) {
        self.threads[self.current].clock += time;
    }

    pub(super) fn copy(&mut self, bytes: u64) {
        self.events += 1;
        let thread = &mut self.threads[self.current];
        let memory = &mut self.memory[thread.core / self.socket_cores];
        *memory = thread.clock.max(*memory) + self.costs.shared(bytes);
        thread.clock = (thread.clock + self.costs.copy(bytes)).max(*memory);
    }
}
