//! The tracker thread of `grasshopper` and `bitmap`: it finds filled records that no thread asks
//! for, sleeps otherwise, and ends with its log.
//!
//! The tests do not depend on how long anything takes: the kernel says whether the thread exists,
//! and whether it sleeps.

use katydid_device::{Fault, MemoryDirectory, SimDevice, Verb};
use katydid_wal::{
    Append, AppendError, Background, FileOptions, InserterKind, InserterSettings, Kind, Log, Options, Session,
};
use std::fs;
use std::sync::Arc;
use std::thread::yield_now;

const DESIGNS: [InserterKind; 2] = [InserterKind::Grasshopper, InserterKind::Bitmap];

fn options(inserter: InserterKind) -> Options {
    let settings = InserterSettings { hop_bytes: 4 << 10, ..InserterSettings::default() };
    Options {
        medium: FileOptions {
            inserter: settings.design(inserter),
            segment_bytes: 1 << 20,
            ..FileOptions::default()
        }
        .into(),
        reserve_bytes: 4 << 10,
        ..Options::default()
    }
}

fn open(options: Options) -> Log {
    Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open")
}

fn append(session: &mut Session, records: u64) {
    for _ in 0..records {
        session.append(&Append::new(Kind::USER, &[&[5; 100]])).expect("append");
    }
}

/// Returns the states of this process's tracker threads.
fn trackers() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux").flatten().map(|task| task.path());
    let named = tasks.filter(|path| {
        // The kernel keeps fifteen characters of a name.
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("katydid-log-tra"))
    });
    let state = |status: String| status.lines().find(|line| line.starts_with("State:")).map(str::to_owned);
    named.filter_map(|path| fs::read_to_string(path.join("status")).ok().and_then(state)).collect()
}

fn wait_asleep(log: &Log) {
    loop {
        let before = log.counters().tracker_wakeups;
        let states = trackers();
        assert!(states.len() <= 1, "one log, one tracker");
        let asleep = states.iter().any(|state| state.contains("\tS"));
        if asleep && log.counters().tracker_wakeups == before {
            return;
        }
        yield_now();
    }
}

/// Waits until there is no tracker. A joined thread stays in the list of tasks for a moment; if a
/// tracker never ends, this call does not return.
fn wait_gone() {
    while !trackers().is_empty() {
        yield_now();
    }
}

fn each_design(check: impl Fn(InserterKind)) {
    let _alone = crate::alone();
    // Waits for the trackers of the test before this one.
    wait_gone();
    for inserter in DESIGNS {
        check(inserter);
        wait_gone();
    }
}

#[test]
fn it_finds_what_nobody_asks_for_while_other_sessions_are_idle() {
    each_design(|inserter| {
        let log = open(options(inserter));
        let opened = log.first().reserved();
        let _idle: Vec<Session> = (0..10).map(|_| log.session().expect("session")).collect();
        let mut session = log.session().expect("session");
        for _ in 0..4 {
            wait_asleep(&log);
            // Appends several times the bytes after which an owner notifies the tracker, but at
            // most the bytes by which appenders may run ahead.
            append(&mut session, 1000);
            let rung_for = log.first().reserved().get() - (64 << 10);
            while log.first().filled().get() < rung_for {
                yield_now();
            }
        }
        assert!(log.counters().tracker_wakeups > 0, "{inserter}: it slept, and was woken");
        assert_eq!(log.first().written(), opened, "{inserter}: nobody wrote");
        log.sync().expect("sync");
        let counters = log.counters();
        let travelled =
            if inserter == InserterKind::Bitmap { 0 } else { log.first().reserved().since(opened) };
        assert_eq!(counters.crawled + counters.hopped, travelled, "{inserter}");
    });
}

#[test]
fn little_does_not_wake_it() {
    each_design(|inserter| {
        let log = open(options(inserter));
        let mut session = log.session().expect("session");
        wait_asleep(&log);
        let before = log.counters().tracker_wakeups;
        append(&mut session, 10);
        log.sync().expect("sync");
        assert_eq!(log.counters().tracker_wakeups, before, "{inserter}");
    });
}

#[test]
fn it_ends_when_its_log_is_closed_or_dropped_asleep_or_not() {
    each_design(|inserter| {
        for round in 0..40 {
            let log = open(options(inserter));
            let mut session = log.session().expect("session");
            append(&mut session, round * 20);
            if round % 2 == 0 {
                wait_asleep(&log);
            }
            if round % 3 == 0 {
                log.close().expect("close");
                // The tracker has ended although a session is left.
                wait_gone();
            }
            drop((session, log));
            wait_gone();
        }
    });
}

#[test]
fn it_ends_when_its_log_fails_asleep_or_not() {
    each_design(|inserter| {
        for round in 0..20 {
            let device = SimDevice::new(round);
            let log = Log::open_in(device.directory(), options(inserter)).expect("open");
            let mut session = log.session().expect("session");
            append(&mut session, 1 + round * 40);
            if round % 2 == 0 {
                wait_asleep(&log);
            }
            device.fail_when(|verb, _, _| (verb == Verb::Write).then_some(Fault::Io));
            log.sync().expect_err("the device fails");
            // The tracker has ended although handles are left.
            wait_gone();
            let refused = session.append(&Append::new(Kind::USER, &[b"late"]));
            assert!(matches!(refused, Err(AppendError::Poisoned { .. })), "{inserter}: {refused:?}");
            log.close().expect_err("it has failed");
            drop((session, log));
            wait_gone();
        }
    });
}

/// No call depends on the tracker: without it a log gives the same results.
#[test]
fn a_log_without_it_does_the_same() {
    each_design(|inserter| {
        let log = open(Options { background: Background::Caller, ..options(inserter) });
        let mut session = log.session().expect("session");
        append(&mut session, 20_000);
        assert!(trackers().is_empty());
        log.sync().expect("sync");
        assert_eq!(log.first().filled(), log.first().reserved(), "{inserter}");
        assert_eq!(log.first().reader(log.first().start()).expect("reader").count(), 20_000, "{inserter}");
        assert_eq!(log.counters().tracker_wakeups, 0);
    });
}
