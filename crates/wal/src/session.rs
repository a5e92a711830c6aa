//! A session: one thread's (or one pooled worker's) way to append to a stream.
//!
//! A session owns a slot of the inserter, so that appenders do not share what they need not. It may move between threads, but is
//! used by one at a time. Any number may come and go, up to [`Options::sessions_max`](crate::Options::sessions_max) at once.

use crate::completion::{Callback, Completions};
use crate::error::{AppendError, Error};
use crate::head::{Entry, encode};
use crate::stream::Stream;
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::insert::AppendClass;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{Chain, Kind};
use katydid_kernels::stamp::CommitStamp;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

/// A record to append.
///
/// ```
/// use katydid_wal::{Append, Kind};
/// let record = Append::new(Kind::USER, &[b"key", b"=value"]).txn(7);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// What it is about; at least [`Kind::USER`].
    pub kind: Kind,
    /// Id of the transaction it belongs to; the log only carries it.
    pub txn: u64,
    /// The highest record that this one depends on, by its LSN: it is put above. [`Lsn::ZERO`] for none. All inserters but
    /// [`InserterKind::Chunked`](crate::InserterKind::Chunked) put a record above everything appended before; that one does so
    /// within a session only, and otherwise needs to be told.
    pub after: Lsn,
    /// The payload, in pieces that are joined. At most 64 MiB less the header's 48 bytes.
    pub payload: &'a [&'a [u8]],
    /// Whether it may use the reserve.
    pub class: AppendClass,
    /// Its previous record, or its commit stamp. The session counts dependencies in it and puts them before the payload, so callers do not
    /// set it as a whole.
    pub(crate) chain: Chain,
    /// Positions to be named before the payload; none that is empty.
    pub(crate) dependencies: Option<&'a Dependencies>,
}

impl<'a> Append<'a> {
    /// A record of transaction 0 with no previous one, admitted normally.
    pub fn new(kind: Kind, payload: &'a [&'a [u8]]) -> Self {
        let (after, class, chain) = (Lsn::ZERO, AppendClass::Normal, Chain::NONE);
        Append { kind, txn: 0, after, payload, class, chain, dependencies: None }
    }

    /// The record, of this transaction.
    pub fn txn(self, txn: u64) -> Self {
        Append { txn, ..self }
    }

    /// The record, with this previous record of its transaction. The log carries its LSN, and puts this record above it. [`Lsn::ZERO`]: there
    /// is none.
    pub fn prev(self, prev: Lsn) -> Self {
        Append { chain: Chain::Previous(prev), dependencies: None, ..self }
    }

    /// The record, as the only one of a transaction that has this stamp; it names no previous record. The log only carries the stamp.
    pub fn stamp(self, stamp: CommitStamp) -> Self {
        Append { chain: Chain::Commit { stamp, dependencies: 0 }, dependencies: None, ..self }
    }

    /// The record, as the only one of a transaction that has this stamp and depends on these positions. Those that are not durable when it is
    /// appended are written before its payload, 16 bytes each, and recovery keeps it only if they have survived.
    pub fn commit(self, stamp: CommitStamp, dependencies: &'a Dependencies) -> Self {
        Append { dependencies: Some(dependencies).filter(|set| !set.is_empty()), ..self.stamp(stamp) }
    }

    /// The record, above this record, on which it depends.
    pub fn depends_on(self, after: Lsn) -> Self {
        Append { after, ..self }
    }

    /// The record, admitted so.
    pub fn class(self, class: AppendClass) -> Self {
        Append { class, ..self }
    }

    /// The highest record that this one is put above.
    #[inline]
    pub(crate) fn above(&self) -> Lsn {
        self.chain.previous().map_or(self.after, |previous| self.after.max(previous))
    }
}

/// Where a record was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The stream that it is in.
    pub stream: StreamId,
    /// Where it starts. Trimming up to here keeps it.
    pub first: Lsn,
    /// Its identity: where its last fragment starts; equal to `first` for all but large records.
    pub lsn: Lsn,
    /// Where it ends, exclusively: it is durable when [`Stream::durable`] has got here.
    pub end: Lsn,
    /// Bytes of the log's memory or files that it takes, headers and padding included, without entries of [`LogKind::NvLogging`](crate::LogKind).
    pub bytes: u64,
}

impl Appended {
    /// The position below which everything of its stream must be durable for the record to be.
    pub fn position(&self) -> StreamLsn {
        StreamLsn { stream: self.stream, end: self.end }
    }
}

/// A record that depends on at most so many positions, and has a payload of fewer pieces than so many, needs no allocation.
const FEW_POSITIONS: usize = 4;
const FEW_PIECES: usize = 8;

/// A session of one stream: see the head of this file. Made by [`Stream::session`] and [`Log::session`](crate::Log::session).
pub struct Session {
    stream: Stream,
    slot: usize,
    completions: Option<Completions<Callback>>,
    // One thread at a time: the slot's mark has one writer.
    _not_sync: PhantomData<Cell<()>>,
}

impl Session {
    pub(crate) fn new(stream: Stream) -> Result<Self, Error> {
        let slot = stream.core().open_slot()?;
        Ok(Session { stream, slot, completions: None, _not_sync: PhantomData })
    }

    /// Appends a record. When this returns, it is in the log's memory ([`Durability::Buffered`]); it becomes durable when
    /// somebody waits for that or asks for it. Never waits for a sync, but may wait for a write when the ring is full.
    ///
    /// # Errors
    /// See [`AppendError`]. Nothing of the record is in the log then.
    #[inline]
    pub fn append(&mut self, append: &Append<'_>) -> Result<Appended, AppendError> {
        match append.dependencies {
            None => self.stream.core().append(self.slot, append),
            Some(dependencies) => self.append_dependent(append, dependencies),
        }
    }

    /// Appends a record with the positions of `dependencies` that are not durable before its payload. Reads the durable frontiers of the
    /// streams it depends on, and shares nothing else with them.
    fn append_dependent(
        &mut self,
        append: &Append<'_>,
        dependencies: &Dependencies,
    ) -> Result<Appended, AppendError> {
        let (log, payload) = (self.stream.log(), append.payload);
        let missing = dependencies.iter().filter(|at| log.durable(at.stream) < at.end);
        let entry = |at: StreamLsn| encode(at, log.incarnation(at.stream));
        if dependencies.len() > FEW_POSITIONS || payload.len() >= FEW_PIECES {
            let entries: Vec<Entry> = missing.map(entry).collect();
            let pieces: Vec<&[u8]> =
                std::iter::once(entries.as_flattened()).chain(payload.iter().copied()).collect();
            return self.append_pieces(append, entries.len(), &pieces);
        }
        let mut entries = [[0; _]; FEW_POSITIONS];
        let mut count = 0;
        for at in missing {
            entries[count] = entry(at);
            count += 1;
        }
        let mut pieces = [&[][..]; FEW_PIECES];
        pieces[0] = entries[..count].as_flattened();
        pieces[1..=payload.len()].copy_from_slice(payload);
        // Without an empty piece.
        self.append_pieces(append, count, &pieces[usize::from(count == 0)..=payload.len()])
    }

    /// Appends the record with these pieces, of which the first holds so many dependencies, if there are some.
    #[inline]
    fn append_pieces(
        &self,
        append: &Append<'_>,
        dependencies: usize,
        pieces: &[&[u8]],
    ) -> Result<Appended, AppendError> {
        let chain = match append.chain {
            // At most one in each stream, and streams have numbers of 16 bits.
            Chain::Commit { stamp, .. } => Chain::Commit { stamp, dependencies: dependencies as u16 },
            previous => previous,
        };
        self.stream
            .core()
            .append(self.slot, &Append { chain, payload: pieces, dependencies: None, ..*append })
    }

    /// The stream that it appends to.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Runs `callback` on a later [`Session::poll`], [`Session::wait_below`] or [`Session::drain`] of this session, once
    /// everything of its stream below `end` is at `durability` (or never will be). Asks for that. Callbacks run in the order given.
    pub fn on_complete(
        &mut self,
        end: Lsn,
        durability: Durability,
        callback: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let at = self.stream.at(end);
        self.completions().push(at, &Dependencies::default(), durability, Box::new(callback));
    }

    /// Runs the callbacks that are ready; how many. Never blocks.
    pub fn poll(&mut self) -> usize {
        self.completions.as_mut().map_or(0, Completions::poll)
    }

    /// How many callbacks have not run yet.
    pub fn pending(&self) -> usize {
        self.completions.as_ref().map_or(0, Completions::pending)
    }

    /// Runs ready callbacks, and blocks until fewer than `limit` are pending (at least 1).
    pub fn wait_below(&mut self, limit: usize) {
        if let Some(completions) = &mut self.completions {
            completions.wait_below(limit);
        }
    }

    /// Runs all callbacks, blocking until each is ready.
    pub fn drain(&mut self) {
        self.wait_below(1);
    }

    fn completions(&mut self) -> &mut Completions<Callback> {
        self.completions.get_or_insert_with(|| Completions::new(self.stream.log()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stream.core().close_slot(self.slot);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("stream", &self.stream.id())
            .field("slot", &self.slot)
            .field("pending", &self.pending())
            .finish()
    }
}
