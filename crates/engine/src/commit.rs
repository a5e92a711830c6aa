//! The future of a commit.

use crate::CommitStamp;
use crate::error::{Error, Result};
use crate::open::ChosenCommit;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Ready when the commit is as durable as its transaction asked. It may be dropped at any time; the commit goes on.
#[must_use = "a commit is not known to be durable before its future is ready"]
pub struct CommitFuture {
    /// The commit, or why it did not begin.
    of: Result<ChosenCommit>,
}

impl CommitFuture {
    pub(crate) fn new(of: Result<ChosenCommit>) -> Self {
        CommitFuture { of }
    }
}

impl Future for CommitFuture {
    type Output = Result<CommitStamp>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<CommitStamp>> {
        match &mut self.get_mut().of {
            Ok(commit) => Pin::new(commit).poll(context),
            Err(error) => Poll::Ready(Err(Error::clone(error))),
        }
    }
}

impl fmt::Debug for CommitFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Ok(commit) => commit.fmt(f),
            Err(error) => write!(f, "CommitFuture({error:?})"),
        }
    }
}
