//! A queue of commit callbacks, run on the thread that owns it.
//!
//! A commit waits in its engine's queue until it is as durable as it asked, and then in `ready` until its callback's turn comes.
//!
//! Invariants:
//!
//! 1. Callbacks run in the order of their commits, each once, from `poll`, `wait_below` or `drain`, never from inside
//!    `commit_with`. Commits that were refused have their place in that order.
//! 2. A callback may use its session: nothing is borrowed while it runs. A callback that polls or waits runs those behind it,
//!    inside itself; the order is the same.
//! 3. A callback is out of the queue before it runs. If it panics, the panic goes to the caller, and those behind it are still pending.
//! 4. Callbacks still queued when the session is dropped are dropped without running. The commits go on.

use crate::callback::{Callback, Outcome, PendingCallback};
use crate::engine::EngineSession;
use crate::error::{Error, Result};
use crate::open::ChosenSession;
use crate::opening::OpeningId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

/// Runs the callbacks of [`crate::Transaction::commit_with`] on the thread that calls it. `Send`, not `Sync`: make one for each
/// thread. It keeps the database open. It takes commits of the opening that made it, and refuses others with `Error::ForeignSession`.
pub struct Session {
    pub(crate) opening: OpeningId,
    pub(crate) of: ChosenSession,
    /// Commits that are done, in their order, whose callbacks are to run next. Borrowed for a moment, never while a callback runs.
    ready: RefCell<VecDeque<(PendingCallback, Outcome)>>,
}

impl Session {
    pub(crate) fn new(opening: OpeningId, of: ChosenSession) -> Self {
        Session { opening, of, ready: RefCell::default() }
    }

    /// Queues `callback` to be told of `error`.
    pub(crate) fn refuse(&self, callback: Callback, error: Error) {
        self.of.refuse(error, callback);
    }

    /// Runs the callbacks of all commits that are done when it is called, and returns how many it ran itself. Never blocks.
    ///
    /// # Panics
    /// If a callback does. Those behind it stay pending.
    pub fn poll(&self) -> usize {
        let ready = |pending, outcome| self.ready.borrow_mut().push_back((pending, outcome));
        self.of.poll_with(ready);
        self.run_ready()
    }

    /// Commits whose callbacks have not begun to run.
    pub fn pending(&self) -> usize {
        self.of.pending() + self.ready.borrow().len()
    }

    /// Blocks until fewer than `limit` (at least 1) commits are pending, running callbacks. Each is told its own
    /// outcome. Commits that the callbacks make count as well, so it does not return while each callback makes another one.
    ///
    /// # Errors
    /// `Error::Closed` if the database was closed. The callbacks have run all the same.
    ///
    /// # Panics
    /// If a callback does. Those behind it stay pending.
    pub fn wait_below(&self, limit: usize) -> Result<()> {
        let limit = limit.max(1);
        loop {
            let ready = |pending, outcome| self.ready.borrow_mut().push_back((pending, outcome));
            self.of.wait_below_with(limit, ready);
            self.run_ready();
            if self.pending() < limit {
                break;
            }
        }
        self.of.check_open()
    }

    /// Blocks until no commit is pending, running callbacks. Errors and panics as [`Session::wait_below`].
    pub fn drain(&self) -> Result<()> {
        self.wait_below(1)
    }

    /// Runs the callbacks that are ready now, but those that a callback has run meanwhile; how many.
    fn run_ready(&self) -> usize {
        let most = self.ready.borrow().len();
        let mut ran = 0;
        while ran < most {
            // Not in the loop's head: it would be borrowed while the callback runs.
            let next = self.ready.borrow_mut().pop_front();
            let Some((pending, outcome)) = next else { break };
            ran += 1;
            let result = match outcome {
                Ok(()) => pending.result,
                Err(error) => pending.result.and(Err(Error::from(error))),
            };
            (pending.callback)(result);
        }
        ran
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} pending)", self.pending())
    }
}
