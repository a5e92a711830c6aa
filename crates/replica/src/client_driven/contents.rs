//! Rows and checksums of a replica's tables, for comparing replicas.
//!
//! The connection's thread runs this code. Each call reads one view, in which every transaction is
//! complete or absent. The table of answers is left out.

use super::answers::TABLE;
use super::message::{Row, TableContents};
use katydid::{Database, Error, Table};
use std::ops::Bound;

/// Bytes of rows after which a page ends.
const PAGE_BYTES: usize = 1 << 20;

/// Returns the contents of all tables that have rows, in the order of their names.
pub(super) fn contents(database: &Database) -> Result<Vec<TableContents>, Error> {
    let view = database.begin_read_only()?;
    let mut names = database.tables()?;
    names.sort();
    let mut all = Vec::new();
    for name in names.into_iter().filter(|name| name != TABLE) {
        let Some(table) = database.open_table(&name)? else { continue };
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
        let (mut rows, mut range) = (0, view.range(&table, ..));
        while let Some((key, value)) = range.next_ref()? {
            for part in [key, value] {
                digest.update(&(part.len() as u64).to_le_bytes());
                digest.update(part);
            }
            rows += 1;
        }
        if rows > 0 {
            all.push(TableContents { table: name, rows, checksum: digest.finalize() });
        }
    }
    Ok(all)
}

/// Returns a page: at most `limit` rows of a table after one key and before another. A page may be
/// shorter, but is empty only if there are no such rows.
pub(super) fn rows(
    database: &Database,
    table: &Table,
    after: Option<&[u8]>,
    before: Option<&[u8]>,
    limit: u32,
) -> Result<Vec<Row>, Error> {
    let view = database.begin_read_only()?;
    let bounds =
        (after.map_or(Bound::Unbounded, Bound::Excluded), before.map_or(Bound::Unbounded, Bound::Excluded));
    let (mut page, mut bytes) = (Vec::new(), 0);
    let mut range = view.range(table, bounds).limit(limit as usize);
    while let Some((key, value)) = range.next_ref()? {
        bytes += key.len() + value.len();
        page.push((key.to_vec(), value.to_vec()));
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}
