//! A record to append, and the position that it was given.
//!
//! Plain values. Sessions and the log's own records use them.

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
    /// Id of the transaction that the record belongs to. The log stores it and does not read it.
    pub txn: u64,
    /// The LSN of the last record that this one depends on: the log puts this record above it.
    /// [`Lsn::ZERO`] if there is none. All inserters but
    /// [`InserterKind::Chunked`](crate::InserterKind::Chunked) put a record above everything
    /// appended before. `Chunked` does so within a session only, and reads this field for records
    /// of other sessions.
    pub after: Lsn,
    /// The payload, in pieces that the log joins. At most 64 MiB less the header's 48 bytes.
    pub payload: &'a [&'a [u8]],
    /// Permission to use the reserve.
    pub class: AppendClass,
    /// The previous record of the transaction, or the commit stamp. The session also counts the
    /// dependencies here that it puts before the payload, so callers do not set the field as a
    /// whole.
    pub(crate) chain: Chain,
    /// Positions to be named before the payload; none that is empty.
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

    /// Sets the previous record of the transaction. The log stores its LSN, and puts this record
    /// above it. [`Lsn::ZERO`] if there is none.
    pub fn prev(self, prev: Lsn) -> Self {
        Append { chain: Chain::Previous(prev), dependencies: None, ..self }
    }

    /// Makes the record the only one of a transaction with this stamp; it has no previous record.
    /// The log stores the stamp.
    pub fn stamp(self, stamp: CommitStamp) -> Self {
        Append { chain: Chain::Commit { stamp, dependencies: 0 }, dependencies: None, ..self }
    }

    /// Makes the record the only one of a transaction with this stamp and these dependencies. The
    /// log writes those that are not durable at the append before the payload, 16 bytes each.
    /// Recovery keeps the record only if they have survived.
    pub fn commit(self, stamp: CommitStamp, dependencies: &'a Dependencies) -> Self {
        Append { dependencies: Some(dependencies).filter(|set| !set.is_empty()), ..self.stamp(stamp) }
    }

    /// Sets the record that this one depends on, and lies above.
    pub fn depends_on(self, after: Lsn) -> Self {
        Append { after, ..self }
    }

    /// Sets the permission to use the reserve.
    pub fn class(self, class: AppendClass) -> Self {
        Append { class, ..self }
    }

    /// The highest record that this one is put above.
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
    /// Start of its first fragment. Trimming up to here keeps the record.
    pub first: Lsn,
    /// The LSN that identifies the record: the start of its last fragment. It equals `first` for
    /// all but large records.
    pub lsn: Lsn,
    /// Exclusive end. The record is durable when [`Stream::durable`](crate::Stream::durable) has
    /// reached it.
    pub end: Lsn,
    /// Bytes of the log's memory or files that it takes, headers and padding included, without
    /// entries of logs whose records lie apart
    /// ([`LogKind::lies_apart`](crate::LogKind::lies_apart)).
    pub bytes: u64,
}

impl Appended {
    /// The position below which everything of its stream must be durable for the record to be.
    pub fn position(&self) -> StreamLsn {
        StreamLsn { stream: self.stream, end: self.end }
    }
}
