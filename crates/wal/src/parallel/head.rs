//! What stands before a record's payload in a parallel log, and what recovery concludes from it.
//!
//! Pure; any thread.
//!
//! ```text
//! 0        2       4             8     16
//! | stream | count | incarnation | end  | ... once for each place | payload ...      little-endian
//! ```
//!
//! 1. The places are those of everything the transaction depends on that were not known to be durable when the record was appended; at
//!    most one in a stream, sorted. If there are none, the header's `prev` is 0, and there is nothing before the payload; otherwise it is
//!    1, and `count` in the first place says how many there are. It is 0 in the others.
//! 2. `incarnation` is that of the named stream at that time. The record is kept exactly if each place lies in what survived of that
//!    incarnation: what later openings appended has a larger one, so it never makes a lost place look present.
//! 3. Whether a record is kept never changes: what an opening found of an incarnation is durable, and nobody appends to it again.

use crate::recover::Eras;
use katydid_kernels::checksum::{read_u32, read_u64};
use katydid_kernels::dependences::{Dependences, Place, StreamId};
use katydid_kernels::lsn::Lsn;

const PLACE_BYTES: usize = 16;

/// A record of a stream that no parallel log has written, although its sum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record names its dependences in a way that no parallel log does: {reason}")]
pub struct MalformedRecord {
    /// What is wrong.
    pub reason: &'static str,
}

/// The `prev` of a record that depends on nothing, and of one that depends on something. No record of a user starts so low, so none is
/// put elsewhere for it.
pub(super) const HAS_PLACES: [Lsn; 2] = [Lsn::ZERO, Lsn::new(1)];

/// An encoded place.
pub(super) type Entry = [u8; PLACE_BYTES];

/// A place, with its stream's incarnation.
#[inline]
pub(super) fn encode(place: Place, incarnation: u32) -> Entry {
    let front = u64::from(place.stream.get()) | u64::from(incarnation) << 32;
    (u128::from(front) | u128::from(place.end.get()) << 64).to_le_bytes()
}

/// Completes a head of these places, of which there are some.
#[inline]
pub(super) fn finish(places: &mut [Entry]) -> &[u8] {
    let count = places.len() as u16;
    if let Some(first) = places.first_mut() {
        first[2..4].copy_from_slice(&count.to_le_bytes());
    }
    places.as_flattened()
}

/// A decoded head, and what is behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    places: &'a [Entry],
    pub payload: &'a [u8],
}

impl<'a> Head<'a> {
    /// Decodes a record's payload in a log of so many streams.
    #[inline]
    pub(super) fn decode(prev: Lsn, bytes: &'a [u8], streams: usize) -> Result<Self, MalformedRecord> {
        let malformed = |reason| Err(MalformedRecord { reason });
        let counted = |bytes: &[u8]| usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
        let count =
            match (HAS_PLACES.iter().position(|known| *known == prev), bytes.first_chunk::<PLACE_BYTES>()) {
                (Some(0), _) => return Ok(Head { places: &[], payload: bytes }),
                (Some(_), Some(first)) if counted(first) > 0 => counted(first),
                (Some(_), _) => return malformed("it has no places, and says that it has"),
                (None, _) => return malformed("it has another previous record"),
            };
        let Some((places, payload)) = bytes.split_at_checked(count * PLACE_BYTES) else {
            return malformed("it has fewer places than it says");
        };
        let head = Head { places: places.as_chunks().0, payload };
        let mut least = 0;
        for (nth, entry) in head.places.iter().enumerate() {
            let stream = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
            if nth > 0 && counted(entry) != 0 {
                return malformed("it counts its places twice");
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

    /// Whether what its own stream has below it is enough to keep it: it is in `stream`, was written at `at` by `incarnation`, and everything
    /// up to there survived. So if a place is below it in the same incarnation, that survived too.
    #[inline]
    pub(super) fn is_kept_by(&self, stream: StreamId, incarnation: u32, at: Lsn) -> bool {
        self.places().all(|(place, of)| place.stream == stream && of == incarnation && place.end <= at)
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

    fn encoded(places: &[(Place, u32)]) -> Vec<u8> {
        let mut entries: Vec<_> =
            places.iter().map(|(place, incarnation)| encode(*place, *incarnation)).collect();
        finish(&mut entries).to_vec()
    }

    const SOME: Lsn = HAS_PLACES[1];

    #[test]
    fn what_was_encoded_is_decoded() {
        for count in 0..7u16 {
            let place = |n| (place(n * 3, u64::from(n) << 40), u32::from(n) + 7);
            let places: Vec<_> = (0..count).map(place).collect();
            let bytes = [&encoded(&places)[..], b"payload"].concat();
            let prev = HAS_PLACES[usize::from(count > 0)];
            let head = Head::decode(prev, &bytes, 19).unwrap();
            assert_eq!(head.places().collect::<Vec<_>>(), places);
            assert_eq!(head.payload, b"payload");
            for cut in 0..bytes.len() - b"payload".len() {
                Head::decode(prev, &bytes[..cut], 19).unwrap_err();
            }
        }
        let bytes = encode(place(0x1234, 0x0102_0304_0506_0708), 0x0a0b_0c0d);
        assert_eq!(bytes, [0x34, 0x12, 0, 0, 13, 12, 11, 10, 8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn what_no_log_writes_is_refused() {
        let good = encoded(&[(place(0, 8), 1), (place(2, 8), 1)]);
        assert!(Head::decode(SOME, &good, 3).is_ok());
        Head::decode(SOME, &good, 2).unwrap_err();
        Head::decode(Lsn::new(2), &good, 3).unwrap_err();
        for (at, value) in [(2, 0), (2, 3), (3, 1), (3, 255), (18, 1), (19, 1)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            Head::decode(SOME, &bytes, 3).unwrap_err();
        }
        for streams in [[2, 0], [1, 1]] {
            let bytes = encoded(&streams.map(|stream| (place(stream, 8), 1)));
            Head::decode(SOME, &bytes, 3).unwrap_err();
        }
    }

    #[test]
    fn only_places_below_it_in_its_own_stream_and_incarnation_need_no_look_elsewhere() {
        let is_kept = |places: &[(Place, u32)]| {
            let bytes = encoded(places);
            Head::decode(SOME, &bytes, 3).unwrap().is_kept_by(StreamId::new(1), 5, Lsn::new(1000))
        };
        assert!(is_kept(&[(place(1, 1000), 5)]));
        assert!(!is_kept(&[(place(1, 1008), 5)]), "it lies above");
        assert!(!is_kept(&[(place(1, 8), 4)]), "what survived of an earlier incarnation is not known");
        assert!(!is_kept(&[(place(1, 8), 6)]));
        assert!(!is_kept(&[(place(2, 8), 5)]), "it is in another stream");
        assert!(!is_kept(&[(place(0, 8), 5), (place(1, 8), 5)]));
    }

    #[test]
    fn a_record_is_kept_if_its_places_lie_in_what_survived_of_their_incarnation() {
        let mut eras = Eras::new(Lsn::ZERO, 1);
        eras.begin(2, Lsn::new(1000));
        eras.close(Lsn::new(5000));
        let eras = [Eras::new(Lsn::ZERO, 1), eras];
        for (end, incarnation, kept) in [(1000, 1, true), (1008, 1, false), (1008, 2, true), (5008, 2, false)]
        {
            let bytes = encoded(&[(place(1, end), incarnation)]);
            let lost = Head::decode(SOME, &bytes, 2).unwrap().lost(&eras);
            assert_eq!(lost, (!kept).then_some(place(1, end)));
        }
    }
}
