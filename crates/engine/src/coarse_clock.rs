//! A clock that is read at the cost of a memory access: how long transactions have been open.
//!
//! Any thread. On Linux it moves in steps of the kernel's tick, 1 to 10 ms, and a reading takes
//! about 5 ns where a precise one takes up to 80 ns; every transaction takes two when it begins.
//! Elsewhere it is the precise clock. Readings never go back. They are kept as numbers and become
//! durations only where a caller asks.

use std::time::Duration;

/// A reading: nanoseconds since an instant that is the same for the whole process.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A reading: nanoseconds since an instant that is the same for the whole process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> u64 {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let since = FIRST.get_or_init(std::time::Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The time since the reading `then`.
pub(crate) fn since(then: u64) -> Duration {
    Duration::from_nanos(now().saturating_sub(then))
}
