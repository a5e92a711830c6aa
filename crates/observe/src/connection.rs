//! Serves one client: its requests, one after another, until it disconnects.
//!
//! Each client has a thread. Between two requests the thread holds only a handle of the database,
//! and the position of the client's feed if there is one.

use crate::answer::answer;
use crate::copying::{CopyRequest, copy};
use crate::feed::{Feed, FeedEnd};
use crate::frame::{self, FrameError, REQUEST_BYTES_MAX};
use crate::protocol::{ChangesBegin, Refusal, Reply, Request};
use katydid::Database;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Time without a request after which a client is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves a client until it disconnects, sends an unreadable frame, or is too slow.
pub(crate) fn serve(database: &Database, stream: &mut UnixStream) {
    let mut feed = None;
    loop {
        let reply = match frame::read::<Request>(stream, REQUEST_BYTES_MAX, PATIENCE) {
            Ok(Request::Changes { begin, acknowledge, wait, limit }) => {
                let wait = wait.then_some(&*stream);
                match changes(database, &mut feed, begin.as_ref(), acknowledge, |feed| feed.next(limit, wait))
                {
                    Ok(reply) => reply,
                    Err(FeedEnd::Refused(refusal)) => Reply::Refused(refusal),
                    Err(FeedEnd::Gone) => return,
                }
            }
            Ok(Request::Backup { to, base, bytes_per_second }) => {
                let request = CopyRequest { to: &to, base: base.as_ref(), bytes_per_second };
                copy(database, &request, stream)
            }
            Ok(request) => answer(database, &request),
            Err(FrameError::Protocol(protocol)) => Reply::Refused(Refusal::Protocol(protocol)),
            Err(FrameError::Json(why)) => Reply::Refused(Refusal::Request(why)),
            Err(FrameError::TooLong(..) | FrameError::Io(_) | FrameError::Ended) => return,
        };
        if frame::write(stream, &reply).is_err() {
            return;
        }
    }
}

fn changes(
    database: &Database,
    feed: &mut Option<Feed>,
    begin: Option<&ChangesBegin>,
    acknowledge: bool,
    next: impl FnOnce(&mut Feed) -> Result<Reply, FeedEnd>,
) -> Result<Reply, FeedEnd> {
    if let Some(begin) = begin {
        *feed = Some(Feed::begin(database, begin)?);
    }
    let Some(feed) = feed else {
        return Err(FeedEnd::Refused(Refusal::Request("this connection has begun no feed".to_owned())));
    };
    if acknowledge {
        feed.acknowledge()?;
    }
    next(feed)
}

/// Sends a client the refusal that there are too many clients. Does not block.
pub(crate) fn refuse(mut stream: UnixStream, clients: usize) {
    // A short frame fits into the buffer of a new socket. If it did not, the client would only see
    // the end of the connection.
    if stream.set_nonblocking(true).is_ok() {
        let _may_be_gone = frame::write(&mut stream, &Reply::Refused(Refusal::Busy(clients)));
    }
}
