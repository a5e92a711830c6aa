//! Wakers that do things the log must be prepared for: they drop the last handle, wait for the log,
//! stand still, or panic.
//!
//! A waker runs a program's code, also when it drops something: a task whose executor is gone drops
//! its future, and with it the last handle of the log. Whatever a waker does, the log's own threads
//! and the committing threads continue.

use crate::places::TestDevice;
use crate::{Acknowledged, append, check, on_every_protocol_and_device, options};
use katydid_device::{Fault, SimDevice, Verb};
use katydid_wal::{Background, Completion, Durability, Error, FileOptions, Log, Lsn, Options, SyncKind};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A time far longer than any step of these tests takes. A step that has not ended by then hangs.
const HANGS: Duration = Duration::from_secs(60);

/// A waker that runs `deed` once, and then sends the name of its thread.
struct WakerAction {
    deed: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    woken: Sender<Option<String>>,
}

impl Wake for WakerAction {
    fn wake(self: Arc<Self>) {
        let deed = self.deed.lock().expect("no panic").take();
        if let Some(deed) = deed {
            deed();
        }
        let _is_over = self.woken.send(std::thread::current().name().map(str::to_owned));
    }
}

fn waker(deed: impl FnOnce() + Send + 'static) -> (Waker, Receiver<Option<String>>) {
    let (woken, threads) = channel();
    let does = Arc::new(WakerAction { deed: Mutex::new(Some(Box::new(deed))), woken });
    (Waker::from(does), threads)
}

fn poll(future: &mut Completion, waker: &Waker) -> Poll<Result<(), Error>> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Returns a pending future of a record whose write stands still. Also returns the channel to which
/// the future's waker sends after `deed`.
fn pending(
    log: &Log,
    end: Lsn,
    deed: impl FnOnce() + Send + 'static,
) -> (Completion, Receiver<Option<String>>) {
    let (waker, threads) = waker(deed);
    let mut future = log.first().wait_async(end, Durability::Durable);
    assert!(poll(&mut future, &waker).is_pending());
    (future, threads)
}

/// The waker of a future drops the log's last handle, while a later record is not written yet.
fn drops_the_last_handle(sync: SyncKind, place: &TestDevice, fault: Option<(Verb, Fault)>) {
    let device = place.make();
    let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
    let mut session = log.session().expect("session");
    let mut counts = [Acknowledged::default()];
    let first = append(&mut session, 0, &mut counts[0]).expect("append");
    log.first().wait(first, Durability::Durable).expect("wait");
    counts[0].acknowledged = 1;
    if let Some((at, fault)) = fault {
        device.fail_once(move |verb, name| (verb == at && name.starts_with("log.0")).then_some(fault));
    }
    device.stall(true);
    let second = append(&mut session, 0, &mut counts[0]).expect("append");
    let last: Arc<Mutex<Option<Completion>>> = Arc::default();
    let (future, woken) = {
        let last = last.clone();
        pending(&log, second, move || drop(last.lock().expect("no panic").take()))
    };
    *last.lock().expect("no panic") = Some(future);
    device.wait_stalled();
    append(&mut session, 0, &mut counts[0]).expect("append");
    drop((session, log));
    device.stall(false);
    woken.recv_timeout(HANGS).expect("the waker returns: the log was closed by it");
    assert!(last.lock().expect("no panic").is_none());
    if fault.is_none() {
        counts[0].acknowledged = 3;
    }
    let log = Log::open_in(device.directory(), options(sync, place)).expect("the directory was given back");
    check(&log, &counts, "after the last handle was dropped by a waker");
}

#[test]
fn a_waker_that_drops_the_last_handle_closes_the_log() {
    on_every_protocol_and_device(|sync, place| drops_the_last_handle(sync, place, None));
}

#[test]
fn a_waker_that_drops_the_last_handle_after_a_failed_write_closes_the_log() {
    on_every_protocol_and_device(|sync, place| {
        drops_the_last_handle(sync, place, Some((Verb::Write, Fault::Io)));
    });
}

#[test]
fn a_waker_that_drops_the_last_handle_after_a_failed_sync_closes_the_log() {
    on_every_protocol_and_device(|sync, place| {
        // If writes are durable by themselves, there is no sync that could fail, and the last
        // handle closes the log as always.
        let verb = if place.method.durable_writes() { Verb::Write } else { Verb::Sync };
        drops_the_last_handle(sync, place, Some((verb, Fault::SyncIo)));
    });
}

/// Commits, closes the log, and opens it again, while a waker stands still.
#[test]
fn a_waker_that_stands_still_holds_up_no_commit_and_no_close() {
    on_every_protocol_and_device(|sync, place| {
        let device = place.make();
        let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
        let mut session = log.session().expect("session");
        let mut counts = [Acknowledged::default()];
        device.stall(true);
        let end = append(&mut session, 0, &mut counts[0]).expect("append");
        let ((entered, has_entered), (go, may_go)) = (channel(), channel::<()>());
        let (_future, woken) = pending(&log, end, move || {
            entered.send(()).expect("the test goes on");
            // The waker blocks until the test drops the other end.
            let _over = may_go.recv();
        });
        device.stall(false);
        has_entered.recv_timeout(HANGS).expect("the waker is called");
        for _ in 0..20 {
            let end = append(&mut session, 0, &mut counts[0]).expect("append");
            log.first().wait(end, Durability::Durable).expect("a commit that blocks");
            let end = append(&mut session, 0, &mut counts[0]).expect("append");
            session
                .on_complete(end, Durability::Durable, |outcome| outcome.expect("a commit with a callback"));
            session.drain();
        }
        log.close().expect("closing does not wait for a waker");
        counts[0].acknowledged = counts[0].appended;
        drop(go);
        woken.recv_timeout(HANGS).expect("the waker ends");
        drop((session, log));
        check(&Log::open_in(device.directory(), options(sync, place)).expect("open"), &counts, "afterwards");
    });
}

#[test]
fn a_waker_may_append_and_wait_for_the_log() {
    on_every_protocol_and_device(|sync, place| {
        let device = place.make();
        let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
        let mut session = log.session().expect("session");
        device.stall(true);
        let end = append(&mut session, 0, &mut Acknowledged::default()).expect("append");
        let another = log.clone();
        let (_future, woken) = pending(&log, end, move || {
            let mut session = another.session().expect("session");
            let end = append(&mut session, 1, &mut Acknowledged::default()).expect("append");
            another.first().wait(end, Durability::Durable).expect("wait");
        });
        device.stall(false);
        woken.recv_timeout(HANGS).expect("it has waited");
    });
}

/// Committing threads and leaders must not run wakers.
#[test]
fn wakers_run_on_a_thread_of_their_own_also_after_a_failure() {
    on_every_protocol_and_device(|sync, place| {
        for fails in [false, true] {
            let device = place.make();
            let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
            let mut session = log.session().expect("session");
            device.stall(true);
            let end = append(&mut session, 0, &mut Acknowledged::default()).expect("append");
            let (mut future, woken) = pending(&log, end, || ());
            if fails {
                device.fail_once(|verb, name| {
                    (verb == Verb::Write && name.starts_with("log.0")).then_some(Fault::Io)
                });
            }
            device.stall(false);
            let thread = woken.recv_timeout(HANGS).expect("woken");
            assert_eq!(thread.as_deref(), Some("katydid-log-wakers"));
            let (again, _) = waker(|| ());
            let Poll::Ready(outcome) = poll(&mut future, &again) else { panic!("woken in vain") };
            assert_eq!(outcome.is_err(), fails, "{outcome:?}");
        }
    });
}

#[test]
fn a_waker_that_panics_loses_no_other() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), Options::default()).expect("open");
    let mut session = log.session().expect("session");
    device.stall_writes(true);
    let mut futures = Vec::new();
    for number in 0..9 {
        let end = append(&mut session, 0, &mut Acknowledged::default()).expect("append");
        futures.push(pending(&log, end, move || assert!(number % 2 == 1, "a waker's own bug")));
    }
    device.stall_writes(false);
    for (number, (_future, woken)) in futures.iter().enumerate() {
        let woken = woken.recv_timeout(HANGS);
        assert_eq!(woken.is_ok(), number % 2 == 1, "waker {number}");
    }
    log.close().expect("close");
}

/// Closing wakes every future, and the closing thread does not run the wakers.
#[test]
fn closing_wakes_every_future() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), Options::default()).expect("open");
    let mut session = log.session().expect("session");
    device.stall_writes(true);
    let end = append(&mut session, 0, &mut Acknowledged::default()).expect("append");
    let (mut future, woken) = pending(&log, end, || ());
    device.stall_writes(false);
    log.close().expect("close");
    woken.recv_timeout(HANGS).expect("woken");
    let (again, _) = waker(|| ());
    assert!(matches!(poll(&mut future, &again), Poll::Ready(Ok(()))));
}

/// A log without threads calls no waker from an ordinary call, because the caller may hold latches.
/// The wakers wait until the program calls `Log::run_background` or closes the log.
#[test]
fn without_threads_wakers_wait_for_the_call_that_stands_for_them() {
    for sync in SyncKind::ALL {
        let options = Options {
            medium: FileOptions { sync: sync.into(), ..FileOptions::default() }.into(),
            background: Background::Caller,
            ..Options::default()
        };
        let log = Log::open_in(SimDevice::new(1).directory(), options).expect("open");
        let mut session = log.session().expect("session");
        let end = append(&mut session, 0, &mut Acknowledged::default()).expect("append");
        let called = Arc::new(AtomicBool::new(false));
        let (_future, _woken) = {
            let called = called.clone();
            pending(&log, end, move || called.store(true, Ordering::SeqCst))
        };
        log.first().wait(end, Durability::Durable).expect("wait");
        assert!(!called.load(Ordering::SeqCst), "{sync}: in the middle of a wait");
        log.run_background();
        assert!(called.load(Ordering::SeqCst), "{sync}");
        let end = append(&mut session, 0, &mut Acknowledged::default()).expect("append");
        let (_future, woken) = pending(&log, end, || ());
        log.close().expect("close");
        woken.try_recv().expect("called by the one who closes");
    }
}

/// The executor of the standard library's example parks its thread, and its waker unparks that
/// thread. This executor has no flag, and relies on the park token alone.
#[test]
fn a_wait_takes_no_token_from_the_executor_of_its_thread() {
    on_every_protocol_and_device(|sync, place| {
        let device = place.make();
        let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
        std::thread::scope(|scope| {
            device.stall(true);
            let (done, is_done) = channel();
            // The first thread leads or makes the syncer lead; the later threads park.
            for number in 0..3 {
                let (log, done) = (&log, done.clone());
                scope.spawn(move || {
                    let mut session = log.session().expect("session");
                    let end = append(&mut session, number, &mut Acknowledged::default()).expect("append");
                    std::thread::current().unpark();
                    log.first().wait(end, Durability::Durable).expect("wait");
                    std::thread::park();
                    done.send(()).expect("the test goes on");
                });
            }
            device.wait_stalled();
            device.stall(false);
            for _ in 0..3 {
                if is_done.recv_timeout(HANGS).is_err() {
                    println!("{sync} on {}: a wait took a token that was not the log's", place.name);
                    // Ends the test program, because the scope would wait for the thread that
                    // hangs.
                    std::process::exit(1);
                }
            }
        });
    });
}
