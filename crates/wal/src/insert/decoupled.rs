//! Inserter `decoupled` (D): the latch is held for the reservation only (Aether, section 5.2, Algorithm 3).
//!
//! Copies run side by side; a thread that has copied waits until everything before its range is filled and then advances `filled`
//! past its own. The pieces, their invariants and what differs from the paper are in [`aether`].

use super::aether::{self, Aether, InTurn};
use super::mutants::Built;
use super::{Admission, Image, Inserter, Piece, Scan, Stalled};
use crate::lsn::Lsn;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct DecoupledInserter(Aether<InTurn>);

impl DecoupledInserter {
    pub(super) fn new() -> Self {
        DecoupledInserter(Aether::new(None, InTurn::default(), Built::default()))
    }
}

impl Inserter for DecoupledInserter {
    fn open(&self, _slot: usize) {}

    #[inline]
    fn insert(
        &self,
        image: &Image,
        slot: usize,
        piece: &mut Piece<'_>,
        admission: Admission,
    ) -> Result<Lsn, Stalled> {
        self.0.insert_piece(image, slot, piece, admission)
    }

    fn scan(&self, image: &Image) -> Scan {
        aether::look(image)
    }
}
