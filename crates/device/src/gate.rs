//! The gate: nothing is acknowledged after the first failed write or sync, and nothing is changed
//! after the gate was closed.
//!
//! Any thread may call this code. After a failed `fdatasync` the kernel marks the pages clean, so a
//! second `fdatasync` succeeds without having written anything. A caller that tries again, or that
//! syncs after another caller's failure, would acknowledge lost bytes. So every call that could
//! acknowledge or change something goes through the gate.
//!
//! Invariants:
//!
//! 1. The first failure of a write, a sync or a directory sync shuts the gate for good. A failed
//!    preparation shuts it too, unless the preparation found no room before its sync. A failed
//!    opening of a file or subdirectory shuts it only if the failure was that of a sync.
//! 2. A shut gate refuses every new write, sync, preparation, truncation, creation, rename,
//!    removal, mapping of NVRAM and taking of the directory's lock. Reads, lengths and listings go
//!    on. A shut gate opens a file for reading only.
//! 3. A sync, a durable write or a preparation that ended after the gate was shut does not report
//!    success, whatever the device said.
//! 4. Only one call at a time is in a sync of the page cache of one open file. The kernel reports a
//!    write-back error once for each open file, to the sync that comes first. Without this rule a
//!    second sync at the same time could see success before the first one has shut the gate.
//! 5. A call that panics counts as failed (`caught.rs`), and shuts the gate if another failure of
//!    this call would.
//! 6. A closed gate refuses the calls that a shut gate refuses. [`Gate::close`] waits until the
//!    calls inside have returned, and then releases the directory's lock, so no call is under way
//!    at the release (`gate/calls.rs` counts the calls).
//!
//! A directory has one gate, made where it is opened: a database hands its gate down to its log.
//! Gates may also stand in series. Each of them counts the calls that pass it and is closed
//! separately, and a refusal by the inner gate does not shut the outer gate.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `first` (a `OnceLock`) | the first failing caller, once | every call that a shut gate refuses: before the device's call and, under invariant 3, after it | release by `set`, acquire by `get`: a thread that sees the gate shut sees the whole cause |
//!
//! `turn` (leaf rank, held across a sync) is the latch of invariant 4. Aligned durable writes past
//! the page cache do not take this latch, because their errors come back with the write itself
//! (Linux 4.7 and later, which have `RWF_DSYNC`). A call that waits for its turn is not inside yet,
//! so a gate that is closed meanwhile refuses it.
//!
//! A crash leaves nothing of the gate: the next open starts with a new one and recovers.

mod calls;

pub(crate) use calls::Caller;

use crate::caught;
use crate::directory::{Advice, Create, Directory, DirectoryLock, File, ManyRead, Method, WriteMode};
use crate::error::{Cause, Error, Result, Verb};
use crate::nvram::{NvRegion, Persistence};
use calls::{Call, Calls};
use std::fmt;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Remembers the first failed write or sync of everything opened through one directory, and refuses
/// later calls. Clones are the same gate.
#[derive(Clone, Default)]
pub struct Gate {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    first: OnceLock<Arc<Error>>,
    calls: Calls,
}

impl Gate {
    /// Puts a new gate before `directory`. Returns the directory with the gate before it, and the
    /// gate. All files and directories that are opened through the returned directory share the
    /// gate.
    pub fn wrap(directory: Arc<dyn Directory>) -> (Arc<dyn Directory>, Gate) {
        let gate = Gate::default();
        (gate.before(directory), gate)
    }

    /// Puts this gate before one more directory, so that one failure shuts off both directories.
    pub fn before(&self, directory: Arc<dyn Directory>) -> Arc<dyn Directory> {
        Arc::new(GatedDirectory { gate: self.clone(), inner: caught::before(directory) })
    }

    /// Returns the failure that shut the gate, if it is shut.
    pub fn failure(&self) -> Option<Error> {
        self.shared.first.get().map(|first| Error::clone(first))
    }

    /// Returns true if the gate is shut. Costs one load.
    pub fn is_shut(&self) -> bool {
        self.shared.first.get().is_some()
    }

    /// Shuts the gate because of a failure found above the device. If it is shut already, the first
    /// failure stays.
    pub fn shut(&self, error: Error) {
        // A refusal by a gate is not a new cause.
        if !matches!(error.cause, Cause::Poisoned(_) | Cause::Closed) {
            self.shared.first.get_or_init(|| Arc::new(error));
        }
    }

    /// Closes the gate: from now on every call that changes something fails with [`Cause::Closed`].
    /// Waits until the calls inside have returned, then drops `lock`. Reads, lengths and listings
    /// go on. A second call waits like the first, and drops its own `lock`.
    ///
    /// If the calling thread is itself inside a call of the gate (the device may run a logger or a
    /// panic hook), `close` does not wait. The last call inside drops `lock` when that call
    /// returns.
    pub fn close(&self, lock: Option<Box<dyn DirectoryLock>>) {
        self.shared.calls.close(lock);
    }

    /// Returns true if [`Gate::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.calls.is_closed()
    }

    /// Returns whether this thread is inside a call of this gate. If so, the thread must not wait
    /// for the gate's calls to return.
    pub fn is_inside(&self) -> bool {
        self.shared.calls.is_inside()
    }

    /// Lets a call in, unless the gate is shut or closed.
    fn enter(&self, verb: Verb, subject: impl Fn() -> String) -> Result<Call<'_>> {
        self.check(verb, &subject)?;
        self.shared.calls.enter().ok_or_else(|| Error::new(verb, subject(), Cause::Closed))
    }

    /// Returns the refusal if the gate is shut.
    fn check(&self, verb: Verb, subject: impl FnOnce() -> String) -> Result<()> {
        match self.shared.first.get() {
            None => Ok(()),
            Some(first) => Err(Error::new(verb, subject(), Cause::Poisoned(first.clone()))),
        }
    }

    fn latch<T>(&self, result: Result<T>, is_fatal: impl FnOnce(&Error) -> bool) -> Result<T> {
        if let Err(error) = &result
            && is_fatal(error)
        {
            self.shut(error.clone());
        }
        result
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failure() {
            None if self.is_closed() => f.write_str("Gate(closed)"),
            None => f.write_str("Gate(open)"),
            Some(first) => write!(f, "Gate(shut: {first})"),
        }
    }
}

#[derive(Debug)]
struct GatedDirectory {
    gate: Gate,
    inner: Arc<dyn Directory>,
}

impl GatedDirectory {
    fn file(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        let name = name.to_owned();
        Arc::new(GatedFile { gate: self.gate.clone(), name, inner, turn: Mutex::new(()) })
    }
}

impl Directory for GatedDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        let refused = match (self.gate.enter(Verb::Open, || name.to_owned()), create) {
            (Ok(_call), create) => {
                let is_sync = |error: &Error| error.verb == Verb::Sync;
                let opened = self.gate.latch(self.inner.open(name, create, method), is_sync)?;
                return Ok(self.file(name, opened));
            }
            (Err(refused), Create::New) => return Err(refused),
            (Err(refused), _) => refused,
        };
        // A shut or closed gate still opens an existing file for reading, which creates nothing and
        // syncs nothing.
        match self.inner.open_read_only(name) {
            Err(Error { cause: Cause::NotFound, .. }) if create == Create::IfMissing => Err(refused),
            other => Ok(self.file(name, other?)),
        }
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.open_read_only(name)?))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let _call = self.gate.enter(Verb::Rename, || format!("{from} to {to}"))?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let _call = self.gate.enter(Verb::Remove, || name.to_owned())?;
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        let _call = self.gate.enter(Verb::SyncDirectory, || self.inner.describe())?;
        self.gate.latch(self.inner.sync(), |_| true)?;
        self.gate.check(Verb::SyncDirectory, || self.inner.describe())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        let _call = self.gate.enter(Verb::Lock, || self.inner.describe())?;
        self.inner.lock()
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        let _call = self.gate.enter(Verb::Lock, || self.inner.describe())?;
        self.inner.lock_to_read()
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        let _call = match self.gate.enter(Verb::Open, || name.to_owned()) {
            Ok(call) => call,
            Err(refused) => return self.existing_subdirectory(name)?.ok_or(refused),
        };
        let is_sync = |error: &Error| error.verb == Verb::SyncDirectory;
        Ok(self.gate.before(self.gate.latch(self.inner.subdirectory(name), is_sync)?))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Ok(self.inner.existing_subdirectory(name)?.map(|inner| self.gate.before(inner)))
    }

    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        let _call = self.gate.enter(Verb::Map, || name.to_owned())?;
        self.inner.nvram(name, bytes, want)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[derive(Debug)]
struct GatedFile {
    gate: Gate,
    name: String,
    inner: Arc<dyn File>,
    turn: Mutex<()>,
}

impl GatedFile {
    fn enter(&self, verb: Verb) -> Result<Call<'_>> {
        self.gate.enter(verb, || self.name.clone())
    }

    /// Returns the refusal if the gate is shut.
    fn check(&self, verb: Verb) -> Result<()> {
        self.gate.check(verb, || self.name.clone())
    }

    /// Returns whether a write goes through the page cache. Every write does, except a write to a
    /// direct file whose offset and total length are aligned.
    fn is_cached(&self, parts: &[IoSlice<'_>], offset: u64) -> bool {
        let block = self.inner.alignment() as u64;
        let total: u64 = parts.iter().map(|part| part.len() as u64).sum();
        self.inner.method() == Method::Buffered || !(offset | total).is_multiple_of(block)
    }

    /// Runs a call that syncs the page cache, alone (invariant 4), and reports success only if the
    /// gate is still open (invariant 3).
    fn in_turn(
        &self,
        verb: Verb,
        is_fatal: impl FnOnce(&Error) -> bool,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _call = self.enter(verb)?;
        self.gate.latch(call(), is_fatal)?;
        self.check(verb)
    }
}

impl File for GatedFile {
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
        let write = || self.inner.write_at(parts, offset, mode);
        match mode {
            WriteMode::Durable if self.is_cached(parts, offset) => self.in_turn(Verb::Write, |_| true, write),
            WriteMode::Durable => {
                let _call = self.enter(Verb::Write)?;
                self.gate.latch(write(), |_| true)?;
                self.check(Verb::Write)
            }
            WriteMode::Written => {
                let _call = self.enter(Verb::Write)?;
                self.gate.latch(write(), |_| true)
            }
        }
    }

    fn sync(&self) -> Result<()> {
        self.in_turn(Verb::Sync, |_| true, || self.inner.sync())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let is_fatal = |error: &Error| !(error.is_no_space() && error.verb == Verb::Prepare);
        self.in_turn(Verb::Prepare, is_fatal, || self.inner.prepare(from, to))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        let _call = self.enter(Verb::Length)?;
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
