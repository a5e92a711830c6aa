//! The functions of `os/mod.rs` for Linux.

use rustix::fs::Advice;
use rustix::io::{ReadWriteFlags, Result};
use rustix::mm::MapFlags;
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsFd;

/// Flags of a mapping whose bytes are durable once they are persisted. The kernel refuses such a
/// mapping of a file whose memory cannot promise this.
pub(crate) const MAP_SYNC: Option<MapFlags> = Some(MapFlags::SHARED_VALIDATE.union(MapFlags::SYNC));

/// Writes at `offset`, waits until the bytes are durable, and returns how many were written.
/// Kernels and file systems that cannot do this return `OPNOTSUPP` or `NOSYS`, and write nothing.
pub(crate) fn write_durably(fd: impl AsFd, parts: &[IoSlice<'_>], offset: u64) -> Result<usize> {
    rustix::io::pwritev2(fd, parts, offset, ReadWriteFlags::DSYNC)
}

/// Makes an open file's bytes durable, and the file's length if reads of these bytes need it.
pub(crate) fn sync_data(fd: impl AsFd) -> Result<()> {
    rustix::fs::fdatasync(fd)
}

/// Makes all bytes and metadata of an open file durable, or the names in an open directory.
pub(crate) fn sync_all(fd: impl AsFd) -> Result<()> {
    rustix::fs::fsync(fd)
}

/// Drops an open file's clean pages from the page cache.
pub(crate) fn drop_cache(fd: impl AsFd) -> Result<()> {
    rustix::fs::fadvise(fd, 0, None, Advice::DontNeed)
}

/// Keeps the kernel from reading ahead in an open file by its own guess.
pub(crate) fn expect_random_reads(fd: impl AsFd) -> Result<()> {
    rustix::fs::fadvise(fd, 0, None, Advice::Random)
}

/// Has the kernel begin to read these bytes into the page cache.
pub(crate) fn read_ahead(fd: impl AsFd, offset: u64, bytes: NonZeroU64) -> Result<()> {
    rustix::fs::fadvise(fd, offset, Some(bytes), Advice::WillNeed)
}

/// Reads the bytes at `offset` that are in the page cache, without waiting for the device, and
/// returns how many these are. Fails with `AGAIN` if the first byte is not there; many kernels then
/// begin to read it. Kernels and file systems that cannot do this return `OPNOTSUPP` or `NOSYS`.
pub(crate) fn read_cached(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
}

/// Returns the kind of file system that an open file or directory is on.
pub(crate) fn file_system(fd: impl AsFd) -> &'static str {
    match rustix::fs::fstatfs(fd).map(|status| status.f_type as u64) {
        Ok(0xef53) => "ext4",
        Ok(0x5846_5342) => "xfs",
        Ok(0x9123_683e) => "btrfs",
        Ok(0x0102_1994) => "tmpfs",
        Ok(0x794c_7630) => "overlayfs",
        Ok(0x2fc1_2fc1) => "zfs",
        Ok(0xf2f5_2010) => "f2fs",
        Ok(0x6969) => "nfs",
        _ => "file system",
    }
}

/// Lets this thread's sleeps end within a nanosecond of their time instead of 50 us, if the kernel
/// agrees.
pub(crate) fn expect_short_sleeps() {
    // Miri does not know the call.
    if cfg!(miri) {
        return;
    }
    // A refusal only makes sleeps longer.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).ok();
}
