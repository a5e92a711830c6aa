//! The first 48 bytes of every page: its identity, the LSN of the last change that it contains, and
//! its checksum.
//!
//! Layout (little-endian; `docs/page-format.md` has the table): checksum u32, kind u8, level u8,
//! version u8, flags u8, page id u64, page LSN u64, table u32, count u16, heap start u16, garbage
//! u16, lower fence length u16, upper fence length u16, prefix length u16, link u64.
//!
//! Invariants:
//!
//! 1. The checksum covers everything after itself, the page id included, so a page written to the
//!    wrong position is detected.
//! 2. [`seal`] writes the checksum, on the copy that goes to the device. In memory the checksum may
//!    be stale.

use super::fault::{FaultReason, PageFault};
use super::id::PageId;
use crate::{Lsn, TableId};

/// Bytes of the header.
pub(crate) const BYTES: usize = 48;

/// The page format that this program writes, and the only one that it reads.
pub(crate) const VERSION: u8 = 1;

/// Flag: there is no upper fence, because the page reaches to the end of its table.
pub(super) const UNBOUNDED: u8 = 1;

const CHECKSUM: usize = 0;
const KIND: usize = 4;
const LEVEL: usize = 5;
const FORMAT: usize = 6;
const FLAGS: usize = 7;
const ID: usize = 8;
const PAGE_LSN: usize = 16;
const TABLE: usize = 24;
const COUNT: usize = 28;
const HEAP: usize = 30;
const GARBAGE: usize = 32;
const LOWER: usize = 34;
const UPPER: usize = 36;
const PREFIX: usize = 38;
const LINK: usize = 40;

/// Purpose of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Not in use.
    Free = 1,
    /// Page 0, which identifies the file.
    File = 2,
    /// Map of the pages in use.
    Map = 3,
    /// Keys and values.
    Leaf = 4,
    /// Separators and children.
    Inner = 5,
    /// A piece of a long value.
    Overflow = 6,
}

impl Kind {
    fn decode(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Free,
            2 => Kind::File,
            3 => Kind::Map,
            4 => Kind::Leaf,
            5 => Kind::Inner,
            6 => Kind::Overflow,
            _ => return None,
        })
    }
}

#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

/// Stores the low 16 bits of `value`. Every value stored this way is at most
/// [`super::PAGE_BYTES_MAX`].
#[inline]
pub(super) fn set_u16(bytes: &mut [u8], at: usize, value: usize) {
    debug_assert!(value <= usize::from(u16::MAX));
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

#[inline]
pub(super) fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[inline]
pub(super) fn set_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Returns the page's kind, or `None` if it is unknown.
pub(crate) fn kind(page: &[u8]) -> Option<Kind> {
    Kind::decode(page[KIND])
}

/// Checks that the page is of the wanted kind, for a caller that follows a link: a link to a page
/// of another kind is corruption.
pub(crate) fn expect(page: &[u8], wanted: Kind) -> Result<(), PageFault> {
    let reason = match kind(page) {
        Some(found) if found == wanted => return Ok(()),
        Some(found) => FaultReason::WrongKind { found, wanted },
        None => FaultReason::Kind(page[KIND]),
    };
    Err(PageFault { page: page_id(page), reason })
}

/// Height above the leaves; 0 for all pages but inner pages.
#[inline]
pub(crate) fn level(page: &[u8]) -> u8 {
    page[LEVEL]
}

pub(super) fn version(page: &[u8]) -> u8 {
    page[FORMAT]
}

#[inline]
pub(super) fn flags(page: &[u8]) -> u8 {
    page[FLAGS]
}

/// The page's own id.
#[inline]
pub(crate) fn page_id(page: &[u8]) -> PageId {
    PageId::new(u64_at(page, ID))
}

/// Gives the page another id.
pub(super) fn set_page_id(page: &mut [u8], id: PageId) {
    set_u64(page, ID, id.get());
}

/// The LSN of the last record whose change the page contains.
#[inline]
pub(crate) fn page_lsn(page: &[u8]) -> Lsn {
    Lsn::new(u64_at(page, PAGE_LSN))
}

/// Notes that the page contains the change of the record at `lsn`.
#[inline]
pub(crate) fn set_page_lsn(page: &mut [u8], lsn: Lsn) {
    set_u64(page, PAGE_LSN, lsn.get());
}

/// The table to which the page belongs.
pub(crate) fn table(page: &[u8]) -> TableId {
    TableId::new(u32_at(page, TABLE))
}

/// Number of slots of a leaf or inner page; number of payload bytes of an overflow page.
#[inline]
pub(super) fn count(page: &[u8]) -> usize {
    u16_at(page, COUNT)
}

pub(super) fn set_count(page: &mut [u8], count: usize) {
    set_u16(page, COUNT, count);
}

#[inline]
pub(super) fn heap_start(page: &[u8]) -> usize {
    u16_at(page, HEAP)
}

pub(super) fn set_heap_start(page: &mut [u8], at: usize) {
    set_u16(page, HEAP, at);
}

pub(super) fn garbage(page: &[u8]) -> usize {
    u16_at(page, GARBAGE)
}

pub(super) fn set_garbage(page: &mut [u8], bytes: usize) {
    set_u16(page, GARBAGE, bytes);
}

#[inline]
pub(super) fn lower_bytes(page: &[u8]) -> usize {
    u16_at(page, LOWER)
}

#[inline]
pub(super) fn upper_bytes(page: &[u8]) -> usize {
    u16_at(page, UPPER)
}

#[inline]
pub(super) fn prefix_bytes(page: &[u8]) -> usize {
    u16_at(page, PREFIX)
}

/// Sets the lengths of the fences and of their common prefix.
pub(super) fn set_fence_bytes(page: &mut [u8], lower: usize, upper: Option<usize>, prefix: usize) {
    set_u16(page, LOWER, lower);
    set_u16(page, UPPER, upper.unwrap_or(0));
    set_u16(page, PREFIX, prefix);
    page[FLAGS] = if upper.is_none() { UNBOUNDED } else { 0 };
}

/// The leftmost child of an inner page; the next page of an overflow chain.
#[inline]
pub(super) fn link(page: &[u8]) -> PageId {
    PageId::new(u64_at(page, LINK))
}

pub(super) fn set_link(page: &mut [u8], to: PageId) {
    set_u64(page, LINK, to.get());
}

/// Writes the header of an empty page and leaves the rest alone. The page LSN becomes zero.
pub(super) fn format(page: &mut [u8], id: PageId, kind: Kind, level: u8, table: TableId) {
    page[..BYTES].fill(0);
    page[KIND] = kind as u8;
    page[LEVEL] = level;
    page[FORMAT] = VERSION;
    set_u64(page, ID, id.get());
    set_u32(page, TABLE, table.get());
}

/// Makes a free page.
pub(crate) fn format_free(page: &mut [u8], id: PageId) {
    page.fill(0);
    format(page, id, Kind::Free, 0, TableId::CATALOG);
}

fn computed(page: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &page[KIND..]) as u32
}

/// The checksum in the page's header.
pub(crate) fn checksum(page: &[u8]) -> u32 {
    u32_at(page, CHECKSUM)
}

/// Writes the checksum. This is the last change of a copy that goes to the device.
pub(crate) fn seal(page: &mut [u8]) {
    let sum = computed(page);
    set_u32(page, CHECKSUM, sum);
}

/// Checks that these bytes are page `id` as it was sealed: length, checksum, identity, version. No
/// input causes a panic.
pub(crate) fn check_sealed(page: &[u8], id: PageId, page_bytes: usize) -> Result<(), PageFault> {
    let fault = |reason| Err(PageFault { page: id, reason });
    if page.len() != page_bytes || page.len() < BYTES {
        return fault(FaultReason::Short(page.len()));
    }
    let (found, computed) = (checksum(page), computed(page));
    if found != computed {
        let zero = page.iter().all(|byte| *byte == 0);
        return fault(if zero { FaultReason::Zero } else { FaultReason::Checksum { found, computed } });
    }
    if page_id(page) != id {
        return fault(FaultReason::Identity(page_id(page)));
    }
    if version(page) != VERSION {
        return fault(FaultReason::Version(version(page)));
    }
    Ok(())
}
