//! Appending to one stream of a parallel log.
//!
//! A session belongs to one thread at a time, like the [`Session`](crate::Session) inside it. The way of an append reads the durable
//! frontiers of the streams it depends on, and shares nothing else with them.

use super::head::{Entry, HAS_PLACES, encode, finish};
use super::log::ParallelLog;
use crate::error::{AppendError, Error};
use crate::session::{Append, Session};
use katydid_kernels::dependences::{Dependences, Place, StreamId};
use katydid_kernels::insert::AppendClass;
use katydid_kernels::record::Kind;
use std::fmt;

/// A record of at most so many places, and of a payload of fewer pieces than so many, needs no allocation.
const FEW_PLACES: usize = 4;
const FEW_PIECES: usize = 8;

/// A record, but for its places and payload.
#[derive(Clone, Copy)]
struct Unplaced {
    timestamp: u64,
    kind: Kind,
    class: AppendClass,
}

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
    /// 48 bytes and 16 for each place. When this returns, it is in memory; see [`Session::append`](crate::Session::append). Places that are
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
        self.append_admitted(timestamp, depends, kind, payload, AppendClass::Normal)
    }

    /// The same, and says whether the record may use the reserve of its stream.
    ///
    /// # Errors
    /// As [`ParallelSession::append`].
    #[inline]
    pub fn append_admitted(
        &mut self,
        timestamp: u64,
        depends: &Dependences,
        kind: Kind,
        payload: &[&[u8]],
        class: AppendClass,
    ) -> Result<Place, AppendError> {
        let record = Unplaced { timestamp, kind, class };
        if depends.is_empty() {
            return self.append_head(record, 0, payload);
        }
        if depends.len() > FEW_PLACES || payload.len() >= FEW_PIECES {
            return self.append_many(record, depends, payload);
        }
        let mut places = [[0; _]; FEW_PLACES];
        let mut count = 0;
        for place in depends.iter().filter(|place| !self.log.is_durable(*place)) {
            places[count] = encode(place, self.log.incarnation(place.stream));
            count += 1;
        }
        let mut pieces = [&[][..]; FEW_PIECES];
        pieces[0] = finish(&mut places[..count]);
        pieces[1..=payload.len()].copy_from_slice(payload);
        // Without an empty piece.
        self.append_head(record, count, &pieces[usize::from(count == 0)..=payload.len()])
    }

    #[cold]
    fn append_many(
        &mut self,
        record: Unplaced,
        depends: &Dependences,
        payload: &[&[u8]],
    ) -> Result<Place, AppendError> {
        let places = depends.iter().filter(|place| !self.log.is_durable(*place));
        let mut places: Vec<Entry> =
            places.map(|place| encode(place, self.log.incarnation(place.stream))).collect();
        let count = places.len();
        let pieces: Vec<&[u8]> =
            std::iter::once(finish(&mut places)).chain(payload.iter().copied()).collect();
        self.append_head(record, count, &pieces)
    }

    #[inline]
    fn append_head(
        &mut self,
        record: Unplaced,
        places: usize,
        pieces: &[&[u8]],
    ) -> Result<Place, AppendError> {
        let prev = HAS_PLACES[usize::from(places > 0)];
        let Unplaced { timestamp, kind, class } = record;
        let append = Append::new(kind, pieces).txn(timestamp).prev(prev).class(class);
        let appended = self.session.append(&append)?;
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
