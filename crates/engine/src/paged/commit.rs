//! Waiting for a commit without blocking.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::paged::database::Inner;
use crate::paged::transaction::Committed;
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
    Waiting(Completion, Lsn),
    Known(Result<Lsn>),
}

impl PagedCommit {
    pub(crate) fn new(inner: &Arc<Inner>, committed: Result<Committed>) -> Self {
        let state = match committed {
            Ok(Committed { end, durability }) => {
                State::Waiting(inner.engine.log.wait_async(end, durability), end)
            }
            Err(error) => State::Known(Err(error)),
        };
        PagedCommit { state, _inner: inner.clone() }
    }
}

impl Future for PagedCommit {
    type Output = Result<Lsn>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Lsn>> {
        let this = self.get_mut();
        match &mut this.state {
            State::Known(result) => Poll::Ready(result.clone()),
            State::Waiting(completion, end) => {
                let outcome = ready!(Pin::new(completion).poll(context));
                let result = outcome.map(|()| *end).map_err(Error::from);
                this.state = State::Known(result.clone());
                Poll::Ready(result)
            }
        }
    }
}

impl fmt::Debug for PagedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Waiting(_, end) => write!(f, "CommitFuture(waiting for {end})"),
            State::Known(result) => write!(f, "CommitFuture({result:?})"),
        }
    }
}
