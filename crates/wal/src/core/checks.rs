//! Whole logs under Miri: the ring's bytes are written and read without synchronisation of their
//! own, so Miri reports a wrong frontier as a data race. The logs are small because Miri is slow.
//! Without Miri these are ordinary tests.

use crate::segment::Extent;
use crate::{Append, Background, Durability, FileOptions, InserterKind, Kind, Log, Lsn, Options, SyncKind};
use katydid_device::{MemoryDirectory, Method, SimDevice, Survival};
use katydid_kernels::sync::{Ask, Plan, Planned, Rounds};
use std::sync::Arc;

/// Number of threads, and number of records of each thread.
const SIZE: (u64, u8) = if cfg!(miri) { (2, 7) } else { (3, 12) };

const RING_BYTES: usize = 16 << 10;

fn threads_append_and_wait(inserter: InserterKind, sync: SyncKind) {
    let options = Options {
        medium: FileOptions {
            segment_bytes: 32 << 10,
            ring_bytes: RING_BYTES,
            spare_segments: 1,
            inserter: inserter.into(),
            sync: sync.into(),
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        sessions_max: 4,
        reserve_bytes: 0,
        ..Options::default()
    };
    let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    std::thread::scope(|scope| {
        for thread in 0..SIZE.0 {
            let log = &log;
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                for number in 0..SIZE.1 {
                    // With inserter `marks`, small records reserve by `fetch_add`, large ones by
                    // `compare_exchange`.
                    let bytes = vec![number; if number % 3 == 0 { 3000 } else { 100 }];
                    let end =
                        session.append(&Append::new(Kind::USER, &[&bytes]).txn(thread)).expect("append").end;
                    match number % 4 {
                        0 => log.first().wait(end, Durability::Durable).expect("wait"),
                        1 => {
                            session.on_complete(end, Durability::Durable, |outcome| outcome.expect("durable"))
                        }
                        _ => {}
                    }
                    session.poll();
                }
                session.drain();
            });
        }
    });
    assert!(
        log.first().reserved().since(log.first().start()) > RING_BYTES as u64,
        "the ring's bytes were used again"
    );
    let records: Vec<_> = log
        .first()
        .reader(log.first().start())
        .expect("reader")
        .map(|record| record.expect("record"))
        .collect();
    assert_eq!(records.len() as u64, SIZE.0 * u64::from(SIZE.1));
}

#[test]
fn miri_marks_adaptive() {
    threads_append_and_wait(InserterKind::Marks, SyncKind::Adaptive);
}

#[test]
fn miri_marks_pipelined() {
    threads_append_and_wait(InserterKind::Marks, SyncKind::Pipelined);
}

/// There is one test for each design, because Miri takes more than ten minutes for all of them, and
/// `cargo xtask nightly` treats ten minutes without output as a hang.
macro_rules! other_inserters {
    ($($name:ident $inserter:ident)*) => {
        $(#[test]
        fn $name() {
            threads_append_and_wait(InserterKind::$inserter, SyncKind::Adaptive);
        })*

        #[test]
        fn every_inserter_has_a_test_for_miri() {
            let tested = [InserterKind::default(), $(InserterKind::$inserter),*];
            assert!(InserterKind::ALL.iter().all(|kind| tested.contains(kind)));
        }
    };
}

other_inserters! {
    miri_mutex_adaptive Mutex
    miri_consolidated_adaptive Consolidated
    miri_decoupled_adaptive Decoupled
    miri_hybrid_adaptive Hybrid
    miri_delegated_adaptive Delegated
    miri_grasshopper_adaptive Grasshopper
    miri_bitmap_adaptive Bitmap
    miri_chunked_adaptive Chunked
}

/// More bytes are filled than one write takes, so the first write ends in the middle of a record. A
/// thread that waited for a record below that end must be able to read the record.
#[test]
fn what_a_write_of_the_largest_size_covers_can_be_read() {
    for inserter in InserterKind::ALL {
        let options = Options {
            medium: FileOptions {
                segment_bytes: 8 << 20,
                ring_bytes: 4 << 20,
                inserter: inserter.into(),
                ..FileOptions::default()
            }
            .into(),
            run_ahead_bytes: 2 << 20,
            sessions_max: 4,
            background: Background::Caller,
            ..Options::default()
        };
        let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
        let mut session = log.session().expect("session");
        let ends: Vec<_> = (0..20_000u64)
            .map(|number| {
                session.append(&Append::new(Kind::USER, &[&[7; 72]]).txn(number)).expect("append").end
            })
            .collect();
        let middle = ends[5_000];
        log.first().wait(middle, Durability::Written).expect("wait");
        let core = log.first().core();
        let (readable, written) = (Extent::written(core), core.frontiers().written());
        assert!(written < ends[19_999], "{inserter}: one write did not take all");
        assert!(middle <= readable && readable <= written, "{inserter}: {middle} {readable} {written}");
        assert!(ends.contains(&readable), "{inserter}: {readable} is the end of a record");
        let found = log
            .first()
            .reader(log.first().start())
            .expect("reader")
            .map(|record| record.expect("record").txn);
        assert!(found.eq(0..20_000), "{inserter}");
        assert_eq!(Extent::written(core), core.frontiers().written(), "{inserter}");
    }
}

/// A write may end within a record. Later records must not store that end as durable, because
/// recovery would then call a torn end corrupt.
#[test]
fn a_write_that_ends_within_a_record_leaves_no_promise_that_a_crash_breaks() {
    for seed in 0..200 {
        let options = || Options {
            medium: FileOptions {
                segment_bytes: 32 << 10,
                ring_bytes: 16 << 10,
                spare_segments: 1,
                write_bytes_max: 4096,
                ..FileOptions::default()
            }
            .into(),
            run_ahead_bytes: 8 << 10,
            sessions_max: 4,
            reserve_bytes: 0,
            method: [Method::Buffered, Method::Direct][seed as usize % 2],
            background: Background::Caller,
            ..Options::default()
        };
        let device = SimDevice::new(seed);
        let log = Log::open_in(device.directory(), options()).expect("open");
        let mut session = log.session().expect("session");
        let record = |number: u64| [number.to_le_bytes().to_vec(), vec![7; 1500]].concat();
        let mut append =
            |number| session.append(&Append::new(Kind::USER, &[&record(number)])).expect("append").end;
        let first = append(0);
        for number in 1..4 {
            append(number);
        }
        log.first().wait(first, Durability::Durable).expect("the first block");
        // This record stores the durable frontier of this moment. On the device the durable bytes
        // end within the third record.
        let last = append(4);
        device.crash_at(device.steps() + seed / 2 % 2);
        let acknowledged = log.first().wait(last, Durability::Durable).is_ok();
        device.freeze();
        drop(session);
        drop(log);
        let log = Log::open_in(device.reopen_after_crash(seed).directory(), options());
        let log = log.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let found = log.first().reader(log.first().start()).expect("reader").count();
        assert!((1..=5).contains(&found) && (!acknowledged || found == 5), "seed {seed}: {found}");
    }
}

/// Two writes are under way, and the second one ends first. No frontier moves before the first one
/// has ended. Otherwise the commits in both writes would be acknowledged, and a crash that loses
/// the first write would lose all these commits.
#[test]
fn a_write_that_ends_before_an_earlier_one_moves_no_frontier() {
    for first_ends in [false, true] {
        let options = || Options {
            medium: FileOptions { segment_bytes: 32 << 10, ring_bytes: 16 << 10, ..FileOptions::default() }
                .into(),
            run_ahead_bytes: 8 << 10,
            sessions_max: 4,
            reserve_bytes: 0,
            method: Method::Direct,
            background: Background::Caller,
            ..Options::default()
        };
        let device = SimDevice::new(1);
        let log = Log::open_in(device.directory(), options()).expect("open");
        let core = log.first().core();
        let start = (core.frontiers().written(), core.frontiers().durable());
        let mut session = log.session().expect("session");
        let mut append = || session.append(&Append::new(Kind::USER, &[&[7; 3000]])).expect("append").end;
        let plan = || -> Planned {
            let ask = Ask { level: Durability::Durable, own: Lsn::ZERO, only_own: false, depth: 2 };
            match core.plan(ask) {
                Plan::Write(write) => write,
                other => panic!("no write is planned: {other:?}"),
            }
        };
        append();
        append();
        let first = plan();
        let last = append();
        let second = plan();
        core.perform(&second);
        assert_eq!((core.frontiers().written(), core.frontiers().durable()), start);
        if first_ends {
            core.perform(&first);
            assert_eq!((core.frontiers().written(), core.frontiers().durable()), (last, last));
        }
        device.freeze();
        if !first_ends {
            // The first write fails. It must end before the log is dropped, because dropping waits
            // for writes.
            core.perform(&first);
        }
        drop(session);
        drop(log);
        let device = device.reopen_with(1, Survival::DropAll);
        let log = Log::open_in(device.directory(), options()).expect("open again");
        let found = log.first().reader(log.first().start()).expect("reader").count();
        assert_eq!(found, if first_ends { 3 } else { 0 });
    }
}
