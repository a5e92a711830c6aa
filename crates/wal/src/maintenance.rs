//! The maintenance thread: keeps segments prepared ahead of the appenders, and is parked otherwise.
//!
//! A leader (the holder of the baton) asks for segments when too little space is prepared ahead,
//! and so does an appender that was refused. An attempt that finds no space on the device is not
//! repeated until an appender asks again or the log is trimmed.
//!
//! Invariants:
//!
//! 1. `answered <= asked`. An attempt that begins when `asked` is `n` answers all requests up to
//!    number `n` when it ends.
//! 2. No thread waits here while it owns a hole or the baton.
//!
//! A crash leaves at most an unfinished segment (`segment/store.rs`).

use katydid_device as device;
use katydid_kernels::counter::Counter;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Reason why a request for space was refused.
#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    /// No room on the device.
    NoSpace,
    /// The log has failed, or is closed.
    Over,
}

#[derive(Debug, Default)]
struct PrepareRequests {
    asked: u64,
    answered: u64,
    /// Position that the prepared space must reach.
    reach: u64,
    /// True if the last attempt found no space on the device.
    no_space: bool,
    over: bool,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    /// Guards requests and answers. A waiting thread holds this latch while it calls `enough`,
    /// which takes the latch of the admission.
    asks: Mutex<PrepareRequests>,
    asked: Condvar,
    answered: Condvar,
    // Written by the maintenance thread only.
    wakeups: Counter,
}

impl Maintenance {
    /// Runs the maintenance thread. `prepare(reach)` prepares one segment and returns true; if no
    /// segment is wanted, it returns false.
    pub(crate) fn run(
        &self,
        mut prepare: impl FnMut(u64) -> device::Result<bool>,
        mut fail: impl FnMut(device::Error),
    ) {
        loop {
            let (turn, reach) = {
                let mut asks = self.lock();
                while asks.asked == asks.answered && !asks.over {
                    asks = self.asked.wait(asks).unwrap_or_else(PoisonError::into_inner);
                    self.wakeups.add_alone(1);
                }
                if asks.over {
                    return;
                }
                (asks.asked, asks.reach)
            };
            self.attempt(turn, reach, &mut prepare, &mut fail);
        }
    }

    /// Does the maintenance thread's work, in a log without that thread. Returns when all requests
    /// are answered.
    pub(crate) fn run_pending(
        &self,
        mut prepare: impl FnMut(u64) -> device::Result<bool>,
        mut fail: impl FnMut(device::Error),
    ) {
        loop {
            let (turn, reach) = {
                let asks = self.lock();
                if asks.asked == asks.answered || asks.over {
                    return;
                }
                (asks.asked, asks.reach)
            };
            self.attempt(turn, reach, &mut prepare, &mut fail);
        }
    }

    /// Makes one attempt, which answers all requests up to number `turn`.
    fn attempt(
        &self,
        turn: u64,
        reach: u64,
        prepare: &mut impl FnMut(u64) -> device::Result<bool>,
        fail: &mut impl FnMut(device::Error),
    ) {
        let outcome = loop {
            match prepare(reach) {
                // Waiting appenders may have enough space already.
                Ok(true) => self.answered.notify_all(),
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            if self.lock().over {
                break Ok(());
            }
        };
        let no_space = match outcome {
            Ok(()) => false,
            Err(error) if error.is_no_space_ahead() => true,
            Err(error) => {
                // If the gate has refused this call because a write failed, the caller of that
                // write may not have failed the log yet. So this thread fails the log, with that
                // first failure.
                fail(error.into_first());
                false
            }
        };
        let mut asks = self.lock();
        asks.answered = turn;
        asks.no_space = no_space;
        if asks.asked == turn {
            asks.reach = 0;
        }
        drop(asks);
        self.answered.notify_all();
    }

    /// Asks for space without waiting. Does nothing if an attempt is under way, or if the last
    /// attempt found no space.
    pub(crate) fn nudge(&self) {
        let mut asks = self.lock();
        if asks.asked == asks.answered && !asks.no_space && !asks.over {
            asks.asked += 1;
            drop(asks);
            self.asked.notify_one();
        }
    }

    /// Lets the next nudge ask again, because there may be space now.
    pub(crate) fn forget_no_space(&self) {
        self.lock().no_space = false;
    }

    /// Asks for prepared space up to `reach`. Returns the ticket to wait with.
    pub(crate) fn ask(&self, reach: u64) -> u64 {
        let mut asks = self.lock();
        asks.asked += 1;
        asks.reach = asks.reach.max(reach);
        let ticket = asks.asked;
        drop(asks);
        self.asked.notify_one();
        ticket
    }

    /// Waits until `enough` holds, or until the end of an attempt that began after the request.
    pub(crate) fn wait(&self, ticket: u64, enough: impl Fn() -> bool) -> Result<(), Refusal> {
        let mut asks = self.lock();
        loop {
            if enough() {
                return Ok(());
            }
            if asks.over {
                return Err(Refusal::Over);
            }
            if asks.answered >= ticket {
                return if asks.no_space { Err(Refusal::NoSpace) } else { Ok(()) };
            }
            asks = self.answered.wait(asks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread and refuses all requests.
    pub(crate) fn stop(&self) {
        self.lock().over = true;
        self.asked.notify_all();
        self.answered.notify_all();
    }

    pub(crate) fn wakeups(&self) -> u64 {
        self.wakeups.get()
    }

    fn lock(&self) -> MutexGuard<'_, PrepareRequests> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
