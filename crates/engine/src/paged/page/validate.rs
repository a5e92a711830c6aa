//! Validation of pages. Any bytes may be validated. The time is linear in the page's length, plus a
//! sort.
//!
//! Every access here comes after the check that proves it to be inside the page, so the order of
//! the checks matters.

use super::fault::{FaultReason, PageFault};
use super::id::PageId;
use super::sizes::key_bytes_max;
use super::{header, inner, key, leaf, map, overflow, slots};
use crate::limits::PAGE_BYTES_MAX;
use header::Kind;

/// Checks that these bytes, as they came from a device, are page `id` and can be used as that page.
pub(crate) fn check(page: &[u8], id: PageId, page_bytes: usize) -> Result<(), PageFault> {
    header::check_sealed(page, id, page_bytes)?;
    check_structure(page)
}

/// Checks that the parts of a page fit together, whatever its checksum says.
pub(crate) fn check_structure(page: &[u8]) -> Result<(), PageFault> {
    if page.len() < header::BYTES || page.len() > PAGE_BYTES_MAX {
        return Err(PageFault { page: PageId::NONE, reason: FaultReason::Short(page.len()) });
    }
    structure(page).map_err(|reason| PageFault { page: header::page_id(page), reason })
}

fn structure(page: &[u8]) -> Result<(), FaultReason> {
    let kind = header::kind(page).ok_or(FaultReason::Kind(page[4]))?;
    let level = header::level(page);
    if (kind == Kind::Inner) != (level > 0) {
        return Err(FaultReason::Level(level));
    }
    match kind {
        Kind::Leaf => {
            slotted(page)?;
            if !header::link(page).is_none() {
                return Err(FaultReason::Reserved);
            }
            cells(page, leaf_key)
        }
        Kind::Inner => {
            slotted(page)?;
            check_child(page, header::link(page), 0)?;
            cells(page, inner_key)
        }
        Kind::Overflow => overflow_page(page),
        Kind::Map => map_page(page),
        Kind::Free | Kind::File => no_slots(page, header::count(page) == 0 && header::link(page).is_none()),
    }
}

/// Checks that the header fields that only slotted pages use are zero.
fn no_slots(page: &[u8], rest: bool) -> Result<(), FaultReason> {
    let zero = header::heap_start(page) == 0
        && header::garbage(page) == 0
        && header::lower_bytes(page) == 0
        && header::upper_bytes(page) == 0
        && header::prefix_bytes(page) == 0
        && header::flags(page) == 0;
    if zero && rest { Ok(()) } else { Err(FaultReason::Reserved) }
}

fn overflow_page(page: &[u8]) -> Result<(), FaultReason> {
    no_slots(page, true)?;
    let payload = header::count(page);
    if payload > overflow::capacity(page.len()) {
        return Err(FaultReason::Payload(payload as u16));
    }
    if header::link(page) == header::page_id(page) {
        return Err(FaultReason::Child(0));
    }
    Ok(())
}

fn map_page(page: &[u8]) -> Result<(), FaultReason> {
    no_slots(page, header::count(page) == 0 && header::link(page).is_none())?;
    let id = header::page_id(page);
    let own = if id == PageId::FIRST_MAP { 0b111 } else { 0b1 };
    if map::map_of(id, page.len()) != id || page[header::BYTES] & own != own {
        return Err(FaultReason::MapOwnPages);
    }
    Ok(())
}

/// Checks the fences, and the borders of slots and heap.
fn slotted(page: &[u8]) -> Result<(), FaultReason> {
    let flags = header::flags(page);
    if flags & !header::UNBOUNDED != 0 {
        return Err(FaultReason::Flags(flags));
    }
    let (lower, upper) = (header::lower_bytes(page), header::upper_bytes(page));
    let longest = key_bytes_max(page.len());
    if lower > longest || upper > longest || (flags & header::UNBOUNDED != 0 && upper > 0) {
        return Err(FaultReason::FenceLength);
    }
    let Some(heap_end) = page.len().checked_sub(lower + upper) else {
        return Err(FaultReason::FenceLength);
    };
    let slots_end = header::BYTES + header::count(page) * slots::SLOT;
    if slots_end > header::heap_start(page) || header::heap_start(page) > heap_end {
        return Err(FaultReason::Bounds);
    }
    let (lower, upper) = (slots::lower_fence(page), slots::upper_fence(page));
    if upper.is_some_and(|upper| upper <= lower) {
        return Err(FaultReason::FenceOrder);
    }
    let shared = upper.map_or(0, |upper| key::shared(lower, upper));
    if header::prefix_bytes(page) != shared {
        let found = header::prefix_bytes(page) as u16;
        return Err(FaultReason::Prefix { found, shared: shared as u16 });
    }
    Ok(())
}

type KeyOf = fn(&[u8], &[u8], u16) -> Result<std::ops::Range<usize>, FaultReason>;

/// Checks that every cell lies in the heap and can be decoded, and that its key is in order and
/// between the fences. Also checks that no two cells overlap, and that cells and garbage fill the
/// heap.
fn cells(page: &[u8], key_of: KeyOf) -> Result<(), FaultReason> {
    let (start, end) = (header::heap_start(page), slots::heap_end(page));
    let (lower, upper) = (slots::lower_fence(page), slots::upper_fence(page));
    let count = header::count(page);
    let mut places = Vec::with_capacity(count);
    let mut before: Option<&[u8]> = None;
    for index in 0..count {
        let number = index as u16;
        let (offset, length) = slots::range(page, index);
        if offset < start || offset + length > end {
            return Err(FaultReason::Slot(number));
        }
        let cell = &page[offset..offset + length];
        let key = &cell[key_of(page, cell, number)?];
        if before.is_some_and(|before| before >= key) {
            return Err(FaultReason::Order(number));
        }
        if slots::head(page, index) != slots::head_in(page, key) {
            return Err(FaultReason::Head(number));
        }
        if index == 0 && key < lower {
            return Err(FaultReason::OutsideFences(number));
        }
        places.push((offset as u16, length as u16, number));
        before = Some(key);
    }
    // Keys ascend, so only the last key can reach beyond the upper fence.
    if let (Some(last), Some(upper)) = (before, upper)
        && last >= upper
    {
        return Err(FaultReason::OutsideFences((count - 1) as u16));
    }
    places.sort_unstable();
    let mut free_from = start;
    let mut sum = 0;
    for (offset, length, number) in places {
        if usize::from(offset) < free_from {
            return Err(FaultReason::Overlap(number));
        }
        free_from = usize::from(offset) + usize::from(length);
        sum += usize::from(length);
    }
    if sum + header::garbage(page) != end - start {
        return Err(FaultReason::HeapSum);
    }
    Ok(())
}

fn leaf_key(page: &[u8], cell: &[u8], number: u16) -> Result<std::ops::Range<usize>, FaultReason> {
    let bad = FaultReason::Cell(number);
    if cell.len() < leaf::CELL_HEADER || cell[3] != 0 {
        return Err(bad);
    }
    let key = leaf::CELL_HEADER..leaf::CELL_HEADER + header::u16_at(cell, 0);
    let Some(value) = cell.get(key.end..) else { return Err(bad) };
    if key.len() > key_bytes_max(page.len()) {
        return Err(bad);
    }
    match cell[2] {
        leaf::TAG_INLINE => {}
        leaf::TAG_OVERFLOW if value.len() == leaf::OVERFLOW_BYTES => {
            check_child(page, PageId::new(header::u64_at(value, 0)), number)?;
        }
        _ => return Err(bad),
    }
    Ok(key)
}

fn inner_key(page: &[u8], cell: &[u8], number: u16) -> Result<std::ops::Range<usize>, FaultReason> {
    if cell.len() < inner::CELL_HEADER || cell.len() - inner::CELL_HEADER > key_bytes_max(page.len()) {
        return Err(FaultReason::Cell(number));
    }
    check_child(page, PageId::new(header::u64_at(cell, 0)), number + 1)?;
    Ok(inner::CELL_HEADER..cell.len())
}

/// Checks that a link of a tree leads to another page, and not to one of the file's own.
fn check_child(page: &[u8], child: PageId, number: u16) -> Result<(), FaultReason> {
    if map::is_own_page(child, page.len()) || child == header::page_id(page) {
        return Err(FaultReason::Child(number));
    }
    Ok(())
}
