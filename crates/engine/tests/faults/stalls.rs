//! The device stalls for seconds and then goes on: `stat` shows the stalled call, no commit
//! succeeds meanwhile, and nothing is lost. The seconds are those of a clock that the test moves.

use crate::common::{block_on, contents};
use crate::{Setting, later};
use katydid::{Database, EngineKind, Stalls};
use katydid_device::{SimDevice, Watch};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct ResumeOnDrop<'a>(&'a SimDevice);

impl Drop for ResumeOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stall_writes(false);
    }
}

suite! { a_device_that_stalls_shows_in_stat_and_loses_nothing }

fn a_device_that_stalls_shows_in_stat_and_loses_nothing(engine: EngineKind) {
    for setting in Setting::all(engine) {
        println!("{setting:?}");
        let device = SimDevice::new(1);
        let (watch, clock) = Watch::by_hand(Duration::from_secs(1));
        let database =
            katydid::testing::open_watched(device.directory(), setting.options(), watch).expect("open");
        let table = database.table("t").expect("table");
        assert_eq!(database.stat().expect("stat").stalls, Stalls::default());
        let acknowledged = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            device.stall_writes(true);
            let standstill = ResumeOnDrop(&device);
            for number in 0..3 {
                let (database, table, acknowledged) = (&database, &table, &acknowledged);
                scope.spawn(move || {
                    let txn = database.begin().expect("begin");
                    txn.put(table, format!("{number}"), "1").expect("put");
                    match number {
                        0 => drop(txn.commit().expect("commit")),
                        1 => drop(block_on(txn.commit_async()).expect("commit")),
                        _ => {
                            let session = database.session();
                            txn.commit_with(&session, |outcome| assert!(outcome.is_ok()));
                            session.drain().expect("drain");
                        }
                    }
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                });
            }
            device.wait_stalled(1);
            clock.advance(Duration::from_secs(30));
            let stalls = database.stat().expect("stat").stalls;
            let stall = stalls.under_way.expect("a call under way");
            // The call is on the log, on its next segment that is being prepared, or on the pages'
            // file, which grows ahead of use.
            let subject = &stall.subject;
            assert!(subject.starts_with("log/") || subject.starts_with("katydid.pages"), "{stall:?}");
            assert_eq!((stalls.longest, stall.lasts), (Duration::from_secs(30), Duration::from_secs(30)));
            assert_eq!(acknowledged.load(Ordering::SeqCst), 0, "acknowledged while the device stands still");
            drop(standstill);
        });
        assert_eq!(acknowledged.load(Ordering::SeqCst), 3);
        let stalls = database.stat().expect("stat").stalls;
        assert!(stalls.count > 0 && stalls.longest == Duration::from_secs(30), "{stalls:?}");
        database.put(&table, "after", "1").expect("put");
        device.freeze();
        drop((table, database));
        for (when, device) in later(&device) {
            let database = Database::open_in(device.directory(), setting.options()).expect(&when);
            let table = database.open_table("t").expect("open table").expect("the table");
            assert_eq!(contents(&database, &table).len(), 4, "{when}");
        }
    }
}
