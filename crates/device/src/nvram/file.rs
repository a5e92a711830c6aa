//! A region's file: making, opening, locking and mapping it.
//!
//! Any thread of any process may call this code. Invariants:
//!
//! 1. A file has a region's name only when it is whole: it is made under the name with `.new`
//!    appended, gets all its blocks and its header, is synced, and is then renamed. If a crash
//!    leaves a `.new` file, the next thread that makes this region overwrites that file.
//! 2. One mapping of a region is in use at a time, here and in any other process: its opener holds
//!    an `flock` on the file until the mapping is gone. When the mapping is dropped, it unlocks the
//!    file explicitly. Closing the file is not enough: if another thread is starting a child
//!    process, the child has the same open file until its `exec`, and would keep the lock that
//!    long. If this process ends without dropping the mapping, the kernel releases the lock. A
//!    thread that makes a region takes the lock before the file gets the region's name.
//! 3. The file has a block for each of its bytes before it is mapped, so a store never meets a full
//!    device, which would be a `SIGBUS`. `fallocate` runs at every opening, because a copy of the
//!    file may have holes. The promise does not hold on file systems that do not overwrite in place
//!    (btrfs, zfs), nor if a process ignores the lock and cuts the mapped file.
//! 4. Only a mapping that the kernel made with `MAP_SYNC` is called real.

use super::cache::Instruction;
use super::form::{Form, Medium, Persistence};
use super::header::{self, HEADER_BYTES, SEALED_BYTES};
use crate::error::{Cause, Error, NvramFault, Result, Verb};
use crate::os::{self, retry};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::{OsStr, OsString, c_void};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

/// Bytes of a block for [`fill`], which makes a file system without `fallocate` allocate block by
/// block. `fill` assumes that no such file system has smaller blocks.
const BLOCK_BYTES: u64 = 4096;

/// A mapped region.
#[derive(Debug)]
pub(super) struct Mapping {
    pages: Pages,
    bytes: u64,
    form: Form,
    // Dropped after the pages (invariant 2).
    #[cfg_attr(any(not(test), miri), expect(dead_code, reason = "held until the region is dropped"))]
    file: LockedFile,
}

/// A mapped file, from its header on; unmapped once, when dropped.
#[derive(Debug)]
struct Pages {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped with this length; no reference into the dropped region is left.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

/// An open file with its lock.
#[derive(Debug)]
struct LockedFile(OwnedFd);

impl AsFd for LockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock, perhaps later.
        rustix::fs::flock(&self.0, FlockOperation::Unlock).ok();
    }
}

impl Mapping {
    fn of((pages, form): (Pages, Form), file: LockedFile) -> Mapping {
        Mapping { bytes: pages.bytes as u64 - HEADER_BYTES, pages, form, file }
    }

    /// Returns the number of bytes of the region.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the form of the region.
    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Returns the region's first byte.
    pub(super) fn base(&self) -> NonNull<u8> {
        // SAFETY: the mapping is longer than the header.
        unsafe { self.pages.start.cast::<u8>().add(HEADER_BYTES as usize) }
    }
}

/// Opens the region at `path`. If there is none, makes one of `wanted` bytes. Without `wanted` the
/// region must exist, and may have any length.
pub(super) fn open(path: &Path, wanted: Option<u64>, persistence: Persistence) -> Result<Mapping> {
    let region_path = RegionPath::of(path)?;
    let total = wanted
        .map(|bytes| header::file_bytes(bytes).map_err(|fault| region_path.fault(fault)))
        .transpose()?;
    if let (Persistence::Real, None) = (persistence, Instruction::detect()) {
        return Err(region_path.fault(NvramFault::NoInstruction));
    }
    loop {
        match (region_path.open_existing(wanted), total) {
            (Err(Error { cause: Cause::NotFound, .. }), Some(total)) => {
                if let Some(made) = region_path.create(total, persistence)? {
                    return Ok(made);
                }
                // Another process was quicker. The next round opens its region, or finds it in use.
            }
            (opened, _) => {
                let (file, total) = opened?;
                return Ok(Mapping::of(region_path.map(&file, total, persistence)?, file));
            }
        }
    }
}

/// A name in an open folder.
struct RegionPath<'a> {
    folder: OwnedFd,
    name: &'a OsStr,
    path: &'a Path,
}

impl<'a> RegionPath<'a> {
    fn of(path: &'a Path) -> Result<Self> {
        let fail = |errno: Errno| Error::from_io(Verb::Map, path.display().to_string(), errno.into());
        let name = path.file_name().ok_or_else(|| fail(Errno::ISDIR))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = retry(|| rustix::fs::open(parent, flags, Mode::empty())).map_err(fail)?;
        Ok(RegionPath { folder, name, path })
    }

    fn fail(&self, verb: Verb, errno: Errno) -> Error {
        Error::from_io(verb, self.path.display().to_string(), errno.into())
    }

    fn map_error(&self, errno: Errno) -> Error {
        self.fail(Verb::Map, errno)
    }

    fn fault(&self, fault: NvramFault) -> Error {
        Error::new(Verb::Map, self.path.display().to_string(), Cause::Nvram(fault))
    }

    /// Opens, locks and checks the file, and gives it all its blocks. Returns the file and its
    /// length.
    fn open_existing(&self, wanted: Option<u64>) -> Result<(LockedFile, u64)> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = retry(|| rustix::fs::openat(&self.folder, self.name, flags, Mode::empty()))
            .map_err(|errno| self.map_error(errno))?;
        let file = self.lock(file)?;
        let mut block = [0; SEALED_BYTES];
        let read =
            retry(|| rustix::io::pread(&file, &mut block[..], 0)).map_err(|errno| self.map_error(errno))?;
        let bytes = header::decode(&block[..read]).map_err(|fault| self.fault(fault))?;
        let expected = header::file_bytes(bytes).map_err(|fault| self.fault(fault))?;
        let found = self.status(&file)?.st_size as u64;
        if found != expected {
            return Err(self.fault(NvramFault::Cut { expected, found }));
        }
        match wanted {
            Some(wanted) if wanted != bytes => {
                Err(self.fault(NvramFault::Length { expected: wanted, found: bytes }))
            }
            _ => {
                self.allocate(&file, expected)?;
                Ok((file, expected))
            }
        }
    }

    /// Makes the file, zeroed, and maps it. Returns `None` if a file of this name exists.
    fn create(&self, total: u64, persistence: Persistence) -> Result<Option<Mapping>> {
        let mut new = OsString::from(self.name);
        new.push(".new");
        let file = self.take_new(&new)?;
        let made = self.make(&file, &new, total, persistence);
        if !matches!(made, Ok(Some(_))) {
            // The file is removed while it is locked. If the removal fails, the next thread that
            // makes the region takes the file over.
            rustix::fs::unlinkat(&self.folder, &new, AtFlags::empty()).ok();
        }
        Ok(made?.map(|made| Mapping::of(made, file)))
    }

    /// Opens and locks the file that is being made: a new one, or one that a crash left.
    fn take_new(&self, new: &OsStr) -> Result<LockedFile> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
        loop {
            let file = retry(|| rustix::fs::openat(&self.folder, new, flags, Mode::from_raw_mode(0o644)))
                .map_err(|errno| self.map_error(errno))?;
            let file = self.lock(file)?;
            // Another process that made the file may have renamed it meanwhile. The open file is
            // then a whole region, which must not be overwritten.
            let ours = self.status(&file)?;
            match rustix::fs::statat(&self.folder, new, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(named) if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) => return Ok(file),
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.map_error(errno)),
            }
        }
    }

    fn make(
        &self,
        file: &LockedFile,
        new: &OsStr,
        total: u64,
        persistence: Persistence,
    ) -> Result<Option<(Pages, Form)>> {
        let prepare = |errno: Errno| self.fail(Verb::Prepare, errno);
        retry(|| rustix::fs::ftruncate(file, 0)).map_err(prepare)?;
        // Without this check a file that cannot fit would first take all room from other programs.
        if let Ok(status) = rustix::fs::fstatvfs(file)
            && status.f_blocks > 0
            && status.f_bfree.saturating_mul(status.f_frsize) < total
        {
            return Err(Error::new(Verb::Prepare, self.path.display().to_string(), Cause::NoSpace));
        }
        self.allocate(file, total)?;
        write_all(file, &header::encode(total - HEADER_BYTES), 0).map_err(prepare)?;
        retry(|| os::sync_all(file)).map_err(|errno| self.fail(Verb::Sync, errno))?;
        // The file is mapped before it has its name, so that a region that cannot have the
        // requested persistence is not made.
        let mapped = self.map(file, total, persistence)?;
        match rustix::fs::renameat_with(&self.folder, new, &self.folder, self.name, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(None),
            // The file system does not know the flag. A look at the name before the renaming is
            // enough, because every thread that makes a region of this name holds the lock of
            // `new`.
            Err(Errno::INVAL | Errno::NOSYS) => {
                match rustix::fs::statat(&self.folder, self.name, AtFlags::empty()) {
                    Ok(_) => return Ok(None),
                    Err(_) => rustix::fs::renameat(&self.folder, new, &self.folder, self.name)
                        .map_err(|errno| self.fail(Verb::Rename, errno))?,
                }
            }
            Err(errno) => return Err(self.fail(Verb::Rename, errno)),
        }
        retry(|| os::sync_all(&self.folder)).map_err(|errno| self.fail(Verb::SyncDirectory, errno))?;
        Ok(Some(mapped))
    }

    fn lock(&self, file: OwnedFd) -> Result<LockedFile> {
        match retry(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(LockedFile(file)),
            Err(Errno::WOULDBLOCK) => {
                Err(Error::new(Verb::Lock, self.path.display().to_string(), Cause::Locked(None)))
            }
            Err(errno) => Err(self.fail(Verb::Lock, errno)),
        }
    }

    fn status(&self, file: &LockedFile) -> Result<Stat> {
        retry(|| rustix::fs::fstat(file)).map_err(|errno| self.fail(Verb::Length, errno))
    }

    /// Gives the file a block for each of its first `total` bytes (invariant 3).
    fn allocate(&self, file: &LockedFile, total: u64) -> Result<()> {
        match retry(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, total)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file, total),
            other => other,
        }
        .map_err(|errno| self.fail(Verb::Prepare, errno))
    }

    fn map(&self, file: &LockedFile, total: u64, persistence: Persistence) -> Result<(Pages, Form)> {
        let instruction = Instruction::detect();
        let kind = os::file_system(file);
        let bytes =
            usize::try_from(total).map_err(|_| self.fault(NvramFault::Bytes(total - HEADER_BYTES)))?;
        let emulated = |latency| -> Result<(Pages, Form)> {
            let pages = map(file, bytes, MapFlags::SHARED).map_err(|errno| self.map_error(errno))?;
            Ok((pages, Form::Emulated { medium: Medium::File(kind), instruction, latency }))
        };
        match (persistence, instruction) {
            (Persistence::Emulated { latency }, _) => emulated(latency),
            (Persistence::Auto, None) => emulated(Duration::ZERO),
            (Persistence::Real, None) => Err(self.fault(NvramFault::NoInstruction)),
            (Persistence::Auto | Persistence::Real, Some(instruction)) => {
                match os::MAP_SYNC.map_or(Err(Errno::OPNOTSUPP), |flags| map(file, bytes, flags)) {
                    Ok(pages) => Ok((pages, Form::Real { file_system: kind, instruction })),
                    // `OPNOTSUPP` comes from file systems without `MAP_SYNC`, `INVAL` from kernels
                    // that know neither `MAP_SYNC` nor `MAP_SHARED_VALIDATE`.
                    Err(Errno::OPNOTSUPP | Errno::INVAL) => match persistence {
                        Persistence::Real => Err(self.fault(NvramFault::NoDax(kind))),
                        _ => emulated(Duration::ZERO),
                    },
                    Err(errno) => Err(self.map_error(errno)),
                }
            }
        }
    }
}

fn map(file: impl AsFd, bytes: usize, flags: MapFlags) -> rustix::io::Result<Pages> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
    let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, flags, file, 0) }?;
    Ok(Pages { start: NonNull::new(start).ok_or(Errno::NOMEM)?, bytes })
}

fn write_all(file: impl AsFd, bytes: &[u8], at: u64) -> rustix::io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match retry(|| rustix::io::pwrite(&file, &bytes[done..], at + done as u64))? {
            0 => return Err(Errno::IO),
            count => done += count,
        }
    }
    Ok(())
}

/// Does the work of `fallocate` on file systems without it: reads one byte of each block and writes
/// it back.
fn fill(file: impl AsFd, total: u64) -> rustix::io::Result<()> {
    let mut at = 0;
    while at < total {
        let last = (at + BLOCK_BYTES).min(total) - 1;
        let mut byte = [0];
        retry(|| rustix::io::pread(&file, &mut byte[..], last))?;
        write_all(&file, &byte, last)?;
        at += BLOCK_BYTES;
    }
    Ok(())
}

// Miri has none of the calls that these tests make.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn filling_gives_every_block_and_changes_no_byte() {
        let file = tempfile::tempfile().expect("file");
        let total = 5 * BLOCK_BYTES + 64;
        let text = b"was here";
        write_all(&file, text, 2 * BLOCK_BYTES - text.len() as u64).expect("write");
        fill(&file, total).expect("fill");
        let status = file.metadata().expect("status");
        assert_eq!(status.len(), total);
        assert!(status.blocks() * 512 >= total, "{} sectors", status.blocks());
        let mut found = vec![1; total as usize];
        file.read_exact_at(&mut found, 0).expect("read");
        let end = 2 * BLOCK_BYTES as usize;
        assert_eq!(&found[end - text.len()..end], text);
        assert!(found[..end - text.len()].iter().chain(&found[end..]).all(|byte| *byte == 0));
    }

    #[test]
    fn a_maker_that_finds_the_name_taken_leaves_what_is_there() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("region");
        let region_path = RegionPath::of(&path).expect("folder");
        let first = region_path
            .create(HEADER_BYTES + 64, Persistence::Auto)
            .expect("made")
            .expect("not there before");
        write_all(&first.file, b"mine", HEADER_BYTES).expect("write");
        assert!(region_path.create(HEADER_BYTES + 128, Persistence::Auto).expect("no failure").is_none());
        let mut found = [0; 4];
        rustix::io::pread(&first.file, &mut found[..], HEADER_BYTES).expect("read");
        assert_eq!(&found, b"mine");
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("list").count(),
            1,
            "nothing is left of the other"
        );
    }

    #[test]
    fn a_region_being_made_is_not_made_by_another() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("region");
        let region_path = RegionPath::of(&path).expect("folder");
        let _making = region_path.take_new(OsStr::new("region.new")).expect("locked");
        let refused = open(&path, Some(64), Persistence::Auto).expect_err("it is being made");
        assert!(matches!(refused.cause, Cause::Locked(None)), "{refused}");
    }
}
