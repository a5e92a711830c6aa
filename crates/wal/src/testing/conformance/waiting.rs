//! Rules about blocking: how long a call blocks, and which threads one write releases.

use super::records::{check_threads, payload, read_all, record};
use super::setup::{MakeLog, memory, roomy, small};
use crate::{AppendError, Durability, Error, Finding, LogKind};
use katydid_device::{Directory, Method, SimDevice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn each_level_is_reached_before_it_is_acknowledged(make: MakeLog<'_>) {
    for method in [Method::Direct, Method::Buffered] {
        let mut sizes = roomy();
        sizes.common.method = method;
        let log = make(SimDevice::new(1).directory(), sizes);
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let log = &log;
                scope.spawn(move || {
                    let mut session = log.session().expect("session");
                    for number in 0..60 {
                        let bytes = payload(thread, number, 50);
                        let end = session.append(&record(thread, &[&bytes])).expect("append").end;
                        match (thread + number) % 3 {
                            0 => log.first().wait(end, Durability::Buffered).expect("wait"),
                            1 => {
                                log.first().wait(end, Durability::Written).expect("wait");
                                assert!(log.first().written() >= end);
                            }
                            _ => {
                                log.first().wait(end, Durability::Durable).expect("wait");
                                assert!(log.first().durable() >= end && log.first().written() >= end);
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(check_threads(&read_all(&log), 6, &[]), [60; 6]);
    }
}

pub(super) fn a_sync_covers_everything_before_it(make: MakeLog<'_>) {
    let device = SimDevice::new(2);
    let log = make(device.directory(), roomy());
    let mut session = log.session().expect("session");
    for number in 0..50 {
        let appended = session.append(&record(0, &[&payload(0, number, 30)])).expect("append");
        // Half of the records are already written, and not synced, when `sync` is called. `sync`
        // must cover both halves.
        if number == 25 {
            log.first().wait(appended.end, Durability::Written).expect("wait");
        }
    }
    let end = log.first().sync().expect("sync");
    assert!(log.first().durable() >= end && end == log.first().reserved());
    let log = make(device.reopen_after_crash(3).directory(), roomy());
    assert_eq!(check_threads(&read_all(&log), 1, &[50]), [50]);
}

pub(super) fn a_position_beyond_the_end_is_refused(make: MakeLog<'_>) {
    let log = make(memory(), roomy());
    let beyond = log.first().reserved().checked_add(1).expect("small");
    assert!(matches!(log.first().wait(beyond, Durability::Durable), Err(Error::BeyondEnd { .. })));
    assert!(matches!(log.first().wait(crate::Lsn::LIMIT, Durability::Written), Err(Error::BeyondEnd { .. })));
    let mut session = log.session().expect("session");
    session.on_complete(beyond, Durability::Durable, |outcome| {
        assert!(matches!(outcome, Err(Error::BeyondEnd { .. })));
    });
    session.drain();
}

pub(super) fn a_stalled_device_holds_appenders_back_and_lets_them_go(make: MakeLog<'_>) {
    let device = SimDevice::new(4);
    let sizes = small();
    let ring = sizes.medium.files.ring_bytes as u64;
    let log = make(device.directory(), sizes);
    device.stall_writes(true);
    let appended = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (log, appended) = (&log, &appended);
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                for number in 0..100 {
                    session.append(&record(thread, &[&payload(thread, number, 400)])).expect("append");
                    appended.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // A thread has found the ring full, and leads a write that stands still.
        device.wait_stalled(1);
        let most = log.first().written().get() + ring;
        for _ in 0..200 {
            assert!(log.first().reserved().get() <= most, "the ring took more than it holds");
            std::thread::yield_now();
        }
        assert!(appended.load(Ordering::SeqCst) < 300, "nobody was held back");
        device.stall_writes(false);
    });
    assert_eq!(check_threads(&read_all(&log), 3, &[]), [100; 3]);
    assert!(log.counters().stalls > 0);
}

pub(super) fn one_write_serves_all_who_wait(make: MakeLog<'_>) {
    let device = SimDevice::new(5);
    let log = make(device.directory(), roomy());
    log.sync().expect("sync");
    device.stall_writes(true);
    let ends: Vec<_> = {
        let mut session = log.session().expect("session");
        (0..16).map(|n| session.append(&record(0, &[&payload(0, n, 20)])).expect("append").end).collect()
    };
    let before = log.counters().syncs;
    std::thread::scope(|scope| {
        for end in ends {
            let log = &log;
            scope.spawn(move || log.first().wait(end, Durability::Durable).expect("wait"));
        }
        device.wait_stalled(1);
        device.stall_writes(false);
    });
    // All records were filled before the first thread wrote.
    assert!(log.counters().syncs - before <= 2, "{} syncs for one group", log.counters().syncs - before);
}

pub(super) fn closing_keeps_everything_and_refuses_more(make: MakeLog<'_>) {
    let device = SimDevice::new(6);
    let log = make(device.directory(), roomy());
    let mut session = log.session().expect("session");
    for number in 0..20 {
        session.append(&record(0, &[&payload(0, number, 20)])).expect("append");
    }
    log.close().expect("close");
    log.close().expect("closing twice is no error");
    assert!(matches!(session.append(&record(0, &[b"late"])), Err(AppendError::Closed)));
    assert_eq!(log.first().durable(), log.first().reserved());
    log.first().wait(log.first().reserved(), Durability::Durable).expect("everything is durable");
    assert_eq!(check_threads(&read_all(&log), 1, &[20]), [20]);
    // `close` has given the directory back, although a handle and a session of the closed log still
    // exist.
    let log = make(device.reopen_after_crash(7).directory(), roomy());
    assert_eq!(log.first().recovery().finding, Finding::CleanEnd { closed: true });
    assert_eq!(check_threads(&read_all(&log), 1, &[20]), [20]);
}

pub(super) fn closing_under_load_keeps_what_was_acknowledged(make: MakeLog<'_>, kind: LogKind) {
    for round in 0..5u64 {
        let device = SimDevice::new(round);
        let log = make(device.directory(), small());
        let mut acknowledged = [0u64; 4];
        let under_way = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (thread, acknowledged) in acknowledged.iter_mut().enumerate() {
                let (log, under_way) = (&log, &under_way);
                scope.spawn(move || {
                    let mut session = log.session().expect("session");
                    for number in 0.. {
                        let bytes = payload(thread as u64, number, 300);
                        let appended = match session.append(&record(thread as u64, &[&bytes])) {
                            Ok(appended) => appended,
                            Err(AppendError::Closed) => return,
                            // No thread trims the log, so the appends may fill the NVRAM before the
                            // log is closed.
                            Err(AppendError::NoSpace) if kind.in_nvram() => return,
                            Err(error) => panic!("{error}"),
                        };
                        match log.first().wait(appended.end, Durability::Durable) {
                            Ok(()) => *acknowledged = number + 1,
                            // The record was appended while the log was being closed, and closing
                            // did not wait for it.
                            Err(Error::Closed) => return,
                            Err(error) => panic!("{error}"),
                        }
                        under_way.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            while under_way.load(Ordering::SeqCst) < 20 * (round + 1) {
                std::thread::yield_now();
            }
            log.close().expect("close");
            if !kind.in_nvram() {
                // The directory belongs to another opening from now on: calls of the old handle
                // must not reach it.
                let next = make(device.directory(), small());
                check_threads(&read_all(&next), 4, &[]);
                next.close().expect("close");
            }
        });
        drop(log);
        let log = make(device.reopen_after_crash(round).directory(), small());
        check_threads(&read_all(&log), 4, &acknowledged);
    }
}

pub(super) fn dropping_keeps_everything(make: MakeLog<'_>) {
    let device = SimDevice::new(8);
    let log = make(device.directory(), roomy());
    let mut session = log.session().expect("session");
    for number in 0..20 {
        session.append(&record(0, &[&payload(0, number, 20)])).expect("append");
    }
    drop(log);
    session.append(&record(0, &[&payload(0, 20, 20)])).expect("a session keeps the log open");
    drop(session);
    let log = make(device.reopen_after_crash(9).directory(), roomy());
    assert_eq!(check_threads(&read_all(&log), 1, &[21]), [21]);
}

pub(super) fn a_crash_keeps_what_was_durable(make: MakeLog<'_>) {
    for seed in 0..8 {
        let mut device = SimDevice::new(seed);
        let mut acknowledged = [0u64; 4];
        // Several lives, each ended by a crash in the middle of the work.
        for life in 0..3 {
            let log = make(device.directory(), small());
            let found = check_threads(&read_all(&log), 4, &acknowledged);
            let steps = 5 + (seed * 7 + life * 3) % 23;
            device.crash_at(device.steps() + steps);
            if let Some(memory) = device.nvram("log.nvram") {
                memory.crash_at(memory.steps() + 11 * steps);
            }
            std::thread::scope(|scope| {
                for (thread, acknowledged) in acknowledged.iter_mut().enumerate() {
                    let (log, first) = (&log, found[thread]);
                    scope.spawn(move || {
                        let mut session = log.session().expect("session");
                        for number in first..first + 200 {
                            let bytes = payload(thread as u64, number, (number * 13 % 700) as usize);
                            let Ok(appended) = session.append(&record(thread as u64, &[&bytes])) else {
                                return;
                            };
                            if number % 3 == 0 {
                                if log.first().wait(appended.end, Durability::Durable).is_err() {
                                    return;
                                }
                                *acknowledged = number + 1;
                            }
                        }
                    });
                }
            });
            log.abandon();
            device = device.reopen_after_crash(seed * 31 + life);
        }
        let directory: Arc<dyn Directory> = device.directory();
        check_threads(&read_all(&make(directory, small())), 4, &acknowledged);
    }
}
