//! A call of the device panics, on any thread: the log fails, every caller gets an error, and the
//! log can be closed.

use crate::places::{Standstill, TestDevice};
use crate::{Acknowledged, append, block_on, check, first, on_every_protocol_and_device, options};
use katydid_device::Verb;
use katydid_wal::{AppendError, Durability, Error, Log, Session, SyncKind};
use std::sync::{Arc, Mutex};

const SESSIONS: u64 = 6;

/// Final outcome of a caller: the number of its durable records, and the error that ended them.
#[derive(Debug, Default)]
struct Heard {
    counts: Acknowledged,
    cause: Option<String>,
}

fn cause(error: Error) -> String {
    let Error::Poisoned { cause } = error else { panic!("{error}") };
    first(&cause)
}

/// Commits until the log has failed: by blocking, with futures, with callbacks.
fn commit(log: &Log, mut session: Session, number: u64) -> Heard {
    let mut heard = Heard::default();
    let called: Arc<Mutex<(u64, Option<String>)>> = Arc::default();
    while heard.cause.is_none() {
        let end = match append(&mut session, number, &mut heard.counts) {
            Ok(end) => end,
            Err(AppendError::Poisoned { cause }) => {
                heard.cause = Some(first(&cause));
                break;
            }
            Err(other) => panic!("{other}"),
        };
        let outcome = match number % 3 {
            0 => log.first().wait(end, Durability::Durable),
            1 => block_on(log.first().wait_async(end, Durability::Durable)),
            _ => {
                let called = called.clone();
                let upto = heard.counts.appended;
                session.on_complete(end, Durability::Durable, move |outcome| match outcome {
                    Ok(()) => called.lock().expect("no panic").0 = upto,
                    Err(error) => called.lock().expect("no panic").1 = Some(cause(error)),
                });
                session.wait_below(3);
                continue;
            }
        };
        match outcome {
            Ok(()) => heard.counts.acknowledged = heard.counts.appended,
            Err(error) => heard.cause = Some(cause(error)),
        }
    }
    session.drain();
    assert_eq!(session.pending(), 0, "a callback was forgotten");
    let (upto, cause) = &*called.lock().expect("no panic");
    heard.counts.acknowledged = heard.counts.acknowledged.max(*upto);
    heard.cause = heard.cause.or(cause.clone());
    heard
}

fn panics(sync: SyncKind, place: &TestDevice, verb: Verb, nth: u64) {
    let device = place.make_panicking();
    let when = format!("{sync} on {}: the {nth}th {verb:?} panics", place.name);
    let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
    let mut left = nth;
    device.fail_once(move |at, name| {
        left -= u64::from(at == verb && name.starts_with("log."));
        (left == 0).then_some(katydid_device::Fault::Io)
    });
    let mut counts: Vec<Acknowledged> = Vec::new();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let (log, session) = (&log, log.session().expect("session"));
                scope.spawn(move || commit(log, session, number))
            })
            .collect();
        for caller in callers {
            let heard = caller.join().expect("no caller panics");
            let cause = heard.cause.expect("every caller gets a cause");
            assert!(cause.contains("panicked: the device's own bug"), "{when}: {cause}");
            counts.push(heard.counts);
        }
    });
    let poisoned = log.poisoned().unwrap_or_else(|| panic!("{when}: the log has not failed"));
    assert!(poisoned.to_string().contains("the device's own bug"), "{when}: {poisoned}");
    assert!(matches!(log.close(), Err(Error::Poisoned { .. })), "{when}");
    drop(log);
    let log = Log::open_in(device.directory(), options(sync, place));
    check(&log.unwrap_or_else(|error| panic!("{when}: {error}")), &counts, &when);
}

#[test]
fn a_write_that_panics_fails_the_log_and_hangs_nobody() {
    on_every_protocol_and_device(|sync, place| (1..8).for_each(|nth| panics(sync, place, Verb::Write, nth)));
}

#[test]
fn a_sync_that_panics_fails_the_log_and_hangs_nobody() {
    on_every_protocol_and_device(|sync, place| {
        // If writes are durable by themselves, there is no sync that could panic.
        if !place.method.durable_writes() {
            (1..4).for_each(|nth| panics(sync, place, Verb::Sync, nth));
        }
    });
}

#[test]
fn a_preparation_that_panics_fails_the_log_and_hangs_nobody() {
    on_every_protocol_and_device(|sync, place| {
        (1..3).for_each(|nth| panics(sync, place, Verb::Prepare, nth));
    });
}

/// A call that cannot return an error (`File::method`) panics. The leader makes this call while it
/// holds its latch.
#[test]
fn a_question_that_panics_fails_the_log_and_hangs_nobody() {
    on_every_protocol_and_device(|sync, place| {
        (1..5).for_each(|nth| panics(sync, place, Verb::Map, nth));
    });
}

/// A thread that is already unwinding closes the log like any other thread, even if the device
/// panics meanwhile.
#[test]
fn the_last_handle_dropped_by_a_panic_closes_the_log() {
    on_every_protocol_and_device(|sync, place| {
        for device_panics in [false, true] {
            let device = place.make_panicking();
            let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
            let mut session = log.session().expect("session");
            let mut counts = [Acknowledged::default()];
            append(&mut session, 0, &mut counts[0]).expect("append");
            if device_panics {
                device.fail_once(|verb, name| {
                    (verb == Verb::Write && name.starts_with("log.0")).then_some(katydid_device::Fault::Io)
                });
            }
            let thread = std::thread::spawn(move || {
                let _handles = (session, log);
                panic!("the program's own bug");
            });
            thread.join().expect_err("it has panicked");
            let log =
                Log::open_in(device.directory(), options(sync, place)).expect("the directory was given back");
            counts[0].acknowledged = u64::from(!device_panics);
            check(&log, &counts, "after a panic has dropped the last handle");
        }
    });
}

/// A waiting thread leads, or another thread leads for it; the panic leaves no thread waiting.
#[test]
fn waiters_beside_a_write_that_panics_get_an_error() {
    on_every_protocol_and_device(|sync, place| {
        let device = place.make_panicking();
        let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
        let mut counts = vec![Acknowledged::default(); 8];
        std::thread::scope(|scope| {
            let standstill = Standstill::of(&device);
            device.fail_once(|verb, name| {
                (verb == Verb::Write && name.starts_with("log.0")).then_some(katydid_device::Fault::Io)
            });
            let callers: Vec<_> = (0..)
                .zip(&mut counts)
                .map(|(number, counts)| {
                    let (log, mut session) = (&log, log.session().expect("session"));
                    let end = append(&mut session, number, counts).expect("append");
                    scope.spawn(move || log.first().wait(end, Durability::Durable))
                })
                .collect();
            device.wait_stalled();
            drop(standstill);
            for caller in callers {
                let outcome = caller.join().expect("no caller panics");
                let cause = cause(outcome.expect_err("nothing was written"));
                assert!(cause.contains("panicked: the device's own bug"), "{cause}");
            }
        });
        assert!(log.close().is_err());
    });
}
