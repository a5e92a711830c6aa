//! Waiting for a commit without blocking.

use crate::CommitStamp;
use crate::engine::EngineCommit;
use crate::error::{Error, Result};
use crate::paged::committed::Committed;
use crate::paged::inner::Inner;
use katydid_wal::Completion;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What is inside a [`crate::CommitFuture`].
pub(crate) struct PagedCommit {
    state: State,
    // Keeps the database open until the answer is known.
    _inner: Arc<Inner>,
}

enum State {
    Waiting(Completion, CommitStamp),
    Known(Result<CommitStamp>),
}

impl PagedCommit {
    pub(crate) fn new(inner: &Arc<Inner>, committed: Result<Committed>) -> Self {
        let state = match committed {
            Ok(committed) => {
                let completion = inner.engine.log.wait_async(committed.end, committed.durability);
                State::Waiting(completion, committed.stamp())
            }
            Err(error) => State::Known(Err(error)),
        };
        PagedCommit { state, _inner: inner.clone() }
    }
}

impl Future for PagedCommit {
    type Output = Result<CommitStamp>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<CommitStamp>> {
        let this = self.get_mut();
        match &mut this.state {
            State::Known(result) => Poll::Ready(result.clone()),
            State::Waiting(completion, stamp) => {
                let outcome = ready!(Pin::new(completion).poll(context));
                let result = outcome.map(|()| *stamp).map_err(Error::from);
                this.state = State::Known(result.clone());
                Poll::Ready(result)
            }
        }
    }
}

impl EngineCommit for PagedCommit {}

impl fmt::Debug for PagedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Waiting(_, stamp) => write!(f, "CommitFuture(waiting for {stamp})"),
            State::Known(result) => write!(f, "CommitFuture({result:?})"),
        }
    }
}
