//! Rules of logs in NVRAM: the memory of such a log has a fixed size, and only a trim makes room in
//! it.

use super::records::{Numbers, check_threads, payload, read_all, record};
use super::setup::{MakeLog, Sizes, memory, small};
use crate::{AppendClass, AppendError, Durability, Error, Log, Lsn, ReadError, Session};
use katydid_device::{Fault, SimDevice, Verb};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Returns sizes with the smallest rings.
fn tiny() -> Sizes {
    let mut sizes = small();
    sizes.medium.memory.bytes = 32 << 10;
    sizes
}

/// Appends until there is no room. Returns the number of appended records.
fn fill(session: &mut Session, class: AppendClass, number: &mut u64) -> u64 {
    let before = *number;
    loop {
        match session.append(&record(0, &[&payload(0, *number, 600)]).class(class)) {
            Ok(_) => *number += 1,
            Err(AppendError::NoSpace) => return *number - before,
            Err(error) => panic!("{error}"),
        }
        assert!(*number < 100_000, "the ring is never full");
    }
}

pub(super) fn a_full_ring_is_typed_and_trimming_clears_it(make: MakeLog<'_>) {
    let directory = memory();
    let log = make(directory.clone(), tiny());
    let mut session = log.session().expect("session");
    let mut number = 0;
    for _ in 0..20 {
        let first = number;
        assert!(fill(&mut session, AppendClass::Normal, &mut number) > 10);
        // A refused record leaves nothing in the log, and no appended record is lost.
        let end = log.first().reserved();
        assert!(matches!(session.append(&record(0, &[&[0; 600]])), Err(AppendError::NoSpace)));
        assert_eq!(log.first().reserved(), end);
        assert!(log.poisoned().is_none(), "no space is no failure");
        fill(&mut session, AppendClass::Critical, &mut number);
        assert!(log.first().fullness().is_some_and(|full| full > 900), "{:?}", log.first().fullness());
        let space = log.space();
        assert!(space.live <= tiny().medium.memory.bytes, "{space:?}");
        assert!(matches!(log.first().raise_reserve(1 << 10), Err(Error::NoSpace)));
        assert!(matches!(log.first().raise_reserve(1 << 30), Err(Error::TooLarge { .. })));
        let records = read_all(&log);
        assert_eq!(records.len() as u64, number - first);
        assert!(records.iter().zip(first..).all(|(found, n)| found.payload == payload(0, n, 600)));
        log.first().trim(log.first().sync().expect("sync")).expect("trim");
        assert!(log.first().fullness().is_some_and(|full| full < 100), "{:?}", log.first().fullness());
    }
}

/// Threads append and wait, in a ring that they fill many times over; an appender that finds the
/// ring full waits for the thread that trims.
pub(super) fn a_ring_that_goes_round_under_load_loses_nothing(make: MakeLog<'_>) {
    const THREADS: u64 = 4;
    const COUNT: u64 = 600;
    let directory = memory();
    let log = make(directory.clone(), tiny());
    let taken = AtomicU64::new(0);
    let (done, kept) = (AtomicBool::new(false), Mutex::new(vec![0_u64; THREADS as usize]));
    // Reads the log and trims what it has read, so that the test sees each record exactly once.
    let drain = |log: &Log| {
        let to = log.first().durable();
        let mut reader = log.first().reader(log.first().start()).expect("reader");
        let mut kept = kept.lock().expect("no panics");
        let mut reached = log.first().start();
        while reached < to {
            let Some(found) = reader.next_record().expect("record") else { break };
            let (thread, number) = (found.txn, &mut kept[found.txn as usize]);
            assert_eq!(found.payload, payload(thread, *number, found.payload.len() - 16), "thread {thread}");
            *number += 1;
            reached = found.end;
        }
        // `reached` is the end of a record, or the start of the log, so the trim drops whole
        // records only.
        log.first().trim(reached.max(log.first().start())).expect("trim");
    };
    std::thread::scope(|scope| {
        let appenders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (log, taken) = (&log, &taken);
                scope.spawn(move || {
                    let mut session = log.session().expect("session");
                    let mut numbers = Numbers(thread + 1);
                    for number in 0..COUNT {
                        // No record is in fragments: a record would be lost if the log were trimmed
                        // between two of its fragments.
                        let bytes = payload(thread, number, numbers.next(400) as usize);
                        let end = loop {
                            match session.append(&record(thread, &[&bytes])) {
                                Ok(appended) => {
                                    taken.fetch_add(appended.bytes, Ordering::Relaxed);
                                    break appended.end;
                                }
                                Err(AppendError::NoSpace) => std::thread::yield_now(),
                                Err(error) => panic!("{error}"),
                            }
                        };
                        if number % 5 == 0 {
                            log.first().wait(end, Durability::Durable).expect("wait");
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                drain(&log);
                std::thread::yield_now();
            }
        });
        appenders.into_iter().for_each(|thread| thread.join().expect("appender"));
        done.store(true, Ordering::Release);
    });
    assert!(taken.into_inner() > 10 * (32 << 10), "it went round often");
    log.sync().expect("sync");
    drain(&log);
    assert_eq!(*kept.lock().expect("no panics"), [COUNT; THREADS as usize]);
    let (start, end) = (log.first().start(), log.first().reserved());
    log.close().expect("close");
    drop(log);
    let log = make(directory, tiny());
    assert!(log.first().start() == start && log.first().recovery().end >= end);
    assert!(read_all(&log).is_empty());
}

pub(super) fn a_record_that_no_ring_holds_is_refused(make: MakeLog<'_>) {
    let log = make(memory(), tiny());
    let mut session = log.session().expect("session");
    let end = log.first().reserved();
    // Only critical records may use the reserve, so normal records have a lower limit.
    let limits = [AppendClass::Normal, AppendClass::Critical].map(|class| {
        match session.append(&record(0, &[&[0; 32 << 10]]).class(class)) {
            Err(AppendError::TooLarge { limit, .. }) => limit,
            refused => panic!("{refused:?}"),
        }
    });
    assert!(limits[0] < limits[1], "{limits:?}");
    assert_eq!(Some(limits[1]), log.first().capacity(), "a ring is fixed");
    assert_eq!(log.first().reserved(), end);
    session.append(&record(0, &[&[0; 8 << 10]])).expect("as fragments");
    assert_eq!(read_all(&log).len(), 1);
    // If a record is not too large, an empty log has room for it.
    for bytes in (1 << 10..32 << 10).step_by(509) {
        log.first().trim(log.first().sync().expect("sync")).expect("trim");
        match session.append(&record(0, &[&vec![0; bytes]])) {
            Ok(_) => {}
            Err(AppendError::TooLarge { bytes, limit }) => assert!(bytes > limit && limit == limits[0]),
            Err(error) => panic!("{bytes} bytes: {error}"),
        }
    }
}

pub(super) fn many_threads_on_few_processors_all_end(make: MakeLog<'_>) {
    const THREADS: u64 = 64;
    let log = make(memory(), small());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                for number in 0..30 {
                    let end =
                        session.append(&record(thread, &[&payload(thread, number, 60)])).expect("append").end;
                    log.first().wait(end, Durability::Durable).expect("wait");
                }
            });
        }
    });
    assert_eq!(check_threads(&read_all(&log), THREADS as usize, &[]), [30; THREADS as usize]);
}

/// A reader that a trim has overtaken returns an error, and never shows bytes of a later lap.
pub(super) fn readers_and_trimming_do_not_meet(make: MakeLog<'_>) {
    let log = make(memory(), tiny());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let mut next = None;
                    let Ok(mut reader) = log.first().reader(log.first().start()) else { continue };
                    loop {
                        match reader.next_record() {
                            Ok(Some(found)) => {
                                let word = found.payload[8..16].try_into().map(u64::from_le_bytes);
                                let number = word.expect("eight bytes");
                                assert!(next.is_none_or(|next| next == number), "{next:?} and {number}");
                                let bytes = found.payload.len() - 16;
                                assert!(found.payload == payload(0, number, bytes), "damaged");
                                next = Some(number + 1);
                            }
                            Ok(None) | Err(ReadError::Trimmed { .. }) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        let mut session = log.session().expect("session");
        let mut starts = std::collections::VecDeque::new();
        for number in 0..3000 {
            let bytes = payload(0, number, (number % 700) as usize);
            let first = loop {
                match session.append(&record(0, &[&bytes])) {
                    Ok(appended) => break appended.first,
                    Err(AppendError::NoSpace) => {
                        let half: Option<Lsn> = starts.drain(..starts.len() / 2).next_back();
                        log.first().trim(half.expect("a full ring holds records")).expect("trim");
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            starts.push_back(first);
        }
        done.store(true, Ordering::Release);
    });
}

pub(super) fn a_log_that_cannot_be_trimmed_has_failed(make: MakeLog<'_>) {
    let device = SimDevice::new(5);
    let log = make(device.directory(), tiny());
    let mut session = log.session().expect("session");
    let kept = session.append(&record(0, &[&payload(0, 0, 20)])).expect("append").end;
    log.first().wait(kept, Durability::Durable).expect("wait");
    device.fail_when(|verb, path, _| (verb == Verb::Write && path == "log.control").then_some(Fault::Io));
    assert!(log.first().trim(kept).is_err());
    assert!(matches!(log.poisoned(), Some(Error::Poisoned { .. })));
    assert!(matches!(session.append(&record(0, &[b"late"])), Err(AppendError::Poisoned { .. })));
    assert_eq!(check_threads(&read_all(&log), 1, &[]), [1], "reading goes on");
    drop((session, log));
    device.heal();
    assert_eq!(
        check_threads(&read_all(&make(device.directory(), tiny())), 1, &[]),
        [1],
        "nothing was trimmed"
    );
}

pub(super) fn a_full_log_can_be_opened(make: MakeLog<'_>) {
    let directory = memory();
    let mut number = 0;
    for opening in 0..5 {
        let log = make(directory.clone(), tiny());
        let mut session = log.session().expect("session");
        fill(&mut session, AppendClass::Normal, &mut number);
        fill(&mut session, AppendClass::Critical, &mut number);
        assert_eq!(check_threads(&read_all(&log), 1, &[]), [number], "opening {opening}");
        log.abandon();
    }
    let log = make(directory, tiny());
    log.first().trim(log.first().durable()).expect("trim");
    assert!(log.session().expect("session").append(&record(0, &[b"room"])).is_ok());
}
