//! One call of the log fails, once, while callers of every kind wait for it; afterwards the device
//! works again.

use crate::common::{assert_sound, block_on, contents};
use crate::{Setting, first, is_segment, later};
use katydid::{Database, EngineKind, Error, LockRelease, Read, Table, Transaction, TransactionOptions};
use katydid_device::{Fault, Method, SimDevice, Verb};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// A name, the fault of a write of the log, and the fault of a sync.
const FAULTS: &[(&str, Option<Fault>, Option<Fault>)] = &[
    ("a sync fails", Some(Fault::SyncIo), Some(Fault::SyncIo)),
    ("a write fails", Some(Fault::Io), None),
    ("there is no room for a write", Some(Fault::NoSpace), None),
    ("a write is cut after a sector", Some(Fault::ShortWrite(1)), None),
    ("a write is cut in its middle", Some(Fault::ShortWrite(5)), None),
];

/// Keys that each transaction writes, all or none.
const PARTS: [&str; 3] = ["a", "k", "z"];
const SAFE: u64 = 20;

fn key(part: &str, txn: u64) -> String {
    format!("{part}-{txn:03}")
}

/// Outcomes that callers got.
#[derive(Debug, Default)]
struct Acknowledged {
    /// Transactions whose commits were acknowledged.
    acknowledged: BTreeSet<u64>,
    /// Transactions whose writes durable readers were shown.
    shown: BTreeSet<u64>,
    causes: BTreeSet<String>,
}

type Ledger = Arc<Mutex<Acknowledged>>;

fn hear<T>(ledger: &Ledger, outcome: Result<T, Error>, success: impl FnOnce(&mut Acknowledged, T)) {
    let mut outcomes = ledger.lock().expect("no panic");
    match outcome {
        Ok(value) => success(&mut outcomes, value),
        Err(error) if error.is_poisoned() => drop(outcomes.causes.insert(first(&error))),
        // The memory engine has refused the commit.
        Err(error) if error.is_retryable() => {}
        Err(other) => panic!("{other}"),
    }
}

fn write(database: &Database, table: &Table, txn: u64) -> Result<Transaction, Error> {
    let open = database.begin()?;
    for part in PARTS {
        open.put(table, key(part, txn), vec![txn as u8; 300])?;
    }
    Ok(open)
}

/// Reads the key of transaction 1 until it is there or the device has failed. Notes the transaction
/// as shown when a durable read has found the key, or when a reader that found the key has
/// committed.
fn reader(database: &Database, table: &Table, read: Read, ledger: &Ledger) {
    loop {
        // After a failure the key may never appear, so this round is the last.
        let last = !ledger.lock().expect("no panic").causes.is_empty();
        let outcome: Result<bool, Error> = (|| {
            let txn = database.begin_with(TransactionOptions { read, ..Default::default() })?;
            let found = txn.get(table, key("a", 1))?.is_some();
            if found && read == Read::Durable {
                // The write was shown, however the reader's transaction ends.
                ledger.lock().expect("no panic").shown.insert(1);
            }
            txn.commit()?;
            Ok(found)
        })();
        let again = match &outcome {
            Ok(found) => !found,
            Err(error) => error.is_retryable(),
        };
        let done = last || !again;
        hear(ledger, outcome, |outcomes, found| {
            if found {
                outcomes.shown.insert(1);
            }
        });
        if done {
            return;
        }
        std::thread::yield_now();
    }
}

/// Runs one caller, whose number says how it commits.
fn writer(database: &Database, table: &Table, txn: u64, ledger: &Ledger) {
    let acknowledge = move |outcomes: &mut Acknowledged, _| outcomes.acknowledged.extend([txn]);
    match txn {
        1..4 => {
            hear(ledger, write(database, table, txn).and_then(Transaction::commit), acknowledge);
        }
        4..6 => {
            let future = write(database, table, txn).map(Transaction::commit_async);
            hear(ledger, future.and_then(block_on), acknowledge);
        }
        _ => {
            // This thread goes on with other transactions while the first ones wait.
            let session = database.session();
            for txn in [txn, txn + 10, txn + 20] {
                match write(database, table, txn) {
                    Ok(open) => {
                        let ledger = ledger.clone();
                        open.commit_with(&session, move |outcome| {
                            hear(&ledger, outcome, |outcomes, _| outcomes.acknowledged.extend([txn]));
                        });
                    }
                    Err(error) => hear(ledger, Err(error), acknowledge),
                }
            }
            session.drain().expect("each callback gets its outcome");
            assert_eq!(session.pending(), 0);
        }
    }
}

fn check(database: &Database, outcomes: &Acknowledged, when: &str) {
    let table = database.open_table("t").expect("open table").expect("the table");
    let rows = contents(database, &table);
    for number in 0..SAFE {
        assert_eq!(rows.get(key("safe", number).as_bytes()).map(Vec::as_slice), Some(&b"safe"[..]), "{when}");
    }
    let mut parts: BTreeMap<u64, usize> = BTreeMap::new();
    for (row, value) in rows.iter().filter(|(row, _)| !row.starts_with(b"safe")) {
        let text = String::from_utf8_lossy(row);
        let txn: u64 = text.split('-').nth(1).and_then(|text| text.parse().ok()).expect("a number");
        assert_eq!(*value, vec![txn as u8; 300], "{when}: {text}");
        *parts.entry(txn).or_default() += 1;
    }
    for (txn, count) in &parts {
        assert_eq!(*count, PARTS.len(), "{when}: transaction {txn} is there in part");
    }
    let lost = outcomes.acknowledged.iter().chain(&outcomes.shown).find(|txn| !parts.contains_key(txn));
    assert_eq!(lost, None, "{when}: acknowledged or shown, and lost");
    assert_sound(&database.verify(None).expect("verify"));
}

fn fails(setting: Setting, on_write: Option<Fault>, on_sync: Option<Fault>) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), setting.options()).expect("open");
    let table = database.table("t").expect("table");
    for number in 0..SAFE {
        database.put(&table, key("safe", number), "safe").expect("put");
    }
    let ledger = Ledger::default();
    std::thread::scope(|scope| {
        struct ResumeOnDrop<'a>(&'a SimDevice);
        impl Drop for ResumeOnDrop<'_> {
            fn drop(&mut self) {
                self.0.stall_writes(false);
            }
        }
        device.stall_writes(true);
        let standstill = ResumeOnDrop(&device);
        let (database, table, ledger) = (&database, &table, &ledger);
        for txn in 1..8 {
            scope.spawn(move || writer(database, table, txn, ledger));
        }
        for read in [Read::Visible, Read::Durable] {
            scope.spawn(move || reader(database, table, read, ledger));
        }
        device.wait_stalled(1);
        let direct = setting.method == Method::Direct;
        let mut left = true;
        device.fail_when(move |verb, path, _| {
            let fault = match verb {
                _ if !left || !is_segment(path) => None,
                Verb::Write => on_write.filter(|fault| direct || *fault != Fault::SyncIo),
                Verb::Sync => on_sync,
                _ => None,
            };
            left &= fault.is_none();
            fault
        });
        drop(standstill);
    });
    let Acknowledged { acknowledged, shown, mut causes } =
        std::mem::take(&mut *ledger.lock().expect("no panic"));
    let outcomes = Acknowledged { acknowledged, shown, causes: BTreeSet::new() };
    assert!(!causes.is_empty(), "nobody heard of it");
    // The device works again, but nothing is written and no commit succeeds. A background call that
    // passed the gate before it shut may still arrive, but such calls come to an end.
    let nothing_arrives = (0..20).any(|_| {
        let steps = device.steps();
        let refused = [
            database.put(&table, "x", "y"),
            database.sync().map(drop),
            write(&database, &table, 99).and_then(|txn| txn.commit().map(drop)),
        ];
        for outcome in refused {
            let error = outcome.expect_err("the device failed");
            assert!(error.is_poisoned(), "{error}");
            causes.insert(first(&error));
        }
        assert!(database.checkpoint().is_err());
        device.steps() == steps
    });
    assert!(nothing_arrives, "something reaches the device again and again");
    assert_eq!(causes.len(), 1, "one first cause: {causes:?}");
    assert!(causes.iter().all(|cause| cause.contains("/log.0")), "{causes:?} names no file");
    // Durable rows can still be read.
    let txn = database.begin().expect("begin");
    for number in 0..SAFE {
        assert_eq!(txn.get(&table, key("safe", number)).expect("get").as_deref(), Some(&b"safe"[..]));
    }
    // With early release the engine knows only for whole buckets of keys whether they are durable.
    // So the commit of such a read may be refused, but is never wrongly granted.
    match txn.commit() {
        Err(error) if !error.is_poisoned() => panic!("{error}"),
        outcome => assert!(outcome.is_ok() || setting.release == LockRelease::Early, "{outcome:?}"),
    }
    assert!(database.close().expect_err("the device failed").is_poisoned());
    drop((table, database));
    for (when, device) in later(&device) {
        let database = Database::open_in(device.directory(), setting.options()).expect(&when);
        check(&database, &outcomes, &when);
        let table = database.open_table("t").expect("open table").expect("the table");
        database.put(&table, key("safe", 0), "safe").expect("a database like any other");
    }
}

suite! { after_a_failed_call_all_hear_the_first_cause_and_nothing_acknowledged_is_lost }

fn after_a_failed_call_all_hear_the_first_cause_and_nothing_acknowledged_is_lost(engine: EngineKind) {
    for (name, on_write, on_sync) in FAULTS {
        for setting in Setting::all(engine) {
            println!("{name}: {setting:?}");
            fails(setting, *on_write, on_sync.filter(|_| setting.method == Method::Buffered));
        }
    }
}
