//! Followers return only durable records, in order, each record once. A waiting follower is
//! notified.

use katydid_device::{SimDevice, Survival};
use katydid_wal::{
    Append, Background, Durability, Error, FileOptions, Follower, InserterKind, Kind, Log, LogKind,
    MediumSettings, NvramOptions, Options, ReadError, SyncKind,
};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// A time far longer than a record takes. A waiter that was not notified by then hangs.
const HANGS: Duration = Duration::from_secs(60);

/// The size of a segment, in bytes.
const SEGMENT_BYTES: u64 = 32 << 10;

fn options() -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: SEGMENT_BYTES,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn append(log: &Log, number: u64) -> katydid_wal::Lsn {
    let mut session = log.session().expect("session");
    session.append(&Append::new(Kind::USER, &[&number.to_le_bytes(), &[7; 100]])).expect("append").end
}

fn number(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload[..8].try_into().expect("eight bytes"))
}

/// A waker that counts its calls.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn records_are_given_when_they_are_durable_and_not_before() {
    for sync in SyncKind::ALL {
        let log = Log::open_in(
            SimDevice::new(1).directory(),
            options().map_files(|files| FileOptions { sync: sync.into(), ..files }),
        );
        let log = log.expect("open");
        let mut follower = log.first().follow(log.first().start()).expect("follower");
        for round in 0..50 {
            let end = append(&log, round);
            log.first().wait(end, Durability::Written).expect("written");
            let is_durable = log.first().durable() >= end;
            let given = follower.try_next().expect("reads").map(|record| number(record.payload));
            assert!(given.is_none() || is_durable || log.first().durable() >= end, "{sync}: not durable");
            log.first().wait(end, Durability::Durable).expect("durable");
            let given =
                given.or_else(|| follower.try_next().expect("reads").map(|record| number(record.payload)));
            assert_eq!(given, Some(round));
            assert!(follower.try_next().expect("reads").is_none());
        }
    }
}

/// One thread commits the next record when the follower has returned the last one. Another thread
/// waits for each record. No wake-up is lost.
#[test]
fn a_thread_that_waits_gets_every_record() {
    let memory = NvramOptions { bytes: 1 << 20, ..NvramOptions::default() };
    for (kind, inserter) in [
        (LogKind::Disk, InserterKind::Marks),
        (LogKind::Disk, InserterKind::Chunked),
        (LogKind::NvDirect, InserterKind::Marks),
        (LogKind::NvRing, InserterKind::Marks),
        (LogKind::NvEntries, InserterKind::Marks),
        (LogKind::NvLogging, InserterKind::Marks),
    ] {
        let files = FileOptions { inserter: inserter.into(), ..options().medium.files().expect("files") };
        let medium = MediumSettings { files, memory, entries: 0 }.medium(kind);
        let options = Options { medium, ..options() };
        let log = Log::open_in(SimDevice::new(1).directory(), options).expect("open");
        every_record_is_given_to_a_thread_that_waits(&log, &format!("{kind:?}, {inserter:?}"));
    }
}

fn every_record_is_given_to_a_thread_that_waits(log: &Log, setting: &str) {
    const RECORDS: u64 = 2_000;
    let mut follower = log.first().follow(log.first().start()).expect("follower");
    let given = Arc::new(AtomicU64::new(0));
    // The thread is not scoped, because a scope would wait for a thread that hangs.
    let waits = thread::spawn({
        let given = given.clone();
        move || {
            for expected in 0..RECORDS {
                assert_eq!(number(&follower.next().expect("a record").payload), expected);
                given.store(expected + 1, Ordering::SeqCst);
            }
        }
    });
    // The loop yields and does not sleep, so that the next record comes while the follower begins
    // to wait.
    let is_given = |records| {
        let begun = Instant::now();
        while given.load(Ordering::SeqCst) < records && !waits.is_finished() {
            assert!(begun.elapsed() < HANGS, "{setting}: record {records} is durable, and its waiter sleeps");
            thread::yield_now();
        }
    };
    for number in 0..RECORDS {
        is_given(number);
        let end = append(log, number);
        log.first().wait(end, Durability::Durable).expect("durable");
    }
    is_given(RECORDS);
    waits.join().unwrap_or_else(|_| panic!("{setting}: the follower failed"));
}

#[test]
fn a_future_is_woken_by_the_next_durable_record_and_forgotten_when_it_is_dropped() {
    let options = Options { background: Background::Caller, ..options() };
    let log = Log::open_in(SimDevice::new(1).directory(), options).expect("open");
    let mut follower = log.first().follow(log.first().start()).expect("follower");
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    {
        let mut dropped = pin!(follower.next_async());
        assert!(dropped.as_mut().poll(&mut context).is_pending());
    }
    log.first().wait(append(&log, 0), Durability::Durable).expect("durable");
    log.run_background();
    // A future that was dropped may have been woken once, but its record is not lost.
    let before = count.0.load(Ordering::SeqCst);
    {
        let mut next = pin!(follower.next_async());
        match next.as_mut().poll(&mut context) {
            Poll::Ready(record) => assert_eq!(number(&record.expect("a record").payload), 0),
            Poll::Pending => panic!("it was durable"),
        }
    }
    let mut next = pin!(follower.next_async());
    assert!(next.as_mut().poll(&mut context).is_pending());
    let end = append(&log, 1);
    log.first().wait(end, Durability::Durable).expect("durable");
    log.run_background();
    assert_eq!(count.0.load(Ordering::SeqCst), before + 1);
    assert!(next.as_mut().poll(&mut context).is_ready());
}

fn drain(follower: &mut Follower) -> Vec<u64> {
    let mut found = Vec::new();
    while let Some(record) = follower.try_next().expect("reads") {
        found.push(number(record.payload));
    }
    found
}

#[test]
fn what_was_given_is_there_after_a_crash() {
    for seed in 0..40 {
        let device = SimDevice::new(seed);
        let log = Log::open_in(device.directory(), Options { background: Background::Caller, ..options() });
        let log = log.expect("open");
        let mut follower = log.first().follow(log.first().start()).expect("follower");
        let mut given = Vec::new();
        let mut random = fastrand::Rng::with_seed(seed);
        for number in 0..random.u64(1..60) {
            let end = append(&log, number);
            let level = [Durability::Buffered, Durability::Written, Durability::Durable][random.usize(..3)];
            log.first().wait(end, level).expect("waits");
            given.extend(drain(&mut follower));
        }
        let device = device.reopen_with(seed, Survival::DropAll);
        drop((follower, log));
        let log = Log::open_in(device.directory(), options()).expect("open again");
        let mut follower = log.first().follow(log.first().start()).expect("follower");
        let found = drain(&mut follower);
        assert!(found.starts_with(&given), "seed {seed}: {given:?} was given, {found:?} is there");
    }
}

#[test]
fn the_end_of_the_log_ends_a_wait_after_all_was_given() {
    let log = Log::open_in(SimDevice::new(1).directory(), options()).expect("open");
    let mut follower = log.first().follow(log.first().start()).expect("follower");
    let begun = Barrier::new(2);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            begun.wait();
            (follower.next().map(|record| number(&record.payload)), follower.next().map(drop))
        });
        begun.wait();
        append(&log, 7);
        log.close().expect("close");
        let (first, then) = waits.join().expect("no panic");
        assert_eq!(first.expect("it is durable"), 7);
        assert!(matches!(then, Err(Error::Closed)), "{then:?}");
    });
}

#[test]
fn a_follower_behind_the_start_gets_an_error_unless_it_pins_the_log() {
    let log = Log::open_in(SimDevice::new(1).directory(), options()).expect("open");
    let from = log.first().start();
    let mut follower = log.first().follow(from).expect("follower");
    for number in 0..500 {
        append(&log, number);
    }
    log.sync().expect("sync");
    let pin = log.pin(&[from], u64::MAX).expect("pin");
    log.first().trim(log.first().durable()).expect("trim");
    assert_eq!(number(&follower.next().expect("kept").payload), 0);
    drop(pin);
    log.first().trim(log.first().durable()).expect("trim");
    let refused = loop {
        // The follower first returns the records that it had read into its window before the trim.
        match follower.next() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Read(ReadError::Trimmed { .. })), "{refused:?}");
}

#[test]
fn a_follower_of_a_closed_log_gives_what_was_durable_or_says_that_it_is_closed() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options()).expect("open");
    let from = log.first().start();
    for number in 0..1000 {
        append(&log, number);
    }
    log.close().expect("close");
    let mut follower = log.first().follow(from).expect("follower");
    let mut lookup = log.first().follow(from).expect("follower");
    let last =
        std::iter::from_fn(|| lookup.try_next().expect("nobody has trimmed").map(|record| record.lsn)).last();
    for given in 0..3 {
        assert_eq!(number(&follower.next().expect("nobody has trimmed").payload), given);
    }
    // The next opening keeps every trimmed segment, because fewer are trimmed than it may keep.
    // Then the log grows without a trim, and uses the trimmed segments before it makes a new one.
    const KEPT: usize = 32;
    let options = options().map_files(|files| FileOptions { spare_segments: KEPT, ..files });
    let next = Log::open_in(device.directory(), options).expect("open again");
    for number in 1000..3000 {
        append(&next, number);
        next.sync().expect("sync");
        next.first().trim(next.first().durable()).expect("trim");
    }
    // `KEPT` segments may be prepared ahead already, and at most `KEPT` more were trimmed.
    let grown = next.first().durable().plus((2 * KEPT as u64 + 1) * SEGMENT_BYTES);
    while append(&next, 3000) < grown {}
    let mut given = 3;
    let ended = loop {
        match follower.next() {
            Ok(record) => assert_eq!(number(&record.payload), given),
            Err(error) => break error,
        }
        given += 1;
    };
    assert!(matches!(ended, Error::Closed), "{ended:?}");
    assert!(given < 1000, "no segment was used again");
    let gone = log.first().read(last.expect("there are records"));
    assert!(matches!(gone, Err(Error::Closed)), "{gone:?}");
}
