//! A file that is read and written through the page cache. `fdatasync` makes all its bytes durable,
//! `RWF_DSYNC` those of one write.

use super::handle::{Handle, PIECE_BYTES, UNSYNCED_MAX};
use crate::aligned::AlignedBuffer;
use crate::directory::{Advice, File, ManyRead, Method, WriteMode};
use crate::error::Result;
use std::io::IoSlice;

/// A buffered file, or a file opened for reading only.
#[derive(Debug)]
pub(super) struct BufferedFile {
    handle: Handle,
}

impl BufferedFile {
    pub(super) fn new(handle: Handle) -> Self {
        BufferedFile { handle }
    }
}

impl File for BufferedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.handle.read_at(buffer, offset)
    }

    fn read_many(&self, reads: &mut [ManyRead<'_>]) {
        self.handle.read_many(reads);
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        self.handle.write_with(parts, offset, mode, |_, _| self.handle.fd())
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync()
    }

    fn len(&self) -> Result<u64> {
        self.handle.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let zeros = AlignedBuffer::new_zeroed(PIECE_BYTES);
        self.handle.prepare_with(from, to, &zeros, UNSYNCED_MAX, |_, _| self.handle.fd())
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.handle.truncate(length)
    }

    fn drop_cache(&self) -> Result<()> {
        self.handle.drop_cache()
    }

    fn advise(&self, advice: Advice) {
        self.handle.advise(advice);
    }

    fn method(&self) -> Method {
        Method::Buffered
    }

    fn alignment(&self) -> usize {
        1
    }
}
