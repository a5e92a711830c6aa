//! Measurement of a device, judged by one rule, for programs ([`Device::auto`]) and for people
//! (`katydid bench-disk`).
//!
//! `scratch` measures, [`Trials`] lists the measurements, and `choose` is the rule, which is pure.
//! Any thread may call this code, which prints nothing.

mod choose;
mod scratch;

use crate::directory::Method;
use crate::error::Result;
use choose::{best_depth, best_method, enough_bytes};
pub use scratch::{FileState, Load, Samples, Scratch, SyncMethod};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Bytes of the file that [`Device::auto`] measures with.
const AUTO_BYTES: u64 = 8 << 20;
/// Time of each of the up to 13 measurements of [`Device::auto`].
const AUTO_TIME: Duration = Duration::from_millis(45);

/// The recommended use of a device, from measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Device {
    /// The recommended I/O method.
    pub method: Method,
    /// Size in bytes of a durable write: the smallest measured size that, with one write at a time,
    /// reaches nearly the best measured rate in bytes per second. Larger writes take longer and
    /// raise the rate little.
    pub write_bytes: usize,
    /// Number of durable writes in flight up to which the rate rises; 1 if it does not.
    pub depth: usize,
    /// Median time of a durable 4 KiB write, which is the least time of a blocking commit.
    pub write_time: Duration,
    /// Rate of durable writes of `write_bytes`, one at a time, in bytes per second.
    pub bytes_per_second: f64,
}

impl Device {
    /// Measures the device that a folder is on. The folder is created if missing. The call writes a
    /// file of 8 MiB twice, and then makes at least one durable write in each of up to 13
    /// measurements. This takes about a second, and longer on a slow device.
    ///
    /// The measurement writes to a file without a name, so a crash leaves nothing behind. The
    /// result varies if other programs use the device meanwhile. A device that varies by itself (a
    /// shared disk, a laptop) is measured better, and longer, by `katydid bench-disk`.
    ///
    /// # Errors
    /// Those of creating, preparing and writing a file of 8 MiB; `Cause::NoSpace` if the device has
    /// no room for it.
    ///
    /// ```no_run
    /// use katydid_device::Device;
    ///
    /// let device = Device::auto("/mnt/fast".as_ref())?;
    /// println!("{device}");
    /// # Ok::<(), katydid_device::Error>(())
    /// ```
    pub fn auto(dir: &Path) -> Result<Device> {
        Ok(Trials::run(dir, AUTO_BYTES, AUTO_TIME, |_, _| ())?.device())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, writes of {} KiB, {} in flight: {:.0} us for 4 KiB, {:.0} MB/s",
            self.method,
            self.write_bytes >> 10,
            self.depth,
            self.write_time.as_secs_f64() * 1e6,
            self.bytes_per_second / 1e6,
        )
    }
}

/// The measurements that the choice depends on, made on blocks that were written before, as the
/// blocks of a log are.
#[derive(Debug, Clone)]
pub struct Trials {
    /// Times of durable writes of [`Trials::SMALL`] and of [`Trials::LARGE`] bytes, one at a time,
    /// for each method that the device supports.
    pub methods: Vec<(Method, Samples, Samples)>,
    /// Times with the best method, one write at a time, for each size in ascending order.
    pub sizes: Vec<(usize, Samples)>,
    /// Times of writes of [`Trials::SMALL`] bytes with the best method, for each number of writes
    /// in flight in ascending order.
    pub depths: Vec<(usize, Samples)>,
}

impl Trials {
    /// Bytes of the smallest write that a log makes.
    pub const SMALL: usize = 4 << 10;
    /// Bytes of a write that a busy log makes.
    pub const LARGE: usize = 256 << 10;
    /// The sizes that are measured.
    pub const SIZES: [usize; 5] = [Trials::SMALL, 16 << 10, 64 << 10, Trials::LARGE, 1 << 20];
    /// The numbers of writes in flight that are measured.
    pub const DEPTHS: [usize; 5] = [1, 2, 4, 8, 16];
    /// Minimum size of the file in bytes.
    pub const FILE_BYTES_MIN: u64 = 1 << 20;

    /// Measures in a scratch file of `bytes` on the device of a folder, each trial for `time`.
    /// Calls `progress` before each trial, with the share of all trials that is done, from 0 to 1,
    /// and the trial's name.
    ///
    /// # Errors
    /// Those of the device, and `InvalidInput` for a file smaller than [`Trials::FILE_BYTES_MIN`].
    pub fn run(
        dir: &Path,
        bytes: u64,
        time: Duration,
        mut progress: impl FnMut(f64, &str),
    ) -> Result<Trials> {
        let scratch = Scratch::new(dir, bytes, FileState::Overwritten)?;
        let taken = scratch.methods();
        let count = (2 * taken.len() + Self::SIZES.len() - 2 + Self::DEPTHS.len() - 1) as f64;
        let mut done = 0.0;
        let mut measure = |method, block_bytes: usize, depth| {
            progress(done / count, &format!("{method}, {} KiB, {depth} in flight", block_bytes >> 10));
            done += 1.0;
            scratch.measure(&Load { method, sync: SyncMethod::Durable, block_bytes, depth, time })
        };
        let mut methods = Vec::new();
        for method in taken {
            let small = measure(method, Self::SMALL, 1)?;
            methods.push((method, small, measure(method, Self::LARGE, 1)?));
        }
        let mut trials = Trials { methods, sizes: Vec::new(), depths: Vec::new() };
        let method = trials.method();
        let (small, large) = trials.of(method);
        for size in Self::SIZES {
            let samples = match size {
                Self::SMALL => small.clone(),
                Self::LARGE => large.clone(),
                _ => measure(method, size, 1)?,
            };
            trials.sizes.push((size, samples));
        }
        for depth in Self::DEPTHS {
            let samples =
                if depth == 1 { trials.sizes[0].1.clone() } else { measure(method, Self::SMALL, depth)? };
            trials.depths.push((depth, samples));
        }
        Ok(trials)
    }

    fn method(&self) -> Method {
        let medians = |samples: &Samples| samples.median().as_secs_f64();
        let costs: Vec<(Method, f64)> = self
            .methods
            .iter()
            .map(|(method, small, large)| (*method, medians(small) * medians(large)))
            .collect();
        best_method(&costs)
    }

    fn of(&self, method: Method) -> (Samples, Samples) {
        let found = self.methods.iter().find(|(measured, ..)| *measured == method).or(self.methods.first());
        found.map_or_else(Default::default, |(_, small, large)| (small.clone(), large.clone()))
    }

    /// Returns the recommended use of the device.
    pub fn device(&self) -> Device {
        let rate = |(bytes, samples): &(usize, Samples)| (*bytes, samples.per_second() * *bytes as f64);
        let rates: Vec<(usize, f64)> = self.sizes.iter().map(rate).collect();
        let depths: Vec<(usize, f64)> =
            self.depths.iter().map(|(depth, samples)| (*depth, samples.per_second())).collect();
        let method = self.method();
        let write_bytes = enough_bytes(&rates).unwrap_or(Self::SMALL);
        let bytes_per_second =
            rates.iter().find(|(bytes, _)| *bytes == write_bytes).map_or(0.0, |(_, rate)| *rate);
        let write_time = self.of(method).0.median();
        Device { method, write_bytes, depth: best_depth(&depths), write_time, bytes_per_second }
    }
}
