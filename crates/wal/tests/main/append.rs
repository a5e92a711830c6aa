//! The happy path, on every combination of inserter and sync protocol.

use katydid_device::{Directory, MemoryDirectory};
use katydid_wal::{Append, Durability, FileOptions, InserterKind, Kind, Log, Options, SyncKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn combinations() -> impl Iterator<Item = Options> {
    let protocols = [SyncKind::Adaptive, SyncKind::Pipelined];
    InserterKind::ALL.into_iter().flat_map(move |inserter| {
        protocols.map(|sync| Options {
            medium: FileOptions {
                inserter: inserter.into(),
                sync: sync.into(),
                segment_bytes: 1 << 20,
                ..FileOptions::default()
            }
            .into(),
            ..Options::default()
        })
    })
}

#[test]
fn what_was_appended_is_read_back_after_opening_again() {
    for options in combinations() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let log = Log::open_in(directory.clone(), options.clone()).unwrap();
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let log = log.clone();
                std::thread::spawn(move || {
                    let mut session = log.session().unwrap();
                    for number in 0..500u64 {
                        let payload = number.to_le_bytes();
                        let appended = session
                            .append(&Append::new(Kind::USER, &[&payload, &[7; 100]]).txn(thread))
                            .unwrap();
                        log.first().wait(appended.end, Durability::Durable).unwrap();
                        assert!(log.first().durable() >= appended.end);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        log.close().unwrap();
        drop(log);
        let log = Log::open_in(directory, options).unwrap();
        let mut next = [0u64; 8];
        for record in log.first().reader(log.first().start()).unwrap() {
            let record = record.unwrap();
            let number = u64::from_le_bytes(record.payload[..8].try_into().unwrap());
            assert_eq!(number, next[record.txn as usize]);
            next[record.txn as usize] += 1;
        }
        assert_eq!(next, [500; 8]);
    }
}

#[test]
fn callbacks_run_in_order_on_the_thread_that_polls() {
    for options in combinations() {
        let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
        let mut session = log.session().unwrap();
        let ran = Arc::new(AtomicU64::new(0));
        let here = std::thread::current().id();
        for number in 0..10_000u64 {
            let appended = session.append(&Append::new(Kind::USER, &[b"x"])).unwrap();
            let ran = ran.clone();
            session.on_complete(appended.end, Durability::Durable, move |outcome| {
                outcome.unwrap();
                assert_eq!(std::thread::current().id(), here);
                assert_eq!(ran.fetch_add(1, Ordering::Relaxed), number);
            });
            session.wait_below(100);
            assert!(session.pending() < 100);
        }
        session.drain();
        assert_eq!(ran.load(Ordering::Relaxed), 10_000);
    }
}

#[test]
fn blocking_commits_need_no_background_thread() {
    let options = Options {
        medium: FileOptions { segment_bytes: 4 << 20, ..FileOptions::default() }.into(),
        reserve_bytes: 4 << 10,
        ..Options::default()
    };
    let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    let mut session = log.session().expect("session");
    for _ in 0..1000 {
        let end = session.append(&Append::new(Kind::USER, &[b"x"])).expect("append").end;
        log.first().wait(end, Durability::Durable).expect("wait");
    }
    assert_eq!(log.counters().syncer_wakeups, 0);
    assert_eq!(log.counters().syncs, 1000);
}
