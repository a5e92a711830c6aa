//! State of a transaction that writes. A writer appends the transaction's changes to the log.
//!
//! One thread at a time uses a writer: the transaction's thread, the thread that recovers, or a
//! thread that ends a transaction that was set aside (`unfinished`). Invariants:
//!
//! 1. `undo_next` is the newest change of the transaction that is not undone, zero if there is
//!    none. Older changes are found by following `prev` from record to record; at a compensation
//!    record, the record's `undo_next` is followed instead.
//! 2. The changes remembered in memory are a subset of the changes that are not undone, newest
//!    last. All others are read back from the log.
//! 3. The log keeps room for undo. A transaction that has logged much has raised the log's reserve
//!    by the bytes that undoing may take. With a log in NVRAM, where only checkpoints make room,
//!    every transaction raises the reserve before its first record.
//!
//! Nothing here survives a crash; the records in the log do.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::fullness::no_room;
use crate::ids::TxnId;
use crate::paged::active::Slot;
use crate::paged::change::{ChangeKind, PartsWriter, decode_chain_free, without_contents};
use crate::paged::engine::Engine;
use crate::paged::log_record::{COMPENSATION, compensation_head, previous};
use crate::paged::page::{PageId, Value};
use crate::paged::space::AllocClass;
use crate::paged::tree::{ChangeWriter, Logged};
use crate::paged::undo_room::{UndoRoom, undo_bytes};
use crate::paged::views::{TxnImages, Versions};
use katydid_wal::{Append, AppendClass, Appended, Kind, ReserveGuard, Stream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Capacity, in bytes, that a writer retains for its next transaction.
const KEPT_BYTES: usize = 64 << 10;
const KEPT_CHANGES: usize = 1024;

/// Minimum distance, in bytes of log, between two marks. A mark is a position in the log from which
/// changes that are not remembered can be read in log order.
pub(crate) const MARK_BYTES: u64 = 256 << 10;

/// A record read back from the log.
#[derive(Debug)]
struct Fetched {
    lsn: Lsn,
    prev: Lsn,
    kind: u8,
    payload: Vec<u8>,
}

/// A change that is remembered for undo.
#[derive(Debug, Clone, Copy)]
struct UndoEntry {
    lsn: Lsn,
    next: Lsn,
    kind: u8,
    from: usize,
    to: usize,
    /// Bytes that this change adds to `to_undo`.
    cost: u64,
}

/// A change that is to be undone next.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) kind: u8,
    /// The change to undo after this one.
    pub(crate) next: Lsn,
    pub(crate) payload: Vec<u8>,
    /// Bytes of `to_undo` that stand for this change.
    pub(crate) cost: u64,
}

/// An overflow chain that a change no longer uses. The chain is freed after the commit, and kept if
/// the change is undone.
#[derive(Debug, Clone, Copy)]
struct DeferredFree {
    lsn: Lsn,
    chain: PageId,
}

/// The writing side of a transaction.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) slot: Arc<Slot>,
    pub(crate) txn: TxnId,
    /// Every later record of the transaction lies above this position: see [`Writer::depend_on`].
    after: Lsn,
    undo_next: Lsn,
    undo_entries: Vec<UndoEntry>,
    bytes: Vec<u8>,
    deferred_frees: Vec<DeferredFree>,
    /// Starts of records of this transaction, ascending, `MARK_BYTES` or more apart.
    marks: Vec<Lsn>,
    /// Records read back and not used yet, ascending.
    fetched: Vec<Fetched>,
    /// Estimated bytes of the records that undo all changes not undone yet. Undo may take about
    /// twice as many bytes of log, because pages may have to be split again.
    to_undo: u64,
    /// True if the log has a record of the transaction.
    logged: bool,
    reserved: u64,
    reserves: Vec<ReserveGuard>,
    /// Before-images of the keys that the transaction changes, for views. The writer keeps the
    /// memory of the images for its next transaction, unless the locks are released after the
    /// writer was given back (`PagedTransaction::images`).
    pub(crate) images: Option<Arc<TxnImages>>,
}

impl Writer {
    pub(crate) fn new(slot: Arc<Slot>) -> Self {
        Writer {
            slot,
            txn: TxnId::NONE,
            after: Lsn::ZERO,
            undo_next: Lsn::ZERO,
            undo_entries: Vec::new(),
            bytes: Vec::new(),
            deferred_frees: Vec::new(),
            marks: Vec::new(),
            fetched: Vec::new(),
            to_undo: 0,
            logged: false,
            reserved: 0,
            reserves: Vec::new(),
            images: None,
        }
    }

    /// A writer for a transaction that recovery found unfinished.
    pub(crate) fn recovered(slot: Arc<Slot>, txn: TxnId, undo_next: Lsn, marks: Vec<Lsn>) -> Self {
        Writer { txn, undo_next, marks, ..Writer::new(slot) }
    }

    /// Prepares the writer for its next transaction.
    pub(crate) fn reset(&mut self) {
        self.txn = TxnId::NONE;
        self.after = Lsn::ZERO;
        self.undo_next = Lsn::ZERO;
        self.undo_entries.clear();
        self.undo_entries.shrink_to(KEPT_CHANGES);
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.deferred_frees.clear();
        self.marks = Vec::new();
        self.fetched = Vec::new();
        self.to_undo = 0;
        self.logged = false;
        self.reserved = 0;
        self.reserves.clear();
    }

    /// Makes the transaction's next records lie above the commit record that ends at `end`: the
    /// last commit record of the transactions that released locks to this one before their commits
    /// were durable. So a log that lacks one of those commits has neither this transaction's commit
    /// nor its changes of values that those commits wrote.
    pub(crate) fn depend_on(&mut self, end: Lsn) {
        self.after = self.after.max(Lsn::new(end.get().saturating_sub(1)));
    }

    /// Position that the transaction's next record must lie above, besides the transaction's own
    /// records.
    pub(crate) fn after(&self) -> Lsn {
        self.after
    }

    /// Position at which undo would begin; a savepoint remembers it.
    pub(crate) fn undo_next(&self) -> Lsn {
        self.undo_next
    }

    /// Defers the free of an overflow chain that the last appended change no longer uses.
    pub(crate) fn defer_free(&mut self, chain: PageId) {
        self.deferred_frees.push(DeferredFree { lsn: self.undo_next, chain });
    }

    /// Returns whether there are chains to free after commit.
    pub(crate) fn has_chains(&self) -> bool {
        !self.deferred_frees.is_empty()
    }

    /// The chains to free after commit.
    pub(crate) fn chains(&self) -> Vec<u64> {
        self.deferred_frees.iter().map(|deferred| deferred.chain.get()).collect()
    }

    /// Appends a change that can be undone, above `after`.
    pub(crate) fn append(
        &mut self,
        engine: &Engine,
        kind: u8,
        after: Lsn,
        payload: &[&[u8]],
    ) -> Result<Appended> {
        self.make_reserve(engine)?;
        let mut slot = self.slot.lock();
        let append = Append::new(Kind::new(kind), payload).txn(self.txn.get());
        let append = append.prev(slot.last).depends_on(after.max(self.after));
        let appended = engine.active.append(&engine.log, &append)?;
        if slot.txn == TxnId::NONE {
            slot.txn = self.txn;
            slot.first = appended.first;
        }
        slot.last = appended.lsn;
        drop(slot);
        if !self.push_undo(engine.undo_bytes, kind, payload, appended.lsn) {
            mark(&mut self.marks, appended.first);
        }
        self.undo_next = appended.lsn;
        self.to_undo += undo_bytes(kind, payload);
        self.logged = true;
        Ok(appended)
    }

    /// Appends a compensation record above `after`. `undo_next` is the next change to undo after
    /// it.
    pub(crate) fn append_compensation(
        &mut self,
        engine: &Engine,
        kind: u8,
        after: Lsn,
        payload: &[&[u8]],
        undo_next: Lsn,
    ) -> Result<Appended> {
        let head = compensation_head(undo_next, kind);
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(payload.len() + 1);
        pieces.push(&head);
        pieces.extend_from_slice(payload);
        let mut slot = self.slot.lock();
        let append = Append::new(Kind::new(COMPENSATION), &pieces).txn(self.txn.get());
        let append = append.prev(slot.last).depends_on(after).class(AppendClass::Critical);
        let appended = engine.active.append(&engine.log, &append)?;
        slot.last = appended.lsn;
        Ok(appended)
    }

    /// Returns the change at `lsn`, which is the newest that is not undone. The change is read from
    /// the log if it is not remembered.
    pub(crate) fn change_at(&mut self, log: &Stream, lsn: Lsn) -> Result<Change> {
        if let Some(last) = self.undo_entries.last().filter(|last| last.lsn == lsn) {
            let payload = self.bytes[last.from..last.to].to_vec();
            return Ok(Change { kind: last.kind, next: last.next, payload, cost: last.cost });
        }
        let Fetched { kind, prev, payload, .. } = self.fetch(log, lsn)?;
        let cost = undo_bytes(kind, &[&payload]);
        Ok(Change { kind, next: prev, payload, cost })
    }

    /// Returns the record at `lsn`, read back from the log. Reading records backwards one by one
    /// would cost a device call each. So all records of the transaction from a mark not far below
    /// `lsn` are read in log order, and retained for the next calls.
    fn fetch(&mut self, log: &Stream, lsn: Lsn) -> Result<Fetched> {
        while let Some(last) = self.fetched.pop_if(|last| last.lsn >= lsn) {
            if last.lsn == lsn {
                return Ok(last);
            }
        }
        while self.marks.pop_if(|mark| *mark > lsn).is_some() {}
        let Some(from) = self.marks.pop() else {
            let record = log.read(lsn)?;
            let prev = previous(record.chain).map_err(|fault| fault.at(lsn))?;
            let kind = record.kind.get();
            return Ok(Fetched { lsn, prev, kind, payload: record.payload });
        };
        self.fetched.clear();
        let mut reader = log.reader(from)?;
        while let Some(record) = reader.next_record()? {
            if record.txn == self.txn.get() && record.lsn <= lsn {
                let prev = previous(record.chain).map_err(|fault| fault.at(record.lsn))?;
                let (kind, payload) = (record.kind.get(), record.payload.to_vec());
                self.fetched.push(Fetched { lsn: record.lsn, prev, kind, payload });
            }
            if record.lsn >= lsn {
                break;
            }
        }
        match self.fetched.pop_if(|last| last.lsn == lsn) {
            Some(record) => Ok(record),
            None => Err(Error::Corrupt {
                place: format!("log record at {lsn}"),
                page: None,
                finding: format!("it is missing, and a record of transaction {} names it", self.txn),
            }),
        }
    }

    /// Notes that all changes above `to` are undone. `to_undo` included `cost` bytes for them.
    pub(crate) fn undone(&mut self, to: Lsn, cost: u64) {
        self.undo_next = to;
        self.to_undo = self.to_undo.saturating_sub(cost);
        while let Some(last) = self.undo_entries.pop_if(|last| last.lsn > to) {
            self.bytes.truncate(last.from);
        }
        while self.deferred_frees.last().is_some_and(|deferred| deferred.lsn > to) {
            self.deferred_frees.pop();
        }
    }

    /// Remembers the parts of the record that its undo needs. Returns false if they do not fit into
    /// `limit` bytes.
    fn push_undo(&mut self, limit: usize, kind: u8, payload: &[&[u8]], lsn: Lsn) -> bool {
        let kept = match payload {
            [pages] if kind == ChangeKind::ChainWrite.number() => Some(without_contents(pages)),
            _ => None,
        };
        let (from, cost) = (self.bytes.len(), undo_bytes(kind, payload));
        let kept = kept.as_ref().map(PartsWriter::payload);
        let payload = kept.as_ref().map_or(payload, std::slice::from_ref);
        let length: usize = payload.iter().map(|piece| piece.len()).sum();
        if from + length > limit {
            return false;
        }
        for piece in payload {
            self.bytes.extend_from_slice(piece);
        }
        let (next, to) = (self.undo_next, self.bytes.len());
        self.undo_entries.push(UndoEntry { lsn, next, kind, from, to, cost });
        true
    }

    /// Returns whether the log has a record of the transaction.
    pub(crate) fn has_logged(&self) -> bool {
        self.logged
    }

    fn make_reserve(&mut self, engine: &Engine) -> Result<()> {
        let UndoRoom { step, given, ahead, .. } = engine.undo_room;
        // Undo logs about as many bytes as the changes did, and may have to split pages again.
        while self.to_undo * 2 + ahead > self.reserved + given {
            let raised = engine.log.raise_reserve(step).map_err(|error| match error {
                katydid_wal::Error::NoSpace if engine.log.is_bounded() => no_room(&engine.log),
                error => error.into(),
            })?;
            self.reserves.push(raised);
            self.reserved += step;
            if engine.is_share_taken() {
                engine.schedule.worker.notify();
            }
        }
        Ok(())
    }
}

/// Adds a mark, unless the last one lies less than [`MARK_BYTES`] below.
pub(crate) fn mark(marks: &mut Vec<Lsn>, first: Lsn) {
    if marks.last().is_none_or(|last| first.since(*last) >= MARK_BYTES) {
        marks.push(first);
    }
}

fn logged(appended: Appended) -> Logged {
    Logged { lsn: appended.lsn, end: appended.end }
}

fn append_structure(engine: &Engine, after: Lsn, payload: &[&[u8]], class: AppendClass) -> Result<Logged> {
    engine.append_system(ChangeKind::Structure.number(), after, payload, class).map(logged)
}

/// Appends the records of a transaction's changes.
pub(crate) struct DoRecords<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) writer: &'a mut Writer,
    /// The table whose former values views may need; `None` for the catalog.
    pub(crate) versions: Option<&'a Arc<Versions>>,
}

impl ChangeWriter for DoRecords<'_> {
    fn append(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged> {
        self.writer.append(self.engine, kind.number(), after, payload).map(logged)
    }

    fn append_structure(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged> {
        match kind {
            ChangeKind::Structure => append_structure(self.engine, after, payload, AppendClass::Normal),
            _ => Err(Error::Internal("a transaction frees chains only after its commit")),
        }
    }

    fn keep_before(&mut self, key: &[u8], before: Option<Value<'_>>) {
        let Some(versions) = self.versions else { return };
        let views = &self.engine.views;
        let images = self.writer.images.get_or_insert_with(|| views.take_images());
        views.keep(images, versions, key, before);
    }

    fn alloc_class(&self) -> AllocClass {
        AllocClass::Normal
    }

    fn wants_values(&self) -> bool {
        self.engine.record_values.load(Ordering::Relaxed)
    }

    fn half_made(&mut self, what: &'static str) -> Error {
        self.engine.poison(what)
    }
}

/// Appends the records of a rollback. Each record undoes one change; `undo_next` is the change to
/// undo after that one.
pub(crate) struct CompensationRecords<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) writer: &'a mut Writer,
    pub(crate) undo_next: Lsn,
}

impl ChangeWriter for CompensationRecords<'_> {
    fn append(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged> {
        self.writer
            .append_compensation(self.engine, kind.number(), after, payload, self.undo_next)
            .map(logged)
    }

    fn append_structure(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged> {
        match kind {
            ChangeKind::Structure => append_structure(self.engine, after, payload, AppendClass::Critical),
            _ => Err(Error::Internal("undo frees chains by compensation records")),
        }
    }

    fn alloc_class(&self) -> AllocClass {
        AllocClass::Rollback
    }

    fn half_made(&mut self, what: &'static str) -> Error {
        self.engine.poison(what)
    }
}

/// Appends the records of a committed transaction's deferred frees.
pub(crate) struct CleanupRecords<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) slot: &'a Slot,
}

impl ChangeWriter for CleanupRecords<'_> {
    fn append(&mut self, _: ChangeKind, _: Lsn, _: &[&[u8]]) -> Result<Logged> {
        Err(Error::Internal("a committed transaction changes nothing"))
    }

    fn append_structure(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged> {
        if kind != ChangeKind::ChainFree {
            // The record must lie above the commit record, without which the chain is still in use.
            let after = after.max(self.slot.lock().last);
            return append_structure(self.engine, after, payload, AppendClass::Critical);
        }
        let head = payload.first().ok_or(Error::Internal("a record that frees nothing"))?;
        let (head, _) =
            decode_chain_free(head).map_err(|_| Error::Internal("a record that frees nothing"))?;
        let mut slot = self.slot.lock();
        let append = Append::new(Kind::new(kind.number()), payload).txn(slot.txn.get());
        let append = append.prev(slot.last).depends_on(after).class(AppendClass::Critical);
        let appended = self.engine.active.append(&self.engine.log, &append)?;
        slot.last = appended.lsn;
        slot.chains.retain(|chain| *chain != head.get());
        Ok(logged(appended))
    }

    fn alloc_class(&self) -> AllocClass {
        AllocClass::Rollback
    }

    fn half_made(&mut self, what: &'static str) -> Error {
        self.engine.poison(what)
    }
}
