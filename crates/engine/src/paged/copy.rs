//! Copying a paged database: its pages while other threads change them, then the log that makes
//! them one consistent state.
//!
//! Runs on the thread that copies, while all other threads run. The copying thread takes four
//! steps; during step (2) a second thread reads pages ahead:
//!
//! - (1) while no checkpoint can run, pin the log at its start and read the control file;
//! - (2) copy pages from the file, in the order of their numbers;
//! - (3) make the log durable up to its end, which is the end of the copy;
//! - (4) copy the log from the pin to that end.
//!
//! The copy is a state that a crash at (3) might have left. So recovery of the copy yields exactly
//! the transactions whose commit records end at or below that end (`docs/recovery.md`, "Copies").
//! These rules ensure it:
//!
//! 1. A page is copied whole (its checksum is right), as it was in place at some moment after (1).
//!    If the copied page lacks a change, either the pinned checkpoint lists the page as dirty, or
//!    the change came later; redo adds the change in both cases. A page that was read in the middle
//!    of a write is read again, at last from the pool.
//! 2. No page has a change whose record lies above the end. Pages in place have only durable
//!    changes (`pool`, invariant 3), and (3) comes after the last page was read. A page from the
//!    pool has no such change either, because (3) covers all that was appended.
//! 3. The file of the copy is as long as the source's at (3), so it has all pages that a record of
//!    the copied log changes. The pages by which the source has grown since (2) are zeros and empty
//!    maps in the copy. That suffices, because all records of these pages are in the copied log.
//! 4. A page of zeros was never written, or is lost; copying does not find out which. A damaged
//!    page that is free becomes a page of zeros.

use crate::CommitStamp;
use crate::checkpoint_schedule::TakesCheckpoints;
use crate::control::{Control, Shutdown};
use crate::copy::{CHUNK, Chunk, Copied, Extension, Pace, ReadChunks, Target, Unopened, copy_chunks};
use crate::directory::LOG_FOLDER;
use crate::error::{CopyFault, Error, Result};
use crate::paged::changes::{self, Changes, Head};
use crate::paged::engine::Engine;
use crate::paged::page::{FaultReason, PageFault, PageId, file_page, header};
use crate::paged::space;
use crate::pause::{self, PausePoint};
use katydid_device::{AlignedBuffer, File, Id, WriteMode};
use katydid_wal::{Background, CopyTarget, copy_unopened};
use std::io::IoSlice;
use std::thread;

/// Number of times that a page is read again before the pool is asked for it.
const READ_AGAIN: usize = 8;

/// Source of copied pages.
trait Pages: Sync {
    fn file(&self) -> &dyn File;
    /// Gets a page that was not whole when it was read from the file. `buffer` holds one page.
    fn again(&self, fault: PageFault, buffer: &mut [u8]) -> Result<()>;
}

impl Engine {
    /// See [`crate::engine::Engine::copy`].
    pub(crate) fn copy(&self, target: &Target, pace: &mut Pace<'_>) -> Result<Copied> {
        if self.log.is_bounded() {
            let fault = CopyFault::LogInNvram { log: self.log.kind() };
            return Err(Error::Copy { place: self.place.clone(), fault });
        }
        let (pin, control) = {
            let _visit = self.opening.visit()?;
            let _turn = self.schedule().turn.lock();
            (self.whole_log.pin_all(self.options.advanced.log_hard_bytes), self.control.get())
        };
        let start = pin.from()[0];
        let page_bytes = self.pool.page_bytes();
        let (pages, seen) = (self.space.stat().pages, self.log.reserved());
        pace.expect(pages * page_bytes as u64 + seen.since(start));
        let copy = match target.base {
            Some(base) if base.changed_from > seen => {
                let fault = CopyFault::OtherDatabase { database: control.database };
                return Err(Error::Copy { place: self.place.clone(), fault });
            }
            Some(_) => target.create(changes::FILE_NAME)?,
            None => target.create(space::FILE_NAME)?,
        };
        let mut changes = target.base.map(|base| Changes::new(base.changed_from));
        let reader = Reader { source: &OpenPages(self), id: target.id, page_bytes, pages, next: 0 };
        let writer = Writer { copy: copy.as_ref(), page_bytes, changes: changes.as_mut(), pace };
        copy_pages(reader, writer, self.options.advanced.log.background)?;
        pause::at(PausePoint::PagesCopied);
        let end = {
            let _visit = self.opening.visit()?;
            self.log.sync()?
        };
        if self.gate.is_shut() {
            return Err(self.poison_error());
        }
        // The control file is read after the end of the copy is known. A table's number is taken
        // before any record names it, so `next_table` is above all table numbers in the copied log.
        let next_table = self.control.get().next_table;
        let grown = self.space.stat().pages;
        match (target.base, changes) {
            (Some(base), Some(mut changes)) => {
                changes.write_new_maps((pages, grown), page_bytes, copy.as_ref())?;
                let head =
                    Head { id: target.id, base: base.id, page_bytes, pages: grown, changed: changes.count };
                head.write(copy.as_ref())?;
            }
            _ => space::extend_copy(copy.as_ref(), page_bytes, pages, grown)?,
        }
        copy.sync()?;
        let folder = target.directory.subdirectory(LOG_FOLDER)?;
        let log = CopyTarget { directory: folder.as_ref(), id: target.id, method: target.method };
        let copied = self.whole_log.copy(&[start], &[end], log, &mut |bytes| pace.step(bytes));
        // The pin is checked first: if the pin is lost, the log may have been trimmed while this
        // thread read it. A read error then does not show that the log is damaged.
        target.check_pin(&pin)?;
        copied?;
        let control = Control { database: target.id, shutdown: Shutdown::Unclean, next_table, ..control };
        let incarnations = self.log.recovery().incarnation.into();
        Ok(Copied { control, stamp: CommitStamp::of_commit_at(end), incarnations, log_start: start })
    }
}

/// Copies a database from a copy of all pages and the increments to that copy. None of these was
/// opened since it was made. See [`crate::engine::EngineFiles::copy_unopened`].
pub(crate) fn copy_files(
    sources: &[Unopened],
    control: &Control,
    target: &Target,
    pace: &mut Pace<'_>,
    extension: Option<&Extension>,
) -> Result<()> {
    let missing = |source: &Unopened, name: &str| Error::Corrupt {
        place: source.directory.describe(),
        page: None,
        finding: format!("{name} is missing"),
    };
    let [whole, increments @ ..] = sources else { return Err(Error::Internal("a copy of nothing")) };
    let page_bytes = control.page_bytes as usize;
    let pages = whole.directory.open_read_only(space::FILE_NAME)?;
    space::check_file(pages.as_ref(), &whole.directory.describe(), whole.manifest.id, page_bytes)?;
    space::check_length(pages.as_ref(), page_bytes)?;
    let increments = increments
        .iter()
        .map(|increment| changes::open(increment, page_bytes))
        .collect::<Result<Vec<_>>>()?;
    let had = pages.len()? / page_bytes as u64;
    let count = increments.last().map_or(had, |(head, _)| head.pages);
    pace.expect(count * page_bytes as u64);
    let copy = target.create(space::FILE_NAME)?;
    let source = InFile(pages.as_ref());
    let reader = Reader { source: &source, id: target.id, page_bytes, pages: had.min(count), next: 0 };
    let writer = Writer { copy: copy.as_ref(), page_bytes, changes: None, pace };
    copy_pages(reader, writer, Background::Threads)?;
    space::extend_copy(copy.as_ref(), page_bytes, had, count)?;
    for (head, file) in &increments {
        pace.expect(head.changed * page_bytes as u64);
        changes::apply(head, file.as_ref(), copy.as_ref(), count, pace)?;
    }
    if let Some(Extension { pages, .. }) = extension {
        space::extend_copy(copy.as_ref(), page_bytes, count, *pages)?;
    }
    copy.sync()?;
    let last = sources.last().unwrap_or(whole);
    let log = last.directory.existing_subdirectory(LOG_FOLDER)?.ok_or_else(|| missing(last, LOG_FOLDER))?;
    let folder = target.directory.subdirectory(LOG_FOLDER)?;
    let to = CopyTarget { directory: folder.as_ref(), id: target.id, method: target.method };
    match extension {
        Some(Extension { log, cuts, .. }) => log.copy(cuts, to, &mut |bytes| pace.step(bytes)),
        None => copy_unopened(&log, to, &mut |bytes| pace.step(bytes)),
    }
}

/// The pages of an open database.
struct OpenPages<'a>(&'a Engine);

impl Pages for OpenPages<'_> {
    fn file(&self) -> &dyn File {
        self.0.pool.file().as_ref()
    }

    fn again(&self, PageFault { page, .. }: PageFault, buffer: &mut [u8]) -> Result<()> {
        let OpenPages(engine) = self;
        let page_bytes = engine.pool.page_bytes();
        for _ in 0..READ_AGAIN {
            let offset = page.offset(page_bytes).unwrap_or(u64::MAX);
            let read = self.file().read_at(buffer, offset)?;
            match header::check_sealed(&buffer[..read], page, page_bytes) {
                Ok(()) => return Ok(()),
                Err(PageFault { reason: FaultReason::Zero, .. }) => return Ok(()),
                Err(_) => thread::yield_now(),
            }
        }
        match engine.pool.read(page) {
            Ok(image) => {
                buffer.copy_from_slice(&image);
                drop(image);
                header::seal(buffer);
                Ok(())
            }
            // The damaged page is free (rule 4). A transaction that takes the page later makes it
            // anew, by a record of the copied log.
            Err(Error::Corrupt { .. }) if !engine.space.is_taken(page) => {
                buffer.fill(0);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// The pages of a database that is not open.
struct InFile<'a>(&'a dyn File);

impl Pages for InFile<'_> {
    fn file(&self) -> &dyn File {
        self.0
    }

    fn again(&self, fault: PageFault, _: &mut [u8]) -> Result<()> {
        Err(fault.into())
    }
}

/// The reading side of [`copy_pages`].
#[derive(Clone, Copy)]
struct Reader<'a> {
    source: &'a dyn Pages,
    /// Id of the copy, for page 0.
    id: Id,
    page_bytes: usize,
    /// Number of pages to read.
    pages: u64,
    /// The next page to read.
    next: u64,
}

impl ReadChunks for Reader<'_> {
    /// Reads the next pages. Page 0 is made anew for the copy's id.
    fn read(&mut self, mut buffer: AlignedBuffer) -> Result<Option<Chunk>> {
        if self.next == self.pages {
            return Ok(None);
        }
        let first = self.next;
        let count = (self.pages - first).min((CHUNK / self.page_bytes) as u64);
        let bytes = count as usize * self.page_bytes;
        let Some(offset) = PageId::new(first).offset(self.page_bytes) else {
            return Err(Error::Internal("a page beyond the addressable file was copied"));
        };
        let chunk = &mut buffer[..bytes];
        let read = self.source.file().read_at(chunk, offset)?;
        chunk[read..].fill(0);
        for (page, bytes) in (first..).map(PageId::new).zip(chunk.chunks_exact_mut(self.page_bytes)) {
            if page.is_none() {
                file_page::format(bytes, self.id);
                header::seal(bytes);
                continue;
            }
            match header::check_sealed(bytes, page, self.page_bytes) {
                Ok(()) | Err(PageFault { reason: FaultReason::Zero, .. }) => {}
                Err(fault) => self.source.again(fault, bytes)?,
            }
        }
        self.next += count;
        Ok(Some(Chunk { buffer, bytes, offset }))
    }
}

/// The writing side of [`copy_pages`].
struct Writer<'a, 'p> {
    copy: &'a dyn File,
    page_bytes: usize,
    changes: Option<&'a mut Changes>,
    pace: &'a mut Pace<'p>,
}

impl Writer<'_, '_> {
    /// Writes the pages of a chunk, or the changed ones among them.
    fn write(&mut self, chunk: &mut Chunk) -> Result<()> {
        let pages = &mut chunk.buffer[..chunk.bytes];
        match &mut self.changes {
            Some(changes) => changes.write(pages, self.page_bytes, self.copy)?,
            None => self.copy.write_at(&[IoSlice::new(pages)], chunk.offset, WriteMode::Written)?,
        }
        self.pace.step(chunk.bytes as u64)
    }
}

/// Copies the first `Reader::pages` pages. With `Writer::changes`, copies only the changed ones
/// among them. Page 0 is made anew for the copy's id, and does not count as changed.
fn copy_pages(reader: Reader<'_>, mut writer: Writer<'_, '_>, background: Background) -> Result<()> {
    copy_chunks(reader, |chunk| writer.write(chunk), background)
}

#[cfg(test)]
mod tests;
