//! The catalog: a tree of its own, from a table's name to its number and the root of its tree.
//!
//! Pure, but for the names of things. An entry is `table u32`, zero `u32`, `root u64`,
//! little-endian.

use crate::error::Error;
use crate::ids::TableId;
use crate::paged::page::PageId;
use crate::paged::tree::Tree;

/// The catalog's own tree.
pub(crate) const CATALOG: Tree = Tree::new(TableId::CATALOG, PageId::CATALOG_ROOT);

const ENTRY_BYTES: usize = 16;

/// The value of a table in the catalog.
pub(crate) fn encode(tree: Tree) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..4].copy_from_slice(&tree.table.get().to_le_bytes());
    entry[8..].copy_from_slice(&tree.root.get().to_le_bytes());
    entry
}

/// Decodes the value of the table called `name`.
pub(crate) fn decode(name: &[u8], entry: &[u8]) -> Result<Tree, Error> {
    let entry: &[u8; ENTRY_BYTES] = entry.try_into().map_err(|_| Error::Corrupt {
        place: format!("the catalog's entry of table \"{}\"", name.escape_ascii()),
        page: None,
        finding: format!("it has {} bytes, not {ENTRY_BYTES}", entry.len()),
    })?;
    let (table, root) = entry.split_at(8);
    let table = u32::from_le_bytes([table[0], table[1], table[2], table[3]]);
    let root = root.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    Ok(Tree::new(TableId::new(table), PageId::new(root)))
}
