//! Appending, waiting, acknowledging and replaying, without failures.

use crate::{Commit, depends, open_in, options, replayed};
use katydid_device::SimDevice;
use katydid_wal::{Dependencies, Durability, InserterKind, StreamLsn, SyncKind};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

#[test]
fn what_was_appended_to_several_streams_is_replayed_once_each() {
    for streams in [1, 2, 4] {
        let device = SimDevice::new(1);
        let options = options(InserterKind::Marks, SyncKind::Adaptive);
        let log = open_in(device.directory(), streams, options.clone()).expect("open");
        let mut expected = Vec::new();
        let mut before = Dependencies::default();
        for number in 0..200u64 {
            let mut session =
                log.streams()[number as usize % usize::from(streams)].session().expect("session");
            let payload = vec![number as u8; (number * 13) as usize % 5000];
            let (left, right) = payload.split_at(payload.len() / 2);
            let place = session.commit(1000 - number, &before, &[left, right]).expect("append");
            before.join(place);
            expected.push((1000 - number, payload));
        }
        expected.sort();
        let first = log.epoch();
        log.close().expect("close");
        for again in 1..3 {
            let log = open_in(device.directory(), streams, options.clone()).expect("open");
            assert_eq!(replayed(&log), (expected.clone(), 1000));
            assert!(log.epoch() >= first + again);
            log.close().expect("close");
        }
    }
}

#[test]
fn no_commit_is_acknowledged_before_the_streams_it_depends_on() {
    for sync in SyncKind::ALL {
        let device = SimDevice::new(2);
        let options = katydid_wal::Options {
            background: katydid_wal::Background::Caller,
            ..options(InserterKind::Marks, sync)
        };
        let log = open_in(device.directory(), 3, options).expect("open");
        let mut sessions: Vec<_> =
            (0..3).map(|index| log.streams()[index].session().expect("session")).collect();
        let mut append = |index: usize, set: &Dependencies| -> StreamLsn {
            sessions[index].commit(1, set, &[b"payload"]).expect("append")
        };
        let first = append(0, &Dependencies::default());
        let second = append(1, &depends(&[first]));
        let set = depends(&[first, second]);
        let third = append(2, &set);
        assert_eq!(log.everything(), depends(&[first, second, third]));

        log.streams()[2].wait(third.end, Durability::Durable).expect("wait");
        let mut future = pin!(log.wait_async(third, &set, Durability::Durable));
        let mut queue = log.completions();
        queue.push(third, &set, Durability::Durable, "third");
        queue.push(third, &Dependencies::default(), Durability::Durable, "in order");
        let mut context = Context::from_waker(Waker::noop());
        assert!(log.is_durable(third) && log.is_settled(third, &set, Durability::Durable).is_none());
        assert_eq!(queue.poll_with(|_, _| panic!("acknowledged early")), 0);
        assert!(future.as_mut().poll(&mut context).is_pending());

        log.wait(third, &set, Durability::Durable).expect("wait");
        assert!([first, second, third].iter().all(|place| log.is_durable(*place)));
        assert!(log.everything().is_empty());
        assert!(matches!(log.is_settled(third, &set, Durability::Durable), Some(Ok(()))));
        assert!(future.as_mut().poll(&mut context).is_ready());
        let mut completed = Vec::new();
        queue.drain_with(|name, outcome| completed.push((name, outcome.is_ok())));
        assert_eq!(completed, [("third", true), ("in order", true)]);
    }
}

#[test]
fn draining_waits_for_every_level_and_stream_by_itself() {
    let device = SimDevice::new(3);
    let options = katydid_wal::Options {
        background: katydid_wal::Background::Caller,
        ..options(InserterKind::Chunked, SyncKind::Pipelined)
    };
    let log = open_in(device.directory(), 2, options).expect("open");
    let mut sessions = [0, 1].map(|index| log.streams()[index].session().expect("session"));
    let mut queue = log.completions();
    let mut before = Dependencies::default();
    for (number, level) in
        [Durability::Durable, Durability::Written, Durability::Buffered].into_iter().enumerate()
    {
        for session in &mut sessions {
            let place = session.commit(7, &before, &[b"payload"]).expect("append");
            queue.push(place, &before, level, number);
            before.join(place);
        }
    }
    let mut completed = Vec::new();
    queue.wait_below_with(3, |number, outcome| completed.push((number, outcome.is_ok())));
    assert!(completed.len() >= 4 && queue.pending() < 3);
    queue.drain_with(|number, outcome| completed.push((number, outcome.is_ok())));
    assert_eq!(completed, [0, 0, 1, 1, 2, 2].map(|number| (number, true)));
    let beyond = StreamLsn { end: katydid_wal::Lsn::new(1 << 40), ..before.iter().next().expect("a place") };
    queue.push(beyond, &Dependencies::default(), Durability::Durable, 9);
    queue.drain_with(|_, outcome| assert!(outcome.is_err(), "it was never appended"));
}
