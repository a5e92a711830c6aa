//! A file that is read and written past the page cache (`O_DIRECT`). Durable writes carry
//! `RWF_DSYNC`.
//!
//! The file is open twice: direct, and buffered for writes whose offset or total length is no
//! multiple of 4,096. The kernel keeps the two views coherent. A direct write first writes out and
//! then drops the cached pages of its range. A direct read first writes out the cached pages of its
//! range. Direct and buffered writes both take the inode's latch. If offset and total length of a
//! write are aligned but a part is not, the write goes through an aligned bounce buffer, so that
//! frequent writes stay out of the page cache. An unaligned read goes through a bounce buffer too.

use super::handle::{Handle, PIECE_BYTES};
use crate::aligned::{ALIGNMENT, AlignedBuffer};
use crate::directory::{File, Method, WriteMode};
use crate::error::{Result, Verb};
use crate::os::retry;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// A direct file.
#[derive(Debug)]
pub(super) struct DirectFile {
    handle: Handle,
    direct: OwnedFd,
}

pub(super) fn is_aligned(number: u64) -> bool {
    number.is_multiple_of(ALIGNMENT as u64)
}

pub(super) fn is_aligned_slice(bytes: &[u8]) -> bool {
    is_aligned(bytes.as_ptr() as u64) && is_aligned(bytes.len() as u64)
}

impl DirectFile {
    pub(super) fn new(handle: Handle, direct: OwnedFd) -> Self {
        DirectFile { handle, direct }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the file opened for direct I/O, which takes only aligned calls.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.direct
    }

    /// Returns the direct file if offset and parts are aligned, and the buffered file if not. The
    /// rest of a write that the kernel cut at an unaligned place is thus finished through the page
    /// cache.
    fn choose(&self, parts: &[IoSlice<'_>], offset: u64) -> &OwnedFd {
        if is_aligned(offset) && parts.iter().all(|part| is_aligned_slice(part)) {
            &self.direct
        } else {
            self.handle.fd()
        }
    }

    fn write_bounced(&self, parts: &[IoSlice<'_>], total: usize, offset: u64, mode: WriteMode) -> Result<()> {
        let mut bounce = AlignedBuffer::new_zeroed(total.min(PIECE_BYTES));
        let (mut at, mut used) = (offset, 0);
        for part in parts {
            let mut rest: &[u8] = part;
            while !rest.is_empty() {
                let count = rest.len().min(bounce.len() - used);
                bounce[used..used + count].copy_from_slice(&rest[..count]);
                rest = &rest[count..];
                used += count;
                if used == bounce.len() || at + used as u64 == offset + total as u64 {
                    let piece = [IoSlice::new(&bounce[..used])];
                    self.handle.write_with(&piece, at, mode, |left, at| self.choose(left, at))?;
                    at += used as u64;
                    used = 0;
                }
            }
        }
        Ok(())
    }

    /// Makes one direct read into an aligned buffer. Returns the number of bytes read: 0 at the end
    /// of the file.
    fn read_direct(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let len = buffer.len();
        retry(|| rustix::io::pread(&self.direct, &mut *buffer, offset))
            .map_err(|errno| self.handle.fail_at(Verb::Read, offset, len, errno))
    }

    fn read_bounced(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let block = ALIGNMENT as u64;
        let end = offset.saturating_add(buffer.len() as u64);
        let first = offset / block * block;
        let span = usize::try_from(end.div_ceil(block).saturating_mul(block) - first).unwrap_or(PIECE_BYTES);
        let mut bounce = AlignedBuffer::new_zeroed(span.min(PIECE_BYTES));
        let (mut done, mut at) = (0, first);
        while done < buffer.len() {
            let got = self.read_direct(&mut bounce, at)?;
            let skip = (offset + done as u64 - at) as usize;
            if got <= skip {
                break;
            }
            let count = (got - skip).min(buffer.len() - done);
            buffer[done..done + count].copy_from_slice(&bounce[skip..skip + count]);
            done += count;
            at += got as u64;
            if got < bounce.len() {
                break;
            }
        }
        Ok(done)
    }
}

impl File for DirectFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let done = if is_aligned(offset) && is_aligned_slice(buffer) {
            self.read_direct(buffer, offset)?
        } else {
            self.read_bounced(buffer, offset)?
        };
        if done == buffer.len() {
            return Ok(done);
        }
        // The direct read ended at the end of the file, or was cut short. A read through the page
        // cache needs no alignment, and shows which of the two happened.
        Ok(done + self.handle.read_at(&mut buffer[done..], offset + done as u64)?)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let can_bounce = is_aligned(offset) && is_aligned(total as u64);
        if can_bounce && !parts.iter().all(|part| is_aligned_slice(part)) {
            return self.write_bounced(parts, total, offset, mode);
        }
        self.handle.write_with(parts, offset, mode, |left, at| self.choose(left, at))
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync()
    }

    fn len(&self) -> Result<u64> {
        self.handle.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let zeros = AlignedBuffer::new_zeroed(PIECE_BYTES);
        // Direct writes leave no dirty pages, so no sync is needed in between.
        self.handle.prepare_with(from, to, &zeros, u64::MAX, |left, at| self.choose(left, at))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.handle.truncate(length)
    }

    fn drop_cache(&self) -> Result<()> {
        self.handle.drop_cache()
    }

    fn method(&self) -> Method {
        Method::Direct
    }

    fn alignment(&self) -> usize {
        ALIGNMENT
    }
}
