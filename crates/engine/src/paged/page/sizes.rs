//! Maximum lengths of keys and values in a page of some size.
//!
//! The functions are pure; any thread may call them.

use super::{header, leaf, slots};

/// Maximum bytes of a key in pages of `page_bytes`: an eighth of a page, and at most 1,024 bytes.
/// With this limit an inner page that has the longest fences holds four of the longest separators,
/// and a split always leaves two proper halves.
pub(crate) const fn key_bytes_max(page_bytes: usize) -> usize {
    let eighth = page_bytes / 8;
    if eighth < 1024 { eighth } else { 1024 }
}

/// Maximum bytes of a leaf cell: four such cells fit a page with the longest fences. A value that
/// would make its cell longer goes to overflow pages.
pub(crate) const fn leaf_cell_bytes_max(page_bytes: usize) -> usize {
    (page_bytes - header::BYTES - 2 * key_bytes_max(page_bytes)) / 4 - slots::SLOT
}

/// Returns whether a value is stored in its leaf. If not, it goes to overflow pages.
pub(crate) const fn fits_inline(page_bytes: usize, key_bytes: usize, value_bytes: usize) -> bool {
    leaf::CELL_HEADER + key_bytes + value_bytes <= leaf_cell_bytes_max(page_bytes)
}
