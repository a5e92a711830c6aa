//! Assembling the log's records into committed transactions.
//!
//! Does no I/O, and runs on one thread. Invariants:
//!
//! 1. A transaction's changes are those that are not undone when its commit record comes. A
//!    compensation record removes all changes above the one that it names as the next to undo, as
//!    rollback does.
//! 2. A long value is assembled from the pages that the same transaction has written.
//! 3. Transactions that have not ended take at most [`OPEN_BYTES_MAX`] of memory, or the feed fails
//!    with a typed error.

use crate::changes::{Change, CommittedTransaction, NewValue, OldValue, with_renames};
use crate::error::{Error, Result};
use crate::ids::{TableId, TxnId};
use crate::paged::catalog::{self, CatalogKey};
use crate::paged::change::{ChangeKind, LeafChange, LeafOp, Part, decode_parts};
use crate::paged::log_record::{COMMIT, COMPENSATION, END, decode_compensation, previous};
use crate::paged::page::{PageId, Value};
use crate::{CommitStamp, Lsn};
use katydid_wal::RecordRef;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum bytes of all transactions that have not ended. The maximum is smaller in tests, so that
/// tests reach it.
pub(super) const OPEN_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// A value, as far as a record contains it.
#[derive(Debug)]
enum Cell {
    None,
    Inline(Vec<u8>),
    Long {
        head: PageId,
        length: usize,
    },
    Patch {
        offset: usize,
        replaced: usize,
        bytes: Vec<u8>,
    },
    /// The record does not have the value, because undo does not need it.
    Omitted,
}

impl Cell {
    fn of(value: Value<'_>) -> Cell {
        match value {
            Value::Inline(bytes) => Cell::Inline(bytes.to_vec()),
            Value::Overflow { head, length } => Cell::Long { head, length: length as usize },
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Cell::Inline(bytes) | Cell::Patch { bytes, .. } => bytes.len(),
            Cell::None | Cell::Long { .. } | Cell::Omitted => 0,
        }
    }
}

/// A change, or a page of a long value, that was not undone.
#[derive(Debug)]
enum Done {
    Row { table: TableId, key: Vec<u8>, new: Cell, old: Cell },
    Page { page: PageId, next: PageId, payload: Vec<u8> },
}

impl Done {
    fn bytes(&self) -> usize {
        size_of::<(Lsn, Done)>()
            + match self {
                Done::Row { key, new, old, .. } => key.len() + new.bytes() + old.bytes(),
                Done::Page { payload, .. } => payload.len(),
            }
    }
}

/// A transaction that has not ended.
#[derive(Debug)]
struct Open {
    first: Lsn,
    /// Changes, each with the LSN of its record.
    done: Vec<(Lsn, Done)>,
    /// True if the transaction has records below the first record that was read.
    is_cut: bool,
}

/// Result of taking a record.
#[derive(Debug)]
pub(super) enum Step {
    Nothing,
    Committed(CommittedTransaction),
    /// A transaction committed, and the feed has nothing to return of it.
    Empty(CommitStamp),
    /// A transaction committed, and not all of its records were seen.
    CutOff(CommitStamp),
}

/// The transactions that have not ended, and the names of tables.
#[derive(Debug)]
pub(super) struct Assembler {
    open: HashMap<TxnId, Open>,
    bytes: usize,
    names: HashMap<TableId, Arc<str>>,
}

impl Assembler {
    pub(super) fn new(names: HashMap<TableId, Arc<str>>) -> Self {
        Assembler { open: HashMap::new(), bytes: 0, names }
    }

    /// The first record of the oldest transaction that has not ended.
    pub(super) fn oldest(&self) -> Option<Lsn> {
        self.open.values().map(|open| open.first).min()
    }

    /// Takes the next record. `given` is the stamp of the last transaction that the feed has
    /// returned: transactions with this stamp or a lower one are not returned again.
    pub(super) fn take(&mut self, record: &RecordRef<'_>, given: CommitStamp) -> Result<Step> {
        let txn = TxnId::new(record.txn);
        let kind = record.kind.get();
        let corrupt = |finding: &str| Error::Corrupt {
            place: format!("log record at {}", record.lsn),
            page: None,
            finding: finding.to_owned(),
        };
        match kind {
            COMMIT => {
                let stamp = CommitStamp::of_commit_at(record.end);
                let Some(open) = self.remove(txn) else {
                    // No other record of this transaction was read. If the commit record names an
                    // earlier one, that one lies below the records that were read.
                    let prev = previous(record.chain).map_err(|fault| fault.at(record.lsn))?;
                    let is_cut = prev != Lsn::ZERO;
                    return Ok(if is_cut { Step::CutOff(stamp) } else { Step::Nothing });
                };
                if open.is_cut {
                    return Ok(Step::CutOff(stamp));
                }
                if stamp <= given {
                    self.learn(&open);
                    return Ok(Step::Nothing);
                }
                let changes = self.changes(open).map_err(corrupt)?;
                if changes.is_empty() {
                    return Ok(Step::Empty(stamp));
                }
                Ok(Step::Committed(CommittedTransaction { stamp, changes }))
            }
            END => {
                self.remove(txn);
                Ok(Step::Nothing)
            }
            COMPENSATION => {
                let (undo_next, ..) =
                    decode_compensation(record.payload).map_err(|fault| fault.at(record.lsn))?;
                let open = self.open_of(txn, record)?;
                let mut freed = 0;
                while let Some((_, done)) = open.done.pop_if(|(lsn, _)| *lsn > undo_next) {
                    freed += done.bytes();
                }
                self.bytes -= freed;
                Ok(Step::Nothing)
            }
            kind => {
                let Some(kind) = ChangeKind::decode(kind) else { return Ok(Step::Nothing) };
                match kind {
                    ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate => {
                        let change =
                            LeafChange::decode(kind, record.payload).map_err(|fault| fault.at(record.lsn))?;
                        self.push(txn, record, row(&change))?;
                    }
                    ChangeKind::ChainWrite => {
                        // This kind of record also makes the root of a new tree, and then has no
                        // page of a value. Even then it opens the transaction, if it is the
                        // transaction's first record.
                        self.open_of(txn, record)?;
                        for part in decode_parts(record.payload) {
                            let part = part.map_err(|fault| fault.at(record.lsn))?;
                            if let Part::Overflow { next, payload, .. } = part.part {
                                let payload = payload.to_vec();
                                self.push(txn, record, Done::Page { page: part.page, next, payload })?;
                            }
                        }
                    }
                    ChangeKind::Structure | ChangeKind::ChainFree => {}
                }
                Ok(Step::Nothing)
            }
        }
    }

    fn open_of(&mut self, txn: TxnId, record: &RecordRef<'_>) -> Result<&mut Open> {
        let prev = previous(record.chain).map_err(|fault| fault.at(record.lsn))?;
        Ok(self.open.entry(txn).or_insert_with(|| Open {
            first: record.first,
            done: Vec::new(),
            is_cut: prev != Lsn::ZERO,
        }))
    }

    fn push(&mut self, txn: TxnId, record: &RecordRef<'_>, done: Done) -> Result<()> {
        self.bytes += done.bytes();
        if self.bytes > OPEN_BYTES_MAX {
            let bytes = self.bytes;
            self.bytes -= done.bytes();
            return Err(Error::ChangesTooLarge { bytes: bytes as u64, limit: OPEN_BYTES_MAX as u64 });
        }
        self.open_of(txn, record)?.done.push((record.lsn, done));
        Ok(())
    }

    fn remove(&mut self, txn: TxnId) -> Option<Open> {
        let open = self.open.remove(&txn)?;
        self.bytes -= open.done.iter().map(|(_, done)| done.bytes()).sum::<usize>();
        Some(open)
    }

    /// Remembers the names of the tables that a transaction has added to the catalog. The feed does
    /// not return this transaction.
    fn learn(&mut self, open: &Open) {
        for (_, done) in &open.done {
            if let Done::Row { table: TableId::CATALOG, key, new: Cell::Inline(entry), .. } = done
                && let CatalogKey::Table(key) = catalog::key_of(key)
                && let Ok(tree) = catalog::decode(key, entry)
            {
                self.names.entry(tree.table).or_insert_with(|| String::from_utf8_lossy(key).into());
            }
        }
    }

    fn changes(&mut self, open: Open) -> std::result::Result<Vec<Change>, &'static str> {
        let mut pages = HashMap::new();
        let mut changes = Vec::new();
        for (_, done) in open.done {
            match done {
                Done::Page { page, next, payload } => {
                    pages.insert(page, (next, payload));
                }
                Done::Row { table: TableId::CATALOG, key, new, old } => match catalog::key_of(&key) {
                    CatalogKey::Table(_) => changes.push(self.of_catalog(&key, &new, &old)?),
                    CatalogKey::Load { table, is_committed: true } if matches!(new, Cell::Inline(_)) => {
                        let name = self.names.get(&table).cloned();
                        changes.push(Change::TableLoaded { table, name });
                    }
                    // The feed does not show the entry that a load makes before its commit, nor the
                    // removal of the entry after the commit.
                    CatalogKey::Load { .. } => {}
                    CatalogKey::Malformed => return Err("a key of the catalog is malformed"),
                },
                Done::Row { table, key, new, old } => {
                    let new = match new {
                        Cell::None | Cell::Omitted => NewValue::Deleted,
                        Cell::Inline(value) => NewValue::Value(value),
                        Cell::Patch { offset, replaced, bytes } => {
                            NewValue::Patch { offset, replaced, bytes }
                        }
                        Cell::Long { head, length } => NewValue::Value(long_value(&pages, head, length)?),
                    };
                    let old = match old {
                        Cell::None => OldValue::Absent,
                        Cell::Inline(value) => OldValue::Value(value),
                        Cell::Long { .. } | Cell::Patch { .. } | Cell::Omitted => OldValue::NotLogged,
                    };
                    let name = self.names.get(&table).cloned();
                    changes.push(Change::Row { table, name, key, new, old });
                }
            }
        }
        Ok(with_renames(changes))
    }

    fn of_catalog(
        &mut self,
        key: &[u8],
        new: &Cell,
        old: &Cell,
    ) -> std::result::Result<Change, &'static str> {
        const MALFORMED: &str = "an entry of the catalog is malformed";
        let id = |entry: &[u8]| catalog::decode(key, entry).map(|tree| tree.table).map_err(|_| MALFORMED);
        let name: Arc<str> = String::from_utf8_lossy(key).into();
        match (new, old) {
            (Cell::Inline(entry), _) => {
                let table = id(entry)?;
                self.names.insert(table, name.clone());
                Ok(Change::TableCreated { table, name })
            }
            (Cell::None, Cell::Inline(entry)) => Ok(Change::TableDropped { table: Some(id(entry)?), name }),
            _ => Err(MALFORMED),
        }
    }
}

fn row(change: &LeafChange<'_>) -> Done {
    let old_of = |old: Option<Value<'_>>| old.map_or(Cell::Omitted, Cell::of);
    let (new, old) = match &change.op {
        LeafOp::Insert { new } => (Cell::of(*new), Cell::None),
        LeafOp::Delete { old } => (Cell::None, old_of(*old)),
        LeafOp::Replace { old, new } => (Cell::of(*new), old_of(*old)),
        LeafOp::Diff(diff) => {
            let (offset, replaced) = (usize::from(diff.offset), usize::from(diff.old_bytes));
            let is_whole = diff.new.len() == usize::from(diff.new_total);
            let new = if is_whole {
                Cell::Inline(diff.new.to_vec())
            } else {
                Cell::Patch { offset, replaced, bytes: diff.new.to_vec() }
            };
            let old = diff.old.filter(|old| old.len() == usize::from(diff.old_total));
            (new, old.map_or(Cell::Omitted, |old| Cell::Inline(old.to_vec())))
        }
    };
    Done::Row { table: change.table, key: change.key.to_vec(), new, old }
}

/// Returns the value in the pages that begin at `head`.
fn long_value(
    pages: &HashMap<PageId, (PageId, Vec<u8>)>,
    head: PageId,
    length: usize,
) -> std::result::Result<Vec<u8>, &'static str> {
    let mut value = Vec::new();
    let mut at = head;
    while value.len() < length {
        let Some((next, payload)) = pages.get(&at) else {
            return Err("the pages of a long value are not in its transaction");
        };
        if payload.is_empty() {
            break;
        }
        value.extend_from_slice(payload);
        at = *next;
    }
    if value.len() == length { Ok(value) } else { Err("a long value is not as long as its key says") }
}
