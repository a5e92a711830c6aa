//! The feed of one connection. Each request returns the next committed transactions.
//!
//! The thread of the connection runs this code, and may wait here for the next commit. The wait
//! ends when the client disconnects, the socket or the database is closed, or [`WAIT`] is over.
//! Invariants:
//!
//! 1. Each transaction goes into replies once, in the order of commits, and a reply that cannot be
//!    written ends the connection. So a client has seen a prefix of the feed, and can continue at
//!    the position of the last complete transaction that it has seen.
//! 2. Only transactions of earlier replies are acknowledged, when the client asks for that in its
//!    next request.

use crate::committed::{Committed, CommittedChange};
use crate::presence::{Alarm, Ended};
use crate::protocol::{ChangesBegin, Refusal, Reply};
use katydid::{ChangeConsumer, ChangePosition, Changes, ChangesFrom, CommittedTransaction, Database, Error};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Maximum wait for the next transaction in one request; shorter than a client's wait for a reply.
const WAIT: Duration = Duration::from_secs(20);
/// Maximum number of transactions in one reply.
const TRANSACTIONS_MAX: u64 = 1000;
/// Bytes of changes at which a reply ends.
const REPLY_BYTES: usize = 1 << 20;

/// The feed of one connection, as the head of this file describes.
pub(crate) struct Feed {
    source: Source,
    old: bool,
    /// Rest of a transaction that did not fit into the last reply.
    rest: Option<Committed>,
    alarm: Arc<Alarm>,
}

enum Source {
    Changes(Changes),
    Consumer(ChangeConsumer),
}

impl Source {
    fn try_next(&mut self) -> Result<Option<CommittedTransaction>, Error> {
        match self {
            Source::Changes(changes) => changes.try_next(),
            Source::Consumer(consumer) => consumer.try_next(),
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<CommittedTransaction, Error>> {
        match self {
            Source::Changes(changes) => changes.poll_next(context),
            Source::Consumer(consumer) => consumer.poll_next(context),
        }
    }

    fn position(&self) -> ChangePosition {
        match self {
            Source::Changes(changes) => changes.position(),
            Source::Consumer(consumer) => consumer.position(),
        }
    }
}

/// Reason why a request of the feed has no reply with transactions.
pub(crate) enum FeedEnd {
    /// The client is gone, or the socket ends.
    Gone,
    Refused(Refusal),
}

impl From<Error> for FeedEnd {
    fn from(error: Error) -> FeedEnd {
        FeedEnd::Refused(match error {
            Error::Closed => Refusal::Closed,
            error => Refusal::Failed(error.to_string()),
        })
    }
}

impl Feed {
    pub(crate) fn begin(database: &Database, begin: &ChangesBegin) -> Result<Feed, FeedEnd> {
        let from = match begin.from.as_str() {
            "oldest" => ChangesFrom::Oldest,
            "now" => ChangesFrom::Now,
            position => ChangesFrom::Position(position.parse::<ChangePosition>()?),
        };
        let source = match &begin.consumer {
            None => Source::Changes(database.changes(&from)?),
            Some(consumer) => Source::Consumer(database.consumer(&consumer.name, consumer.keep, &from)?),
        };
        let alarm = Alarm::new().map_err(|error| FeedEnd::Refused(Refusal::Failed(error.to_string())))?;
        Ok(Feed { source, old: begin.old, rest: None, alarm })
    }

    /// Acknowledges the transactions of earlier replies.
    pub(crate) fn acknowledge(&mut self) -> Result<(), FeedEnd> {
        match &mut self.source {
            _ if self.rest.is_some() => {
                let reason = "the last transaction is not complete yet".to_owned();
                Err(FeedEnd::Refused(Refusal::Request(reason)))
            }
            Source::Changes(_) => Ok(()),
            Source::Consumer(consumer) => Ok(consumer.acknowledge()?),
        }
    }

    /// Returns the next transactions: at most `limit`, as far as they are durable and fit into a
    /// reply. If there is none and `wait` is given, waits for one.
    pub(crate) fn next(&mut self, limit: u64, wait: Option<&UnixStream>) -> Result<Reply, FeedEnd> {
        let (mut given, mut bytes) = (Vec::new(), 0);
        while (given.len() as u64) < limit.min(TRANSACTIONS_MAX) && bytes < REPLY_BYTES {
            let whole = match self.rest.take() {
                Some(rest) => rest,
                None => match self.transaction(if given.is_empty() { wait } else { None }) {
                    Ok(Some(transaction)) => Committed::of(transaction, &self.source.position(), self.old),
                    Ok(None) => break,
                    // The transactions read so far are returned first. The next request meets the
                    // error again.
                    Err(_) if !given.is_empty() => break,
                    Err(end) => return Err(end),
                },
            };
            let (part, rest) = split(whole, &mut bytes);
            given.push(part);
            self.rest = rest;
        }
        Ok(Reply::Changes(given))
    }

    fn transaction(&mut self, wait: Option<&UnixStream>) -> Result<Option<CommittedTransaction>, FeedEnd> {
        let Some(stream) = wait else { return Ok(self.source.try_next()?) };
        let (waker, deadline) = (Waker::from(self.alarm.clone()), Instant::now() + WAIT);
        loop {
            self.alarm.clear();
            if let Poll::Ready(outcome) = self.source.poll_next(&mut Context::from_waker(&waker)) {
                return Ok(Some(outcome?));
            }
            match self.alarm.wait(stream, deadline) {
                Ended::Woken => {}
                Ended::Late => return Ok(None),
                Ended::Gone => return Err(FeedEnd::Gone),
            }
        }
    }
}

/// Splits a transaction after the change at which the reply reaches [`REPLY_BYTES`]. `bytes` is the
/// size of the reply so far.
fn split(mut whole: Committed, bytes: &mut usize) -> (Committed, Option<Committed>) {
    let fits = whole.changes.iter().position(|change: &CommittedChange| {
        // Each change counts 64 bytes for names and punctuation, so that many small changes also
        // end a reply.
        *bytes += change.bytes() + 64;
        *bytes >= REPLY_BYTES
    });
    let cut = fits.map_or(whole.changes.len(), |last| last + 1);
    let rest = whole.changes.split_off(cut);
    if rest.is_empty() {
        return (whole, None);
    }
    let rest = Committed { changes: rest, position: whole.position.clone(), ..whole };
    (Committed { more: true, ..whole }, Some(rest))
}
