//! Stores over logs in NVRAM: a log that cannot grow and is full again and again, and transactions
//! that keep the log from being trimmed.
//!
//! The tests `api`, `model`, `serial` and `crash` check what stores promise over any log, and run
//! over these logs too.

mod kill;
mod room;

use crate::common::{self, contents, key, options_for, with_advanced};
use katydid::{AdvancedOptions, Database, EngineKind, Error, LockRelease, Options};
use katydid_device::{Directory, Id, MemoryDirectory, SimDevice};
use std::sync::Arc;

suite! {
    in_nvram:
    a_full_ring_waits_for_checkpoints_and_loses_nothing,
    a_checkpoint_that_crashes_changes_nothing,
    a_failed_log_is_the_reason_that_every_later_call_gives,
    the_log_is_given_back_when_the_last_handle_is_dropped,
    another_kind_of_log_is_refused,
    stat_says_what_the_log_is_kept_in_and_how_full_it_is,
    sizes_that_are_too_small_are_named,
}

/// Bytes of each stream's ring: the smallest that the paged engine's pages allow.
pub const RING: u64 = 256 << 10;

/// Returns options of a database over a log with rings of [`RING`] bytes.
pub fn small(engine: EngineKind) -> Options {
    let options = crate::common::with_streams(options_for(engine), 2);
    let mut options = crate::common::with_memory(options, RING);
    options.advanced.log.sessions_max = 16;
    options.lock_wait = std::time::Duration::from_secs(60);
    options
}

/// Opens a database. A refusal fails the test.
pub fn open(directory: &Arc<dyn Directory>, options: &Options) -> Database {
    Database::open_in(directory.clone(), options.clone()).expect("open")
}

/// A log in NVRAM fails without a device call of the engine. The failed commit leaves behind locked
/// keys, versions whose outcome is not known, and a transaction that cannot be rolled back. Calls
/// that need one of these must still return the log's failure and not wait.
fn a_failed_log_is_the_reason_that_every_later_call_gives(engine: EngineKind) {
    for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
        let device = SimDevice::new(1);
        let options = with_advanced(small(engine), |advanced| advanced.lock_release = lock_release);
        let database = open(&device.directory(), &options);
        let table = database.table("t").unwrap();
        let other = database.begin().unwrap();
        other.put(&table, key(1), "value").unwrap();
        device.freeze();
        let is_poisoned = |what: &str, outcome: Result<(), Error>| {
            let error = outcome.expect_err(what);
            assert!(error.is_poisoned(), "{lock_release}, {what}: {error:?}");
        };
        is_poisoned("a commit", database.put(&table, key(0), "value"));
        is_poisoned("a read of what it wrote", database.get(&table, key(0)).map(drop));
        is_poisoned("a commit that was under way", other.commit().map(drop));
        // The memory engine has not installed the other transaction's value, and the paged engine
        // cannot undo it.
        match database.get(&table, key(1)) {
            Ok(found) => assert_eq!((engine, found), (EngineKind::Memory, None)),
            refused => is_poisoned("a read of what that one wrote", refused.map(drop)),
        }
        is_poisoned("a write", database.put(&table, key(2), "value"));
        is_poisoned("a sync", database.sync().map(drop));
        is_poisoned("a checkpoint", database.checkpoint().map(drop));
        is_poisoned("closing", database.close());
    }
}

/// Makes a directory in ordinary memory.
pub fn in_memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn a_full_ring_waits_for_checkpoints_and_loses_nothing(engine: EngineKind) {
    const THREADS: u64 = 4;
    let (directory, options) = (in_memory(), small(engine));
    let database = open(&directory, &options);
    let table = database.table("t").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (database, table) = (&database, &table);
            scope.spawn(move || {
                for number in 0..400 {
                    database
                        .transact(|txn| {
                            (0..3).try_for_each(|nth| {
                                let value = vec![number as u8; 400 + nth as usize];
                                txn.put(table, key(thread * 1000 + number % 50 * 3 + nth), value)
                            })?;
                            txn.put(table, format!("last-{thread}"), number.to_le_bytes())
                        })
                        .expect("nothing is in the way of making room");
                }
            });
        }
    });
    let stat = database.stat().unwrap();
    // Each transaction logs more than a kilobyte, and each checkpoint frees less than what the
    // streams hold. So the run needs at least this number of checkpoints.
    assert!(stat.checkpoints >= 1600 * 1024 / (2 * RING), "{} checkpoints", stat.checkpoints);
    let found = contents(&database, &table);
    assert_eq!(found.len() as u64, THREADS * 151);
    for thread in 0..THREADS {
        assert_eq!(found[format!("last-{thread}").as_bytes()], 399_u64.to_le_bytes());
    }
    database.close().unwrap();
    drop((table, database));
    let database = open(&directory, &options);
    let table = database.open_table("t").unwrap().expect("the table");
    assert_eq!(contents(&database, &table), found);
    common::assert_sound(&database.verify(None).unwrap());
}

fn a_checkpoint_that_crashes_changes_nothing(engine: EngineKind) {
    let mut options = small(engine);
    options.advanced.log.background = katydid::testing::Background::Caller;
    options.advanced.log.log_id = Some(Id::new(1));
    for step in 0.. {
        let device = SimDevice::new(7);
        let database = Database::open_in(device.directory(), options.clone()).expect("open");
        let table = database.table("t").unwrap();
        for number in 0..40 {
            database.put(&table, key(number % 30), vec![number as u8; 300]).unwrap();
        }
        let before = contents(&database, &table);
        // The crash is one of the device, or of one of the memories, in turn.
        let names = ["log/log.nvram", "log/stream-000/log.nvram", "log/stream-001/log.nvram"];
        let memories: Vec<_> = names.iter().filter_map(|name| device.nvram(name)).collect();
        match step % (memories.len() + 1) {
            0 => device.crash_at(device.steps() + step as u64 / (memories.len() as u64 + 1)),
            nth => {
                let memory = &memories[nth - 1];
                memory.crash_at(memory.steps() + step as u64 / (memories.len() as u64 + 1));
            }
        }
        let crashed = database.checkpoint().is_err();
        assert!(crashed || !device.is_crashed() || step > 0);
        device.freeze();
        drop((table, database));
        let device = device.reopen_after_crash(step as u64);
        let database = Database::open_in(device.directory(), options.clone()).expect("open");
        let table = database.open_table("t").unwrap().expect("the table");
        assert!(contents(&database, &table) == before, "step {step}");
        common::assert_sound(&database.verify(None).unwrap());
        if step > 150 {
            break;
        }
    }
}

fn the_log_is_given_back_when_the_last_handle_is_dropped(engine: EngineKind) {
    let (directory, options) = (in_memory(), small(engine));
    let database = open(&directory, &options);
    database.table("t").unwrap();
    database.close().unwrap();
    match Database::open_in(directory.clone(), options.clone()) {
        Err(Error::Locked { place, .. }) => assert!(place.contains("log.nvram"), "{place}"),
        other => panic!("{other:?}"),
    }
    drop(database);
    assert_eq!(open(&directory, &options).tables().unwrap(), ["t"]);
}

fn another_kind_of_log_is_refused(engine: EngineKind) {
    let (directory, options) = (in_memory(), small(engine));
    open(&directory, &options).table("t").unwrap();
    let made = options.advanced.log.medium.kind();
    for kind in katydid::LogKind::ALL.into_iter().filter(|kind| *kind != made) {
        let other = crate::common::with_memory(crate::common::with_log(options.clone(), kind), RING);
        let error = Database::open_in(directory.clone(), other).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::LogOpen(_)), "{text}");
        assert!(text.contains(&format!("{made}, not in {kind}")), "{text}");
    }
    assert_eq!(open(&directory, &options).tables().unwrap(), ["t"]);
}

fn stat_says_what_the_log_is_kept_in_and_how_full_it_is(engine: EngineKind) {
    let (directory, options) = (in_memory(), small(engine));
    let database = open(&directory, &options);
    let table = database.table("t").unwrap();
    database.checkpoint().unwrap();
    let before = database.stat().unwrap().log;
    assert_eq!(before.kind, options.advanced.log.medium.kind());
    assert!(before.nvram.expect("in NVRAM").to_string().starts_with("EMULATED"));
    database.put(&table, "k", vec![1; 50_000]).unwrap();
    let after = database.stat().unwrap().log.fullness.expect("in NVRAM");
    assert!(after > before.fullness.expect("in NVRAM") + 100, "{after}");
    let disk = Options {
        advanced: AdvancedOptions { log: katydid::LogOptions::default(), ..options.advanced },
        ..options
    };
    let stat = open(&in_memory(), &disk).stat().unwrap().log;
    assert_eq!((stat.kind, stat.nvram, stat.fullness), (katydid::LogKind::Disk, None, None));
}

fn sizes_that_are_too_small_are_named(engine: EngineKind) {
    use crate::common::with_memory;
    let bad = |change: fn(Options) -> Options| match Database::open_in(in_memory(), change(small(engine))) {
        Err(Error::Option { option, reason }) => (option, reason),
        other => panic!("{other:?}"),
    };
    let (option, reason) = bad(|options| with_memory(options, 32 << 10));
    assert_eq!(option, "log.nvram.bytes");
    assert!(reason.contains("must be at least"), "{reason}");
    assert_eq!(bad(|options| with_memory(options, 300_000)).0, "nvram.bytes");
    assert_eq!(
        bad(|options| Options {
            advanced: AdvancedOptions { nvram_checkpoint: 9, ..options.advanced },
            ..options
        })
        .0,
        "nvram_checkpoint"
    );
    assert_eq!(
        bad(|options| Options {
            advanced: AdvancedOptions { nvram_checkpoint: 91, ..options.advanced },
            ..options
        })
        .0,
        "nvram_checkpoint"
    );
}
