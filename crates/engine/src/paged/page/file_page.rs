//! Page 0, which identifies the file: its format version, page size and database. Page 0 is written
//! when the file is made, and never changes.

use super::fault::{FaultReason, PageFault};
use super::header;
use super::id::PageId;
use crate::TableId;
use katydid_device::Id;

/// The file's magic, at byte 48.
pub(crate) const MAGIC: [u8; 8] = *b"KTYDPAGE";
/// The file format that this program writes, and the newest that it reads.
pub(crate) const VERSION: u32 = 1;

const VERSION_AT: usize = header::BYTES + 8;
const PAGE_BYTES_AT: usize = header::BYTES + 12;
const DATABASE_AT: usize = header::BYTES + 16;

/// Contents of page 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilePage {
    /// The file's format version.
    pub(crate) version: u32,
    /// Number of bytes in a page.
    pub(crate) page_bytes: u32,
    /// The database to which the file belongs.
    pub(crate) database: Id,
}

/// Makes these bytes page 0 of a database; the page LSN becomes zero.
pub(crate) fn format(page: &mut [u8], database: Id) {
    page.fill(0);
    header::format(page, PageId::NONE, header::Kind::File, 0, TableId::CATALOG);
    let page_bytes = page.len() as u32;
    page[header::BYTES..VERSION_AT].copy_from_slice(&MAGIC);
    header::set_u32(page, VERSION_AT, VERSION);
    header::set_u32(page, PAGE_BYTES_AT, page_bytes);
    page[DATABASE_AT..DATABASE_AT + 16].copy_from_slice(&database.to_le_bytes());
}

/// Reads page 0 as it came from a device. No input causes a panic. Returns `None` if the page does
/// not have the magic, which has the same offset in all versions and page sizes.
pub(crate) fn decode(page: &[u8]) -> Option<Result<FilePage, PageFault>> {
    if page.get(header::BYTES..VERSION_AT)? != MAGIC {
        return None;
    }
    let fault = |reason| Some(Err(PageFault { page: PageId::NONE, reason }));
    if page.len() < DATABASE_AT + 16 {
        return fault(FaultReason::Short(page.len()));
    }
    let mut database = [0; 16];
    database.copy_from_slice(&page[DATABASE_AT..DATABASE_AT + 16]);
    let found = FilePage {
        version: header::u32_at(page, VERSION_AT),
        page_bytes: header::u32_at(page, PAGE_BYTES_AT),
        database: Id::from_le_bytes(database),
    };
    if found.version > VERSION {
        return Some(Ok(found));
    }
    Some(super::validate::check(page, PageId::NONE, page.len()).map(|()| found))
}
