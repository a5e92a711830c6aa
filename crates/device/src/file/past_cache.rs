//! Opens files past the page cache on Linux, if the file system allows direct I/O. Elsewhere every
//! file is buffered.
//!
//! Any thread may call this code. A directory shares its rings with the directories inside it.

#[cfg(target_os = "linux")]
pub(super) use linux::PastCache;

/// Opens no file past the page cache, because the system is not Linux.
#[cfg(not(target_os = "linux"))]
#[derive(Clone)]
pub(super) struct PastCache;

#[cfg(not(target_os = "linux"))]
impl PastCache {
    pub(super) fn new() -> Self {
        PastCache
    }

    /// Returns the handle, because the file has to be buffered.
    pub(super) fn open(
        &self,
        _directory: &super::FileDirectory,
        _name: &str,
        _method: crate::directory::Method,
        handle: super::handle::Handle,
    ) -> Result<std::sync::Arc<dyn crate::directory::File>, super::handle::Handle> {
        Err(handle)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::aligned::ALIGNMENT;
    use crate::directory::{File, Method};
    use crate::file::FileDirectory;
    use crate::file::direct::DirectFile;
    use crate::file::handle::Handle;
    use crate::file::ring::Rings;
    use crate::file::uring::UringFile;
    use rustix::fs::{AtFlags, OFlags, StatxFlags};
    use std::os::fd::AsFd;
    use std::sync::Arc;

    /// Opens files for direct I/O, with rings of the kernel or without.
    #[derive(Clone)]
    pub(in crate::file) struct PastCache {
        rings: Arc<Rings>,
    }

    impl PastCache {
        pub(in crate::file) fn new() -> Self {
            PastCache { rings: Arc::new(Rings::new()) }
        }

        /// Opens the file by `method`, or by [`Method::Direct`] if the kernel provides no rings.
        /// Returns the handle if the file has to be buffered.
        pub(in crate::file) fn open(
            &self,
            directory: &FileDirectory,
            name: &str,
            method: Method,
            handle: Handle,
        ) -> Result<Arc<dyn File>, Handle> {
            if method == Method::Buffered {
                return Err(handle);
            }
            let direct = match directory.open_fd(name, OFlags::RDWR | OFlags::DIRECT) {
                Ok(direct) if supports_direct(&direct) => direct,
                // The file was opened through the page cache before this, so the failure is no
                // fault of the file itself.
                _ => return Err(handle),
            };
            let direct = DirectFile::new(handle, direct);
            if method == Method::Uring && self.rings.work() {
                return Ok(Arc::new(UringFile::new(direct, self.rings.clone())));
            }
            Ok(Arc::new(direct))
        }
    }

    /// Returns whether the file system takes direct I/O in multiples of [`ALIGNMENT`].
    fn supports_direct(fd: impl AsFd) -> bool {
        // The flag is STATX_DIOALIGN, of Linux 6.1. Kernels and file systems that do not answer are
        // assumed to take multiples of 4,096.
        let asked = StatxFlags::from_bits_retain(0x2000);
        let Ok(status) = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, asked) else { return true };
        if status.stx_mask & asked.bits() == 0 {
            return true;
        }
        let fits = |align: u32| align != 0 && align as usize <= ALIGNMENT;
        fits(status.stx_dio_mem_align) && fits(status.stx_dio_offset_align)
    }
}
