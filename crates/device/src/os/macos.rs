//! The functions of `os/mod.rs` for macOS.
//!
//! `fsync` hands the bytes to the drive and lets the drive keep them in its volatile cache.
//! `F_FULLFSYNC` empties that cache too, so it is the only sync used here. APFS, HFS+, FAT and UDF
//! have it; other file systems answer with an error, which is passed on: falling back to `fsync`
//! would acknowledge bytes that a power failure can lose.
//!
//! This file is compiled by `cargo xtask nightly`, and was never run.

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::io::IoSlice;
use std::num::NonZeroU64;
use std::os::fd::AsFd;

/// None: no mapping has bytes that are durable once they are persisted.
pub(crate) const MAP_SYNC: Option<MapFlags> = None;

/// Writes nothing and returns `OPNOTSUPP`, because no write is durable when it returns. The caller
/// writes and syncs.
pub(crate) fn write_durably(_fd: impl AsFd, _parts: &[IoSlice<'_>], _offset: u64) -> Result<usize> {
    Err(Errno::OPNOTSUPP)
}

/// Makes an open file's bytes and its length durable.
pub(crate) fn sync_data(fd: impl AsFd) -> Result<()> {
    rustix::fs::fcntl_fullfsync(fd)
}

/// Makes all bytes and metadata of an open file durable, or the names in an open directory.
pub(crate) fn sync_all(fd: impl AsFd) -> Result<()> {
    rustix::fs::fcntl_fullfsync(fd)
}

/// Drops an open file's clean pages from the page cache. The call that does so takes a mapping, so
/// the file is mapped for it.
pub(crate) fn drop_cache(fd: impl AsFd) -> Result<()> {
    let length = rustix::fs::fstat(&fd)?.st_size;
    let bytes = usize::try_from(length).map_err(|_| Errno::OVERFLOW)?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: a new mapping at an address that the kernel chooses touches no other memory; its
    // bytes are never read.
    let start =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, fd, 0) }?;
    // SAFETY: the range was just mapped, and nothing refers into it.
    let dropped = unsafe { rustix::mm::msync(start, bytes, MsyncFlags::SYNC | MsyncFlags::INVALIDATE) };
    // SAFETY: mapped above with this length, and nothing refers into it.
    let unmapped = unsafe { rustix::mm::munmap(start, bytes) };
    dropped.and(unmapped)
}

/// Does nothing. macOS has a call that switches off reading ahead, but this program does not use
/// that call, because it was not tried yet.
pub(crate) fn expect_random_reads(_fd: impl AsFd) -> Result<()> {
    Ok(())
}

/// Does nothing: the system's call for reading these bytes ahead was not tried.
pub(crate) fn read_ahead(_fd: impl AsFd, _offset: u64, _bytes: NonZeroU64) -> Result<()> {
    Ok(())
}

/// Reads nothing and returns `OPNOTSUPP`: the system has no such call.
pub(crate) fn read_cached(_fd: impl AsFd, _buffer: &mut [u8], _offset: u64) -> Result<usize> {
    Err(Errno::OPNOTSUPP)
}

/// Returns the kind of file system that an open file or directory is on.
pub(crate) fn file_system(fd: impl AsFd) -> &'static str {
    let Ok(status) = rustix::fs::fstatfs(fd) else { return "file system" };
    let name: Vec<u8> =
        status.f_fstypename.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    match &name[..] {
        b"apfs" => "apfs",
        b"hfs" => "hfs",
        b"msdos" => "fat",
        b"exfat" => "exfat",
        b"nfs" => "nfs",
        b"smbfs" => "smb",
        _ => "file system",
    }
}

/// Does nothing: sleeps are as exact as the system makes them.
pub(crate) fn expect_short_sleeps() {}
