//! The directory and the files whose calls are watched.

use super::Shared;
use crate::directory::{Advice, Create, Directory, DirectoryLock, File, ManyRead, Method, WriteMode};
use crate::error::{Result, Verb};
use crate::nvram::{NvRegion, Persistence};
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

pub(super) struct WatchedDirectory {
    shared: Arc<Shared>,
    /// Names of the directories that lead to this one, each followed by `/`.
    prefix: String,
    name: u32,
    inner: Arc<dyn Directory>,
}

impl WatchedDirectory {
    pub(super) fn wrap(shared: Arc<Shared>, prefix: String, inner: Arc<dyn Directory>) -> Arc<dyn Directory> {
        let shown = if prefix.is_empty() { inner.describe() } else { prefix.clone() };
        let name = shared.name(shown);
        Arc::new(WatchedDirectory { shared, prefix, name, inner })
    }

    fn file(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        let name = self.shared.name(format!("{}{name}", self.prefix));
        Arc::new(WatchedFile { shared: self.shared.clone(), name, inner })
    }

    fn folder(&self, name: &str, inner: Arc<dyn Directory>) -> Arc<dyn Directory> {
        Self::wrap(self.shared.clone(), format!("{}{name}/", self.prefix), inner)
    }
}

impl Directory for WatchedDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.open(name, create, method)?))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        // A file opened for reading only has no calls that are watched.
        self.inner.open_read_only(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.shared.watched(Verb::SyncDirectory, self.name, 0, 0, || self.inner.sync())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock()
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock_to_read()
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        Ok(self.folder(name, self.inner.subdirectory(name)?))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Ok(self.inner.existing_subdirectory(name)?.map(|inner| self.folder(name, inner)))
    }

    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        self.inner.nvram(name, bytes, want)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl Drop for WatchedDirectory {
    fn drop(&mut self) {
        self.shared.forget(self.name);
    }
}

impl fmt::Debug for WatchedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

struct WatchedFile {
    shared: Arc<Shared>,
    name: u32,
    inner: Arc<dyn File>,
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn read_many(&self, reads: &mut [ManyRead<'_>]) {
        self.inner.read_many(reads);
    }

    fn overlaps_reads(&self) -> bool {
        self.inner.overlaps_reads()
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let end = offset.saturating_add(total as u64);
        self.shared.watched(Verb::Write, self.name, offset, end, || self.inner.write_at(parts, offset, mode))
    }

    fn sync(&self) -> Result<()> {
        self.shared.watched(Verb::Sync, self.name, 0, 0, || self.inner.sync())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.shared.watched(Verb::Prepare, self.name, from, to, || self.inner.prepare(from, to))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.inner.truncate(length)
    }

    fn drop_cache(&self) -> Result<()> {
        self.inner.drop_cache()
    }

    fn advise(&self, advice: Advice) {
        self.inner.advise(advice);
    }

    fn method(&self) -> Method {
        self.inner.method()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}

impl Drop for WatchedFile {
    fn drop(&mut self) {
        self.shared.forget(self.name);
    }
}

impl fmt::Debug for WatchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
