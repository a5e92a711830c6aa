//! Layout of leaf and inner pages: a sorted slot array growing up, a heap of cells growing down,
//! and the two fences at the very end.
//!
//! ```text
//! | header 48 | slot 0 | slot 1 | ... |   free   | cells, garbage between | upper fence | lower fence |
//!             ^ 48                    ^          ^ heap start             ^ heap end                  ^ page_bytes
//! ```
//!
//! A slot is `offset u16, length u16, head u32`. `head` is the first four bytes of the cell's key
//! after the page's common prefix, big-endian; `search` compares heads before it reads a cell (see
//! `key`). `leaf` and `inner` define the contents of cells.
//!
//! Invariants, for a page that passed `check`:
//!
//! 1. `48 + 8 * count <= heap start <= heap end`, cells lie in `[heap start, heap end)` and do not
//!    overlap.
//! 2. `garbage` is the number of heap bytes that belong to no cell, so `free space = heap start -
//!    end of slots + garbage`.
//! 3. An edit first checks whether the page has room. Without room, the edit fails with `Full` and
//!    has changed nothing.

use super::header;
use super::key;
use std::cmp::Ordering;

/// The page has no room for the edit, and nothing was changed. The caller splits the page, or moves
/// the value to overflow pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the page has no room")]
pub(crate) struct Full;

/// Bytes of a slot.
pub(crate) const SLOT: usize = 8;

#[inline]
fn slot_at(index: usize) -> usize {
    header::BYTES + index * SLOT
}

/// End of the heap, where the fences begin.
#[inline]
pub(super) fn heap_end(page: &[u8]) -> usize {
    page.len() - header::lower_bytes(page) - header::upper_bytes(page)
}

/// The lower fence, inclusive; empty means no bound.
pub(super) fn lower_fence(page: &[u8]) -> &[u8] {
    &page[page.len() - header::lower_bytes(page)..]
}

/// The upper fence, exclusive.
pub(super) fn upper_fence(page: &[u8]) -> Option<&[u8]> {
    if header::flags(page) & header::UNBOUNDED != 0 {
        return None;
    }
    let end = page.len() - header::lower_bytes(page);
    Some(&page[end - header::upper_bytes(page)..end])
}

/// Writes the fences and the empty heap of a slotted page, whose header is there already.
pub(super) fn set_fences(page: &mut [u8], lower: &[u8], upper: Option<&[u8]>) {
    let prefix = upper.map_or(0, |upper| key::shared(lower, upper));
    header::set_fence_bytes(page, lower.len(), upper.map(<[u8]>::len), prefix);
    let end = page.len();
    page[end - lower.len()..].copy_from_slice(lower);
    if let Some(upper) = upper {
        let end = end - lower.len();
        page[end - upper.len()..end].copy_from_slice(upper);
    }
    let heap = heap_end(page);
    header::set_heap_start(page, heap);
    header::set_garbage(page, 0);
    header::set_count(page, 0);
}

/// Offset and length of cell `index`.
#[inline]
pub(super) fn range(page: &[u8], index: usize) -> (usize, usize) {
    let at = slot_at(index);
    (header::u16_at(page, at), header::u16_at(page, at + 2))
}

#[inline]
pub(super) fn head(page: &[u8], index: usize) -> u32 {
    header::u32_at(page, slot_at(index) + 4)
}

/// The bytes of cell `index`.
#[inline]
pub(super) fn cell(page: &[u8], index: usize) -> &[u8] {
    let (offset, length) = range(page, index);
    &page[offset..offset + length]
}

/// The bytes of cell `index`.
pub(super) fn cell_mut(page: &mut [u8], index: usize) -> &mut [u8] {
    let (offset, length) = range(page, index);
    &mut page[offset..offset + length]
}

/// The head that `key` has in this page.
pub(super) fn head_in(page: &[u8], key: &[u8]) -> u32 {
    key::head(key.get(header::prefix_bytes(page)..).unwrap_or(&[]))
}

/// Index of `key`, or the index at which it belongs. `key_of` returns the key in a cell.
#[inline]
pub(super) fn search(page: &[u8], key: &[u8], key_of: impl Fn(&[u8]) -> &[u8]) -> Result<usize, usize> {
    let count = header::count(page);
    let prefix = header::prefix_bytes(page);
    if prefix > 0 {
        let front = &key[..key.len().min(prefix)];
        match front.cmp(&lower_fence(page)[..prefix]) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(count),
            Ordering::Equal => {}
        }
    }
    let rest = &key[prefix..];
    let wanted = key::head(rest);
    let slots = &page[header::BYTES..header::BYTES + count * SLOT];
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = header::u32_at(slots, middle * SLOT + 4);
        let order = found
            .cmp(&wanted)
            .then_with(|| key_of(cell(page, middle)).get(prefix..).unwrap_or(&[]).cmp(rest));
        match order {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok(middle),
        }
    }
    Err(low)
}

/// Bytes between the slots and the heap.
#[inline]
pub(super) fn contiguous(page: &[u8]) -> usize {
    header::heap_start(page) - slot_at(header::count(page))
}

/// Bytes that cells and slots may still take, after compaction.
#[inline]
pub(super) fn free_space(page: &[u8]) -> usize {
    contiguous(page) + header::garbage(page)
}

/// Bytes that slots and cells take.
pub(super) fn used_bytes(page: &[u8]) -> usize {
    heap_end(page) - header::BYTES - free_space(page)
}

/// Moves all cells to the end of the heap, in slot order.
pub(super) fn compact(page: &mut [u8]) {
    let (start, end) = (header::heap_start(page), heap_end(page));
    let old = page[start..end].to_vec();
    let mut at = end;
    for index in 0..header::count(page) {
        let (offset, length) = range(page, index);
        at -= length;
        page[at..at + length].copy_from_slice(&old[offset - start..offset - start + length]);
        header::set_u16(page, slot_at(index), at);
    }
    header::set_heap_start(page, at);
    header::set_garbage(page, 0);
}

/// Extends the heap downwards by `length` bytes of the free area, which has room for them. Returns
/// the new heap start.
fn allocate(page: &mut [u8], length: usize) -> usize {
    let at = header::heap_start(page) - length;
    header::set_heap_start(page, at);
    at
}

/// Gives back the bytes of a cell that no slot points to any more.
fn release(page: &mut [u8], offset: usize, length: usize) {
    if offset == header::heap_start(page) {
        header::set_heap_start(page, offset + length);
    } else {
        let garbage = header::garbage(page) + length;
        header::set_garbage(page, garbage);
    }
    if header::count(page) == 0 {
        let end = heap_end(page);
        header::set_heap_start(page, end);
        header::set_garbage(page, 0);
    }
}

/// Inserts a slot at `index` with a cell of `length` bytes. Returns the cell, which the caller
/// fills.
pub(super) fn insert(page: &mut [u8], index: usize, length: usize, head: u32) -> Result<&mut [u8], Full> {
    let count = header::count(page);
    assert!(index <= count, "slot {index} of {count}");
    if length + SLOT > contiguous(page) {
        if length + SLOT > free_space(page) {
            return Err(Full);
        }
        compact(page);
    }
    let at = allocate(page, length);
    page.copy_within(slot_at(index)..slot_at(count), slot_at(index + 1));
    header::set_count(page, count + 1);
    set_slot(page, index, at, length, head);
    Ok(&mut page[at..at + length])
}

fn set_slot(page: &mut [u8], index: usize, offset: usize, length: usize, head: u32) {
    let at = slot_at(index);
    header::set_u16(page, at, offset);
    header::set_u16(page, at + 2, length);
    header::set_u32(page, at + 4, head);
}

/// Removes slot `index` and its cell.
pub(super) fn remove(page: &mut [u8], index: usize) {
    let count = header::count(page);
    assert!(index < count, "slot {index} of {count}");
    let (offset, length) = range(page, index);
    page.copy_within(slot_at(index + 1)..slot_at(count), slot_at(index));
    header::set_count(page, count - 1);
    release(page, offset, length);
}

/// Gives cell `index` another length and keeps its first `keep` bytes. Returns the cell. A cell
/// that does not grow stays in place.
pub(super) fn resize(page: &mut [u8], index: usize, length: usize, keep: usize) -> Result<&mut [u8], Full> {
    let (offset, old) = range(page, index);
    debug_assert!(keep <= old.min(length));
    let head = head(page, index);
    if length <= old {
        set_slot(page, index, offset, length, head);
        let garbage = header::garbage(page) + old - length;
        header::set_garbage(page, garbage);
        return Ok(&mut page[offset..offset + length]);
    }
    if length > contiguous(page) {
        if length > free_space(page) + old {
            return Err(Full);
        }
        // The old cell's room is needed, too: drop the cell, compact, and write the kept bytes
        // back.
        let kept = page[offset..offset + keep].to_vec();
        set_slot(page, index, offset, 0, head);
        compact(page);
        let at = allocate(page, length);
        set_slot(page, index, at, length, head);
        page[at..at + keep].copy_from_slice(&kept);
        return Ok(&mut page[at..at + length]);
    }
    let at = allocate(page, length);
    page.copy_within(offset..offset + keep, at);
    set_slot(page, index, at, length, head);
    let garbage = header::garbage(page) + old;
    header::set_garbage(page, garbage);
    Ok(&mut page[at..at + length])
}

/// Returns the slot at which to split the page into halves of about equal bytes: the first slot of
/// the upper half. At least one slot stays on either side. Needs two slots.
pub(super) fn split_point(page: &[u8]) -> usize {
    let count = header::count(page);
    let half = used_bytes(page) / 2;
    let mut sum = 0;
    for index in 0..count {
        sum += range(page, index).1 + SLOT;
        if sum >= half {
            return (index + 1).clamp(1, count.saturating_sub(1).max(1));
        }
    }
    count / 2
}
