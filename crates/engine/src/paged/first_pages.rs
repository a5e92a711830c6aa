//! The first pages of a new database file, and what a crash may leave while they are written.
//!
//! Runs on the thread that opens the database, which has the directory's lock. Rules:
//!
//! 1. [`create`] may be repeated after a crash, because it writes over everything.
//! 2. A crash leaves each sector that is being written old, new, or with arbitrary bytes. So a page
//!    without a valid checksum does not prove that a database was in use. A page with a valid
//!    checksum proves that a database was in use, unless `create` writes the same page.

use super::page::{
    FaultReason, FilePage, LeafMut, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PageId, file_page, header, map,
};
use super::space::{RESERVE_PAGES, no_space};
use crate::TableId;
use crate::error::Result;
use katydid_device::{AlignedBuffer, File, Id, WriteMode};
use std::io::IoSlice;

/// Number of pages of a new database file.
const NEW_PAGES: u64 = RESERVE_PAGES * 2;

/// Writes the first pages of a new database file: header, first map, empty catalog, then pages of
/// zeros. The pages are durable when this returns.
pub(crate) fn create(file: &dyn File, database: Id, page_bytes: usize) -> Result<()> {
    file.prepare(0, NEW_PAGES * page_bytes as u64).map_err(no_space)?;
    file.write_at(&[IoSlice::new(&first_pages(database, page_bytes))], 0, WriteMode::Durable)?;
    file.sync()?;
    Ok(())
}

/// Header, first map and empty catalog, sealed.
fn first_pages(database: Id, page_bytes: usize) -> AlignedBuffer {
    let mut pages = AlignedBuffer::new_zeroed(3 * page_bytes);
    let (first, rest) = pages.split_at_mut(page_bytes);
    let (second, third) = rest.split_at_mut(page_bytes);
    file_page::format(first, database);
    map::format(second, PageId::FIRST_MAP);
    LeafMut::format(third, PageId::CATALOG_ROOT, TableId::CATALOG, &[], None);
    for page in [first, second, third] {
        header::seal(page);
    }
    pages
}

/// Returns whether nothing but zeros was ever written to the file.
pub(crate) fn is_blank(file: &dyn File) -> Result<bool> {
    let mut bytes = AlignedBuffer::new_zeroed(64 << 10);
    let mut from = 0;
    loop {
        let read = file.read_at(&mut bytes, from)?;
        if bytes[..read].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        if read < bytes.len() {
            return Ok(true);
        }
        from += read as u64;
    }
}

/// Returns whether the file may be as [`create`] left it, whole or cut short by a crash (rule 2).
pub(crate) fn is_as_created(file: &dyn File) -> Result<bool> {
    let length = file.len()?;
    if length > NEW_PAGES * PAGE_BYTES_MAX as u64 {
        return Ok(false);
    }
    let mut content = AlignedBuffer::new_zeroed(length as usize);
    let read = file.read_at(&mut content, 0)?;
    let sizes = std::iter::successors(Some(PAGE_BYTES_MIN), |size| Some(size * 2));
    Ok(sizes
        .take_while(|size| *size <= PAGE_BYTES_MAX)
        .all(|size| has_first_pages_only(&content[..read], size)))
}

/// Returns whether every valid page of the content is one that [`create`] writes, if pages have
/// this size.
fn has_first_pages_only(content: &[u8], page_bytes: usize) -> bool {
    let database = match content.get(..page_bytes).and_then(file_page::decode) {
        Some(Ok(FilePage { version, .. })) if version > file_page::VERSION => return false,
        Some(Ok(page)) if page.page_bytes as usize == page_bytes => page.database,
        _ => Id::new(0),
    };
    let made = first_pages(database, page_bytes);
    let mut made = made.chunks_exact(page_bytes);
    (0..).map(PageId::new).zip(content.chunks_exact(page_bytes)).all(|(id, found)| {
        let made = made.next();
        match header::check_sealed(found, id, page_bytes) {
            Ok(()) => made == Some(found) && content.len() as u64 <= NEW_PAGES * page_bytes as u64,
            Err(fault) => !matches!(fault.reason, FaultReason::Version(_)),
        }
    })
}

#[cfg(test)]
mod tests;
