//! Records that change several pages together: a list of parts, each for one page.
//!
//! ```text
//! payload = part, part, ...
//! part    = | page u64 | tag u8 | zero u8 | slot u16 | body length u32 | body |
//! ```
//!
//! A page occurs at most once in a payload. Otherwise redo would take the page's second part for
//! done, because the first part sets the page LSN.
//!
//! `ChainFree` has `head u64` in front of the parts: the first page of the freed chain or tree, by
//! which recovery recognizes the chain or tree.

use super::decode::Rest;
use super::malformed::Malformed;
use crate::TableId;
use crate::paged::page::PageId;

const TAG_IMAGE: u8 = 1;
const TAG_OVERFLOW: u8 = 2;
const TAG_INNER_INSERT: u8 = 3;
const TAG_INNER_REMOVE: u8 = 4;
const TAG_TRUNCATE: u8 = 5;
const TAG_FREE: u8 = 6;
const TAG_MAP_SET: u8 = 7;
const TAG_MAP_CLEAR: u8 = 8;

const PART_BYTES: usize = 16;
const CHAIN_FREE_BYTES: usize = 8;

/// Indexes of bits within one map page, as a payload encodes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MapBits<'a>(&'a [[u8; 4]]);

impl<'a> MapBits<'a> {
    /// Iterates over the indexes.
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = usize> + 'a {
        self.0.iter().map(|bit| u32::from_le_bytes(*bit) as usize)
    }
}

/// A change of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The page becomes this image (see `page::image`).
    PageImage(&'a [u8]),
    /// The page becomes a page of a long value.
    Overflow { table: TableId, next: PageId, payload: &'a [u8] },
    /// An inner page gets a separator and the child to its right.
    InnerInsert { slot: u16, separator: &'a [u8], child: PageId },
    /// An inner page loses a separator and the child to its right.
    InnerRemove { slot: u16 },
    /// A leaf or inner page keeps its first `keep` slots and gets a new upper fence.
    Truncate { keep: u16, upper: &'a [u8] },
    /// The page becomes free.
    Free,
    /// A map marks pages as in use.
    MapSet(MapBits<'a>),
    /// A map marks pages as free.
    MapClear(MapBits<'a>),
}

impl Part<'_> {
    /// Returns whether the part sets the whole page, so that it does not need what the page held
    /// before.
    pub(crate) fn overwrites(&self) -> bool {
        matches!(self, Part::PageImage(_) | Part::Overflow { .. } | Part::Free)
    }
}

/// A part, and the page that it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartRef<'a> {
    pub(crate) page: PageId,
    pub(crate) part: Part<'a>,
}

/// Builds a payload of parts.
#[derive(Debug, Default)]
pub(crate) struct PartsWriter {
    bytes: Vec<u8>,
}

impl PartsWriter {
    /// An empty list.
    pub(crate) fn new() -> Self {
        PartsWriter::default()
    }

    /// The payload.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes
    }

    fn part(&mut self, page: PageId, tag: u8, slot: u16, body: &[&[u8]]) {
        let length: usize = body.iter().map(|piece| piece.len()).sum();
        self.bytes.reserve(PART_BYTES + length);
        self.bytes.extend_from_slice(&page.get().to_le_bytes());
        self.bytes.extend_from_slice(&[tag, 0]);
        self.bytes.extend_from_slice(&slot.to_le_bytes());
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
        for piece in body {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Adds an image. `image` is what `page::image::parts` returned.
    pub(crate) fn image(&mut self, page: PageId, image: [&[u8]; 2]) {
        self.part(page, TAG_IMAGE, 0, &image);
    }

    pub(crate) fn overflow(&mut self, page: PageId, table: TableId, next: PageId, payload: &[u8]) {
        let (table, next) = (table.get().to_le_bytes(), next.get().to_le_bytes());
        self.part(page, TAG_OVERFLOW, 0, &[&table, &next, payload]);
    }

    pub(crate) fn inner_insert(&mut self, page: PageId, slot: usize, separator: &[u8], child: PageId) {
        self.part(page, TAG_INNER_INSERT, slot as u16, &[&child.get().to_le_bytes(), separator]);
    }

    pub(crate) fn inner_remove(&mut self, page: PageId, slot: usize) {
        self.part(page, TAG_INNER_REMOVE, slot as u16, &[]);
    }

    pub(crate) fn truncate(&mut self, page: PageId, keep: usize, upper: &[u8]) {
        self.part(page, TAG_TRUNCATE, keep as u16, &[upper]);
    }

    pub(crate) fn free(&mut self, page: PageId) {
        self.part(page, TAG_FREE, 0, &[]);
    }

    pub(crate) fn map_set(&mut self, map: PageId, bits: &[u32]) {
        self.map(map, TAG_MAP_SET, bits);
    }

    pub(crate) fn map_clear(&mut self, map: PageId, bits: &[u32]) {
        self.map(map, TAG_MAP_CLEAR, bits);
    }

    fn map(&mut self, map: PageId, tag: u8, bits: &[u32]) {
        let bytes: Vec<u8> = bits.iter().flat_map(|bit| bit.to_le_bytes()).collect();
        self.part(map, tag, 0, &[&bytes]);
    }
}

/// Iterates over the parts of a payload. The iteration ends after a malformed part.
pub(crate) fn decode_parts(payload: &[u8]) -> impl Iterator<Item = Result<PartRef<'_>, Malformed>> + '_ {
    let mut rest = Rest::new(payload);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let part = decode_part(&mut rest);
        if part.is_err() {
            rest = Rest::new(&[]);
        }
        Some(part)
    })
}

fn decode_part<'a>(rest: &mut Rest<'a>) -> Result<PartRef<'a>, Malformed> {
    let page = PageId::new(rest.u64()?);
    let tag = rest.u8()?;
    if rest.u8()? != 0 {
        return Err(Malformed("reserved bytes of a record are not zero"));
    }
    let slot = rest.u16()?;
    let length = rest.u32()? as usize;
    let bytes = rest.bytes(length)?;
    let mut body = Rest::new(bytes);
    let part = match tag {
        TAG_IMAGE => Part::PageImage(bytes),
        TAG_OVERFLOW => {
            let (table, next) = (TableId::new(body.u32()?), PageId::new(body.u64()?));
            Part::Overflow { table, next, payload: body.all() }
        }
        TAG_INNER_INSERT => {
            let child = PageId::new(body.u64()?);
            Part::InnerInsert { slot, separator: body.all(), child }
        }
        TAG_INNER_REMOVE => {
            body.finish()?;
            Part::InnerRemove { slot }
        }
        TAG_TRUNCATE => Part::Truncate { keep: slot, upper: bytes },
        TAG_FREE => {
            body.finish()?;
            Part::Free
        }
        TAG_MAP_SET => Part::MapSet(decode_bits(bytes)?),
        TAG_MAP_CLEAR => Part::MapClear(decode_bits(bytes)?),
        _ => return Err(Malformed("a record has a part of unknown kind")),
    };
    Ok(PartRef { page, part })
}

fn decode_bits(bytes: &[u8]) -> Result<MapBits<'_>, Malformed> {
    match bytes.as_chunks::<4>() {
        (bits, []) => Ok(MapBits(bits)),
        _ => Err(Malformed("a record has a list of bits of odd length")),
    }
}

/// Encodes the bytes that precede the parts of a `ChainFree` record.
pub(crate) fn encode_chain_free(head: PageId) -> [u8; CHAIN_FREE_BYTES] {
    head.get().to_le_bytes()
}

/// Decodes a `ChainFree` record: the first page of the freed chain or tree, and the parts.
pub(crate) fn decode_chain_free(payload: &[u8]) -> Result<(PageId, &[u8]), Malformed> {
    let mut rest = Rest::new(payload);
    let head = PageId::new(rest.u64()?);
    Ok((head, rest.all()))
}
