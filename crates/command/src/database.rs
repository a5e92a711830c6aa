//! Place and opening of a database.
//!
//! Commands that only look change nothing in the folder, and share its lock with others that do.
//! All other commands have the lock for themselves while they have the database open; `verify` and
//! `dump-log` do not open it.

use crate::bytes;
use crate::failure::{Failure, Result};
use crate::flags::word;
use crate::log_flags::{LogFlags, kind_found};
use crate::progress::Progress;
use clap::Args;
use katydid::{
    Access, AdvancedOptions, CommitDependencies, Database, EngineKind, EngineOptions, MemoryOptions, Options,
    PagedOptions, Table,
};
use katydid_observe::Socket;
use katydid_wal::MediumSettings;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The folder of a database.
#[derive(Debug, Args)]
pub struct DatabaseDir {
    /// Folder of the database
    #[arg(long, value_name = "DIR", default_value = "katydid-data")]
    pub dir: PathBuf,
}

/// Flags for the engine and the log of a database that may have to be created, and for the memory
/// engine.
#[derive(Debug, Clone, Args)]
pub struct EngineFlags {
    /// Engine that keeps the data: paged or memory [default: the database's engine; paged for a new
    /// database]
    #[arg(long, value_name = "KIND", value_parser = word::<EngineKind>)]
    pub engine: Option<EngineKind>,
    /// Options of the memory engine.
    #[command(flatten)]
    pub memory_flags: MemoryFlags,
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogFlags,
}

/// Flags of the memory engine.
#[derive(Debug, Clone, Copy, Args)]
pub struct MemoryFlags {
    /// Memory engine: streams of a new database's log [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub streams: Option<u16>,
    /// Memory engine: what a commit waits for besides its own record: tracked or all
    #[arg(long, value_name = "RULE", default_value = "tracked", value_parser = word::<CommitDependencies>)]
    pub dependences: CommitDependencies,
    /// Memory engine: bytes of records kept at most
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = bytes::parse)]
    pub memory: u64,
}

impl EngineFlags {
    /// Sets the options that the flags give, and keeps the settings of the paged engine. Without
    /// `--engine` it takes the engine of the database in `dir`, if there is a database; with
    /// another engine, opening fails.
    pub fn apply(&self, dir: &Path, options: Options) -> Result<Options> {
        let engine = match self.engine {
            Some(engine) => engine,
            None => engine_of(dir)?,
        };
        let log = self.log.apply(options.advanced.log)?;
        let paged = match options.engine {
            EngineOptions::Paged(paged) => paged,
            EngineOptions::Memory(_) => PagedOptions::default(),
        };
        Ok(Options {
            engine: engine.with(paged, self.memory_flags.options()),
            advanced: AdvancedOptions { log, ..options.advanced },
            ..options
        })
    }
}

impl MemoryFlags {
    /// The settings that were asked for.
    fn options(&self) -> MemoryOptions {
        let own = MemoryOptions::default();
        MemoryOptions {
            streams: self.streams.unwrap_or(own.streams),
            commit_dependencies: self.dependences,
            memory_bytes: self.memory,
        }
    }
}

/// The engine that has made the database in `dir`; where there is none, the one that makes new
/// ones.
fn engine_of(dir: &Path) -> Result<EngineKind> {
    match Database::engine_at(dir) {
        Err(katydid::Error::NotFound { .. }) => Ok(EngineKind::default()),
        found => Ok(found?),
    }
}

impl DatabaseDir {
    /// Opens the database, which must exist, with the engine that has made it.
    pub fn open(&self) -> Result<Database> {
        // Asked for first, so that not even an empty folder is made.
        self.must_exist()?;
        Ok(self.try_open()?)
    }

    /// Opens the database, which must exist, with the error as it is.
    pub(crate) fn try_open(&self) -> katydid::Result<Database> {
        let engine = Database::engine_at(&self.dir)?.into();
        let options = Options { create: false, engine, ..Options::default() };
        open_telling(options, Some(MediumSettings::default()), |options| {
            Database::open_with(&self.dir, options)
        })
    }

    /// Opens the database, which must exist, for reading only: nothing in its folder is changed. A
    /// log in NVRAM cannot be read without changing it, so a database that has one is opened as by
    /// [`DatabaseDir::open`].
    pub fn open_read_only(&self) -> katydid::Result<Database> {
        // The memory engine needs what it needed before.
        let memory = MemoryOptions { memory_bytes: 1 << 60, ..MemoryOptions::default() };
        let engine = Database::engine_at(&self.dir)?.with(PagedOptions::default(), memory);
        let options = Options { access: Access::ReadOnly, create: false, engine, ..Options::default() };
        let if_found = Some(MediumSettings::default());
        open_telling(options, if_found, |options| Database::open_with(&self.dir, options))
    }

    /// Opens the database, creating it if there is none.
    pub fn open_or_create(&self, engine: &EngineFlags) -> Result<Database> {
        open(&self.dir, engine.apply(&self.dir, Options::default())?, engine.log.if_found()?)
    }

    /// Fails if there is no database in the folder.
    pub fn must_exist(&self) -> Result<()> {
        let why = match is_folder(&self.dir) {
            Ok(()) if holds_database(&self.dir) || may_have_lost_control(&self.dir) => return Ok(()),
            Ok(()) => "the folder holds something else, or nothing".to_owned(),
            Err(why) => why,
        };
        Err(Failure::failed(format_args!("there is no database in {}: {why}", self.dir.display())))
    }
}

/// Fails, with the reason, if there is no folder there that can be read.
pub fn is_folder(dir: &Path) -> std::result::Result<(), String> {
    match std::fs::read_dir(dir) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.kind() {
            ErrorKind::NotFound => "no such folder".to_owned(),
            ErrorKind::NotADirectory => "it is not a folder".to_owned(),
            _ => format!("the folder cannot be read: {error}"),
        }),
    }
}

/// Returns whether a folder holds a database, judged by its control file (`docs/page-format.md`);
/// its creation may have been interrupted.
pub fn holds_database(dir: &Path) -> bool {
    ["katydid.control", "katydid.control.new"].iter().any(|name| dir.join(name).is_file())
}

/// Returns whether a folder may hold a database that has lost its control file: opening finds out,
/// and changes nothing.
fn may_have_lost_control(dir: &Path) -> bool {
    dir.join("katydid.pages").is_file() || ["log", "checkpoints"].iter().any(|name| dir.join(name).is_dir())
}

/// Lets other processes observe a database that this one has open, until the result is dropped. If
/// the folder cannot hold a socket, the command goes on without one.
pub fn listen(database: &Database, dir: &Path) -> Option<Socket> {
    match Socket::open(database, dir) {
        Ok(socket) => Some(socket),
        Err(error) => {
            log::warn!("other programs cannot observe the database while this command runs: {error}");
            None
        }
    }
}

/// Closes the database after the output, so that findings are printed first. Returns the error of
/// the output if there is one, else the error of closing.
pub fn close_after(database: &Database, told: Result<()>) -> Result<()> {
    let closed = database.close();
    told?;
    Ok(closed?)
}

/// Opens a database in a folder, and shows the progress of recovery. If its log is of another kind,
/// opens it as that kind with the settings of `if_found`; without them this is an error.
pub fn open(dir: &Path, options: Options, if_found: Option<MediumSettings>) -> Result<Database> {
    open_showing(options, if_found, |options| Database::open_with(dir, options))
}

/// Opens a database by `open`, and shows the progress of recovery.
pub fn open_showing(
    options: Options,
    if_found: Option<MediumSettings>,
    open: impl Fn(Options) -> katydid::Result<Database>,
) -> Result<Database> {
    Ok(open_telling(options, if_found, open)?)
}

fn open_telling(
    mut options: Options,
    if_found: Option<MediumSettings>,
    open: impl Fn(Options) -> katydid::Result<Database>,
) -> katydid::Result<Database> {
    let shown = Arc::new(Mutex::new(None));
    let showing = Arc::clone(&shown);
    options.advanced.on_recovery = Some(Arc::new(move |phase, done, of| {
        let mut shown = showing.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = shown.get_or_insert_with(|| Progress::new("recovery"));
        let fraction = if of == 0 { 1.0 } else { done as f64 / of as f64 };
        progress.show(Some(fraction), || phase.to_string());
    }));
    let mut opened = open(options.clone());
    if let (Err(error), Some(settings)) = (&opened, if_found)
        && let Some(found) = kind_found(error)
    {
        (options.advanced.log.medium, options.access) = (settings.medium(found), Access::ReadWrite);
        opened = open(options);
    }
    // The database keeps the receiver; the bar must go before the next one comes.
    shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    opened
}

/// Returns the table called `name`, which must exist.
pub fn table(database: &Database, name: &str) -> Result<Table> {
    match database.open_table(name)? {
        Some(table) => Ok(table),
        None => Err(no_table(name, &database.tables()?)),
    }
}

/// Makes the failure that there is no table called `name`, which lists the `tables` that there are.
pub fn no_table(name: &str, tables: &[String]) -> Failure {
    let known = match tables.len() {
        0 => "the database has no tables".to_owned(),
        1..=10 => format!("there are: {}", tables.join(", ")),
        many => format!("there are {many} others"),
    };
    Failure::failed(format_args!("there is no table {name:?}; {known}"))
}
