//! Rules about the records in the log, and their positions.

use super::records::{Ends, Numbers, check_threads, payload, read_all, record};
use super::setup::{MakeLog, memory, roomy, small};
use crate::{AppendError, Durability, Error};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Appends `count` records of up to `most` bytes from each of `threads` threads. Each thread waits
/// for every `wait`th of its records. Returns the bytes of the log that the records took.
fn append_from_threads(log: &crate::Log, threads: u64, count: u64, most: u64, wait: u64) -> u64 {
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let taken = &taken;
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                let mut numbers = Numbers(thread + 1);
                let mut ends = Ends::default();
                for number in 0..count {
                    let bytes = payload(thread, number, numbers.next(most) as usize);
                    let (left, right) = bytes.split_at(bytes.len() / 2);
                    let appended = session.append(&record(thread, &[left, &[], right])).expect("append");
                    ends.saw(&appended);
                    taken.fetch_add(appended.bytes, Ordering::Relaxed);
                    if number % wait == 0 {
                        log.first().wait(appended.end, Durability::Durable).expect("wait");
                    }
                }
            });
        }
    });
    taken.into_inner()
}

pub(super) fn records_of_one_session_are_in_order_and_whole(make: MakeLog<'_>) {
    let directory = memory();
    let log = make(directory.clone(), roomy());
    append_from_threads(&log, 8, 400, 300, 7);
    assert_eq!(check_threads(&read_all(&log), 8, &[]), [400; 8]);
    let one = &read_all(&log)[17];
    assert_eq!(&log.first().read(one.lsn).expect("read"), one);
    log.close().expect("close");
    drop(log);
    let log = make(directory, roomy());
    assert_eq!(check_threads(&read_all(&log), 8, &[]), [400; 8]);
}

pub(super) fn small_rings_and_segments_wrap(make: MakeLog<'_>) {
    let directory = memory();
    let log = make(directory.clone(), small());
    let taken = append_from_threads(&log, 4, 500, 1500, 11);
    assert!(taken > 20 * small().medium.files.ring_bytes as u64, "the ring went round often");
    assert_eq!(check_threads(&read_all(&log), 4, &[]), [500; 4]);
    drop(log);
    assert_eq!(check_threads(&read_all(&make(directory, small())), 4, &[]), [500; 4]);
}

pub(super) fn large_records_travel_as_fragments(make: MakeLog<'_>) {
    let directory = memory();
    let log = make(directory.clone(), small());
    append_from_threads(&log, 3, 6, 100_000, 2);
    assert_eq!(check_threads(&read_all(&log), 3, &[]), [6; 3]);
    drop(log);
    assert_eq!(check_threads(&read_all(&make(directory, small())), 3, &[]), [6; 3]);
}

pub(super) fn the_largest_record_is_read_back(make: MakeLog<'_>) {
    let log = make(memory(), roomy());
    let mut session = log.session().expect("session");
    let bytes = payload(0, 0, crate::RECORD_BYTES_MAX - crate::HEADER_BYTES - 16);
    let appended = session.append(&record(0, &[&bytes])).expect("append");
    assert!(appended.first < appended.lsn);
    log.first().wait(appended.end, Durability::Durable).expect("wait");
    let read = log.first().read(appended.lsn).expect("read");
    assert!(read.payload == bytes && read.first == appended.first && read.end == appended.end);
}

pub(super) fn too_large_a_record_is_refused_and_nothing_of_it_stays(make: MakeLog<'_>) {
    let log = make(memory(), roomy());
    let mut session = log.session().expect("session");
    let before = log.first().reserved();
    let bytes = vec![0; crate::RECORD_BYTES_MAX - crate::HEADER_BYTES + 1];
    let refused = session.append(&record(0, &[&bytes]));
    assert!(matches!(refused, Err(AppendError::TooLarge { .. })), "{refused:?}");
    let own = crate::Append { kind: crate::Kind::MARK, ..record(0, &[b"x"]) };
    assert!(matches!(session.append(&own), Err(AppendError::ReservedKind { .. })));
    assert_eq!(log.first().reserved(), before);
    assert!(read_all(&log).is_empty());
}

pub(super) fn a_large_ring_is_written_in_pieces(make: MakeLog<'_>) {
    let mut sizes = roomy();
    // The records fill less than a quarter of the ring, so nothing is written behind the appends.
    sizes.medium.files.ring_bytes = 16 << 20;
    sizes.common.run_ahead_bytes = 4 << 20;
    let log = make(memory(), sizes);
    let mut session = log.session().expect("session");
    let mut end = log.first().reserved();
    for number in 0..1200 {
        end = session.append(&record(0, &[&payload(0, number, 3000)])).expect("append").end;
    }
    let (before, waiting) = (log.counters().writes, log.first().reserved().since(log.first().written()));
    assert!(waiting > 3 << 20, "nobody asked for a write yet");
    std::thread::scope(|scope| {
        // The leader writes the 3 MiB in pieces. A piece may end inside a record, and a reader must
        // not see the first half of such a record.
        let reader = scope.spawn(|| read_all(&log).len());
        log.first().wait(end, Durability::Durable).expect("wait");
        assert_eq!(reader.join().expect("reader"), 1200);
    });
    assert!(log.counters().writes - before >= 4, "one write of {waiting} bytes");
    assert_eq!(check_threads(&read_all(&log), 1, &[]), [1200]);
}

pub(super) fn sessions_come_and_go(make: MakeLog<'_>) {
    let most = 12;
    let mut sizes = small();
    sizes.common.sessions_max = most;
    let log = make(memory(), sizes);
    // A session for which there is no slot is refused; a dropped session frees its slot.
    let mut held: Vec<_> = (0..most).map(|_| log.session().expect("session")).collect();
    assert!(matches!(log.session(), Err(Error::SessionsExhausted { limit }) if limit == most));
    held.pop();
    held.push(log.session().expect("a dropped session makes room"));
    held.clear();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..150 {
                    // Every record has a session of its own.
                    let mut session = log.session().expect("session");
                    let bytes = payload(thread, number, 100 + number as usize);
                    let appended = session.append(&record(thread, &[&bytes])).expect("append");
                    drop(session);
                    if number % 10 == 0 {
                        log.first().wait(appended.end, Durability::Durable).expect("wait");
                    }
                }
            });
        }
    });
    assert_eq!(check_threads(&read_all(&log), 6, &[]), [150; 6]);
}

pub(super) fn a_short_run_ahead_is_enough(make: MakeLog<'_>) {
    let mut sizes = small();
    sizes.common.run_ahead_bytes = 4 << 10;
    let log = make(memory(), sizes);
    append_from_threads(&log, 6, 300, 1800, 300);
    assert_eq!(check_threads(&read_all(&log), 6, &[]), [300; 6]);
}

pub(super) fn frontiers_are_ordered_and_only_grow(make: MakeLog<'_>) {
    let log = make(memory(), small());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut last =
                [log.first().durable(), log.first().written(), log.first().filled(), log.first().reserved()];
            let mut looks = 0u64;
            while !done.load(Ordering::Acquire) || looks == 0 {
                // The smaller frontiers are read first: frontiers only grow, so a frontier that is
                // read later may not be below one that was read before.
                let now = [
                    log.first().durable(),
                    log.first().written(),
                    log.first().filled(),
                    log.first().reserved(),
                ];
                assert!(now.is_sorted(), "out of order: {now:?}");
                assert!(now.iter().zip(&last).all(|(now, last)| now >= last), "{last:?} then {now:?}");
                last = now;
                looks += 1;
                std::thread::yield_now();
            }
        });
        append_from_threads(&log, 4, 300, 1200, 13);
        done.store(true, Ordering::Release);
        watcher.join().expect("watcher");
    });
    let end = log.first().sync().expect("sync");
    assert_eq!(
        [log.first().durable(), log.first().written(), log.first().filled(), log.first().reserved()],
        [end; 4]
    );
}

pub(super) fn what_is_trimmed_is_recycled(make: MakeLog<'_>) {
    let directory = memory();
    let mut sizes = small();
    sizes.medium.memory.bytes = 64 << 10;
    let log = make(directory.clone(), sizes);
    let mut session = log.session().expect("session");
    let (mut largest, mut appended_bytes) = (0, 0);
    for number in 0..600 {
        let bytes = payload(0, number, 700);
        let appended = session.append(&record(0, &[&bytes])).expect("append");
        appended_bytes += appended.bytes;
        if number % 20 == 19 {
            log.first().wait(appended.end, Durability::Durable).expect("wait");
            assert!(matches!(
                log.first().trim(appended.end.checked_add(8).expect("small")),
                Err(Error::BeyondEnd { .. })
            ));
            log.first().trim(appended.first).expect("trim");
            assert_eq!(log.first().start(), appended.first);
            largest = largest.max(log.space().on_disk);
        }
    }
    assert!(largest * 3 < appended_bytes, "{largest} bytes of files for {appended_bytes} bytes of log");
    let trimmed = log.first().start();
    assert!(matches!(
        log.first().reader(crate::Lsn::ZERO),
        Err(Error::Read(crate::ReadError::Trimmed { .. }))
    ));
    drop(session);
    drop(log);
    let log = make(directory, small());
    assert_eq!(log.first().start(), trimmed);
    assert_eq!(read_all(&log).len(), 1, "the record the log was trimmed to");
}
