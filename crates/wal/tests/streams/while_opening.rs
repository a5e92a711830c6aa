//! Replaying while the log is opened: it finds the same records as replaying afterwards, and
//! reports errors. (`crashes` also checks this, after every crash.)

use crate::{Commit, depends, open_in, open_replaying, opened_replaying, options, replayed};
use katydid_device::SimDevice;
use katydid_wal::{
    Background, Batch, Dependencies, Durability, InserterKind, Lsn, OpenError, Options, ReadError, Replay,
    ReplayError, StreamLsn, SyncKind,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

fn small() -> Options {
    options(InserterKind::Marks, SyncKind::Adaptive)
}

fn moved(at: Lsn, by: i64) -> Lsn {
    Lsn::new(at.get().wrapping_add_signed(by))
}

/// Fills two streams. Every third record depends on a position in the other stream, and some
/// records are longer than a physical record. Returns the positions of all records.
fn filled(device: &SimDevice) -> Vec<StreamLsn> {
    let log = open_in(device.directory(), 2, small()).expect("open");
    let mut sessions = [0, 1].map(|index| log.streams()[index].session().expect("session"));
    let mut places: Vec<StreamLsn> = Vec::new();
    for number in 0..300u64 {
        let session = &mut sessions[number as usize % 2];
        let set = match places.last() {
            Some(last) if number % 3 == 0 => depends(&[*last]),
            _ => Dependencies::default(),
        };
        let payload = vec![number as u8; if number % 70 == 69 { 9000 } else { 40 + number as usize % 400 }];
        places.push(session.commit(number + 1, &set, &[&payload]).expect("append"));
        if number % 50 == 49 {
            log.wait(places[number as usize], &set, Durability::Durable).expect("wait");
        }
    }
    log.close().expect("close");
    places
}

#[test]
fn opening_finds_what_a_replay_afterwards_finds_on_one_thread_and_on_many() {
    let device = SimDevice::new(1);
    filled(&device);
    for background in [Background::Caller, Background::Threads] {
        let options = Options { background, ..small() };
        let (log, found) = opened_replaying(&device, 2, &options, None).expect("open");
        let found = found.expect("replay");
        assert_eq!((found.0.len(), found.1), (300, 300));
        assert_eq!(found, replayed(&log));
        log.close().expect("close");
    }
}

#[test]
fn only_what_lies_above_the_cut_is_replayed() {
    let device = SimDevice::new(1);
    let places = filled(&device);
    let last = |stream: u16, below: usize| {
        let mut ends = places[..below].iter().filter(|place| place.stream.get() == stream);
        ends.next_back().expect("some").end
    };
    let from = [last(0, 200), last(1, 200)];
    let (log, found) = opened_replaying(&device, 2, &small(), Some(&from)).expect("open");
    let (found, _) = found.expect("replay");
    assert_eq!(found.iter().map(|(timestamp, _)| *timestamp).collect::<Vec<_>>(), Vec::from_iter(201..=300));
    log.close().expect("close");
    let ends = [last(0, 300), last(1, 300)];
    let wrong = [
        ([moved(ends[0], 1 << 30), ends[1]], 0, "beyond the end"),
        ([from[0], moved(from[1], 8)], 1, "within a record"),
        ([from[0], moved(ends[1], -8)], 1, "within the last record"),
    ];
    for (from, stream, what) in wrong {
        let (_, found) = opened_replaying(&device, 2, &small(), Some(&from)).expect("open");
        match found {
            Err(ReplayError::Read { stream: found, .. }) => assert_eq!(found.get(), stream, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn what_was_trimmed_cannot_be_replayed() {
    let device = SimDevice::new(1);
    let places = filled(&device);
    let log = open_in(device.directory(), 2, small()).expect("open");
    log.trim(&[places[198].end, places[199].end]).expect("trim");
    log.close().expect("close");
    let from = [places[100].end, places[199].end];
    let (_, found) = opened_replaying(&device, 2, &small(), Some(&from)).expect("open");
    assert!(matches!(found, Err(ReplayError::Read { source: ReadError::Trimmed { .. }, .. })), "{found:?}");
}

/// Damages a record after the first pass has read it. The second pass reads it again, because only
/// the other stream decides about it.
#[test]
fn damage_between_two_readings_is_found_by_the_second() {
    let device = SimDevice::new(1);
    let places = filled(&device);
    // This record depends on the other stream, and has no fragments.
    let undecided = places[30];
    let is_damaged = AtomicBool::new(false);
    let visit = |_: &Batch| -> Result<(), ()> {
        if !is_damaged.swap(true, Ordering::SeqCst) {
            let (file, offset) = (format!("stream-{:03}/log.0000000000000000", undecided.stream), 4096);
            assert!(device.corrupt(&file, offset + undecided.end.get() - 9, 0x10));
        }
        Ok(())
    };
    let replay = Replay { from: None, visit: &visit, progress: &|_, _| {} };
    let options = Options { background: Background::Caller, ..small() };
    match open_replaying(device.directory(), 2, options, replay) {
        Ok((_, Err(ReplayError::Read { stream, source: ReadError::Corrupt { at, .. } }))) => {
            assert_eq!(stream, undecided.stream);
            assert!(at < undecided.end);
        }
        // Another outcome would mean that the walk itself has found the damage, or has come to the
        // record's stream after the damage.
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_visit_that_refuses_ends_the_replay_and_not_the_log() {
    let device = SimDevice::new(1);
    filled(&device);
    for background in [Background::Caller, Background::Threads] {
        let visits = Mutex::new(0);
        let visit = |_: &Batch| {
            *visits.lock().expect("no panic") += 1;
            Err("no")
        };
        let replay = Replay { from: None, visit: &visit, progress: &|_, _| {} };
        let options = Options { background, ..small() };
        let opened = open_replaying(device.directory(), 2, options, replay);
        let (log, outcome) = opened.expect("open");
        assert!(matches!(outcome, Err(ReplayError::Visit("no"))), "{outcome:?}");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(*visits.lock().expect("no panic") <= 2 * threads, "none is begun after that");
        assert_eq!(replayed(&log).0.len(), 300);
        log.close().expect("close");
    }
}

#[test]
fn a_log_that_is_refused_replays_nothing_that_counts() {
    let device = SimDevice::new(1);
    let places = filled(&device);
    assert!(device.corrupt("stream-001/log.0000000000000000", 4096 + places[41].end.get() - 9, 1));
    match opened_replaying(&device, 2, &small(), None) {
        Err(OpenError::Stream { directory, .. }) => assert_eq!(directory, "stream-001"),
        other => panic!("{other:?}"),
    }
}
