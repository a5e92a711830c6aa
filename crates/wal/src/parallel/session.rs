//! Appending to one stream of a parallel log.
//!
//! A session belongs to one thread at a time, like the [`Session`](crate::Session) inside it. The way of an append reads the durable
//! frontiers of the streams it depends on, and shares nothing else with them.

use super::head::{Entry, encode};
use super::log::ParallelLog;
use crate::error::{AppendError, Error};
use crate::session::{Append, Session};
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::insert::AppendClass;
use katydid_kernels::record::{Chain, Kind};
use katydid_kernels::stamp::CommitStamp;
use std::fmt;

/// A record of at most so many places, and of a payload of fewer pieces than so many, needs no allocation.
const FEW_PLACES: usize = 4;
const FEW_PIECES: usize = 8;

/// The only record of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct CommitRecord<'a> {
    /// The transaction's place in the order of commits.
    pub stamp: CommitStamp,
    /// The transaction's id; the log only carries it.
    pub txn: u64,
    /// The places that the transaction depends on.
    pub depends: &'a Dependencies,
    /// What the record is about; at least [`Kind::USER`].
    pub kind: Kind,
    /// The payload, in pieces that are joined. At most 64 MiB less 48 bytes, and 16 bytes for each place of `depends`.
    pub payload: &'a [&'a [u8]],
    /// Whether it may use the reserve of its stream.
    pub class: AppendClass,
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

    /// Appends a transaction's record, admitted normally, of a transaction without an id.
    ///
    /// # Errors
    /// Those of [`ParallelSession::append_record`].
    #[inline]
    pub fn append(
        &mut self,
        stamp: CommitStamp,
        depends: &Dependencies,
        kind: Kind,
        payload: &[&[u8]],
    ) -> Result<StreamLsn, AppendError> {
        self.append_record(&CommitRecord {
            stamp,
            txn: 0,
            depends,
            kind,
            payload,
            class: AppendClass::Normal,
        })
    }

    /// Appends a transaction's record. When this returns, the record is in memory; see [`Session::append`](crate::Session::append). Places
    /// that are durable already are not written.
    ///
    /// # Errors
    /// See [`AppendError`]. Nothing of the record is in the log then.
    #[inline]
    pub fn append_record(&mut self, record: &CommitRecord<'_>) -> Result<StreamLsn, AppendError> {
        let CommitRecord { depends, payload, .. } = *record;
        if depends.is_empty() {
            return self.append_pieces(record, 0, payload);
        }
        if depends.len() > FEW_PLACES || payload.len() >= FEW_PIECES {
            return self.append_many(record);
        }
        let mut entries = [[0; _]; FEW_PLACES];
        let mut count = 0;
        for place in depends.iter().filter(|place| !self.log.is_durable(*place)) {
            entries[count] = encode(place, self.log.incarnation(place.stream));
            count += 1;
        }
        let mut pieces = [&[][..]; FEW_PIECES];
        pieces[0] = entries[..count].as_flattened();
        pieces[1..=payload.len()].copy_from_slice(payload);
        // Without an empty piece.
        self.append_pieces(record, count, &pieces[usize::from(count == 0)..=payload.len()])
    }

    #[cold]
    fn append_many(&mut self, record: &CommitRecord<'_>) -> Result<StreamLsn, AppendError> {
        let places = record.depends.iter().filter(|place| !self.log.is_durable(*place));
        let entries: Vec<Entry> =
            places.map(|place| encode(place, self.log.incarnation(place.stream))).collect();
        let pieces: Vec<&[u8]> =
            std::iter::once(entries.as_flattened()).chain(record.payload.iter().copied()).collect();
        self.append_pieces(record, entries.len(), &pieces)
    }

    /// Appends the record with these pieces, of which the first holds so many dependencies, if there are some.
    #[inline]
    fn append_pieces(
        &mut self,
        record: &CommitRecord<'_>,
        dependencies: usize,
        pieces: &[&[u8]],
    ) -> Result<StreamLsn, AppendError> {
        let CommitRecord { stamp, txn, kind, class, .. } = *record;
        // At most one in each stream, and streams have numbers of 16 bits.
        let chain = Chain::Commit { stamp, dependencies: dependencies as u16 };
        let append = Append { chain, ..Append::new(kind, pieces).txn(txn).class(class) };
        let appended = self.session.append(&append)?;
        Ok(StreamLsn { stream: self.stream, end: appended.end })
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
