//! Reading many entries in pieces, so that few of them are in memory at a time.
//!
//! One thread at a time uses a reader. A reader holds no latch between two pieces, so a purge or a
//! truncation may drop entries that are not read yet. openraft drops no entry that it still
//! applies. If it ever did, the reader would fail: a reader never leaves out an entry.

use crate::error::{Error, Result};
use crate::log::RaftLog;
use openraft::RaftTypeConfig;
use openraft::entry::RaftEntry;
use std::io;
use std::ops::Range;
use std::vec::IntoIter;

/// Approximate maximum bytes of the entries in a piece. A piece has at least one entry.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// An iterator over the entries that were in the log when the iterator was made. The iterator ends
/// after an error.
pub(crate) struct Pieces<C: RaftTypeConfig> {
    log: RaftLog<C>,
    /// Entries that were read and not yet returned.
    piece: IntoIter<C::Entry>,
    /// Numbers of the entries that were not read yet.
    rest: Range<u64>,
}

impl<C: RaftTypeConfig> Pieces<C> {
    /// Makes an iterator over the entries that the log has between `from` (inclusive) and `to`
    /// (exclusive).
    pub(crate) fn new(log: RaftLog<C>, from: u64, to: u64) -> Self {
        let numbers = log.numbers();
        let rest = from.max(numbers.start)..to.min(numbers.end);
        Pieces { log, piece: Vec::new().into_iter(), rest }
    }

    fn read(&mut self) -> Result<()> {
        let number = self.rest.start;
        let piece = self.log.entries(number, self.rest.end, PIECE_BYTES)?;
        if piece.first().map(|entry| entry.index()) != Some(number) {
            return Err(Error::Gone { number });
        }
        self.rest.start += piece.len() as u64;
        self.piece = piece.into_iter();
        Ok(())
    }
}

impl<C: RaftTypeConfig> Iterator for Pieces<C> {
    type Item = io::Result<C::Entry>;

    fn next(&mut self) -> Option<io::Result<C::Entry>> {
        if self.piece.as_slice().is_empty()
            && !self.rest.is_empty()
            && let Err(error) = self.read()
        {
            self.rest.end = self.rest.start;
            return Some(Err(error.into()));
        }
        self.piece.next().map(Ok)
    }
}
