//! Room in the log that transactions reserve for their undo. The functions do no I/O.

use crate::paged::change::ChangeKind;
use katydid_wal::Stream;

/// Bytes of each record besides its payload.
const RECORD_HEAD: u64 = 48;

/// Bytes of log that are kept for undo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UndoRoom {
    /// Bytes by which the reserve is raised in one step.
    pub(crate) step: u64,
    /// Bytes of the log's reserve without the room for undo.
    pub(crate) standing: u64,
    /// Bytes for undo that each transaction has without raising the reserve.
    pub(crate) given: u64,
    /// Bytes that each transaction reserves before it needs them.
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
            // The log's standing reserve covers a transaction until twice the estimated bytes of
            // its undo exceed `given` (`make_reserve`).
            false => UndoRoom { step: 64 << 10, standing, given: 64 << 10, ahead: 0 },
        }
    }
}

/// Estimates the bytes that the undo of a record with this kind and payload will log. The estimate
/// is the size of the record itself, except for a long value (`ChainWrite`), whose undo is much
/// smaller.
pub(crate) fn undo_bytes(kind: u8, payload: &[&[u8]]) -> u64 {
    let bytes = payload.iter().map(|piece| piece.len() as u64).sum::<u64>();
    // The undo of a long value logs the numbers of the freed pages, not their contents.
    if kind == ChangeKind::ChainWrite.number() { RECORD_HEAD + bytes / 64 } else { RECORD_HEAD + bytes }
}
