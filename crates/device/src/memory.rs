//! Files in memory: a device that costs only the copy of the bytes.
//!
//! Any thread may call this code; writers of different chunks of one file do not wait for each
//! other.
//!
//! Latches (leaf ranks, taken in this order): `names` guards which file a name means; `chunks`
//! guards the length and the list of chunks (taken exclusively only to grow or cut); each chunk's
//! own latch guards its bytes.
//!
//! Invariants:
//!
//! 1. `length <= chunks.len() * CHUNK_BYTES`; bytes of the chunks beyond `length` are zeros.
//! 2. Every byte counts as durable once written: nothing survives the process, whatever was synced.

use crate::directory::{Create, Directory, DirectoryLock, File, Method, WriteMode};
use crate::error::{Cause, Error, NvramFault, Result, Verb};
use crate::name;
use crate::nvram::{LINE_BYTES, NvRegion, Persistence};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

const CHUNK_BYTES: usize = if cfg!(miri) { 4 << 10 } else { 64 << 10 };

/// A directory in memory. Clones share the same files, so a program that keeps a clone can open
/// them again.
#[derive(Clone, Default)]
pub struct MemoryDirectory {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    names: Mutex<Names>,
    // Written by `lock` with a swap, and by the lock's drop. Acquire and release: the next holder
    // sees the last holder's writes.
    locked: AtomicBool,
}

#[derive(Default)]
struct Names {
    files: BTreeMap<String, Arc<Contents>>,
    directories: BTreeMap<String, MemoryDirectory>,
    regions: BTreeMap<String, Arc<NvRegion>>,
}

impl MemoryDirectory {
    /// Makes an empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of bytes in all files of this directory, without those of directories
    /// inside it.
    pub fn bytes(&self) -> u64 {
        self.names().files.values().map(|contents| contents.read().length).sum()
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.inner.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Result<Arc<Contents>> {
        let missing = || Error::new(Verb::Open, name, Cause::NotFound);
        self.names().files.get(name).cloned().ok_or_else(missing)
    }
}

impl Directory for MemoryDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        name::check(Verb::Open, name)?;
        let mut names = self.names();
        let contents = match (names.files.get(name), create) {
            (Some(_), Create::New) => return Err(Error::new(Verb::Open, name, Cause::AlreadyExists)),
            (Some(contents), _) => contents.clone(),
            (None, Create::Never) => return Err(Error::new(Verb::Open, name, Cause::NotFound)),
            (None, _) => {
                let contents = Arc::new(Contents::default());
                names.files.insert(name.to_owned(), contents.clone());
                contents
            }
        };
        Ok(Arc::new(MemoryFile { name: name.to_owned(), contents, access: Access::ReadWrite, method }))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        let (contents, method) = (self.find(name)?, Method::Buffered);
        Ok(Arc::new(MemoryFile { name: name.to_owned(), contents, access: Access::ReadOnly, method }))
    }

    fn list(&self) -> Result<Vec<String>> {
        let names = self.names();
        let mut all: Vec<String> = names.files.keys().chain(names.regions.keys()).cloned().collect();
        all.sort_unstable();
        Ok(all)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        name::check(Verb::Rename, to)?;
        let mut names = self.names();
        let Some(contents) = names.files.remove(from) else {
            return Err(Error::new(Verb::Rename, format!("{from} to {to}"), Cause::NotFound));
        };
        names.files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut names = self.names();
        match names.files.remove(name).is_some() || names.regions.remove(name).is_some() {
            true => Ok(()),
            false => Err(Error::new(Verb::Remove, name, Cause::NotFound)),
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        if self.inner.locked.swap(true, Ordering::Acquire) {
            let holder = Cause::Locked(Some(std::process::id()));
            return Err(Error::new(Verb::Lock, self.describe(), holder));
        }
        Ok(Box::new(MemoryLock { inner: self.inner.clone() }))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        name::check(Verb::Open, name)?;
        Ok(Arc::new(self.names().directories.entry(name.to_owned()).or_default().clone()))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        name::check(Verb::Open, name)?;
        let found = self.names().directories.get(name).cloned();
        Ok(found.map(|directory| Arc::new(directory) as Arc<dyn Directory>))
    }

    /// A region that exists keeps its latency, whatever latency `want` asks for.
    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        name::check(Verb::Map, name)?;
        let refused = |cause| Error::new(Verb::Map, name, cause);
        let fault = |fault| refused(Cause::Nvram(fault));
        if bytes == 0 || !bytes.is_multiple_of(LINE_BYTES) || bytes > FILE_BYTES_MAX {
            return Err(fault(NvramFault::Bytes(bytes)));
        }
        let latency = match want {
            Persistence::Real => return Err(fault(NvramFault::NoDax("memory"))),
            Persistence::Emulated { latency } => latency,
            Persistence::Auto => Duration::ZERO,
        };
        let mut names = self.names();
        let region = names.regions.entry(name.to_owned());
        let region = region.or_insert_with(|| Arc::new(NvRegion::memory_with_latency(bytes, latency)));
        if region.len() != bytes {
            return Err(fault(NvramFault::Length { expected: bytes, found: region.len() }));
        }
        // The region is cloned under this latch only, so no other thread clones it after this
        // check.
        if Arc::strong_count(region) > 1 {
            return Err(refused(Cause::Locked(Some(std::process::id()))));
        }
        Ok(region.clone())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

impl fmt::Debug for MemoryDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryDirectory({} files)", self.names().files.len())
    }
}

struct MemoryLock {
    inner: Arc<Inner>,
}

impl DirectoryLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.inner.locked.store(false, Ordering::Release);
    }
}

impl fmt::Debug for MemoryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryLock")
    }
}

#[derive(Default)]
struct Contents {
    chunks: RwLock<Chunks>,
}

#[derive(Default)]
struct Chunks {
    length: u64,
    list: Vec<RwLock<Box<[u8]>>>,
}

impl Contents {
    fn read(&self) -> RwLockReadGuard<'_, Chunks> {
        self.chunks.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Chunks> {
        self.chunks.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the file at least `length` bytes long, and returns read access to it. Grows it again
    /// if another thread cuts it meanwhile.
    fn at_least(&self, length: u64) -> RwLockReadGuard<'_, Chunks> {
        loop {
            let chunks = self.read();
            if chunks.length >= length {
                return chunks;
            }
            drop(chunks);
            self.grow(length);
        }
    }

    /// Makes the file at least `length` bytes long. The new bytes are zeros, and their memory is
    /// touched, so that later writes only copy.
    fn grow(&self, length: u64) {
        let mut chunks = self.change();
        let count = length.div_ceil(CHUNK_BYTES as u64) as usize;
        while chunks.list.len() < count {
            let mut chunk = vec![0u8; CHUNK_BYTES].into_boxed_slice();
            chunk.fill(0);
            chunks.list.push(RwLock::new(chunk));
        }
        chunks.length = chunks.length.max(length);
    }
}

impl Chunks {
    /// Calls `step` for each chunk's piece of `[offset, offset + len)`, with the chunk, the piece's
    /// offset in the chunk, its offset in the range, and its length.
    fn pieces(&self, offset: u64, len: usize, mut step: impl FnMut(&RwLock<Box<[u8]>>, usize, usize, usize)) {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (index, inside) = ((at / CHUNK_BYTES as u64) as usize, (at % CHUNK_BYTES as u64) as usize);
            let count = (CHUNK_BYTES - inside).min(len - done);
            step(&self.list[index], inside, done, count);
            done += count;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

struct MemoryFile {
    name: String,
    contents: Arc<Contents>,
    access: Access,
    method: Method,
}

/// Longest file in bytes. A longer one is refused rather than allocated; no file of a store comes
/// near this length.
const FILE_BYTES_MAX: u64 = 1 << 40;

impl MemoryFile {
    fn check_change(&self, verb: Verb, end: Option<u64>) -> Result<u64> {
        if self.access == Access::ReadOnly {
            let error = io::Error::from(io::ErrorKind::PermissionDenied);
            return Err(Error::from_io(verb, &*self.name, error));
        }
        match end {
            Some(end) if end <= FILE_BYTES_MAX => Ok(end),
            _ => Err(Error::from_io(verb, &*self.name, io::Error::from(io::ErrorKind::FileTooLarge))),
        }
    }
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let chunks = self.contents.read();
        let left = chunks.length.saturating_sub(offset);
        let len = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        chunks.pieces(offset, len, |chunk, inside, done, count| {
            let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
            buffer[done..done + count].copy_from_slice(&chunk[inside..inside + count]);
        });
        Ok(len)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, _mode: WriteMode) -> Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let end = self.check_change(Verb::Write, offset.checked_add(total as u64))?;
        if total == 0 {
            return Ok(());
        }
        let chunks = self.contents.at_least(end);
        let mut at = offset;
        for part in parts {
            chunks.pieces(at, part.len(), |chunk, inside, done, count| {
                let mut chunk = chunk.write().unwrap_or_else(PoisonError::into_inner);
                chunk[inside..inside + count].copy_from_slice(&part[done..done + count]);
            });
            at += part.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.contents.read().length)
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        if to <= from {
            return Ok(());
        }
        self.check_change(Verb::Prepare, Some(to))?;
        let chunks = self.contents.at_least(to);
        chunks.pieces(from, (to - from) as usize, |chunk, inside, _, count| {
            chunk.write().unwrap_or_else(PoisonError::into_inner)[inside..inside + count].fill(0);
        });
        Ok(())
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.check_change(Verb::Length, Some(length))?;
        let mut chunks = self.contents.change();
        if length > chunks.length {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "truncating cannot make a file longer");
            return Err(Error::from_io(Verb::Length, &*self.name, error));
        }
        chunks.list.truncate(length.div_ceil(CHUNK_BYTES as u64) as usize);
        let inside = (length % CHUNK_BYTES as u64) as usize;
        if inside != 0
            && let Some(last) = chunks.list.last_mut()
        {
            last.get_mut().unwrap_or_else(PoisonError::into_inner)[inside..].fill(0);
        }
        chunks.length = length;
        Ok(())
    }

    fn drop_cache(&self) -> Result<()> {
        Ok(())
    }

    fn method(&self) -> Method {
        self.method
    }

    fn alignment(&self) -> usize {
        match self.method {
            Method::Direct | Method::Uring => crate::aligned::ALIGNMENT,
            Method::Buffered => 1,
        }
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryFile({})", self.name)
    }
}
