//! A queue of commit callbacks, which run on the thread that owns the queue.
//!
//! A commit waits in `completions` until it is as durable as it asked, and then in `ready` until
//! the callbacks of all earlier commits have run.
//!
//! Invariants:
//!
//! 1. Callbacks run in the order of their commits, each once, from `poll`, `wait_below` or `drain`,
//!    never from inside `commit_with`. The callback of a refused commit has its place in that
//!    order.
//! 2. A callback may use its session: nothing is borrowed while it runs. A callback that polls or
//!    waits runs the next callbacks of the queue before it returns; the order stays the same.
//! 3. A callback leaves the queue before it runs. If it panics, the panic goes to the caller, and
//!    the callbacks behind it stay pending.
//! 4. Every callback runs. When the session is dropped, the dropping thread runs the callbacks that
//!    are still queued, and waits for nothing: the callback of a commit that is done gets the
//!    outcome, other callbacks get `Error::SessionDropped`. The commits go on. The dropping thread
//!    passes on a panic of a callback after the last callback.

use crate::error::{Error, Result};
use crate::opening::OpeningId;
use crate::ticket::{Callback, OpenEngine, Outcome, PendingCallback, Ticket};
use crate::{CommitStamp, Durability, Lsn};
use katydid_kernels::txn::Timestamp;
use katydid_wal::{Completions, Dependencies, StreamId, StreamLsn};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A queue of the callbacks of [`crate::Transaction::commit_with`] and
/// [`crate::Database::transact_with`]. The callbacks run only inside of [`Session::poll`],
/// [`Session::wait_below`] and [`Session::drain`], on the thread that makes this call. A session is
/// `Send` and not `Sync`: make one for each thread.
///
/// Dropping a session runs the callbacks that are left, and waits for nothing: the callback of a
/// commit that is not done by then gets `Error::SessionDropped`. To get every outcome, call
/// [`Session::drain`] before. A session keeps the database open. A session takes commits of the
/// opening that made the session, and refuses other commits with `Error::ForeignSession`.
#[must_use = "callbacks run when the session is polled or drained"]
pub struct Session {
    pub(crate) opening: OpeningId,
    /// Commits that wait for the log, each with the timestamp up to which it may have seen or
    /// written versions.
    completions: RefCell<Completions<(PendingCallback, Timestamp)>>,
    /// The greatest timestamp up to which a commit that was queued here may have seen or written
    /// versions.
    seen_to: Cell<Timestamp>,
    /// Keeps the database open. Dropped after `completions`, which belong to the engine's log.
    engine: Arc<dyn OpenEngine>,
    /// Commits that are done, in their order, whose callbacks are to run next. Borrowed for a
    /// moment, never while a callback runs.
    ready: RefCell<VecDeque<(PendingCallback, Outcome)>>,
}

impl Session {
    pub(crate) fn new(opening: OpeningId, engine: Arc<dyn OpenEngine>) -> Self {
        let completions = RefCell::new(engine.completions());
        Session {
            opening,
            engine,
            completions,
            seen_to: Cell::new(Timestamp::ZERO),
            ready: RefCell::default(),
        }
    }

    /// Queues the callback of a commit that has a ticket, or that failed before it got one.
    pub(crate) fn push(&self, committed: Result<Ticket>, callback: Callback, begun: Option<Instant>) {
        let mut completions = self.completions.borrow_mut();
        match committed {
            Ok(Ticket { at, dependencies, durability, stamp, seen_to }) => {
                self.seen_to.set(self.seen_to.get().max(seen_to));
                let pending = PendingCallback { callback, result: Ok(stamp), begun };
                completions.push(at, &dependencies, durability, (pending, seen_to));
            }
            Err(error) => {
                let at = StreamLsn { stream: StreamId::FIRST, end: Lsn::ZERO };
                let pending = PendingCallback { callback, result: Err(error), begun: None };
                let none = Dependencies::default();
                completions.push(at, &none, Durability::Buffered, (pending, Timestamp::ZERO));
            }
        }
    }

    /// Moves to `ready` a commit that is done.
    fn is_done(&self, (pending, seen_to): (PendingCallback, Timestamp), outcome: Outcome) {
        self.engine.acknowledge(seen_to);
        self.ready.borrow_mut().push_back((pending, outcome));
    }

    /// Runs the callbacks of all commits that are done at the time of the call. Returns the number
    /// of callbacks that the call itself has run. Never blocks.
    ///
    /// # Panics
    /// If a callback panics. The callbacks behind it stay pending.
    pub fn poll(&self) -> usize {
        self.completions.borrow_mut().poll_with(|commit, outcome| self.is_done(commit, outcome));
        self.run_ready()
    }

    /// Returns the number of commits whose callbacks have not begun to run.
    pub fn pending(&self) -> usize {
        self.completions.borrow().pending() + self.ready.borrow().len()
    }

    /// Runs callbacks, and blocks until fewer than `limit` (at least 1) commits are pending. Each
    /// callback gets the outcome of its own commit. Commits that callbacks make also count, so the
    /// call does not return while each callback makes another commit.
    ///
    /// # Errors
    /// `Error::Closed` if the database was closed; `Error::Poisoned` if a bug has shut it off. The
    /// callbacks have run all the same.
    ///
    /// # Panics
    /// If a callback panics. The callbacks behind it stay pending.
    pub fn wait_below(&self, limit: usize) -> Result<()> {
        let limit = limit.max(1);
        loop {
            let mut completions = self.completions.borrow_mut();
            completions.wait_below_with(limit, |commit, outcome| self.is_done(commit, outcome));
            drop(completions);
            self.run_ready();
            if self.pending() < limit {
                break;
            }
        }
        self.engine.check_open()
    }

    /// Runs callbacks, and blocks until no commit is pending. Errors and panics are those of
    /// [`Session::wait_below`].
    pub fn drain(&self) -> Result<()> {
        self.wait_below(1)
    }

    /// Runs the callbacks that are ready now. A callback that polls runs some of these itself.
    /// Returns the number of callbacks that this call has run.
    fn run_ready(&self) -> usize {
        let most = self.ready.borrow().len();
        let mut ran = 0;
        // One reading of the clock serves all callbacks, because it costs as much as a callback.
        let mut now = None;
        while ran < most {
            // This call is not in the loop's head, because `ready` would then stay borrowed while
            // the callback runs.
            let next = self.ready.borrow_mut().pop_front();
            let Some((pending, outcome)) = next else { break };
            ran += 1;
            if let (Some(begun), Ok(())) = (pending.begun, &outcome) {
                self.engine.committed(begun, *now.get_or_insert_with(Instant::now));
            }
            let (callback, result) = callback_and_result(pending, outcome);
            callback(result);
        }
        ran
    }
}

/// Returns the callback and the result that it gets.
fn callback_and_result(pending: PendingCallback, outcome: Outcome) -> (Callback, Result<CommitStamp>) {
    let PendingCallback { callback, result, .. } = pending;
    match outcome {
        Ok(()) => (callback, result),
        Err(error) => (callback, result.and(Err(Error::from(error)))),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.completions.borrow_mut().poll_with(|commit, outcome| self.is_done(commit, outcome));
        let left = self.completions.borrow_mut().take_all();
        let dropped = left.map(|(PendingCallback { callback, result, .. }, _)| {
            (callback, result.and(Err(Error::SessionDropped)))
        });
        let dropped: Vec<_> = dropped.collect();
        if !dropped.is_empty() {
            // The program never learns the outcomes of these commits. The memory engine counts
            // these commits as acknowledged all the same, because otherwise it would never release
            // old versions.
            self.engine.acknowledge(self.seen_to.get());
        }
        let done = std::mem::take(&mut *self.ready.borrow_mut());
        let done = done.into_iter().map(|(pending, outcome)| callback_and_result(pending, outcome));
        let mut panicked = None;
        for (callback, result) in done.chain(dropped) {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| callback(result))) {
                panicked.get_or_insert(payload);
            }
        }
        if let Some(payload) = panicked
            && !std::thread::panicking()
        {
            resume_unwind(payload);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} pending)", self.pending())
    }
}
