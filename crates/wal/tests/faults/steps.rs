//! One call that changes the device fails. The tests try each such call of a log in turn, by its
//! number: in opening, creating, appending, preparing, rotating, trimming and closing. Everything
//! is done on the test's thread, so a number names the same call in every run.

use crate::places::{self, TestDevice};
use crate::{Acknowledged, append, check, options};
use katydid_device::{Fault, SimDevice, Survival, Verb};
use katydid_wal::testing::begin_at;
use katydid_wal::{
    Background, Durability, Error, FileOptions, Log, Lsn, Method, OpenError, Options, SyncKind,
};
use std::sync::{Arc, Mutex};

fn quiet(sync: SyncKind, place: &TestDevice) -> Options {
    Options {
        background: Background::Caller,
        run_ahead_bytes: 4 << 10,
        ..options(sync, place).map_files(|files| FileOptions {
            segment_bytes: 16 << 10,
            ring_bytes: 16 << 10,
            ..files
        })
    }
}

/// First position with a 33rd bit.
const HIGH: u64 = 1 << 32;

/// Returns a device for one run of [`live`]. With buffered writes the device has a log, which
/// begins just below [`HIGH`], so that its positions pass `HIGH` in that run.
fn device(seed: u64, options: &Options) -> SimDevice {
    let device = SimDevice::new(seed);
    if options.method == Method::Direct {
        return device;
    }
    Log::open_in(device.directory(), options.clone()).expect("made").close().expect("close");
    begin_at(device.directory().as_ref(), Lsn::new(HIGH - (16 << 10))).expect("an unused log");
    device.reopen_after_kill()
}

/// End of a run of [`live`].
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Closed, after this number of calls that were refused with `NoSpace`.
    Closed { refused: u32 },
    /// A call returned the device's failure, or the error of a log that is shut.
    Shut,
}

/// Repeats a call that was refused with `NoSpace`. The fault happens once, so the repeated call
/// succeeds.
fn insist<T>(refused: &mut u32, mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..3 {
        match call() {
            Err(Error::NoSpace) => *refused += 1,
            Err(Error::Device(error)) if error.is_no_space_ahead() => *refused += 1,
            outcome => return outcome,
        }
    }
    panic!("no space, and that does not clear");
}

/// Opens the log twice. After each opening, the function appends over several segments, makes
/// records durable in every way, trims and closes.
fn live(device: &SimDevice, options: &Options, counts: &mut Acknowledged) -> End {
    let mut refused = 0;
    match rounds(device, options, counts, &mut refused) {
        Ok(()) => End::Closed { refused },
        Err(Error::Poisoned { .. }) => End::Shut,
        // The failed call was off the path of a commit, so the caller gets the device's own error
        // instead of `Poisoned`.
        Err(Error::Device(error)) => {
            assert!(!matches!(error.cause, katydid_device::Cause::Crashed), "{error}");
            End::Shut
        }
        Err(error) => panic!("{error}"),
    }
}

fn rounds(
    device: &SimDevice,
    options: &Options,
    counts: &mut Acknowledged,
    refused: &mut u32,
) -> Result<(), Error> {
    for _ in 0..2 {
        let log = match Log::open_in(device.directory(), options.clone()) {
            Ok(log) => log,
            // Nothing was lost, so the opening may be tried again. (After a failed sync of names,
            // only a restart of the machine shows which names exist.)
            Err(OpenError::Device(error)) if error.is_no_space_ahead() => {
                *refused += 1;
                Log::open_in(device.directory(), options.clone()).expect("a second time there is room")
            }
            Err(OpenError::Device(error)) => return Err(Error::Device(error)),
            Err(error) => panic!("a failing device was taken for {error}"),
        };
        let mut session = log.session()?;
        for round in 0..40u64 {
            let end = insist(refused, || Ok(append(&mut session, 0, counts)?))?;
            match round % 10 {
                3 => log.first().wait(end, Durability::Written)?,
                6 => {
                    log.first().request(end, Durability::Durable);
                    log.run_background();
                    if log.first().durable() >= end {
                        counts.acknowledged = counts.appended;
                    }
                }
                9 => {
                    log.first().wait(end, Durability::Durable)?;
                    counts.acknowledged = counts.appended;
                    if round % 20 == 19 {
                        counts.trimmed = counts.appended;
                        insist(refused, || log.first().trim(log.first().durable()))?;
                    }
                }
                _ => {}
            }
        }
        drop(session);
        log.close()?;
        counts.acknowledged = counts.appended;
    }
    Ok(())
}

fn check_later(device: &SimDevice, options: &Options, counts: &Acknowledged) {
    let later = [
        ("the process died", device.reopen_after_kill()),
        ("all un-synced is lost", device.reopen_with(1, Survival::DropAll)),
        ("some un-synced is lost", device.reopen_with(2, Survival::Random)),
        ("all un-synced is kept", device.reopen_with(3, Survival::KeepAll)),
    ];
    for (when, device) in later {
        let log = Log::open_in(device.directory(), options.clone())
            .unwrap_or_else(|error| panic!("{when}: {error}\n{}", device.dump()));
        check(&log, std::slice::from_ref(counts), when);
    }
}

/// Runs [`live`] while call number `step` fails. Returns the verb and the path of that call, and
/// how the run ended.
fn fail_at(options: &Options, step: u64, fault: Fault) -> Option<(Verb, String, End)> {
    let device = device(step, options);
    let struck = Arc::new(Mutex::new(None));
    let seen = struck.clone();
    device.fail_when(move |verb, path, number| {
        (number == step).then(|| {
            *seen.lock().expect("no panic") = Some((verb, path.to_owned()));
            fault
        })
    });
    let mut counts = Acknowledged::default();
    let end = live(&device, options, &mut counts);
    check_later(&device, options, &counts);
    let (verb, path) = struck.lock().expect("no panic").take()?;
    Some((verb, path, end))
}

/// Runs `test` on every protocol with direct and buffered writes.
fn each(mut test: impl FnMut(&Options)) {
    for place in &places::ALL[..2] {
        for sync in SyncKind::ALL {
            println!("{sync} on {}", place.name);
            test(&quiet(sync, place));
        }
    }
}

fn steps(options: &Options) -> u64 {
    let device = device(1, options);
    let mut counts = Acknowledged::default();
    assert_eq!(live(&device, options, &mut counts), End::Closed { refused: 0 });
    assert_eq!(counts.acknowledged, 80);
    let steps = device.steps();
    let log = Log::open_in(device.directory(), options.clone()).expect("open");
    assert_eq!(log.first().reserved().get() > HIGH, options.method == Method::Buffered);
    steps
}

#[test]
fn no_room_at_any_step_loses_nothing_and_clears_where_it_was_met_ahead_of_use() {
    each(|options| {
        let mut met = 0;
        for step in 0..steps(options) {
            let Some((verb, path, end)) = fail_at(options, step, Fault::NoSpace) else { continue };
            println!("step {step}: no room to {verb} {path}: {end:?}");
            // These calls prepare a segment and name it ahead of use. If there is no room for the
            // segment, the log prepares it later, and does not shut.
            if matches!(verb, Verb::Prepare | Verb::Open | Verb::Rename) {
                met += 1;
                assert!(matches!(end, End::Closed { .. }), "shut for a lack of room met ahead of use");
            }
        }
        assert!(met > 4, "only {met} preparations");
    });
}

#[test]
fn a_failure_at_any_step_loses_nothing_that_was_acknowledged() {
    let mut turn = 0;
    each(|options| {
        for fault in [Fault::Io, Fault::SyncIo, Fault::ShortWrite(1)] {
            let mut shut = 0;
            turn += 1;
            // With each protocol and device, every step fails in one of the three ways.
            for step in (0..steps(options)).filter(|step| (step + turn) % 3 == 0) {
                let Some((verb, _, end)) = fail_at(options, step, fault) else { continue };
                let is_write = matches!(verb, Verb::Write | Verb::Sync | Verb::SyncDirectory);
                assert!(!is_write || end == End::Shut, "step {step}: a failed {verb} was passed over");
                shut += u64::from(end == End::Shut);
            }
            assert!(shut > 10, "{fault:?}: only {shut} failures were noticed");
        }
        turn += 1;
    });
}

#[test]
fn a_directory_that_cannot_be_synced_is_noticed_wherever_that_is() {
    each(|options| {
        let mut struck = 0;
        for nth in 0.. {
            let device = SimDevice::new(nth);
            let count = Arc::new(Mutex::new(0));
            let counted = count.clone();
            device.fail_when(move |verb, _, _| {
                let mut count = counted.lock().expect("no panic");
                *count += u64::from(verb == Verb::SyncDirectory);
                (verb == Verb::SyncDirectory && *count == nth + 1).then_some(Fault::Io)
            });
            let mut counts = Acknowledged::default();
            let end = live(&device, options, &mut counts);
            check_later(&device, options, &counts);
            if *count.lock().expect("no panic") <= nth {
                break;
            }
            assert_eq!(end, End::Shut, "directory sync {nth}");
            struck += 1;
        }
        assert!(struck > 4, "only {struck} directory syncs");
    });
}
