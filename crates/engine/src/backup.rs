//! Backups of an open database, and restoring them.
//!
//! The thread of the caller does all work. [`crate::copy`] says what a copy is and what a crash
//! leaves of it. The module `copy` of each engine says how that engine copies.

use crate::backup_options::{BackupOptions, BackupReport};
use crate::control;
use crate::copy::{
    Base, Copied, INCREMENT, Manifest, Pace, Target, Unopened, refuse_incomplete, refuse_interrupted,
};
use crate::creation;
use crate::database::Database;
use crate::directory::existing;
use crate::engine::Engine;
use crate::error::{CopyFault, Error, Result};
use crate::open;
use crate::options::Options;
use crate::quarantine::refuse_repairing;
use katydid_device::{self as device, Directory, DirectoryLock, FileDirectory, Id, Verb};
use std::path::Path;
use std::sync::Arc;

impl Database {
    /// Copies the database into directory `to`, while transactions go on. `to` is created if
    /// missing, and must be empty.
    ///
    /// The copy is a database of its own, with an id of its own. The copy shows the database at one
    /// moment after the call began. The copy contains every transaction that was durable when the
    /// call began, and any other transaction whole or not at all. The copy can be opened, or kept
    /// and restored ([`Database::restore`]).
    ///
    /// Checkpoints go on during the copy. Until the copy is complete, the database keeps the log
    /// that it had when the call began and all log appended since, at most
    /// `AdvancedOptions::log_hard_bytes` bytes in all.
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
    /// `Error::Copy` if `to` is not empty, the log is in NVRAM, or the log that the copy needs grew
    /// beyond `AdvancedOptions::log_hard_bytes` and was trimmed; `Error::Corrupt` if a page or
    /// checkpoint is damaged; `Error::Poisoned`, `Error::Closed`; failures of either device. After
    /// an error the database is unchanged. If the copying had begun, `to` holds an incomplete copy,
    /// which no call opens or restores: remove it.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(to, &BackupOptions::default())
    }

    /// Copies the database into directory `to` with `options`: a speed limit, a receiver of
    /// progress, a check of the copy. See [`Database::backup`].
    ///
    /// # Errors
    /// The errors of [`Database::backup`]; `Error::Copy` if the receiver of progress cancels.
    pub fn backup_with(&self, to: impl AsRef<Path>, options: &BackupOptions) -> Result<BackupReport> {
        self.opening().check()?;
        self.backup_in(empty(to.as_ref())?, options)
    }

    /// Copies the database into an empty directory of any device. See [`Database::backup_with`].
    ///
    /// # Errors
    /// The errors of [`Database::backup_with`].
    pub fn backup_in(&self, to: Arc<dyn Directory>, options: &BackupOptions) -> Result<BackupReport> {
        self.copy_to(to, None, options)
    }

    /// Copies the changes since the backup in directory `base` into directory `to`. The result is
    /// an increment, which is restored together with `base`. `base` may be an increment itself.
    /// `to` is created if missing, and must be empty. The call works as [`Database::backup_with`]
    /// does, but ignores [`BackupOptions::verify`]: an increment is checked when it is restored.
    ///
    /// The call reads all pages, and writes the changed ones. The memory engine has no increments.
    ///
    /// # Errors
    /// The errors of [`Database::backup_with`]; `Error::Copy` if `base` is not a backup of this
    /// database, or was opened since it was made; `Error::LogOpen` if a file of the log of `base`
    /// is lost or damaged. A database that was restored has a new id, so its first backup must be a
    /// whole one.
    pub fn backup_changes(
        &self,
        to: impl AsRef<Path>,
        base: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        self.opening().check()?;
        let base = existing(base.as_ref())?;
        self.backup_changes_in(empty(to.as_ref())?, &base, options)
    }

    /// Copies the changes since a backup, between directories of any device. See
    /// [`Database::backup_changes`].
    ///
    /// # Errors
    /// The errors of [`Database::backup_changes`].
    pub fn backup_changes_in(
        &self,
        to: Arc<dyn Directory>,
        base: &dyn Directory,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        refuse_interrupted(base)?;
        let Some(Manifest { id, source, log_start, incarnations, .. }) = Manifest::read(base)? else {
            return Err(Error::copy(base, CopyFault::NoBackup));
        };
        if source != self.of.id() {
            return Err(Error::copy(base, CopyFault::OtherDatabase { database: source }));
        }
        // A restore would refuse this base, so the increment could never be restored.
        if open::incarnations(base)? != incarnations {
            return Err(Error::copy(base, CopyFault::OpenedSince));
        }
        self.copy_to(to, Some(Base { id, changed_from: log_start }), options)
    }

    fn copy_to(
        &self,
        to: Arc<dyn Directory>,
        base: Option<Base>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        let check = || if self.opening().is_closing() { Err(Error::Closed) } else { Ok(()) };
        check()?;
        let source = self.of.id();
        let copy = |target: &Target, pace: &mut Pace<'_>| self.of.copy(target, pace);
        make(to, base, self.of.options(), options, &check, source, copy)
    }

    /// Makes a database in directory `to` from the backup in directory `from`. `to` is created if
    /// missing, and must be empty. Nothing in `from` is changed.
    ///
    /// The result is a copy of the backup. The copy has an id of its own, and was never opened. The
    /// call finds damaged pages and checkpoints while it copies them; [`BackupOptions::verify`]
    /// checks everything.
    ///
    /// # Errors
    /// `Error::Copy` if `from` is no backup, is incomplete, or was opened since it was made (then
    /// open it, or make a backup of it); `Error::Copy` if `to` is not empty; `Error::Repair` if a
    /// repair of `from` was interrupted; `Error::NotFound`, `Error::Locked`, `Error::Corrupt`,
    /// `Error::LogOpen`, `Error::Foreign`; failures of either device.
    pub fn restore(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        Self::restore_chain(&[from], to, options)
    }

    /// Makes a database from a whole backup and the increments to it, given in the order in which
    /// they were made. The database has the state of the last element of `from`. See
    /// [`Database::restore`].
    ///
    /// # Errors
    /// The errors of [`Database::restore`]; `Error::Copy` with [`CopyFault::WrongBase`] if an
    /// increment was not made from the backup before it in `from`; `Error::Option` if `from` is
    /// empty.
    pub fn restore_chain(
        from: &[impl AsRef<Path>],
        to: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        let mut directories: Vec<Arc<dyn Directory>> = Vec::with_capacity(from.len());
        for from in from {
            directories.push(Arc::new(existing(from.as_ref())?));
        }
        let chain = chain_of(&directories)?;
        Self::restore_of(&chain, empty(to.as_ref())?, options)
    }

    /// Makes a database from a backup, in directories of any device. See [`Database::restore`].
    ///
    /// # Errors
    /// The errors of [`Database::restore`].
    pub fn restore_in(
        from: Arc<dyn Directory>,
        to: Arc<dyn Directory>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        Self::restore_chain_in(&[from], to, options)
    }

    /// Makes a database from a backup and increments to it, in directories of any device. See
    /// [`Database::restore_chain`].
    ///
    /// # Errors
    /// The errors of [`Database::restore_chain`].
    pub fn restore_chain_in(
        from: &[Arc<dyn Directory>],
        to: Arc<dyn Directory>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        Self::restore_of(&chain_of(from)?, to, options)
    }

    fn restore_of(chain: &Chain, to: Arc<dyn Directory>, options: &BackupOptions) -> Result<BackupReport> {
        let Chain { copies, control, .. } = chain;
        let Some(Unopened { manifest, .. }) = copies.last() else {
            return Err(Error::Option { option: "from", reason: "at least one backup".to_owned() });
        };
        let settings = Options::default();
        make(to, None, &settings, options, &|| Ok(()), manifest.id, |target, pace| {
            let control = open::copy_unopened(copies, control, target, pace, None)?;
            let control = control::Control { database: target.id, ..control };
            let Manifest { stamp, incarnations, log_start, .. } = *manifest;
            Ok(Copied { control, stamp, incarnations, log_start })
        })
    }
}

/// A whole copy and the increments to it.
pub(crate) struct Chain {
    pub(crate) copies: Vec<Unopened>,
    /// The control file of the last copy.
    pub(crate) control: control::Control,
    _locks: Vec<Box<dyn DirectoryLock>>,
}

/// Reads and checks the copies in `directories`, which are to be restored together.
pub(crate) fn chain_of(directories: &[Arc<dyn Directory>]) -> Result<Chain> {
    let mut copies: Vec<Unopened> = Vec::with_capacity(directories.len());
    let mut locks = Vec::with_capacity(directories.len());
    let mut last = None;
    for directory in directories {
        // The lock is taken first, so that no process changes the directory during the checks.
        // `lock_to_read` makes no file.
        locks.push(directory.lock_to_read()?);
        refuse_interrupted(directory.as_ref())?;
        refuse_repairing(directory.as_ref())?;
        if copies.is_empty() {
            refuse_incomplete(directory.as_ref())?;
        }
        let name = if copies.is_empty() { control::FILE_NAME } else { INCREMENT };
        let manifest = Manifest::read(directory.as_ref())?;
        if let (Some(before), Some(Manifest { base, .. })) = (copies.last(), manifest)
            && base != Some(before.manifest.id)
        {
            let fault = CopyFault::WrongBase { base, found: before.manifest.id };
            return Err(Error::copy(directory.as_ref(), fault));
        }
        let Some(control) = control::read_as(name, directory.as_ref())? else {
            creation::refuse_lost_control(directory.as_ref())?;
            return Err(Error::NotFound { place: directory.describe() });
        };
        let manifest = match manifest {
            Some(manifest) if manifest.id == control.database => manifest,
            _ => return Err(Error::copy(directory.as_ref(), CopyFault::NoBackup)),
        };
        if open::incarnations(directory.as_ref())? != manifest.incarnations {
            return Err(Error::copy(directory.as_ref(), CopyFault::OpenedSince));
        }
        last = Some(control);
        copies.push(Unopened { directory: directory.clone(), manifest });
    }
    match last {
        Some(control) => Ok(Chain { copies, control, _locks: locks }),
        None => Err(Error::Option { option: "from", reason: "at least one backup".to_owned() }),
    }
}

/// Makes a copy of the database `source` in `to`.
pub(crate) fn make(
    to: Arc<dyn Directory>,
    base: Option<Base>,
    settings: &Options,
    options: &BackupOptions,
    check: &dyn Fn() -> Result<()>,
    source: Id,
    copy: impl FnOnce(&Target, &mut Pace<'_>) -> Result<Copied>,
) -> Result<BackupReport> {
    let log = crate::LogOptions { log_id: None, ..settings.advanced.log.clone() };
    let target = Target::begin(to.clone(), &log, base)?;
    let (id, mut pace) = (target.id, Pace::new(options, to.describe(), check));
    let copied = copy(&target, &mut pace);
    // Check before the outcome of the reads is used: if the source was closed, a read may have
    // returned bytes that the next opening wrote, or failed because the next opening removed the
    // file.
    pace.check()?;
    let copied = copied?;
    target.finish(source, &copied)?;
    let (bytes, elapsed) = (pace.done(), pace.elapsed());
    // An increment cannot be verified, because it is no database by itself.
    let is_checked = options.verify && base.is_none();
    let verified = is_checked.then(|| Database::verify_in(to, None)).transpose()?;
    Ok(BackupReport { id, stamp: copied.stamp, bytes, elapsed, verified })
}

/// Opens the directory at `path`, which is created if missing; `Error::Copy` if it is not empty.
pub(crate) fn empty(path: &Path) -> Result<Arc<dyn Directory>> {
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
