//! The system calls that differ between operating systems: one file for each system, with the same functions.
//!
//! Any thread. The functions keep no state and repeat no call; the callers do that, with [`retry`]. Only this module may name a call that just one
//! system has, apart from the files that only one system compiles (`file/direct.rs`, `file/ring.rs`, `file/uring.rs`: Linux).
//!
//! Invariant: after `sync_data` or `sync_all` the bytes survive a power failure. A system whose ordinary sync promises less needs its
//! stronger call here, and a file system without that call gets an error.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    MAP_SYNC, drop_cache, expect_short_sleeps, file_system, sync_all, sync_data, write_durably,
};
#[cfg(target_os = "macos")]
pub(crate) use macos::{
    MAP_SYNC, drop_cache, expect_short_sleeps, file_system, sync_all, sync_data, write_durably,
};

use rustix::io::Errno;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("katydid-device knows how Linux and macOS make bytes durable, and no other system");

/// Repeats a system call for as long as a signal interrupts it.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
