//! Where a database is, and opening it.
//!
//! Commands that only look never create a database, a table or a folder. All commands lock the folder while they have the
//! database open; `verify` and `dump-log` do not open it.

use crate::failure::{Failure, Result};
use crate::progress::Progress;
use clap::Args;
use katydid::{Database, Options, Table};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The folder of a database.
#[derive(Debug, Args)]
pub struct Place {
    /// Folder of the database
    #[arg(long, value_name = "DIR", default_value = "katydid-data")]
    pub dir: PathBuf,
}

impl Place {
    /// Opens the database, which must exist.
    pub fn open(&self) -> Result<Database> {
        // Asked for first, so that not even an empty folder is made.
        self.must_exist()?;
        open(&self.dir, Options { create: false, ..Options::default() })
    }

    /// Opens the database, creating it if there is none.
    pub fn open_or_create(&self) -> Result<Database> {
        open(&self.dir, Options::default())
    }

    /// Fails if there is no database in the folder.
    pub fn must_exist(&self) -> Result<()> {
        let why = match self.dir.is_dir() {
            true if holds_database(&self.dir) => return Ok(()),
            true => "the folder holds something else, or nothing",
            false => "no such folder",
        };
        Err(Failure::failed(format_args!("there is no database in {}: {why}", self.dir.display())))
    }
}

/// Whether a folder holds a database, told by its control file (`docs/page-format.md`). Asked before the store is, because
/// opening takes the folder's lock first and so would leave a lock file in a folder of somebody else's.
pub fn holds_database(dir: &Path) -> bool {
    ["katydid.control", "katydid.control.new"].iter().any(|name| dir.join(name).is_file())
}

/// Opens a database in a folder, showing the progress of recovery.
pub fn open(dir: &Path, options: Options) -> Result<Database> {
    open_showing(options, |options| Database::open_with(dir, options))
}

/// The same for a database that `open` opens.
pub fn open_showing(
    mut options: Options,
    open: impl FnOnce(Options) -> katydid::Result<Database>,
) -> Result<Database> {
    let shown = Arc::new(Mutex::new(None));
    let showing = Arc::clone(&shown);
    options.on_recovery = Some(Arc::new(move |phase, done, of| {
        let mut shown = showing.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = shown.get_or_insert_with(|| Progress::new("recovery"));
        let fraction = if of == 0 { 1.0 } else { done as f64 / of as f64 };
        progress.show(Some(fraction), || phase.to_string());
    }));
    let opened = open(options);
    // The database keeps the receiver; the bar must go before the next one comes.
    shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(opened?)
}

/// The table called `name`, which must exist.
pub fn table(database: &Database, name: &str) -> Result<Table> {
    match database.open_table(name)? {
        Some(table) => Ok(table),
        None => {
            let tables = database.tables()?;
            let known = match tables.len() {
                0 => "the database has no tables".to_owned(),
                1..=10 => format!("there are: {}", tables.join(", ")),
                many => format!("there are {many} others"),
            };
            Err(Failure::failed(format_args!("there is no table {name:?}; {known}")))
        }
    }
}
