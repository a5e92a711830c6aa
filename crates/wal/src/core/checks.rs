//! Whole logs under Miri: the ring's bytes are written and read without synchronisation of their own, so a wrong frontier shows as
//! a data race there. Small, for Miri is slow; natively it is one more test.

use crate::reader::Extent;
use crate::{Append, Background, Durability, InserterKind, Kind, Log, Options, SyncKind};
use katydid_device::MemoryDirectory;
use std::sync::Arc;

/// Threads, and records of each.
const SIZE: (u64, u8) = if cfg!(miri) { (2, 4) } else { (3, 8) };

fn threads_append_and_wait(inserter: InserterKind, sync: SyncKind) {
    let options = Options {
        segment_bytes: 32 << 10,
        ring_bytes: 16 << 10,
        run_ahead_bytes: 4 << 10,
        sessions_max: 4,
        spare_segments: 1,
        reserve_bytes: 0,
        inserter,
        sync,
        ..Options::default()
    };
    let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    std::thread::scope(|scope| {
        for thread in 0..SIZE.0 {
            let log = &log;
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                for number in 0..SIZE.1 {
                    // Small ones are added, large ones swapped in; together they wrap the ring.
                    let bytes = vec![number; if number % 3 == 0 { 1200 } else { 100 }];
                    let end =
                        session.append(&Append::new(Kind::USER, &[&bytes]).txn(thread)).expect("append").end;
                    match number % 4 {
                        0 => log.wait(end, Durability::Durable).expect("wait"),
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
    let records: Vec<_> =
        log.reader(log.start()).expect("reader").map(|record| record.expect("record")).collect();
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

/// All designs but the default.
#[test]
fn miri_the_other_inserters() {
    for inserter in InserterKind::ALL.into_iter().filter(|kind| *kind != InserterKind::default()) {
        threads_append_and_wait(inserter, SyncKind::Adaptive);
    }
}

/// More than one write takes lies in memory: the first ends in the middle of a record, and whoever waits for a record below reads it.
#[test]
fn what_a_write_of_the_largest_size_covers_can_be_read() {
    for inserter in InserterKind::ALL {
        let options = Options {
            segment_bytes: 8 << 20,
            ring_bytes: 4 << 20,
            run_ahead_bytes: 2 << 20,
            sessions_max: 4,
            inserter,
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
        log.wait(middle, Durability::Written).expect("wait");
        let core = log.core();
        let (readable, written) = (Extent::written(core), core.frontiers().written());
        assert!(written < ends[19_999], "{inserter}: one write did not take all");
        assert!(middle <= readable && readable <= written, "{inserter}: {middle} {readable} {written}");
        assert!(ends.contains(&readable), "{inserter}: {readable} is the end of a record");
        let found = log.reader(log.start()).expect("reader").map(|record| record.expect("record").txn);
        assert!(found.eq(0..20_000), "{inserter}");
        assert_eq!(Extent::written(core), core.frontiers().written(), "{inserter}");
    }
}
