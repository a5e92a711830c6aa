//! A directory with two [pause points](super) in every call except `describe`, `len`, `method` and
//! `alignment`: one at the beginning of the call, and one after its return.

use super::{PausePoint, at};
use katydid_device::nvram::{NvRegion, Persistence};
use katydid_device::{Create, Directory, DirectoryLock, File, Method, Result, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct PausedDirectory(Arc<dyn Directory>);

#[derive(Debug)]
struct PausedFile(Arc<dyn File>);

/// Returns `inner` with pause points in its calls.
pub(crate) fn paused(inner: Arc<dyn Directory>) -> Arc<dyn Directory> {
    Arc::new(PausedDirectory(inner))
}

#[track_caller]
fn call<R>(work: impl FnOnce() -> R) -> R {
    at(PausePoint::Device);
    let result = work();
    at(PausePoint::Device);
    result
}

fn file(inner: Arc<dyn File>) -> Arc<dyn File> {
    Arc::new(PausedFile(inner))
}

impl Directory for PausedDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        call(|| self.0.open(name, create, method)).map(file)
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        call(|| self.0.open_read_only(name)).map(file)
    }

    fn list(&self) -> Result<Vec<String>> {
        call(|| self.0.list())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        call(|| self.0.rename(from, to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        call(|| self.0.remove(name))
    }

    fn sync(&self) -> Result<()> {
        call(|| self.0.sync())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        call(|| self.0.lock())
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        call(|| self.0.subdirectory(name)).map(paused)
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Ok(call(|| self.0.existing_subdirectory(name))?.map(paused))
    }

    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        call(|| self.0.nvram(name, bytes, want))
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl File for PausedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        call(|| self.0.read_at(buffer, offset))
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        call(|| self.0.write_at(parts, offset, mode))
    }

    fn sync(&self) -> Result<()> {
        call(|| self.0.sync())
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        call(|| self.0.prepare(from, to))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        call(|| self.0.truncate(length))
    }

    fn drop_cache(&self) -> Result<()> {
        call(|| self.0.drop_cache())
    }

    fn method(&self) -> Method {
        self.0.method()
    }

    fn alignment(&self) -> usize {
        self.0.alignment()
    }
}
