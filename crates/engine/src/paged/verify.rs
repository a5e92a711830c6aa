//! Checking a database: its pages, trees, free-page map and log.

use crate::Lsn;
use crate::control::{Control, Shutdown};
use crate::directory::LOG_FOLDER;
use crate::error::{Error, Result};
use crate::limits::VERIFY_CACHE_BYTES;
use crate::lock::{TableMode, TxnLocks};
use crate::paged::catalog::CATALOG;
use crate::paged::database::{Catalog, PagedDatabase, read_catalog};
use crate::paged::double_write::{self, DoubleWrite};
use crate::paged::engine::Engine;
use crate::paged::page::PageId;
use crate::paged::pool::{Pool, WalBarrier};
use crate::paged::space::{self, check_file};
use crate::paged::tree::{Reached, verify_maps};
use crate::report::{VerifyProgress, VerifyReport};
use katydid_device::Directory;
use katydid_wal::{Finding, Reader, inspect};
use std::sync::Arc;

impl PagedDatabase {
    /// See [`crate::Database::verify`].
    pub(super) fn verify_open(&self, progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        let engine = self.engine();
        let mut left = engine.options.advanced.retries;
        loop {
            engine.check_open()?;
            let mut held = Held { engine, locks: TxnLocks::new(engine.active.next_txn()) };
            let outcome = self.verify_locked(&mut held.locks, progress.as_ref());
            drop(held);
            match outcome {
                Ok(Some(report)) => return Ok(report),
                Ok(None) => {}
                Err(error) if error.asks_to_run_again() && left > 0 => left -= 1,
                Err(error) => return Err(error),
            }
            std::thread::yield_now();
        }
    }

    /// Checks the database under locks on all tables. Returns `None` if a table was created before
    /// all locks were held.
    fn verify_locked(
        &self,
        locks: &mut TxnLocks,
        progress: Option<&VerifyProgress>,
    ) -> Result<Option<VerifyReport>> {
        let engine = self.engine();
        let tables = {
            let _catalog = self.freeze_catalog()?;
            self.catalog()?
        };
        for (name, tree) in &tables.tables {
            engine.locks.space(tree.table).set_name(name);
            engine.granted(|| engine.locks.acquire_table(locks, tree.table, TableMode::Exclusive))?;
        }
        let _catalog = self.freeze_catalog()?;
        if self.catalog()? != tables {
            return Ok(None);
        }
        let mut report = VerifyReport { clean: false, ..VerifyReport::default() };
        let pages = engine.space.stat().pages;
        verify_trees(&engine.pool, pages, &tables, progress, &mut report)?;
        engine.verify_log(&mut report)?;
        engine.check_open()?;
        Ok(Some(report))
    }
}

/// The locks of a check. They are released when the check ends, even if the caller's progress
/// callback panics.
struct Held<'a> {
    engine: &'a Engine,
    locks: TxnLocks,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.engine.locks.release_all(&mut self.locks, None);
    }
}

/// See [`crate::Database::verify_in`].
pub(crate) fn verify_in(
    directory: &dyn Directory,
    control: &Control,
    progress: Option<VerifyProgress>,
) -> Result<VerifyReport> {
    let place = directory.describe();
    let mut report = VerifyReport { clean: control.shutdown == Shutdown::Clean, ..VerifyReport::default() };
    verify_log_in(directory, &mut report)?;
    let page_bytes = control.page_bytes as usize;
    match double_write::examine(directory, control.database, page_bytes) {
        Ok(needed) if report.is_sound() && report.log_end < needed => {
            report.fault(LOG_FOLDER, double_write::log_too_short(report.log_end, needed));
        }
        Ok(_) => {}
        Err(error @ Error::Foreign { .. }) => report.fault(double_write::FILE_NAME, error.to_string()),
        Err(error) => return Err(error),
    }
    let file = directory.open_read_only(space::FILE_NAME)?;
    let checked = check_file(file.as_ref(), &place, control.database, page_bytes);
    report.note(checked)?;
    let pages = file.len()? / page_bytes as u64;
    if !report.clean {
        // Before recovery, the links between pages cannot be checked.
        return Ok(report);
    }
    // The pool gets a double-write area of its own, in memory. The area stays empty, because
    // nothing is written.
    let nowhere = katydid_device::MemoryDirectory::new();
    let double_write =
        DoubleWrite::open(&nowhere, katydid_device::Method::Buffered, control.database, page_bytes)?;
    let pool = Pool::new(file, double_write, page_bytes, VERIFY_CACHE_BYTES, Arc::new(NoLog));
    match read_catalog(&pool) {
        Ok(tables) => verify_trees(&pool, pages, &tables, progress.as_ref(), &mut report)?,
        Err(error) => report.note(Err(error))?,
    }
    Ok(report)
}

/// A barrier without a log, because checking a database that is not open writes nothing.
#[derive(Debug)]
struct NoLog;

impl WalBarrier for NoLog {
    fn make_durable(&self, _: Lsn) -> Result<()> {
        Err(Error::Internal("a check writes nothing"))
    }

    fn reserved(&self) -> Lsn {
        Lsn::ZERO
    }

    fn poison(&self, what: &'static str) -> Error {
        Error::Internal(what)
    }
}

fn verify_trees(
    pool: &Pool,
    pages: u64,
    catalog: &Catalog,
    progress: Option<&VerifyProgress>,
    report: &mut VerifyReport,
) -> Result<()> {
    let tell = |done| {
        if let Some(progress) = progress {
            progress(done, pages);
        }
    };
    let mut reached = Reached::new(pages);
    for page in [PageId::new(0), PageId::FIRST_MAP] {
        let noted = reached.note(page);
        report.note(noted)?;
    }
    report.pages += 1;
    let before = report.keys;
    CATALOG.verify(pool, &mut reached, report)?;
    report.keys = before;
    for (name, tree) in &catalog.tables {
        tell(report.pages);
        let faults = report.faults.len();
        tree.verify(pool, &mut reached, report)?;
        report.tables += 1;
        for fault in &mut report.faults[faults..] {
            fault.place = format!("table {name:?}, {}", fault.place);
        }
    }
    // An interrupted load leaves a tree until the next opening. Its keys do not count, because they
    // are not the table's.
    for load in &catalog.loads {
        let before = report.keys;
        load.tree.verify(pool, &mut reached, report)?;
        report.keys = before;
    }
    verify_maps(pool, &reached, report)?;
    tell(pages);
    Ok(())
}

fn walk_log(mut reader: Reader, report: &mut VerifyReport) -> Result<()> {
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                report.log_records += 1;
                report.log_end = record.end;
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                let noted = Err(error.into());
                return report.note(noted);
            }
        }
    }
}

fn verify_log_in(directory: &dyn Directory, report: &mut VerifyReport) -> Result<()> {
    let Some(folder) = directory.existing_subdirectory(LOG_FOLDER)? else {
        report.fault(LOG_FOLDER, "the log is missing");
        return Ok(());
    };
    let found = match inspect(folder.as_ref()) {
        Ok(found) => found,
        Err(katydid_wal::OpenError::Device(error)) if !error.is_not_found() => return Err(error.into()),
        Err(error) => {
            report.fault(LOG_FOLDER, error.to_string());
            return Ok(());
        }
    };
    let Some(inspection) = found.first() else {
        report.fault(LOG_FOLDER, "the log is missing");
        return Ok(());
    };
    report.log_start = inspection.start;
    match &inspection.finding {
        Ok(Finding::TornTail { at, dropped }) => report.notes.push(format!(
            "the log ends with a torn tail at {at} ({dropped} records behind it); none of it was acknowledged"
        )),
        Ok(_) => {}
        Err(error) => report.fault(LOG_FOLDER, error.to_string()),
    }
    walk_log(inspection.records()?, report)?;
    report.log_end = inspection.end;
    Ok(())
}

impl Engine {
    /// Reads the whole log.
    fn verify_log(&self, report: &mut VerifyReport) -> Result<()> {
        // Closing waits for this visit.
        let _visit = self.opening.visit()?;
        loop {
            let start = self.log.start();
            report.log_start = start;
            let outcome = self.log.reader(start).map_err(Error::from);
            match outcome.and_then(|reader| walk_log(reader, report)) {
                // A checkpoint trimmed the log meanwhile.
                Err(_) if self.log.start() > start => report.log_records = 0,
                outcome => return outcome,
            }
        }
    }
}
