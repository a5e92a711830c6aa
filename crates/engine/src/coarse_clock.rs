//! A clock that is cheap to read, and that measures how long transactions have been open.
//!
//! Any thread may read the clock. On Linux the clock moves in steps of the kernel's tick, 1 to 10
//! ms. A reading takes about 5 ns, while a reading of the precise clock takes up to 80 ns; every
//! transaction takes one or two readings when it begins. On other systems this module reads the
//! precise clock. Readings never decrease.

use std::time::Duration;

/// Returns the nanoseconds since an instant that is fixed for the whole process.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the nanoseconds since an instant that is fixed for the whole process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> u64 {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let since = FIRST.get_or_init(std::time::Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the time since the reading `then`.
pub(crate) fn since(then: u64) -> Duration {
    Duration::from_nanos(now().saturating_sub(then))
}
