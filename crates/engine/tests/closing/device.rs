//! A directory that holds up one device call of one thread, and knows which calls an opening makes
//! after it was closed.

use katydid_device::{Create, Directory, DirectoryLock, File, Method, Result, WriteMode};
use std::cell::RefCell;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Device call at which a thread is to be held up.
struct HoldUp {
    at: CallPoint,
    reached: Sender<String>,
    leave: Receiver<()>,
}

/// A device call of a thread.
#[derive(Debug, Clone, Copy)]
pub enum CallPoint {
    /// The thread's nth device call, counted from zero.
    Nth(usize),
    /// The first write of a file of this name.
    Write(&'static str),
}

thread_local! {
    static HOLD_UP: RefCell<Option<HoldUp>> = const { RefCell::new(None) };
}

/// The test's handle of a thread that is to be held up.
pub struct Held {
    /// Name of the call; an error if the thread ends before it makes the call.
    pub reached: Receiver<String>,
    leave: Sender<()>,
}

impl Held {
    /// Lets the thread go on, now or when it gets to the call.
    pub fn release(&self) {
        let _ended = self.leave.send(());
    }
}

/// Runs `work` on a thread of its own, and holds up one of its device calls until
/// [`Held::release`].
pub fn held_up<T: Send + 'static>(
    at: CallPoint,
    work: impl FnOnce() -> T + Send + 'static,
) -> (Held, std::thread::JoinHandle<T>) {
    let ((reached, is_reached), (leave, may_leave)) = (channel(), channel());
    let thread = std::thread::spawn(move || {
        HOLD_UP.with(|slot| *slot.borrow_mut() = Some(HoldUp { at, reached, leave: may_leave }));
        let done = work();
        // If the thread made no such call, this drops the sender, so the test gets an error from
        // `reached`.
        HOLD_UP.with(|slot| slot.borrow_mut().take());
        done
    });
    (Held { reached: is_reached, leave }, thread)
}

/// Use of the directory by one opening.
#[derive(Debug, Default)]
struct Watch {
    /// True once `close` has returned.
    closed: AtomicBool,
    /// Calls that ended after `close` had returned.
    late: Mutex<Vec<String>>,
}

impl Watch {
    /// Makes a call, and notes it if it is late.
    fn call<T>(&self, verb: &str, name: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let due = HOLD_UP.with(|slot| {
            let mut slot = slot.borrow_mut();
            let is_due = match slot.as_mut()?.at {
                CallPoint::Nth(0) => true,
                CallPoint::Nth(ref mut more) => {
                    *more -= 1;
                    false
                }
                CallPoint::Write(wanted) => verb == "write" && name == wanted,
            };
            if is_due { slot.take() } else { None }
        });
        if let Some(HoldUp { reached, leave, .. }) = due {
            let _gone = reached.send(format!("{verb} {name}"));
            let _gone = leave.recv();
        }
        let outcome = call();
        if self.closed.load(Ordering::SeqCst) {
            self.late.lock().unwrap().push(format!("{verb} {name}"));
        }
        outcome
    }
}

/// The directory, as one opening sees it.
#[derive(Debug, Clone)]
pub struct Watched {
    inner: Arc<dyn Directory>,
    path: String,
    watch: Arc<Watch>,
}

impl Watched {
    pub fn new(inner: Arc<dyn Directory>) -> Watched {
        Watched { inner, path: String::new(), watch: Arc::default() }
    }

    /// Notes that `close` has returned: from now on each call is late.
    pub fn is_closed(&self) {
        self.watch.closed.store(true, Ordering::SeqCst);
    }

    /// Returns the calls that ended after `close` had returned.
    pub fn late(&self) -> Vec<String> {
        self.watch.late.lock().unwrap().clone()
    }

    fn file(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        let name = format!("{}{name}", self.path);
        Arc::new(WatchedFile { inner, name, watch: self.watch.clone() })
    }

    fn folder(&self, name: &str, inner: Arc<dyn Directory>) -> Arc<dyn Directory> {
        Arc::new(Watched { inner, path: format!("{}{name}/", self.path), watch: self.watch.clone() })
    }

    fn call<T>(&self, verb: &str, name: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.watch.call(verb, &format!("{}{name}", self.path), call)
    }
}

#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    name: String,
    watch: Arc<Watch>,
}

impl Directory for Watched {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        self.call("open", name, || Ok(self.file(name, self.inner.open(name, create, method)?)))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        self.call("open", name, || Ok(self.file(name, self.inner.open_read_only(name)?)))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.call("list", "", || self.inner.list())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.call("rename", to, || self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.call("remove", name, || self.inner.remove(name))
    }

    fn sync(&self) -> Result<()> {
        self.call("sync", "", || self.inner.sync())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.call("lock", "", || self.inner.lock())
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        self.call("lock", "", || self.inner.lock_to_read())
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.call("open", name, || Ok(self.folder(name, self.inner.subdirectory(name)?)))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        let inner = self.call("open", name, || self.inner.existing_subdirectory(name))?;
        Ok(inner.map(|inner| self.folder(name, inner)))
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.watch.call("read", &self.name, || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        self.watch.call("write", &self.name, || self.inner.write_at(parts, offset, mode))
    }

    fn sync(&self) -> Result<()> {
        self.watch.call("sync", &self.name, || self.inner.sync())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.watch.call("prepare", &self.name, || self.inner.prepare(from, to))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.watch.call("truncate", &self.name, || self.inner.truncate(length))
    }

    fn drop_cache(&self) -> Result<()> {
        self.watch.call("drop the cache of", &self.name, || self.inner.drop_cache())
    }

    fn method(&self) -> Method {
        self.inner.method()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}
