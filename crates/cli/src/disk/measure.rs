//! Measures a raw device: durable writes of a file prepared beforehand, as the log makes them.

use crate::failure::{Failure, Result};
use hdrhistogram::Histogram;
use katydid_device::{AlignedBuffer, Create, Directory, File, FileDirectory, Method, WriteMode};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// The subfolder that the file written to is in: a database in the same folder does not mind subfolders of other names.
/// Both are removed afterwards, and the file, if a crash left it, before.
const FOLDER: &str = "katydid-device-probe";
const NAME: &str = "probe";

/// The block a log writes at least.
pub const BLOCK: usize = 4096;

/// A file to measure with, zero-filled.
#[derive(Debug)]
pub struct Probe {
    folder: PathBuf,
    directory: Arc<dyn Directory>,
    file: Arc<dyn File>,
    bytes: u64,
}

/// What came of one measurement.
#[derive(Debug, Clone)]
pub struct Writes {
    /// Writes made durable one after the other per thread, all threads together, a second.
    pub per_second: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Nanoseconds each took.
    pub latency: Histogram<u64>,
}

impl Writes {
    /// A quantile of the latency in microseconds.
    pub fn us(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1000.0
    }
}

impl Probe {
    /// Makes a file of `bytes` zeros in a subfolder of `dir`, which must exist.
    pub fn new(dir: &Path, bytes: u64, method: Method) -> Result<Probe> {
        let folder = dir.join(FOLDER);
        let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&folder)?);
        if directory.list()?.iter().any(|name| name == NAME) {
            directory.remove(NAME)?;
        }
        let file = directory.open(NAME, Create::New, method)?;
        // Made before anything can fail, so that the file is removed then too.
        let probe = Probe { folder, directory, file, bytes };
        probe.file.prepare(0, bytes)?;
        Ok(probe)
    }

    /// How writes travel; not always as asked.
    pub fn method(&self) -> Method {
        self.file.method()
    }

    /// Writes blocks of `block` bytes from `threads` threads for about `time`, each durable before the same thread's
    /// next. Each thread walks through a part of the file of its own.
    pub fn durable_writes(&self, block: usize, threads: usize, time: Duration) -> Result<Writes> {
        let begin = Barrier::new(threads + 1);
        let stop = AtomicBool::new(false);
        let part = self.bytes / threads as u64 / block as u64 * block as u64;
        if part == 0 {
            return Err(Failure::failed("the file to measure with is too small"));
        }
        let (results, elapsed) = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..threads as u64)
                .map(|thread| {
                    let (begin, stop) = (&begin, &stop);
                    scope.spawn(move || self.write(thread * part, part, block, begin, stop))
                })
                .collect();
            begin.wait();
            let started = Instant::now();
            std::thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
            let results: Vec<_> = writers
                .into_iter()
                .map(|writer| writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            (results, started.elapsed())
        });
        let mut latency = empty();
        for result in results {
            latency.add(&result?).map_err(Failure::failed)?;
        }
        let per_second = latency.len() as f64 / elapsed.as_secs_f64();
        Ok(Writes { per_second, bytes_per_second: per_second * block as f64, latency })
    }

    fn write(
        &self,
        start: u64,
        part: u64,
        block: usize,
        begin: &Barrier,
        stop: &AtomicBool,
    ) -> Result<Histogram<u64>> {
        let mut buffer = AlignedBuffer::new_zeroed(block);
        let mut latency = empty();
        let mut at = 0;
        begin.wait();
        while !stop.load(Ordering::Relaxed) {
            // Not twice the same bytes: some devices notice.
            buffer[..8].copy_from_slice(&(latency.len() + 1).to_le_bytes());
            let before = Instant::now();
            self.file.write_at(&[IoSlice::new(&buffer)], start + at, WriteMode::Durable)?;
            latency.saturating_record(before.elapsed().as_nanos() as u64);
            at = (at + block as u64) % part;
        }
        Ok(latency)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let removed = self.directory.remove(NAME).map_err(|error| error.to_string());
        let removed =
            removed.and_then(|()| std::fs::remove_dir(&self.folder).map_err(|error| error.to_string()));
        if let Err(error) = removed {
            eprintln!("katydid: cannot remove {}: {error}", self.folder.display());
        }
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("the bounds are valid")
}

/// The limit a durable commit cannot beat on a device: measured raw, shortly before the run it is compared with.
#[derive(Debug, Clone)]
pub struct Limit {
    /// How the raw writes travelled.
    pub method: Method,
    /// One 4 KiB durable write after the other.
    pub alone: Writes,
    /// The same with [`Limit::MANY`] in flight.
    pub many: Writes,
}

impl Limit {
    /// How many raw writes are in flight at once in the second measurement.
    pub const MANY: usize = 16;

    /// Measures the device of the folder `dir` for about two times `time`.
    pub fn measure(dir: &Path, method: Method, time: Duration) -> Result<Limit> {
        let probe = Probe::new(dir, 32 << 20, method)?;
        let alone = probe.durable_writes(BLOCK, 1, time)?;
        let many = probe.durable_writes(BLOCK, Limit::MANY, time)?;
        Ok(Limit { method: probe.method(), alone, many })
    }
}

/// The name of a method.
pub fn method_name(method: Method) -> &'static str {
    match method {
        Method::Buffered => "buffered",
        Method::Direct => "direct",
        _ => "other",
    }
}
