//! Room in the log that transactions set aside for undoing them. Pure.

use crate::paged::change::ChangeKind;
use katydid_wal::Stream;

/// Bytes of each record besides its payload.
const RECORD_HEAD: u64 = 48;

/// See the head of this file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UndoRoom {
    /// Bytes by which the reserve is raised in one step.
    pub(crate) step: u64,
    /// The log's reserve without any such room.
    pub(crate) standing: u64,
    /// Bytes that each transaction has without raising the reserve.
    pub(crate) given: u64,
    /// Bytes that each transaction sets aside before it needs them.
    pub(crate) ahead: u64,
}

impl UndoRoom {
    /// The room in a log whose reserve was not raised yet.
    pub(crate) fn new(log: &Stream, page_bytes: usize) -> Self {
        let standing = log.space().reserve;
        // Undoing a change may split a page.
        let two_pages = 2 * page_bytes as u64;
        match log.is_bounded() {
            true => UndoRoom { step: 2 * two_pages, standing, given: 0, ahead: two_pages },
            // The log's standing reserve covers transactions that log less.
            false => UndoRoom { step: 64 << 10, standing, given: 64 << 10, ahead: 0 },
        }
    }
}

/// About how many bytes a record takes that undoes this one, or that one itself if it is longer.
pub(crate) fn undo_bytes(kind: u8, payload: &[&[u8]]) -> u64 {
    let bytes = payload.iter().map(|piece| piece.len() as u64).sum::<u64>();
    // The pages of a long value are freed by their numbers.
    if kind == ChangeKind::ChainWrite.number() { RECORD_HEAD + bytes / 64 } else { RECORD_HEAD + bytes }
}
