//! The system calls that differ between operating systems: one file for each system, with the same
//! functions.
//!
//! Any thread may call this code. The functions keep no state and repeat no call; the callers
//! repeat interrupted calls by [`retry`]. Outside this module, only code that is compiled for one
//! system may name a call that just one system has (Linux: `file/direct.rs`, `file/ring.rs`,
//! `file/uring.rs`, parts of `file/past_cache.rs` and `chunk.rs`; Windows: `windows/`).
//!
//! Invariant: after `sync_data` or `sync_all` the bytes survive a power failure. If the ordinary
//! sync of a system promises less, the system's file makes a stronger call, and returns an error on
//! a file system that does not have this call.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    MAP_SYNC, drop_cache, expect_random_reads, expect_short_sleeps, file_system, read_ahead, read_cached,
    sync_all, sync_data, write_durably,
};
#[cfg(target_os = "macos")]
pub(crate) use macos::{
    MAP_SYNC, drop_cache, expect_random_reads, expect_short_sleeps, file_system, read_ahead, read_cached,
    sync_all, sync_data, write_durably,
};
#[cfg(windows)]
pub(crate) use windows::expect_short_sleeps;

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
compile_error!("katydid-device knows how Linux, macOS and Windows make bytes durable, and no other system");

#[cfg(unix)]
use rustix::io::Errno;

/// Repeats a system call for as long as a signal interrupts it.
#[cfg(unix)]
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
