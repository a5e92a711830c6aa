//! The stall watch: a call that takes too long is counted, and an event names it while it lasts and
//! when it ends. Other calls are neither counted nor named.
//!
//! Time is a clock that the test moves, and the device stands still until the test lets it go.

use katydid_device::{Create, Directory, File, HandClock, Method, SimDevice, Stalls, Verb, Watch, WriteMode};
use std::io::IoSlice;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const THRESHOLD: Duration = Duration::from_secs(1);

/// Keeps the events of all threads. Each test recognises its own events by the name of its file.
struct EventLog {
    heard: Mutex<Vec<String>>,
}

impl log::Log for EventLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        assert_eq!((record.target(), record.level()), ("katydid::device", log::Level::Warn));
        self.heard.lock().expect("no panic").push(record.args().to_string());
    }

    fn flush(&self) {}
}

fn heard(about: &str) -> Vec<String> {
    let heard = ears().heard.lock().expect("no panic");
    heard.iter().filter(|line| line.contains(about)).cloned().collect()
}

fn ears() -> &'static EventLog {
    static EARS: OnceLock<&'static EventLog> = OnceLock::new();
    EARS.get_or_init(|| {
        let ears: &'static EventLog = Box::leak(Box::new(EventLog { heard: Mutex::default() }));
        log::set_logger(ears).expect("the only logger");
        log::set_max_level(log::LevelFilter::Warn);
        ears
    })
}

struct Setting {
    device: SimDevice,
    directory: Arc<dyn Directory>,
    file: Arc<dyn File>,
    watch: Watch,
    clock: HandClock,
}

fn set(name: &str) -> Setting {
    ears();
    let device = SimDevice::new(1);
    let (watch, clock) = Watch::by_hand(THRESHOLD);
    let directory = watch.before(device.directory());
    let file = directory.open(name, Create::New, Method::Direct).expect("create");
    file.prepare(0, 8192).expect("prepare");
    Setting { device, directory, file, watch, clock }
}

/// Stalls the device until dropped, even by a failing test.
struct Standstill<'a>(&'a SimDevice);

impl<'a> Standstill<'a> {
    fn of(device: &'a SimDevice) -> Self {
        device.stall_writes(true);
        Standstill(device)
    }
}

impl Drop for Standstill<'_> {
    fn drop(&mut self) {
        self.0.stall_writes(false);
    }
}

fn write(file: &dyn File, mode: WriteMode) {
    file.write_at(&[IoSlice::new(&[1; 4096])], 4096, mode).expect("write");
}

#[test]
fn a_call_that_takes_too_long_is_named_while_it_lasts_and_when_it_ends() {
    type Attempt = fn(&Setting);
    let attempts: [(&str, Verb, &str, Attempt); 5] = [
        ("a-write", Verb::Write, " bytes 4096..8192", |set| write(&*set.file, WriteMode::Written)),
        ("a-durable-write", Verb::Write, " bytes 4096..8192", |set| write(&*set.file, WriteMode::Durable)),
        ("a-sync", Verb::Sync, "", |set| set.file.sync().expect("sync")),
        ("a-preparation", Verb::Prepare, " bytes 8192..16384", |set| {
            set.file.prepare(8192, 16384).expect("prepare");
        }),
        ("a-directory-sync", Verb::SyncDirectory, "", |set| set.directory.sync().expect("sync")),
    ];
    for (name, verb, range, attempt) in attempts {
        let setting = set(name);
        let subject =
            if verb == Verb::SyncDirectory { setting.directory.describe() } else { format!("{name}{range}") };
        std::thread::scope(|scope| {
            let standstill = Standstill::of(&setting.device);
            scope.spawn(|| attempt(&setting));
            setting.device.wait_stalled(1);
            setting.clock.advance(Duration::from_millis(999));
            assert_eq!(setting.watch.stalls(), Stalls::default(), "{name}: too early");
            setting.clock.advance(Duration::from_millis(501));
            let stalls = setting.watch.stalls();
            let stall = stalls.under_way.expect("the call under way");
            assert_eq!((stall.verb, &stall.subject), (verb, &subject));
            assert_eq!((stalls.count, stalls.longest), (1, Duration::from_millis(1500)));
            assert_eq!(stall.lasts, Duration::from_millis(1500));
            // The watch does not report the call again before its duration has doubled.
            setting.watch.check();
            let said = heard(&subject).len();
            setting.clock.advance(Duration::from_millis(700));
            setting.watch.check();
            setting.watch.check();
            if verb != Verb::SyncDirectory {
                assert_eq!((said, heard(&subject).len()), (1, 2));
            }
            setting.clock.advance(Duration::from_millis(800));
            drop(standstill);
        });
        let stalls = setting.watch.stalls();
        assert_eq!(stalls.under_way, None);
        assert_eq!((stalls.count, stalls.longest), (1, Duration::from_secs(3)));
        let said = heard(&subject);
        assert!(said[0].contains(&format!("to {verb} {subject} has taken 1.5 s so far")), "{said:?}");
        assert!(said[said.len() - 1].contains(&format!("to {verb} {subject} took 3.0 s")), "{said:?}");
    }
}

#[test]
fn several_stalls_are_counted_and_the_oldest_is_shown() {
    let setting = set("several");
    let other = setting.directory.open("several-others", Create::New, Method::Buffered).expect("create");
    std::thread::scope(|scope| {
        let standstill = Standstill::of(&setting.device);
        scope.spawn(|| write(&*setting.file, WriteMode::Durable));
        setting.device.wait_stalled(1);
        setting.clock.advance(Duration::from_millis(600));
        scope.spawn(|| other.sync().expect("sync"));
        setting.device.wait_stalled(2);
        setting.clock.advance(Duration::from_millis(600));
        assert_eq!(setting.watch.stalls().count, 1);
        setting.clock.advance(Duration::from_millis(600));
        let stalls = setting.watch.stalls();
        assert_eq!(stalls.count, 2);
        assert_eq!(stalls.under_way.expect("two").subject, "several bytes 4096..8192");
        drop(standstill);
    });
    assert_eq!(setting.watch.stalls().longest, Duration::from_millis(1800));
}

#[test]
fn quick_calls_are_not_stalls_however_many_there_are() {
    let setting = set("quick");
    for _ in 0..1000 {
        write(&*setting.file, WriteMode::Durable);
        setting.clock.advance(Duration::from_millis(999));
        setting.watch.check();
    }
    assert_eq!(setting.watch.stalls(), Stalls::default());
    assert!(heard("quick").is_empty());
}

#[test]
fn more_calls_at_once_than_there_are_slots_are_made_all_the_same() {
    let setting = set("many");
    std::thread::scope(|scope| {
        let standstill = Standstill::of(&setting.device);
        for _ in 0..100 {
            scope.spawn(|| write(&*setting.file, WriteMode::Written));
        }
        setting.device.wait_stalled(100);
        setting.clock.advance(THRESHOLD);
        let count = setting.watch.stalls().count;
        assert_eq!(count, 64, "as many as are watched at once");
        drop(standstill);
    });
    assert_eq!(setting.watch.stalls().under_way, None);
}

#[test]
fn a_failing_call_ends_its_watch() {
    let setting = set("failing");
    setting.device.freeze();
    assert!(setting.file.sync().is_err());
    setting.clock.advance(THRESHOLD);
    assert_eq!(setting.watch.stalls(), Stalls::default());
}

#[test]
fn files_in_folders_are_named_with_their_folder() {
    let setting = set("folders");
    let folder = setting.directory.subdirectory("inside").expect("folder");
    let file = folder.open("a", Create::New, Method::Buffered).expect("create");
    std::thread::scope(|scope| {
        let standstill = Standstill::of(&setting.device);
        scope.spawn(|| file.sync().expect("sync"));
        setting.device.wait_stalled(1);
        setting.clock.advance(THRESHOLD);
        assert_eq!(setting.watch.stalls().under_way.expect("one").subject, "inside/a");
        drop(standstill);
    });
}

/// The watch has its own thread and the real clock: the test waits for the event, however long it
/// takes.
#[test]
fn the_watcher_says_so_by_itself() {
    ears();
    let device = SimDevice::new(1);
    let watch = Watch::new(Duration::from_millis(1));
    watch.start().expect("a thread");
    watch.start().expect("no second one");
    let directory = watch.before(device.directory());
    // At the start of each round the watcher is parked, or about to park, because there are no
    // calls. So the call of the round must wake the watcher.
    for round in 0..20 {
        let name = format!("by-itself-{round}-");
        let file = directory.open(&name, Create::New, Method::Buffered).expect("create");
        std::thread::scope(|scope| {
            let standstill = Standstill::of(&device);
            scope.spawn(|| file.sync().expect("sync"));
            while heard(&name).is_empty() {
                std::thread::yield_now();
            }
            drop(standstill);
        });
        assert!(heard(&name)[0].contains("so far"));
    }
    assert!(watch.stalls().count >= 20);
    drop((directory, watch));
}

/// With a threshold of zero, calls do not pass through the watch.
#[test]
fn nothing_is_watched_without_a_threshold() {
    let device = SimDevice::new(1);
    let (watch, clock) = Watch::by_hand(Duration::ZERO);
    watch.start().expect("nothing to start");
    let file = watch.before(device.directory()).open("a", Create::New, Method::Buffered).expect("create");
    std::thread::scope(|scope| {
        let standstill = Standstill::of(&device);
        scope.spawn(|| file.sync().expect("sync"));
        device.wait_stalled(1);
        clock.advance(THRESHOLD * 10);
        assert_eq!(watch.stalls(), Stalls::default());
        drop(standstill);
    });
}
