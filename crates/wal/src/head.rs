//! The dependencies that stand before the payload of a record, and recovery's decision which
//! records are kept.
//!
//! Pure functions.
//!
//! ```text
//! 0        2      4             8     16
//! | stream | zero | incarnation | end  | ... once for each dependency | payload ...      little-endian
//! ```
//!
//! Rules:
//!
//! 1. The dependencies are the positions that the transaction depends on and that were not known to
//!    be durable when the record was appended: at most one in each stream, sorted by stream. The
//!    record's header says how many there are, and has the commit stamp.
//! 2. `incarnation` is the incarnation of the named stream (the number of its opening) at the time
//!    of the append. The record is kept exactly if each position lies in the surviving part of the
//!    incarnation that is stored with it. Records that later openings append have a larger
//!    incarnation, so they never make a lost position look present.
//! 3. The decision about a record never changes: the part of an incarnation that an opening found
//!    is durable, and no opening appends to that incarnation again.

use crate::recover::IncarnationHistory;
use katydid_kernels::checksum::{read_u32, read_u64};
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{Chain, DEPENDENCY_BYTES};
use katydid_kernels::stamp::CommitStamp;

/// An encoded dependency.
pub(crate) type Entry = [u8; DEPENDENCY_BYTES];

/// Encodes a position that a record depends on, with the incarnation of its stream.
#[inline]
pub(crate) fn encode(position: StreamLsn, incarnation: u32) -> Entry {
    let front = u64::from(position.stream.get()) | u64::from(incarnation) << 32;
    (u128::from(front) | u128::from(position.end.get()) << 64).to_le_bytes()
}

/// The head of a record (its stamp and its dependencies), decoded, and the payload that follows the
/// dependencies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub stamp: CommitStamp,
    entries: &'a [Entry],
    pub payload: &'a [u8],
}

impl<'a> Head<'a> {
    /// Decodes the body of a record with this `chain`, in a log of `streams` streams. An error says
    /// why no log can have written the body, although its checksum is right.
    #[inline]
    pub(crate) fn decode(chain: Chain, body: &'a [u8], streams: usize) -> Result<Self, &'static str> {
        let malformed = |reason| Err(reason);
        let Chain::Commit { stamp, dependencies } = chain else {
            return malformed("it has no commit stamp");
        };
        let bytes = usize::from(dependencies) * DEPENDENCY_BYTES;
        let Some((entries, payload)) = body.split_at_checked(bytes) else {
            return malformed("it has fewer dependencies than it says");
        };
        let head = Head { stamp, entries: entries.as_chunks().0, payload };
        let mut least = 0;
        for entry in head.entries {
            let stream = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
            if entry[2..4] != [0, 0] {
                return malformed("a dependency has an unknown field");
            }
            if stream < least || stream >= streams {
                return malformed("its streams are out of order, or not there");
            }
            least = stream + 1;
        }
        Ok(head)
    }

    /// Returns the positions, each with its incarnation.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (StreamLsn, u32)> + use<'a> {
        self.entries.iter().map(|entry| {
            let stream = StreamId::new(u16::from_le_bytes([entry[0], entry[1]]));
            (StreamLsn { stream, end: Lsn::new(read_u64(entry, 8)) }, read_u32(entry, 4))
        })
    }

    /// Returns whether `stream` alone shows that the record is kept: each dependency is in
    /// `stream`, was written by `incarnation`, and ends at or below `at`. The caller knows that
    /// everything in `stream` below `at` has survived.
    #[inline]
    pub(crate) fn is_kept_by(&self, stream: StreamId, incarnation: u32, at: Lsn) -> bool {
        self.positions()
            .all(|(position, of)| position.stream == stream && of == incarnation && position.end <= at)
    }

    /// Returns the positions without their incarnations.
    pub(crate) fn dependencies(&self) -> Dependencies {
        self.positions().map(|(position, _)| position).collect()
    }

    /// Returns the first position that did not survive; `None` if the record is kept (rule 2).
    #[inline]
    pub(crate) fn lost(&self, incarnations: &[IncarnationHistory]) -> Option<StreamLsn> {
        let mut positions = self.positions();
        let lost = positions.find(|(position, incarnation)| {
            !incarnations[position.stream.index()].holds(*incarnation, position.end)
        });
        lost.map(|(position, _)| position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(stream: u16, end: u64) -> StreamLsn {
        StreamLsn { stream: StreamId::new(stream), end: Lsn::new(end) }
    }

    fn encoded(positions: &[(StreamLsn, u32)]) -> Vec<u8> {
        positions.iter().flat_map(|(position, incarnation)| encode(*position, *incarnation)).collect()
    }

    fn chain(dependencies: u16) -> Chain {
        Chain::Commit { stamp: CommitStamp::new(77), dependencies }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for count in 0..7u16 {
            let position = |n| (position(n * 3, u64::from(n) << 40), u32::from(n) + 7);
            let positions: Vec<_> = (0..count).map(position).collect();
            let bytes = [&encoded(&positions)[..], b"payload"].concat();
            let head = Head::decode(chain(count), &bytes, 19).unwrap();
            assert_eq!(head.positions().collect::<Vec<_>>(), positions);
            assert_eq!((head.payload, head.stamp.get()), (&b"payload"[..], 77));
            for cut in 0..bytes.len() - b"payload".len() {
                Head::decode(chain(count), &bytes[..cut], 19).unwrap_err();
            }
        }
        let bytes = encode(position(0x1234, 0x0102_0304_0506_0708), 0x0a0b_0c0d);
        assert_eq!(bytes, [0x34, 0x12, 0, 0, 13, 12, 11, 10, 8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn what_no_log_writes_is_refused() {
        let good = encoded(&[(position(0, 8), 1), (position(2, 8), 1)]);
        assert!(Head::decode(chain(2), &good, 3).is_ok());
        Head::decode(chain(2), &good, 2).unwrap_err();
        Head::decode(chain(3), &good, 3).unwrap_err();
        for previous in [Chain::NONE, Chain::Previous(Lsn::new(8))] {
            Head::decode(previous, &good, 3).unwrap_err();
        }
        for (at, value) in [(2, 1), (3, 1), (3, 255), (18, 1), (19, 1)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            Head::decode(chain(2), &bytes, 3).unwrap_err();
        }
        for streams in [[2, 0], [1, 1]] {
            let bytes = encoded(&streams.map(|stream| (position(stream, 8), 1)));
            Head::decode(chain(2), &bytes, 3).unwrap_err();
        }
    }

    #[test]
    fn only_positions_below_it_in_its_own_stream_and_incarnation_need_no_look_elsewhere() {
        let is_kept = |positions: &[(StreamLsn, u32)]| {
            let bytes = encoded(positions);
            let head = Head::decode(chain(positions.len() as u16), &bytes, 3).unwrap();
            head.is_kept_by(StreamId::new(1), 5, Lsn::new(1000))
        };
        assert!(is_kept(&[(position(1, 1000), 5)]));
        assert!(!is_kept(&[(position(1, 1008), 5)]), "it lies above");
        assert!(!is_kept(&[(position(1, 8), 4)]), "what survived of an earlier incarnation is not known");
        assert!(!is_kept(&[(position(1, 8), 6)]));
        assert!(!is_kept(&[(position(2, 8), 5)]), "it is in another stream");
        assert!(!is_kept(&[(position(0, 8), 5), (position(1, 8), 5)]));
    }

    #[test]
    fn a_record_is_kept_if_its_positions_lie_in_what_survived_of_their_incarnation() {
        let mut incarnations = IncarnationHistory::new(Lsn::ZERO, 1);
        incarnations.begin(2, Lsn::new(1000));
        incarnations.close(Lsn::new(5000));
        let incarnations = [IncarnationHistory::new(Lsn::ZERO, 1), incarnations];
        for (end, incarnation, kept) in [(1000, 1, true), (1008, 1, false), (1008, 2, true), (5008, 2, false)]
        {
            let bytes = encoded(&[(position(1, end), incarnation)]);
            let lost = Head::decode(chain(1), &bytes, 2).unwrap().lost(&incarnations);
            assert_eq!(lost, (!kept).then_some(position(1, end)));
        }
    }
}
