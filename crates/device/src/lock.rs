//! The lock of a directory of files: an advisory `flock` on a file named `LOCK`, with the holder's
//! process id in it.
//!
//! Any thread may call this code. Invariants:
//!
//! 1. The kernel alone decides which process holds the lock. The process id written in the file is
//!    for the error message only. It may be missing for an instant after the lock was taken, and
//!    for good if it could not be written.
//! 2. `flock` belongs to the open file, so a second attempt in the same process, which opens the
//!    file anew, is refused too. The kernel releases the lock however the process ends, so a crash
//!    never leaves a directory locked. A child process shares the open file from its fork until its
//!    exec, so closing alone would release the lock only after the exec. Therefore dropping the
//!    lock unlocks the open file, whichever processes share it. The lock is exclusive for a process
//!    that writes to the directory, and shared among those that only read it. While readers share
//!    the lock, the process id in the file is that of the last writer.
//! 3. The file is never removed: removing it would let two processes hold locks on two files of the
//!    same name.

use crate::directory::DirectoryLock;
use crate::error::{Cause, Error, Result, Verb};
use crate::os::retry;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The lock file's name; hidden from listings.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// The lock of a directory, held while the directory is in use.
#[derive(Debug)]
pub(crate) struct FileLock {
    fd: OwnedFd,
}

impl DirectoryLock for FileLock {}
impl DirectoryLock for Option<FileLock> {}

impl Drop for FileLock {
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock, perhaps later (invariant 2).
        rustix::fs::flock(&self.fd, FlockOperation::Unlock).ok();
    }
}

/// Takes the lock of the open directory `directory`, or returns an error that names the holder.
pub(crate) fn take(directory: impl AsFd, path: &Path) -> Result<FileLock> {
    let fail = |errno: Errno| Error::from_io(Verb::Lock, path.display().to_string(), errno.into());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory, LOCK_NAME, flags, Mode::from_raw_mode(0o644)).map_err(fail)?;
    let lock = locked(fd, FlockOperation::NonBlockingLockExclusive, path)?;
    // A full disk must not keep a process from opening, so a process id that cannot be written is
    // left out (invariant 1). Only an I/O error of the write is returned.
    let mut line = String::new();
    if writeln!(line, "{}", std::process::id()).is_ok()
        && let Ok(()) = rustix::fs::ftruncate(&lock.fd, 0)
        && let Err(Errno::IO) = rustix::io::pwrite(&lock.fd, line.as_bytes(), 0)
    {
        return Err(fail(Errno::IO));
    }
    Ok(lock)
}

/// Shares the lock of the open directory `directory` with other readers, or returns an error that
/// names the holder. Writes nothing. Returns `None` if no process ever took the lock.
pub(crate) fn take_to_read(directory: impl AsFd, path: &Path) -> Result<Option<FileLock>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    match retry(|| rustix::fs::openat(&directory, LOCK_NAME, flags, Mode::empty())) {
        Ok(fd) => locked(fd, FlockOperation::NonBlockingLockShared, path).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::from_io(Verb::Lock, path.display().to_string(), errno.into())),
    }
}

fn locked(fd: OwnedFd, operation: FlockOperation, path: &Path) -> Result<FileLock> {
    match retry(|| rustix::fs::flock(&fd, operation)) {
        Ok(()) => Ok(FileLock { fd }),
        Err(Errno::WOULDBLOCK) => {
            let cause = Cause::Locked(holder(&fd));
            Err(Error::new(Verb::Lock, path.display().to_string(), cause))
        }
        Err(errno) => Err(Error::from_io(Verb::Lock, path.display().to_string(), errno.into())),
    }
}

fn holder(fd: &OwnedFd) -> Option<u32> {
    let mut line = [0u8; 16];
    let count = rustix::io::pread(fd, &mut line[..], 0).ok()?;
    std::str::from_utf8(&line[..count]).ok()?.trim().parse().ok()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_process_that_shares_the_open_file_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = File::open(folder.path()).expect("it was made");
        let lock = take(&directory, folder.path()).expect("nobody has it");
        // Every child shares the open file until it begins its own program; this child shares it
        // until its input ends.
        let shared = rustix::io::dup(&lock.fd).expect("a number is left");
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(shared).spawn().expect("cat");
        let refused = take(&directory, folder.path()).expect_err("it is held");
        assert!(matches!(refused.cause, Cause::Locked(Some(pid)) if pid == std::process::id()), "{refused}");
        drop(lock);
        let again = take(&directory, folder.path());
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
        drop(again.expect("given back, though the child still has the open file"));
    }
}
