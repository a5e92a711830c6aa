//! A file of Windows: positional reads and writes, made durable by `FlushFileBuffers`.
//!
//! Any thread may call this code. Truncations and preparations hold `growth` (a latch, leaf rank)
//! while they change the length. So giving room back after a failed preparation never cuts bytes
//! that another preparation has added.

use crate::directory::{File, Method, WriteMode};
use crate::error::{Error, Result, Verb};
use std::fs;
use std::io::{self, IoSlice};
use std::os::windows::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Zeros are written in pieces of this many bytes.
const PIECE_BYTES: usize = 128 << 10;

/// An open file.
#[derive(Debug)]
pub(super) struct WindowsFile {
    file: fs::File,
    path: PathBuf,
    growth: Mutex<()>,
}

impl WindowsFile {
    pub(super) fn new(file: fs::File, path: PathBuf) -> Self {
        WindowsFile { file, path, growth: Mutex::new(()) }
    }

    fn fail(&self, verb: Verb, error: io::Error) -> Error {
        Error::from_io(verb, self.path.display().to_string(), error)
    }

    fn fail_at(&self, verb: Verb, offset: u64, len: u64, error: io::Error) -> Error {
        let end = offset.saturating_add(len);
        Error::from_io(verb, format!("{} bytes {offset}..{end}", self.path.display()), error)
    }

    fn write_all(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.seek_write(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(done) => {
                    bytes = bytes.get(done..).unwrap_or_default();
                    offset += done as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl File for WindowsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.seek_read(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail_at(Verb::Read, offset, buffer.len() as u64, error)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let mut at = offset;
        for part in parts {
            self.write_all(part, at)
                .map_err(|error| self.fail_at(Verb::Write, at, part.len() as u64, error))?;
            at += part.len() as u64;
        }
        match mode {
            WriteMode::Written => Ok(()),
            WriteMode::Durable => self.sync(),
        }
    }

    fn sync(&self) -> Result<()> {
        // `FlushFileBuffers`. Windows has no sync that leaves out the file's entry.
        self.file.sync_all().map_err(|error| self.fail(Verb::Sync, error))
    }

    fn len(&self) -> Result<u64> {
        self.file.metadata().map(|status| status.len()).map_err(|error| self.fail(Verb::Length, error))
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        if to <= from {
            return Ok(());
        }
        let _growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.len()?;
        let zeros = vec![0; PIECE_BYTES];
        let mut at = from;
        while at < to {
            let piece = usize::try_from(to - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            if let Err(error) = self.write_all(&zeros[..piece], at) {
                // Gives back the room that the preparation took, so that a full device is not
                // fuller than before. If this fails, the caller still gets the error of the
                // preparation.
                self.file.set_len(before).ok();
                return Err(self.fail_at(Verb::Prepare, at, piece as u64, error));
            }
            at += piece as u64;
        }
        self.sync()
    }

    fn truncate(&self, length: u64) -> Result<()> {
        let _growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if length > self.len()? {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "truncating cannot make a file longer");
            return Err(self.fail(Verb::Length, error));
        }
        self.file.set_len(length).map_err(|error| self.fail(Verb::Length, error))
    }

    fn drop_cache(&self) -> Result<()> {
        // Windows has no call that drops cached bytes. The `sync` before it has written out the
        // cached bytes, or failed.
        Ok(())
    }

    fn method(&self) -> Method {
        Method::Buffered
    }

    fn alignment(&self) -> usize {
        1
    }
}
