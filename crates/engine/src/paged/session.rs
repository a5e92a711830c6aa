//! Waiting for the commits whose callbacks a session runs.

use crate::Durability;
use crate::Lsn;
use crate::callback::{Callback, Outcome, PendingCallback as Told};
use crate::error::Result;
use crate::paged::database::Inner;
use crate::paged::transaction::Committed;
use katydid_wal::Completions;
use std::cell::RefCell;
use std::sync::Arc;

/// What is inside a [`crate::Session`].
pub(crate) struct PagedSession {
    completions: RefCell<Completions<Told>>,
    inner: Arc<Inner>,
}

impl PagedSession {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        PagedSession { completions: RefCell::new(Completions::new(&inner.engine.log)), inner }
    }

    pub(crate) fn push(&self, committed: Result<Committed>, callback: Callback) {
        let (end, durability, result) = match committed {
            Ok(committed) => (committed.end, committed.durability, Ok(committed.stamp())),
            Err(error) => (Lsn::ZERO, Durability::Buffered, Err(error)),
        };
        self.completions.borrow_mut().push(end, durability, Told { callback, result });
    }

    /// Gives `ready` the commits that are done.
    pub(crate) fn poll_with(&self, ready: impl FnMut(Told, Outcome)) {
        self.completions.borrow_mut().poll_with(ready);
    }

    /// Blocks until fewer than `limit` are pending; gives `ready` those that are done.
    pub(crate) fn wait_below_with(&self, limit: usize, ready: impl FnMut(Told, Outcome)) {
        self.completions.borrow_mut().wait_below_with(limit, ready);
    }

    /// Commits that nobody was given yet.
    pub(crate) fn pending(&self) -> usize {
        self.completions.borrow().pending()
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        self.inner.engine.check_open()
    }
}
