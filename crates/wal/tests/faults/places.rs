//! The devices that faults are tried on, and one way to put a fault into any of them.
//!
//! The simulated device makes faults itself: a failed sync loses bytes, and the machine can crash.
//! Real files do not fail when a test wants it, so a directory in front of them makes the failures.
//! With real files the next opening finds the bytes that the operating system has.

use katydid_device::{
    Cause, Create, Directory, DirectoryLock, Error, Fault, File, FileDirectory, Method, Result, SimDevice,
    Survival, Verb, WriteMode,
};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Every device. A new device needs one line here.
pub const ALL: &[TestDevice] = &[
    TestDevice { name: "the simulated device, direct", method: Method::Direct, kind: Kind::Simulated },
    TestDevice { name: "the simulated device, buffered", method: Method::Buffered, kind: Kind::Simulated },
    TestDevice { name: "files, direct", method: Method::Direct, kind: Kind::Files },
    TestDevice { name: "files, buffered", method: Method::Buffered, kind: Kind::Files },
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Simulated,
    Files,
}

#[derive(Debug)]
pub struct TestDevice {
    pub name: &'static str,
    pub method: Method,
    kind: Kind,
}

impl TestDevice {
    /// Returns an empty device of this kind.
    pub fn make(&self) -> Device {
        match self.kind {
            Kind::Simulated => Device::Simulated(SimDevice::new(1)),
            Kind::Files => {
                let folder = tempfile::tempdir().expect("a folder");
                let inner: Arc<dyn Directory> = Arc::new(FileDirectory::open(folder.path()).expect("open"));
                Device::Files { _folder: Arc::new(Some(folder)), inner, plan: Arc::default() }
            }
        }
    }
}

impl TestDevice {
    /// Returns an empty device of this kind whose faults are panics.
    pub fn make_panicking(&self) -> Device {
        let plan = Arc::new(Plan { panics: true, ..Plan::default() });
        match self.make() {
            Device::Simulated(device) => {
                Device::Files { _folder: Arc::default(), inner: device.directory(), plan }
            }
            Device::Files { _folder, inner, .. } => Device::Files { _folder, inner, plan },
        }
    }
}

#[derive(Debug, Clone)]
pub enum Device {
    Simulated(SimDevice),
    Files { _folder: Arc<Option<tempfile::TempDir>>, inner: Arc<dyn Directory>, plan: Arc<Plan> },
}

impl Device {
    pub fn directory(&self) -> Arc<dyn Directory> {
        match self {
            Device::Simulated(device) => device.directory(),
            Device::Files { inner, plan, .. } => faulty(inner.clone(), plan.clone()),
        }
    }

    /// Returns the contents of the simulated device, as programs see them; an empty map for real
    /// files.
    pub fn image(&self) -> BTreeMap<String, Vec<u8>> {
        match self {
            Device::Simulated(device) => device.image(),
            Device::Files { .. } => BTreeMap::new(),
        }
    }

    /// Makes one call fail: the next call that `choose` picks by its verb and the file's name.
    pub fn fail_once(&self, mut choose: impl FnMut(Verb, &str) -> Option<Fault> + Send + 'static) {
        let mut left = true;
        let mut once = move |verb: Verb, name: &str| {
            let fault = if left { choose(verb, name) } else { None };
            left &= fault.is_none();
            fault
        };
        match self {
            Device::Simulated(device) => device.fail_when(move |verb, path, _| once(verb, path)),
            Device::Files { plan, .. } => plan.lock().predicate = Some(Box::new(once)),
        }
    }

    /// Makes writes and syncs stand still, or go on.
    pub fn stall(&self, stall: bool) {
        match self {
            Device::Simulated(device) => device.stall_writes(stall),
            Device::Files { plan, .. } => {
                plan.lock().stalling = stall;
                plan.changed.notify_all();
            }
        }
    }

    /// Waits until a call stands still.
    pub fn wait_stalled(&self) {
        match self {
            Device::Simulated(device) => device.wait_stalled(1),
            Device::Files { plan, .. } => {
                let mut state = plan.lock();
                while state.stalled == 0 {
                    state = plan.changed.wait(state).expect("no panic");
                }
            }
        }
    }

    /// Returns the states that the next opening may find, with a name for each. If the machine can
    /// crash, these include the states that a crash may leave.
    pub fn later(&self) -> Vec<(String, Device)> {
        let Device::Simulated(device) = self else { return vec![("as it is".to_owned(), self.clone())] };
        let mut later = vec![("the process died".to_owned(), Device::Simulated(device.reopen_after_kill()))];
        for survival in [Survival::DropAll, Survival::KeepAll, Survival::Prefix, Survival::Random] {
            for seed in 0..if matches!(survival, Survival::Prefix | Survival::Random) { 3 } else { 1 } {
                let crashed = device.reopen_with(seed, survival);
                later.push((format!("the machine crashed, {survival:?} {seed}"), Device::Simulated(crashed)));
            }
        }
        later
    }
}

/// Lets a device go on when this guard is dropped, even if the test fails.
pub struct Standstill<'a>(&'a Device);

impl<'a> Standstill<'a> {
    pub fn of(device: &'a Device) -> Self {
        device.stall(true);
        Standstill(device)
    }
}

impl Drop for Standstill<'_> {
    fn drop(&mut self) {
        self.0.stall(false);
    }
}

/// Decides whether a read of this range fails.
type Reads = Box<dyn FnMut(&str, Range<u64>) -> bool + Send>;
type Predicate = Box<dyn FnMut(Verb, &str) -> Option<Fault> + Send>;

#[derive(Default)]
pub struct Plan {
    /// True if a call that was chosen to fail panics instead.
    panics: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    predicate: Option<Predicate>,
    reads: Option<Reads>,
    stalling: bool,
    stalled: usize,
}

impl Plan {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// Makes those reads fail for which `predicate` is true. The predicate gets the file's name and
    /// the range of bytes.
    pub fn fail_reads(&self, predicate: impl FnMut(&str, Range<u64>) -> bool + Send + 'static) {
        self.lock().reads = Some(Box::new(predicate));
    }

    /// Waits until a stall is over. Returns the fault of the call.
    fn meet(&self, verb: Verb, name: &str) -> Option<Fault> {
        let mut state = self.lock();
        if state.stalling {
            state.stalled += 1;
            self.changed.notify_all();
            while state.stalling {
                state = self.changed.wait(state).expect("no panic");
            }
            state.stalled -= 1;
        }
        let fault = state.predicate.as_mut().and_then(|predicate| predicate(verb, name));
        drop(state);
        assert!(!self.panics || fault.is_none(), "the device's own bug");
        fault
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plan")
    }
}

fn failure(fault: Fault, verb: Verb, name: &str) -> Error {
    let cause = match fault {
        Fault::NoSpace => Cause::NoSpace,
        _ => Cause::Io(Arc::new(io::Error::other("injected I/O error"))),
    };
    Error::new(verb, name, cause)
}

/// Returns a directory that fails as planned, in front of another one.
pub fn faulty(inner: Arc<dyn Directory>, plan: Arc<Plan>) -> Arc<dyn Directory> {
    Arc::new(Faulty { name: String::new(), plan, inner })
}

/// Files and directories that fail as planned, in front of real ones.
#[derive(Debug)]
struct Faulty<T: ?Sized> {
    name: String,
    plan: Arc<Plan>,
    inner: Arc<T>,
}

impl Faulty<dyn Directory> {
    fn file(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(Faulty { name: name.to_owned(), plan: self.plan.clone(), inner })
    }
}

impl Directory for Faulty<dyn Directory> {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.open(name, create, method)?))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.open_read_only(name)?))
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
        match self.plan.meet(Verb::SyncDirectory, &self.name) {
            Some(fault) => Err(failure(fault, Verb::SyncDirectory, &self.name)),
            None => self.inner.sync(),
        }
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock()
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.inner.subdirectory(name)
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        self.inner.existing_subdirectory(name)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl File for Faulty<dyn File> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let range = offset..offset + buffer.len() as u64;
        if self.plan.lock().reads.as_mut().is_some_and(|reads| reads(&self.name, range)) {
            return Err(failure(Fault::Io, Verb::Read, &self.name));
        }
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let Some(fault) = self.plan.meet(Verb::Write, &self.name) else {
            return self.inner.write_at(parts, offset, mode);
        };
        let mut whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        match fault {
            Fault::ShortWrite(sectors) => whole.truncate(sectors as usize * 512),
            Fault::SyncIo => {}
            _ => whole.clear(),
        }
        if !whole.is_empty() {
            self.inner.write_at(&[IoSlice::new(&whole)], offset, WriteMode::Written)?;
        }
        Err(failure(fault, Verb::Write, &self.name))
    }

    fn sync(&self) -> Result<()> {
        match self.plan.meet(Verb::Sync, &self.name) {
            Some(fault) => Err(failure(fault, Verb::Sync, &self.name)),
            None => self.inner.sync(),
        }
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        match self.plan.meet(Verb::Prepare, &self.name) {
            Some(fault) => Err(failure(fault, Verb::Prepare, &self.name)),
            None => self.inner.prepare(from, to),
        }
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.inner.truncate(length)
    }

    fn drop_cache(&self) -> Result<()> {
        self.inner.drop_cache()
    }

    fn method(&self) -> Method {
        // This call cannot fail, but its code may panic.
        if self.plan.panics {
            self.plan.meet(Verb::Map, &self.name);
        }
        self.inner.method()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}
