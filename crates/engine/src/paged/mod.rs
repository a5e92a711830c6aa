//! The paged engine: pages, the B+tree on these pages, and ARIES logging and recovery.

pub(crate) mod active;
pub(crate) mod cache_size;
pub(crate) mod catalog;
pub(crate) mod change;
pub(crate) mod changes;
pub(crate) mod checkpoint;
mod commit;
mod committed;
pub(crate) mod compact;
pub(crate) mod copy;
pub(crate) mod database;
pub(crate) mod double_write;
pub(crate) mod dump;
pub(crate) mod engine;
#[cfg(test)]
mod engine_tests;
pub(crate) mod feed;
pub(crate) mod first_pages;
mod inner;
mod load;
#[cfg(test)]
mod log_needed_tests;
pub(crate) mod log_record;
mod log_room;
pub(crate) mod open;
#[cfg(test)]
mod order_tests;
mod own_writes;
pub(crate) mod page;
pub(crate) mod pool;
#[cfg(test)]
mod races_tests;
pub(crate) mod range;
pub(crate) mod recovery;
pub(crate) mod rollback;
pub(crate) mod salvage;
pub(crate) mod space;
mod spread;
pub(crate) mod stat;
pub(crate) mod table;
pub(crate) mod transaction;
pub(crate) mod tree;
mod undo_room;
mod unfinished;
#[cfg(test)]
mod unfinished_tests;
mod unlocked;
pub(crate) mod verify;
pub(crate) mod views;
pub(crate) mod writer;

/// Returns a number above those of all pages that a record changes; zero if it changes none.
pub(crate) fn pages_named(record: &katydid_wal::RecordRef<'_>) -> crate::Result<u64> {
    let failed = |fault: log_record::Malformed| fault.at(record.lsn);
    let (kind, payload) = match record.kind.get() {
        log_record::COMPENSATION => {
            let (_, kind, payload) = log_record::decode_compensation(record.payload).map_err(failed)?;
            (kind, payload)
        }
        kind => (kind, record.payload),
    };
    let Some(kind) = change::ChangeKind::decode(kind) else { return Ok(0) };
    change::pages_of(kind, payload).try_fold(0, |pages: u64, page| {
        let page = page.map_err(|fault| fault.at(record.lsn))?;
        Ok(pages.max(page.get().saturating_add(1)))
    })
}

/// Returns whether a record is the begin record of the first checkpoint after a compaction, which
/// moved pages.
pub(crate) fn is_rewriting(record: &katydid_wal::RecordRef<'_>) -> bool {
    record.kind.get() == log_record::CHECKPOINT_BEGIN && record.payload == log_record::REWRITTEN
}
