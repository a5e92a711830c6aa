//! Devices that fail under one stream, and crash under many threads.

use crate::{Commit, depends, open_in, options, replayed};
use fastrand::Rng;
use katydid_device::testing::seed;
use katydid_device::{Cause, Fault, SimDevice, Verb};
use katydid_wal::{
    AppendError, Dependencies, Durability, Error, InserterKind, Log, OpenError, Options, ReplayError,
    StreamLsn, SyncKind,
};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

fn first(error: &katydid_device::Error) -> String {
    match &error.cause {
        Cause::Poisoned(earlier) => first(earlier),
        _ => error.to_string(),
    }
}

fn cause(outcome: Result<(), Error>) -> String {
    match outcome {
        Err(Error::Poisoned { cause }) => first(&cause),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failure_of_one_stream_is_the_first_cause_everywhere() {
    for sync in SyncKind::ALL {
        for method in katydid_device::Method::ALL {
            let device = SimDevice::new(1);
            let options = Options { method, ..options(InserterKind::Marks, sync) };
            let log = open_in(device.directory(), 3, options.clone()).expect("open");
            let mut sessions: Vec<_> =
                (0..3).map(|index| log.streams()[index].session().expect("session")).collect();
            let none = Dependencies::default();
            let kept = sessions[0].commit(1, &none, &[b"kept"]).expect("append");
            log.wait(kept, &none, Durability::Durable).expect("wait");
            device.fail_when(|verb, path, _| {
                let is_write = matches!(verb, Verb::Write | Verb::Sync);
                (is_write && path.starts_with("stream-001/log.0")).then_some(Fault::Io)
            });
            let lost = sessions[1].commit(2, &none, &[b"lost"]).expect("append");
            let set = depends(&[lost]);
            let dependent = sessions[2].commit(3, &set, &[b"dependent"]).expect("append");
            let mut queue = log.completions();
            let future = log.wait_async(dependent, &set, Durability::Durable);
            queue.push(dependent, &set, Durability::Durable, ());
            let expected = cause(log.wait(dependent, &set, Durability::Durable));
            assert!(expected.contains("stream-001") || expected.contains("log.0"), "{expected}");
            queue.drain_with(|(), outcome| assert_eq!(cause(outcome), expected));
            match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => assert_eq!(cause(outcome), expected),
                Poll::Pending => panic!("the log is over"),
            }
            let settled = log.is_settled(dependent, &set, Durability::Durable).expect("it never will be");
            assert_eq!(cause(settled), expected);
            assert_eq!(cause(Err(log.poisoned().expect("poisoned"))), expected);
            // Even a stream whose own files are sound acknowledges nothing any more.
            match sessions[0].commit(4, &none, &[b"late"]) {
                Ok(late) => assert_eq!(cause(log.wait(late, &none, Durability::Durable)), expected),
                Err(AppendError::Poisoned { cause }) => assert_eq!(first(&cause), expected),
                Err(error) => panic!("{error}"),
            }
            assert_eq!(cause(log.close()), expected);
            let device = device.reopen_after_crash(2);
            let log = open_in(device.directory(), 3, options).expect("open");
            let found: Vec<u64> = replayed(&log).0.iter().map(|(timestamp, _)| *timestamp).collect();
            assert!(found.contains(&1) && (!found.contains(&3) || found.contains(&2)), "{found:?}");
        }
    }
}

#[test]
fn what_cannot_be_read_ends_the_replay_and_judges_nothing() {
    let device = SimDevice::new(1);
    let options = options(InserterKind::Marks, SyncKind::Adaptive);
    let log = open_in(device.directory(), 2, options.clone()).expect("open");
    for index in 0..2 {
        let mut session = log.streams()[index].session().expect("session");
        session.commit(1, &Dependencies::default(), &[&[1; 100]]).expect("append");
    }
    log.close().expect("close");
    let log = open_in(device.directory(), 2, options).expect("open");
    device.fail_reads("stream-001/log.0000000000000000", 0..8192);
    let starts = [log.streams()[0].start(), log.streams()[1].start()];
    let error = log.replay(&starts, &|_| Ok::<(), ()>(()), &|_| {}).expect_err("a part cannot be read");
    assert!(matches!(error, ReplayError::Read { stream, .. } if stream.get() == 1), "{error:?}");
    device.heal();
    let error = log.replay(&starts, &|_| Err("no"), &|_| {}).expect_err("the visitor refuses");
    assert!(matches!(error, ReplayError::Visit("no")));
    assert_eq!(replayed(&log).0.len(), 2);
}

/// The last writer of a key, as its readers know it.
#[derive(Debug, Clone, Default)]
struct LastWriter {
    timestamp: u64,
    place: Option<StreamLsn>,
    depends: Dependencies,
}

/// Threads read and overwrite a few keys. A thread holds a key's latch until its record has a
/// position, as with early lock release. A record names what its transaction has read, so that the
/// replayed records can be judged by themselves.
#[test]
fn threads_whose_machine_crashes_leave_nothing_without_what_it_read() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let (mut dropped, mut kept) = (0, 0);
    for round in 0..60 {
        let streams = random.u16(1..4);
        let inserter = [InserterKind::Chunked, InserterKind::Marks, InserterKind::Delegated][round % 3];
        let options = options(inserter, SyncKind::ALL[round % SyncKind::ALL.len()]);
        let device = SimDevice::new(random.u64(..));
        let log = open_in(device.directory(), streams, options.clone()).expect("open");
        device.crash_at(device.steps() + random.u64(1..60));
        let keys: Vec<Mutex<LastWriter>> = (0..3).map(|_| Mutex::default()).collect();
        let acknowledged = Mutex::new(BTreeSet::new());
        let threads = 4;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (log, keys, acknowledged) = (&log, &keys, &acknowledged);
                let mut random = random.fork();
                scope.spawn(move || run(log, keys, acknowledged, thread, threads, &mut random));
            }
        });
        drop(log);
        let device = device.reopen_after_crash(random.u64(..));
        let log = match open_in(device.directory(), streams, options) {
            Ok(log) => log,
            Err(OpenError::Device(error)) => panic!("{error}"),
            Err(error) => panic!("{error}"),
        };
        let (found, most) = replayed(&log);
        let there: BTreeSet<u64> = found.iter().map(|(timestamp, _)| *timestamp).collect();
        for (timestamp, payload) in &found {
            for read in payload.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)) {
                assert!(read == 0 || there.contains(&read), "{timestamp} has read {read}, which is gone");
            }
        }
        let acknowledged = acknowledged.into_inner().expect("no panic");
        assert!(
            acknowledged.is_subset(&there),
            "acknowledged, and gone: {:?}",
            acknowledged.difference(&there)
        );
        kept += there.len();
        let starts: Vec<_> = log.streams().iter().map(katydid_wal::Stream::start).collect();
        let report = log.replay(&starts, &|_| Ok::<(), ()>(()), &|_| {}).expect("replay");
        assert!(report.stamp_max.get() == most && most >= there.last().copied().unwrap_or(0));
        dropped += report.dropped;
    }
    println!("{kept} kept, {dropped} dropped");
    assert!(kept > 0);
}

fn run(
    log: &Log,
    keys: &[Mutex<LastWriter>],
    acknowledged: &Mutex<BTreeSet<u64>>,
    thread: u64,
    threads: u64,
    random: &mut Rng,
) {
    let mut session = log.streams()[thread as usize % log.streams().len()].session().expect("session");
    let mut queue = log.completions();
    let acknowledge = |timestamp: u64, outcome: Result<(), Error>| {
        if outcome.is_ok() {
            acknowledged.lock().expect("no panic").insert(timestamp);
        }
    };
    for number in 0..400 {
        let timestamp = 1 + thread + number * threads;
        let (place, set) = {
            let mut last = keys[random.usize(..keys.len())].lock().expect("no panic");
            let mut set = last.depends.clone();
            set.retain(|place| !log.is_durable(place));
            last.place.into_iter().filter(|place| !log.is_durable(*place)).for_each(|place| set.join(place));
            let payload = [&last.timestamp.to_le_bytes()[..], &timestamp.to_le_bytes()[..0]];
            let Ok(place) = session.commit(timestamp, &set, &payload) else {
                return;
            };
            *last = LastWriter { timestamp, place: Some(place), depends: set.clone() };
            (place, set)
        };
        if random.u8(..4) == 0 {
            let outcome = log.wait(place, &set, Durability::Durable);
            let over = outcome.is_err();
            acknowledge(timestamp, outcome);
            if over {
                return;
            }
        } else {
            queue.push(place, &set, Durability::Durable, timestamp);
            queue.wait_below_with(8, acknowledge);
        }
        queue.poll_with(acknowledge);
    }
    queue.drain_with(acknowledge);
}
