//! Appending to one stream of a parallel log.
//!
//! A session belongs to one thread at a time, like the [`Session`](crate::Session) inside it. The way of an append reads the durable
//! frontiers of the streams it depends on, and shares nothing else with them.

use super::dependences::{Dependences, Place, StreamId};
use super::head;
use super::log::ParallelLog;
use crate::error::{AppendError, Error};
use crate::record::Kind;
use crate::session::{Append, Session};
use smallvec::SmallVec;
use std::fmt;

/// See the head of this file. Made by [`ParallelLog::session`].
pub struct ParallelSession {
    session: Session,
    stream: StreamId,
    log: ParallelLog,
}

impl ParallelSession {
    pub(super) fn new(log: ParallelLog, stream: StreamId) -> Result<Self, Error> {
        let session = log.stream(stream).session()?;
        Ok(ParallelSession { session, stream, log })
    }

    /// Appends a transaction's record: its timestamp, what it depends on, and its payload in pieces that are joined, of at most 64 MiB less
    /// 56 bytes and 16 for each place. When this returns, it is in memory; see [`Session::append`](crate::Session::append). Places that are
    /// durable already are not written.
    ///
    /// # Errors
    /// See [`AppendError`]. Nothing of the record is in the log then.
    #[inline]
    pub fn append(
        &mut self,
        timestamp: u64,
        depends: &Dependences,
        kind: Kind,
        payload: &[&[u8]],
    ) -> Result<Place, AppendError> {
        let log = &self.log;
        let places = depends.iter().filter(|place| !log.is_durable(*place));
        let head = head::encode(places.map(|place| (place, log.incarnation(place.stream))));
        let mut pieces: SmallVec<[&[u8]; 8]> = SmallVec::new();
        pieces.push(&head);
        pieces.extend_from_slice(payload);
        let appended = self.session.append(&Append::new(kind, &pieces).txn(timestamp))?;
        Ok(Place { stream: self.stream, end: appended.end })
    }

    /// The stream it appends to.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The log.
    pub fn log(&self) -> &ParallelLog {
        &self.log
    }
}

impl fmt::Debug for ParallelSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelSession").field("stream", &self.stream).finish_non_exhaustive()
    }
}
