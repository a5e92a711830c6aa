//! A queue of commit callbacks, run on the thread that owns it.
//!
//! Invariants:
//!
//! 1. Callbacks run in the order of their commits, each once, from `poll`, `wait_below` or `drain`, never from inside
//!    `commit_with`.
//! 2. A callback may use its session: nothing is borrowed while it runs.
//! 3. Callbacks still queued when the session is dropped are dropped without running. The commits go on.

use crate::Durability;
use crate::Lsn;
use crate::database::Inner;
use crate::error::{Error, Result};
use crate::transaction::Committed;
use katydid_wal::Completions;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

type Callback = Box<dyn FnOnce(Result<Lsn>) + Send>;

struct Told {
    callback: Callback,
    result: Result<Lsn>,
}

/// Runs the callbacks of [`crate::Transaction::commit_with`] on the thread that calls it. `Send`, not `Sync`: make one for each
/// thread. It keeps the database open.
pub struct Session {
    completions: RefCell<Completions<Told>>,
    /// Callbacks taken out of the queue to be run.
    ready: RefCell<Vec<(Told, std::result::Result<(), katydid_wal::Error>)>>,
    running: Cell<usize>,
    inner: Arc<Inner>,
}

impl Session {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Session {
            completions: RefCell::new(Completions::new(&inner.engine.log)),
            ready: RefCell::default(),
            running: Cell::new(0),
            inner,
        }
    }

    pub(crate) fn push(&self, committed: Result<Committed>, callback: Callback) {
        let (end, durability, result) = match committed {
            Ok(Committed { end, durability }) => (end, durability, Ok(end)),
            Err(error) => (Lsn::ZERO, Durability::Buffered, Err(error)),
        };
        self.completions.borrow_mut().push(end, durability, Told { callback, result });
    }

    /// Runs the callbacks of all commits that are done; how many. Never blocks.
    pub fn poll(&self) -> usize {
        self.completions
            .borrow_mut()
            .poll_with(|told, outcome| self.ready.borrow_mut().push((told, outcome)));
        self.run_ready()
    }

    /// Commits whose callbacks have not run.
    pub fn pending(&self) -> usize {
        self.completions.borrow().pending() + self.ready.borrow().len() + self.running.get()
    }

    /// Blocks until fewer than `limit` (at least 1) commits are pending, running callbacks. Each is told its own
    /// outcome.
    ///
    /// # Errors
    /// `Error::Closed` if the database was closed.
    pub fn wait_below(&self, limit: usize) -> Result<()> {
        self.completions
            .borrow_mut()
            .wait_below_with(limit, |told, outcome| self.ready.borrow_mut().push((told, outcome)));
        self.run_ready();
        self.inner.engine.check_open()
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
