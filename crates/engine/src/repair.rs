//! Repairing a database that does not open, or whose pages are damaged.
//!
//! The thread of the caller does all work, with the directory's lock. The engine reads the damaged
//! files (`paged::salvage`). [`crate::quarantine`] says where the damaged files are kept and what a
//! crash leaves.
//!
//! Rules:
//!
//! 1. Nothing is changed before a salvage has shown that the damaged files can be read.
//! 2. The directory opens as a database again only when the new database is whole, closed and
//!    verified.

use crate::control::{self, Shutdown};
use crate::database::Database;
use crate::directory::{LOG_FOLDER, existing};
use crate::engine_options::PagedOptions;
use crate::error::{Error, RepairFault, Result};
use crate::ids::EngineKind;
use crate::memory;
use crate::open;
use crate::options::{Options, TransactionOptions};
use crate::quarantine;
use crate::report::{Fault, VerifyReport};
use crate::salvage::{Loss, Salvage, SalvagedRows};
use crate::table::Table;
use crate::transaction::Transaction;
use crate::verify;
use katydid_device::Directory;
use katydid_wal::Durability;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of rows in one transaction of the new database. [`BATCH_BYTES`] limits their
/// bytes.
const BATCH_ROWS: u64 = 10_000;
const BATCH_BYTES: usize = 4 << 20;

/// Mode of [`Database::repair`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepairMode {
    /// Reports what a repair would do, and changes nothing.
    #[default]
    DryRun,
    /// Moves the damaged files to quarantine, and makes a database from the undamaged parts.
    Apply,
}

/// Outcome of a call of [`Database::repair`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairOutcome {
    /// Nothing was done: the database is sound.
    Sound,
    /// Nothing was done, because this was a dry run: the database needs repair.
    Needed,
    /// The database was repaired.
    Repaired,
}

/// The report of [`Database::repair`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RepairReport {
    /// Outcome of the call.
    pub outcome: RepairOutcome,
    /// The faults that were found, as [`Database::verify_path`] finds them. Empty if the call
    /// continued an interrupted repair.
    pub faults: Vec<Fault>,
    /// The tables of the repaired database, with the number of rows in each.
    pub kept: Vec<(String, u64)>,
    /// The losses. Every committed row that is missing or has an older value is
    /// [concerned](Loss::concerns) by a loss. The only exception is damage that no check can
    /// detect: a device that returns an older version of a page.
    pub losses: Vec<Loss>,
    /// Remarks about how the rows were found.
    pub notes: Vec<String>,
    /// The folder in the database's directory that holds the damaged files; after a dry run, the
    /// folder that would hold them.
    pub quarantine: Option<String>,
}

impl Database {
    /// Repairs a database of the paged engine that does not open, or in which
    /// [`Database::verify_path`] finds damage. With [`RepairMode::DryRun`] the call changes
    /// nothing, and reports what a repair would do.
    ///
    /// A repair removes no data: it moves the damaged files to the folder `katydid.damaged-N` in
    /// the database's directory, and makes a new database from all undamaged pages. The repair
    /// replays the log on these pages as far as the log can be read, and undoes transactions that
    /// had not committed. [`RepairReport::losses`] lists the missing parts. The new database has an
    /// id of its own, its stamps begin anew, and it has no named consumers: positions in the feed
    /// of the damaged database are not valid in the new one.
    ///
    /// A repair needs room for a copy of the files and for the new database, and memory for the
    /// keys at the borders of all pages. If it is interrupted, the database does not open
    /// (`Error::Repair`) until the repair is called again with [`RepairMode::Apply`]. A repair can
    /// be interrupted any number of times.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// use katydid::{Database, RepairMode, RepairOutcome};
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let path = folder.path().join("db");
    /// # let database = Database::open(&path)?;
    /// # database.put(&database.table("fruit")?, "apple", "red")?;
    /// # database.close()?;
    /// # drop(database);
    /// std::fs::remove_file(path.join("katydid.control")).expect("it is there");
    /// assert!(Database::open(&path).is_err());
    /// let planned = Database::repair(&path, RepairMode::DryRun)?;
    /// assert!(planned.losses.is_empty());
    /// let done = Database::repair(&path, RepairMode::Apply)?;
    /// assert_eq!(done.outcome, RepairOutcome::Repaired);
    /// let database = Database::open(&path)?;
    /// let fruit = database.open_table("fruit")?.expect("it was repaired");
    /// assert_eq!(database.get(&fruit, "apple")?.as_deref(), Some(&b"red"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::NotFound`; `Error::Locked` if the database is open, in this process or another;
    /// `Error::Repair` if the database is of the memory engine or its log is in NVRAM;
    /// `Error::Foreign` if a file is another database's or of a newer version; `Error::Corrupt` if
    /// nothing can be read; `Error::Copy` if the directory holds an incomplete copy or an
    /// increment; `Error::NoSpace`; failures of the device.
    pub fn repair(path: impl AsRef<Path>, mode: RepairMode) -> Result<RepairReport> {
        Self::repair_in(Arc::new(existing(path.as_ref())?), mode)
    }

    /// Repairs a database in a directory of any device. See [`Database::repair`].
    ///
    /// # Errors
    /// The errors of [`Database::repair`].
    pub fn repair_in(directory: Arc<dyn Directory>, mode: RepairMode) -> Result<RepairReport> {
        let lock = match mode {
            RepairMode::DryRun => directory.lock_to_read()?,
            RepairMode::Apply => directory.lock()?,
        };
        let interrupted = quarantine::interrupted(directory.as_ref())?;
        let mut report = RepairReport {
            outcome: RepairOutcome::Sound,
            faults: Vec::new(),
            kept: Vec::new(),
            losses: Vec::new(),
            notes: Vec::new(),
            quarantine: None,
        };
        if interrupted.is_none() {
            report.faults = faults(&directory)?;
            if report.faults.is_empty() {
                return Ok(report);
            }
        }
        let source = interrupted.as_ref().map_or(&directory, |(_, folder)| folder);
        refuse_other_kinds(source.as_ref(), &directory.describe())?;
        let mut counted = Counted::default();
        let salvage = open::salvage(source, &mut counted)?;
        report.note(counted, salvage);
        report.outcome = RepairOutcome::Needed;
        let name = match &interrupted {
            Some((name, _)) => name.clone(),
            None => quarantine::next_name(directory.as_ref())?,
        };
        report.quarantine = Some(name.clone());
        if mode == RepairMode::DryRun {
            return Ok(report);
        }
        let method = Options::default().advanced.log.method;
        let folder = match interrupted {
            Some((_, folder)) => folder,
            None => quarantine::keep(directory.as_ref(), &name, method)?,
        };
        quarantine::clear(directory.as_ref())?;
        // The new database takes the lock itself, so the repair gives it up here. A program that
        // opens the directory in between finds the marker of the repair.
        drop(lock);
        build(&directory, &folder)?;
        let _lock = directory.lock()?;
        check_built(&directory)?;
        quarantine::finish(directory.as_ref())?;
        report.outcome = RepairOutcome::Repaired;
        Ok(report)
    }
}

impl RepairReport {
    fn note(&mut self, counted: Counted, salvage: Salvage) {
        self.kept = counted.0;
        (self.losses, self.notes) = (salvage.losses, salvage.notes);
    }
}

/// Returns the faults of a database whose lock is held; none if the database opens and is sound.
fn faults(directory: &Arc<dyn Directory>) -> Result<Vec<Fault>> {
    let place = directory.describe();
    match verify::check(directory.clone(), None) {
        Ok(VerifyReport { unchecked: Some(_), .. }) => {
            Err(Error::Repair { place, fault: RepairFault::LogInNvram })
        }
        Ok(report) => Ok(report.faults),
        Err(Error::Corrupt { place, finding, .. }) => Ok(vec![Fault { place, finding }]),
        // The database has lost its control file, and its log has lost a file as well.
        Err(error @ Error::LogOpen(_)) => {
            Ok(vec![Fault { place: LOG_FOLDER.to_owned(), finding: error.to_string() }])
        }
        Err(Error::Device(error)) if error.is_not_found() => {
            Ok(vec![Fault { place: error.subject.clone(), finding: "it is missing".to_owned() }])
        }
        Err(error) => Err(error),
    }
}

/// Refuses a database that cannot be repaired: one of the memory engine, or one with its log in
/// NVRAM.
fn refuse_other_kinds(source: &dyn Directory, place: &str) -> Result<()> {
    let refuse = |fault| Err(Error::Repair { place: place.to_owned(), fault });
    let engine = match control::read(source) {
        Ok(Some(control)) => control.engine,
        Ok(None) | Err(Error::Corrupt { .. }) if memory::has_checkpoint(source)? => EngineKind::Memory,
        Ok(None) | Err(Error::Corrupt { .. }) => EngineKind::Paged,
        Err(error) => return Err(error),
    };
    if engine == EngineKind::Memory {
        return refuse(RepairFault::MemoryEngine);
    }
    let log = source.existing_subdirectory(LOG_FOLDER)?;
    let names = log.map(|log| log.list()).transpose()?.unwrap_or_default();
    if names.iter().any(|name| name.ends_with(".nvram")) {
        return refuse(RepairFault::LogInNvram);
    }
    Ok(())
}

/// Makes a database in `directory` from the damaged one in `folder`, and closes it.
fn build(directory: &Arc<dyn Directory>, folder: &Arc<dyn Directory>) -> Result<()> {
    let page_bytes = open::page_bytes_of(folder)?;
    let paged = PagedOptions { page_bytes, ..PagedOptions::default() };
    let options = Options { engine: paged.into(), ..Options::default() };
    let database = Database { of: open::open_to_repair(directory.clone(), options)? };
    let mut writer = Writer { database: &database, table: None, txn: None, rows: 0, bytes: 0 };
    open::salvage(folder, &mut writer)?;
    writer.end_batch()?;
    database.close()
}

/// Fails unless the new database is whole.
fn check_built(directory: &Arc<dyn Directory>) -> Result<()> {
    let clean = control::read(directory.as_ref())?.is_some_and(|control| control.shutdown == Shutdown::Clean);
    let report = verify::check_repaired(directory.as_ref())?;
    match report.faults.into_iter().next() {
        Some(Fault { place, finding }) => Err(Error::Corrupt { place, page: None, finding }),
        None if clean => Ok(()),
        None => Err(Error::Internal("the repaired database was not closed")),
    }
}

/// Counts the rows that a repair would keep.
#[derive(Debug, Default)]
struct Counted(Vec<(String, u64)>);

impl SalvagedRows for Counted {
    fn table(&mut self, name: &str) -> Result<()> {
        self.0.push((name.to_owned(), 0));
        Ok(())
    }

    fn row(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
        self.0.last_mut().into_iter().for_each(|(_, rows)| *rows += 1);
        Ok(())
    }
}

/// Writes the salvaged rows into the new database.
struct Writer<'a> {
    database: &'a Database,
    table: Option<Table>,
    txn: Option<Transaction>,
    rows: u64,
    bytes: usize,
}

impl Writer<'_> {
    fn end_batch(&mut self) -> Result<()> {
        (self.rows, self.bytes) = (0, 0);
        self.txn.take().map_or(Ok(()), |txn| txn.commit().map(|_| ()))
    }
}

impl SalvagedRows for Writer<'_> {
    fn table(&mut self, name: &str) -> Result<()> {
        self.end_batch()?;
        self.table = Some(self.database.table(name)?);
        Ok(())
    }

    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let Some(table) = &self.table else { return Err(Error::Internal("a row without a table")) };
        let txn = match &self.txn {
            Some(txn) => txn,
            None => {
                let durability = Durability::Buffered;
                let options = TransactionOptions { durability, ..TransactionOptions::default() };
                self.txn.insert(self.database.begin_with(options)?)
            }
        };
        txn.insert(table, key, value)?;
        self.rows += 1;
        self.bytes += key.len() + value.len();
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES { self.end_batch() } else { Ok(()) }
    }
}
