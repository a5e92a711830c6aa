//! Opening a paged database: creation, restart, and the end.
//!
//! Runs on the thread that opens or closes the database. Each step relies only on the steps before
//! it. [`crate::open`] takes the first steps. For a database that exists, the steps in this file
//! are, in order: restore torn pages, check the identity of the database file, open the log and
//! check its identity, analyse the log, redo changes, load the free pages, undo transactions, take
//! a checkpoint, end unfinished bulk loads. Other threads see the database only after the last
//! step.

use crate::checkpoint_schedule::{CheckpointSchedule, Taker, TakesCheckpoints};
use crate::control::{Control, ControlFile};
use crate::copy::{Extension, Pace, Target, Unopened};
use crate::directory::{DatabaseDir, LOG_FILES, LOG_FOLDER};
use crate::durability_waiter::DurabilityWaiter;
use crate::engine::EngineFiles;
use crate::engine_options::PagedOptions;
use crate::error::{Error, Foreign, Result};
use crate::ids::TxnId;
use crate::latch::Mutex;
use crate::limits::ARCHIVER_PREFIX;
use crate::lock::Locks;
use crate::log_entry::LogEntry;
use crate::opening::Closes;
use crate::options::{Access, Options, Phase};
use crate::paged::active::ActiveTable;
use crate::paged::cache_size::CacheSize;
use crate::paged::database::PagedDatabase;
use crate::paged::double_write::{self, DoubleWrite};
use crate::paged::engine::{Engine, LogBarrier};
use crate::paged::first_pages;
use crate::paged::pool::Pool;
use crate::paged::recovery::{self, Analysis, Progress};
use crate::paged::space::{self, Space};
use crate::paged::undo_room::UndoRoom;
use crate::paged::unfinished::Unfinished;
use crate::paged::views::{Unshown, Views};
use crate::paged::{compact, copy, dump, verify};
use crate::report::{VerifyProgress, VerifyReport};
use crate::sharded::Metrics;
use crate::waits::Waits;
use katydid_device::{self as device, Advice, Create, Directory, File, Id, Method, Verb, memory_limit};
use katydid_wal::{Background, Log};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The engine's own files. An interrupted creation may leave some of them.
pub(crate) const FILES: [&str; 2] = [space::FILE_NAME, double_write::FILE_NAME];

/// Files that the opening has found or created.
struct Files {
    control: ControlFile,
    pages: Arc<dyn File>,
    double_write: DoubleWrite,
    log: Log,
}

/// Opens the paged database that `control` belongs to, or creates one if there is none.
fn open(
    place: DatabaseDir,
    options: Options,
    own: PagedOptions,
    control: Option<ControlFile>,
) -> Result<Arc<Engine>> {
    let progress = Progress::new(options.advanced.on_recovery.clone());
    let files = match control {
        Some(control) => existing(&place, &options, own, control, &progress)?,
        None => create(&place, &options, own)?,
    };
    restart(files, options, own, place, &progress)
}

fn open_pages(directory: &dyn Directory, own: PagedOptions, create: Create) -> Result<Arc<dyn File>> {
    let pages = directory.open(space::FILE_NAME, create, own.page_method)?;
    // The system should not read ahead by itself: pages that are neighbours in the file are seldom
    // neighbours in a tree. A scan announces the pages that it will read.
    pages.advise(Advice::Random);
    Ok(pages)
}

/// Opens the double-write area. The area uses the I/O method of the log: each batch must be durable
/// when its write returns, and only recovery reads the area.
fn open_area(directory: &dyn Directory, options: &Options, control: &Control) -> Result<DoubleWrite> {
    let method = options.advanced.log.method;
    DoubleWrite::open(directory, method, control.database, control.page_bytes as usize)
}

fn open_log(place: &DatabaseDir, options: &Options, database: Id) -> Result<Log> {
    let folder = place.directory.subdirectory(LOG_FOLDER)?;
    let mut options = options.log_options();
    (options.log_id, options.streams) = (Some(database), 1);
    Ok(Log::open_behind(folder, options, place.gate.clone(), place.watch.clone())?)
}

fn existing(
    at: &DatabaseDir,
    options: &Options,
    own: PagedOptions,
    control: ControlFile,
    progress: &Progress,
) -> Result<Files> {
    let DatabaseDir { directory, name: place, .. } = at;
    let Control { database, page_bytes, .. } = control.get();
    let missing = |file: &str| Error::Corrupt {
        place: place.clone(),
        page: None,
        finding: format!("{file} is missing, without which the database cannot be opened"),
    };
    let pages = match open_pages(directory.as_ref(), own, Create::Never) {
        Err(Error::Device(error)) if error.is_not_found() => return Err(missing(space::FILE_NAME)),
        pages => pages?,
    };
    // Opening the log in an empty folder would create a new log, and every commit acknowledged
    // since the last checkpoint would be lost.
    let folder = directory.existing_subdirectory(LOG_FOLDER)?.ok_or_else(|| missing(LOG_FOLDER))?;
    if !folder.list()?.iter().any(|name| LOG_FILES.contains(&name.as_str())) {
        return Err(missing(LOG_FILES[0]));
    }
    pages.sync()?;
    pages.drop_cache()?;
    progress.report(Phase::Restore, 0, 1);
    let double_write = open_area(directory.as_ref(), options, &control.get())?;
    double_write.restore(pages.as_ref())?;
    progress.report(Phase::Restore, 1, 1);
    space::check_file(pages.as_ref(), place, database, page_bytes as usize)?;
    let log = open_log(at, options, database)?;
    if log.id() != database {
        return Err(Error::Foreign { place: place.clone(), what: Foreign::Identity(LOG_FOLDER.to_owned()) });
    }
    // The log's own recovery treats damage to its last records as a torn write. If pages depend on
    // those records, the records were durable, so the damage is no torn write.
    let (end, needed) = (log.first().recovery().end, double_write.log_needed()?);
    if end < needed {
        return Err(Error::Corrupt {
            place: LOG_FOLDER.to_owned(),
            page: None,
            finding: double_write::log_too_short(end, needed),
        });
    }
    // A compaction that crashed or failed may have left its file, which may take as much space as
    // the database file. The file is no part of the database, so the opening goes on if the file
    // cannot be removed.
    let _removed = directory.remove(compact::NEW_FILE_NAME);
    Ok(Files { control, pages, double_write, log })
}

fn create(at: &DatabaseDir, options: &Options, own: PagedOptions) -> Result<Files> {
    let directory = &at.directory;
    // An interrupted creation may already have made a log, which then has the database's id.
    let id = options.advanced.log.log_id.unwrap_or_else(Id::random);
    let log = open_log(at, options, id)?;
    let database = log.id();
    let pages = open_pages(directory.as_ref(), own, Create::IfMissing)?;
    first_pages::create(pages.as_ref(), database, own.page_bytes)?;
    let control = Control::paged(database, own.page_bytes as u32);
    let double_write = open_area(directory.as_ref(), options, &control)?;
    directory.sync()?;
    let control = ControlFile::create(directory.as_ref(), options.advanced.log.method, control)?;
    Ok(Files { control, pages, double_write, log })
}

fn restart(
    files: Files,
    options: Options,
    own: PagedOptions,
    directory: DatabaseDir,
    progress: &Progress,
) -> Result<Arc<Engine>> {
    let Files { control, pages, double_write, log: whole_log } = files;
    let log = whole_log.first().clone();
    let DatabaseDir { name: place, gate, watch, opening, .. } = directory;
    let begin = control.get().checkpoint;
    let page_bytes = control.get().page_bytes as usize;
    let background = options.advanced.log.background;
    let keeps_order = options.advanced.log.medium.keeps_order();
    let barrier = LogBarrier::new(log.clone(), keeps_order, opening.clone(), gate.clone(), place.clone());
    let barrier = Arc::new(barrier);
    let cache = CacheSize::of(own.cache_bytes, pages.method(), memory_limit);
    let pool = Arc::new(Pool::new(pages, double_write, page_bytes, cache.bytes, barrier.clone()));
    let is_rewritten = compact::is_rewritten(pool.file().as_ref(), begin, page_bytes)?;
    let checkpoint = recovery::read_checkpoint(&log, begin, progress)?;
    let analysis = recovery::repeat(&log, &pool, &checkpoint, Analysis::new(begin), background, progress)?;
    let space = Space::load(&pool)?;
    let next_txn = analysis.next_txn.max(control.get().next_transaction);
    let sessions_max = options.log_options().sessions_max;
    let engine = Arc::new(Engine {
        locks: match background {
            Background::Threads => Locks::new(options.lock_wait),
            Background::Caller => Locks::seeded(options.lock_wait, 0),
        },
        schedule: CheckpointSchedule::new(1, &options),
        spread: Mutex::default(),
        checkpoint_begin: AtomicU64::new(begin.get()),
        lacks_space: AtomicBool::new(false),
        is_rewritten: AtomicBool::new(is_rewritten),
        record_values: AtomicBool::new(options.advanced.record_values || has_feeds(&whole_log)),
        undo_room: UndoRoom::new(&log, page_bytes),
        options,
        undo_bytes: own.undo_bytes,
        place,
        gate,
        watch,
        opening,
        log,
        whole_log,
        barrier,
        pool,
        cache,
        space,
        active: ActiveTable::new(TxnId::new(next_txn), sessions_max),
        metrics: Metrics::default(),
        control,
        durability_waiter: DurabilityWaiter::default(),
        leaked_locks: Mutex::default(),
        unfinished: Unfinished::default(),
        waits: Waits::new(),
        views: Views::new(own.view_bytes_max),
        unshown: Unshown::default(),
    });
    let total = analysis.active.len() as u64;
    let mut done = 0;
    progress.report(Phase::Undo, done, total);
    engine.undo_unfinished(analysis.unfinished(), || {
        done += 1;
        progress.report(Phase::Undo, done, total);
    })?;
    engine.checkpoint(Taker::Caller)?;
    engine
        .start_checkpoints()
        .map_err(|error| device::Error::from_io(Verb::Open, "the checkpoint thread", error))?;
    Ok(engine)
}

/// Returns whether the log has a consumer that is a feed. A feed shows whole values, so the log
/// must have them.
fn has_feeds(log: &Log) -> bool {
    log.consumers().iter().any(|consumer| !consumer.name.starts_with(ARCHIVER_PREFIX))
}

impl Closes for Engine {
    fn end_waits(&self) {
        self.locks.shut();
    }

    fn stop_threads(&self) {
        self.schedule.worker.stop();
        self.durability_waiter.stop();
        // The next recovery ends the transactions that cannot be ended here.
        self.end_unended();
    }

    /// Writes all dirty pages back and closes the log.
    fn finish(&self) -> Result<()> {
        let outcome = match self.options.access {
            _ if self.gate.is_shut() => Err(self.poison_error()),
            Access::ReadWrite => self.checkpoint_all().map(|_| ()),
            // A checkpoint would write only to memory that is dropped at the end.
            Access::ReadOnly => Ok(()),
        };
        self.active.drop_sessions();
        outcome.and(self.whole_log.close().map_err(Error::from))
    }
}

impl EngineFiles for PagedDatabase {
    type Options = PagedOptions;

    fn open(
        directory: DatabaseDir,
        options: Options,
        own: PagedOptions,
        control: Option<ControlFile>,
    ) -> Result<Self> {
        let access = options.access;
        let database = PagedDatabase::new(open(directory, options, own, control)?);
        database.end_loads(access)?;
        Ok(database)
    }

    fn verify_files(
        directory: &dyn Directory,
        control: &Control,
        progress: Option<VerifyProgress>,
    ) -> Result<VerifyReport> {
        verify::verify_in(directory, control, progress)
    }

    fn copy_unopened(
        sources: &[Unopened],
        control: &Control,
        target: &Target,
        pace: &mut Pace<'_>,
        extension: Option<&Extension>,
    ) -> Result<Control> {
        copy::copy_files(sources, control, target, pace, extension)?;
        Ok(*control)
    }

    fn compact(
        directory: &Arc<dyn Directory>,
        control: &Control,
        method: Method,
        progress: Option<&VerifyProgress>,
    ) -> Result<(u64, u64)> {
        compact::compact(directory, control, method, progress)
    }

    fn dump_log(
        directory: &dyn Directory,
        visit: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>,
    ) -> Result<String> {
        dump::dump_log_in(directory, visit)
    }
}
