//! Allocation maps: one bit per page of the file, set while the page is in use.
//!
//! A map page has `bits_per_map` bits after its header. Map `k` has the bits of the pages `[k *
//! bits, (k + 1) * bits)` and is itself the first of them. Map 0 is page 1 instead, because page 0
//! identifies the file. So the place of a page's bit can be computed, and no list of map pages is
//! needed.
//!
//! The bits of the file's own pages (0, 1, 2 in map 0; the map itself in the others) are set from
//! the beginning, and stay set.

use super::header;
use super::id::PageId;
use crate::TableId;

/// Number of pages whose bits are in one map.
pub(crate) const fn bits_per_map(page_bytes: usize) -> u64 {
    ((page_bytes - header::BYTES) * 8) as u64
}

/// The map page that has the bit of `page`.
pub(crate) const fn map_of(page: PageId, page_bytes: usize) -> PageId {
    map_page(page.get() / bits_per_map(page_bytes), page_bytes)
}

/// The page of map number `number`.
pub(crate) const fn map_page(number: u64, page_bytes: usize) -> PageId {
    if number == 0 { PageId::FIRST_MAP } else { PageId::new(number.saturating_mul(bits_per_map(page_bytes))) }
}

/// The number of the bit of `page` in its map.
pub(crate) const fn bit_of(page: PageId, page_bytes: usize) -> usize {
    (page.get() % bits_per_map(page_bytes)) as usize
}

/// Returns whether `page` is one of the file's own: header, catalog root or map. The bit of such a
/// page never changes.
pub(crate) const fn is_own_page(page: PageId, page_bytes: usize) -> bool {
    page.get() <= PageId::CATALOG_ROOT.get() || page.get().is_multiple_of(bits_per_map(page_bytes))
}

/// Makes these bytes the map `id`, with only the file's own pages in use. The page LSN becomes
/// zero.
pub(crate) fn format(page: &mut [u8], id: PageId) {
    page.fill(0);
    header::format(page, id, header::Kind::Map, 0, TableId::CATALOG);
    page[header::BYTES] = if id == PageId::FIRST_MAP { 0b111 } else { 0b1 };
}

/// A checked map page that can be read.
#[derive(Clone, Copy)]
pub(crate) struct MapRef<'a>(&'a [u8]);

impl<'a> MapRef<'a> {
    /// The map in these bytes, which passed [`super::check()`] and are of kind `Map`.
    pub(crate) fn new(page: &'a [u8]) -> Self {
        debug_assert_eq!(header::kind(page), Some(header::Kind::Map));
        MapRef(page)
    }

    /// The first page whose bit is in this map.
    pub(crate) fn base(self) -> PageId {
        let id = header::page_id(self.0);
        if id == PageId::FIRST_MAP { PageId::NONE } else { id }
    }

    /// The bytes of the bits: bit `i` is bit `i % 8` of byte `i / 8`.
    pub(crate) fn bits(self) -> &'a [u8] {
        &self.0[header::BYTES..]
    }

    /// Returns whether bit `bit` is set. Bits beyond the map count as clear.
    pub(crate) fn is_set(self, bit: usize) -> bool {
        self.bits().get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0)
    }

    /// All pages in use, ascending.
    pub(crate) fn pages_in_use(self) -> impl Iterator<Item = PageId> + 'a {
        let base = self.base().get();
        self.bits().iter().enumerate().flat_map(move |(at, byte)| {
            let byte = *byte;
            (0..8u64)
                .filter(move |bit| byte >> bit & 1 != 0)
                .map(move |bit| PageId::new(base + at as u64 * 8 + bit))
        })
    }
}

/// A checked map page that can be edited. The caller holds its exclusive latch and logs the change.
pub(crate) struct MapMut<'a>(&'a mut [u8]);

impl<'a> MapMut<'a> {
    /// The map in these bytes, which passed [`super::check()`] and are of kind `Map`.
    pub(crate) fn new(page: &'a mut [u8]) -> Self {
        debug_assert_eq!(header::kind(page), Some(header::Kind::Map));
        MapMut(page)
    }

    /// Marks the page of `bit` as in use. Returns `false`, and changes nothing, if the page is in
    /// use already or the bit is beyond the map.
    #[must_use]
    pub(crate) fn set(&mut self, bit: usize) -> bool {
        let Some(byte) = self.0.get_mut(header::BYTES + bit / 8) else { return false };
        let clear = *byte >> (bit % 8) & 1 == 0;
        *byte |= 1 << (bit % 8);
        clear
    }

    /// Marks the page of `bit` as free. Returns `false`, and changes nothing, if the page is free
    /// already or the bit is beyond the map.
    #[must_use]
    pub(crate) fn clear(&mut self, bit: usize) -> bool {
        let Some(byte) = self.0.get_mut(header::BYTES + bit / 8) else { return false };
        let set = *byte >> (bit % 8) & 1 != 0;
        *byte &= !(1 << (bit % 8));
        set
    }
}
