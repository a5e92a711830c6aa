//! Opens a database: checks that the directory holds one, and that the options name the engine that
//! made it. Only this file chooses between the engines' databases (`PagedDatabase` and
//! `MemoryDatabase`).
//!
//! The opening thread runs this. An opening makes the gate, takes the lock, syncs the names, and
//! reads the control file. Each of these steps relies on the one before. Then the engine opens its
//! files. Other threads see the database only when the engine is done.
//!
//! An opening syncs names and files, and drops cached bytes, before it trusts them. A process that
//! died may have left names and bytes in the page cache only. A later crash of the machine would
//! lose these, and the commits that were acknowledged on top of them.
//!
//! A creation makes all other files first, each durably, and the control file last. A crash during
//! the creation leaves files without a control file. The next opening begins the creation again if
//! the files are those of a creation and were never used ([`crate::creation`]). If they were used,
//! a database has lost its control file, and the opening refuses the directory. A directory with
//! files of another program is refused as well.

use crate::control::{self, Control, ControlFile};
use crate::copy::{Extension, Pace, Target, Unopened, refuse_incomplete};
use crate::creation::{self, refuse_lost_control};
use crate::directory::{DatabaseDir, LOG_FOLDER};
use crate::either::Either;
use crate::engine::{Engine, EngineFiles, EngineTransaction};
use crate::engine_options::EngineOptions;
use crate::error::{Error, Foreign, Result};
use crate::events;
use crate::ids::EngineKind;
use crate::log_entry::LogEntry;
use crate::memory::MemoryDatabase;
use crate::opening::Opening;
use crate::options::{Access, Options};
use crate::paged;
use crate::paged::database::PagedDatabase;
use crate::quarantine::refuse_repairing;
use crate::report::{VerifyProgress, VerifyReport};
use crate::salvage::{Salvage, SalvagedRows};
use katydid_device::{self as device, Directory, Gate, Method, OverlayDirectory, Verb, Watch};
use katydid_wal::{Background, RecordRef};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// The engine of a database: one of the two.
pub(crate) type Chosen = Either<PagedDatabase, MemoryDatabase>;
pub(crate) type ChosenTable = <Chosen as Engine>::Table;
pub(crate) type ChosenTransaction = <Chosen as Engine>::Transaction;
pub(crate) type ChosenRange = <ChosenTransaction as EngineTransaction>::Range;
pub(crate) type ChosenUnlocked = <ChosenTransaction as EngineTransaction>::Unlocked;

/// Opens the database in `directory`, creating it if there is none and the options say so.
pub(crate) fn open(directory: Arc<dyn Directory>, mut options: Options) -> Result<Chosen> {
    options.validate()?;
    let directory: Arc<dyn Directory> = match options.access {
        Access::ReadWrite => directory,
        Access::ReadOnly => {
            // The writes of recovery go to memory. No thread is needed, because nothing is prepared
            // ahead and no checkpoint falls due.
            (options.create, options.advanced.log.background) = (false, Background::Caller);
            Arc::new(OverlayDirectory::guarding(directory))
        }
    };
    let watch = Watch::new(options.advanced.log.stall_after);
    if options.advanced.log.background == Background::Threads {
        watch.start().map_err(|error| {
            device::Error::from_io(Verb::Open, "the thread that watches the device", error)
        })?;
    }
    open_watched(directory, options, watch)
}

/// Opens the database in `directory` as [`open`] does, with a watch that the caller made.
pub(crate) fn open_watched(directory: Arc<dyn Directory>, options: Options, watch: Watch) -> Result<Chosen> {
    open_unless(Repairing::Refused, directory, options, watch)
}

/// Creates a database in a directory whose damaged files are in quarantine.
pub(crate) fn open_to_repair(directory: Arc<dyn Directory>, options: Options) -> Result<Chosen> {
    let watch = Watch::new(options.advanced.log.stall_after);
    open_unless(Repairing::Expected, directory, options, watch)
}

/// An opening's treatment of the marker of an unfinished repair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repairing {
    /// The marker is an error.
    Refused,
    /// The caller is the repair: a new database is created beside the quarantine, and beside files
    /// that belong to no database.
    Expected,
}

fn open_unless(
    repairing: Repairing,
    directory: Arc<dyn Directory>,
    mut options: Options,
    watch: Watch,
) -> Result<Chosen> {
    let (begun, place) = (Instant::now(), directory.describe());
    let engine = options.engine.kind();
    options.advanced.on_recovery = events::recovery(options.advanced.on_recovery.take());
    let opened = open_quietly(repairing, directory, options, watch);
    match &opened {
        Ok(_) => events::opened(&place, engine, begun.elapsed()),
        Err(error) => events::not_opened(&place, error),
    }
    opened
}

fn open_quietly(
    repairing: Repairing,
    directory: Arc<dyn Directory>,
    options: Options,
    watch: Watch,
) -> Result<Chosen> {
    options.validate()?;
    let name = directory.describe();
    // The watch is next to the device, so that a wait at the gate does not count as a stall.
    let (directory, gate) = Gate::wrap(watch.before(directory));
    let refuse = |directory: &dyn Directory| match repairing {
        Repairing::Refused => refuse_foreign(directory, &name),
        Repairing::Expected => Ok(false),
    };
    let has_control = refuse(directory.as_ref())?;
    if !has_control && !options.create {
        // This check comes before the lock is taken, because the lock is a file, which would be
        // left in the directory.
        refuse_lost_control(directory.as_ref())?;
        return Err(Error::NotFound { place: name });
    }
    let opening = Arc::new(Opening::new(gate.clone(), directory.lock()?, options.advanced.slow_transaction));
    directory.sync()?;
    // Check again, now that no other process can put a file into the directory or begin a repair.
    refuse(directory.as_ref())?;
    let control = ControlFile::open(directory.as_ref(), options.advanced.log.method)?;
    if let Some(control) = &control {
        let (found, wanted) = (control.get().engine, options.engine.kind());
        if found != wanted {
            return Err(Error::OtherEngine { place: name, found, wanted });
        }
    } else {
        refuse_lost_control(directory.as_ref())?;
        if !options.create {
            return Err(Error::NotFound { place: name });
        }
    }
    let is_new = control.is_none();
    let directory = DatabaseDir { directory, name: name.clone(), gate: gate.clone(), watch, opening };
    let opened = match options.engine {
        EngineOptions::Paged(own) => PagedDatabase::open(directory, options, own, control).map(Either::First),
        EngineOptions::Memory(own) => {
            MemoryDatabase::open(directory, options, own, control).map(Either::Second)
        }
    };
    let opened = opened.and_then(|opened| match gate.failure() {
        // The engine may have finished opening although a device call failed, for example a write
        // that makes room in the cache. That failure has shut the gate, so the database could not
        // be changed.
        Some(error) => Err(Error::Device(error)),
        None => Ok(opened),
    });
    opened.map_err(|error| if is_new { creation::explain(error, &name) } else { error })
}

/// Checks the files of a database that is not open, as its engine left them.
pub(crate) fn verify_files(
    directory: &dyn Directory,
    control: &Control,
    progress: Option<VerifyProgress>,
) -> Result<VerifyReport> {
    match control.engine {
        EngineKind::Paged => PagedDatabase::verify_files(directory, control, progress),
        EngineKind::Memory => MemoryDatabase::verify_files(directory, control, progress),
    }
}

/// Copies all files but the control file from backups that were not opened since they were made.
/// See [`crate::Database::restore`].
pub(crate) fn copy_unopened(
    sources: &[Unopened],
    control: &Control,
    target: &Target,
    pace: &mut Pace<'_>,
    extension: Option<&Extension>,
) -> Result<Control> {
    match control.engine {
        EngineKind::Paged => PagedDatabase::copy_unopened(sources, control, target, pace, extension),
        EngineKind::Memory => MemoryDatabase::copy_unopened(sources, control, target, pace, extension),
    }
}

/// Rewrites the files of a database that was closed cleanly. See [`crate::Database::compact`].
pub(crate) fn compact(
    directory: &Arc<dyn Directory>,
    control: &Control,
    method: Method,
    progress: Option<&VerifyProgress>,
) -> Result<(u64, u64)> {
    match control.engine {
        EngineKind::Paged => PagedDatabase::compact(directory, control, method, progress),
        EngineKind::Memory => MemoryDatabase::compact(directory, control, method, progress),
    }
}

/// Passes the sound rows of a damaged database of the paged engine to `rows`. See
/// [`crate::Database::repair`].
pub(crate) fn salvage(source: &Arc<dyn Directory>, rows: &mut dyn SalvagedRows) -> Result<Salvage> {
    paged::salvage::salvage(source, rows)
}

/// Returns the page size, in bytes, of a damaged database of the paged engine.
pub(crate) fn page_bytes_of(source: &Arc<dyn Directory>) -> Result<usize> {
    paged::salvage::page_bytes(source)
}

/// Returns the number of pages that the database file needs so that a record of the paged engine's
/// log can be redone.
pub(crate) fn pages_named(record: &RecordRef<'_>) -> Result<u64> {
    paged::pages_named(record)
}

/// Returns whether a record of the paged engine's log begins the first checkpoint after a
/// compaction. The pages that later records name are those of the rewritten file.
pub(crate) fn is_rewriting(record: &RecordRef<'_>) -> bool {
    paged::is_rewriting(record)
}

/// Returns the number of openings of the log of a database that is not open, summed over its
/// streams.
pub(crate) fn incarnations(source: &dyn Directory) -> Result<u64> {
    let Some(log) = source.existing_subdirectory(LOG_FOLDER)? else { return Ok(0) };
    Ok(katydid_wal::incarnations(&log)?.into_iter().map(u64::from).sum())
}

/// Visits the records of the log that `engine` wrote. See [`crate::dump_log_in`].
pub(crate) fn dump_log(
    engine: EngineKind,
    directory: &dyn Directory,
    visit: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<String> {
    match engine {
        EngineKind::Paged => PagedDatabase::dump_log(directory, visit),
        EngineKind::Memory => MemoryDatabase::dump_log(directory, visit),
    }
}

/// Returns whether the directory has a control file. Fails if the directory holds something else
/// than a database. An opening makes this check before it takes the lock, because the lock is a
/// file, which would be left in the directory. The opening repeats the check under the lock.
fn refuse_foreign(directory: &dyn Directory, place: &str) -> Result<bool> {
    refuse_repairing(directory)?;
    let names = directory.list()?;
    if names.iter().any(|name| name == control::FILE_NAME) {
        return Ok(true);
    }
    refuse_incomplete(directory)?;
    // These are the files that an interrupted creation may leave.
    let ours = [&[control::FILE_NAME, control::NEW_FILE_NAME][..], &paged::open::FILES].concat();
    match names.into_iter().find(|name| !ours.contains(&name.as_str())) {
        Some(name) => Err(Error::Foreign { place: place.to_owned(), what: Foreign::File(name) }),
        None => Ok(false),
    }
}
