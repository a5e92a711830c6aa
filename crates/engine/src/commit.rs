//! The future of a commit.

use crate::CommitStamp;
use crate::error::{Error, Result};
use crate::ticket::{OpenEngine, Ticket};
use katydid_kernels::txn::Timestamp;
use katydid_wal::Completion;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// The future of a commit: ready, with the commit stamp, when the commit is as durable as its
/// transaction asked. The future may be dropped at any time; the commit goes on.
#[must_use = "a commit is not known to be durable before its future is ready"]
pub struct CommitFuture {
    state: State,
    /// Keeps the database open; `None` if the commit did not begin.
    engine: Option<Arc<dyn OpenEngine>>,
}

enum State {
    Waiting { completion: Completion, stamp: CommitStamp, seen_to: Timestamp, begun: Option<Instant> },
    Known(Result<CommitStamp>),
}

impl CommitFuture {
    /// The future of a commit that has a ticket, or that failed before it got one.
    pub(crate) fn new(
        engine: Arc<dyn OpenEngine>,
        committed: Result<Ticket>,
        begun: Option<Instant>,
    ) -> Self {
        let state = match committed {
            Ok(ticket) => {
                let completion = engine.wait_async(&ticket);
                State::Waiting { completion, stamp: ticket.stamp, seen_to: ticket.seen_to, begun }
            }
            Err(error) => State::Known(Err(error)),
        };
        CommitFuture { state, engine: Some(engine) }
    }

    /// The future of a commit that did not begin.
    pub(crate) fn refused(error: Error) -> Self {
        CommitFuture { state: State::Known(Err(error)), engine: None }
    }

    fn acknowledge(&self, seen_to: Timestamp) {
        if let Some(engine) = &self.engine {
            engine.acknowledge(seen_to);
        }
    }
}

impl Future for CommitFuture {
    type Output = Result<CommitStamp>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<CommitStamp>> {
        let this = self.get_mut();
        match &mut this.state {
            State::Known(result) => Poll::Ready(result.clone()),
            State::Waiting { completion, stamp, seen_to, begun } => {
                let outcome = ready!(Pin::new(completion).poll(context));
                let (stamp, seen_to, begun) = (*stamp, *seen_to, *begun);
                this.acknowledge(seen_to);
                if let (Some(engine), Some(begun), Ok(())) = (&this.engine, begun, &outcome) {
                    engine.committed(begun, Instant::now());
                }
                let result = outcome.map(|()| stamp).map_err(Error::from);
                this.state = State::Known(result.clone());
                Poll::Ready(result)
            }
        }
    }
}

impl Drop for CommitFuture {
    fn drop(&mut self) {
        if let State::Waiting { seen_to, .. } = self.state {
            // The program never learns of this commit. The memory engine counts the commit as
            // acknowledged all the same, because otherwise it would never release old versions.
            self.acknowledge(seen_to);
        }
    }
}

impl fmt::Debug for CommitFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Waiting { stamp, .. } => write!(f, "CommitFuture(waiting for {stamp})"),
            State::Known(result) => write!(f, "CommitFuture({result:?})"),
        }
    }
}
