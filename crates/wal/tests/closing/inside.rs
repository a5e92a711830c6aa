//! Code that the device runs closes the log, or drops its last handle. The thread must not wait for
//! the device call that it is inside of.

use crate::asleep::alone;
use crate::held::Opening;
use crate::{append, make_durable, number, options};
use katydid_device::{Directory, MemoryDirectory};
use katydid_wal::{Background, Durability, Error, Log, LogKind, Options};
use std::sync::Arc;
use std::sync::mpsc::channel;

fn open(opening: &Opening) -> Log {
    Log::open_in(Arc::new(opening.clone()), options(LogKind::Disk, Background::Threads))
        .expect("it can be opened")
}

fn found(memory: &MemoryDirectory) -> Vec<u32> {
    let log = open(&Opening::of(memory));
    log.first()
        .reader(log.first().start())
        .expect("a reader")
        .map(|record| number(&record.expect("sound")))
        .collect()
}

#[test]
fn closing_from_inside_a_device_call_is_refused_and_closes_nothing() {
    let _alone = alone();
    let memory = MemoryDirectory::new();
    let opening = Opening::of(&memory);
    let log = open(&opening);
    let (closed, outcomes) = channel();
    let inner = log.clone();
    opening.hook(move || closed.send(inner.close()).expect("the test waits"));
    make_durable(&log, 0..3).expect("nothing fails");
    let refused = outcomes.recv().expect("it was run").expect_err("it would wait for itself");
    assert!(matches!(&refused, Error::Device(error) if error.to_string().contains("inside")), "{refused}");
    make_durable(&log, 3..5).expect("it is open");
    log.close().expect("nothing fails");
    assert_eq!(found(&memory), [0, 1, 2, 3, 4]);
}

#[test]
fn closing_a_log_of_two_streams_from_inside_a_device_call_is_refused() {
    let _alone = alone();
    let opening = Opening::of(&MemoryDirectory::new());
    let options = Options { streams: 2, ..options(LogKind::Disk, Background::Threads) };
    let log = Log::open_in(Arc::new(opening.clone()), options).expect("it can be opened");
    let (closed, outcomes) = channel();
    let inner = log.clone();
    opening.hook(move || closed.send(inner.close()).expect("the test waits"));
    make_durable(&log, 0..3).expect("nothing fails");
    outcomes.recv().expect("it was run").expect_err("it would wait for itself");
    log.close().expect("nothing fails");
    assert!(opening.is_ended() && opening.faults().is_empty(), "{:?}", opening.faults());
}

#[test]
fn the_last_handle_dropped_inside_a_device_call_gives_the_directory_back_when_the_call_has_ended() {
    let _alone = alone();
    let memory = MemoryDirectory::new();
    let opening = Opening::of(&memory);
    let log = open(&opening);
    make_durable(&log, 0..3).expect("nothing fails");
    let end = append(&log, 3..5).expect("it is open");
    let (dropped, is_dropped) = channel();
    let last = log.clone();
    opening.hook(move || {
        drop(last);
        dropped.send(()).expect("the test waits");
    });
    // A thread of the log writes, and has no handle.
    log.first().request(end, Durability::Durable);
    drop(log);
    is_dropped.recv().expect("it did not wait for itself");
    // The device call is still under way. The directory is free when the call has ended.
    while memory.lock().is_err() {
        std::thread::yield_now();
    }
    assert!(opening.faults().is_empty(), "{:?}", opening.faults());
    let found = found(&memory);
    assert!(found.starts_with(&[0, 1, 2]) && found.len() <= 5, "{found:?}");
}
