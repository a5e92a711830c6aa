//! Rules about callbacks and futures.

use super::records::{payload, record};
use super::setup::{MakeLog, memory, roomy};
use crate::{Dependencies, Durability};
use katydid_device::SimDevice;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

pub(super) fn callbacks_run_in_order_where_they_are_polled(make: MakeLog<'_>) {
    let log = make(memory(), roomy());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let log = &log;
            scope.spawn(move || {
                let here = std::thread::current().id();
                let mut session = log.session().expect("session");
                let ran = Arc::new(AtomicU64::new(0));
                for number in 0..2000u64 {
                    let end = session.append(&record(0, &[&payload(0, number, 20)])).expect("append").end;
                    let level = if number % 5 == 0 { Durability::Written } else { Durability::Durable };
                    let (ran, log) = (ran.clone(), log.clone());
                    session.on_complete(end, level, move |outcome| {
                        outcome.expect("success");
                        assert_eq!(std::thread::current().id(), here, "on another thread");
                        assert_eq!(ran.fetch_add(1, Ordering::Relaxed), number, "out of order");
                        assert!(level == Durability::Written || log.first().durable() >= end, "too early");
                    });
                    session.wait_below(64);
                    assert!(session.pending() < 64);
                }
                session.drain();
                assert_eq!(session.pending(), 0);
                assert_eq!(ran.load(Ordering::Relaxed), 2000);
            });
        }
    });
}

pub(super) fn plain_values_come_back_as_callbacks_do(make: MakeLog<'_>) {
    let log = make(memory(), roomy());
    let mut session = log.session().expect("session");
    let mut completions = log.completions();
    let mut completed = Vec::new();
    for number in 0..500u64 {
        let end = session.append(&record(0, &[&payload(0, number, 20)])).expect("append").end;
        completions.push(log.first().at(end), &Dependencies::default(), Durability::Durable, number);
        completions.poll_with(|number, outcome| {
            outcome.expect("success");
            completed.push(number);
        });
    }
    completions.drain_with(|number, _| completed.push(number));
    assert!(completed.into_iter().eq(0..500));
}

pub(super) fn a_dropped_queue_calls_no_callback(make: MakeLog<'_>) {
    let device = SimDevice::new(1);
    let log = make(device.directory(), roomy());
    let mut session = log.session().expect("session");
    device.stall_writes(true);
    let end = session.append(&record(0, &[b"x"])).expect("append").end;
    session.on_complete(end, Durability::Durable, |_| panic!("nobody polls any more"));
    assert_eq!(session.poll(), 0);
    drop(session);
    device.stall_writes(false);
    log.first().wait(end, Durability::Durable).expect("it becomes durable all the same");
}

/// A waker that wakes the thread which made it, and counts its calls.
pub(super) struct Alarm(Thread, pub(super) AtomicU64);

impl Alarm {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Alarm(std::thread::current(), AtomicU64::new(0)))
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Alarm::new());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => std::thread::park(),
        }
    }
}

pub(super) fn futures_resolve(make: MakeLog<'_>) {
    let log = make(memory(), roomy());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                for number in 0..200 {
                    let end =
                        session.append(&record(thread, &[&payload(thread, number, 20)])).expect("append").end;
                    let level = if number % 2 == 0 { Durability::Durable } else { Durability::Written };
                    let mut future = log.first().wait_async(end, level);
                    if number % 7 == 0 {
                        // The future is polled once, then dropped.
                        let waker = Waker::from(Alarm::new());
                        let _outcome = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
                        drop(future);
                    } else if number % 5 != 0 {
                        block_on(future).expect("success");
                        assert!(
                            if level == Durability::Durable {
                                log.first().durable()
                            } else {
                                log.first().written()
                            } >= end
                        );
                    }
                }
            });
        }
    });
}

/// The waker of a dropped future is not called. Another future that waits for the same end is woken
/// as usual.
pub(super) fn a_dropped_future_is_not_woken(make: MakeLog<'_>) {
    let device = SimDevice::new(2);
    let log = make(device.directory(), roomy());
    let mut session = log.session().expect("session");
    device.stall_writes(true);
    let end = session.append(&record(9, &[&payload(9, 0, 20)])).expect("append").end;
    let (dropped, kept) = (Alarm::new(), Alarm::new());
    let mut first = log.first().wait_async(end, Durability::Durable);
    let mut second = log.first().wait_async(end, Durability::Durable);
    let (one, two) = (Waker::from(dropped.clone()), Waker::from(kept.clone()));
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&one)).is_pending());
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&two)).is_pending());
    drop(first);
    device.stall_writes(false);
    block_on(second).expect("success");
    assert_eq!(dropped.1.load(Ordering::SeqCst), 0, "a dropped future was woken");
    assert!(log.first().durable() >= end);
}

pub(super) fn a_request_needs_no_waiter(make: MakeLog<'_>) {
    let log = make(memory(), roomy());
    let mut session = log.session().expect("session");
    for number in 0..200 {
        let end = session.append(&record(0, &[&payload(0, number, 20)])).expect("append").end;
        log.first().request(end, Durability::Durable);
        while log.first().durable() < end {
            std::thread::yield_now();
        }
    }
}
