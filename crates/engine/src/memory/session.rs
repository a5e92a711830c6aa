//! Waiting for the commits whose callbacks a session runs.

use super::engine::Committed;
use super::inner::Inner;
use super::store::Timestamp;
use crate::Durability;
use crate::callback::{Callback, Outcome, PendingCallback as Told};
use crate::engine::EngineSession;
use crate::error::{Error, Result};
use katydid_wal::{Completions, Dependencies, Lsn, StreamId, StreamLsn};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What is inside a [`crate::Session`].
pub(crate) struct MemorySession {
    completions: RefCell<Completions<(Told, Timestamp)>>,
    /// The latest that any commit queued here has seen.
    seen_to: Cell<Timestamp>,
    inner: Arc<Inner>,
}

impl MemorySession {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let completions = RefCell::new(inner.engine.log.completions());
        MemorySession { completions, seen_to: Cell::new(Timestamp::ZERO), inner }
    }

    pub(crate) fn push(&self, committed: Result<Committed>, callback: Callback) {
        let mut completions = self.completions.borrow_mut();
        match committed {
            Ok(committed) => {
                self.seen_to.set(self.seen_to.get().max(committed.seen_to));
                let (place, depends) = committed.waits_for();
                let told = Told { callback, result: Ok(committed.stamp()) };
                completions.push(place, depends, committed.durability, (told, committed.seen_to));
            }
            Err(error) => {
                let told = Told { callback, result: Err(error) };
                let nowhere = StreamLsn { stream: StreamId::FIRST, end: Lsn::ZERO };
                completions.push(
                    nowhere,
                    &Dependencies::default(),
                    Durability::Buffered,
                    (told, Timestamp::ZERO),
                );
            }
        }
    }
}

impl EngineSession for MemorySession {
    fn refuse(&self, error: Error, callback: Callback) {
        self.push(Err(error), callback);
    }

    fn poll_with(&self, mut ready: impl FnMut(Told, Outcome)) {
        let engine = &self.inner.engine;
        self.completions.borrow_mut().poll_with(|(told, seen_to), outcome| {
            engine.acknowledge(seen_to);
            ready(told, outcome);
        });
    }

    fn wait_below_with(&self, limit: usize, mut ready: impl FnMut(Told, Outcome)) {
        let engine = &self.inner.engine;
        self.completions.borrow_mut().wait_below_with(limit, |(told, seen_to), outcome| {
            engine.acknowledge(seen_to);
            ready(told, outcome);
        });
    }

    fn pending(&self) -> usize {
        self.completions.borrow().pending()
    }

    fn check_open(&self) -> Result<()> {
        self.inner.engine.check_open()
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        // Nobody will be told of what is still queued. But the store counts on every commit being told of, or it would keep old versions.
        if self.pending() > 0 {
            self.inner.engine.acknowledge(self.seen_to.get());
        }
    }
}
