//! Tests of records that a thread appends after a checkpoint's capture, through a session whose
//! open chunk lies below the checkpoint's begin record.

use crate::pause::{PausePoint, with_hook};
use crate::{Database, InserterKind, Options, PagedOptions};
use katydid_device::{SimDevice, Survival};
use katydid_wal::{Background, InserterSettings};
use std::sync::mpsc::channel;

fn open(device: &SimDevice, inserter: InserterKind) -> Database {
    let pages = PagedOptions { page_bytes: 4096, ..PagedOptions::default() };
    let mut options = Options { engine: pages.into(), ..Options::default() };
    let settings = InserterSettings { chunk_always: true, ..InserterSettings::default() };
    options.advanced.log.medium = katydid_wal::FileOptions {
        segment_bytes: 256 << 10,
        inserter: settings.design(inserter),
        ..Default::default()
    }
    .into();
    options.advanced.log.reserve_bytes = 256 << 10;
    options.advanced.log.background = Background::Caller;
    Database::open_in(device.directory(), options).expect("open")
}

/// One thread has an open transaction and an open chunk of the log when another thread takes a
/// checkpoint. Between the capture and the checkpoint's end the first thread commits, and changes a
/// page that was not dirty. Both changes must survive a crash after the checkpoint.
#[test]
fn what_is_appended_after_the_capture_is_above_the_checkpoint() {
    for inserter in InserterKind::ALL {
        let device = SimDevice::new(1);
        let database = open(&device, inserter);
        let early = database.table("early").expect("table");
        let late = database.table("late").expect("table");
        database.put(&late, "k", "old").expect("put");
        database.paged().engine().checkpoint_all().expect("a checkpoint");
        let (captured, has_captured) = channel();
        let (leave, has_leave) = channel();
        std::thread::scope(|scope| {
            let (began, has_begun) = channel();
            let (database, early, late) = (&database, &early, &late);
            scope.spawn(move || {
                let txn = database.begin().expect("begin");
                txn.put(early, "k", "new").expect("put");
                began.send(()).expect("the other thread waits");
                has_captured.recv().expect("a capture");
                txn.put(late, "k", "new").expect("put");
                // This commit becomes durable together with the end of the checkpoint.
                let _durable = txn.commit_async();
                let loser = database.begin().expect("begin");
                loser.put(late, "k2", "lost").expect("put");
                leave.send(()).expect("the checkpoint waits");
                std::mem::forget(loser);
            });
            has_begun.recv().expect("the transaction");
            let hook = move |place| {
                if place == PausePoint::Captured {
                    captured.send(()).expect("the other thread waits");
                    has_leave.recv().expect("the other thread gives leave");
                }
            };
            with_hook(hook, || database.checkpoint().expect("a checkpoint"));
        });
        let device = device.reopen_with(1, Survival::DropAll);
        let database = open(&device, inserter);
        let get = |table: &str, key: &str| {
            let table = database.open_table(table).expect("open table").expect("the table");
            database.get(&table, key).expect("get")
        };
        assert_eq!(get("early", "k").as_deref(), Some(&b"new"[..]), "{inserter}");
        assert_eq!(get("late", "k").as_deref(), Some(&b"new"[..]), "{inserter}");
        assert_eq!(get("late", "k2"), None, "{inserter}");
        assert!(database.verify(None).expect("verify").is_sound());
    }
}
