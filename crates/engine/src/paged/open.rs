//! Opening a database: whose directory it is, creation, restart, and closing.
//!
//! Runs on the thread that opens or closes. The order of opening is the order of trust: gate, lock, names, control file, identity
//! of the other files, torn pages, log, analysis, redo, free pages, undo, checkpoint; only then do others see the database.
//!
//! Names and files are synced, and cached bytes dropped, before they are believed. A process that died may have left them in the
//! page cache only: a crash of the machine would take back what was acknowledged on top of them, or even all of it (without
//! its control file a database is an unfinished creation, which the next open begins again).
//!
//! A new database is everything but its control file, each part durable, and then the control file. A crash before
//! leaves files without one: the next open, which finds only files a creation makes, begins again.

use crate::error::{Error, Foreign, Result};
use crate::ids::TxnId;
use crate::lock::Locks;
use crate::options::Options;
use crate::paged::active::ActiveTable;
use crate::paged::checkpoint::Checkpoints;
use crate::paged::control::{self, Control, ControlFile, EngineKind, Shutdown};
use crate::paged::double_write::{self, DoubleWrite};
use crate::paged::engine::{Engine, LogBarrier};
use crate::paged::pool::Pool;
use crate::paged::recovery::{self, Analysis, Progress};
use crate::paged::releaser::Releaser;
use crate::paged::space::{self, Space};
use crate::{Lsn, Phase};
use katydid_device::{self as device, Create, Directory, DirectoryLock, File, Gate, Verb, Watch};
use katydid_wal::{Background, Log};
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The folder of the log, inside the database's.
pub(crate) const LOG_FOLDER: &str = "log";
/// The log's control file: if it is gone, so is the log.
const LOG_CONTROL: &str = "log.control";

/// The files of a database. An interrupted creation leaves some of them.
const FILES: [&str; 4] =
    [control::FILE_NAME, control::NEW_FILE_NAME, space::FILE_NAME, double_write::FILE_NAME];

/// What opening has found and made so far.
struct Files {
    control: ControlFile,
    pages: Arc<dyn File>,
    double_write: DoubleWrite,
    log: Log,
}

/// What stands before all files, for as long as the database is open.
struct Guards {
    gate: Gate,
    watch: Watch,
    directory_lock: Box<dyn DirectoryLock>,
}

/// Opens the database in `directory`, creating it if there is none and the options say so.
pub(crate) fn open(directory: Arc<dyn Directory>, options: Options) -> Result<Arc<Engine>> {
    options.validate()?;
    let place = directory.describe();
    let watch = Watch::new(options.log.stall_after);
    if options.log.background == Background::Threads {
        watch.start().map_err(|error| {
            device::Error::from_io(Verb::Open, "the thread that watches the device", error)
        })?;
    }
    open_watched(directory, options, place, watch)
}

/// The same, with a watch of the caller's.
pub(crate) fn open_watched(
    directory: Arc<dyn Directory>,
    options: Options,
    place: String,
    watch: Watch,
) -> Result<Arc<Engine>> {
    // Next to the device: what waits at the gate does not stall.
    let (directory, gate) = Gate::wrap(watch.before(directory));
    refuse_foreign(directory.as_ref(), &place)?;
    let directory_lock = directory.lock()?;
    directory.sync()?;
    let progress = Progress::new(options.on_recovery.clone());
    let files = match ControlFile::open(directory.as_ref(), options.log.method)? {
        Some(control) => existing(&directory, &options, &place, control, &watch, &progress)?,
        None => create(&directory, &options, &place, &watch)?,
    };
    restart(files, options, place, Guards { gate, watch, directory_lock }, &progress)
}

/// Fails if the directory holds no database but something else: before the lock, whose file would be left there.
fn refuse_foreign(directory: &dyn Directory, place: &str) -> Result<()> {
    let names = directory.list()?;
    if names.iter().any(|name| name == control::FILE_NAME) {
        return Ok(());
    }
    match names.into_iter().find(|name| !FILES.contains(&name.as_str())) {
        Some(name) => Err(Error::Foreign { place: place.to_owned(), what: Foreign::File(name) }),
        None => Ok(()),
    }
}

fn open_pages(directory: &dyn Directory, options: &Options, create: Create) -> Result<Arc<dyn File>> {
    Ok(directory.open(space::FILE_NAME, create, options.log.method)?)
}

fn open_log(directory: &Arc<dyn Directory>, options: &Options, database: u128, watch: &Watch) -> Result<Log> {
    let folder = directory.subdirectory(LOG_FOLDER)?;
    let mut options = options.log.clone();
    options.log_id = Some(database);
    Ok(Log::open_watched(folder, options, watch.clone())?)
}

fn existing(
    directory: &Arc<dyn Directory>,
    options: &Options,
    place: &str,
    control: ControlFile,
    watch: &Watch,
    progress: &Progress,
) -> Result<Files> {
    let Control { database, page_bytes, .. } = control.get();
    let page_bytes = page_bytes as usize;
    let missing = |file: &str| Error::Corrupt {
        place: place.to_owned(),
        page: None,
        finding: format!("{file} is missing, without which the database cannot be opened"),
    };
    let pages = match open_pages(directory.as_ref(), options, Create::Never) {
        Err(Error::Device(error)) if error.is_not_found() => return Err(missing(space::FILE_NAME)),
        pages => pages?,
    };
    // The log would make a new one in an empty folder, and everything acknowledged since the checkpoint would be lost.
    let folder = directory.existing_subdirectory(LOG_FOLDER)?.ok_or_else(|| missing(LOG_FOLDER))?;
    if !folder.list()?.iter().any(|name| name == LOG_CONTROL) {
        return Err(missing(LOG_CONTROL));
    }
    pages.sync()?;
    pages.drop_cache()?;
    progress.tell(Phase::Restore, 0, 1);
    let double_write = DoubleWrite::open(directory.as_ref(), options.log.method, database, page_bytes)?;
    double_write.restore(pages.as_ref())?;
    progress.tell(Phase::Restore, 1, 1);
    space::check_file(pages.as_ref(), place, database, page_bytes)?;
    let log = open_log(directory, options, database, watch)?;
    if log.recovery().log_id != database {
        return Err(Error::Foreign {
            place: place.to_owned(),
            what: Foreign::Identity(LOG_FOLDER.to_owned()),
        });
    }
    Ok(Files { control, pages, double_write, log })
}

fn create(directory: &Arc<dyn Directory>, options: &Options, place: &str, watch: &Watch) -> Result<Files> {
    // Once more, now that nobody else can put a file there.
    refuse_foreign(directory.as_ref(), place)?;
    if !options.create {
        return Err(Error::NotFound { place: place.to_owned() });
    }
    // An interrupted creation may have made a log already, and with it the database's id.
    let id = options.log.log_id.unwrap_or_else(random_id);
    let log = open_log(directory, options, id, watch)?;
    let database = log.recovery().log_id;
    let pages = open_pages(directory.as_ref(), options, Create::IfMissing)?;
    space::create(pages.as_ref(), database, options.page_bytes)?;
    let double_write =
        DoubleWrite::open(directory.as_ref(), options.log.method, database, options.page_bytes)?;
    directory.sync()?;
    let control = Control {
        database,
        page_bytes: options.page_bytes as u32,
        engine: EngineKind::Paged,
        shutdown: Shutdown::Unclean,
        checkpoint: Lsn::ZERO,
        next_transaction: 1,
        next_table: 1,
    };
    let control = ControlFile::create(directory.as_ref(), options.log.method, control)?;
    Ok(Files { control, pages, double_write, log })
}

fn restart(
    files: Files,
    options: Options,
    place: String,
    guards: Guards,
    progress: &Progress,
) -> Result<Arc<Engine>> {
    let Files { control, pages, double_write, log } = files;
    let Guards { gate, watch, directory_lock } = guards;
    let begin = control.get().checkpoint;
    let page_bytes = control.get().page_bytes as usize;
    let background = options.log.background;
    let barrier = Arc::new(LogBarrier::new(log.clone(), options.log.inserter.keeps_order()));
    let pool = Arc::new(Pool::new(pages, double_write, page_bytes, options.cache_bytes, barrier.clone()));
    let checkpoint = recovery::read_checkpoint(&log, begin, progress)?;
    let analysis = recovery::repeat(&log, &pool, &checkpoint, Analysis::new(begin), background, progress)?;
    let space = Space::load(&pool)?;
    let next_txn = analysis.next_txn.max(control.get().next_transaction);
    let engine = Arc::new(Engine {
        locks: match background {
            Background::Threads => Locks::new(options.lock_wait),
            Background::Caller => Locks::seeded(options.lock_wait, 0),
        },
        options,
        place,
        gate,
        watch,
        log,
        barrier,
        pool,
        space,
        active: ActiveTable::new(TxnId::new(next_txn)),
        control,
        checkpoints: Checkpoints::new(begin),
        releaser: Releaser::default(),
        closed: AtomicBool::new(false),
        stuck: Mutex::default(),
        broken: OnceLock::new(),
        directory_lock: Mutex::new(Some(directory_lock)),
    });
    let total = analysis.active.len() as u64;
    let mut done = 0;
    progress.tell(Phase::Undo, done, total);
    engine.undo_unfinished(analysis.unfinished(), || {
        done += 1;
        progress.tell(Phase::Undo, done, total);
    })?;
    engine.checkpoint()?;
    Checkpoints::start(&engine)
        .map_err(|error| device::Error::from_io(Verb::Open, "the checkpoint thread", error))?;
    Ok(engine)
}

/// An id that no other database has.
fn random_id() -> u128 {
    // The standard library seeds each of these from the operating system.
    let word = || RandomState::new().hash_one(std::time::SystemTime::now());
    u128::from(word()) << 64 | u128::from(word())
}

impl Engine {
    /// Writes everything back and closes the files. A second call does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.checkpoints.stop();
        let outcome =
            if self.gate.is_shut() { Err(self.poison()) } else { self.checkpoint_all().map(|_| ()) };
        self.releaser.stop();
        self.active.drop_sessions();
        let closed = self.log.close().map_err(Error::from);
        // The next open may come before the last handle is gone.
        drop(self.directory_lock.lock().take());
        outcome.and(closed)
    }
}
