//! Waiting for the commits whose callbacks a session runs.

use crate::Durability;
use crate::Lsn;
use crate::callback::{Callback, Outcome, PendingCallback as Told};
use crate::engine::EngineSession;
use crate::error::{Error, Result};
use crate::paged::committed::Committed;
use crate::paged::inner::Inner;
use katydid_wal::{Completions, Dependencies};
use std::cell::RefCell;
use std::sync::Arc;

/// What is inside a [`crate::Session`].
pub(crate) struct PagedSession {
    completions: RefCell<Completions<Told>>,
    inner: Arc<Inner>,
}

impl PagedSession {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        PagedSession { completions: RefCell::new(inner.engine.log.completions()), inner }
    }

    pub(crate) fn push(&self, committed: Result<Committed>, callback: Callback) {
        let (end, durability, result) = match committed {
            Ok(committed) => (committed.end, committed.durability, Ok(committed.stamp())),
            Err(error) => (Lsn::ZERO, Durability::Buffered, Err(error)),
        };
        let at = self.inner.engine.log.at(end);
        let told = Told { callback, result };
        self.completions.borrow_mut().push(at, &Dependencies::default(), durability, told);
    }
}

impl EngineSession for PagedSession {
    fn refuse(&self, error: Error, callback: Callback) {
        self.push(Err(error), callback);
    }

    fn poll_with(&self, ready: impl FnMut(Told, Outcome)) {
        self.completions.borrow_mut().poll_with(ready);
    }

    fn wait_below_with(&self, limit: usize, ready: impl FnMut(Told, Outcome)) {
        self.completions.borrow_mut().wait_below_with(limit, ready);
    }

    fn pending(&self) -> usize {
        self.completions.borrow().pending()
    }

    fn check_open(&self) -> Result<()> {
        self.inner.engine.check_open()
    }
}
