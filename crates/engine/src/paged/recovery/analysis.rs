//! Analysis: which transactions had not ended, and which pages may lack changes.
//!
//! | record | transactions | dirty pages |
//! |---|---|---|
//! | change, compensation | enters, or moves its last LSN | its pages enter, unless they are in |
//! | structure change | - | its pages enter |
//! | commit without chains, end | leaves | - |
//! | commit with chains | becomes committed, with its chains | - |
//! | chain freed | the chain leaves | its pages enter |
//! | part of the checkpoint | enters, if no record since the begin record says that it ended | the older recovery LSN counts |
//!
//! Parts of other checkpoints (unfinished ones after this) say nothing: what they captured follows from the records.

use super::Progress;
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::paged::change::{ChangeKind, decode_chain_free, pages_of};
use crate::paged::log_record::{
    ActiveEntry, CHECKPOINT_ACTIVE, CHECKPOINT_BEGIN, CHECKPOINT_END, CHECKPOINT_PAGES, COMMIT, COMPENSATION,
    END, Malformed, State, decode_active, decode_chains, decode_checkpoint_end, decode_compensation,
    decode_pages,
};
use crate::{Lsn, Phase};
use katydid_wal::{Log, RecordRef};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Page numbers are small and dense, and no attacker picks them.
#[derive(Default, Clone, Copy)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
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

/// Pages and the position from which their changes may be missing.
pub(crate) type DirtyPages = HashMap<u64, Lsn, BuildHasherDefault<PageHasher>>;

/// What the log says about the moment of the crash.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    /// Transactions that had not ended.
    pub(crate) active: HashMap<u64, ActiveEntry>,
    /// Pages that may lack changes.
    pub(crate) dirty: DirtyPages,
    /// Every transaction id in the log is below this.
    pub(crate) next_txn: u64,
    /// Every table id given out is below this.
    pub(crate) next_table: u64,
    /// Where the last record ends.
    pub(crate) end: Lsn,
    /// Records read.
    pub(crate) records: u64,
    /// Whether anything but checkpoints was found: then there is something to recover.
    pub(crate) changed: bool,
    begin: Lsn,
    complete: bool,
    ended: HashSet<u64>,
}

/// The failure of a record that says nothing sensible.
pub(crate) fn malformed(lsn: Lsn, malformed: Malformed) -> Error {
    Error::Corrupt { place: format!("log record at {lsn}"), page: None, finding: malformed.0.to_owned() }
}

/// Reads the log from the checkpoint that begins at `begin` on; zero: from the start.
pub(crate) fn analyse(log: &Log, begin: Lsn, progress: &Progress) -> Result<Analysis> {
    let from = if begin == Lsn::ZERO { log.start() } else { begin };
    let mut analysis = Analysis { begin, end: from, complete: begin == Lsn::ZERO, ..Analysis::default() };
    let mut walk = progress.over(Phase::Analysis, from, log.reserved());
    let mut reader = log.reader(from)?;
    while let Some(record) = reader.next_record()? {
        walk.at(record.lsn);
        analysis.see(&record)?;
    }
    walk.done();
    if !analysis.complete {
        return Err(Error::Corrupt {
            place: format!("the checkpoint at {begin}"),
            page: None,
            finding: "the control file names it, and the log does not hold all of it".to_owned(),
        });
    }
    Ok(analysis)
}

impl Analysis {
    /// Where redo has to begin.
    pub(crate) fn redo_from(&self) -> Option<Lsn> {
        self.dirty.values().copied().min()
    }

    fn see(&mut self, record: &RecordRef<'_>) -> Result<()> {
        self.records += 1;
        self.end = record.end;
        let kind = record.kind.get();
        if let Some(kind) = ChangeKind::decode(kind) {
            self.changed = true;
            self.enter(record);
            self.see_pages(kind, record.payload, record)?;
            if kind == ChangeKind::ChainFree {
                self.cut_chain(record)?;
            }
            return Ok(());
        }
        let failed = |fault| malformed(record.lsn, fault);
        match kind {
            COMPENSATION => {
                self.changed = true;
                self.enter(record);
                let (_, inner, payload) = decode_compensation(record.payload).map_err(failed)?;
                let inner = ChangeKind::decode(inner)
                    .ok_or_else(|| failed(Malformed("a compensation record of an unknown change")))?;
                self.see_pages(inner, payload, record)
            }
            COMMIT => {
                self.changed = true;
                let chains = decode_chains(record.payload).map_err(failed)?;
                if chains.is_empty() {
                    self.leave(record.txn);
                } else {
                    self.enter(record);
                    if let Some(entry) = self.active.get_mut(&record.txn) {
                        entry.state = State::Committed;
                        entry.chains = chains;
                    }
                }
                Ok(())
            }
            END => {
                self.changed = true;
                self.leave(record.txn);
                Ok(())
            }
            CHECKPOINT_BEGIN => Ok(()),
            CHECKPOINT_PAGES | CHECKPOINT_ACTIVE | CHECKPOINT_END
                if record.prev != self.begin || self.complete =>
            {
                Ok(())
            }
            CHECKPOINT_PAGES => {
                for (page, lsn) in decode_pages(record.payload).map_err(failed)? {
                    let known = self.dirty.entry(page).or_insert(lsn);
                    *known = (*known).min(lsn);
                }
                Ok(())
            }
            CHECKPOINT_ACTIVE => {
                for captured in decode_active(record.payload).map_err(failed)? {
                    self.merge(captured);
                }
                Ok(())
            }
            CHECKPOINT_END => {
                let end = decode_checkpoint_end(record.payload).map_err(failed)?;
                self.next_txn = self.next_txn.max(end.next_txn);
                self.next_table = self.next_table.max(end.next_table);
                self.complete = true;
                self.ended = HashSet::new();
                Ok(())
            }
            _ => Err(failed(Malformed("a record of an unknown kind"))),
        }
    }

    fn see_pages(&mut self, kind: ChangeKind, payload: &[u8], record: &RecordRef<'_>) -> Result<()> {
        for page in pages_of(kind, payload) {
            let page = page.map_err(|fault| fault.at(record.lsn))?;
            self.dirty.entry(page.get()).or_insert(record.first);
        }
        Ok(())
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
        entry.last = record.lsn;
    }

    fn leave(&mut self, txn: u64) {
        self.next_txn = self.next_txn.max(txn + 1);
        self.active.remove(&txn);
        if !self.complete {
            self.ended.insert(txn);
        }
    }

    /// A transaction as the checkpoint captured it, which was after its begin record and before this one.
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
                }
            }
        }
    }

    fn cut_chain(&mut self, record: &RecordRef<'_>) -> Result<()> {
        let (head, _) = decode_chain_free(record.payload).map_err(|fault| fault.at(record.lsn))?;
        if let Some(entry) = self.active.get_mut(&record.txn) {
            entry.chains.retain(|chain| *chain != head.get());
        }
        Ok(())
    }
}
