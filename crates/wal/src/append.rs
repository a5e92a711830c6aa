//! A record to append, and the positions of an appended record.
//!
//! [`Append`] and [`Appended`] are plain values. Sessions append records, and the log appends
//! records of its own.

use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::insert::AppendClass;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{Chain, Kind};
use katydid_kernels::stamp::CommitStamp;

/// A record to append.
///
/// ```
/// use katydid_wal::{Append, Kind};
/// let record = Append::new(Kind::USER, &[b"key", b"=value"]).txn(7);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// The kind of the record, chosen by the program; at least [`Kind::USER`].
    pub kind: Kind,
    /// Id of the transaction that the record belongs to. The log stores the id and does not read
    /// it.
    pub txn: u64,
    /// The LSN of the last record that this record depends on, or [`Lsn::ZERO`]. The log puts this
    /// record above that one. All inserters but
    /// [`InserterKind::Chunked`](crate::InserterKind::Chunked) put a record above everything
    /// appended before. `Chunked` does so only for records of one session, so a dependency on
    /// another session's record must be named here.
    pub after: Lsn,
    /// The payload, in pieces that the log joins. All pieces together have at most 64 MiB less the
    /// header's 48 bytes.
    pub payload: &'a [&'a [u8]],
    /// Class of the append: whether the record may use the reserve, the last part of the prepared
    /// space.
    pub class: AppendClass,
    /// The previous record of the transaction, or the commit stamp. The session also stores here
    /// how many dependencies it puts before the payload. Callers therefore do not set the field,
    /// but call [`Append::prev`], [`Append::stamp`] or [`Append::commit`].
    pub(crate) chain: Chain,
    /// Dependencies to write before the payload; `None` instead of an empty set.
    pub(crate) dependencies: Option<&'a Dependencies>,
}

impl<'a> Append<'a> {
    /// Makes a record of transaction 0 that has no previous record and may not use the reserve.
    pub fn new(kind: Kind, payload: &'a [&'a [u8]]) -> Self {
        let (after, class, chain) = (Lsn::ZERO, AppendClass::Normal, Chain::NONE);
        Append { kind, txn: 0, after, payload, class, chain, dependencies: None }
    }

    /// Sets the transaction of the record.
    pub fn txn(self, txn: u64) -> Self {
        Append { txn, ..self }
    }

    /// Sets the LSN of the transaction's previous record, or [`Lsn::ZERO`] if there is none. The
    /// log stores that LSN, and puts this record above it.
    pub fn prev(self, prev: Lsn) -> Self {
        Append { chain: Chain::Previous(prev), dependencies: None, ..self }
    }

    /// Makes the record the only one of a transaction with this stamp. The record then has no
    /// previous record. The log stores the stamp.
    pub fn stamp(self, stamp: CommitStamp) -> Self {
        Append { chain: Chain::Commit { stamp, dependencies: 0 }, dependencies: None, ..self }
    }

    /// Makes the record the only one of a transaction with this stamp and these dependencies.
    /// Before the payload the log writes the dependencies that are not durable at the append, 16
    /// bytes each. Recovery keeps the record only if those dependencies have survived.
    pub fn commit(self, stamp: CommitStamp, dependencies: &'a Dependencies) -> Self {
        Append { dependencies: Some(dependencies).filter(|set| !set.is_empty()), ..self.stamp(stamp) }
    }

    /// Sets the LSN of the record that this record depends on. The log puts this record above that
    /// one.
    pub fn depends_on(self, after: Lsn) -> Self {
        Append { after, ..self }
    }

    /// Sets the permission to use the reserve.
    pub fn class(self, class: AppendClass) -> Self {
        Append { class, ..self }
    }

    /// Returns the LSN of the highest record that this record must lie above.
    #[inline]
    pub(crate) fn above(&self) -> Lsn {
        self.chain.previous().map_or(self.after, |previous| self.after.max(previous))
    }
}

/// The positions of an appended record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The stream that the record is in.
    pub stream: StreamId,
    /// Start of the record's first fragment. A trim up to this position keeps the record.
    pub first: Lsn,
    /// The LSN that identifies the record: the start of its last fragment. The LSN equals `first`,
    /// except in large records.
    pub lsn: Lsn,
    /// Exclusive end of the record. The record is durable when
    /// [`Stream::durable`](crate::Stream::durable) has reached this position.
    pub end: Lsn,
    /// Bytes that the record takes in the log's memory or files, headers and padding included. The
    /// entry of a log whose records lie apart ([`LogKind::lies_apart`](crate::LogKind::lies_apart))
    /// is not counted.
    pub bytes: u64,
}

impl Appended {
    /// Returns the end of the record in its stream. The record is durable when everything below
    /// this position is durable.
    pub fn position(&self) -> StreamLsn {
        StreamLsn { stream: self.stream, end: self.end }
    }
}
