//! Inserter `consolidated` (C): threads that meet at the latch reserve as a group (Aether, section 5.1, Algorithms 2 and 5).
//!
//! The group's leader takes the latch, reserves for all, and tells them; they copy side by side; the last one advances `filled` and
//! gives the latch back. So one group, or one lone record, is between `filled` and `reserved` at a time: there are no holes below
//! a record that is not being copied. The pieces, their invariants and what differs from the paper are in [`aether`].

use super::aether::{self, Aether, UnderLatch};
use super::mutants::Built;
use super::{Admission, Image, Inserter, Piece, Scan, Stalled};
use crate::lsn::Lsn;
use crate::options::Options;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct ConsolidatedInserter(Aether<UnderLatch>);

impl ConsolidatedInserter {
    pub(super) fn new(options: &Options) -> Self {
        ConsolidatedInserter(Aether::new(Some(aether::slots(options)), UnderLatch, Built::default()))
    }
}

impl Inserter for ConsolidatedInserter {
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
