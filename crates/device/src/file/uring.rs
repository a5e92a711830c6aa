//! A direct file that uses rings of the kernel: for the pieces of an aligned write, and for several
//! aligned reads at once.
//!
//! Every other call, and each piece or read that a ring hands back, is done as on a direct file
//! (`direct.rs`).

use super::direct::{DirectFile, is_aligned, is_aligned_slice};
use super::ring::{Failed, RingSupport, Rings, Verdict};
use crate::directory::{File, ManyRead, Method, WriteMode};
use crate::error::{Result, Verb};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum bytes of one read through a ring.
const READ_BYTES_MAX: usize = 1 << 30;

/// A direct file with rings.
#[derive(Debug)]
pub(super) struct UringFile {
    direct: DirectFile,
    rings: Arc<Rings>,
    // Set by any writer that was refused, read by all writers. Relaxed: the flag is a hint, and a
    // stale read costs one refused call.
    refused: AtomicBool,
    // Set by any reader that was refused, read by all readers. Relaxed for the same reason.
    reads_refused: AtomicBool,
}

impl UringFile {
    pub(super) fn new(direct: DirectFile, rings: Arc<Rings>) -> Self {
        UringFile { direct, rings, refused: AtomicBool::new(false), reads_refused: AtomicBool::new(false) }
    }

    /// Reads what is behind the first `done` bytes of a read, without a ring.
    fn read_rest(&self, read: &mut ManyRead<'_>, done: usize) -> Result<usize> {
        let Some(rest) = read.buffer.get_mut(done..) else { return Ok(done) };
        Ok(done + self.direct.read_at(rest, read.offset + done as u64)?)
    }
}

fn suits_ring(read: &ManyRead<'_>) -> bool {
    let bytes = read.buffer.len();
    let end = read.offset.checked_add(bytes as u64);
    bytes > 0
        && bytes <= READ_BYTES_MAX
        && end.is_some_and(|end| end <= i64::MAX as u64)
        && is_aligned(read.offset)
        && is_aligned_slice(read.buffer)
}

impl File for UringFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.direct.read_at(buffer, offset)
    }

    fn read_many(&self, reads: &mut [ManyRead<'_>]) {
        let uses_ring = !self.reads_refused.load(Ordering::Relaxed);
        let (mut ringed, mut others): (Vec<_>, Vec<_>) =
            reads.iter_mut().partition(|read| uses_ring && suits_ring(read));
        if ringed.len() > 1 {
            let mut buffers: Vec<(u64, &mut [u8])> =
                ringed.iter_mut().map(|read| (read.offset, &mut *read.buffer)).collect();
            let verdicts = self.rings.read(self.direct.fd(), &mut buffers);
            for (read, verdict) in ringed.into_iter().zip(verdicts) {
                let bytes = read.buffer.len();
                read.outcome = match verdict {
                    Verdict::Whole => Ok(bytes),
                    Verdict::After(done) => self.read_rest(read, done),
                    Verdict::Refused => {
                        self.reads_refused.store(true, Ordering::Relaxed);
                        self.read_rest(read, 0)
                    }
                    Verdict::Failed(errno) => {
                        Err(self.direct.handle().fail_at(Verb::Read, read.offset, bytes, errno))
                    }
                };
            }
        } else {
            others.append(&mut ringed);
        }
        for read in others {
            read.outcome = self.direct.read_at(read.buffer, read.offset);
        }
    }

    fn overlaps_reads(&self) -> bool {
        !self.reads_refused.load(Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use super::super::buffered::BufferedFile;
    use super::super::handle::Handle;
    use super::*;
    use crate::aligned::AlignedBuffer;
    use rustix::fs::{Mode, OFlags};

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn each_of_many_reads_that_fail_names_the_file_and_its_bytes() {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join("a");
        std::fs::write(&path, [7; 3 * 4096]).expect("write");
        // The system refuses every read of a file that is open for writing only.
        let open = || rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).expect("open");
        let handle = || Handle::new(open(), path.clone());
        let uring = UringFile::new(DirectFile::new(handle(), open()), Arc::new(Rings::new()));
        let files: [&dyn File; 3] =
            [&BufferedFile::new(handle()), &DirectFile::new(handle(), open()), &uring];
        for file in files {
            let mut memory = AlignedBuffer::new_zeroed(3 * 4096);
            let buffers = memory.chunks_mut(4096).zip(0..);
            let mut reads: Vec<ManyRead<'_>> =
                buffers.map(|(buffer, nth)| ManyRead::new(nth * 4096, buffer)).collect();
            for _ in 0..2 {
                file.read_many(&mut reads);
                for read in &reads {
                    let error = read.outcome.as_ref().expect_err("the file is open for writing only");
                    let bytes =
                        format!("a bytes {}..{}", read.offset, read.offset + read.buffer.len() as u64);
                    assert_eq!(error.verb, Verb::Read, "{error}");
                    assert!(error.subject.ends_with(&bytes), "{error}");
                }
            }
        }
    }
}
