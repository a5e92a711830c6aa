//! Inserter `hybrid` (CD): groups as in `consolidated`, copies as in `decoupled` (Aether, section 5.3).
//!
//! The leader gives the latch back as soon as it has reserved, so the next group forms and copies meanwhile. The last of a group
//! waits until everything before the group is filled; the others leave at once. The pieces, their invariants and what differs
//! from the paper are in [`aether`].

use super::aether::{self, Aether, InTurn};
use super::mutants::Built;
use super::{Admission, Image, Inserter, Piece, Scan, Stalled};
use crate::lsn::Lsn;
use crate::options::Options;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct HybridInserter(Aether<InTurn>);

impl HybridInserter {
    pub(super) fn new(options: &Options) -> Self {
        HybridInserter(Aether::new(Some(aether::slots(options)), InTurn::default(), Built::default()))
    }
}

impl Inserter for HybridInserter {
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
