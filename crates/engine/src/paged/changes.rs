//! The file of an increment: the pages that may differ from those of its base.
//!
//! `katydid.changes` has a head of 4,096 bytes, then pages as they are in the database file, in the
//! order of their numbers. The head: `KTYDCHNG`, version u32, checksum u32 (CRC-32C of the head
//! without these four bytes), id of the increment u128, id of its base u128, page bytes u32, zero
//! u32, pages of the database file u64, pages that follow u64, zeros. Numbers are little-endian.
//! Rules:
//!
//! 1. A page whose LSN is below the start of the base's log is identical in the base. The reason:
//!    if a change was not in place when the base was copied, its record lies at or above that
//!    start. Either the record was appended after the checkpoint from which the base recovers, or
//!    that checkpoint lists the page with a recovery LSN at or above the start.
//! 2. Growth of the file makes empty maps and pages of zeros without a log record. The base may
//!    have other contents in such a page, if a compaction shortened the file before it grew. So an
//!    increment has all maps. The other pages that growth makes are free, and their contents have
//!    no meaning.
//! 3. The head is written last. A file is refused if its head is missing or of another increment,
//!    or if it has fewer pages than the head says. A page without a valid checksum is refused.

use crate::Lsn;
use crate::copy::{Pace, Unopened};
use crate::error::{Error, Foreign, Result};
use crate::paged::page::{Kind, PageId, header};
use crate::paged::space;
use katydid_device::{AlignedBuffer, File, Id, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

/// Name of the file.
pub(crate) const FILE_NAME: &str = "katydid.changes";

const MAGIC: [u8; 8] = *b"KTYDCHNG";
const VERSION: u32 = 1;
const HEAD: usize = 4096;
/// Bytes of pages that are read with one call.
const CHUNK: usize = 1 << 20;

/// Writes the changed pages of an increment to its file.
pub(crate) struct Changes {
    from: Lsn,
    /// Number of pages written.
    pub(crate) count: u64,
}

impl Changes {
    /// Returns a writer for the maps, and for the pages with an LSN of `from` or above.
    pub(crate) fn new(from: Lsn) -> Self {
        Changes { from, count: 0 }
    }

    /// Moves the changed pages to the front of `pages`, and writes them.
    pub(crate) fn write(&mut self, pages: &mut [u8], page_bytes: usize, file: &dyn File) -> Result<()> {
        let mut used = 0;
        for at in (0..pages.len()).step_by(page_bytes) {
            let page = &pages[at..at + page_bytes];
            // Page 0 and pages that were never written have no LSN, so they do not count as
            // changed.
            let is_changed = header::page_lsn(page) >= self.from || header::kind(page) == Some(Kind::Map);
            if is_changed && !header::page_id(page).is_none() {
                pages.copy_within(at..at + page_bytes, used);
                used += page_bytes;
            }
        }
        self.append(&pages[..used], page_bytes, file)
    }

    /// Writes the maps that the file got when it grew from `from` to `to` pages.
    pub(crate) fn write_new_maps(
        &mut self,
        (from, to): (u64, u64),
        page_bytes: usize,
        file: &dyn File,
    ) -> Result<()> {
        space::maps_between(from, to, page_bytes)
            .try_for_each(|id| self.append(&space::empty_map(id, page_bytes), page_bytes, file))
    }

    fn append(&mut self, pages: &[u8], page_bytes: usize, file: &dyn File) -> Result<()> {
        if !pages.is_empty() {
            let at = HEAD as u64 + self.count * page_bytes as u64;
            file.write_at(&[IoSlice::new(pages)], at, WriteMode::Written)?;
            self.count += (pages.len() / page_bytes) as u64;
        }
        Ok(())
    }
}

/// The head of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: Id,
    pub(crate) base: Id,
    pub(crate) page_bytes: usize,
    /// Number of pages of the database file.
    pub(crate) pages: u64,
    /// Number of pages in this file.
    pub(crate) changed: u64,
}

impl Head {
    fn encode(&self) -> AlignedBuffer {
        let mut head = AlignedBuffer::new_zeroed(HEAD);
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        head[16..32].copy_from_slice(&self.id.to_le_bytes());
        head[32..48].copy_from_slice(&self.base.to_le_bytes());
        head[48..52].copy_from_slice(&(self.page_bytes as u32).to_le_bytes());
        head[56..64].copy_from_slice(&self.pages.to_le_bytes());
        head[64..72].copy_from_slice(&self.changed.to_le_bytes());
        let sum = checksum(&head);
        head[12..16].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Decodes a head. No input causes a panic. The error is the head's version if the head is
    /// sound and this program cannot read that version, and `None` if the head is damaged.
    fn decode(head: &[u8]) -> std::result::Result<Head, Option<u32>> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|nth| head[at + nth]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|nth| head[at + nth]));
        let id = |at: usize| Id::from_le_bytes(std::array::from_fn(|nth| head[at + nth]));
        if head.len() != HEAD || head[..8] != MAGIC || word(12) != checksum(head) {
            return Err(None);
        }
        if word(8) != VERSION {
            return Err(Some(word(8)));
        }
        let (page_bytes, pages, changed) = (word(48) as usize, long(56), long(64));
        Ok(Head { id: id(16), base: id(32), page_bytes, pages, changed })
    }

    /// Writes the head. The head is durable when this returns, but the file's name may not be.
    pub(crate) fn write(&self, file: &dyn File) -> Result<()> {
        Ok(file.write_at(&[IoSlice::new(&self.encode())], 0, WriteMode::Durable)?)
    }
}

fn checksum(head: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&head[..12]);
    digest.update(&head[16..]);
    digest.finalize() as u32
}

fn corrupt(finding: String) -> Error {
    Error::Corrupt { place: FILE_NAME.to_owned(), page: None, finding }
}

/// Opens the file of an increment to a database with pages of `page_bytes` bytes.
pub(crate) fn open(increment: &Unopened, page_bytes: usize) -> Result<(Head, Arc<dyn File>)> {
    let file = increment.directory.open_read_only(FILE_NAME)?;
    let mut block = AlignedBuffer::new_zeroed(HEAD);
    let read = file.read_at(&mut block, 0)?;
    let place = || increment.directory.describe();
    let head = Head::decode(&block[..read]).map_err(|version| match version {
        Some(found) => Error::Foreign {
            place: place(),
            what: Foreign::NewerVersion { file: FILE_NAME.to_owned(), found, known: VERSION },
        },
        None => corrupt("its head is damaged".to_owned()),
    })?;
    if head.id != increment.manifest.id
        || Some(head.base) != increment.manifest.base
        || head.page_bytes != page_bytes
    {
        return Err(Error::Foreign { place: place(), what: Foreign::Identity(FILE_NAME.to_owned()) });
    }
    Ok((head, file))
}

/// Writes the pages of an increment to their places in `copy`, except pages numbered `pages` or
/// higher.
pub(crate) fn apply(
    head: &Head,
    file: &dyn File,
    copy: &dyn File,
    pages: u64,
    pace: &mut Pace<'_>,
) -> Result<()> {
    let page_bytes = head.page_bytes;
    let at_once = (CHUNK / page_bytes) as u64;
    let mut buffer = AlignedBuffer::new_zeroed(CHUNK);
    let mut done = 0;
    while done < head.changed {
        let count = (head.changed - done).min(at_once);
        let chunk = &mut buffer[..count as usize * page_bytes];
        let read = file.read_at(chunk, HEAD as u64 + done * page_bytes as u64)?;
        if read < chunk.len() {
            return Err(corrupt(format!("it is cut off: its head says that it has {} pages", head.changed)));
        }
        for page in chunk.chunks_exact(page_bytes) {
            let id = header::page_id(page);
            header::check_sealed(page, id, page_bytes)
                .map_err(|fault| corrupt(format!("page {id}: {}", fault.reason)))?;
            if id.get() < pages && !id.is_none() {
                let Some(offset) = PageId::offset(id, page_bytes) else { continue };
                copy.write_at(&[IoSlice::new(page)], offset, WriteMode::Written)?;
            }
        }
        done += count;
        pace.step(count * page_bytes as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_back_and_damage_noticed() {
        let head =
            Head { id: Id::new(1 << 100), base: Id::new(9), page_bytes: 8192, pages: 1 << 40, changed: 77 };
        let block = head.encode();
        assert_eq!(Head::decode(&block), Ok(head));
        for at in (0..80).chain([4095]) {
            let mut damaged = block.to_vec();
            damaged[at] ^= 2;
            assert_eq!(Head::decode(&damaged), Err(None), "byte {at}");
        }
    }
}
