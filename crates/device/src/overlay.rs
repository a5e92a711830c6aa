//! A directory over another directory. The directory beneath stays unchanged: writes go to memory,
//! and are gone with the last handle.
//!
//! A program uses an overlay to see what an opening would make of a database, and leaves the
//! database as it is. Any thread may use an overlay. Invariants:
//!
//! 1. The overlay asks the directory beneath only for names, lengths and bytes, and creates, writes
//!    and removes nothing in it. An overlay that guards the directory beneath
//!    ([`OverlayDirectory::guarding`]) also takes that directory's lock, for reading.
//! 2. A file shows the bytes that were written through the overlay. Elsewhere it shows the bytes
//!    beneath up to `shown`, and zeros from there on.
//!
//! Memory: 4 KiB for each block written. Zeros that are prepared at a file's end cost nothing. A
//! crash loses what was written through the overlay.
//!
//! A thread takes the latch `names` before one file's `state`, and holds `state` across reads of
//! the file beneath.

use crate::directory::{Create, Directory, DirectoryLock, File, Method, WriteMode};
use crate::error::{Cause, Error, Result, Verb};
use crate::name;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const BLOCK: usize = 4096;
/// Longest file in bytes. A longer one is refused rather than allocated; no file of a store comes
/// near this length.
const FILE_BYTES_MAX: u64 = 1 << 40;

/// A directory over another directory. The directory beneath stays unchanged: writes go to memory,
/// and are gone with the last handle. Clones are the same directory.
///
/// ```
/// use katydid_device::{Create, Directory, MemoryDirectory, Method, OverlayDirectory};
/// use std::sync::Arc;
///
/// let beneath = Arc::new(MemoryDirectory::new());
/// let overlay = OverlayDirectory::over(beneath.clone());
/// overlay.open("file", Create::New, Method::Buffered)?;
/// assert_eq!(overlay.list()?, ["file"]);
/// assert!(beneath.list()?.is_empty());
/// # Ok::<(), katydid_device::Error>(())
/// ```
#[derive(Clone)]
pub struct OverlayDirectory {
    inner: Arc<Inner>,
}

struct Inner {
    /// The directory beneath; `None` if this directory was made in the overlay.
    beneath: Option<Arc<dyn Directory>>,
    names: Mutex<Names>,
    /// True if the overlay's lock includes the lock of the directory beneath.
    guards: bool,
    /// Set while a caller has the overlay's own lock. Set with acquire and cleared with release, as
    /// in a lock.
    locked: AtomicBool,
    sealed: Arc<AtomicBool>,
}

#[derive(Default)]
struct Names {
    /// Files that were opened or made here; `None` for a name that was removed.
    files: BTreeMap<String, Option<Arc<Contents>>>,
    directories: BTreeMap<String, OverlayDirectory>,
}

impl OverlayDirectory {
    /// Makes an overlay over `beneath`. The overlay locks only itself, so the caller must keep
    /// other programs from changing `beneath`.
    pub fn over(beneath: Arc<dyn Directory>) -> Self {
        Self::of(Some(beneath), false, Arc::default())
    }

    /// Makes an overlay over `beneath`. The holder of the overlay's lock also holds the lock of
    /// `beneath` for reading ([`Directory::lock_to_read`]), so that no process writes there.
    pub fn guarding(beneath: Arc<dyn Directory>) -> Self {
        Self::of(Some(beneath), true, Arc::default())
    }

    fn of(beneath: Option<Arc<dyn Directory>>, guards: bool, sealed: Arc<AtomicBool>) -> Self {
        let inner =
            Inner { beneath, names: Mutex::default(), guards, locked: AtomicBool::new(false), sealed };
        OverlayDirectory { inner: Arc::new(inner) }
    }

    /// Makes every later write fail, here and in the directories inside. A database that is about
    /// to be thrown away then writes no pages back.
    pub fn seal(&self) {
        self.inner.sealed.store(true, Ordering::Release);
    }

    fn file(&self, name: &str, contents: Arc<Contents>, may_write: bool, method: Method) -> Arc<dyn File> {
        let (name, sealed) = (name.to_owned(), self.inner.sealed.clone());
        Arc::new(OverlayFile { name, contents, may_write, sealed, method })
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.inner.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the file of this name, in the overlay or beneath it.
    fn find(&self, names: &mut Names, name: &str) -> Result<Option<Arc<Contents>>> {
        if let Some(known) = names.files.get(name) {
            return Ok(known.clone());
        }
        let Some(beneath) = &self.inner.beneath else { return Ok(None) };
        let file = match beneath.open_read_only(name) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => file?,
        };
        let contents = Arc::new(Contents::over(file)?);
        names.files.insert(name.to_owned(), Some(contents.clone()));
        Ok(Some(contents))
    }

    fn folder(&self, name: &str, make: bool) -> Result<Option<OverlayDirectory>> {
        name::check(Verb::Open, name)?;
        let mut names = self.names();
        if let Some(known) = names.directories.get(name) {
            return Ok(Some(known.clone()));
        }
        let beneath = match &self.inner.beneath {
            Some(beneath) => beneath.existing_subdirectory(name)?,
            None => None,
        };
        if beneath.is_none() && !make {
            return Ok(None);
        }
        let folder = OverlayDirectory::of(beneath, false, self.inner.sealed.clone());
        names.directories.insert(name.to_owned(), folder.clone());
        Ok(Some(folder))
    }
}

impl Directory for OverlayDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        name::check(Verb::Open, name)?;
        let mut names = self.names();
        let contents = match (self.find(&mut names, name)?, create) {
            (Some(_), Create::New) => return Err(Error::new(Verb::Open, name, Cause::AlreadyExists)),
            (Some(contents), _) => contents,
            (None, Create::Never) => return Err(Error::new(Verb::Open, name, Cause::NotFound)),
            (None, Create::New | Create::IfMissing) => {
                let contents = Arc::<Contents>::default();
                names.files.insert(name.to_owned(), Some(contents.clone()));
                contents
            }
        };
        Ok(self.file(name, contents, true, method))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        name::check(Verb::Open, name)?;
        let found = self.find(&mut self.names(), name)?;
        let contents = found.ok_or_else(|| Error::new(Verb::Open, name, Cause::NotFound))?;
        Ok(self.file(name, contents, false, Method::Buffered))
    }

    fn list(&self) -> Result<Vec<String>> {
        let names = self.names();
        let mut all = match &self.inner.beneath {
            Some(beneath) => beneath.list()?,
            None => Vec::new(),
        };
        all.retain(|name| !names.files.contains_key(name));
        all.extend(names.files.iter().filter(|(_, file)| file.is_some()).map(|(name, _)| name.clone()));
        all.sort_unstable();
        Ok(all)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        name::check(Verb::Rename, to)?;
        let mut names = self.names();
        let Some(contents) = self.find(&mut names, from)? else {
            return Err(Error::new(Verb::Rename, format!("{from} to {to}"), Cause::NotFound));
        };
        names.files.insert(from.to_owned(), None);
        names.files.insert(to.to_owned(), Some(contents));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut names = self.names();
        if self.find(&mut names, name)?.is_none() {
            return Err(Error::new(Verb::Remove, name, Cause::NotFound));
        }
        names.files.insert(name.to_owned(), None);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Takes the overlay's own lock and, after [`OverlayDirectory::guarding`], also the lock of the
    /// directory beneath, for reading.
    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        if self.inner.locked.swap(true, Ordering::Acquire) {
            let holder = Cause::Locked(Some(std::process::id()));
            return Err(Error::new(Verb::Lock, self.describe(), holder));
        }
        // If the directory beneath is in use, the error drops this lock, which releases it.
        let mut lock = OverlayLock { inner: self.inner.clone(), _beneath: None };
        if let Some(beneath) = self.inner.beneath.as_ref().filter(|_| self.inner.guards) {
            lock._beneath = Some(beneath.lock_to_read()?);
        }
        Ok(Box::new(lock))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        let folder = self.folder(name, true)?;
        folder
            .map(|folder| Arc::new(folder) as _)
            .ok_or_else(|| Error::new(Verb::Open, name, Cause::NotFound))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Ok(self.folder(name, false)?.map(|folder| Arc::new(folder) as _))
    }

    fn describe(&self) -> String {
        match &self.inner.beneath {
            Some(beneath) => beneath.describe(),
            None => "memory".to_owned(),
        }
    }
}

impl fmt::Debug for OverlayDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OverlayDirectory({})", self.describe())
    }
}

struct OverlayLock {
    inner: Arc<Inner>,
    /// The lock of the directory beneath, held as long as this one.
    _beneath: Option<Box<dyn DirectoryLock>>,
}

impl DirectoryLock for OverlayLock {}

impl Drop for OverlayLock {
    fn drop(&mut self) {
        self.inner.locked.store(false, Ordering::Release);
    }
}

impl fmt::Debug for OverlayLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OverlayLock")
    }
}

/// A file's bytes.
#[derive(Debug, Default)]
struct Contents {
    beneath: Option<Arc<dyn File>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    length: u64,
    /// Bytes beneath from here on are not shown (invariant 2).
    shown: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
}

impl Contents {
    fn over(beneath: Arc<dyn File>) -> Result<Self> {
        let length = beneath.len()?;
        let state = State { length, shown: length, blocks: BTreeMap::new() };
        Ok(Contents { beneath: Some(beneath), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills `bytes` with the bytes shown beneath at `offset`, and with zeros where there are none.
    fn read_beneath(&self, state: &State, bytes: &mut [u8], offset: u64) -> Result<()> {
        let shown = (state.shown.saturating_sub(offset)).min(bytes.len() as u64) as usize;
        let mut done = 0;
        if let Some(beneath) = &self.beneath
            && shown > 0
        {
            done = beneath.read_at(&mut bytes[..shown], offset)?;
        }
        bytes[done..].fill(0);
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        let state = self.state();
        let count = state.length.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let bytes = &mut bytes[..count];
        self.read_beneath(&state, bytes, offset)?;
        let end = offset + count as u64;
        for (index, block) in state.blocks.range(offset / BLOCK as u64..end.div_ceil(BLOCK as u64)) {
            let (inside, within) = overlap(*index, offset, end);
            bytes[within].copy_from_slice(&block[inside]);
        }
        Ok(count)
    }

    /// Calls `change` for each block that `[from, to)` touches, with the block's bytes in that
    /// range, and the indexes that these bytes have in the range.
    fn change(
        &self,
        state: &mut State,
        from: u64,
        to: u64,
        mut change: impl FnMut(&mut [u8], std::ops::Range<usize>),
    ) -> Result<()> {
        for index in from / BLOCK as u64..to.div_ceil(BLOCK as u64) {
            let (inside, within) = overlap(index, from, to);
            if !state.blocks.contains_key(&index) {
                let mut block = Box::new([0; BLOCK]);
                if inside.len() < BLOCK {
                    self.read_beneath(state, &mut block[..], index * BLOCK as u64)?;
                }
                state.blocks.insert(index, block);
            }
            if let Some(block) = state.blocks.get_mut(&index) {
                change(&mut block[inside], within);
            }
        }
        Ok(())
    }

    fn write(&self, parts: &[IoSlice<'_>], mut offset: u64) -> Result<()> {
        let mut state = self.state();
        for part in parts {
            let end = offset + part.len() as u64;
            self.change(&mut state, offset, end, |bytes, within| bytes.copy_from_slice(&part[within]))?;
            if !part.is_empty() {
                state.length = state.length.max(end);
            }
            offset = end;
        }
        Ok(())
    }

    /// Makes `[from, to)` zeros.
    fn zero(&self, state: &mut State, from: u64, to: u64) -> Result<()> {
        if to < state.shown {
            return self.change(state, from, to, |bytes, _| bytes.fill(0));
        }
        state.shown = state.shown.min(from);
        state.blocks.retain(|index, block| {
            let start = index * BLOCK as u64;
            if start >= to || start + BLOCK as u64 <= from {
                return true;
            }
            let (inside, _) = overlap(*index, from, to);
            block[inside.clone()].fill(0);
            inside.len() < BLOCK
        });
        Ok(())
    }
}

/// Returns the part of block `index` that lies in `[from, to)`, as a range in the block and as a
/// range in `[from, to)`.
fn overlap(index: u64, from: u64, to: u64) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let start = index * BLOCK as u64;
    let (low, high) = (start.max(from), (start + BLOCK as u64).min(to));
    let inside = (low - start) as usize..(high - start) as usize;
    (inside, (low - from) as usize..(high - from) as usize)
}

#[derive(Debug)]
struct OverlayFile {
    name: String,
    contents: Arc<Contents>,
    may_write: bool,
    /// Written by `seal`, read by every call that writes: release and acquire.
    sealed: Arc<AtomicBool>,
    method: Method,
}

impl OverlayFile {
    fn check_change(&self, verb: Verb, end: Option<u64>) -> Result<u64> {
        let refused = |kind: io::ErrorKind| Err(Error::from_io(verb, &*self.name, kind.into()));
        match end {
            _ if !self.may_write || self.sealed.load(Ordering::Acquire) => {
                refused(io::ErrorKind::PermissionDenied)
            }
            Some(end) if end <= FILE_BYTES_MAX => Ok(end),
            _ => refused(io::ErrorKind::FileTooLarge),
        }
    }
}

impl File for OverlayFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.contents.read(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, _: WriteMode) -> Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        self.check_change(Verb::Write, offset.checked_add(total as u64))?;
        self.contents.write(parts, offset)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.contents.state().length)
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let to = self.check_change(Verb::Prepare, Some(to))?;
        if from >= to {
            return Ok(());
        }
        let mut state = self.contents.state();
        self.contents.zero(&mut state, from, to)?;
        state.length = state.length.max(to);
        Ok(())
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.check_change(Verb::Length, Some(length))?;
        let mut state = self.contents.state();
        if length > state.length {
            return Err(Error::from_io(Verb::Length, &*self.name, io::ErrorKind::InvalidInput.into()));
        }
        let end = state.length.max(state.shown);
        if length < end {
            self.contents.zero(&mut state, length, end)?;
        }
        state.length = length;
        Ok(())
    }

    fn drop_cache(&self) -> Result<()> {
        match &self.contents.beneath {
            Some(beneath) => beneath.drop_cache(),
            None => Ok(()),
        }
    }

    fn method(&self) -> Method {
        self.method
    }

    fn alignment(&self) -> usize {
        1
    }
}
