//! Rates of the raw device or of raw NVRAM: no log can write faster. Each round measures them in
//! the log's folder or in NVRAM: once for each device, delay and size of a record in NVRAM.

use katydid_command::failure::Result;
use katydid_device::nvram::Persistence;
use katydid_device::{AlignedBuffer, Create, Directory, Method, WriteMode};
use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Rates of the raw device.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Raw {
    /// Median time in microseconds of durable writes of 4 KiB to a file of zeros, one after the
    /// other. For NVRAM, the median time in which one record is copied, written back and fenced.
    pub write_us: f64,
    /// Megabytes per second of durable writes, one after the other, at the better of the [`LARGE`]
    /// sizes. For NVRAM, megabytes of records per second.
    pub best_megabytes: f64,
}

const BLOCK: usize = 4096;
const LARGE: [usize; 2] = [256 << 10, 1 << 20];
const FILE_BYTES: usize = 8 << 20;
const NAME: &str = "raw";
const REGION_BYTES: u64 = 1 << 20;

impl Raw {
    /// Measures NVRAM for about `time`, with records of `bytes` bytes (at most 64 KiB) at adjacent
    /// addresses.
    pub fn of_nvram(directory: &dyn Directory, want: Persistence, bytes: u64, time: Duration) -> Result<Raw> {
        /// Number of records that are timed together, because reading the clock takes as long as
        /// one record.
        const BATCH: u64 = 256;
        let region = directory.nvram(NAME, REGION_BYTES, want)?;
        let bytes = bytes.next_multiple_of(8).clamp(8, 64 << 10);
        let (begin, mut times, mut at) = (Instant::now(), Vec::new(), 0);
        while times.is_empty() || begin.elapsed() < time {
            let since = Instant::now();
            for number in 0..BATCH {
                if at + bytes > REGION_BYTES {
                    at = 0;
                }
                for word in (at..at + bytes).step_by(8) {
                    region.word(word).store(number, Ordering::Relaxed);
                }
                region.persist(at, bytes);
                at += bytes;
            }
            times.push(since.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
        }
        times.sort_by(f64::total_cmp);
        let write_us = times.get(times.len() / 2).copied().unwrap_or(0.0);
        Ok(Raw { write_us, best_megabytes: bytes as f64 / write_us.max(1e-6) })
    }

    /// Measures the device for about twice `time`.
    pub fn measure(directory: &dyn Directory, method: Method, time: Duration) -> Result<Raw> {
        if directory.list()?.iter().any(|name| name == NAME) {
            directory.remove(NAME)?;
        }
        let file = directory.open(NAME, Create::New, method)?;
        file.prepare(0, FILE_BYTES as u64)?;
        let writes = |bytes: usize, time: Duration| -> Result<(Vec<u64>, f64)> {
            let mut block = AlignedBuffer::new_zeroed(bytes);
            let (begin, mut times) = (Instant::now(), Vec::new());
            while times.is_empty() || begin.elapsed() < time {
                // Write different bytes each time, because some devices detect repeated bytes.
                block[..8].copy_from_slice(&(times.len() as u64 + 1).to_le_bytes());
                let since = Instant::now();
                let at = times.len() * bytes % FILE_BYTES;
                file.write_at(&[IoSlice::new(&block)], at as u64, WriteMode::Durable)?;
                times.push(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            let seconds = begin.elapsed().as_secs_f64().max(1e-9);
            Ok((times, seconds))
        };
        let (mut times, _) = writes(BLOCK, time)?;
        times.sort_unstable();
        let mut best_megabytes = 0.0;
        for bytes in LARGE {
            let (times, seconds) = writes(bytes, time / LARGE.len() as u32)?;
            best_megabytes = f64::max(best_megabytes, (times.len() * bytes) as f64 / seconds / 1e6);
        }
        directory.remove(NAME)?;
        let write_us = times.get(times.len() / 2).map_or(0.0, |nanos| *nanos as f64 / 1000.0);
        Ok(Raw { write_us, best_megabytes })
    }
}
