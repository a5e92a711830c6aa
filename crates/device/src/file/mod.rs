//! Directories and files of the operating system: Linux, and macOS through the page cache only.
//!
//! Any thread may call this code. A call holds latches of its own file only, and none when it
//! returns.
//!
//! Invariants:
//!
//! 1. Every system call that is interrupted is repeated, and every short write is continued where
//!    it stopped.
//! 2. A failed sync is reported once and never repeated here: the kernel marks the pages clean, so
//!    a second sync of the same range would succeed without having written anything.
//! 3. [`FileDirectory::open`] and [`Directory::subdirectory`] sync the parent of the directory that
//!    they return (`sync_entry` has the exceptions). Creating, renaming and removing files is
//!    durable after [`Directory::sync`], which syncs the directory itself.
//!
//! A crash leaves names and bytes as the rules in `directory.rs` say, nothing else.

mod buffered;
#[cfg(target_os = "linux")]
mod direct;
mod handle;
mod past_cache;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod uring;

use crate::directory::{Create, Directory, DirectoryLock, File, Method};
use crate::error::{Cause, Error, Result, Verb};
use crate::lock;
use crate::name;
use crate::nvram::{NvRegion, Persistence};
use crate::os::{self, retry};
use buffered::BufferedFile;
use handle::Handle;
use past_cache::PastCache;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of the file system.
pub struct FileDirectory {
    fd: OwnedFd,
    path: PathBuf,
    /// Shared with the directories inside this one.
    past_cache: PastCache,
}

impl FileDirectory {
    /// Opens the directory at `path`. Missing directories are created, and each one's parent is
    /// synced. If the directory exists, its parent is synced too, so that the entry is durable
    /// even if the process that created the directory has died before syncing the entry.
    pub fn open(path: impl AsRef<Path>) -> Result<FileDirectory> {
        let path = path.as_ref();
        create_path(path)?;
        Self::open_existing_at(path, PastCache::new())
    }

    /// Opens the directory at `path`, which must exist. Nothing is created.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<FileDirectory> {
        Self::open_existing_at(path.as_ref(), PastCache::new())
    }

    /// Returns the absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_existing_at(path: &Path, past_cache: PastCache) -> Result<FileDirectory> {
        let fail = |error: io::Error| Error::from_io(Verb::Open, path.display().to_string(), error);
        let path = fs::canonicalize(path).map_err(fail)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd =
            retry(|| rustix::fs::open(&path, flags, Mode::empty())).map_err(|errno| fail(errno.into()))?;
        Ok(FileDirectory { fd, path, past_cache })
    }

    fn stat(&self) -> Result<Stat> {
        let fail = |errno: rustix::io::Errno| {
            Error::from_io(Verb::Open, self.path.display().to_string(), errno.into())
        };
        retry(|| rustix::fs::fstat(&self.fd)).map_err(fail)
    }

    fn subject(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn open_fd(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        retry(|| rustix::fs::openat(&self.fd, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644)))
    }
}

fn create_path(path: &Path) -> Result<()> {
    let fail = |error: io::Error| Error::from_io(Verb::Open, path.display().to_string(), error);
    match fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return sync_entry(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = parent_of(path) else { return Err(fail(error)) };
            create_path(parent)?;
            match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fail(error)),
                _ => {}
            }
        }
        Err(error) => return Err(fail(error)),
    }
    let Some(parent) = parent_of(path) else { return Ok(()) };
    FileDirectory::open_existing(parent)?.sync()
}

/// Makes the entry of an existing directory durable. Does nothing for a mount point, which has no
/// entry on the device of its parent, and for a parent that this process may not read.
fn sync_entry(path: &Path) -> Result<()> {
    let directory = FileDirectory::open_existing(path)?;
    let Some(parent) = directory.path.parent() else { return Ok(()) };
    let parent = match FileDirectory::open_existing(parent) {
        Err(Error { cause: Cause::Io(error), .. }) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(());
        }
        parent => parent?,
    };
    if parent.stat()?.st_dev == directory.stat()?.st_dev { parent.sync() } else { Ok(()) }
}

fn parent_of(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

impl Directory for FileDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        name::check(Verb::Open, name)?;
        let fail = |errno: rustix::io::Errno| Error::from_io(Verb::Open, self.subject(name), errno.into());
        let create_flags = match create {
            Create::Never => OFlags::empty(),
            Create::IfMissing => OFlags::CREATE,
            Create::New => OFlags::CREATE | OFlags::EXCL,
        };
        let fd = self.open_fd(name, OFlags::RDWR | create_flags).map_err(fail)?;
        let handle = Handle::new(fd, self.path.join(name));
        let opened = self.past_cache.open(self, name, method, handle);
        Ok(opened.unwrap_or_else(|handle| Arc::new(BufferedFile::new(handle))))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        name::check(Verb::Open, name)?;
        let fd = self
            .open_fd(name, OFlags::RDONLY)
            .map_err(|errno| Error::from_io(Verb::Open, self.subject(name), errno.into()))?;
        Ok(Arc::new(BufferedFile::new(Handle::new(fd, self.path.join(name)))))
    }

    fn list(&self) -> Result<Vec<String>> {
        let fail = |error: io::Error| Error::from_io(Verb::List, self.path.display().to_string(), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            // A name that is not UTF-8 belongs to another program, because every name made here is
            // UTF-8.
            if let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string())
                && kind.is_file()
                && name != lock::LOCK_NAME
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
        retry(|| rustix::fs::renameat(&self.fd, from, &self.fd, to)).map_err(|errno| {
            Error::from_io(Verb::Rename, format!("{} to {to}", self.subject(from)), errno.into())
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        name::check(Verb::Remove, name)?;
        retry(|| rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()))
            .map_err(|errno| Error::from_io(Verb::Remove, self.subject(name), errno.into()))
    }

    fn sync(&self) -> Result<()> {
        retry(|| os::sync_all(&self.fd)).map_err(|errno| {
            Error::from_io(Verb::SyncDirectory, self.path.display().to_string(), errno.into())
        })
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(lock::take(&self.fd, &self.path)?))
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(lock::take_to_read(&self.fd, &self.path)?))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        name::check(Verb::Open, name)?;
        match retry(|| rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o755))) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(Error::from_io(Verb::Open, self.subject(name), errno.into())),
        }
        // This sync is needed even if the subdirectory exists: the process that created it may have
        // died before syncing its entry.
        self.sync()?;
        Ok(Arc::new(Self::open_existing_at(&self.path.join(name), self.past_cache.clone())?))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        name::check(Verb::Open, name)?;
        match Self::open_existing_at(&self.path.join(name), self.past_cache.clone()) {
            Ok(directory) => Ok(Some(Arc::new(directory))),
            Err(Error { cause: Cause::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        name::check(Verb::Map, name)?;
        Ok(Arc::new(NvRegion::open(self.path.join(name), bytes, want)?))
    }

    fn describe(&self) -> String {
        let kind = os::file_system(&self.fd);
        format!("{} ({kind})", self.path.display())
    }
}

impl fmt::Debug for FileDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileDirectory({})", self.path.display())
    }
}
