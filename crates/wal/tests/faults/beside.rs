//! Failures off the path of a commit: background threads, wakers, callbacks.

use katydid_device::{Fault, SimDevice, Verb};
use katydid_wal::{
    Append, AppendError, Completion, Completions, Durability, Error, FileOptions, Kind, Log, Options, Session,
};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

fn small() -> Options {
    Options {
        medium: FileOptions { segment_bytes: 16 << 10, ring_bytes: 16 << 10, ..FileOptions::default() }
            .into(),
        run_ahead_bytes: 8 << 10,
        reserve_bytes: 4 << 10,
        ..Options::default()
    }
}

#[test]
fn handles_go_where_they_should() {
    fn anywhere<T: Send + Sync>() {}
    fn moved<T: Send>() {}
    anywhere::<Log>();
    anywhere::<Error>();
    moved::<Session>();
    moved::<Completion>();
    moved::<Completions>();
}

#[test]
fn a_segment_that_cannot_be_prepared_for_another_reason_than_room_poisons() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), small()).expect("open");
    device.fail_when(|verb, _, _| (verb == Verb::Prepare).then_some(Fault::Io));
    let mut session = log.session().expect("session");
    let refused = loop {
        if let Err(error) = session.append(&Append::new(Kind::USER, &[&[1; 500]])) {
            break error;
        }
    };
    assert!(matches!(refused, AppendError::Poisoned { .. }), "{refused}");
    assert!(log.poisoned().is_some());
}

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a waker's own bug");
    }
}

#[test]
fn a_panicking_waker_harms_nobody_else() {
    let device = SimDevice::new(2);
    let log = Log::open_in(
        device.directory(),
        small().map_files(|files| FileOptions { segment_bytes: 1 << 20, ..files }),
    )
    .expect("open");
    let mut session = log.session().expect("session");
    device.stall_writes(true);
    let end = session.append(&Append::new(Kind::USER, &[b"x"])).expect("append").end;
    let mut future = log.first().wait_async(end, Durability::Durable);
    let waker = Waker::from(Arc::new(Bomb));
    assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
    device.stall_writes(false);
    log.first().wait(end, Durability::Durable).expect("wait");
    let end = session.append(&Append::new(Kind::USER, &[b"y"])).expect("append").end;
    log.first().wait(end, Durability::Durable).expect("the next one too");
}

#[test]
fn a_panicking_callback_leaves_the_queue_usable() {
    let device = SimDevice::new(3);
    let log = Log::open_in(
        device.directory(),
        small().map_files(|files| FileOptions { segment_bytes: 1 << 20, ..files }),
    )
    .expect("open");
    let mut session = log.session().expect("session");
    for number in 0..3 {
        let end = session.append(&Append::new(Kind::USER, &[b"x"])).expect("append").end;
        session.on_complete(end, Durability::Durable, move |_| assert!(number != 1, "a callback's own bug"));
    }
    log.sync().expect("sync");
    assert!(catch_unwind(AssertUnwindSafe(|| session.drain())).is_err());
    assert_eq!(session.pending(), 1);
    session.drain();
    assert_eq!(session.pending(), 0);
}

#[test]
fn a_future_may_be_the_last_to_let_go_of_the_log() {
    let device = SimDevice::new(4);
    let log = Log::open_in(
        device.directory(),
        small().map_files(|files| FileOptions { segment_bytes: 1 << 20, ..files }),
    )
    .expect("open");
    let mut session = log.session().expect("session");
    let end = session.append(&Append::new(Kind::USER, &[b"x"])).expect("append").end;
    let future = log.first().wait_async(end, Durability::Durable);
    drop((session, log));
    drop(future);
    let log = Log::open_in(device.reopen_after_crash(5).directory(), small()).expect("open");
    assert_eq!(log.first().reader(log.first().start()).expect("reader").count(), 1);
}
