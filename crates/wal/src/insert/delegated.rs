//! Inserter `delegated` (CDME): as `hybrid`, but the last of a group may leave its range to the owner of the one before
//! (Aether, section A.3, Algorithm 4), so that small records do not wait for the copy of a large one.
//!
//! The release queue and its rules are in [`aether::ReleaseQueue`]; the other pieces, and what differs from the paper, in [`aether`].

use super::aether::{self, Aether, ReleaseQueue};
use super::mutants::Built;
use super::{Admission, Image, Inserter, Piece, Scan, Stalled};
use crate::lsn::Lsn;
use crate::options::Options;

/// Ranges that may be between reserved and filled. Beyond, leaders wait before they reserve.
const NODES: usize = 256;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct DelegatedInserter(Aether<ReleaseQueue>);

impl DelegatedInserter {
    pub(super) fn new(options: &Options) -> Self {
        let queue = ReleaseQueue::new(NODES, aether::KEEPS, Built::default());
        DelegatedInserter(Aether::new(Some(aether::slots(options)), queue, Built::default()))
    }
}

impl Inserter for DelegatedInserter {
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
