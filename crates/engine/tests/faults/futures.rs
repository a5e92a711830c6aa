//! Dropping the future of a commit changes nothing, at whatever moment it happens. The device gets
//! the same calls and holds the same bytes, and the locks are released as without the drop.

use crate::Setting;
use crate::common::contents;
use katydid::testing::{Background, run_background};
use katydid::{Database, Durability, EngineKind, TransactionOptions};
use katydid_device::{SimDevice, Survival};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// End of a future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FutureEnd {
    Kept,
    DroppedBeforeItIsPolled,
    DroppedWhilePending,
    DroppedWhenReady,
    DroppedAfterItsAnswer,
}

const ENDS: [FutureEnd; 4] = [
    FutureEnd::DroppedBeforeItIsPolled,
    FutureEnd::DroppedWhilePending,
    FutureEnd::DroppedWhenReady,
    FutureEnd::DroppedAfterItsAnswer,
];

/// Everything on the device: what programs see, and what a crash would leave.
#[derive(PartialEq)]
struct Outcome {
    steps: u64,
    seen: BTreeMap<String, Vec<u8>>,
    kept: BTreeMap<String, Vec<u8>>,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn run(setting: Setting, future_end: FutureEnd) -> Outcome {
    let mut options = setting.options();
    options.advanced.log.background = Background::Caller;
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options.clone()).expect("open");
    let table = database.table("t").expect("table");
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..40u64 {
        let durability =
            [Durability::Durable, Durability::Written, Durability::Buffered][(round % 3) as usize];
        let txn =
            database.begin_with(TransactionOptions { durability, ..Default::default() }).expect("begin");
        // The keys repeat, so that a transaction would wait for a lock that was not released.
        txn.put(&table, format!("{:02}", round % 7), round.to_string()).expect("put");
        txn.put(&table, format!("own {round}"), "1").expect("put");
        let mut future = txn.commit_async();
        // The future is pending, unless locks are released after durable: with
        // `Background::Caller` this thread has then already waited for the log.
        let pending = |answer: Poll<_>| match answer {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                let _end: katydid::CommitStamp = katydid::Result::expect(answer, "committed");
                false
            }
        };
        match future_end {
            FutureEnd::DroppedBeforeItIsPolled => {
                drop(future);
                run_background(&database);
            }
            FutureEnd::DroppedWhilePending => {
                pending(Pin::new(&mut future).poll(&mut context));
                drop(future);
                run_background(&database);
            }
            FutureEnd::DroppedWhenReady => {
                run_background(&database);
                drop(future);
            }
            FutureEnd::DroppedAfterItsAnswer | FutureEnd::Kept => {
                pending(Pin::new(&mut future).poll(&mut context));
                run_background(&database);
                assert!(!pending(Pin::new(&mut future).poll(&mut context)), "not ready");
                if future_end == FutureEnd::Kept {
                    assert!(!pending(Pin::new(&mut future).poll(&mut context)), "it answers again");
                }
            }
        }
    }
    let rows = contents(&database, &table);
    assert_eq!(rows.len(), 47);
    let (steps, mut seen, mut kept) = (device.steps(), device.image(), device.durable_image());
    if setting.engine == EngineKind::Memory {
        // Timestamps come from the clock, so the bytes differ between runs. Compare only the names
        // and the lengths of files.
        seen.values_mut().chain(kept.values_mut()).for_each(|bytes| bytes.fill(0));
    }
    device.freeze();
    drop((table, database));
    // The last commits that asked for durability are there even after a crash of the machine.
    let device = device.reopen_with(1, Survival::DropAll);
    let database = Database::open_in(device.directory(), options).expect("open");
    let table = database.open_table("t").expect("open table").expect("the table");
    assert!(contents(&database, &table).contains_key(&b"own 39"[..]));
    Outcome { steps, seen, kept, rows }
}

suite! {
    a_commit_future_dropped_at_any_moment_changes_nothing,
    locks_go_though_nobody_polls_the_future,
}

fn a_commit_future_dropped_at_any_moment_changes_nothing(engine: EngineKind) {
    for setting in Setting::all(engine) {
        let expected = run(setting, FutureEnd::Kept);
        for future_end in ENDS {
            let outcome = run(setting, future_end);
            assert_eq!(outcome.steps, expected.steps, "{setting:?}, {future_end:?}");
            assert!(outcome.rows == expected.rows, "{setting:?}, {future_end:?}: other rows");
            assert!(outcome == expected, "{setting:?}, {future_end:?}: the device holds something else");
        }
    }
}

/// The database's own threads release the locks even if the future was dropped, so other
/// transactions get the locks.
fn locks_go_though_nobody_polls_the_future(engine: EngineKind) {
    for setting in Setting::all(engine) {
        let device = SimDevice::new(1);
        let database = Database::open_in(device.directory(), setting.options()).expect("open");
        let table = database.table("t").expect("table");
        for round in 0..30u64 {
            let txn = database.begin().expect("begin");
            txn.put(&table, "hot", round.to_string()).expect("put");
            let mut future = txn.commit_async();
            if round % 2 == 0 {
                let _answer = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
            }
            drop(future);
        }
        // This read waits for the lock, and until the value is durable.
        assert_eq!(database.get(&table, "hot").expect("get").as_deref(), Some(&b"29"[..]), "{setting:?}");
        device.freeze();
        drop((table, database));
        let device = device.reopen_with(1, Survival::DropAll);
        let database = Database::open_in(device.directory(), setting.options()).expect("open");
        let table = database.open_table("t").expect("open table").expect("the table");
        assert_eq!(contents(&database, &table)[&b"hot"[..]], b"29", "{setting:?}");
    }
}
