//! Waiting for a commit without blocking.

use super::engine::Committed;
use super::inner::Inner;
use super::store::Timestamp;
use crate::CommitStamp;
use crate::engine::EngineCommit;
use crate::error::{Error, Result};
use katydid_wal::Completion;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What is inside a [`crate::CommitFuture`].
pub(crate) struct MemoryCommit {
    state: State,
    // Keeps the database open until the answer is known.
    inner: Arc<Inner>,
}

enum State {
    Waiting { completion: Completion, stamp: CommitStamp, seen_to: Timestamp },
    Known(Result<CommitStamp>),
}

impl MemoryCommit {
    pub(super) fn new(inner: &Arc<Inner>, committed: Result<Committed>) -> Self {
        let state = match committed {
            Ok(committed) => {
                let (place, depends) = committed.waits_for();
                let completion = inner.engine.log.wait_async(place, depends, committed.durability);
                State::Waiting { completion, stamp: committed.stamp(), seen_to: committed.seen_to }
            }
            Err(error) => State::Known(Err(error)),
        };
        MemoryCommit { state, inner: inner.clone() }
    }
}

impl Future for MemoryCommit {
    type Output = Result<CommitStamp>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<CommitStamp>> {
        let this = self.get_mut();
        match &mut this.state {
            State::Known(result) => Poll::Ready(result.clone()),
            State::Waiting { completion, stamp, seen_to } => {
                let outcome = ready!(Pin::new(completion).poll(context));
                this.inner.engine.acknowledge(*seen_to);
                let result = outcome.map(|()| *stamp).map_err(Error::from);
                this.state = State::Known(result.clone());
                Poll::Ready(result)
            }
        }
    }
}

impl Drop for MemoryCommit {
    fn drop(&mut self) {
        if let State::Waiting { seen_to, .. } = self.state {
            // Nobody will be told. But the store counts on every commit being told of, or it would keep old versions for ever.
            self.inner.engine.acknowledge(seen_to);
        }
    }
}

impl EngineCommit for MemoryCommit {}

impl fmt::Debug for MemoryCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Waiting { stamp, .. } => write!(f, "CommitFuture(waiting for {stamp})"),
            State::Known(result) => write!(f, "CommitFuture({result:?})"),
        }
    }
}
