//! A direct file whose aligned writes go through a ring of the kernel, several pieces of a large
//! write at once.
//!
//! Every other call, and each piece that a ring hands back, is done as on a direct file: short
//! writes are continued, and unaligned calls go through the page cache.

use super::direct::{DirectFile, is_aligned, is_aligned_slice};
use super::ring::{Failed, RingSupport, Rings};
use crate::directory::{File, Method, WriteMode};
use crate::error::{Result, Verb};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A direct file with rings.
#[derive(Debug)]
pub(super) struct UringFile {
    direct: DirectFile,
    rings: Arc<Rings>,
    // Set by any writer that was refused, read by all writers. Relaxed: the flag is a hint, and a
    // stale read costs one refused call.
    refused: AtomicBool,
}

impl UringFile {
    pub(super) fn new(direct: DirectFile, rings: Arc<Rings>) -> Self {
        UringFile { direct, rings, refused: AtomicBool::new(false) }
    }
}

impl File for UringFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.direct.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let suits = is_aligned(offset)
            && offset.checked_add(total as u64).is_some_and(|end| end <= i64::MAX as u64)
            && parts.iter().all(|part| part.is_empty() || is_aligned_slice(part));
        if total == 0 || !suits || self.refused.load(Ordering::Relaxed) {
            return self.direct.write_at(parts, offset, mode);
        }
        let rest = |left: &[IoSlice<'_>], at: u64| self.direct.write_at(left, at, mode);
        match self.rings.write(self.direct.fd(), parts, offset, mode, rest) {
            Ok(RingSupport::Yes) => Ok(()),
            Ok(RingSupport::Refused) => {
                self.refused.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(Failed::Piece(errno)) => Err(self.direct.handle().fail_at(Verb::Write, offset, total, errno)),
            Err(Failed::Rest(error)) => Err(error),
        }
    }

    fn sync(&self) -> Result<()> {
        self.direct.sync()
    }

    fn len(&self) -> Result<u64> {
        self.direct.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.direct.prepare(from, to)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.direct.truncate(length)
    }

    fn drop_cache(&self) -> Result<()> {
        self.direct.drop_cache()
    }

    fn method(&self) -> Method {
        Method::Uring
    }

    fn alignment(&self) -> usize {
        self.direct.alignment()
    }
}
