//! Backups of an open database, and restoring them.
//!
//! On the thread of the caller. What a copy is and what a crash leaves of it is in [`crate::copy`]; how an engine copies is in its `copy`.

use crate::backup_options::{BackupOptions, BackupReport};
use crate::control;
use crate::copy::{Copied, Manifest, Pace, Target, refuse_incomplete};
use crate::creation;
use crate::database::Database;
use crate::directory::existing;
use crate::engine::Engine;
use crate::error::{CopyFault, Error, Result};
use crate::open;
use crate::options::Options;
use katydid_device::{self as device, Directory, FileDirectory, Id, Verb};
use std::path::Path;
use std::sync::Arc;

impl Database {
    /// Copies the database into directory `to`, while it is used. `to` is created if missing, and must be empty.
    ///
    /// The copy is a database of its own, with an id of its own. Its state is that of one moment after the call has begun: all transactions that were
    /// durable when the call began are in it, and none in part. It can be opened, or kept and restored ([`Database::restore`]).
    ///
    /// Transactions go on meanwhile, and so do checkpoints; but the log is kept from where it begins when the call does, for at most
    /// `Options::log_hard_bytes` of it.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// let database = katydid::Database::open(folder.path().join("db"))?;
    /// let fruit = database.table("fruit")?;
    /// database.put(&fruit, "apple", "red")?;
    /// let report = database.backup(folder.path().join("copy"))?;
    /// database.put(&fruit, "pear", "green")?;
    ///
    /// let copy = katydid::Database::open(folder.path().join("copy"))?;
    /// let fruit = copy.table("fruit")?;
    /// assert_eq!(copy.get(&fruit, "apple")?.as_deref(), Some(&b"red"[..]));
    /// assert_eq!(copy.get(&fruit, "pear")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::Copy` if `to` is not empty, the log is in NVRAM, or the log grew by more than `Options::log_hard_bytes` meanwhile; `Error::Corrupt` if a page or checkpoint is damaged; `Error::Poisoned`, `Error::Closed`;
    /// failures of either device. After an error the database is as it was, and `to` holds an incomplete copy, which no call takes for a whole one:
    /// remove it.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(to, &BackupOptions::default())
    }

    /// Copies the database into directory `to` with a limit of speed, progress or a check. See [`Database::backup`].
    ///
    /// # Errors
    /// Those of [`Database::backup`]; `Error::Copy` if the receiver of progress cancels.
    pub fn backup_with(&self, to: impl AsRef<Path>, options: &BackupOptions) -> Result<BackupReport> {
        self.opening().check()?;
        self.backup_in(empty(to.as_ref())?, options)
    }

    /// Copies the database into an empty directory of any device. See [`Database::backup_with`].
    ///
    /// # Errors
    /// Those of [`Database::backup_with`].
    pub fn backup_in(&self, to: Arc<dyn Directory>, options: &BackupOptions) -> Result<BackupReport> {
        let check = || if self.opening().is_closing() { Err(Error::Closed) } else { Ok(()) };
        check()?;
        let source = self.of.id();
        make(to, self.of.options(), options, &check, source, |target, pace| self.of.copy(target, pace))
    }

    /// Makes a database in directory `to` of the backup in directory `from`. `to` is created if missing, and must be empty. Nothing in `from` is changed.
    ///
    /// The result is a copy of the backup with an id of its own, not opened yet. Damage to pages and checkpoints is found on the way;
    /// [`BackupOptions::verify`] checks everything.
    ///
    /// # Errors
    /// `Error::Copy` if `from` is no backup, incomplete, or was opened since it was made (open it, or back it up), or if `to` is not empty;
    /// `Error::NotFound`, `Error::Locked`, `Error::Corrupt`; failures of either device.
    pub fn restore(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        let from = Arc::new(existing(from.as_ref())?);
        Self::restore_in(from, empty(to.as_ref())?, options)
    }

    /// Makes a database of a backup, in directories of any device. See [`Database::restore`].
    ///
    /// # Errors
    /// Those of [`Database::restore`].
    pub fn restore_in(
        from: Arc<dyn Directory>,
        to: Arc<dyn Directory>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        refuse_incomplete(from.as_ref())?;
        let _lock = from.lock_to_read()?;
        let Some(control) = control::read(from.as_ref())? else {
            creation::refuse_lost_control(from.as_ref())?;
            return Err(Error::NotFound { place: from.describe() });
        };
        let manifest = match Manifest::read(from.as_ref())? {
            Some(manifest) if manifest.id == control.database => manifest,
            _ => return Err(Error::copy(from.as_ref(), CopyFault::NoBackup)),
        };
        if open::incarnations(from.as_ref())? != manifest.incarnations {
            return Err(Error::copy(from.as_ref(), CopyFault::OpenedSince));
        }
        let settings = Options::default();
        make(to, &settings, options, &|| Ok(()), control.database, |target, pace| {
            open::copy_unopened(&from, &control, target, pace)?;
            let control = control::Control { database: target.id, ..control };
            Ok(Copied { control, stamp: manifest.stamp, incarnations: manifest.incarnations })
        })
    }
}

/// Makes a copy of the database `source` in `to`.
fn make(
    to: Arc<dyn Directory>,
    settings: &Options,
    options: &BackupOptions,
    check: &dyn Fn() -> Result<()>,
    source: Id,
    copy: impl FnOnce(&Target, &mut Pace<'_>) -> Result<Copied>,
) -> Result<BackupReport> {
    let log = crate::LogOptions { log_id: None, ..settings.log.clone() };
    let target = Target::begin(to.clone(), &log)?;
    let (id, mut pace) = (target.id, Pace::new(options, to.describe(), check));
    let copied = copy(&target, &mut pace)?;
    // What was read after the source was closed may be what the next opening has written.
    pace.check()?;
    target.finish(source, &copied)?;
    let (bytes, elapsed) = (pace.done(), pace.elapsed());
    let verified = options.verify.then(|| Database::verify_in(to, None)).transpose()?;
    Ok(BackupReport { id, stamp: copied.stamp, bytes, elapsed, verified })
}

/// The directory at `path`, made if it is missing, in which there is nothing.
fn empty(path: &Path) -> Result<Arc<dyn Directory>> {
    let directory = FileDirectory::open(path)?;
    refuse_incomplete(&directory)?;
    let failed = |error| Error::from(device::Error::from_io(Verb::Open, path.display().to_string(), error));
    match std::fs::read_dir(path).map_err(failed)?.next() {
        None => Ok(Arc::new(directory)),
        Some(entry) => {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            Err(Error::copy(&directory, CopyFault::NotEmpty { name }))
        }
    }
}
