//! A file to measure a device with, and the measurement itself.
//!
//! The file has no name: it is created in a folder of its own, opened in every way and removed at
//! once. So nothing is left behind, unless the process dies between these steps and leaves the file
//! in that folder.

use crate::aligned::AlignedBuffer;
use crate::directory::{Create, Directory, File, Method, WriteMode};
use crate::error::{Error, Result, Verb};
#[cfg(unix)]
use crate::file::FileDirectory;
#[cfg(windows)]
use crate::windows::FileDirectory;
#[cfg(unix)]
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The subfolder in which the file is made. A database in the same folder ignores this name.
const FOLDER: &str = "katydid-device-probe";
/// Bytes of the writes that overwrite a file before it is measured.
const PASS_BYTES: usize = 1 << 20;

/// State of a file's blocks before they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileState {
    /// Zeros were written ahead, once, as in a new segment of a log.
    ZeroFilled,
    /// The blocks were written before, as in a segment that is used again.
    Overwritten,
    /// The blocks do not exist: each write makes the file longer.
    Appended,
    /// The blocks were reserved (`fallocate`) and never written.
    Allocated,
}

impl FileState {
    /// Every state.
    pub const ALL: [FileState; 4] =
        [FileState::ZeroFilled, FileState::Overwritten, FileState::Appended, FileState::Allocated];

    /// Returns the name of the state in reports.
    pub fn name(self) -> &'static str {
        match self {
            FileState::ZeroFilled => "zero-filled",
            FileState::Overwritten => "overwritten",
            FileState::Appended => "appended",
            FileState::Allocated => "allocated",
        }
    }
}

/// Method of making one write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncMethod {
    /// The write itself is durable ([`WriteMode::Durable`]).
    Durable,
    /// A sync of the file follows the write.
    Synced,
}

/// The settings of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// I/O method; one of [`Scratch::methods`].
    pub method: Method,
    /// Method of making each write durable.
    pub sync: SyncMethod,
    /// Bytes of each write, a multiple of 4 KiB.
    pub block_bytes: usize,
    /// Number of writes in flight, each by its own thread.
    pub depth: usize,
    /// Duration of the measurement. The measurement ends earlier if the file ends, and later if one
    /// write takes longer.
    pub time: Duration,
}

/// The times of durable writes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    nanos: Vec<u64>,
    elapsed: Duration,
}

impl Samples {
    fn new(mut nanos: Vec<u64>, elapsed: Duration) -> Self {
        nanos.sort_unstable();
        Samples { nanos, elapsed }
    }

    /// Returns the nanoseconds of each write, ascending.
    pub fn nanos(&self) -> &[u64] {
        &self.nanos
    }

    /// Returns the number of writes of all threads that became durable per second.
    pub fn per_second(&self) -> f64 {
        self.nanos.len() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the time within which this share of the writes, from 0 to 1, was done; zero if there
    /// are no writes.
    pub fn quantile(&self, share: f64) -> Duration {
        let at = (self.nanos.len() as f64 * share) as usize;
        let nanos = self.nanos.get(at).or(self.nanos.last());
        Duration::from_nanos(nanos.copied().unwrap_or_default())
    }

    /// Returns the median time.
    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }
}

/// A file to measure with.
#[derive(Debug)]
pub struct Scratch {
    state: FileState,
    bytes: u64,
    files: Vec<Arc<dyn File>>,
    place: String,
}

impl Scratch {
    /// Makes a file in a folder on the device. The file has, or can grow to, `bytes`. The folder is
    /// created if missing.
    ///
    /// # Errors
    /// Those of creating, preparing and writing the file. `Cause::Io` of kind `Unsupported` if the
    /// file system reserves no blocks and the state is [`FileState::Allocated`].
    pub fn new(dir: &Path, bytes: u64, state: FileState) -> Result<Scratch> {
        let reserved = (state == FileState::Allocated).then_some(bytes);
        let (files, place) = nameless(dir, reserved)?;
        let scratch = Scratch { state, bytes, files, place };
        let first = &scratch.files[0];
        match state {
            FileState::Appended | FileState::Allocated => {}
            FileState::ZeroFilled => first.prepare(0, bytes)?,
            FileState::Overwritten => {
                first.prepare(0, bytes)?;
                let pass = AlignedBuffer::copy_of(&[0x5a; PASS_BYTES]);
                let mut at = 0;
                while at < bytes {
                    let count = usize::try_from(bytes - at).map_or(PASS_BYTES, |left| left.min(PASS_BYTES));
                    first.write_at(&[IoSlice::new(&pass[..count])], at, WriteMode::Written)?;
                    at += count as u64;
                }
                first.sync()?;
            }
        }
        Ok(scratch)
    }

    /// Returns the methods that this file supports, at least one.
    pub fn methods(&self) -> Vec<Method> {
        self.files.iter().map(|file| file.method()).collect()
    }

    /// Makes durable writes. Each thread writes one block after the other in its own part of the
    /// file; in the state [`FileState::Appended`] all threads write at the file's end. In the state
    /// [`FileState::Overwritten`] a thread begins again at the start of its part.
    ///
    /// # Errors
    /// Those of the device; `InvalidInput` if the file does not support the method, or is too small
    /// for the load.
    pub fn measure(&self, load: &Load) -> Result<Samples> {
        let wrong = |what: &str| {
            Error::from_io(Verb::Write, &*self.place, io::Error::new(io::ErrorKind::InvalidInput, what))
        };
        let file = self.files.iter().find(|file| file.method() == load.method);
        let file = file.ok_or_else(|| wrong("this file does not take the method"))?;
        let block = load.block_bytes.max(1) as u64;
        let part = self.bytes / load.depth.max(1) as u64 / block * block;
        if part == 0 {
            return Err(wrong("the file to measure with is too small"));
        }
        let end = AtomicU64::new(0);
        let begun = Instant::now();
        let times: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
            let write = |thread: u64| self.write(&**file, load, thread * part, part, &end);
            let others: Vec<_> =
                (1..load.depth as u64).map(|thread| scope.spawn(move || write(thread))).collect();
            let first = write(0);
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            std::iter::once(first).chain(others.into_iter().map(join)).collect()
        });
        let elapsed = begun.elapsed();
        let times: Vec<Vec<u64>> = times.into_iter().collect::<Result<_>>()?;
        Ok(Samples::new(times.concat(), elapsed))
    }

    /// Makes one thread's writes.
    fn write(
        &self,
        file: &dyn File,
        load: &Load,
        start: u64,
        part: u64,
        end: &AtomicU64,
    ) -> Result<Vec<u64>> {
        let block = load.block_bytes.max(1) as u64;
        let mut buffer = AlignedBuffer::new_zeroed(load.block_bytes.max(1));
        let (mut nanos, mut at) = (Vec::new(), 0);
        let begun = Instant::now();
        loop {
            let offset = match self.state {
                FileState::Appended => end.fetch_add(block, Ordering::Relaxed),
                _ => start + at,
            };
            let is_over = match self.state {
                FileState::Appended => offset + block > self.bytes,
                FileState::ZeroFilled | FileState::Allocated => at + block > part,
                FileState::Overwritten => false,
            };
            if is_over || (!nanos.is_empty() && begun.elapsed() >= load.time) {
                return Ok(nanos);
            }
            // Each write has bytes of its own, because some devices detect repeated contents.
            let number = (nanos.len() as u64 + 1).to_le_bytes();
            buffer.iter_mut().zip(number).for_each(|(byte, number)| *byte = number);
            let before = Instant::now();
            let parts = [IoSlice::new(&buffer)];
            match load.sync {
                SyncMethod::Durable => file.write_at(&parts, offset, WriteMode::Durable)?,
                SyncMethod::Synced => {
                    file.write_at(&parts, offset, WriteMode::Written)?;
                    file.sync()?;
                }
            }
            nanos.push(before.elapsed().as_nanos() as u64);
            at += block;
            if self.state == FileState::Overwritten && at + block > part {
                at = 0;
            }
        }
    }
}

/// Makes a file without a name and opens it with every method that it supports. Returns the open
/// files and the path that the file had. Reserves `reserved` bytes for it, if given.
fn nameless(dir: &Path, reserved: Option<u64>) -> Result<(Vec<Arc<dyn File>>, String)> {
    // A number that no other call in this process gets.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("probe.{}.{number}", std::process::id());
    let folder = dir.join(FOLDER);
    let place = folder.join(&name).display().to_string();
    let mut attempts = 0;
    let (directory, first) = loop {
        let created = FileDirectory::open(&folder)
            .and_then(|directory| Ok((directory.open(&name, Create::New, Method::Buffered)?, directory)));
        match created {
            // Another process has ended its measurement and removed the folder meanwhile.
            Err(error) if error.is_not_found() && attempts < 100 => attempts += 1,
            Err(error) => return Err(error),
            Ok((file, directory)) => break (directory, file),
        }
    };
    let opened = reserved.map_or(Ok(()), |bytes| reserve(&place, bytes)).and_then(|()| {
        let mut files = vec![first];
        for method in [Method::Direct, Method::Uring] {
            let file = directory.open(&name, Create::Never, method)?;
            if file.method() == method {
                files.push(file);
            }
        }
        Ok(files)
    });
    directory.remove(&name)?;
    // This fails while another process measures here; the last process removes the folder.
    std::fs::remove_dir(&folder).ok();
    Ok((opened?, place))
}

#[cfg(not(unix))]
fn reserve(path: &str, _: u64) -> Result<()> {
    Err(Error::from_io(Verb::Prepare, path, io::ErrorKind::Unsupported.into()))
}

#[cfg(unix)]
fn reserve(path: &str, bytes: u64) -> Result<()> {
    let fail = |errno: rustix::io::Errno| Error::from_io(Verb::Prepare, path, errno.into());
    let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(fail)?;
    rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes).map_err(fail)
}
