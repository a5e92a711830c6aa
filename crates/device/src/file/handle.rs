//! The open file of buffered and direct files, and the calls that need no alignment.
//!
//! Any thread may call this code. Invariants:
//!
//! 1. [`Handle::truncate`] and [`Handle::prepare_with`] hold `growth` (a latch, leaf rank) while
//!    they change the length. So giving room back after a failed preparation never cuts bytes that
//!    another preparation has added.
//! 2. Once the system has refused a write that is durable by itself, a durable write is a write
//!    followed by a sync. Once the system has refused a read that takes only cached bytes, no such
//!    read is tried.

use crate::directory::{Advice, ManyRead, WriteMode};
use crate::error::{Error, Result, Verb};
use crate::os::{self, retry};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

/// Zeros are written in pieces of this many bytes.
pub(super) const PIECE_BYTES: usize = 128 << 10;

/// Maximum bytes of zeros that preparing a file leaves unsynced in the page cache. A sync of tens
/// of megabytes keeps the device busy for as long as ten commits of a log on that device take.
pub(super) const UNSYNCED_MAX: u64 = 1 << 20;

/// Writes all of `parts` at `offset` by calling `write` until nothing is left.
pub(super) fn write_all(
    parts: &[IoSlice<'_>],
    mut offset: u64,
    mut write: impl FnMut(&[IoSlice<'_>], u64) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    let mut left: usize = parts.iter().map(|part| part.len()).sum();
    if left == 0 {
        return Ok(());
    }
    let mut done = retry(|| write(parts, offset))?;
    if done == left {
        return Ok(());
    }
    let mut copy = parts.to_vec();
    let mut rest = &mut copy[..];
    loop {
        if done == 0 || done > left {
            return Err(io::ErrorKind::WriteZero.into());
        }
        left -= done;
        offset += done as u64;
        if left == 0 {
            return Ok(());
        }
        IoSlice::advance_slices(&mut rest, done);
        done = retry(|| write(rest, offset))?;
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct Handle {
    fd: OwnedFd,
    path: PathBuf,
    growth: Mutex<()>,
    // Set by any writer that was refused, read by all writers. Relaxed: the flag is a hint, and a
    // stale read costs one refused call.
    dsync_refused: AtomicBool,
    // Set by any reader that was refused, read by all readers. Relaxed for the same reason.
    cached_reads_refused: AtomicBool,
}

impl Handle {
    pub(super) fn new(fd: OwnedFd, path: PathBuf) -> Self {
        let (dsync_refused, cached_reads_refused) = (AtomicBool::new(false), AtomicBool::new(false));
        Handle { fd, path, growth: Mutex::new(()), dsync_refused, cached_reads_refused }
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub(super) fn fail(&self, verb: Verb, error: impl Into<io::Error>) -> Error {
        Error::from_io(verb, self.path.display().to_string(), error.into())
    }

    pub(super) fn fail_at(&self, verb: Verb, offset: u64, len: usize, error: impl Into<io::Error>) -> Error {
        let end = offset.saturating_add(len as u64);
        Error::from_io(verb, format!("{} bytes {offset}..{end}", self.path.display()), error.into())
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let count = retry(|| rustix::io::pread(&self.fd, &mut buffer[done..], offset + done as u64))
                .map_err(|errno| self.fail_at(Verb::Read, offset, buffer.len(), errno))?;
            if count == 0 {
                break;
            }
            done += count;
        }
        Ok(done)
    }

    /// Makes several reads through the page cache. The bytes that are in the page cache are read
    /// first. If bytes of several reads are missing, all of them are announced before the thread
    /// waits for any.
    pub(super) fn read_many(&self, reads: &mut [ManyRead<'_>]) {
        let is_one = reads.len() == 1;
        let mut missing = Vec::new();
        for read in reads {
            let cached = if is_one { 0 } else { self.read_cached(read.buffer, read.offset) };
            match read.buffer.len() - cached {
                0 => read.outcome = Ok(cached),
                _ => missing.push((read, cached)),
            }
        }
        if missing.len() > 1 {
            for (read, cached) in &missing {
                let bytes = (read.buffer.len() - cached) as u64;
                self.advise(Advice::Soon { offset: read.offset + *cached as u64, bytes });
            }
        }
        for (read, cached) in missing {
            let rest = self.read_at(&mut read.buffer[cached..], read.offset + cached as u64);
            read.outcome = rest.map(|count| cached + count);
        }
    }

    /// Reads the leading bytes that are in the page cache, and returns their number. Returns 0
    /// after a failure, which the read that follows reports.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> usize {
        if self.cached_reads_refused.load(Ordering::Relaxed) {
            return 0;
        }
        let bytes = buffer.len();
        match retry(|| os::read_cached(&self.fd, buffer, offset)) {
            Ok(count) => count.min(bytes),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.cached_reads_refused.store(true, Ordering::Relaxed);
                0
            }
            Err(_) => 0,
        }
    }

    /// Writes all of `parts`, each time through the file that `choose` picks for the parts that are
    /// left.
    pub(super) fn write_with<'a>(
        &'a self,
        parts: &[IoSlice<'_>],
        offset: u64,
        mode: WriteMode,
        choose: impl Fn(&[IoSlice<'_>], u64) -> &'a OwnedFd,
    ) -> Result<()> {
        let len = || parts.iter().map(|part| part.len()).sum();
        let fail = |error: io::Error| self.fail_at(Verb::Write, offset, len(), error);
        if mode == WriteMode::Durable && !self.dsync_refused.load(Ordering::Relaxed) {
            let wrote = write_all(parts, offset, |rest, at| os::write_durably(choose(rest, at), rest, at));
            match wrote {
                Err(error) if is_refused(&error) => self.dsync_refused.store(true, Ordering::Relaxed),
                other => return other.map_err(fail),
            }
        }
        write_all(parts, offset, |rest, at| rustix::io::pwritev(choose(rest, at), rest, at)).map_err(fail)?;
        match mode {
            WriteMode::Written => Ok(()),
            WriteMode::Durable => self.sync(),
        }
    }

    pub(super) fn sync(&self) -> Result<()> {
        // A failed sync is never repeated. An interrupted sync has not failed, so it is repeated.
        // Linux reports a write-back error once for each open file, and an interrupted sync does
        // not use that report up.
        retry(|| os::sync_data(&self.fd)).map_err(|errno| self.fail(Verb::Sync, errno))
    }

    pub(super) fn len(&self) -> Result<u64> {
        let status = retry(|| rustix::fs::fstat(&self.fd)).map_err(|errno| self.fail(Verb::Length, errno))?;
        Ok(status.st_size as u64)
    }

    pub(super) fn truncate(&self, length: u64) -> Result<()> {
        let _growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if length > self.len()? {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "truncating cannot make a file longer");
            return Err(self.fail(Verb::Length, error));
        }
        retry(|| rustix::fs::ftruncate(&self.fd, length)).map_err(|errno| self.fail(Verb::Length, errno))
    }

    /// Writes zeros to `[from, to)` in pieces. Syncs at the end, and in between after each
    /// `unsynced_max` bytes. `zeros` is one piece. `choose` picks the file of each write, as in
    /// [`Handle::write_with`].
    pub(super) fn prepare_with<'a>(
        &'a self,
        from: u64,
        to: u64,
        zeros: &[u8],
        unsynced_max: u64,
        choose: impl Fn(&[IoSlice<'_>], u64) -> &'a OwnedFd,
    ) -> Result<()> {
        if to <= from {
            return Ok(());
        }
        let _growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.len()?;
        if self.cannot_hold(to.saturating_sub(before)) {
            let full = io::Error::from(io::ErrorKind::StorageFull);
            return Err(self.fail_at(
                Verb::Prepare,
                from,
                usize::try_from(to - from).unwrap_or(usize::MAX),
                full,
            ));
        }
        let (mut at, mut synced) = (from, from);
        while at < to {
            if at - synced >= unsynced_max {
                self.sync()?;
                synced = at;
            }
            let piece = usize::try_from(to - at).map_or(zeros.len(), |left| left.min(zeros.len()));
            let parts = [IoSlice::new(&zeros[..piece])];
            let wrote = write_all(&parts, at, |rest, at| rustix::io::pwritev(choose(rest, at), rest, at));
            if let Err(error) = wrote {
                self.give_back(before, to);
                return Err(self.fail_at(Verb::Prepare, at, piece, error));
            }
            at += piece as u64;
        }
        // A failure of this sync is reported as `Verb::Sync`, because a failed sync may have lost
        // bytes of other writers. The gate shuts on such a failure, even if the device had no room.
        if self.len()? == before {
            return self.sync();
        }
        retry(|| os::sync_all(&self.fd)).map_err(|errno| self.fail(Verb::Sync, errno))
    }

    /// Returns whether the file system reports less room than `growth` bytes. If so, no zeros are
    /// written: they would take the last room from other programs, and still fail. If the file
    /// system reports nothing, the writes show whether there is room.
    fn cannot_hold(&self, growth: u64) -> bool {
        match rustix::fs::fstatvfs(&self.fd) {
            // `/dev/full` and its like report no blocks at all.
            Ok(status) if status.f_blocks > 0 => status.f_bfree.saturating_mul(status.f_frsize) < growth,
            _ => false,
        }
    }

    /// Gives back to the file system the room that a failed preparation took, so that a full device
    /// is not fuller than before. Keeps the room if another thread wrote past the prepared range.
    /// If giving back fails, the caller still gets the error of the preparation.
    fn give_back(&self, before: u64, to: u64) {
        if let Ok(now) = self.len()
            && before < now
            && now <= to
        {
            retry(|| rustix::fs::ftruncate(&self.fd, before)).ok();
        }
    }

    pub(super) fn advise(&self, advice: Advice) {
        let advised = retry(|| match advice {
            Advice::Random => os::expect_random_reads(&self.fd),
            Advice::Soon { offset, bytes } => match NonZeroU64::new(bytes) {
                Some(bytes) => os::read_ahead(&self.fd, offset, bytes),
                None => Ok(()),
            },
        });
        // A refusal only makes the reads slower.
        advised.ok();
    }

    pub(super) fn drop_cache(&self) -> Result<()> {
        retry(|| os::drop_cache(&self.fd)).map_err(|errno| self.fail(Verb::Read, errno))
    }
}

fn is_refused(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NOSYS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs [`write_all`] on a file whose calls return what `script` says, and take every byte once
    /// `script` has run out.
    fn scripted(script: &[rustix::io::Result<usize>]) -> (io::Result<()>, Vec<u8>, usize) {
        let parts = [&b"abc"[..], b"", b"defgh", b"ij"].map(IoSlice::new);
        let (mut calls, mut target) = (0, vec![b'.'; 12]);
        let result = write_all(&parts, 1, |rest, at| {
            let bytes: Vec<u8> = rest.iter().flat_map(|part| part.to_vec()).collect();
            let taken = *script.get(calls).unwrap_or(&Ok(bytes.len()));
            calls += 1;
            let taken = taken?;
            let end = (at as usize + taken).min(target.len());
            target[at as usize..end].copy_from_slice(&bytes[..end - at as usize]);
            Ok(taken)
        });
        (result, target, calls)
    }

    #[test]
    fn short_and_interrupted_writes_are_continued() {
        let scripts: [&[rustix::io::Result<usize>]; 6] = [
            &[],
            &[Ok(1)],
            &[Ok(3), Ok(5)],
            &[Err(Errno::INTR), Ok(4), Err(Errno::INTR), Err(Errno::INTR), Ok(1), Ok(4)],
            &[Ok(9), Ok(1)],
            &[Ok(1); 10],
        ];
        for script in scripts {
            let (result, target, _) = scripted(script);
            result.expect("all is written");
            assert_eq!(target, b".abcdefghij.", "{script:?}");
        }
    }

    #[test]
    fn a_write_that_stops_is_an_error_not_a_success() {
        let (result, target, calls) = scripted(&[Ok(4), Err(Errno::NOSPC), Ok(6)]);
        assert_eq!(result.expect_err("no space").kind(), io::ErrorKind::StorageFull);
        assert_eq!((&target[..], calls), (&b".abcd......."[..], 2));
        let (result, _, calls) = scripted(&[Ok(4), Ok(0)]);
        assert_eq!(result.expect_err("nothing moves").kind(), io::ErrorKind::WriteZero);
        assert_eq!(calls, 2, "no endless loop");
    }
}
