//! What stands before a record's payload in a parallel log, and what recovery concludes from it.
//!
//! Pure; any thread.
//!
//! ```text
//! 0       2          8        10     12            16     24
//! | count | zeros    | stream | zero | incarnation | end  | ... count times | payload ...      little-endian
//! ```
//!
//! 1. The places are those that were not known to be durable when the record was appended, of everything the transaction depends on;
//!    at most one in a stream, sorted.
//! 2. `incarnation` is that of the named stream at that time. The record is kept exactly if each place lies in what survived of that
//!    incarnation: what later openings appended has a larger one, so it never makes a lost place look present.
//! 3. Whether a record is kept never changes: what an opening found of an incarnation is durable, and nobody appends to it again.

use super::dependences::{Dependences, Place, StreamId};
use crate::checksum::{read_u32, read_u64};
use crate::lsn::Lsn;
use crate::recover::Eras;
use smallvec::SmallVec;

const FIXED_BYTES: usize = 8;
const PLACE_BYTES: usize = 16;
/// Bytes that need no allocation: five places'.
const INLINE_BYTES: usize = 96;

/// A record of a stream that no parallel log has written, although its sum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record names its dependences in a way that no parallel log does: {reason}")]
pub struct MalformedRecord {
    /// What is wrong.
    pub reason: &'static str,
}

/// An encoded head.
pub(super) type HeadBytes = SmallVec<[u8; INLINE_BYTES]>;

/// The head that names these places, each with its stream's incarnation.
#[inline]
pub(super) fn encode(places: impl Iterator<Item = (Place, u32)>) -> HeadBytes {
    let mut bytes = HeadBytes::new();
    bytes.extend_from_slice(&[0; FIXED_BYTES]);
    let mut count = 0u16;
    for (place, incarnation) in places {
        let mut entry = [0; PLACE_BYTES];
        entry[..2].copy_from_slice(&place.stream.get().to_le_bytes());
        entry[4..8].copy_from_slice(&incarnation.to_le_bytes());
        entry[8..].copy_from_slice(&place.end.get().to_le_bytes());
        bytes.extend_from_slice(&entry);
        count += 1;
    }
    bytes[..2].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// A decoded head, and what is behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    places: &'a [[u8; PLACE_BYTES]],
    pub payload: &'a [u8],
}

impl<'a> Head<'a> {
    /// Decodes a record's payload in a log of so many streams.
    #[inline]
    pub(super) fn decode(bytes: &'a [u8], streams: usize) -> Result<Self, MalformedRecord> {
        let malformed = |reason| Err(MalformedRecord { reason });
        let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else {
            return malformed("it is too short");
        };
        let count = usize::from(u16::from_le_bytes([fixed[0], fixed[1]]));
        if fixed[2..] != [0; FIXED_BYTES - 2] {
            return malformed("bytes are set that mean nothing");
        }
        let Some((places, payload)) = rest.split_at_checked(count * PLACE_BYTES) else {
            return malformed("it has fewer places than it says");
        };
        let head = Head { places: places.as_chunks().0, payload };
        let mut least = 0;
        for entry in head.places {
            let stream = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
            if entry[2..4] != [0, 0] {
                return malformed("bytes are set that mean nothing");
            }
            if stream < least || stream >= streams {
                return malformed("its streams are out of order, or not there");
            }
            least = stream + 1;
        }
        Ok(head)
    }

    /// The places, and the incarnations they are of.
    pub(super) fn places(&self) -> impl Iterator<Item = (Place, u32)> + use<'a> {
        self.places.iter().map(|entry| {
            let stream = StreamId::new(u16::from_le_bytes([entry[0], entry[1]]));
            (Place { stream, end: Lsn::new(read_u64(entry, 8)) }, read_u32(entry, 4))
        })
    }

    /// The places alone.
    pub(super) fn dependences(&self) -> Dependences {
        self.places().map(|(place, _)| place).collect()
    }

    /// The first place that did not survive; the record is kept if there is none (rule 2).
    #[inline]
    pub(super) fn lost(&self, eras: &[Eras]) -> Option<Place> {
        let mut places = self.places();
        let lost =
            places.find(|(place, incarnation)| !eras[place.stream.index()].holds(*incarnation, place.end));
        lost.map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(stream: u16, end: u64) -> Place {
        Place { stream: StreamId::new(stream), end: Lsn::new(end) }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for count in 0..7 {
            let places: Vec<_> =
                (0..count).map(|n| (place(n * 3, u64::from(n) << 40), u32::from(n) + 7)).collect();
            let mut bytes = encode(places.iter().copied()).to_vec();
            bytes.extend_from_slice(b"payload");
            let head = Head::decode(&bytes, 19).unwrap();
            assert_eq!(head.places().collect::<Vec<_>>(), places);
            assert_eq!(head.payload, b"payload");
            for cut in 0..bytes.len() - b"payload".len() {
                Head::decode(&bytes[..cut], 19).unwrap_err();
            }
        }
    }

    #[test]
    fn what_no_log_writes_is_refused() {
        let good = encode([(place(0, 8), 1), (place(2, 8), 1)].into_iter());
        assert!(Head::decode(&good, 3).is_ok());
        assert!(Head::decode(&good, 2).is_err(), "a stream that is not there");
        for at in [2, 7, 10, 26] {
            let mut bytes = good.clone();
            bytes[at] = 1;
            Head::decode(&bytes, 3).unwrap_err();
        }
        for streams in [[2, 0], [1, 1]] {
            let bytes = encode(streams.map(|stream| (place(stream, 8), 1)).into_iter());
            Head::decode(&bytes, 3).unwrap_err();
        }
    }

    #[test]
    fn a_record_is_kept_if_its_places_lie_in_what_survived_of_their_incarnation() {
        let mut eras = Eras::new(Lsn::ZERO, 1);
        eras.begin(2, Lsn::new(1000));
        eras.close(Lsn::new(5000));
        let eras = [Eras::new(Lsn::ZERO, 1), eras];
        for (end, incarnation, kept) in [(1000, 1, true), (1008, 1, false), (1008, 2, true), (5008, 2, false)]
        {
            let bytes = encode([(place(1, end), incarnation)].into_iter());
            let lost = Head::decode(&bytes, 2).unwrap().lost(&eras);
            assert_eq!(lost, (!kept).then_some(place(1, end)));
        }
    }
}
