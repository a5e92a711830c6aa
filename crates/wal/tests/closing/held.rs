//! A directory that holds up one chosen device call of one chosen thread, and that notices calls
//! made after the directory's lock was given back.
//!
//! Each opening of a log gets a directory of its own ([`Opening`]) over the same memory. A call is
//! *changing* if another opening could find another state after the call than before it. The
//! directory counts the changing calls under way: when the opening's lock is dropped, no such call
//! may be under way, and none may come later.

use katydid_device::nvram::{NvRegion, Persistence};
use katydid_device::{Create, Directory, DirectoryLock, File, MemoryDirectory, Method, Result, WriteMode};
use std::cell::Cell;
use std::fmt;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads whose calls are counted until one call is held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadFilter {
    /// Threads that have called [`enlist`].
    Enlisted,
    /// Threads of this name.
    Named(&'static str),
}

#[derive(Debug)]
struct Plan {
    filter: ThreadFilter,
    /// Number of calls that pass first.
    passing: usize,
    reached: Sender<Held>,
    leaves: Receiver<()>,
    leave: Sender<()>,
}

thread_local! {
    static ENLISTED: Cell<bool> = const { Cell::new(false) };
}

/// Makes this thread one of those that [`ThreadFilter::Enlisted`] selects.
pub fn enlist() {
    ENLISTED.set(true);
}

/// State that all files of one opening share.
#[derive(Debug, Default)]
struct Watched {
    plan: Mutex<Option<Plan>>,
    inside: AtomicUsize,
    /// Set when the lock of the outermost directory was dropped.
    ended: AtomicBool,
    faults: Mutex<Vec<String>>,
    /// The next changing call runs this function.
    hook: Mutex<Hook>,
}

#[derive(Default)]
struct Hook(Option<Box<dyn FnOnce() + Send>>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A call that is held up, with its name and the channel that lets it go on.
#[derive(Debug)]
pub struct Held {
    pub call: String,
    leave: Sender<()>,
}

impl Held {
    pub fn let_go(self) {
        self.leave.send(()).expect("the call waits for that");
    }
}

/// One opening's view of a directory.
#[derive(Debug, Clone)]
pub struct Opening {
    inner: Arc<dyn Directory>,
    prefix: String,
    watched: Arc<Watched>,
    is_outermost: bool,
}

#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    name: String,
    watched: Arc<Watched>,
}

#[derive(Debug)]
struct WatchedLock {
    inner: Option<Box<dyn DirectoryLock>>,
    /// The state of the opening; only in the lock of the outermost directory.
    watched: Option<Arc<Watched>>,
}

impl DirectoryLock for WatchedLock {}

impl Drop for WatchedLock {
    fn drop(&mut self) {
        if let Some(watched) = &self.watched {
            watched.ended.store(true, Ordering::SeqCst);
            let inside = watched.inside.load(Ordering::SeqCst);
            if inside > 0 {
                watched.blame(format!("{inside} calls are under way when the lock is given back"));
            }
        }
        drop(self.inner.take());
    }
}

impl Watched {
    fn blame(&self, what: String) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn take_if_reached(&self) -> Option<Plan> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let now = plan.as_mut()?;
        let is_meant = match now.filter {
            ThreadFilter::Enlisted => ENLISTED.get(),
            ThreadFilter::Named(name) => std::thread::current().name() == Some(name),
        };
        if !is_meant {
            return None;
        }
        if now.passing == 0 {
            return plan.take();
        }
        now.passing -= 1;
        None
    }

    /// Runs a changing call.
    fn change<T>(&self, what: impl Fn() -> String, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        if let Some(Plan { reached, leaves, leave, .. }) = self.take_if_reached()
            && reached.send(Held { call: what(), leave }).is_ok()
        {
            // If the test has failed, the channel is closed without a message.
            leaves.recv().ok();
        }
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).0.take();
        if let Some(hook) = hook {
            hook();
        }
        let outcome = call();
        if self.ended.load(Ordering::SeqCst) {
            self.blame(format!("{} after the lock was given back", what()));
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

impl Opening {
    pub fn of(memory: &MemoryDirectory) -> Opening {
        let inner = Arc::new(memory.clone());
        Opening { inner, prefix: String::new(), watched: Arc::default(), is_outermost: true }
    }

    /// Lets `passing` changing calls of the threads in `filter` pass, and holds up the next one.
    /// The channel receives that call when a thread has reached it. If no thread reaches such a
    /// call, [`Opening::expect_nothing`] closes the channel.
    pub fn hold(&self, filter: ThreadFilter, passing: usize) -> Receiver<Held> {
        let ((reached, is_reached), (leave, leaves)) = (channel(), channel());
        let plan = Plan { filter, passing, reached, leaves, leave };
        *self.watched.plan.lock().expect("no panic") = Some(plan);
        is_reached
    }

    /// Makes the next changing call run this function, as a device may run a logger or a panic
    /// hook.
    pub fn hook(&self, hook: impl FnOnce() + Send + 'static) {
        self.watched.hook.lock().expect("no panic").0 = Some(Box::new(hook));
    }

    /// Holds up no further call. A call that is held up already remains held up.
    pub fn expect_nothing(&self) {
        drop(self.watched.plan.lock().expect("no panic").take());
    }

    pub fn is_ended(&self) -> bool {
        self.watched.ended.load(Ordering::SeqCst)
    }

    /// Returns the calls that must not have been made.
    pub fn faults(&self) -> Vec<String> {
        self.watched.faults.lock().expect("no panic").clone()
    }

    fn wrap(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(WatchedFile { inner, name: format!("{}{name}", self.prefix), watched: self.watched.clone() })
    }

    fn below(&self, name: &str, inner: Arc<dyn Directory>) -> Arc<dyn Directory> {
        let prefix = format!("{}{name}/", self.prefix);
        Arc::new(Opening { inner, prefix, watched: self.watched.clone(), is_outermost: false })
    }

    fn shown(&self, verb: &str, name: &str) -> String {
        format!("{verb} {}{name}", self.prefix)
    }
}

impl Directory for Opening {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        let open = || self.inner.open(name, create, method);
        // Opening an existing file changes nothing.
        let inner = match self.inner.open(name, Create::Never, method) {
            Ok(found) if create != Create::New => found,
            Err(error) if create == Create::Never => return Err(error),
            _ => self.watched.change(|| self.shown("create", name), open)?,
        };
        Ok(self.wrap(name, inner))
    }
    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        self.inner.open_read_only(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.watched.change(|| self.shown("rename to", to), || self.inner.rename(from, to))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.watched.change(|| self.shown("remove", name), || self.inner.remove(name))
    }
    fn sync(&self) -> Result<()> {
        self.watched.change(|| self.shown("sync the names in", "."), || self.inner.sync())
    }
    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        let watched = self.is_outermost.then(|| self.watched.clone());
        Ok(Box::new(WatchedLock { inner: Some(self.inner.lock()?), watched }))
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        if let Some(found) = self.existing_subdirectory(name)? {
            return Ok(found);
        }
        let make = || self.inner.subdirectory(name);
        Ok(self.below(name, self.watched.change(|| self.shown("make", name), make)?))
    }
    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Ok(self.inner.existing_subdirectory(name)?.map(|inner| self.below(name, inner)))
    }
    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        self.watched.change(|| self.shown("map", name), || self.inner.nvram(name, bytes, want))
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        self.watched.change(|| format!("write {}", self.name), || self.inner.write_at(parts, offset, mode))
    }
    fn sync(&self) -> Result<()> {
        self.watched.change(|| format!("sync {}", self.name), || self.inner.sync())
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.watched.change(|| format!("prepare {}", self.name), || self.inner.prepare(from, to))
    }
    fn truncate(&self, length: u64) -> Result<()> {
        self.watched.change(|| format!("truncate {}", self.name), || self.inner.truncate(length))
    }
    fn drop_cache(&self) -> Result<()> {
        self.inner.drop_cache()
    }
    fn method(&self) -> Method {
        self.inner.method()
    }
    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}
