//! Turns a panic of a directory's or file's code into an error.
//!
//! Any program can implement [`Directory`] and [`File`]. A panic that unwound out of such a call
//! would pass through the threads of the log and of the engine. A thread would then never give back
//! what it holds: the right to lead a write, a write under way, or a latch. So the gate (`gate.rs`)
//! wraps each directory that it guards in a `CaughtDirectory`.
//!
//! Any thread may call this code. Invariant: no call returns by unwinding, except those of
//! [`File::method`], [`File::alignment`], [`File::overlaps_reads`] and [`Directory::describe`],
//! which cannot return an error. A program that is built to abort on a panic still aborts.
//!
//! A crash leaves nothing, because this file keeps no state.

use crate::directory::{Advice, Create, Directory, DirectoryLock, File, ManyRead, Method, WriteMode};
use crate::error::{Cause, Error, Result, Verb};
use crate::nvram::{NvRegion, Persistence};
use std::any::Any;
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

impl Cause {
    /// Makes the cause that holds the message of a caught panic.
    pub fn from_panic(payload: Box<dyn Any + Send>) -> Cause {
        let said = match payload.downcast_ref::<&str>() {
            Some(said) => said,
            None => payload.downcast_ref::<String>().map_or("a panic without a message", String::as_str),
        };
        let cause = Cause::Panicked(said.into());
        // Dropping the payload may panic again, because the code that panicked has chosen its type.
        std::mem::forget(payload);
        cause
    }
}

/// Runs one call, and returns its panic as an error.
fn caught<T>(verb: Verb, subject: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
    // The directory or file that panicked owns the state that the call left half changed. No caller
    // reads this state, so `AssertUnwindSafe` holds.
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|payload| Err(Error::new(verb, subject, Cause::from_panic(payload))))
}

/// Wraps a directory, so that its calls and those of the files opened through it return an error
/// instead of panicking. Its subdirectories are returned unwrapped.
pub(crate) fn before(inner: Arc<dyn Directory>) -> Arc<dyn Directory> {
    Arc::new(CaughtDirectory { inner })
}

#[derive(Debug)]
struct CaughtDirectory {
    inner: Arc<dyn Directory>,
}

#[derive(Debug)]
struct CaughtFile {
    name: String,
    inner: Arc<dyn File>,
}

impl CaughtDirectory {
    fn file(name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(CaughtFile { name: name.to_owned(), inner })
    }
}

impl Directory for CaughtDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        caught(Verb::Open, name, || self.inner.open(name, create, method))
            .map(|inner| Self::file(name, inner))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        caught(Verb::Open, name, || self.inner.open_read_only(name)).map(|inner| Self::file(name, inner))
    }

    fn list(&self) -> Result<Vec<String>> {
        caught(Verb::List, "the directory", || self.inner.list())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        caught(Verb::Rename, from, || self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        caught(Verb::Remove, name, || self.inner.remove(name))
    }

    fn sync(&self) -> Result<()> {
        caught(Verb::SyncDirectory, "its files", || self.inner.sync())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        caught(Verb::Lock, "the directory", || self.inner.lock())
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        caught(Verb::Lock, "the directory", || self.inner.lock_to_read())
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        // The call may create the subdirectory, and a panic may leave the new name not durable. So
        // the verb is that of a failed sync of the directory, which shuts the gate.
        caught(Verb::SyncDirectory, name, || self.inner.subdirectory(name))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        caught(Verb::Open, name, || self.inner.existing_subdirectory(name))
    }

    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        caught(Verb::Map, name, || self.inner.nvram(name, bytes, want))
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl File for CaughtFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        caught(Verb::Read, &self.name, || self.inner.read_at(buffer, offset))
    }

    fn read_many(&self, reads: &mut [ManyRead<'_>]) {
        let made = caught(Verb::Read, &self.name, || {
            self.inner.read_many(reads);
            Ok(())
        });
        // After a panic all reads count as failed, because the code may have set an outcome before
        // it had read the bytes.
        if let Err(panicked) = made {
            reads.iter_mut().for_each(|read| read.outcome = Err(panicked.clone()));
        }
    }

    fn overlaps_reads(&self) -> bool {
        self.inner.overlaps_reads()
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        caught(Verb::Write, &self.name, || self.inner.write_at(parts, offset, mode))
    }

    fn sync(&self) -> Result<()> {
        caught(Verb::Sync, &self.name, || self.inner.sync())
    }

    fn len(&self) -> Result<u64> {
        caught(Verb::Length, &self.name, || self.inner.len())
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        caught(Verb::Prepare, &self.name, || self.inner.prepare(from, to))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        caught(Verb::Length, &self.name, || self.inner.truncate(length))
    }

    fn drop_cache(&self) -> Result<()> {
        caught(Verb::Read, &self.name, || self.inner.drop_cache())
    }

    fn advise(&self, advice: Advice) {
        let advised = caught(Verb::Read, &self.name, || {
            self.inner.advise(advice);
            Ok(())
        });
        // Advice returns no error; if the file has a fault, the read that follows returns it.
        advised.ok();
    }

    fn method(&self) -> Method {
        self.inner.method()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}
