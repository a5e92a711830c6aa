//! The feed of one connection: committed transactions, the next ones with each request.
//!
//! On the thread of the connection, which waits here for the next commit. The wait ends when the
//! client goes away, the socket ends, the database is closed, or [`WAIT`] is over. Invariants:
//!
//! 1. Each transaction goes into replies once, in the order of commits, and a reply that cannot be
//!    written ends the connection. So what a client has seen is a prefix of what was given, and the
//!    position of the last whole transaction that it has seen is where to go on.
//! 2. Nothing is acknowledged but transactions of replies before: the client asks for it with its
//!    next request.

use crate::committed::{Committed, CommittedChange};
use crate::presence::{Alarm, Ended};
use crate::protocol::{ChangesBegin, Refusal, Reply};
use katydid::{ChangeConsumer, ChangePosition, Changes, ChangesFrom, CommittedTransaction, Database, Error};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The longest wait for the next transaction in one request: below the time that a client waits for
/// a reply.
const WAIT: Duration = Duration::from_secs(20);
/// Transactions of one reply, at most.
const TRANSACTIONS_MAX: u64 = 1000;
/// A reply ends with the change that makes keys and values longer than this.
const REPLY_BYTES: usize = 1 << 20;

/// See the head of this file.
pub(crate) struct Feed {
    source: Source,
    old: bool,
    /// The rest of a transaction that did not fit the reply before.
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

/// Reason why there is no reply.
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

    /// Acknowledges what earlier replies had.
    pub(crate) fn acknowledge(&mut self) -> Result<(), FeedEnd> {
        match &mut self.source {
            _ if self.rest.is_some() => {
                let reason = "a transaction was given in part only".to_owned();
                Err(FeedEnd::Refused(Refusal::Request(reason)))
            }
            Source::Changes(_) => Ok(()),
            Source::Consumer(consumer) => Ok(consumer.acknowledge()?),
        }
    }

    /// The transactions that are there, as many as fit; if there is none, the next one, which is
    /// waited for if `stream` is given.
    pub(crate) fn next(&mut self, limit: u64, wait: Option<&UnixStream>) -> Result<Reply, FeedEnd> {
        let (mut given, mut bytes) = (Vec::new(), 0);
        while (given.len() as u64) < limit.min(TRANSACTIONS_MAX) && bytes < REPLY_BYTES {
            let whole = match self.rest.take() {
                Some(rest) => rest,
                None => match self.transaction(if given.is_empty() { wait } else { None }) {
                    Ok(Some(transaction)) => Committed::of(transaction, &self.source.position(), self.old),
                    Ok(None) => break,
                    // What was read before it is given first; the error comes again.
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

/// Cuts a transaction after the change that makes the reply long enough.
fn split(mut whole: Committed, bytes: &mut usize) -> (Committed, Option<Committed>) {
    let fits = whole.changes.iter().position(|change: &CommittedChange| {
        // Names and punctuation count a little, so that many small changes end, too.
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
