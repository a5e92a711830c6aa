//! Checking a database: its pages, trees, free-page map and log.

use crate::Lsn;
use crate::control::{Control, Shutdown};
use crate::directory::LOG_FOLDER;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::limits::VERIFY_CACHE_BYTES;
use crate::lock::{TableMode, TxnLocks};
use crate::paged::catalog::CATALOG;
use crate::paged::database::{Catalog, PagedDatabase, read_catalog};
use crate::paged::double_write::{self, DoubleWrite};
use crate::paged::engine::Engine;
use crate::paged::page::PageId;
use crate::paged::pool::{Pool, WalBarrier};
use crate::paged::space::{self, check_file};
use crate::paged::tree::{Reached, Tree, verify_maps};
use crate::report::{VerifyProgress, VerifyReport};
use katydid_device::Directory;
use katydid_wal::{Finding, Reader, inspect};
use std::collections::HashSet;
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
                Ok(report) => return Ok(report),
                Err(error) if error.asks_to_run_again() && left > 0 => left -= 1,
                Err(error) => return Err(error),
            }
            std::thread::yield_now();
        }
    }

    /// Checks the database under locks on all tables. The catalog is frozen only while the check
    /// reads the list of tables, and at the end, while it checks the pages that belong to no table
    /// (`verify_rest`). It is not frozen while trees of tables are checked, because the progress
    /// callback may use the catalog. So other threads can create tables during the check, and the
    /// check includes these tables.
    fn verify_locked(&self, locks: &mut TxnLocks, progress: Option<&VerifyProgress>) -> Result<VerifyReport> {
        let engine = self.engine();
        let mut report = VerifyReport { clean: false, ..VerifyReport::default() };
        let mut check = TreeCheck::begin(&engine.pool, progress);
        let mut locked = HashSet::new();
        loop {
            engine.check_open()?;
            let frozen = self.freeze_catalog()?;
            let catalog = self.catalog()?;
            check.set_pages(engine.space.stat().pages);
            let left = catalog.tables.iter().filter(|(_, tree)| !check.tables.contains(&tree.table));
            let left: Vec<_> = left.collect();
            if left.is_empty() {
                check.verify_rest(&catalog, &mut report)?;
                break;
            }
            let all_locked = left.iter().all(|(_, tree)| locked.contains(&tree.table));
            for (name, tree) in left.iter().filter(|(_, tree)| !locked.contains(&tree.table)) {
                // The catalog is frozen, so no rename runs meanwhile, and `name` is the table's
                // present name.
                engine.locks.space(tree.table).set_name(name);
            }
            drop(frozen);
            // A table that was dropped before its lock was acquired is not in the catalog of the
            // next round, so it is not checked.
            for (name, tree) in left {
                if all_locked {
                    check.verify_table(name, tree, &mut report)?;
                } else if locked.insert(tree.table) {
                    engine.granted(|| engine.locks.acquire_table(locks, tree.table, TableMode::Exclusive))?;
                }
            }
        }
        check.report_end();
        engine.verify_log(&mut report)?;
        engine.check_open()?;
        Ok(report)
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
        Err(error) => report.note(Err(error))?,
    }
    let file = match directory.open_read_only(space::FILE_NAME) {
        Err(error) if error.is_not_found() => {
            report.fault(space::FILE_NAME, "the file is missing; the database cannot be read without it");
            return Ok(report);
        }
        file => file?,
    };
    let checked = check_file(file.as_ref(), &place, control.database, page_bytes);
    let is_foreign = matches!(checked, Err(Error::Foreign { .. }));
    report.note(checked)?;
    let pages = file.len()? / page_bytes as u64;
    if !report.clean || is_foreign {
        // The links between pages cannot be checked before recovery, nor in a file that is not this
        // database's or has a newer version.
        return Ok(report);
    }
    // The pool gets a double-write area of its own, in memory. The area stays empty, because
    // nothing is written.
    let nowhere = katydid_device::MemoryDirectory::new();
    let double_write =
        DoubleWrite::open(&nowhere, katydid_device::Method::Buffered, control.database, page_bytes)?;
    let pool = Pool::new(file, double_write, page_bytes, VERIFY_CACHE_BYTES, Arc::new(NoLog));
    match read_catalog(&pool) {
        Ok(catalog) => {
            let mut check = TreeCheck::begin(&pool, progress.as_ref());
            check.set_pages(pages);
            for (name, tree) in &catalog.tables {
                check.verify_table(name, tree, &mut report)?;
            }
            check.verify_rest(&catalog, &mut report)?;
            check.report_end();
        }
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

/// A check of all pages.
struct TreeCheck<'a> {
    pool: &'a Pool,
    progress: Option<&'a VerifyProgress>,
    reached: Reached,
    /// Number of pages in the file.
    pages: u64,
    /// The tables whose trees were checked.
    tables: HashSet<TableId>,
}

impl<'a> TreeCheck<'a> {
    fn begin(pool: &'a Pool, progress: Option<&'a VerifyProgress>) -> Self {
        TreeCheck { pool, progress, reached: Reached::default(), pages: 0, tables: HashSet::new() }
    }

    /// Sets the number of pages, which never falls.
    fn set_pages(&mut self, pages: u64) {
        self.pages = pages;
        self.reached.extend_to(pages);
    }

    fn report_progress(&self, done: u64) {
        if let Some(progress) = self.progress {
            progress(done, self.pages);
        }
    }

    /// Reports the end of the check to the caller.
    fn report_end(&self) {
        self.report_progress(self.pages);
    }

    /// Checks the tree of a table, which no thread changes meanwhile.
    fn verify_table(&mut self, name: &str, tree: &Tree, report: &mut VerifyReport) -> Result<()> {
        self.report_progress(report.pages);
        let faults = report.faults.len();
        tree.verify(self.pool, &mut self.reached, report)?;
        report.tables += 1;
        for fault in &mut report.faults[faults..] {
            fault.place = format!("table {name:?}, {}", fault.place);
        }
        self.tables.insert(tree.table);
        Ok(())
    }

    /// Checks the pages that belong to no table: the first page, and those of the catalog, of
    /// interrupted loads, and of the maps. Runs after the trees of all tables were checked, while
    /// no thread changes the catalog.
    fn verify_rest(&mut self, catalog: &Catalog, report: &mut VerifyReport) -> Result<()> {
        for page in [PageId::new(0), PageId::FIRST_MAP] {
            let noted = self.reached.note(page);
            report.note(noted)?;
        }
        report.pages += 1;
        // An interrupted load leaves a tree until the next opening. The keys of this tree and of
        // the catalog do not count, because they are not the keys of a table.
        let before = report.keys;
        for tree in [CATALOG].into_iter().chain(catalog.loads.iter().map(|load| load.tree)) {
            tree.verify(self.pool, &mut self.reached, report)?;
        }
        report.keys = before;
        verify_maps(self.pool, &self.reached, report)
    }
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
                // A checkpoint trimmed the log while this thread read it, so the count begins anew.
                Err(_) if self.log.start() > start => report.log_records = 0,
                outcome => return outcome,
            }
        }
    }
}
