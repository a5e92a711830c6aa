//! The folder of a database, and opening the database.
//!
//! Commands that only read change nothing in the folder, and share its lock with each other. All
//! other commands hold the lock exclusively while they have the database open, and so do commands
//! that read a database with its log in NVRAM. `verify` and `dump-log` do not open the database.

use crate::bytes;
use crate::failure::{Failure, Result};
use crate::flags::word;
use crate::log_flags::{LogFlags, kind_found};
use crate::progress::Progress;
use clap::Args;
use katydid::{
    Access, AdvancedOptions, CommitDependencies, Database, EngineKind, EngineOptions, MemoryOptions, Options,
    PagedOptions, STREAMS_MAX, Table,
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

/// Flags of commands that may create a database: for the engine and the log.
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
    /// Number of streams of a new database's log.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(STREAMS_MAX)),
        help = format!(
            "Memory engine: number of streams of a new database's log, from 1 to {STREAMS_MAX} [default: one \
             for each processor]"
        )
    )]
    pub streams: Option<u16>,
    /// Memory engine: records that a commit waits for besides its own: tracked or all
    ///
    /// tracked: the records of the transactions whose versions the commit has read. all: every
    /// record that any stream holds when the transaction commits.
    #[arg(long, value_name = "RULE", default_value = "tracked", value_parser = word::<CommitDependencies>)]
    pub dependences: CommitDependencies,
    /// Memory engine: maximum bytes of keys, values and their bookkeeping
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = bytes::parse)]
    pub memory: u64,
}

impl EngineFlags {
    /// Returns the options with the values of the flags. Keeps the settings of the paged engine.
    /// Without `--engine` the engine is that of the database in `dir`, or the default for a new
    /// database. If `--engine` is not the database's engine, opening fails.
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
    /// Returns the settings that the flags ask for.
    fn options(&self) -> MemoryOptions {
        let own = MemoryOptions::default();
        MemoryOptions {
            streams: self.streams.unwrap_or(own.streams),
            commit_dependencies: self.dependences,
            memory_bytes: self.memory,
        }
    }
}

/// Returns the engine of the database in `dir`, or the default engine if there is no database.
fn engine_of(dir: &Path) -> Result<EngineKind> {
    match Database::engine_at(dir) {
        Err(katydid::Error::NotFound { .. }) => Ok(EngineKind::default()),
        found => Ok(found?),
    }
}

impl DatabaseDir {
    /// Opens the database, which must exist, with the engine that has made it.
    pub fn open(&self) -> Result<Database> {
        // This check comes first, so that opening makes no empty folder.
        self.must_exist()?;
        Ok(self.try_open()?)
    }

    /// Opens the database, which must exist. Returns the engine's error unchanged.
    pub(crate) fn try_open(&self) -> katydid::Result<Database> {
        let engine = Database::engine_at(&self.dir)?.into();
        let options = Options { create: false, engine, ..Options::default() };
        open_with_progress(options, Some(MediumSettings::default()), |options| {
            Database::open_with(&self.dir, options)
        })
    }

    /// Opens the database, which must exist, read-only: nothing in its folder is changed. A log in
    /// NVRAM cannot be read without changing it, so a database with such a log is opened as by
    /// [`DatabaseDir::open`].
    pub fn open_read_only(&self) -> katydid::Result<Database> {
        // This limit cannot be reached, because the database must be readable however much memory
        // its rows need.
        let memory = MemoryOptions { memory_bytes: 1 << 60, ..MemoryOptions::default() };
        let engine = Database::engine_at(&self.dir)?.with(PagedOptions::default(), memory);
        let options = Options { access: Access::ReadOnly, create: false, engine, ..Options::default() };
        let if_found = Some(MediumSettings::default());
        open_with_progress(options, if_found, |options| Database::open_with(&self.dir, options))
    }

    /// Opens the database, which is created if it is missing.
    pub fn open_or_create(&self, engine: &EngineFlags) -> Result<Database> {
        open(&self.dir, engine.apply(&self.dir, Options::default())?, engine.log.if_found()?)
    }

    /// Fails if there is no database in the folder.
    pub fn must_exist(&self) -> Result<()> {
        let why = match is_folder(&self.dir) {
            Ok(()) if holds_database(&self.dir) || may_have_lost_control(&self.dir) => return Ok(()),
            Ok(()) => "the folder is empty or holds other files".to_owned(),
            Err(why) => why,
        };
        Err(Failure::failed(format_args!("there is no database in {}: {why}", self.dir.display())))
    }
}

/// Fails with the reason if `dir` is not a readable folder.
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

/// Returns whether a folder holds a database, judged by its control file (`docs/page-format.md`).
/// The creation of that database may have been interrupted.
pub fn holds_database(dir: &Path) -> bool {
    ["katydid.control", "katydid.control.new"].iter().any(|name| dir.join(name).is_file())
}

/// Returns whether a folder may hold a database that has lost its control file. Opening such a
/// database reports the loss, and changes nothing.
fn may_have_lost_control(dir: &Path) -> bool {
    dir.join("katydid.pages").is_file() || ["log", "checkpoints"].iter().any(|name| dir.join(name).is_dir())
}

/// Lets other processes observe a database that this process has open, until the result is dropped.
/// If the folder cannot hold a socket, prints a warning and returns `None`.
pub fn listen(database: &Database, dir: &Path) -> Option<Socket> {
    match Socket::open(database, dir) {
        Ok(socket) => Some(socket),
        Err(error) => {
            log::warn!("other programs cannot observe the database while this command runs: {error}");
            None
        }
    }
}

/// Closes the database after the output, so that findings are printed first. Returns the failure of
/// the command if there is one, else the error of closing. A closed output is no failure, and hides
/// no error of closing.
pub fn close_after(database: &Database, output: Result<()>) -> Result<()> {
    match (output, database.close()) {
        (Ok(()) | Err(Failure::NobodyReads), Err(error)) => Err(error.into()),
        (output, _) => output,
    }
}

/// Opens a database in a folder, and shows the progress of recovery. If the database's log is of
/// another kind than in `options`, opens the log as its own kind, for writing, with the settings of
/// `if_found`. Without such settings opening fails.
pub fn open(dir: &Path, options: Options, if_found: Option<MediumSettings>) -> Result<Database> {
    open_showing(options, if_found, |options| Database::open_with(dir, options))
}

/// Opens a database by `open`, and shows the progress of recovery. `if_found` is as in the function
/// [`open`].
pub fn open_showing(
    options: Options,
    if_found: Option<MediumSettings>,
    open: impl Fn(Options) -> katydid::Result<Database>,
) -> Result<Database> {
    Ok(open_with_progress(options, if_found, open)?)
}

fn open_with_progress(
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
    // The database keeps the callback, so the bar must be removed here, before the next bar is
    // shown.
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

/// Makes the failure for a missing table `name`, which lists the existing `tables`.
pub fn no_table(name: &str, tables: &[String]) -> Failure {
    let known = match tables.len() {
        0 => "the database has no tables".to_owned(),
        1..=10 => format!("there are: {}", tables.join(", ")),
        many => format!("there are {many} others"),
    };
    Failure::failed(format_args!("there is no table {name:?}; {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_device::SimDevice;

    #[test]
    fn a_closed_output_hides_no_error_of_closing() {
        let device = SimDevice::new(1);
        let database = Database::open_in(device.directory(), Options::default()).expect("open");
        let table = database.table("t").expect("a table");
        database.put(&table, "key", "value").expect("put");
        // Closing takes a checkpoint, which this device refuses. Each call has the same outcome.
        device.freeze();
        let after = |output| close_after(&database, output).expect_err("it cannot be closed");
        assert!(matches!(after(Ok(())), Failure::Failed(_)));
        assert!(matches!(after(Err(Failure::NobodyReads)), Failure::Failed(_)));
        assert!(matches!(after(Err(Failure::Said)), Failure::Said), "the failure of the command comes first");
    }
}
