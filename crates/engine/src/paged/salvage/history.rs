//! The log of a damaged database: its usable part, redo page by page, and the changes of unfinished
//! transactions.
//!
//! The log is read from its start, in up to three passes. The log is not opened, and no record is
//! used that the log's own checks refuse.

use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::paged::change::{ChangeKind, LeafChange, RecordSpan, decode_chain_free, decode_parts, redo_at};
use crate::paged::log_record::{
    CHECKPOINT_BEGIN, CHECKPOINT_END, CHECKPOINT_PAGES, COMPENSATION, State, decode_compensation,
    decode_pages, previous,
};
use crate::paged::page::PageId;
use crate::paged::pages_named;
use crate::paged::pool::Pool;
use crate::paged::recovery::{Analysis, Checkpoint};
use crate::{Chain, Lsn};
use katydid_wal::{RecordRef, StreamInspection};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The usable part of the log.
pub(super) enum History {
    /// The log has everything that pages may lack.
    Whole { checkpoint: Begun },
    /// Only a prefix of the log is left. The later records are lost.
    Prefix { checkpoint: Begun },
    /// The log does not reach back to the position at which redo has to begin.
    Unusable,
}

/// The checkpoint from which redo begins, and the LSN of its begin record; zero if there is no
/// checkpoint.
pub(super) struct Begun {
    checkpoint: Checkpoint,
    analysis_from: Lsn,
}

/// A change of one key that has to be taken back.
pub(super) struct Step {
    pub(super) kind: ChangeKind,
    pub(super) payload: Vec<u8>,
}

/// Changes of unfinished transactions by key, the newest first.
pub(super) type Undo = HashMap<TableId, BTreeMap<Vec<u8>, Vec<Step>>>;

/// Result of replaying the log on the pages, and the changes of rows that are still to be taken
/// back.
pub(super) struct Replayed {
    pub(super) undo: Undo,
    /// Pages that stand for all that committed transactions had still to free: of each overflow
    /// chain the first page, of each tree the root.
    pub(super) freed: Vec<PageId>,
    /// Pages that do not match a record of the log. The rows of such a page are not used, because
    /// the page is not what was written.
    pub(super) unfit: HashSet<PageId>,
    /// A number above all pages that the log names.
    pub(super) pages: u64,
    /// End of the part of the log that was replayed.
    pub(super) end: Lsn,
    /// True if commits after `end` are lost.
    pub(super) is_short: bool,
}

impl Replayed {
    /// Result without a log: the pages are taken as they are.
    pub(super) fn nothing() -> Replayed {
        Replayed {
            undo: Undo::new(),
            freed: Vec::new(),
            unfit: HashSet::new(),
            pages: 0,
            end: Lsn::LIMIT,
            is_short: false,
        }
    }

    /// Returns whether the log says what unfinished transactions did to a page with this LSN.
    pub(super) fn knows(&self, lsn: Lsn) -> bool {
        !self.is_short || lsn < self.end
    }
}

/// Calls `see` with the records of the engine, in order, until `see` returns `false` or a record
/// cannot be read.
fn each(log: &StreamInspection, mut see: impl FnMut(&RecordRef<'_>) -> Result<bool>) -> Result<()> {
    let mut reader = log.records()?;
    loop {
        match reader.next_record() {
            Ok(None) => return Ok(()),
            Ok(Some(record)) if !record.kind.is_user() => {}
            Ok(Some(record)) => {
                if !see(&record)? {
                    return Ok(());
                }
            }
            Err(error) => match Error::from(error) {
                Error::Corrupt { .. } => return Ok(()),
                error => return Err(error),
            },
        }
    }
}

impl History {
    /// Finds the last complete checkpoint, and how much of the log can be used. Pages may need the
    /// log up to `needed`.
    pub(super) fn of(log: &StreamInspection, needed: Lsn) -> Result<History> {
        let mut last = None;
        let mut current: Option<Checkpoint> = None;
        each(log, |record| {
            let mine = |checkpoint: &Checkpoint| record.chain == Chain::Previous(checkpoint.begin);
            match record.kind.get() {
                CHECKPOINT_BEGIN => {
                    let (begin, redo_from) = (record.lsn, record.lsn);
                    current = Some(Checkpoint { begin, redo_from, ..Checkpoint::default() });
                }
                CHECKPOINT_PAGES => {
                    if let Some(checkpoint) = current.as_mut().filter(|checkpoint| mine(checkpoint)) {
                        let pages = decode_pages(record.payload).map_err(|fault| fault.at(record.lsn))?;
                        for (page, lsn) in pages {
                            checkpoint.redo_from = checkpoint.redo_from.min(lsn);
                            let known = checkpoint.dirty.entry(page).or_insert(lsn);
                            *known = (*known).min(lsn);
                        }
                    }
                }
                CHECKPOINT_END if current.as_ref().is_some_and(mine) => last = current.take(),
                _ => {}
            }
            Ok(true)
        })?;
        let start = log.start;
        let checkpoint = match last {
            Some(checkpoint) if checkpoint.redo_from >= start => {
                Begun { analysis_from: checkpoint.begin, checkpoint }
            }
            None if start == Lsn::ZERO => {
                let checkpoint = Checkpoint { begin: start, redo_from: start, ..Checkpoint::default() };
                Begun { checkpoint, analysis_from: Lsn::ZERO }
            }
            _ => return Ok(History::Unusable),
        };
        let is_whole = log.finding.is_ok() && log.end >= needed;
        Ok(if is_whole { History::Whole { checkpoint } } else { History::Prefix { checkpoint } })
    }
}

/// Redoes the changes that pages lack, and finds the changes that are to be taken back.
pub(super) fn replay(log: &StreamInspection, pool: &Pool, begun: Begun, is_short: bool) -> Result<Replayed> {
    let Begun { checkpoint, analysis_from } = begun;
    let mut analysis = Analysis::new(analysis_from);
    let mut replayed = Replayed { end: log.end, is_short, ..Replayed::nothing() };
    each(log, |record| {
        if record.lsn < checkpoint.redo_from {
            return Ok(true);
        }
        let seen = if record.lsn >= checkpoint.begin { analysis.see(record) } else { Ok(()) };
        match seen.and_then(|()| redo(pool, &checkpoint, record, &mut replayed)) {
            Ok(()) => Ok(true),
            // This engine does not write such a record, so no later record is used.
            Err(Error::Corrupt { .. }) => {
                (replayed.end, replayed.is_short) = (record.lsn, true);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    })?;
    let mut unfinished: HashMap<u64, Lsn> = HashMap::new();
    for (entry, _) in analysis.unfinished() {
        match entry.state {
            State::Active => drop(unfinished.insert(entry.txn.get(), entry.last)),
            State::Committed => replayed.freed.extend(entry.chains.into_iter().map(PageId::new)),
        }
    }
    if !unfinished.is_empty() {
        replayed.undo = to_take_back(log, &unfinished)?;
    }
    Ok(replayed)
}

/// Applies a record to those of the record's pages that lack its change and can be read.
fn redo(pool: &Pool, checkpoint: &Checkpoint, record: &RecordRef<'_>, replayed: &mut Replayed) -> Result<()> {
    let (kind, payload) = match record.kind.get() {
        COMPENSATION => {
            let (_, kind, payload) =
                decode_compensation(record.payload).map_err(|fault| fault.at(record.lsn))?;
            (kind, payload)
        }
        kind => (kind, record.payload),
    };
    let Some(kind) = ChangeKind::decode(kind) else { return Ok(()) };
    replayed.pages = replayed.pages.max(pages_named(record)?);
    let place = RecordSpan { first: record.first, lsn: record.lsn, end: record.end };
    let mut passed_over = HashSet::new();
    loop {
        let wanted = |page: PageId| checkpoint.wants(page, record.lsn) && !passed_over.contains(&page);
        match redo_at(pool, kind, payload, place, wanted) {
            Ok(_) => break,
            Err(Error::Corrupt { page: Some(page), .. }) if passed_over.insert(PageId::new(page)) => {
                let page = PageId::new(page);
                // The page can be read, and does not match the record.
                if pool.read(page).is_ok() {
                    replayed.unfit.insert(page);
                }
            }
            Err(error) => return Err(error),
        }
    }
    for page in overwritten(kind, payload).filter(|page| !passed_over.contains(page)) {
        replayed.unfit.remove(&page);
    }
    Ok(())
}

/// Returns the pages that a record overwrites as a whole.
fn overwritten(kind: ChangeKind, payload: &[u8]) -> impl Iterator<Item = PageId> + '_ {
    let parts = match kind {
        ChangeKind::ChainWrite | ChangeKind::Structure => payload,
        ChangeKind::ChainFree => decode_chain_free(payload).map_or(&[][..], |(_, parts)| parts),
        _ => &[],
    };
    decode_parts(parts)
        .map_while(|part| part.ok())
        .filter(|part| part.part.overwrites())
        .map(|part| part.page)
}

/// A record of a transaction: the LSN of the transaction's record before it, its kind and its
/// payload.
type Link = (Lsn, u8, Vec<u8>);

/// Returns the changes of the transactions in `unfinished` that no rollback has taken back.
/// `unfinished` has the LSN of each transaction's last record.
fn to_take_back(log: &StreamInspection, unfinished: &HashMap<u64, Lsn>) -> Result<Undo> {
    let mut records: HashMap<Lsn, Link> = HashMap::new();
    each(log, |record| {
        if unfinished.contains_key(&record.txn) {
            let before = previous(record.chain).map_err(|fault| fault.at(record.lsn))?;
            records.insert(record.lsn, (before, record.kind.get(), record.payload.to_vec()));
        }
        Ok(true)
    })?;
    let mut undo = Undo::new();
    for last in unfinished.values() {
        let mut at = *last;
        while let Some((before, kind, payload)) = records.remove(&at) {
            if kind == COMPENSATION {
                at = decode_compensation(&payload).map_err(|fault| fault.at(at))?.0;
                continue;
            }
            if let Some(kind @ (ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate)) =
                ChangeKind::decode(kind)
            {
                let change = LeafChange::decode(kind, &payload).map_err(|fault| fault.at(at))?;
                let (table, key) = (change.table, change.key.to_vec());
                undo.entry(table).or_default().entry(key).or_default().push(Step { kind, payload });
            }
            at = before;
        }
    }
    Ok(undo)
}
