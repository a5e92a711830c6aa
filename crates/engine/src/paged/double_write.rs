//! The double-write area, from which an opening restores pages whose writes a crash tore.
//!
//! A page is larger than what a device writes atomically, and redo needs a page that was whole at
//! some time. So pages are written back in batches, in three steps:
//!
//! - (1) write the whole batch, with a header block in front, to the file `doublewrite`, durably;
//! - (2) write each page in place;
//! - (3) sync the database file.
//!
//! The pool's flusher takes these steps for one batch at a time, under the flusher mutex. The
//! opening thread runs `restore` before any thread reads a page.
//!
//! Invariants:
//!
//! 1. The first in-place write of a batch begins after the durable write of that batch to the area
//!    has returned.
//! 2. After a batch, the area is written again only when the sync of the database file has
//!    returned.
//! 3. Every page of the database file, except the file's header and new maps (`space`), is written
//!    this way. So if the area has a valid copy of a page, no newer version of that page was
//!    written in place, not even in part.
//! 4. A valid header names a position up to which the log was durable before the header was
//!    written. That position is at or above the end of every record whose change is in a page that
//!    the same opening has written back. So a log that ends below that position is damaged. The
//!    log's own recovery cannot detect this, because damage to the last records of a log that was
//!    not closed looks like a torn write.
//!
//! The result of a crash depends on the step in which it strikes:
//!
//! - In (1): the database file is whole (invariant 2), and the area may be torn. A torn header has
//!   a wrong checksum, and the area then has no copies. If the header is whole and some of the
//!   copies are not, a copy counts only if its own checksum is right and equals the checksum in the
//!   header. `restore` has nothing to do.
//! - Between (1) and (2): the area is whole, and the database file is whole and old. `restore` has
//!   nothing to do, and redo repeats the changes.
//! - In (2), or before (3) has returned: the area is whole (invariant 1), and each page of the
//!   batch is old, new or torn in the database file. `restore` puts torn pages back from the area.
//! - After (3): the area is whole or is being replaced, and the database file is whole and new.
//!   `restore` has nothing to do.
//!
//! `restore` changes no page whose bytes in place are valid, old or new. Redo repeats the changes
//! that an old page lacks: the page counts as dirty until (3) has returned, so a checkpoint lists
//! its recovery LSN. `restore` can be interrupted and repeated, because it replaces only invalid
//! pages.

use super::page::{PageId, check, header};
use crate::Lsn;
use crate::error::{Error, Foreign, Result};
use katydid_device::{AlignedBuffer, Create, Directory, File, Id, Method, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

/// Name of the file.
pub(crate) const FILE_NAME: &str = "doublewrite";

const MAGIC: [u8; 8] = *b"KTYDDBLW";
const VERSION: u32 = 1;
/// Bytes of the header block: magic, version u32, checksum u32 (of the block without these four
/// bytes), database id u128, page bytes u32, count u32, then per page: id u64, checksum u32. The
/// block's last eight bytes are the position up to which the pages need the log, u64.
const BLOCK: usize = 4096;
const LOG_NEEDED: usize = BLOCK - 8;
const ENTRIES: usize = 40;
const ENTRY: usize = 12;
/// Maximum number of pages in a batch.
pub(crate) const PAGES_MAX: usize = 128;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Number of pages that one batch holds.
pub(crate) const fn batch_pages(page_bytes: usize) -> usize {
    let pages = BATCH_BYTES_MAX / page_bytes;
    if pages > PAGES_MAX { PAGES_MAX } else { pages }
}

/// Sealed pages on their way to the device.
#[derive(Debug)]
pub(crate) struct Batch {
    buffer: AlignedBuffer,
    pages: Vec<PageId>,
    page_bytes: usize,
    /// Largest end of a record whose change is in a page of this batch or of an earlier batch.
    log_needed: Lsn,
}

impl Batch {
    /// An empty batch for `pages` pages.
    pub(crate) fn new(page_bytes: usize, pages: usize) -> Self {
        let pages = pages.clamp(1, batch_pages(page_bytes));
        Batch {
            buffer: AlignedBuffer::new_zeroed(BLOCK + pages * page_bytes),
            pages: Vec::with_capacity(pages),
            page_bytes,
            log_needed: Lsn::ZERO,
        }
    }

    /// Returns whether no further page fits.
    pub(crate) fn is_full(&self) -> bool {
        BLOCK + (self.pages.len() + 1) * self.page_bytes > self.buffer.len()
    }

    /// Returns whether the batch has no page.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Number of pages in the batch.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Notes that the pages contain changes whose records end at `end` or below. The log is durable
    /// up to `end` before the batch is written.
    pub(crate) fn needs_log(&mut self, end: Lsn) {
        self.log_needed = self.log_needed.max(end);
    }

    /// Removes the pages from the batch.
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
    }

    /// Adds a copy of a page. The caller knows that the batch is not full.
    pub(crate) fn push(&mut self, page: &[u8]) {
        let from = BLOCK + self.pages.len() * self.page_bytes;
        let copy = &mut self.buffer[from..from + self.page_bytes];
        copy.copy_from_slice(page);
        self.pages.push(header::page_id(copy));
    }

    /// Writes the checksums of the copies, after all are collected, with no page latch held.
    fn seal(&mut self) {
        for page in self.buffer[BLOCK..].chunks_exact_mut(self.page_bytes).take(self.pages.len()) {
            header::seal(page);
        }
    }

    fn bytes(&self, from: usize, to: usize) -> &[u8] {
        &self.buffer[BLOCK + from * self.page_bytes..BLOCK + to * self.page_bytes]
    }

    fn fill_header(&mut self, database: Id) {
        let sums: Vec<u32> =
            (0..self.pages.len()).map(|index| header::checksum(self.bytes(index, index + 1))).collect();
        let block = &mut self.buffer[..BLOCK];
        block.fill(0);
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&database.to_le_bytes());
        block[32..36].copy_from_slice(&(self.page_bytes as u32).to_le_bytes());
        block[36..40].copy_from_slice(&(self.pages.len() as u32).to_le_bytes());
        for (index, (page, sum)) in self.pages.iter().zip(sums).enumerate() {
            let at = ENTRIES + index * ENTRY;
            block[at..at + 8].copy_from_slice(&page.get().to_le_bytes());
            block[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
        }
        block[LOG_NEEDED..].copy_from_slice(&self.log_needed.get().to_le_bytes());
        let sum = block_checksum(block);
        block[12..16].copy_from_slice(&sum.to_le_bytes());
    }
}

fn block_checksum(block: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&block[..12]);
    digest.update(&block[16..]);
    digest.finalize() as u32
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Contents of a header block of the area. No input causes a panic in decoding.
#[derive(Debug, PartialEq, Eq)]
enum Header {
    /// The header was never written, or an interrupted write left arbitrary bytes in it. If a write
    /// of the header was interrupted, no in-place write of the header's batch has begun.
    Nothing,
    /// A valid header of a newer version.
    Newer(u32),
    /// A valid header of another database or page size.
    OtherDatabase,
    /// Pages and checksums of the copies that follow, and the position up to which all pages
    /// written so far need the log.
    Pages(Vec<(PageId, u32)>, Lsn),
}

fn decode(block: &[u8], database: Id, page_bytes: usize) -> Header {
    if block.len() < BLOCK {
        return Header::Nothing;
    }
    let block = &block[..BLOCK];
    // An interrupted write may leave garbage, even in place of the magic.
    if block[..8] != MAGIC || word(block, 12) != block_checksum(block) {
        return Header::Nothing;
    }
    if word(block, 8) > VERSION {
        return Header::Newer(word(block, 8));
    }
    let owner = Id::from_le_bytes(std::array::from_fn(|nth| block[16 + nth]));
    if owner != database || word(block, 32) as usize != page_bytes {
        return Header::OtherDatabase;
    }
    let count = (word(block, 36) as usize).min(batch_pages(page_bytes));
    let entry =
        |index| (PageId::new(long(block, ENTRIES + index * ENTRY)), word(block, ENTRIES + index * ENTRY + 8));
    Header::Pages((0..count).map(entry).collect(), Lsn::new(long(block, LOG_NEEDED)))
}

/// Returns the pages and checksums of the copies in the area, and the position up to which pages in
/// place need the log. Without a valid header, returns no pages and position zero.
fn read_header(
    file: &dyn File,
    place: &str,
    database: Id,
    page_bytes: usize,
) -> Result<(Vec<(PageId, u32)>, Lsn)> {
    let mut block = AlignedBuffer::new_zeroed(BLOCK);
    let read = file.read_at(&mut block, 0)?;
    let name = || FILE_NAME.to_owned();
    let what = match decode(&block[..read], database, page_bytes) {
        Header::Nothing => return Ok((Vec::new(), Lsn::ZERO)),
        Header::Pages(entries, log_needed) => return Ok((entries, log_needed)),
        Header::OtherDatabase => Foreign::Identity(name()),
        Header::Newer(found) => Foreign::NewerVersion { file: name(), found, known: VERSION },
    };
    Err(Error::Foreign { place: place.to_owned(), what })
}

/// Returns the position up to which pages in place need the log. An opening would read this
/// position from the area. Changes nothing.
///
/// # Errors
/// The errors with which an opening would refuse the area, and failures of the device.
pub(crate) fn examine(directory: &dyn Directory, database: Id, page_bytes: usize) -> Result<Lsn> {
    match directory.open_read_only(FILE_NAME) {
        Ok(file) => Ok(read_header(file.as_ref(), &directory.describe(), database, page_bytes)?.1),
        // The next opening creates the area.
        Err(error) if error.is_not_found() => Ok(Lsn::ZERO),
        Err(error) => Err(error.into()),
    }
}

/// Reason why a log that ends at `end` is refused.
pub(crate) fn log_too_short(end: Lsn, needed: Lsn) -> String {
    format!("it ends at {end}, and pages were written that need it up to {needed}")
}

/// The area's file.
#[derive(Debug)]
pub(crate) struct DoubleWrite {
    file: Arc<dyn File>,
    database: Id,
    page_bytes: usize,
    /// Name of the directory, for errors.
    place: String,
}

impl DoubleWrite {
    /// Opens the area. If the file is missing or too short, makes it, allocates its blocks, and
    /// syncs the directory, so that a later batch cannot meet a full device. If the area of an
    /// existing database is missing, there is nothing to restore.
    pub(crate) fn open(
        directory: &dyn Directory,
        method: Method,
        database: Id,
        page_bytes: usize,
    ) -> Result<Self> {
        let file = directory.open(FILE_NAME, Create::IfMissing, method)?;
        let (length, wanted) = (file.len()?, (BLOCK + batch_pages(page_bytes) * page_bytes) as u64);
        if length < wanted {
            file.prepare(length, wanted).map_err(|error| match error.is_no_space_ahead() {
                true => Error::NoSpace { what: "the double-write area".to_owned() },
                false => error.into(),
            })?;
            directory.sync()?;
        }
        Ok(DoubleWrite { file, database, page_bytes, place: directory.describe() })
    }

    /// Puts back the pages of `pages_file` that a crash tore. Returns the number of pages put back.
    /// Does not panic, whatever the area holds.
    pub(crate) fn restore(&self, pages_file: &dyn File) -> Result<usize> {
        self.file.sync()?;
        self.file.drop_cache()?;
        let (entries, _) = read_header(self.file.as_ref(), &self.place, self.database, self.page_bytes)?;
        let mut copy = AlignedBuffer::new_zeroed(self.page_bytes);
        let mut place = AlignedBuffer::new_zeroed(self.page_bytes);
        let mut restored = 0;
        for (index, (page, sum)) in entries.into_iter().enumerate() {
            let Some(offset) = page.offset(self.page_bytes) else { continue };
            let read = self.file.read_at(&mut copy, (BLOCK + index * self.page_bytes) as u64)?;
            if check(&copy[..read], page, self.page_bytes).is_err() || header::checksum(&copy) != sum {
                continue;
            }
            let read = pages_file.read_at(&mut place, offset)?;
            if check(&place[..read], page, self.page_bytes).is_err() {
                pages_file.write_at(&[IoSlice::new(&copy)], offset, WriteMode::Written)?;
                restored += 1;
            }
        }
        if restored > 0 {
            pages_file.sync()?;
        }
        Ok(restored)
    }

    /// Returns the position up to which the pages in place need the log, or zero if the area does
    /// not say. A log that ends below this position has lost durable records.
    pub(crate) fn log_needed(&self) -> Result<Lsn> {
        Ok(read_header(self.file.as_ref(), &self.place, self.database, self.page_bytes)?.1)
    }

    /// Writes a batch to the area, then in place, and syncs. The pages must be sorted by id,
    /// without duplicates. When this returns, the pages are durable in place.
    pub(crate) fn write(&self, batch: &mut Batch, pages_file: &dyn File) -> Result<()> {
        debug_assert!(batch.pages.is_sorted());
        batch.seal();
        batch.fill_header(self.database);
        let end = BLOCK + batch.len() * self.page_bytes;
        self.file.write_at(&[IoSlice::new(&batch.buffer[..end])], 0, WriteMode::Durable)?;
        let mut from = 0;
        while from < batch.len() {
            let first = batch.pages[from];
            let run = batch.pages[from..]
                .iter()
                .zip(first.get()..)
                .take_while(|(page, id)| page.get() == *id)
                .count();
            let Some(offset) = first.offset(self.page_bytes) else {
                return Err(Error::Internal("a page beyond the addressable file was written"));
            };
            pages_file.write_at(
                &[IoSlice::new(batch.bytes(from, from + run))],
                offset,
                WriteMode::Written,
            )?;
            from += run;
        }
        pages_file.sync()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
