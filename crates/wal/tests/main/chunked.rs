//! Promises of inserter `chunked` beyond the conformance suite: order along `after`, padding that
//! no reader sees and that costs little, and idle sessions that delay no thread.

use katydid_device::{Directory, MemoryDirectory};
use katydid_wal::{
    Append, Durability, FileOptions, HEADER_BYTES, InserterDesign, InserterKind, Kind, Log, Lsn, Options,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn options() -> Options {
    Options {
        medium: FileOptions {
            inserter: InserterKind::Chunked.into(),
            segment_bytes: 1 << 20,
            first_segment_bytes: 1 << 20,
            ..FileOptions::default()
        }
        .into(),
        reserve_bytes: 64 << 10,
        ..Options::default()
    }
}

fn open(directory: &Arc<dyn Directory>) -> Log {
    Log::open_in(directory.clone(), options()).expect("open")
}

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// Returns sessions that have appended enough to get chunks of many records.
fn streaming<const N: usize>(log: &Log) -> [katydid_wal::Session; N] {
    std::array::from_fn(|_| {
        let mut session = log.session().expect("session");
        for _ in 0..5000 {
            session.append(&Append::new(Kind::USER, &[&[1; 100]])).expect("append");
        }
        session
    })
}

#[test]
fn a_record_lies_above_what_it_depends_on_and_need_not_otherwise() {
    let log = open(&memory());
    let [mut low, mut high] = streaming(&log);
    let record = Append::new(Kind::USER, &[&[2; 100]]);
    let mut lower = 0;
    for _ in 0..2000 {
        let above = high.append(&record).expect("append");
        let free = low.append(&record).expect("append");
        lower += u64::from(free.lsn < above.lsn);
        let dependent = low.append(&record.depends_on(above.lsn)).expect("append");
        assert!(dependent.lsn > above.lsn, "a record lies above what it depends on");
        let above = low.append(&record).expect("append");
        let next = high.append(&record.prev(above.lsn)).expect("append");
        assert!(next.lsn > above.lsn, "a record lies above its previous one");
        // Appends without a dependency for a while, so that chunks are worth reserving.
        for _ in 0..20 {
            low.append(&record).expect("append");
            high.append(&record).expect("append");
        }
    }
    assert!(lower > 0, "nothing said that those depend: some were put lower");
}

#[test]
fn chains_of_dependence_across_threads_are_in_log_order() {
    let directory = memory();
    let log = open(&directory);
    // All threads change each page in turn. A change names the change before it, as an engine can
    // do under a page latch.
    let pages: Vec<std::sync::Mutex<(Lsn, u64)>> = (0..3).map(|_| Default::default()).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (log, pages) = (&log, &pages);
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                for number in 0..2000u64 {
                    let at = (number * 7 + thread) % 3;
                    let mut page = pages[at as usize].lock().expect("not poisoned");
                    let payload = [at.to_le_bytes(), page.1.to_le_bytes()].concat();
                    let payload: [&[u8]; 2] = [&payload, &[0; 60]];
                    let append = Append::new(Kind::USER, &payload).depends_on(page.0);
                    let appended = session.append(&append).expect("append");
                    assert!(appended.lsn > page.0);
                    *page = (appended.lsn, page.1 + 1);
                    drop(page);
                    if number % 97 == 0 {
                        log.first().wait(appended.end, Durability::Durable).expect("wait");
                    }
                }
            });
        }
    });
    log.close().expect("close");
    drop(log);
    let log = open(&directory);
    let mut versions = [0; 3];
    for record in log.first().reader(log.first().start()).expect("reader") {
        let record = record.expect("record");
        let word = |at| u64::from_le_bytes(record.payload[at..at + 8].try_into().expect("eight"));
        let page = word(0) as usize;
        assert_eq!(word(8), versions[page], "the log has page {page}'s changes in their order");
        versions[page] += 1;
    }
    assert_eq!(versions.iter().sum::<u64>(), 8000);
}

#[test]
fn padding_costs_less_than_a_fiftieth_under_load() {
    let log = open(&memory());
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (log, done) = (&log, &done);
            scope.spawn(move || {
                let mut session = log.session().expect("session");
                let mut random = fastrand::Rng::with_seed(thread);
                let payload = [0; 1000];
                for number in 0..60_000 {
                    // Most records are small, and some are large, like those of an engine.
                    let bytes = if random.u8(..50) == 0 { 1000 } else { random.usize(20..300) };
                    let end =
                        session.append(&Append::new(Kind::USER, &[&payload[..bytes]])).expect("append").end;
                    if number % 8 == 0 {
                        session.on_complete(end, Durability::Durable, |outcome| outcome.expect("durable"));
                        session.wait_below(200);
                    }
                }
                session.drain();
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(done.into_inner(), 4);
    let (padding, all) = (log.counters().padding, log.first().sync().expect("sync").get());
    println!("{padding} of {all} bytes are padding");
    assert!(padding * 50 < all, "{padding} of {all} bytes are padding");
}

#[test]
fn an_idle_session_delays_nobody_and_blocking_commits_lose_nothing() {
    let log = open(&memory());
    let [mut idle, mut busy] = streaming(&log);
    for number in 0..100u64 {
        if number % 10 == 0 {
            // Leaves a chunk open below the next record.
            idle.append(&Append::new(Kind::USER, &[&[3; 100]])).expect("append");
        }
        let end = busy.append(&Append::new(Kind::USER, &[&[4; 100]])).expect("append").end;
        log.first().wait(end, Durability::Durable).expect("the idle session's chunk is filled for it");
    }
    let before = log.counters().padding;
    for _ in 0..100 {
        let end = busy.append(&Append::new(Kind::USER, &[&[4; 100]])).expect("append").end;
        log.first().wait(end, Durability::Durable).expect("wait");
    }
    assert_eq!(log.counters().padding, before, "a session that waits for each record gets room for one");
}

#[test]
fn padding_is_skipped_by_readers_and_has_these_bytes() {
    let directory = memory();
    let log = open(&directory);
    let [mut one] = streaming(&log);
    let mut records = 5000;
    let last = loop {
        let last = one.append(&Append::new(Kind::USER, &[&[5; 100]])).expect("append");
        records += 1;
        if log.first().reserved() > last.end {
            break last;
        }
    };
    log.sync().expect("sync");
    assert!(log.counters().padding > 0 && log.first().durable() > last.end, "the open chunk was padded");
    let (at, bytes) = (last.end, log.first().durable().since(last.end) as usize);
    log.close().expect("close");
    assert!(
        log.first()
            .reader(log.first().start())
            .expect("reader")
            .all(|record| record.expect("record").kind.is_user())
    );
    drop(log);
    // A padding record has the header's fields and then zeros, as docs/log-format.md says.
    let capacity = (1 << 20) - 4096;
    let name = format!("log.{:016x}", at.get() / capacity);
    let file = directory.open_read_only(&name).expect("segment");
    let mut found = vec![0; bytes];
    file.read_at(&mut found, 4096 + at.get() % capacity).expect("read");
    assert_eq!(found[..4], (bytes as u32).to_le_bytes());
    assert_eq!(found[8..16], at.get().to_le_bytes());
    assert_eq!(found[16..20], 1u32.to_le_bytes(), "incarnation");
    assert_eq!(found[20..24], [3, 0, 0, 0], "kind, flags, dependencies");
    assert_eq!(found[24..40], [0; 16], "txn and prev");
    assert!(found[HEADER_BYTES..].iter().all(|byte| *byte == 0));
    let reopened = open(&directory);
    let users = reopened.first().reader(reopened.first().start()).expect("reader").map(Result::unwrap);
    assert_eq!(users.filter(|record| record.kind.is_user()).count(), records);
}

#[test]
fn a_barrier_separates_what_was_appended_before_from_what_comes() {
    for chunk_bytes in [256, 4096] {
        let inserter = InserterDesign::Chunked { chunk_bytes, always: true };
        let log = Log::open_in(memory(), options().map_files(|files| FileOptions { inserter, ..files }))
            .expect("open");
        let mut sessions: Vec<_> = (0..4).map(|_| log.session().expect("session")).collect();
        let mut random = fastrand::Rng::with_seed(7);
        let record = Append::new(Kind::USER, &[&[2; 40]]);
        let (mut last, mut lower) = (Lsn::ZERO, 0);
        for _ in 0..500 {
            let mut highest = Lsn::ZERO;
            for _ in 0..random.usize(0..20) {
                let appended = sessions[random.usize(..4)].append(&record).expect("append");
                assert!(appended.lsn >= last, "above the barrier before it");
                lower += u64::from(appended.end < highest);
                highest = highest.max(appended.end);
            }
            last = log.first().barrier();
            assert!(last >= highest, "what was appended lies below the barrier");
        }
        assert!(lower > 1000, "without a barrier {lower} records were put below older ones");
    }
}

#[test]
fn a_barrier_is_passed_while_others_append() {
    let inserter = InserterDesign::Chunked { chunk_bytes: 1024, always: true };
    let log =
        Log::open_in(memory(), options().map_files(|files| FileOptions { inserter, ..files })).expect("open");
    // Each record says which barrier had been passed when its append began.
    let passed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut session = log.session().expect("session");
                for _ in 0..20_000 {
                    let barrier = passed.load(Ordering::Acquire);
                    let appended = session.append(&Append::new(Kind::USER, &[&[3; 60]])).expect("append");
                    assert!(appended.first.get() >= barrier);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..2000 {
                passed.store(log.first().barrier().get(), Ordering::Release);
            }
        });
    });
}
