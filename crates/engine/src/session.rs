//! A queue of commit callbacks, run on the thread that owns it.
//!
//! Invariants:
//!
//! 1. Callbacks run in the order of their commits, each once, from `poll`, `wait_below` or `drain`, never from inside
//!    `commit_with`.
//! 2. A callback may use its session: nothing is borrowed while it runs.
//! 3. Callbacks still queued when the session is dropped are dropped without running. The commits go on.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::memory::MemorySession;
use crate::paged::session::PagedSession;
use std::cell::{Cell, RefCell};
use std::fmt;

pub(crate) type Callback = Box<dyn FnOnce(Result<Lsn>) + Send>;

/// How the log has come as far as a commit asked.
pub(crate) type Outcome = std::result::Result<(), katydid_wal::Error>;

/// Who is to be told of a commit, and what, if the log comes as far as it asked.
pub(crate) struct Told {
    pub(crate) callback: Callback,
    pub(crate) result: Result<Lsn>,
}

/// Runs the callbacks of [`crate::Transaction::commit_with`] on the thread that calls it. `Send`, not `Sync`: make one for each
/// thread. It keeps the database open.
pub struct Session {
    pub(crate) of: SessionOf,
    /// Callbacks taken out of the queue to be run.
    ready: RefCell<Vec<(Told, Outcome)>>,
    running: Cell<usize>,
}

/// The queue of commits, as their engine waits for them.
pub(crate) enum SessionOf {
    Paged(PagedSession),
    Memory(MemorySession),
}

impl Session {
    pub(crate) fn new(of: SessionOf) -> Self {
        Session { of, ready: RefCell::default(), running: Cell::new(0) }
    }

    /// Lets `callback` be told of `error` when its turn comes.
    pub(crate) fn refuse(&self, callback: Callback, error: Error) {
        self.ready.borrow_mut().push((Told { callback, result: Err(error) }, Ok(())));
    }

    /// Runs the callbacks of all commits that are done; how many. Never blocks.
    pub fn poll(&self) -> usize {
        let ready = |told, outcome| self.ready.borrow_mut().push((told, outcome));
        match &self.of {
            SessionOf::Paged(session) => session.poll_with(ready),
            SessionOf::Memory(session) => session.poll_with(ready),
        }
        self.run_ready()
    }

    /// Commits whose callbacks have not run.
    pub fn pending(&self) -> usize {
        let queued = match &self.of {
            SessionOf::Paged(session) => session.pending(),
            SessionOf::Memory(session) => session.pending(),
        };
        queued + self.ready.borrow().len() + self.running.get()
    }

    /// Blocks until fewer than `limit` (at least 1) commits are pending, running callbacks. Each is told its own
    /// outcome.
    ///
    /// # Errors
    /// `Error::Closed` if the database was closed.
    pub fn wait_below(&self, limit: usize) -> Result<()> {
        let ready = |told, outcome| self.ready.borrow_mut().push((told, outcome));
        match &self.of {
            SessionOf::Paged(session) => session.wait_below_with(limit, ready),
            SessionOf::Memory(session) => session.wait_below_with(limit, ready),
        }
        self.run_ready();
        match &self.of {
            SessionOf::Paged(session) => session.check_open(),
            SessionOf::Memory(session) => session.check_open(),
        }
    }

    /// Blocks until no commit is pending, running callbacks. Errors as [`Session::wait_below`].
    pub fn drain(&self) -> Result<()> {
        self.wait_below(1)
    }

    fn run_ready(&self) -> usize {
        let mut batch = self.ready.take();
        let count = batch.len();
        self.running.set(self.running.get() + count);
        for (told, outcome) in batch.drain(..) {
            self.running.set(self.running.get() - 1);
            let result = match outcome {
                Ok(()) => told.result,
                Err(error) => told.result.and(Err(Error::from(error))),
            };
            (told.callback)(result);
        }
        // Its room is for the next time, unless a callback has polled as well.
        if self.ready.borrow().capacity() == 0 {
            *self.ready.borrow_mut() = batch;
        }
        count
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} pending)", self.pending())
    }
}
