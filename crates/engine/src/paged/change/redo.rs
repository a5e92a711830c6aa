//! Applying a record again, page by page.
//!
//! Runs at restart, when nothing else changes pages. Several threads may run it, if each page
//! belongs to one thread, which redoes all records of the page in log order.
//!
//! The caller decides which pages of a record are `wanted`. At restart a page must be wanted,
//! unless the record's change of the page, and all earlier changes of the page, are known to be
//! durable in place; then the page must not be wanted. This is known only for records below the
//! checkpoint's begin record, in two cases: the page is not in the checkpoint's list of dirty
//! pages, or its recovery LSN in that list is above the record.
//!
//! This decision matters for correctness, not only for speed. Some records are lists of parts, each
//! of which changes one page (`parts`). A part that overwrites its whole page is applied without
//! reading the page from the device, because the page may never have been written there. If such a
//! part were applied to a page that is not wanted, newer changes would be lost.

use super::apply::{apply_leaf, apply_part};
use super::kind::ChangeKind;
use super::leaf::LeafChange;
use super::malformed::Malformed;
use super::parts::{PartRef, decode_chain_free, decode_parts};
use crate::paged::page::PageId;
use crate::paged::pool::{PageWrite, Pool};
use crate::{Error, Lsn};

/// Returns the pages that a record changes. A malformed payload ends the list with an error.
pub(crate) fn pages_of(
    kind: ChangeKind,
    payload: &[u8],
) -> impl Iterator<Item = Result<PageId, Malformed>> + '_ {
    let (leaf, parts) = match kind {
        ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate => {
            (Some(LeafChange::page_in(payload)), Ok(&[][..]))
        }
        ChangeKind::ChainWrite | ChangeKind::Structure => (None, Ok(payload)),
        ChangeKind::ChainFree => (None, decode_chain_free(payload).map(|(_, parts)| parts)),
    };
    let (parts, broken) = match parts {
        Ok(parts) => (parts, None),
        Err(malformed) => (&[][..], Some(Err(malformed))),
    };
    leaf.into_iter().chain(broken).chain(decode_parts(parts).map(|part| Ok(part?.page)))
}

/// Positions of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordSpan {
    /// Start of the record's first fragment. The log must be kept from here on, so that the record
    /// can be redone once more.
    pub(crate) first: Lsn,
    /// The record's identity.
    pub(crate) lsn: Lsn,
    /// The record's exclusive end.
    pub(crate) end: Lsn,
}

/// Applies the record at `span` to each of its pages that is `wanted` and does not have the
/// record's change. Returns the number of pages to which it was applied.
pub(crate) fn redo_at(
    pool: &Pool,
    kind: ChangeKind,
    payload: &[u8],
    span: RecordSpan,
    mut wanted: impl FnMut(PageId) -> bool,
) -> Result<usize, Error> {
    let lsn = span.lsn;
    let parts = match kind {
        ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate => {
            let change = LeafChange::decode(kind, payload).map_err(|malformed| malformed.at(lsn))?;
            if !wanted(change.page) {
                return Ok(0);
            }
            return Ok(usize::from(redo_leaf(pool, &change, span)?));
        }
        ChangeKind::ChainWrite | ChangeKind::Structure => payload,
        ChangeKind::ChainFree => decode_chain_free(payload).map_err(|malformed| malformed.at(lsn))?.1,
    };
    let mut applied = 0;
    for part in decode_parts(parts) {
        let part = part.map_err(|malformed| malformed.at(lsn))?;
        if wanted(part.page) && redo_part(pool, &part, span)? {
            applied += 1;
        }
    }
    Ok(applied)
}

fn misfit(malformed: Malformed, page: PageId, lsn: Lsn) -> Error {
    Error::Corrupt {
        place: format!("page {page} against the log record at {lsn}"),
        page: Some(page.get()),
        finding: malformed.0.to_owned(),
    }
}

fn redo_leaf(pool: &Pool, change: &LeafChange<'_>, span: RecordSpan) -> Result<bool, Error> {
    let RecordSpan { first, lsn, end } = span;
    let mut page = pool.write(change.page)?;
    if page.lsn() >= lsn {
        return Ok(false);
    }
    page.begin_redo(first);
    apply_leaf(page.bytes_mut(), change).map_err(|malformed| misfit(malformed, change.page, lsn))?;
    page.finish_change(lsn, end);
    Ok(true)
}

fn redo_part(pool: &Pool, part: &PartRef<'_>, span: RecordSpan) -> Result<bool, Error> {
    if part.part.overwrites() {
        redo_part_in(&mut *pool.create(part.page)?, part, span)
    } else {
        redo_part_in(&mut pool.write(part.page)?, part, span)
    }
}

fn redo_part_in(page: &mut PageWrite, part: &PartRef<'_>, span: RecordSpan) -> Result<bool, Error> {
    let RecordSpan { first, lsn, end } = span;
    if page.lsn() >= lsn {
        return Ok(false);
    }
    page.begin_redo(first);
    apply_part(page.bytes_mut(), part.page, &part.part)
        .map_err(|malformed| misfit(malformed, part.page, lsn))?;
    page.finish_change(lsn, end);
    Ok(true)
}
