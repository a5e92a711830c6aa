//! A moving window over the log's bytes, so that records are decoded where they were read.
//!
//! One thread at a time uses a window. A read fills the window up to at least [`PIECE`] bytes, so
//! that sequential reading is fast. A read takes whole blocks into aligned memory, so that a direct
//! file need not copy. If records lie apart, the window holds one record.

use super::files::Source;
use katydid_device::{self as device, AlignedBuffer};
use katydid_kernels::lsn::{BLOCK_BYTES, Lsn};
use katydid_kernels::record::{Layout, PHYSICAL_BYTES_MAX};

/// Minimum bytes of a filled window; few in debug builds, where most logs are small and opened by
/// the thousand.
const PIECE: usize = if cfg!(any(test, debug_assertions)) { 32 << 10 } else { 1 << 20 };

/// Bytes of the log from some block on.
#[derive(Debug)]
pub(crate) struct Window {
    bytes: AlignedBuffer,
    base: Lsn,
    /// Number of `bytes` that are filled.
    filled: usize,
    /// Number of positions, from the base on, that can be looked up.
    reach: u64,
    read_bytes: u64,
}

impl Window {
    /// Makes an empty window.
    pub(crate) fn new() -> Self {
        Window {
            bytes: AlignedBuffer::new_zeroed(0),
            base: Lsn::ZERO,
            filled: 0,
            reach: u64::MAX,
            read_bytes: 0,
        }
    }

    /// Returns the number of bytes read from the source so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns the bytes from `at` on: at least `wanted`, unless `limit` or the end of the source
    /// comes before.
    #[inline]
    pub(crate) fn at(
        &mut self,
        source: &dyn Source,
        at: Lsn,
        wanted: usize,
        limit: Lsn,
    ) -> device::Result<&[u8]> {
        if self.peek(at).len() < wanted {
            self.load(source, at, wanted, limit)?;
        }
        Ok(self.peek(at))
    }

    /// Returns the bytes of the window from `at` on, without reading.
    #[inline]
    pub(crate) fn peek(&self, at: Lsn) -> &[u8] {
        match at.get().checked_sub(self.base.get()) {
            Some(skip) if skip < self.reach => {
                self.bytes[..self.filled].get(skip as usize..).unwrap_or_default()
            }
            _ => &[],
        }
    }

    #[cold]
    fn load(&mut self, source: &dyn Source, at: Lsn, wanted: usize, limit: Lsn) -> device::Result<()> {
        if source.layout() == Layout::Apart {
            return self.load_apart(source, at, limit);
        }
        let base = at.floor_block();
        let kept = self.peek(base).len();
        let from = self.filled - kept;
        let ends = at.since(base) as usize + wanted;
        let size = ends.max(PIECE).next_multiple_of(BLOCK_BYTES as usize);
        if self.bytes.len() < size {
            let mut larger = AlignedBuffer::new_zeroed(size);
            larger[..kept].copy_from_slice(&self.bytes[from..self.filled]);
            self.bytes = larger;
        } else {
            self.bytes.copy_within(from..self.filled, 0);
        }
        self.filled = kept;
        self.base = base;
        let available = usize::try_from(limit.since(base)).unwrap_or(usize::MAX);
        let to = self.bytes.len().min(available);
        if self.filled < to {
            let got = source.read(base.plus(self.filled as u64), &mut self.bytes[self.filled..to])?;
            self.filled += got;
            self.read_bytes += got as u64;
        }
        Ok(())
    }

    fn load_apart(&mut self, source: &dyn Source, at: Lsn, limit: Lsn) -> device::Result<()> {
        if self.bytes.len() < PHYSICAL_BYTES_MAX {
            self.bytes = AlignedBuffer::new_zeroed(PHYSICAL_BYTES_MAX);
        }
        (self.base, self.reach, self.filled) = (at, 1, 0);
        if at < limit {
            self.filled = source.read(at, &mut self.bytes[..])?;
            self.read_bytes += self.filled as u64;
        }
        Ok(())
    }
}
