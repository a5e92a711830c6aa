//! One call on the path of a commit fails, once, while callers of every kind wait; afterwards the
//! device works again.

use crate::places::{Standstill, TestDevice};
use crate::{Acknowledged, append, block_on, check, first, on_every_protocol_and_device, options};
use katydid_device::{Fault, Method, Verb};
use katydid_wal::{AppendError, Durability, Error, Log, Session, SyncKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A name, the fault of a write, and the fault of a sync. If writes are durable by themselves,
/// there is no sync that could fail.
const FAULTS: &[(&str, Option<Fault>, Option<Fault>)] = &[
    ("a sync fails", Some(Fault::SyncIo), Some(Fault::SyncIo)),
    ("a write fails", Some(Fault::Io), None),
    ("there is no room for a write", Some(Fault::NoSpace), None),
    ("a write is cut after a sector", Some(Fault::ShortWrite(1)), None),
    ("a write is cut in its middle", Some(Fault::ShortWrite(11)), None),
];

/// Numbers of the sessions. The first session is alone before the fault; then come sessions that
/// block, sessions that wait for a future, and sessions that have callbacks.
const BLOCKING: std::ops::Range<usize> = 1..4;
const FUTURES: std::ops::Range<usize> = 4..7;
const SESSIONS: usize = 9;

fn is_segment(name: &str) -> bool {
    name.starts_with("log.0")
}

/// Notes the outcome that a caller got.
fn hear(outcome: Result<(), Error>, counts: &mut Acknowledged, upto: u64, causes: &Mutex<Vec<String>>) {
    match outcome {
        Ok(()) => counts.acknowledged = counts.acknowledged.max(upto),
        Err(Error::Poisoned { cause }) => causes.lock().expect("no panic").push(first(&cause)),
        Err(other) => panic!("{other}"),
    }
}

/// Makes the calls of one caller while the device stands still.
fn call(log: &Log, mut session: Session, number: usize, causes: &Arc<Mutex<Vec<String>>>) -> Acknowledged {
    let mut counts = Acknowledged::default();
    let Ok(end) = append(&mut session, number as u64, &mut counts) else { return counts };
    if BLOCKING.contains(&number) {
        hear(log.first().wait(end, Durability::Durable), &mut counts, 1, causes);
    } else if FUTURES.contains(&number) {
        hear(block_on(log.first().wait_async(end, Durability::Durable)), &mut counts, 1, causes);
    } else {
        let acknowledged = Arc::new(Mutex::new(Acknowledged::default()));
        let mut end = end;
        for upto in 1..=10 {
            let (acknowledged, causes) = (acknowledged.clone(), causes.clone());
            session.on_complete(end, Durability::Durable, move |outcome| {
                hear(outcome, &mut acknowledged.lock().expect("no panic"), upto, &causes);
            });
            match append(&mut session, number as u64, &mut counts) {
                Ok(next) => end = next,
                Err(AppendError::Poisoned { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
        session.drain();
        assert_eq!(session.pending(), 0, "a callback was forgotten");
        counts.acknowledged = acknowledged.lock().expect("no panic").acknowledged;
    }
    counts
}

fn fails(sync: SyncKind, place: &TestDevice, on_write: Option<Fault>, on_sync: Option<Fault>) {
    let device = place.make();
    let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
    let mut counts = vec![Acknowledged::default(); SESSIONS];
    let mut session = log.session().expect("session");
    for _ in 0..5 {
        let end = append(&mut session, 0, &mut counts[0]).expect("append");
        log.first().wait(end, Durability::Durable).expect("wait");
    }
    counts[0].acknowledged = 5;
    let causes = Arc::new(Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let standstill = Standstill::of(&device);
        let callers: Vec<_> = (1..SESSIONS)
            .map(|number| {
                let (log, causes) = (&log, &causes);
                scope.spawn(move || call(log, log.session().expect("session"), number, causes))
            })
            .collect();
        device.wait_stalled();
        let direct = place.method == Method::Direct;
        device.fail_once(move |verb, name| match verb {
            _ if !is_segment(name) => None,
            Verb::Write => on_write.filter(|fault| direct || *fault != Fault::SyncIo),
            Verb::Sync => on_sync,
            _ => None,
        });
        drop(standstill);
        for (number, caller) in (1..SESSIONS).zip(callers) {
            counts[number] = caller.join().expect("no panic");
        }
    });
    // All callers got the same cause: the first.
    let mut causes = std::mem::take(&mut *causes.lock().expect("no panic"));
    let Some(Error::Poisoned { cause }) = log.poisoned() else { panic!("the log is not shut") };
    assert!(!causes.is_empty(), "nobody heard of it");
    causes.push(first(&cause));
    causes.dedup();
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert!(causes[0].contains("log.0"), "{causes:?} names no segment");
    // The device works again, but no call of this log reaches it, and nothing is acknowledged any
    // more.
    let durable = log.first().durable();
    // A call of the maintenance thread that was under way when the gate shut may still end: that
    // call prepares a segment, and writes no record.
    let reached = Arc::new(AtomicU64::new(0));
    let counted = reached.clone();
    device.fail_once(move |verb, name| {
        if is_segment(name) && matches!(verb, Verb::Write | Verb::Sync) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        None
    });
    let again = [
        log.first().wait(log.first().reserved(), Durability::Durable),
        log.first().sync().map(drop),
        log.first().trim(durable),
    ];
    for outcome in again {
        assert!(
            matches!(&outcome, Err(Error::Poisoned { cause }) if first(cause) == causes[0]),
            "{outcome:?}"
        );
    }
    let refused = append(&mut session, 0, &mut counts[0]);
    assert!(matches!(&refused, Err(AppendError::Poisoned { cause }) if first(cause) == causes[0]));
    assert_eq!((log.first().durable(), reached.load(Ordering::SeqCst)), (durable, 0));
    // Durable records can be read.
    check(&log, &counts, "reading goes on");
    assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
    drop((session, log));
    for (when, device) in device.later() {
        let log = Log::open_in(device.directory(), options(sync, place)).expect(&when);
        check(&log, &counts, &when);
        // The log of the next opening works like any other.
        let mut session = log.session().expect("session");
        let end =
            session.append(&katydid_wal::Append::new(katydid_wal::Kind::USER, &[])).expect("append").end;
        log.first().wait(end, Durability::Durable).expect("wait");
    }
}

#[test]
fn after_a_failed_call_all_hear_the_first_cause_and_nothing_acknowledged_is_lost() {
    for (name, on_write, on_sync) in FAULTS {
        println!("{name}");
        on_every_protocol_and_device(|sync, place| {
            let direct = place.method == Method::Direct;
            fails(sync, place, *on_write, if direct { None } else { *on_sync });
        });
    }
}
