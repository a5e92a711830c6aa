//! Analysis: finds the transactions that had not ended, and the pages that may lack changes made
//! before the checkpoint.
//!
//! The effect of each kind of record on the table of transactions:
//!
//! - Change or compensation: the transaction enters, or its last LSN moves up.
//! - Structure change: none.
//! - Commit without chains, or end: the transaction leaves.
//! - Commit with chains: the transaction becomes committed, with its chains.
//! - Freed chain: the same as for a change, and the chain leaves its transaction.
//! - List of active transactions of the checkpoint: each captured transaction enters, unless a
//!   record since the begin record has ended it.
//!
//! The lists of later checkpoints, which the control file does not name, are ignored, because the
//! records of the transactions themselves say all that these lists captured.
//!
//! Analysis and redo read the log together. Redo considers every page dirty that a record above the
//! begin record changes. So redo can decide about each record without knowing the records after it.
//! Only the records of the checkpoint itself are read first, for the pages that were dirty when the
//! checkpoint was taken.

use super::Progress;
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::options::Phase;
use crate::paged::change::{ChangeKind, decode_chain_free};
use crate::paged::log_record::{
    ActiveEntry, CHECKPOINT_ACTIVE, CHECKPOINT_BEGIN, CHECKPOINT_END, CHECKPOINT_PAGES, COMMIT, COMPENSATION,
    END, Malformed, State, decode_active, decode_chains, decode_checkpoint_end, decode_pages, previous,
};
use crate::paged::page::PageId;
use crate::paged::writer::{MARK_BYTES, mark};
use crate::{Chain, Lsn};
use katydid_wal::{RecordRef, Stream};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes numbers of pages and transactions, which are small and dense, and which no attacker
/// picks.
#[derive(Default, Clone, Copy)]
pub(crate) struct NumberHasher(u64);

/// Hash function of numbers of pages and transactions.
pub(crate) type ByNumber = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// Pages, each with the position from which its changes may be missing.
pub(crate) type DirtyPages = HashMap<u64, Lsn, ByNumber>;

/// State of the transactions at the crash, according to the log.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    /// Transactions that had not ended.
    pub(crate) active: HashMap<u64, ActiveEntry, ByNumber>,
    /// For each transaction in `active` that logged much: the starts of some of its records,
    /// ascending.
    marks: HashMap<u64, Vec<Lsn>, ByNumber>,
    /// Chains freed since the begin record, with their transactions. Needed only until the
    /// checkpoint's end record was read.
    freed: HashSet<(u64, u64)>,
    /// A number above every transaction id in the log.
    pub(crate) next_txn: u64,
    /// LSN of the checkpoint's begin record.
    begin: Lsn,
    /// True if the checkpoint's end was met, or there is no checkpoint.
    complete: bool,
    ended: HashSet<u64, ByNumber>,
}

/// The dirty pages of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    /// LSN of the begin record, or the log's start if there is no checkpoint.
    pub(crate) begin: Lsn,
    /// Pages that were dirty at the checkpoint.
    pub(crate) dirty: DirtyPages,
    /// Position at which redo has to begin.
    pub(crate) redo_from: Lsn,
}

impl Malformed {
    /// The error for the record at `lsn`.
    pub(crate) fn at(self, lsn: Lsn) -> Error {
        Error::Corrupt { place: format!("log record at {lsn}"), page: None, finding: self.0.to_owned() }
    }
}

/// Reads the checkpoint that begins at `begin`. Zero means that there is no checkpoint and
/// everything is in the log.
pub(crate) fn read_checkpoint(log: &Stream, begin: Lsn, progress: &Progress) -> Result<Checkpoint> {
    if begin == Lsn::ZERO {
        let start = log.start();
        return Ok(Checkpoint { begin: start, redo_from: start, ..Checkpoint::default() });
    }
    let mut checkpoint = Checkpoint { begin, redo_from: begin, ..Checkpoint::default() };
    let mut walk = progress.over(Phase::Analysis, begin, log.reserved());
    let mut reader = log.reader(begin)?;
    while let Some(record) = reader.next_record()? {
        walk.at(record.lsn);
        if record.chain != Chain::Previous(begin) {
            continue;
        }
        match record.kind.get() {
            CHECKPOINT_PAGES => {
                let pages = decode_pages(record.payload).map_err(|fault: Malformed| fault.at(record.lsn))?;
                for (page, lsn) in pages {
                    checkpoint.redo_from = checkpoint.redo_from.min(lsn);
                    let known = checkpoint.dirty.entry(page).or_insert(lsn);
                    *known = (*known).min(lsn);
                }
            }
            CHECKPOINT_END => {
                walk.done();
                return Ok(checkpoint);
            }
            _ => {}
        }
    }
    Err(Error::Corrupt {
        place: format!("the checkpoint at {begin}"),
        page: None,
        finding: "the control file names it, and the log does not hold all of it".to_owned(),
    })
}

impl Checkpoint {
    /// Returns whether a page may lack the change of the record at `lsn`.
    #[inline]
    pub(crate) fn wants(&self, page: PageId, lsn: Lsn) -> bool {
        lsn >= self.begin || self.dirty.get(&page.get()).is_some_and(|from| *from <= lsn)
    }
}

impl Analysis {
    /// Begins the analysis of the log from the checkpoint at `begin` on. Zero means that there is
    /// no checkpoint.
    pub(crate) fn new(begin: Lsn) -> Self {
        Analysis { begin, complete: begin == Lsn::ZERO, ..Analysis::default() }
    }

    /// Takes a record into account. The caller passes all records from the begin record on, in
    /// order.
    pub(crate) fn see(&mut self, record: &RecordRef<'_>) -> Result<()> {
        let failed = |fault: Malformed| fault.at(record.lsn);
        let previous = previous(record.chain).map_err(failed)?;
        match record.kind.get() {
            kind if ChangeKind::decode(kind) == Some(ChangeKind::ChainFree) => {
                self.enter(record);
                self.cut_chain(record)
            }
            kind if kind == COMPENSATION || ChangeKind::decode(kind).is_some() => {
                self.enter(record);
                Ok(())
            }
            COMMIT if record.payload.is_empty() => {
                self.leave(record.txn);
                Ok(())
            }
            COMMIT => {
                let chains = decode_chains(record.payload).map_err(failed)?;
                self.enter(record);
                if let Some(entry) = self.active.get_mut(&record.txn) {
                    entry.state = State::Committed;
                    entry.chains = chains;
                }
                Ok(())
            }
            END => {
                self.leave(record.txn);
                Ok(())
            }
            CHECKPOINT_BEGIN | CHECKPOINT_PAGES => Ok(()),
            CHECKPOINT_ACTIVE | CHECKPOINT_END if previous != self.begin || self.complete => Ok(()),
            CHECKPOINT_ACTIVE => {
                for captured in decode_active(record.payload).map_err(failed)? {
                    self.merge(captured);
                }
                Ok(())
            }
            CHECKPOINT_END => {
                let end = decode_checkpoint_end(record.payload).map_err(failed)?;
                self.next_txn = self.next_txn.max(end.next_txn);
                self.complete = true;
                self.ended = HashSet::default();
                self.freed = HashSet::new();
                Ok(())
            }
            _ => Err(failed(Malformed("a record of an unknown kind"))),
        }
    }

    fn enter(&mut self, record: &RecordRef<'_>) {
        if record.txn == TxnId::NONE.get() {
            return;
        }
        self.next_txn = self.next_txn.max(record.txn + 1);
        let entry = self.active.entry(record.txn).or_insert_with(|| ActiveEntry {
            txn: TxnId::new(record.txn),
            state: State::Active,
            first: record.first,
            last: record.lsn,
            chains: Vec::new(),
        });
        // Small transactions, which are nearly all, stay out of the map.
        if record.lsn.since(entry.first) >= MARK_BYTES {
            mark(self.marks.entry(record.txn).or_default(), record.first);
        }
        entry.last = record.lsn;
    }

    /// Returns the transactions that had not ended, in descending order of their last LSNs, each
    /// with the starts of some of its records.
    pub(crate) fn unfinished(mut self) -> Vec<(ActiveEntry, Vec<Lsn>)> {
        let mut entries: Vec<ActiveEntry> = self.active.into_values().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.last));
        let mut with_marks = |entry: ActiveEntry| {
            let marks = self.marks.remove(&entry.txn.get()).unwrap_or_default();
            (entry, marks)
        };
        entries.into_iter().map(&mut with_marks).collect()
    }

    fn leave(&mut self, txn: u64) {
        self.next_txn = self.next_txn.max(txn + 1);
        self.active.remove(&txn);
        if !self.marks.is_empty() {
            self.marks.remove(&txn);
        }
        if !self.complete {
            self.ended.insert(txn);
        }
    }

    /// Merges a transaction as the checkpoint captured it. The capture came after the checkpoint's
    /// begin record and before the checkpoint's record that is read now.
    fn merge(&mut self, captured: ActiveEntry) {
        let txn = captured.txn.get();
        if self.ended.contains(&txn) {
            return;
        }
        match self.active.get_mut(&txn) {
            None => {
                self.active.insert(txn, captured);
            }
            Some(known) => {
                known.first = known.first.min(captured.first);
                if captured.last >= known.last {
                    known.last = captured.last;
                    known.state = captured.state;
                    known.chains = captured.chains;
                } else if captured.state == State::Committed && known.state == State::Active {
                    // The transaction's commit record lies below the begin record, and the
                    // transaction has freed chains since it was captured.
                    let freed = |chain: &u64| self.freed.contains(&(txn, *chain));
                    known.state = State::Committed;
                    known.chains = captured.chains;
                    known.chains.retain(|chain| !freed(chain));
                }
            }
        }
    }

    fn cut_chain(&mut self, record: &RecordRef<'_>) -> Result<()> {
        let (head, _) = decode_chain_free(record.payload).map_err(|fault| fault.at(record.lsn))?;
        if let Some(entry) = self.active.get_mut(&record.txn) {
            entry.chains.retain(|chain| *chain != head.get());
        }
        if !self.complete {
            self.freed.insert((record.txn, head.get()));
        }
        Ok(())
    }
}
