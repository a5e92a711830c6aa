//! Copying a paged database: its pages while other threads change them, then the log that makes
//! them one consistent state.
//!
//! Runs on the thread that copies, while all other threads run too. The thread takes four steps:
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
//!    Every change that the copied page lacks is listed in the pinned checkpoint or came later, and
//!    redo adds the change. A page that was read in the middle of a write is read again, at last
//!    from the pool.
//! 2. No page has a change whose record lies above the end. Pages in place have only durable
//!    changes (`pool`, rule 3), and (3) comes after the last page was read. The rule holds for a
//!    page from the pool, too, because (3) covers all that was appended.
//! 3. The file of the copy is as long as the source's at (3), so it has all pages that a record of
//!    the copied log changes. The pages by which the source has grown since (2) are zeros and empty
//!    maps in the copy, because all their records are in the copied log.
//! 4. A page of zeros was never written, or is lost; copying does not find out which. A damaged
//!    page that is free becomes a page of zeros.

use crate::CommitStamp;
use crate::checkpoint_schedule::TakesCheckpoints;
use crate::control::{Control, Shutdown};
use crate::copy::{Copied, Extension, Pace, Target, Unopened};
use crate::directory::LOG_FOLDER;
use crate::error::{CopyFault, Error, Result};
use crate::paged::changes::{self, Changes, Head};
use crate::paged::engine::Engine;
use crate::paged::page::{FaultReason, PageFault, PageId, file_page, header};
use crate::paged::space;
use crate::pause::{self, PausePoint};
use katydid_device::{AlignedBuffer, File, WriteMode};
use katydid_wal::{CopyTarget, copy_unopened};
use std::io::IoSlice;

/// Bytes of pages that are read and written with one call.
const CHUNK: usize = 1 << 20;

/// Number of times that a page is read again before the pool is asked for it.
const READ_AGAIN: usize = 8;

/// Source of copied pages.
trait Pages {
    fn file(&self) -> &dyn File;
    /// Gets a page again that was not whole when it was read from the file. `buffer` holds one
    /// page.
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
        copy_pages(&OpenPages(self), copy.as_ref(), target, page_bytes, pages, changes.as_mut(), pace)?;
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
            (Some(base), Some(changes)) => {
                let head =
                    Head { id: target.id, base: base.id, page_bytes, pages: grown, changed: changes.count };
                head.write(copy.as_ref())?;
            }
            _ => space::extend_copy(copy.as_ref(), page_bytes, pages, grown)?,
        }
        copy.sync()?;
        let folder = target.directory.subdirectory(LOG_FOLDER)?;
        let log = CopyTarget { directory: folder.as_ref(), id: target.id, method: target.method };
        self.whole_log.copy(&[start], &[end], log, &mut |bytes| pace.step(bytes))?;
        target.check_pin(&pin)?;
        let control = Control { database: target.id, shutdown: Shutdown::Unclean, next_table, ..control };
        let incarnations = self.log.recovery().incarnation.into();
        Ok(Copied { control, stamp: CommitStamp::of_commit_at(end), incarnations, log_start: start })
    }
}

/// Copies a database from a whole copy and the increments to it, none of which was opened since it
/// was made. See [`crate::engine::EngineFiles::copy_unopened`].
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
    let increments = increments
        .iter()
        .map(|increment| changes::open(increment, page_bytes))
        .collect::<Result<Vec<_>>>()?;
    let had = pages.len()? / page_bytes as u64;
    let count = increments.last().map_or(had, |(head, _)| head.pages);
    pace.expect(count * page_bytes as u64);
    let copy = target.create(space::FILE_NAME)?;
    let from = InFile(pages.as_ref());
    copy_pages(&from, copy.as_ref(), target, page_bytes, had.min(count), None, pace)?;
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
                Err(_) => std::thread::yield_now(),
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

/// Copies the first `pages` pages, or, with `changes`, the changed ones among them. Page 0 is made
/// anew for the copy's id, and does not count as changed.
fn copy_pages(
    source: &dyn Pages,
    copy: &dyn File,
    target: &Target,
    page_bytes: usize,
    pages: u64,
    mut changes: Option<&mut Changes>,
    pace: &mut Pace<'_>,
) -> Result<()> {
    let mut buffer = AlignedBuffer::new_zeroed(CHUNK);
    let at_once = (CHUNK / page_bytes) as u64;
    let mut first = 0;
    while first < pages {
        let bytes = (pages - first).min(at_once) as usize * page_bytes;
        let Some(offset) = PageId::new(first).offset(page_bytes) else {
            return Err(Error::Internal("a page beyond the addressable file was copied"));
        };
        let chunk = &mut buffer[..bytes];
        let read = source.file().read_at(chunk, offset)?;
        chunk[read..].fill(0);
        for (page, bytes) in (first..).map(PageId::new).zip(chunk.chunks_exact_mut(page_bytes)) {
            if page.is_none() {
                file_page::format(bytes, target.id);
                header::seal(bytes);
                continue;
            }
            match header::check_sealed(bytes, page, page_bytes) {
                Ok(()) | Err(PageFault { reason: FaultReason::Zero, .. }) => {}
                Err(fault) => source.again(fault, bytes)?,
            }
        }
        match &mut changes {
            Some(changes) => changes.write(chunk, page_bytes, copy)?,
            None => copy.write_at(&[IoSlice::new(chunk)], offset, WriteMode::Written)?,
        }
        first += at_once;
        pace.step(bytes as u64)?;
    }
    Ok(())
}
