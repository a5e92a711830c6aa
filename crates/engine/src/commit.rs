//! The future of a commit.

use crate::CommitStamp;
use crate::error::{Error, Result};
use crate::memory::MemoryCommit;
use crate::paged::commit::PagedCommit;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Ready when the commit is as durable as its transaction asked. It may be dropped at any time; the commit goes on.
#[must_use = "a commit is not known to be durable before its future is ready"]
pub struct CommitFuture {
    pub(crate) of: CommitOf,
}

/// The commit, as its engine knows it.
pub(crate) enum CommitOf {
    Paged(PagedCommit),
    Memory(MemoryCommit),
    /// The commit did not begin: its error.
    Refused(Error),
}

impl Future for CommitFuture {
    type Output = Result<CommitStamp>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<CommitStamp>> {
        match &mut self.get_mut().of {
            CommitOf::Paged(commit) => Pin::new(commit).poll(context),
            CommitOf::Memory(commit) => Pin::new(commit).poll(context),
            CommitOf::Refused(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

impl fmt::Debug for CommitFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            CommitOf::Paged(commit) => commit.fmt(f),
            CommitOf::Memory(commit) => commit.fmt(f),
            CommitOf::Refused(error) => write!(f, "CommitFuture({error:?})"),
        }
    }
}
