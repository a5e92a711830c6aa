//! The gate: which failures shut it, which calls a shut gate refuses, and which calls it still
//! allows.

use katydid_device::{
    Cause, Create, Directory, DirectoryLock, Error, Fault, File, Gate, Method, SimDevice, Verb, WriteMode,
};
use std::io::IoSlice;
use std::sync::Arc;

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

#[test]
fn the_first_failed_write_or_sync_shuts_it_for_good() {
    type Attempt = fn(&Setting) -> Result<(), Error>;
    let attempts: [(&str, Verb, Fault, Attempt); 8] = [
        ("write", Verb::Write, Fault::Io, |setting| write(&*setting.file, WriteMode::Written)),
        ("durable write", Verb::Write, Fault::SyncIo, |setting| write(&*setting.file, WriteMode::Durable)),
        ("short write", Verb::Write, Fault::ShortWrite(1), |setting| {
            write(&*setting.file, WriteMode::Written)
        }),
        ("write without room", Verb::Write, Fault::NoSpace, |setting| {
            write(&*setting.file, WriteMode::Durable)
        }),
        ("sync", Verb::Sync, Fault::Io, |setting| setting.file.sync()),
        ("directory sync", Verb::SyncDirectory, Fault::Io, |setting| setting.directory.sync()),
        ("preparation", Verb::Prepare, Fault::Io, |setting| setting.file.prepare(0, 4096)),
        ("sync of a preparation", Verb::Sync, Fault::SyncIo, |setting| setting.file.prepare(0, 4096)),
    ];
    for method in Method::ALL {
        for (what, verb, fault, attempt) in attempts {
            let setting = set(method);
            let inner = setting.directory.subdirectory("inner").expect("create");
            let other = inner.open("b", Create::New, method).expect("create");
            write(&*other, WriteMode::Durable).expect("open so far");
            assert!(setting.gate.failure().is_none() && !setting.gate.is_shut());

            setting.device.fail_at(setting.device.steps(), fault);
            let error = attempt(&setting).expect_err(what);
            assert!(
                !matches!(error.cause, Cause::Poisoned(_)),
                "{what}: the first caller gets the cause itself"
            );
            let first = setting.gate.failure().expect(what);
            assert_eq!((first.verb, &first.subject), (verb, &error.subject), "{what}");

            // No call that could acknowledge or change something reaches the device any more.
            let steps = setting.device.steps();
            for file in [&setting.file, &other] {
                assert!(is_poisoned(write(&**file, WriteMode::Written), verb), "{what}");
                assert!(is_poisoned(write(&**file, WriteMode::Durable), verb), "{what}");
                assert!(is_poisoned(file.sync(), verb), "{what}");
                assert!(is_poisoned(file.prepare(0, 10), verb), "{what}");
                assert!(is_poisoned(file.truncate(0), verb), "{what}");
            }
            for directory in [&setting.directory, &inner] {
                assert!(is_poisoned(directory.sync(), verb), "{what}");
                assert!(is_poisoned(directory.rename("a", "c"), verb), "{what}");
                assert!(is_poisoned(directory.remove("a"), verb), "{what}");
                assert!(is_poisoned(directory.open("d", Create::New, method), verb), "{what}");
                assert!(is_poisoned(directory.open("d", Create::IfMissing, method), verb), "{what}");
                assert!(is_poisoned(directory.subdirectory("d"), verb), "{what}");
            }
            assert_eq!(setting.device.steps(), steps, "{what}");

            // Reads go on.
            assert_eq!(other.read_at(&mut [0; 10], 0).expect(what), 10);
            assert_eq!(other.len().expect(what), 4096);
            assert_eq!(setting.directory.list().expect(what), ["a"]);
            setting.directory.open("a", Create::IfMissing, method).expect(what);
            setting.directory.open_read_only("a").expect(what);
            setting.directory.subdirectory("inner").expect(what);
            assert!(setting.directory.open("d", Create::Never, method).expect_err(what).is_not_found());
            assert_eq!(setting.gate.failure().expect(what).verb, verb, "the first cause stays");
        }
    }
}

#[test]
fn a_lack_of_room_met_ahead_and_failing_reads_leave_it_open() {
    let setting = set(Method::Direct);
    setting.device.set_capacity(8192);
    assert!(setting.file.prepare(0, 100_000).expect_err("full").is_no_space());
    setting.device.fail_reads("a", 0..10);
    setting.file.read_at(&mut [0; 10], 0).expect_err("planned");
    setting.directory.open("a", Create::New, Method::Direct).expect_err("it exists");
    setting.directory.rename("x", "y").expect_err("it does not exist");
    let next = setting.device.steps();
    setting.device.fail_at(next, Fault::NoSpace);
    assert!(setting.directory.open("b", Create::New, Method::Direct).expect_err("planned").is_no_space());
    assert!(setting.gate.failure().is_none());
    write(&*setting.file, WriteMode::Durable).expect("it is open");
}

#[test]
fn a_sync_that_ends_after_another_call_failed_reports_no_success() {
    for method in Method::ALL {
        let setting = set(method);
        let other = setting.directory.open("b", Create::New, method).expect("create");
        setting.device.stall_writes(true);
        std::thread::scope(|scope| {
            let sync = scope.spawn(|| other.sync());
            let durable = scope.spawn(|| write(&*setting.file, WriteMode::Durable));
            setting.device.wait_stalled(2);
            setting.gate.shut(Error::new(Verb::Read, "a page", Cause::NotFound));
            setting.device.stall_writes(false);
            assert!(is_poisoned(sync.join().expect("join"), Verb::Read));
            assert!(is_poisoned(durable.join().expect("join"), Verb::Read));
        });
    }
}

#[test]
fn syncs_of_one_file_take_turns_so_that_none_overtakes_a_failure() {
    // The test has several rounds. A sync that does not wait for its turn is noticed only in a
    // round in which that sync begins while the first one is stalled.
    for _ in 0..20 {
        let setting = set(Method::Buffered);
        write(&*setting.file, WriteMode::Written).expect("write");
        setting.device.stall_writes(true);
        let next = setting.device.steps();
        setting.device.fail_at(next, Fault::SyncIo);
        std::thread::scope(|scope| {
            let syncs: Vec<_> = (0..4).map(|_| scope.spawn(|| setting.file.sync())).collect();
            setting.device.wait_stalled(1);
            let stalled = setting.device.stalled();
            // The stall ends before the first assertion, because a stalled thread would keep a
            // failed test from ending.
            setting.device.stall_writes(false);
            for sync in syncs {
                sync.join().expect("join").expect_err("the first fails, the others do not run");
            }
            assert_eq!(stalled, 1, "one at a time");
        });
        assert_eq!(setting.device.steps(), next + 1);
    }
}

#[test]
fn one_gate_may_stand_before_several_directories() {
    let (one, gate) = Gate::wrap(SimDevice::new(1).directory());
    let device = SimDevice::new(2);
    let two = gate.before(device.directory());
    device.fail_at(0, Fault::Io);
    two.sync().expect_err("planned");
    assert!(is_poisoned(one.sync(), Verb::SyncDirectory));
    gate.shut(one.sync().expect_err("shut"));
    assert_eq!(gate.failure().expect("shut").verb, Verb::SyncDirectory);
    assert!(format!("{gate:?}").contains("shut"), "{gate:?}");
}

/// A directory and a file of which almost every call panics.
#[derive(Debug)]
struct Bug;

impl Directory for Bug {
    fn open(&self, _: &str, _: Create, _: Method) -> Result<Arc<dyn File>, Error> {
        Ok(Arc::new(Bug))
    }
    fn open_read_only(&self, _: &str) -> Result<Arc<dyn File>, Error> {
        panic!("open_read_only's bug")
    }
    fn list(&self) -> Result<Vec<String>, Error> {
        panic!("list's bug")
    }
    fn rename(&self, _: &str, _: &str) -> Result<(), Error> {
        panic!("rename's bug")
    }
    fn remove(&self, _: &str) -> Result<(), Error> {
        panic!("remove's bug")
    }
    fn sync(&self) -> Result<(), Error> {
        panic!("sync's bug")
    }
    fn lock(&self) -> Result<Box<dyn DirectoryLock>, Error> {
        panic!("lock's bug")
    }
    fn subdirectory(&self, _: &str) -> Result<Arc<dyn Directory>, Error> {
        panic!("subdirectory's bug")
    }
    fn existing_subdirectory(&self, _: &str) -> Result<Option<Arc<dyn Directory>>, Error> {
        panic!("existing_subdirectory's bug")
    }
    fn describe(&self) -> String {
        "a bug".to_owned()
    }
}

impl File for Bug {
    fn read_at(&self, _: &mut [u8], _: u64) -> Result<usize, Error> {
        panic!("{}", format!("read_at's {}", "bug"))
    }
    fn write_at(&self, _: &[IoSlice<'_>], _: u64, _: WriteMode) -> Result<(), Error> {
        panic!("write_at's bug")
    }
    fn sync(&self) -> Result<(), Error> {
        panic!("sync's bug")
    }
    fn len(&self) -> Result<u64, Error> {
        panic!("len's bug")
    }
    fn prepare(&self, _: u64, _: u64) -> Result<(), Error> {
        panic!("prepare's bug")
    }
    fn truncate(&self, _: u64) -> Result<(), Error> {
        panic!("truncate's bug")
    }
    fn drop_cache(&self) -> Result<(), Error> {
        panic!("drop_cache's bug")
    }
    fn method(&self) -> Method {
        Method::Buffered
    }
    fn alignment(&self) -> usize {
        512
    }
}

#[test]
fn a_call_that_panics_is_an_error_and_shuts_what_its_failure_shuts() {
    type Attempt = fn(&dyn Directory, &dyn File) -> Result<(), Error>;
    let attempts: [(&str, bool, Attempt); 14] = [
        ("write_at", true, |_, file| write(file, WriteMode::Written)),
        ("write_at", true, |_, file| write(file, WriteMode::Durable)),
        ("sync", true, |_, file| file.sync()),
        ("sync", true, |directory, _| directory.sync()),
        ("prepare", true, |_, file| file.prepare(0, 4096)),
        ("subdirectory", true, |directory, _| directory.subdirectory("d").map(drop)),
        ("read_at", false, |_, file| file.read_at(&mut [0], 0).map(drop)),
        ("len", false, |_, file| file.len().map(drop)),
        ("list", false, |directory, _| directory.list().map(drop)),
        ("rename", false, |directory, _| directory.rename("a", "b")),
        ("remove", false, |directory, _| directory.remove("a")),
        ("lock", false, |directory, _| directory.lock().map(drop)),
        ("open_read_only", false, |directory, _| directory.open_read_only("a").map(drop)),
        ("existing_subdirectory", false, |directory, _| directory.existing_subdirectory("d").map(drop)),
    ];
    for (what, shuts, attempt) in attempts {
        let (directory, gate) = Gate::wrap(Arc::new(Bug));
        let file = directory.open("a", Create::New, Method::Buffered).expect("no bug there");
        let error = attempt(&*directory, &*file).expect_err(what);
        let Cause::Panicked(said) = &error.cause else { panic!("{what}: {error}") };
        assert_eq!(**said, *format!("{what}'s bug"));
        assert!(error.to_string().contains(&format!("panicked: {what}'s bug")), "{error}");
        assert_eq!(gate.is_shut(), shuts, "{what}");
    }
}
