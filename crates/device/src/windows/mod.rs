//! Directories and files of Windows, through its cache.
//!
//! Any thread may call this code. A call holds latches of its own file only, and none when it
//! returns. This folder is compiled by `cargo xtask nightly`, and was never run.
//!
//! Invariants:
//!
//! 1. Bytes are durable when `FlushFileBuffers` has returned for their file: this call writes them
//!    out and then empties the cache of the drive. A durable write is a write followed by this
//!    call.
//! 2. A failed flush is reported once and never repeated here.
//! 3. No call flushes a directory. [`Directory::sync`] changes a file of its own in the directory
//!    ([`NAMES`]), and flushes this file. NTFS notes every change of names in one log for the whole
//!    volume, in order, and brings back a prefix of this log after a crash. So once the change of
//!    [`NAMES`] is durable, all earlier changes of names are durable too. File systems without such
//!    a log (FAT, exFAT) promise nothing about names.
//! 4. A renamed file replaces the one that had the name (`MoveFileExW` with
//!    `MOVEFILE_REPLACE_EXISTING`), as one entry of that log.
//!
//! A crash leaves names and bytes as the rules in `directory.rs` say, nothing else.

mod file;
mod lock;

use crate::directory::{Create, Directory, DirectoryLock, File, Method};
use crate::error::{Cause, Error, Result, Verb};
use crate::name;
use file::WindowsFile;
use lock::LOCK_NAME;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that stands for the directory's names (invariant 3); hidden from listings.
const NAMES: &str = "NAMES";

/// A directory of the file system.
pub struct FileDirectory {
    path: PathBuf,
}

impl FileDirectory {
    /// Opens the directory at `path`. Missing directories are created, durably.
    pub fn open(path: impl AsRef<Path>) -> Result<FileDirectory> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::open_existing(path);
        }
        fs::create_dir_all(path)
            .map_err(|error| Error::from_io(Verb::Open, path.display().to_string(), error))?;
        let directory = Self::open_existing(path)?;
        directory.sync()?;
        Ok(directory)
    }

    /// Opens the directory at `path`, which must exist. Nothing is created.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<FileDirectory> {
        let path = path.as_ref();
        let fail = |error: io::Error| Error::from_io(Verb::Open, path.display().to_string(), error);
        let found = fs::canonicalize(path).map_err(fail)?;
        if !found.is_dir() {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        Ok(FileDirectory { path: found })
    }

    /// Returns the absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn subject(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn open_file(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn File>> {
        name::check(Verb::Open, name)?;
        let path = self.path.join(name);
        let file =
            options.open(&path).map_err(|error| Error::from_io(Verb::Open, self.subject(name), error))?;
        Ok(Arc::new(WindowsFile::new(file, path)))
    }
}

impl Directory for FileDirectory {
    fn open(&self, name: &str, create: Create, _: Method) -> Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match create {
            Create::Never => {}
            Create::IfMissing => _ = options.create(true).truncate(false),
            Create::New => _ = options.create_new(true),
        }
        self.open_file(name, &options)
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_file(name, OpenOptions::new().read(true))
    }

    fn list(&self) -> Result<Vec<String>> {
        let fail = |error: io::Error| Error::from_io(Verb::List, self.path.display().to_string(), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            // A name that is not Unicode belongs to another program, because every name made here
            // is Unicode.
            if let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string())
                && kind.is_file()
                && name != LOCK_NAME
                && name != NAMES
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        name::check(Verb::Rename, from)?;
        name::check(Verb::Rename, to)?;
        fs::rename(self.path.join(from), self.path.join(to))
            .map_err(|error| Error::from_io(Verb::Rename, format!("{} to {to}", self.subject(from)), error))
    }

    fn remove(&self, name: &str) -> Result<()> {
        name::check(Verb::Remove, name)?;
        fs::remove_file(self.path.join(name))
            .map_err(|error| Error::from_io(Verb::Remove, self.subject(name), error))
    }

    fn sync(&self) -> Result<()> {
        let flush = || {
            let path = self.path.join(NAMES);
            let mut names = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            // The file gets longer or shorter each time, which changes its entry and not only its
            // bytes.
            match names.metadata()?.len() {
                0 => names.write_all(&[0])?,
                _ => names.set_len(0)?,
            }
            names.sync_all()
        };
        flush().map_err(|error| Error::from_io(Verb::SyncDirectory, self.path.display().to_string(), error))
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(lock::take(&self.path)?))
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(lock::take_to_read(&self.path)?))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        name::check(Verb::Open, name)?;
        match fs::create_dir(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::from_io(Verb::Open, self.subject(name), error));
            }
            // This sync is needed even if the subdirectory exists: the process that created it may
            // have died before its entry was durable.
            _ => self.sync()?,
        }
        Ok(Arc::new(Self::open_existing(self.path.join(name))?))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        name::check(Verb::Open, name)?;
        match Self::open_existing(self.path.join(name)) {
            Ok(directory) => Ok(Some(Arc::new(directory))),
            Err(Error { cause: Cause::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn describe(&self) -> String {
        format!("{} (file system)", self.path.display())
    }
}

impl fmt::Debug for FileDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileDirectory({})", self.path.display())
    }
}
