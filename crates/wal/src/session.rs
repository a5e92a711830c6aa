//! A session: one thread's (or one pooled worker's) way to append.
//!
//! A session owns a slot of the inserter, so that appenders do not share what they need not. It may move between threads, but is
//! used by one at a time. Any number may come and go, up to [`Options::sessions_max`](crate::Options::sessions_max) at once.

use crate::completion::{Callback, Completions};
use crate::error::{AppendError, Error};
use crate::log::Log;
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
    /// What it is joined to. Only [`ParallelSession`](crate::ParallelSession) puts dependencies before the payload, so callers do not set it as
    /// a whole.
    pub(crate) chain: Chain,
}

impl<'a> Append<'a> {
    /// A record of transaction 0 with no previous one, admitted normally.
    pub fn new(kind: Kind, payload: &'a [&'a [u8]]) -> Self {
        let (after, class, chain) = (Lsn::ZERO, AppendClass::Normal, Chain::NONE);
        Append { kind, txn: 0, after, payload, class, chain }
    }

    /// The same, of this transaction.
    pub fn txn(self, txn: u64) -> Self {
        Append { txn, ..self }
    }

    /// The same, with this previous record of its transaction. The log carries its LSN, and puts this record above it. [`Lsn::ZERO`]: there is
    /// none.
    pub fn prev(self, prev: Lsn) -> Self {
        Append { chain: Chain::Previous(prev), ..self }
    }

    /// The same, as the only record of a transaction that has this stamp; it names no previous record. The log only carries the stamp.
    pub fn stamp(self, stamp: CommitStamp) -> Self {
        Append { chain: Chain::Commit { stamp, dependencies: 0 }, ..self }
    }

    /// The same, above this record, on which it depends.
    pub fn depends_on(self, after: Lsn) -> Self {
        Append { after, ..self }
    }

    /// The same, admitted so.
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
    /// Where it starts. Trimming up to here keeps it.
    pub first: Lsn,
    /// Its identity: where its last fragment starts; equal to `first` for all but large records.
    pub lsn: Lsn,
    /// Where it ends, exclusively: it is durable when [`Log::durable`] has got here.
    pub end: Lsn,
    /// Bytes of the log's memory or files that it takes, headers and padding included, without entries of [`LogKind::NvLogging`](crate::LogKind).
    pub bytes: u64,
}

/// See the head of this file. Made by [`Log::session`].
pub struct Session {
    log: Log,
    slot: usize,
    completions: Option<Completions<Callback>>,
    // One thread at a time: the slot's mark has one writer.
    _not_sync: PhantomData<Cell<()>>,
}

impl Session {
    pub(crate) fn new(log: Log) -> Result<Self, Error> {
        let slot = log.core().open_slot()?;
        Ok(Session { log, slot, completions: None, _not_sync: PhantomData })
    }

    /// Appends a record. When this returns, it is in the log's memory ([`Durability::Buffered`]); it becomes durable when
    /// somebody waits for that or asks for it. Never waits for a sync, but may wait for a write when the ring is full.
    ///
    /// # Errors
    /// See [`AppendError`]. Nothing of the record is in the log then.
    #[inline]
    pub fn append(&mut self, append: &Append<'_>) -> Result<Appended, AppendError> {
        self.log.core().append(self.slot, append)
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Runs `callback` on a later [`Session::poll`], [`Session::wait_below`] or [`Session::drain`] of this session, once
    /// everything below `end` is at `durability` (or never will be). Asks for that. Callbacks run in the order given.
    pub fn on_complete(
        &mut self,
        end: Lsn,
        durability: Durability,
        callback: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.completions().push(end, durability, Box::new(callback));
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
        self.completions.get_or_insert_with(|| Completions::new(&self.log))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.log.core().close_slot(self.slot);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("slot", &self.slot).field("pending", &self.pending()).finish()
    }
}
