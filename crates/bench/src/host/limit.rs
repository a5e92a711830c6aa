//! Raw durable writes, as the command line shows them in tables. The device library measures them.

use hdrhistogram::Histogram;
use katydid_command::failure::{Failure, Result};
use katydid_device::Method;
use katydid_device::probe::{FileState, Load, Samples, Scratch, SyncMethod};
use std::path::Path;
use std::time::Duration;

/// Minimum bytes of a write of a log.
pub const BLOCK: usize = 4096;

/// Result of one measurement.
#[derive(Debug, Clone)]
pub struct Writes {
    /// Durable writes per second of all threads together. Each thread makes one write after the
    /// other.
    pub per_second: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Nanoseconds of each write.
    pub latency: Histogram<u64>,
}

impl Writes {
    /// Result for samples of writes of `block` bytes.
    pub fn of(samples: &Samples, block: usize) -> Result<Writes> {
        let mut latency = Histogram::new_with_bounds(1, 600_000_000_000, 3).map_err(Failure::failed)?;
        samples.nanos().iter().for_each(|nanos| latency.saturating_record(*nanos));
        let per_second = samples.per_second();
        Ok(Writes { per_second, bytes_per_second: per_second * block as f64, latency })
    }

    /// A quantile of the latency in microseconds.
    pub fn us(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// The device's rates of raw durable writes. A log cannot write more often, but one write of the
/// log can make many commits durable. The rates are measured shortly before the run with which they
/// are compared.
#[derive(Debug, Clone)]
pub struct Limit {
    /// I/O method of the raw writes.
    pub method: Method,
    /// Durable writes of 4 KiB, one after the other.
    pub alone: Writes,
    /// Writes with [`Limit::MANY`] in flight.
    pub many: Writes,
}

impl Limit {
    /// Number of raw writes in flight in the second measurement.
    pub const MANY: usize = 16;

    /// Measures the device of the folder `dir` for about twice `time`.
    pub fn measure(dir: &Path, method: Method, time: Duration) -> Result<Limit> {
        let scratch = Scratch::new(dir, 32 << 20, FileState::Overwritten)?;
        let taken = scratch.methods();
        // Fall back to `Direct`, and then to `Buffered`, as the log's files do.
        let method = [method, Method::Direct].into_iter().find(|method| taken.contains(method));
        let method = method.unwrap_or(Method::Buffered);
        let measure = |depth| {
            let load = Load { method, sync: SyncMethod::Durable, block_bytes: BLOCK, depth, time };
            Writes::of(&scratch.measure(&load)?, BLOCK)
        };
        Ok(Limit { method, alone: measure(1)?, many: measure(Limit::MANY)? })
    }
}

/// The name of a method.
pub fn method_name(method: Method) -> &'static str {
    method.name()
}
