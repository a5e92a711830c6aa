//! The catalog: a tree of its own, which maps the name of a table to its number and the root of its
//! tree.
//!
//! The functions are pure. An entry is `table u32`, zero `u32`, `root u64`, little-endian.
//!
//! A bulk load fills a tree of its own beside the table's, and the catalog has an entry for that
//! tree, too. The key of this entry is a byte with which no name begins, a byte that says whether
//! the load is committed, and the number of the table (`u32`, big-endian).

use crate::error::Error;
use crate::ids::TableId;
use crate::paged::page::PageId;
use crate::paged::tree::Tree;

/// The catalog's own tree.
pub(crate) const CATALOG: Tree = Tree::new(TableId::CATALOG, PageId::CATALOG_ROOT);

const ENTRY_BYTES: usize = 16;

/// First byte of a load's key. Names are UTF-8, and no UTF-8 has this byte.
const LOAD: u8 = 0xff;

/// A key of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogKey<'k> {
    /// The name of a table.
    Table(&'k [u8]),
    /// The tree of a bulk load.
    Load {
        /// The table that the load is for.
        table: TableId,
        /// True if the load is committed: the tree's contents are to become the table's.
        is_committed: bool,
    },
    /// A key that begins like the key of a load, but does not have the form of such a key.
    Malformed,
}

/// Returns the meaning of a key of the catalog.
pub(crate) fn key_of(key: &[u8]) -> CatalogKey<'_> {
    match *key {
        [LOAD, is_committed @ 0..=1, a, b, c, d] => CatalogKey::Load {
            table: TableId::new(u32::from_be_bytes([a, b, c, d])),
            is_committed: is_committed == 1,
        },
        [LOAD, ..] => CatalogKey::Malformed,
        _ => CatalogKey::Table(key),
    }
}

/// Returns the key of a bulk load into `table`.
pub(crate) fn load_key(table: TableId, is_committed: bool) -> [u8; 6] {
    let [a, b, c, d] = table.get().to_be_bytes();
    [LOAD, u8::from(is_committed), a, b, c, d]
}

/// Encodes the value of a table in the catalog.
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

/// Returns the error of an entry whose key begins like the key of a bulk load, but does not have
/// the form of such a key.
pub(crate) fn malformed(key: &[u8]) -> Error {
    Error::Corrupt {
        place: format!("the catalog's entry \"{}\"", key.escape_ascii()),
        page: None,
        finding: "its key begins like that of a bulk load, and is none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_loads_are_distinguished_from_names() {
        for (number, is_committed) in [(1, false), (u32::MAX - 1, true)] {
            let table = TableId::new(number);
            let key = load_key(table, is_committed);
            assert_eq!(key_of(&key), CatalogKey::Load { table, is_committed });
            assert!(std::str::from_utf8(&key).is_err(), "a table may be called so");
            assert_eq!(key_of(&key[..5]), CatalogKey::Malformed);
        }
        assert_eq!(key_of("\u{ff}".as_bytes()), CatalogKey::Table("\u{ff}".as_bytes()));
        assert_eq!(key_of(&[0xff, 2, 0, 0, 0, 1]), CatalogKey::Malformed);
    }
}
