//! Rules about devices that fail, or are full.

use super::completing::block_on;
use super::records::{check_threads, payload, read_all, record};
use super::setup::{MakeLog, roomy, small};
use crate::{AppendClass, AppendError, Durability, Error, Log};
use katydid_device::{Fault, Method, SimDevice, Verb};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn a_failed_write_reaches_everybody(make: MakeLog<'_>) {
    failure_reaches_everybody(make, Method::Direct, Verb::Write, Fault::Io);
    failure_reaches_everybody(make, Method::Buffered, Verb::Write, Fault::ShortWrite(1));
}

pub(super) fn a_failed_sync_reaches_everybody(make: MakeLog<'_>) {
    failure_reaches_everybody(make, Method::Direct, Verb::Write, Fault::SyncIo);
    failure_reaches_everybody(make, Method::Buffered, Verb::Sync, Fault::SyncIo);
}

fn is_segment(path: &str) -> bool {
    path.starts_with("log.0")
}

fn failure_reaches_everybody(make: MakeLog<'_>, method: Method, verb: Verb, fault: Fault) {
    let device = SimDevice::new(1);
    let mut sizes = roomy();
    sizes.common.method = method;
    let log = make(device.directory(), sizes);
    let mut session = log.session().expect("session");
    let kept = session.append(&record(0, &[&payload(0, 0, 20)])).expect("append").end;
    log.first().wait(kept, Durability::Durable).expect("wait");
    // The device stands still while the threads append and begin to wait. Then the call fails, so
    // one failure must reach all of them.
    device.stall_writes(true);
    device.fail_when(move |did, path, _| (did == verb && is_segment(path)).then_some(fault));
    let failed = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 1..5u64 {
            let log = &log;
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                let Ok(appended) = session.append(&record(thread, &[&payload(thread, 0, 20)])) else {
                    return;
                };
                let outcome = log.first().wait(appended.end, Durability::Durable);
                assert!(matches!(outcome, Err(Error::Poisoned { .. })), "a waiter: {outcome:?}");
            });
        }
        for thread in 5..8u64 {
            let log = &log;
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                let Ok(appended) = session.append(&record(thread, &[&payload(thread, 0, 20)])) else {
                    return;
                };
                let outcome = block_on(log.first().wait_async(appended.end, Durability::Durable));
                assert!(matches!(outcome, Err(Error::Poisoned { .. })), "a future: {outcome:?}");
            });
        }
        for _ in 0..10 {
            let end = session.append(&record(0, &[b"x"])).expect("append").end;
            let failed = failed.clone();
            session.on_complete(end, Durability::Durable, move |outcome| {
                assert!(matches!(outcome, Err(Error::Poisoned { .. })), "a callback: {outcome:?}");
                failed.fetch_add(1, Ordering::SeqCst);
            });
        }
        device.wait_stalled(1);
        device.stall_writes(false);
        session.drain();
    });
    assert_eq!(failed.load(Ordering::SeqCst), 10);
    everything_is_refused(&log);
    assert!(matches!(session.append(&record(0, &[b"y"])), Err(AppendError::Poisoned { .. })));
    // The log does not try again: it still refuses every call after the device works again.
    device.heal();
    let durable = log.first().durable();
    everything_is_refused(&log);
    assert_eq!(log.first().durable(), durable);
    assert!(durable >= kept);
}

fn everything_is_refused(log: &Log) {
    assert!(matches!(log.poisoned(), Some(Error::Poisoned { .. })));
    let reserved = log.first().reserved();
    assert!(log.first().durable() < reserved);
    assert!(matches!(log.first().wait(reserved, Durability::Durable), Err(Error::Poisoned { .. })));
    assert!(matches!(log.first().sync(), Err(Error::Poisoned { .. })));
    assert!(matches!(
        block_on(log.first().wait_async(reserved, Durability::Durable)),
        Err(Error::Poisoned { .. })
    ));
}

pub(super) fn after_a_failure_reading_goes_on_and_opening_recovers(make: MakeLog<'_>) {
    let device = SimDevice::new(2);
    let log = make(device.directory(), roomy());
    let mut session = log.session().expect("session");
    for number in 0..20 {
        session.append(&record(0, &[&payload(0, number, 20)])).expect("append");
    }
    log.sync().expect("sync");
    device.fail_when(|did, path, _| (did == Verb::Write && is_segment(path)).then_some(Fault::Io));
    session.append(&record(0, &[&payload(0, 20, 20)])).expect("append");
    assert!(matches!(log.first().sync(), Err(Error::Poisoned { .. })));
    check_threads(&read_all(&log), 1, &[20]);
    assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
    drop((session, log));
    device.heal();
    let log = make(device.directory(), roomy());
    check_threads(&read_all(&log), 1, &[20]);
    log.sync().expect("a new handle has a new gate");
}

/// Appends until there is no space. Returns the number of appended records.
fn fill(log: &Log, session: &mut crate::Session, class: AppendClass, number: &mut u64) -> u64 {
    let before = *number;
    loop {
        match session.append(&record(0, &[&payload(0, *number, 600)]).class(class)) {
            Ok(appended) => {
                *number += 1;
                if number.is_multiple_of(10) {
                    log.first().wait(appended.end, Durability::Durable).expect("wait");
                }
            }
            Err(AppendError::NoSpace) => return *number - before,
            Err(error) => panic!("{error}"),
        }
        assert!(*number < 100_000, "the device is never full");
    }
}

pub(super) fn no_space_is_typed_and_clears(make: MakeLog<'_>) {
    let device = SimDevice::new(3);
    device.set_capacity(400 << 10);
    let log = make(device.directory(), small());
    let mut session = log.session().expect("session");
    let mut number = 0;
    assert!(fill(&log, &mut session, AppendClass::Normal, &mut number) > 0);
    // A refused record, large or small, leaves nothing in the log, and the appended records can
    // still be made durable.
    let end = log.first().reserved();
    assert!(matches!(session.append(&record(0, &[&vec![0; 100_000]])), Err(AppendError::NoSpace)));
    assert_eq!(log.first().reserved(), end);
    assert!(log.poisoned().is_none(), "no space is no failure");
    log.sync().expect("sync");
    assert!(matches!(log.first().raise_reserve(1 << 30), Err(Error::NoSpace)));
    // The device gets more room.
    device.set_capacity(600 << 10);
    assert!(fill(&log, &mut session, AppendClass::Normal, &mut number) > 0, "it clears by itself");
    // Trimming also makes room.
    log.sync().expect("sync");
    log.first().trim(log.first().durable()).expect("trim");
    assert!(fill(&log, &mut session, AppendClass::Normal, &mut number) > 0, "it clears by trimming");
    log.sync().expect("sync");
}

pub(super) fn the_reserve_is_for_critical_records(make: MakeLog<'_>) {
    let device = SimDevice::new(4);
    device.set_capacity(600 << 10);
    let log = make(device.directory(), small());
    let mut session = log.session().expect("session");
    let guard = log.first().raise_reserve(100 << 10).expect("room for the reserve");
    assert_eq!((guard.bytes(), log.space().reserve), (100 << 10, (100 << 10) + small().common.reserve_bytes));
    let mut number = 0;
    fill(&log, &mut session, AppendClass::Normal, &mut number);
    assert!(log.space().prepared >= 100 << 10, "the reserve was used by others: {:?}", log.space());
    let critical = fill(&log, &mut session, AppendClass::Critical, &mut number);
    assert!(critical * 600 >= 90 << 10, "only {critical} critical records");
    drop(guard);
    assert_eq!(log.space().reserve, small().common.reserve_bytes);
    assert_eq!(check_threads(&read_all(&log), 1, &[]), [number]);
}
