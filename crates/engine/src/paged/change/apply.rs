//! Making a change in the bytes of a page. First execution and redo both use these functions.
//!
//! The caller holds the page's exclusive latch, and sets the page LSN afterwards. At redo the
//! caller has compared the page's LSN with the record's. A change that does not fit its page is
//! refused, and leaves the page unusable. At first execution the caller has made sure that the
//! change fits; at redo a misfit is corruption.

use super::diff::Diff;
use super::leaf::{LeafChange, LeafOp};
use super::malformed::Malformed;
use super::parts::{MapBits, Part};
use crate::paged::page::overflow;
use crate::paged::page::{
    Full, InnerMut, Kind, LeafMut, MapMut, PageId, Value, header, image, key_bytes_max,
};

const WRONG_PAGE: Malformed = Malformed("a record's change is for a page of another kind");
const WRONG_SLOT: Malformed = Malformed("a record's change names a slot that its page does not have");
const WRONG_KEY: Malformed = Malformed("a record's change names another key than its page has there");
const WRONG_VALUE: Malformed = Malformed("a record's change is of another value than its page has");
const NO_ROOM: Malformed = Malformed("a record's change has no room in its page");
const WRONG_BIT: Malformed = Malformed("a record's change of the map is made already, or beyond the map");
const WRONG_LENGTH: Malformed = Malformed("a record has a key or value of impossible length");

fn no_room(_: Full) -> Malformed {
    NO_ROOM
}

fn expect(page: &[u8], kind: Kind) -> Result<(), Malformed> {
    if header::kind(page) == Some(kind) { Ok(()) } else { Err(WRONG_PAGE) }
}

/// Makes a change of one key in its leaf.
pub(crate) fn apply_leaf(page: &mut [u8], change: &LeafChange<'_>) -> Result<(), Malformed> {
    expect(page, Kind::Leaf)?;
    let key_max = key_bytes_max(page.len());
    let mut leaf = LeafMut::new(page);
    let slot = usize::from(change.slot);
    if let LeafOp::Insert { new } = &change.op {
        if slot > leaf.view().len() {
            return Err(WRONG_SLOT);
        }
        if change.key.len() > key_max {
            return Err(WRONG_LENGTH);
        }
        return leaf.insert_at(slot, change.key, new).map_err(no_room);
    }
    if slot >= leaf.view().len() {
        return Err(WRONG_SLOT);
    }
    if leaf.view().key(slot) != change.key {
        return Err(WRONG_KEY);
    }
    match &change.op {
        LeafOp::Insert { .. } => Ok(()),
        LeafOp::Delete { .. } => {
            leaf.remove(slot);
            Ok(())
        }
        LeafOp::Replace { new, .. } => leaf.replace(slot, new).map_err(no_room),
        LeafOp::Diff(diff) => apply_diff(&mut leaf, slot, diff),
    }
}

fn apply_diff(leaf: &mut LeafMut<'_>, slot: usize, diff: &Diff<'_>) -> Result<(), Malformed> {
    let Value::Inline(value) = leaf.view().value(slot) else { return Err(WRONG_VALUE) };
    if value.len() != usize::from(diff.old_total) {
        return Err(WRONG_VALUE);
    }
    if diff.keeps_length() {
        return if leaf.patch(slot, usize::from(diff.offset), diff.new) { Ok(()) } else { Err(WRONG_VALUE) };
    }
    let made = diff.apply(value).ok_or(WRONG_VALUE)?;
    leaf.replace(slot, &Value::Inline(&made)).map_err(no_room)
}

/// Makes one part of a change of several pages.
pub(crate) fn apply_part(page: &mut [u8], id: PageId, part: &Part<'_>) -> Result<(), Malformed> {
    match *part {
        Part::PageImage(bytes) => {
            image::restore(page, id, bytes).map_err(|_| Malformed("a record has an image that is no page"))
        }
        Part::Overflow { table, next, payload } => {
            if payload.len() > overflow::capacity(page.len()) {
                return Err(WRONG_LENGTH);
            }
            overflow::format(page, id, table, payload, next);
            Ok(())
        }
        Part::InnerInsert { slot, separator, child } => {
            expect(page, Kind::Inner)?;
            let mut inner = InnerMut::new(page);
            if usize::from(slot) > inner.view().len() {
                return Err(WRONG_SLOT);
            }
            inner.insert_at(usize::from(slot), separator, child).map_err(no_room)
        }
        Part::InnerRemove { slot } => {
            expect(page, Kind::Inner)?;
            let mut inner = InnerMut::new(page);
            if usize::from(slot) >= inner.view().len() {
                return Err(WRONG_SLOT);
            }
            inner.remove(usize::from(slot));
            Ok(())
        }
        Part::Truncate { keep, upper } => truncate(page, usize::from(keep), upper),
        Part::Free => {
            header::format_free(page, id);
            Ok(())
        }
        Part::MapSet(bits) => apply_bits(page, bits, |map, bit| map.set(bit)),
        Part::MapClear(bits) => apply_bits(page, bits, |map, bit| map.clear(bit)),
    }
}

fn truncate(page: &mut [u8], keep: usize, upper: &[u8]) -> Result<(), Malformed> {
    if upper.len() > key_bytes_max(page.len()) {
        return Err(WRONG_LENGTH);
    }
    match header::kind(page) {
        Some(Kind::Leaf) => {
            let mut leaf = LeafMut::new(page);
            if keep > leaf.view().len() {
                return Err(WRONG_SLOT);
            }
            leaf.truncate(keep, Some(upper)).map_err(no_room)
        }
        Some(Kind::Inner) => {
            let mut inner = InnerMut::new(page);
            if keep > inner.view().len() {
                return Err(WRONG_SLOT);
            }
            inner.truncate(keep, Some(upper)).map_err(no_room)
        }
        _ => Err(WRONG_PAGE),
    }
}

fn apply_bits(
    page: &mut [u8],
    bits: MapBits<'_>,
    change: fn(&mut MapMut<'_>, usize) -> bool,
) -> Result<(), Malformed> {
    expect(page, Kind::Map)?;
    let mut own = MapMut::new(page);
    for bit in bits.iter() {
        if !change(&mut own, bit) {
            return Err(WRONG_BIT);
        }
    }
    Ok(())
}
