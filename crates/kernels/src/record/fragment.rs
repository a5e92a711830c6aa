//! Cuts a logical record into fragments, and defines the link from each fragment to the previous
//! one.
//!
//! Pure functions.
//!
//! ```text
//! a fragment's body: | previous fragment's LSN u64 | offset of this part u32 | total u32 | part of the payload |
//! ```
//!
//! Rules:
//!
//! 1. A logical record that fits into one physical record is a `Whole` one and has no link.
//! 2. The fragments of a larger record are appended in order, and each names the previous one. The
//!    LSN of the last fragment is the logical record's identity. Readers walk backwards from the
//!    last fragment. The walk ends, because links only point to smaller LSNs.
//! 3. Every fragment contains the payload's total length, so a reader knows it before it allocates,
//!    and refuses more than [`RECORD_BYTES_MAX`].
//! 4. A crash, or a caller that gives up, leaves fragments without a last one. Such fragments form
//!    no record, and readers skip them.

use super::{HEADER_BYTES, HeaderFields, Part, PreparedRecord, RECORD_BYTES_MAX, prepare_header};
use crate::checksum::{read_u32, read_u64};
use crate::lsn::Lsn;

/// The link of a fragment: the first bytes of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// LSN of the previous fragment; zero in the first.
    pub previous: Lsn,
    /// Bytes of the payload before this fragment.
    pub offset: u32,
    /// Bytes of the whole payload.
    pub total: u32,
}

impl Link {
    /// Encoded size in bytes.
    pub const BYTES: usize = 16;

    /// The link as bytes.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.previous.get().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.offset.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.total.to_le_bytes());
        bytes
    }

    /// Splits a fragment's body into its link and its part of the payload. Returns `None` if link
    /// and part contradict each other.
    pub fn decode(part: Part, body: &[u8]) -> Option<(Self, &[u8])> {
        let (link, piece) = body.split_at_checked(Self::BYTES)?;
        let link = Link {
            previous: Lsn::new(read_u64(link, 0)),
            offset: read_u32(link, 8),
            total: read_u32(link, 12),
        };
        let end = u64::from(link.offset) + piece.len() as u64;
        let fits = match part {
            Part::Whole => false,
            Part::First => link.offset == 0 && end < link.total.into(),
            Part::Middle => link.offset > 0 && end < link.total.into(),
            Part::Last => link.offset > 0 && end == link.total.into(),
        };
        let allowed = link.total as usize <= RECORD_BYTES_MAX - HEADER_BYTES && !piece.is_empty();
        (fits && allowed).then_some((link, piece))
    }
}

/// One physical record's share of a payload.
#[derive(Debug, Clone, Copy)]
pub struct Fragment<'a> {
    payload: &'a [&'a [u8]],
    part: Part,
    offset: usize,
    bytes: usize,
    total: usize,
}

impl<'a> Fragment<'a> {
    /// The pieces of the caller's slices that this fragment holds, in order.
    pub fn slices(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (from, to) = (self.offset, self.offset + self.bytes);
        let mut at = 0;
        self.payload.iter().filter_map(move |slice| {
            let start = at;
            at += slice.len();
            let piece = from.clamp(start, at) - start..to.clamp(start, at) - start;
            (!piece.is_empty()).then(|| &slice[piece])
        })
    }

    /// Makes the physical record, complete but for its position. `previous` is the LSN of the
    /// previous fragment.
    pub fn prepare(&self, fields: &HeaderFields, previous: Lsn) -> PreparedRecord {
        let link = (self.part != Part::Whole).then_some(Link {
            previous,
            offset: self.offset as u32,
            total: self.total as u32,
        });
        prepare_header(fields, self.part, link, self.slices())
    }
}

/// A logical record is too large for the format. The value is its size in bytes, header included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized(pub u64);

/// Cuts a payload so that no physical record, header and link included, exceeds
/// `physical_bytes_max`.
pub fn split<'a>(
    payload: &'a [&'a [u8]],
    physical_bytes_max: usize,
) -> Result<impl ExactSizeIterator<Item = Fragment<'a>>, Oversized> {
    let total = payload.iter().fold(0usize, |sum, slice| sum.saturating_add(slice.len()));
    if total > RECORD_BYTES_MAX - HEADER_BYTES {
        return Err(Oversized(total as u64 + HEADER_BYTES as u64));
    }
    let whole = HEADER_BYTES + total <= physical_bytes_max;
    let room = if whole {
        total.max(1)
    } else {
        physical_bytes_max.saturating_sub(HEADER_BYTES + Link::BYTES).max(1)
    };
    let count = total.div_ceil(room).max(1);
    Ok((0..count).map(move |index| {
        let offset = index * room;
        let part = match (whole, index) {
            (true, _) => Part::Whole,
            (false, 0) => Part::First,
            (false, last) if last + 1 == count => Part::Last,
            (false, _) => Part::Middle,
        };
        Fragment { payload, part, offset, bytes: room.min(total - offset), total }
    }))
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::*;
    use crate::record::{Chain, Kind, PHYSICAL_BYTES_MAX, decode};

    fn fields() -> HeaderFields {
        let layout = Layout::InLine;
        HeaderFields {
            incarnation: 1,
            kind: Kind::USER,
            txn: 3,
            chain: Chain::NONE,
            durable: Lsn::ZERO,
            layout,
        }
    }

    #[test]
    fn pieces_put_together_are_the_payload() {
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        for (total, limit) in
            [(0, 256), (208, 256), (209, 256), (400, 256), (100_000, 2048), (100_000, PHYSICAL_BYTES_MAX)]
        {
            let (a, rest) = bytes[..total].split_at(total / 5);
            let (b, c) = rest.split_at(rest.len() / 2);
            let payload: [&[u8]; 4] = [a, b, &[], c];
            let mut joined = Vec::new();
            let mut at = Lsn::new(4096);
            let mut previous = Lsn::ZERO;
            let fragments = split(&payload, limit).unwrap();
            let count = fragments.len();
            for fragment in fragments {
                let prepared = fragment.prepare(&fields(), previous);
                assert!(prepared.len() <= limit);
                let mut record = prepared.head(at);
                fragment.slices().for_each(|slice| record.extend_from_slice(slice));
                let decoded = decode(&record, at, Layout::InLine).unwrap();
                assert_eq!(decoded.header.part, fragment.part);
                if count == 1 {
                    assert_eq!(fragment.part, Part::Whole);
                    joined.extend_from_slice(decoded.body);
                } else {
                    let (link, piece) = Link::decode(decoded.header.part, decoded.body).unwrap();
                    assert_eq!(
                        (link.previous, link.offset as usize, link.total as usize),
                        (previous, joined.len(), total)
                    );
                    joined.extend_from_slice(piece);
                }
                previous = at;
                at = at.plus(prepared.padded() as u64);
            }
            assert_eq!(joined, &bytes[..total], "{total} bytes in pieces of {limit}");
        }
    }

    #[test]
    fn the_largest_record_is_taken_and_one_byte_more_refused() {
        let bytes = vec![0; RECORD_BYTES_MAX - HEADER_BYTES + 1];
        assert_eq!(split(&[&bytes], 4096).err(), Some(Oversized(RECORD_BYTES_MAX as u64 + 1)));
        assert!(split(&[&bytes[1..]], 4096).is_ok());
    }

    #[test]
    fn contradicting_links_are_refused() {
        let link = |offset, total| Link { previous: Lsn::new(8), offset, total }.encode();
        let body = |offset, total, piece: usize| [&link(offset, total)[..], &vec![1; piece]].concat();
        assert!(Link::decode(Part::First, &body(0, 100, 50)).is_some());
        assert!(Link::decode(Part::First, &body(0, 100, 100)).is_none());
        assert!(Link::decode(Part::First, &body(1, 100, 50)).is_none());
        assert!(Link::decode(Part::Middle, &body(0, 100, 50)).is_none());
        assert!(Link::decode(Part::Last, &body(50, 100, 50)).is_some());
        assert!(Link::decode(Part::Last, &body(50, 100, 49)).is_none());
        assert!(Link::decode(Part::Last, &body(u32::MAX, u32::MAX, 50)).is_none());
        assert!(Link::decode(Part::Last, &body(u32::MAX - 50, u32::MAX, 50)).is_none());
        assert!(Link::decode(Part::Whole, &body(0, 50, 50)).is_none());
        assert!(Link::decode(Part::Last, &[0; 15]).is_none());
    }
}
