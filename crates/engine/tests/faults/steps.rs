//! Each call that changes the device fails in one run: in creating, committing, checkpoints,
//! rotation, closing and opening. In another test each read of recovery fails in one opening. All
//! work is done on the test's thread, so the number of a call names the same call in every run.

use crate::common::{assert_sound, block_on, contents, seed};
use crate::{Setting, later};
use katydid::testing::{Background, run_background};
use katydid::{Database, EngineKind, Error, Options, Session, Table};
use katydid_device::{Fault, SimDevice, Verb};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

fn options(setting: Setting) -> Options {
    let mut options = setting.options();
    options.advanced.log.background = Background::Caller;
    options.advanced.log = options.advanced.log.map_files(|files| katydid::FileOptions {
        segment_bytes: 32 << 10,
        ring_bytes: 16 << 10,
        ..files
    });
    options.advanced.log.reserve_bytes = 16 << 10;
    options.advanced.log.run_ahead_bytes = 8 << 10;
    options
}

/// Transactions by number: how many were attempted, and which are acknowledged. A transaction
/// writes two keys.
#[derive(Debug, Default)]
struct Acknowledged {
    attempted: u64,
    acknowledged: Vec<u64>,
}

fn key(txn: u64, part: u64) -> String {
    format!("{part}-{txn:04}")
}

fn value(txn: u64) -> Vec<u8> {
    vec![txn as u8; 50 + (txn * 97 % 900) as usize]
}

/// Runs a call, and runs it again if it was refused with `NoSpace`. The fault happens once, so the
/// second call finds space.
fn insist<T>(mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    match call() {
        Err(error) if error.is_no_space() && !is_lost(&error) => match call() {
            Err(error) if error.is_no_space() && !is_lost(&error) => {
                panic!("no space, and that does not clear")
            }
            outcome => outcome,
        },
        outcome => outcome,
    }
}

/// Returns whether the device had no space for a write or sync. Such an error has shut the gate.
fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Device(error) if !error.is_no_space_ahead())
}

/// Puts two keys, and in some rounds deletes and puts a key of an earlier transaction. Commits by
/// blocking, by a future or by a callback.
fn transaction(database: &Database, table: &Table, session: &Session, number: u64) -> Result<(), Error> {
    let round = (number - 1) % 12;
    let txn = database.begin()?;
    txn.put(table, key(number, 0), value(number))?;
    txn.put(table, key(number, 1), value(number))?;
    if round % 5 == 4 {
        txn.delete(table, key(number - 2, 0))?;
        txn.put(table, key(number - 2, 0), value(number - 2))?;
    }
    match round % 3 {
        0 => drop(txn.commit()?),
        1 => {
            let future = txn.commit_async();
            run_background(database);
            block_on(future)?;
        }
        _ => {
            let done = Arc::new(Mutex::new(None));
            let answer = done.clone();
            txn.commit_with(session, move |outcome| *answer.lock().expect("no panic") = Some(outcome));
            session.drain()?;
            let outcome = done.lock().expect("no panic").take();
            outcome.expect("drained")?;
        }
    }
    Ok(())
}

fn live(device: &SimDevice, options: &Options, history: &mut Acknowledged) -> Result<(), Error> {
    for _ in 0..2 {
        let database = insist(|| Database::open_in(device.directory(), options.clone()))?;
        let table = insist(|| database.table("t"))?;
        let session = database.session();
        for round in 0..12 {
            history.attempted += 1;
            let number = history.attempted;
            // The first appends to a young log prepare its segments, so the commit may get
            // `NoSpace` too. The transaction is then run again.
            insist(|| transaction(&database, &table, &session, number))?;
            history.acknowledged.push(number);
            if round % 6 == 5 {
                insist(|| database.checkpoint())?;
            }
        }
        drop(session);
        insist(|| database.close())?;
    }
    Ok(())
}

fn check(device: &SimDevice, options: &Options, history: &Acknowledged, when: &str) {
    let database = Database::open_in(device.directory(), options.clone())
        .unwrap_or_else(|error| panic!("{when}: {error}\n{}", device.dump()));
    let found = match database.open_table("t").expect("open table") {
        Some(table) => contents(&database, &table),
        None => BTreeMap::new(),
    };
    for number in 1..=history.attempted {
        let parts: Vec<_> = (0..2).map(|part| found.get(key(number, part).as_bytes())).collect();
        let whole = parts.iter().all(|part| part.is_some_and(|found| *found == value(number)));
        let none = parts.iter().all(Option::is_none);
        assert!(
            whole || none && !history.acknowledged.contains(&number),
            "{when}: transaction {number}: {parts:?}"
        );
    }
    assert!(found.len() as u64 <= 2 * history.attempted);
    assert_sound(&database.verify(None).expect("verify"));
}

fn steps(options: &Options) -> u64 {
    let device = SimDevice::new(1);
    live(&device, options, &mut Acknowledged::default()).expect("a life without a fault");
    device.steps()
}

/// Runs a life in which call number `step` fails.
fn fail_at(options: &Options, step: u64, fault: Fault) {
    // The seed decides which sectors a failing sync loses.
    let device = SimDevice::new(seed(0).wrapping_add(step));
    let struck = Arc::new(Mutex::new(None));
    let seen = struck.clone();
    device.fail_when(move |verb, path, number| {
        (number == step).then(|| {
            *seen.lock().expect("no panic") = Some((verb, path.to_owned()));
            fault
        })
    });
    let mut history = Acknowledged::default();
    let end = live(&device, options, &mut history);
    let struck = struck.lock().expect("no panic").take();
    let Some((verb, path)) = struck else { return };
    println!("step {step}: {fault:?} in {verb} {path}: {end:?}");
    match &end {
        Ok(()) => assert!(
            !matches!(verb, Verb::Write | Verb::Sync | Verb::SyncDirectory),
            "a failed {verb} was passed over"
        ),
        Err(error) => {
            assert!(error.is_poisoned() || matches!(error, Error::Device(_)), "taken for {error:?}");
            let ahead = fault == Fault::NoSpace && matches!(verb, Verb::Prepare | Verb::Open | Verb::Rename);
            assert!(!ahead, "a lack of room that was met ahead of use ended it: {error}");
        }
    }
    device.heal();
    for (when, device) in later(&device) {
        check(&device, options, &history, &when);
    }
}

suite! {
    a_failure_at_any_step_loses_nothing_that_was_acknowledged,
    a_read_of_recovery_that_fails_is_an_error_of_the_device_and_harms_nothing,
}

/// Each step fails with one of the settings, in turn, so that each kind of call fails with every
/// setting.
fn a_failure_at_any_step_loses_nothing_that_was_acknowledged(engine: EngineKind) {
    let settings: Vec<Options> = Setting::all(engine).into_iter().map(options).collect();
    let total = settings.iter().map(steps).max().expect("settings");
    for (round, fault) in [Fault::NoSpace, Fault::Io, Fault::SyncIo].into_iter().enumerate() {
        for step in 0..total {
            fail_at(&settings[(step as usize + round) % settings.len()], step, fault);
        }
    }
}

/// Returns a database of several segments and pages that a crash has ended.
fn crashed(options: &Options) -> (SimDevice, Acknowledged) {
    let device = SimDevice::new(1);
    let mut history = Acknowledged::default();
    live(&device, options, &mut history).expect("a life without a fault");
    let database = Database::open_in(device.directory(), options.clone()).expect("open");
    let table = database.table("t").expect("table");
    for _ in 0..12 {
        history.attempted += 1;
        let number = history.attempted;
        let txn = database.begin().expect("begin");
        txn.put(&table, key(number, 0), value(number)).expect("put");
        txn.put(&table, key(number, 1), value(number)).expect("put");
        txn.commit().expect("commit");
        history.acknowledged.push(number);
    }
    // Recovery has to undo this transaction.
    let open = database.begin().expect("begin");
    open.put(&table, "0-0003", "never").expect("put");
    open.put(&table, "never", "never").expect("put");
    database.sync().expect("sync");
    device.freeze();
    (device, history)
}

/// A file and a part of it.
type Bytes = (String, Range<u64>);

/// Opens the database once for each read of an opening, and makes that read fail. If `stays`, all
/// later reads of the same bytes fail too.
fn each_read_fails(options: &Options, stays: bool) {
    let (crashed, history) = crashed(options);
    let mut refused = 0;
    for nth in 0.. {
        let device = crashed.reopen_after_kill();
        let bad: Arc<Mutex<Option<Bytes>>> = Arc::default();
        let (seen, mut reads) = (bad.clone(), 0);
        device.fail_reads_when(move |path, range| {
            let mut bad = seen.lock().expect("no panic");
            reads += 1;
            match &*bad {
                None if reads == nth + 1 => {
                    *bad = Some((path.to_owned(), range));
                    true
                }
                Some((file, bytes)) => {
                    stays && file == path && bytes.start < range.end && range.start < bytes.end
                }
                None => false,
            }
        });
        let outcome = Database::open_in(device.directory(), options.clone());
        let Some((file, bytes)) = bad.lock().expect("no panic").take() else {
            assert!(outcome.is_ok(), "{outcome:?}");
            break;
        };
        let what = format!("read {nth}, of {file} bytes {bytes:?}");
        match outcome {
            Err(Error::Device(error)) => {
                assert_eq!(error.verb, Verb::Read, "{what}: {error}");
                refused += 1;
            }
            // Opening may succeed, because a page is read again if reading it ahead failed, and an
            // unreadable page fails only the call that needs it.
            Ok(database) => drop(database),
            Err(error) => panic!("{what}: a failing read was taken for {error}"),
        }
        device.heal();
        check(&device, options, &history, &what);
        check(&device.reopen_with(nth, katydid_device::Survival::DropAll), options, &history, &what);
    }
    assert!(refused > 4, "only {refused} failing reads were reported");
}

fn a_read_of_recovery_that_fails_is_an_error_of_the_device_and_harms_nothing(engine: EngineKind) {
    let settings = Setting::all(engine);
    for stays in [false, true] {
        for setting in settings.iter().step_by(3) {
            println!("{setting:?}");
            each_read_fails(&options(*setting), stays);
        }
    }
}
