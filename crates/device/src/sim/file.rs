//! One open file of a simulated device.

use super::faults::Fault;
use super::image::{FileImage, Reach, short_end};
use super::world::{FILE_BYTES_MAX, Inode, Outcome, Shared, Stalled, World, failure};
use crate::aligned::ALIGNMENT;
use crate::directory::{File, ManyRead, Method, WriteMode};
use crate::error::{Cause, Error, Result, Verb};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IoSlice};
use std::sync::{Arc, MutexGuard};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    ReadOnly,
}

pub(super) struct SimFile {
    pub(super) shared: Arc<Shared>,
    pub(super) inode: Arc<Inode>,
    pub(super) access: Access,
    pub(super) method: Method,
}

impl SimFile {
    fn path(&self) -> String {
        self.inode.content().path.clone()
    }

    fn range(&self, from: u64, to: u64) -> String {
        format!("{} bytes {from}..{to}", self.path())
    }

    fn check_change(&self, verb: Verb, end: Option<u64>) -> Result<u64> {
        let kind = match end {
            _ if self.access == Access::ReadOnly => io::ErrorKind::PermissionDenied,
            Some(end) if end <= FILE_BYTES_MAX => return Ok(end),
            _ => io::ErrorKind::FileTooLarge,
        };
        Err(Error::from_io(verb, self.path(), io::Error::from(kind)))
    }

    fn crashed(&self, verb: Verb) -> Error {
        Error::new(verb, self.path(), Cause::Crashed)
    }

    /// Waits out a stall and takes the step.
    fn step(&self, verb: Verb) -> Result<(MutexGuard<'_, World>, Outcome)> {
        self.step_of(verb, || None)
    }

    /// Waits out a stall and takes the step; `write` describes the bytes that the step writes.
    fn step_of(
        &self,
        verb: Verb,
        write: impl FnOnce() -> Option<Stalled>,
    ) -> Result<(MutexGuard<'_, World>, Outcome)> {
        let mut world = self.shared.enter(verb, || self.path(), write)?;
        let outcome = self.shared.step(&mut world, verb, &self.path());
        Ok((world, outcome))
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut world = self.shared.look(Verb::Read, || self.path())?;
        let content = self.inode.content();
        let range = offset..offset.saturating_add(buffer.len() as u64).min(content.image.len());
        if world.plan.is_unreadable(&content.path, &range) {
            let subject = format!("{} bytes {}..{}", content.path, range.start, range.end);
            return Err(failure(Fault::Io, Verb::Read, subject));
        }
        Ok(content.image.read(buffer, offset))
    }

    fn read_many(&self, reads: &mut [ManyRead<'_>]) {
        if self.overlaps_reads() {
            let mut world = self.shared.lock();
            world.most_reads = world.most_reads.max(reads.len());
        }
        for read in reads {
            read.outcome = self.read_at(read.buffer, read.offset);
        }
    }

    fn overlaps_reads(&self) -> bool {
        self.method != Method::Direct
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let end = self.check_change(Verb::Write, offset.checked_add(total as u64))?;
        if total == 0 {
            return self.shared.look(Verb::Write, || self.path()).map(drop);
        }
        let bytes: Cow<'_, [u8]> = match parts {
            [one] => Cow::Borrowed(one),
            many => {
                let mut whole = Vec::with_capacity(total);
                many.iter().for_each(|part| whole.extend_from_slice(part));
                Cow::Owned(whole)
            }
        };
        let up_to = |stop: u64| &bytes[..(stop.min(end) - offset) as usize];
        let stalled = || Some(Stalled { inode: self.inode.id, offset, bytes: bytes.to_vec() });
        let (mut world, outcome) = self.step_of(Verb::Write, stalled)?;
        if self.method != Method::Buffered && !is_aligned(parts, offset) {
            world.unaligned += 1;
        }
        let room = world.room_to(self.inode.content().image.len(), end);
        if room < end {
            // As in the kernel, the bytes that fit are written before the write fails for lack of
            // space.
            if room > offset {
                self.inode.change(|image| image.write(up_to(room), offset, Reach::Cache));
            }
            let cause = if outcome == Outcome::Crash { Cause::Crashed } else { Cause::NoSpace };
            return Err(Error::new(Verb::Write, self.range(offset, end), cause));
        }
        match (outcome, mode) {
            (Outcome::Succeed, WriteMode::Durable) => {
                self.inode.change(|image| image.write(&bytes, offset, Reach::Device));
                Ok(())
            }
            (Outcome::Succeed, WriteMode::Written) => {
                self.inode.change(|image| image.write(&bytes, offset, Reach::Cache));
                Ok(())
            }
            (Outcome::Crash, _) => {
                self.inode.change(|image| {
                    image.write(&bytes, offset, Reach::Cache);
                    image.interrupt(offset, end);
                });
                Err(self.crashed(Verb::Write))
            }
            (Outcome::Fail(fault), _) => {
                match fault {
                    Fault::ShortWrite(sectors) => self.inode.change(|image| {
                        image.write(up_to(short_end(offset, sectors)), offset, Reach::Cache);
                    }),
                    Fault::SyncIo if mode == WriteMode::Durable => self.inode.change(|image| {
                        image.write(&bytes, offset, Reach::Cache);
                        image.fail_sync(offset, end, &mut world.rng);
                    }),
                    _ => {}
                }
                Err(failure(fault, Verb::Write, self.range(offset, end)))
            }
        }
    }

    fn sync(&self) -> Result<()> {
        let (mut world, outcome) = self.step(Verb::Sync)?;
        match outcome {
            Outcome::Succeed => {
                self.inode.change(|image| image.sync());
                Ok(())
            }
            Outcome::Crash => {
                self.inode.change(FileImage::interrupt_sync);
                Err(self.crashed(Verb::Sync))
            }
            Outcome::Fail(fault) => {
                self.inode.change(|image| image.fail_sync(0, FILE_BYTES_MAX, &mut world.rng));
                Err(failure(fault, Verb::Sync, self.path()))
            }
        }
    }

    fn len(&self) -> Result<u64> {
        let _world = self.shared.look(Verb::Length, || self.path())?;
        Ok(self.inode.content().image.len())
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        if to <= from {
            return Ok(());
        }
        self.check_change(Verb::Prepare, Some(to))?;
        let (mut world, outcome) = self.step(Verb::Prepare)?;
        let length = self.inode.content().image.len();
        let room = world.room_to(length, to);
        // After a failed preparation the file has its old length again, but the old bytes that the
        // preparation overwrote are zeros.
        let partly = |stop: u64| self.inode.change(|image| image.zero(from, stop.min(length), Reach::Cache));
        match outcome {
            Outcome::Crash => {
                self.inode.change(|image| {
                    image.zero(from, room, Reach::Cache);
                    image.interrupt(from, room);
                });
                Err(self.crashed(Verb::Prepare))
            }
            Outcome::Fail(Fault::SyncIo) => {
                self.inode.change(|image| {
                    image.zero(from, room, Reach::Cache);
                    image.fail_sync(0, FILE_BYTES_MAX, &mut world.rng);
                });
                Err(failure(Fault::SyncIo, Verb::Sync, self.path()))
            }
            Outcome::Fail(fault) => {
                let stop = world.rng.u64(from..=to);
                partly(stop);
                Err(failure(fault, Verb::Prepare, self.range(from, to)))
            }
            Outcome::Succeed if room < to => {
                partly(room);
                Err(failure(Fault::NoSpace, Verb::Prepare, self.range(from, to)))
            }
            Outcome::Succeed => {
                self.inode.change(|image| image.zero(from, to, Reach::Device));
                Ok(())
            }
        }
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.check_change(Verb::Length, Some(length))?;
        let (_world, outcome) = self.step(Verb::Length)?;
        if length > self.inode.content().image.len() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "truncating cannot make a file longer");
            return Err(Error::from_io(Verb::Length, self.path(), error));
        }
        if let Outcome::Fail(fault) = outcome {
            return Err(failure(fault, Verb::Length, self.path()));
        }
        self.inode.change(|image| image.truncate(length));
        match outcome {
            Outcome::Crash => Err(self.crashed(Verb::Length)),
            _ => Ok(()),
        }
    }

    fn drop_cache(&self) -> Result<()> {
        let _world = self.shared.look(Verb::Read, || self.path())?;
        self.inode.change(|image| image.drop_cache());
        Ok(())
    }

    fn method(&self) -> Method {
        self.method
    }

    fn alignment(&self) -> usize {
        match self.method {
            Method::Direct | Method::Uring => ALIGNMENT,
            Method::Buffered => 1,
        }
    }
}

/// Returns whether a direct write needs no copy and does not go through the page cache.
fn is_aligned(parts: &[IoSlice<'_>], offset: u64) -> bool {
    let of_part = |part: &IoSlice<'_>| (part.as_ptr().addr() | part.len()).is_multiple_of(ALIGNMENT);
    offset.is_multiple_of(ALIGNMENT as u64) && parts.iter().all(of_part)
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({})", self.path())
    }
}
