//! Closing a gate: which calls a closed gate refuses, which go on, and which calls closing waits
//! for.

use katydid_device::nvram::Persistence;
use katydid_device::{
    Cause, Create, Directory, DirectoryLock, Error, Fault, File, Gate, MemoryDirectory, Method, SimDevice,
    StripedDirectory, Verb, WriteMode,
};
use std::io::IoSlice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

struct Setting {
    device: SimDevice,
    directory: Arc<dyn Directory>,
    file: Arc<dyn File>,
    gate: Gate,
}

fn set(method: Method) -> Setting {
    let device = SimDevice::new(1);
    let (directory, gate) = Gate::wrap(device.directory());
    let file = directory.open("a", Create::New, method).expect("create");
    directory.sync().expect("sync");
    file.prepare(0, 8192).expect("prepare");
    Setting { device, directory, file, gate }
}

fn write(file: &dyn File, mode: WriteMode) -> Result<(), Error> {
    file.write_at(&[IoSlice::new(&[1; 4096])], 0, mode)
}

fn is_poisoned<T>(result: Result<T, Error>, verb: Verb) -> bool {
    matches!(result, Err(Error { cause: Cause::Poisoned(first), .. }) if first.verb == verb)
}

fn is_closed<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error { cause: Cause::Closed, .. }))
}

#[test]
fn a_closed_gate_lets_nothing_change_and_reads_go_on() {
    for method in Method::ALL {
        let setting = set(method);
        let inner = setting.directory.subdirectory("inner").expect("create");
        let other = inner.open("b", Create::New, method).expect("create");
        write(&*other, WriteMode::Durable).expect("open so far");
        setting.gate.close(None);
        assert!(setting.gate.is_closed() && !setting.gate.is_shut());

        let steps = setting.device.steps();
        for file in [&setting.file, &other] {
            assert!(is_closed(write(&**file, WriteMode::Written)));
            assert!(is_closed(write(&**file, WriteMode::Durable)));
            assert!(is_closed(file.write_at(&[IoSlice::new(&[1; 100])], 0, WriteMode::Durable)));
            assert!(is_closed(file.sync()));
            assert!(is_closed(file.prepare(0, 10)));
            assert!(is_closed(file.truncate(0)));
        }
        for directory in [&setting.directory, &inner] {
            assert!(is_closed(directory.sync()));
            assert!(is_closed(directory.rename("a", "c")));
            assert!(is_closed(directory.remove("a")));
            assert!(is_closed(directory.open("d", Create::New, method)));
            assert!(is_closed(directory.open("d", Create::IfMissing, method)));
            assert!(is_closed(directory.subdirectory("d")));
            assert!(is_closed(directory.nvram("d", 4096, Persistence::Auto)));
            assert!(is_closed(directory.lock()));
        }
        assert_eq!(setting.device.steps(), steps, "nothing reached the device");

        assert_eq!(other.read_at(&mut [0; 10], 0).expect("a read"), 10);
        assert_eq!(other.len().expect("a length"), 4096);
        assert_eq!(setting.directory.list().expect("a listing"), ["a"]);
        setting.directory.open("a", Create::IfMissing, method).expect("it exists");
        setting.directory.open_read_only("a").expect("it exists");
        setting.directory.subdirectory("inner").expect("it exists");
        assert!(setting.directory.open("d", Create::Never, method).expect_err("none").is_not_found());
        setting.gate.close(None);
        assert!(setting.gate.failure().is_none(), "a refusal is no failure");
    }
}

#[test]
fn closing_waits_for_the_calls_inside_and_then_gives_the_lock_back() {
    for method in Method::ALL {
        let setting = set(method);
        let lock = setting.directory.lock().expect("nobody has it");
        let raw = setting.device.directory();
        setting.device.stall_writes(true);
        std::thread::scope(|scope| {
            let durable = scope.spawn(|| write(&*setting.file, WriteMode::Durable));
            setting.device.wait_stalled(1);
            let queued = scope.spawn(|| setting.file.prepare(4096, 8192));
            let closers =
                [scope.spawn(|| setting.gate.close(Some(lock))), scope.spawn(|| setting.gate.close(None))];
            while !setting.gate.is_closed() {
                std::thread::yield_now();
            }
            assert!(is_closed(setting.file.truncate(0)), "refused while another is inside");
            assert!(matches!(raw.lock(), Err(Error { cause: Cause::Locked(_), .. })));
            assert!(!closers[0].is_finished());
            setting.device.stall_writes(false);
            durable.join().expect("no panic").expect("it was inside before");
            // The queued preparation succeeds if it entered the gate before the close. Otherwise
            // the gate refuses it.
            let queued = queued.join().expect("no panic");
            assert!(queued.is_ok() || is_closed(queued));
            closers.into_iter().for_each(|closer| closer.join().expect("no panic"));
        });
        drop(raw.lock().expect("given back"));
    }
}

#[test]
fn gates_in_series_are_closed_one_by_one_and_refusals_of_the_inner_shut_no_outer() {
    let device = SimDevice::new(1);
    let (directory, database) = Gate::wrap(device.directory());
    let (of_log, log) = Gate::wrap(directory.clone());
    let (page, record) = (
        directory.open("page", Create::New, Method::Direct).expect("create"),
        of_log.open("record", Create::New, Method::Direct).expect("create"),
    );
    log.close(None);
    assert!(is_closed(write(&*record, WriteMode::Durable)));
    write(&*page, WriteMode::Durable).expect("the database's gate is open");
    database.close(None);
    assert!(is_closed(write(&*page, WriteMode::Durable)));

    let (directory, database) = Gate::wrap(device.directory());
    let (of_log, log) = Gate::wrap(directory);
    let record = of_log.open("record", Create::Never, Method::Direct).expect("it exists");
    database.close(None);
    assert!(is_closed(write(&*record, WriteMode::Durable)), "refused behind its own gate");
    assert!(is_closed(of_log.sync()));
    assert!(!log.is_shut(), "{log:?}");
}

#[test]
fn a_shut_gate_names_its_cause_also_after_it_was_closed() {
    let setting = set(Method::Direct);
    setting.device.fail_at(setting.device.steps(), Fault::Io);
    setting.file.sync().expect_err("planned");
    setting.gate.close(None);
    assert!(is_poisoned(setting.file.sync(), Verb::Sync));
    assert!(is_poisoned(setting.directory.sync(), Verb::Sync));
}

/// A logger or panic hook that the device runs. This hook closes the gate that the call came
/// through.
#[derive(Debug, Default)]
struct Hook {
    gate: OnceLock<Gate>,
    lock: Mutex<Option<Box<dyn DirectoryLock>>>,
    runs: AtomicUsize,
}

#[derive(Debug)]
struct HookedDirectory(Arc<dyn Directory>, Arc<Hook>);

#[derive(Debug)]
struct HookedFile(Arc<dyn File>, Arc<Hook>);

impl Directory for HookedDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>, Error> {
        Ok(Arc::new(HookedFile(self.0.open(name, create, method)?, self.1.clone())))
    }
    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.0.open_read_only(name)
    }
    fn list(&self) -> Result<Vec<String>, Error> {
        self.0.list()
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<(), Error> {
        self.0.remove(name)
    }
    fn sync(&self) -> Result<(), Error> {
        self.0.sync()
    }
    fn lock(&self) -> Result<Box<dyn DirectoryLock>, Error> {
        self.0.lock()
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>, Error> {
        self.0.subdirectory(name)
    }
    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>, Error> {
        self.0.existing_subdirectory(name)
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl File for HookedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<(), Error> {
        if let Some(gate) = self.1.gate.get() {
            assert!(gate.is_inside());
            gate.close(self.1.lock.lock().expect("no panic").take());
            self.1.runs.fetch_add(1, Ordering::Relaxed);
        }
        self.0.write_at(parts, offset, mode)
    }
    fn sync(&self) -> Result<(), Error> {
        self.0.sync()
    }
    fn len(&self) -> Result<u64, Error> {
        self.0.len()
    }
    fn prepare(&self, from: u64, to: u64) -> Result<(), Error> {
        self.0.prepare(from, to)
    }
    fn truncate(&self, length: u64) -> Result<(), Error> {
        self.0.truncate(length)
    }
    fn drop_cache(&self) -> Result<(), Error> {
        self.0.drop_cache()
    }
    fn method(&self) -> Method {
        self.0.method()
    }
    fn alignment(&self) -> usize {
        self.0.alignment()
    }
}

#[test]
fn a_thread_inside_a_call_that_closes_the_gate_does_not_wait_for_itself() {
    let (memories, hook) = ([MemoryDirectory::new(), MemoryDirectory::new()], Arc::new(Hook::default()));
    let hooked = |memory: &MemoryDirectory| -> Arc<dyn Directory> {
        Arc::new(HookedDirectory(Arc::new(memory.clone()), hook.clone()))
    };
    // In a striped directory helpers make some of the calls, and their caller waits for them.
    let striped = StripedDirectory::open(memories.iter().map(hooked).collect(), 4096).expect("make");
    let (directory, gate) = Gate::wrap(Arc::new(striped));
    let file = directory.open("a", Create::New, Method::Buffered).expect("create");
    file.prepare(0, 8 * 4096).expect("prepare");
    *hook.lock.lock().expect("no panic") = Some(directory.lock().expect("nobody has it"));
    hook.gate.set(gate.clone()).expect("once");
    file.write_at(&[IoSlice::new(&[7; 8 * 4096])], 0, WriteMode::Written).expect("it was let in");
    assert_eq!(hook.runs.load(Ordering::Relaxed), 2, "one for each directory");
    assert!(is_closed(file.sync()));
    drop(memories[0].lock().expect("given back when the write had returned"));
}
