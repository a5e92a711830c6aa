//! The lock of a directory on Windows: `LockFileEx` on a file named `LOCK`.
//!
//! Any thread may call this code. Invariants:
//!
//! 1. The kernel alone decides which process holds the lock. The lock belongs to the open file, so
//!    a second attempt in the same process is refused too; and the kernel releases the lock however
//!    the process ends.
//! 2. The lock keeps other processes from reading the file, so an error cannot name the holder:
//!    `Cause::Locked(None)`.
//! 3. The file is never removed: removing it would let two processes hold locks on two files of the
//!    same name.

use crate::directory::DirectoryLock;
use crate::error::{Cause, Error, Result, Verb};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// The lock file's name; hidden from listings.
pub(super) const LOCK_NAME: &str = "LOCK";

/// The lock of a directory, held while the directory is in use.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
}

impl DirectoryLock for FileLock {}
impl DirectoryLock for Option<FileLock> {}

impl Drop for FileLock {
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock, perhaps later.
        self.file.unlock().ok();
    }
}

/// Takes the lock of a directory.
pub(super) fn take(directory: &Path) -> Result<FileLock> {
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    match options.open(directory.join(LOCK_NAME)) {
        Ok(file) => locked(file, File::try_lock, directory),
        Err(error) => Err(fail(directory, error)),
    }
}

/// Shares the lock of a directory with other readers. Writes nothing. Returns `None` if no process
/// ever took the lock.
pub(super) fn take_to_read(directory: &Path) -> Result<Option<FileLock>> {
    match OpenOptions::new().read(true).open(directory.join(LOCK_NAME)) {
        Ok(file) => locked(file, File::try_lock_shared, directory).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(fail(directory, error)),
    }
}

fn locked(
    file: File,
    take: fn(&File) -> std::result::Result<(), TryLockError>,
    directory: &Path,
) -> Result<FileLock> {
    match take(&file) {
        Ok(()) => Ok(FileLock { file }),
        Err(TryLockError::WouldBlock) => {
            Err(Error::new(Verb::Lock, directory.display().to_string(), Cause::Locked(None)))
        }
        Err(TryLockError::Error(error)) => Err(fail(directory, error)),
    }
}

fn fail(directory: &Path, error: io::Error) -> Error {
    Error::from_io(Verb::Lock, directory.display().to_string(), error)
}
