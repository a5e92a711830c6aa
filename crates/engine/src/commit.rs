//! The three ways to be told that a commit is durable.

use crate::Lsn;
use crate::error::{Error, Result};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Ready when the commit is as durable as its transaction asked. It may be dropped; the commit goes on.
#[derive(Debug)]
#[must_use = "a commit is not known to be durable before its future is ready"]
pub struct CommitFuture {}

impl Future for CommitFuture {
    type Output = Result<Lsn>;

    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Result<Lsn>> {
        Poll::Ready(Err(Error::Internal("the engine is not part of this build")))
    }
}
