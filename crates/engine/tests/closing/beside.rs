//! Each public call is held up at each of its device calls while another thread closes the
//! database. In other runs a pair of calls is held up.
//!
//! Each run checks four things. No device call of the old opening ends after `close` has returned,
//! except reads of a feed or a backup. Every error is `Closed`, or a conflict between the two calls
//! of a pair. The closed database is sound. Every acknowledged commit is there.
//!
//! The call is released when `close` has returned, or when the closing thread sleeps because calls
//! are in flight (`testing::close_waits`). A closing thread may also wait inside the log or for a
//! latch. The call is then released after a while, which only makes the test weaker.

use crate::common::{self, Rng, options_for};
use crate::device::{CallPoint, Held, Watched, held_up};
use katydid::{BackupOptions, ChangesFrom, Database, EngineKind, Error, Options, Result, Table, Transaction};
use katydid_device::{Directory, MemoryDirectory};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for a state that may never come.
const A_WHILE: Duration = Duration::from_millis(100);

/// A database with rows, as a call finds it.
#[derive(Clone)]
struct World {
    database: Database,
    rows: Table,
    wide: Table,
}

/// Effect of a call, if it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Nothing,
    /// The value of this key of `rows` has this number of bytes.
    Value(&'static str, usize),
    /// This key of `rows` is gone.
    NoValue(&'static str),
    Table(&'static str),
    NoTable(&'static str),
}

/// A public call: its name, its preparation, the call itself, and its effect.
struct Operation {
    name: &'static str,
    /// Begins the transaction in which the call is made, or which the call ends.
    prepare: fn(&World) -> Option<Transaction>,
    run: fn(&World, Option<Transaction>) -> Result<()>,
    effect: Effect,
}

impl Operation {
    /// Returns whether the call's transaction is `long`.
    fn is_long(&self) -> bool {
        ["commit", "commit_async", "commit_with", "rollback", "drop of a transaction"].contains(&self.name)
    }
}

fn none(_: &World) -> Option<Transaction> {
    None
}

fn begun(world: &World) -> Option<Transaction> {
    Some(world.database.begin().unwrap())
}

/// Returns a transaction that has changed more than the cache holds, and whose undo is only in the
/// log.
fn long(world: &World) -> Option<Transaction> {
    let txn = world.database.begin().unwrap();
    for number in 0..60 {
        txn.put(&world.wide, format!("{number:04}"), vec![2; 210]).unwrap();
    }
    txn.put(&world.rows, "long", vec![b'l'; 7]).unwrap();
    Some(txn)
}

fn operation(
    name: &'static str,
    prepare: fn(&World) -> Option<Transaction>,
    effect: Effect,
    run: fn(&World, Option<Transaction>) -> Result<()>,
) -> Operation {
    Operation { name, prepare, run, effect }
}

fn operations() -> Vec<Operation> {
    use Effect::{NoTable, NoValue, Nothing, Value};
    vec![
        operation("get", none, Nothing, |at, _| at.database.get(&at.wide, "0075").map(drop)),
        operation("put", none, Value("put", 3), |at, _| at.database.put(&at.rows, "put", "new")),
        operation("put of a long value", none, Value("huge", 50_000), |at, _| {
            at.database.put(&at.rows, "huge", vec![3; 50_000])
        }),
        operation("delete of a long value", none, NoValue("old"), |at, _| {
            at.database.delete(&at.rows, "old").map(drop)
        }),
        operation("insert and commit", begun, Value("insert", 1), |at, txn| {
            let txn = txn.expect("begun");
            txn.insert(&at.rows, "insert", "v")?;
            txn.commit().map(drop)
        }),
        operation("get_for_update", begun, Nothing, |at, txn| {
            txn.expect("begun").get_for_update(&at.wide, "0140").map(drop)
        }),
        operation("range", begun, Nothing, |at, txn| {
            txn.expect("begun").range(&at.wide, ..).try_for_each(|entry| entry.map(drop))
        }),
        operation("commit", long, Value("long", 7), |_, txn| txn.expect("begun").commit().map(drop)),
        operation("commit_async", long, Value("long", 7), |_, txn| {
            common::block_on(txn.expect("begun").commit_async()).map(drop)
        }),
        operation("transact_async", none, Value("async", 9), |at, _| {
            let rows = at.rows.clone();
            common::block_on(at.database.transact_async(move |txn| txn.put(&rows, "async", "new value")))
        }),
        operation("commit_with", long, Value("long", 7), |at, txn| {
            let (sender, outcome_of_commit) = std::sync::mpsc::channel();
            let session = at.database.session();
            txn.expect("begun").commit_with(&session, move |outcome| sender.send(outcome.map(drop)).unwrap());
            // Draining returns `Closed` if the database was closed meanwhile, but the callback has
            // run.
            let _closed = session.drain();
            outcome_of_commit.try_recv().expect("a callback of a drained session has run")
        }),
        operation("rollback", long, NoValue("long"), |_, txn| txn.expect("begun").rollback()),
        operation("drop of a transaction", long, Nothing, |_, txn| {
            drop(txn);
            Ok(())
        }),
        operation("rollback_to", begun, Value("before", 1), |at, txn| {
            let txn = txn.expect("begun");
            txn.put(&at.rows, "before", "v")?;
            let savepoint = txn.savepoint();
            txn.put(&at.wide, "0100", vec![4; 300])?;
            txn.rollback_to(&savepoint)?;
            txn.commit().map(drop)
        }),
        operation("sync", none, Nothing, |at, _| at.database.sync().map(drop)),
        operation("checkpoint", none, Nothing, |at, _| at.database.checkpoint().map(drop)),
        operation(
            "checkpoint with nothing new",
            |at| {
                at.database.checkpoint().unwrap();
                None
            },
            Nothing,
            |at, _| at.database.checkpoint().map(drop),
        ),
        operation("table", none, Effect::Table("made"), |at, _| at.database.table("made").map(drop)),
        operation("open_table", none, Nothing, |at, _| at.database.open_table("unused").map(drop)),
        operation("tables", none, Nothing, |at, _| at.database.tables().map(drop)),
        operation("drop_table", none, NoTable("dropped"), |at, _| {
            at.database.drop_table("dropped").map(drop)
        }),
        operation("rename_table", none, NoTable("dropped"), |at, _| {
            at.database.rename_table("dropped", "renamed").map(drop)
        }),
        operation("a sequence", none, Nothing, |at, _| {
            let ten = std::num::NonZeroU64::new(10).expect("it is ten");
            at.database.sequence(&at.rows, "numbers", ten)?.next().map(drop)
        }),
        operation("a feed", none, Nothing, |at, _| {
            let mut feed = at.database.changes(&ChangesFrom::Oldest)?;
            loop {
                match feed.try_next() {
                    Ok(Some(_)) => {}
                    // A feed pins nothing: the checkpoint of `close` may trim the log past it.
                    Ok(None) | Err(Error::ChangesGap { .. }) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        }),
        operation("a consumer", none, Nothing, |at, _| {
            let mut consumer = at.database.consumer("outbox", 1 << 30, &ChangesFrom::Oldest)?;
            while consumer.try_next()?.is_some() {}
            consumer.acknowledge()?;
            at.database.remove_consumer("outbox").map(drop)
        }),
        operation("an archiver", none, Nothing, |at, _| {
            let mut archiver = match at.database.log_archiver("archive", 1 << 30) {
                // A log in NVRAM has no archiver.
                Err(Error::Archive { .. }) => return Ok(()),
                archiver => archiver?,
            };
            while archiver.try_next()?.is_some() {
                archiver.acknowledge()?;
            }
            at.database.remove_log_archiver("archive").map(drop)
        }),
        operation("backup", none, Nothing, |at, _| {
            let to: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
            at.database.backup_in(to.clone(), &BackupOptions::default())?;
            common::assert_sound(&Database::verify_in(to, None)?);
            Ok(())
        }),
        operation("verify", none, Nothing, |at, _| {
            common::assert_sound(&at.database.verify(None)?);
            Ok(())
        }),
        operation("stat", none, Nothing, |at, _| at.database.stat().map(drop)),
        operation("close", none, Nothing, |at, _| at.database.close()),
    ]
}

fn options(engine: EngineKind) -> Options {
    let mut options = options_for(engine);
    if let Some(paged) = options.engine.paged_mut() {
        paged.undo_bytes = 0;
    }
    options.advanced.log = options.advanced.log.map_files(|files| katydid::FileOptions {
        segment_bytes: 64 << 10,
        ring_bytes: 64 << 10,
        ..files
    });
    options.advanced.log.reserve_bytes = 64 << 10;
    options.advanced.log.run_ahead_bytes = 16 << 10;
    options
}

/// Returns a database that was filled, closed and opened again, so that its pages are not in
/// memory.
fn world(engine: EngineKind) -> (World, Watched, MemoryDirectory) {
    let memory = MemoryDirectory::new();
    let database = Database::open_in(Arc::new(memory.clone()), options(engine)).unwrap();
    for name in ["rows", "wide", "unused", "dropped"] {
        let table = database.table(name).unwrap();
        let txn = database.begin().unwrap();
        (0..100).for_each(|number| txn.put(&table, format!("{number:04}"), vec![1; 200]).unwrap());
        txn.put(&table, "old", vec![5; 20_000]).unwrap();
        txn.commit().unwrap();
    }
    database.close().unwrap();
    drop(database);
    let watched = Watched::new(Arc::new(memory.clone()));
    let database = Database::open_in(Arc::new(watched.clone()), options(engine)).unwrap();
    let table = |name| database.open_table(name).unwrap().unwrap();
    let (rows, wide) = (table("rows"), table("wide"));
    database.put(&rows, "news", "1").unwrap();
    (World { database, rows, wide }, watched, memory)
}

/// An operation on a thread of its own, held up.
struct Running {
    held: Held,
    thread: JoinHandle<Result<()>>,
    effect: Effect,
    name: &'static str,
}

fn run(world: &World, operation: &Operation, txn: Option<Transaction>, at: usize) -> Running {
    let (world, body) = (world.clone(), operation.run);
    let (held, thread) = held_up(CallPoint::Nth(at), move || body(&world, txn));
    Running { held, thread, effect: operation.effect, name: operation.name }
}

/// Closes the database while `running` are held up, lets them go, and checks what is left.
fn close_beside(
    engine: EngineKind,
    opened: (World, Watched, MemoryDirectory),
    running: Vec<Running>,
    what: &str,
) {
    let (World { database, .. }, watched, memory) = opened;
    let (closing, watch) = (database.clone(), watched.clone());
    let close = std::thread::spawn(move || {
        let outcome = closing.close();
        watch.is_closed();
        outcome
    });
    let until = Instant::now() + A_WHILE;
    while !close.is_finished() && !katydid::testing::close_waits(&database) && Instant::now() < until {
        std::thread::yield_now();
    }
    let mut effects = Vec::new();
    let is_pair = running.len() > 1;
    let reads = |names: &[&str]| running.iter().any(|running| names.contains(&running.name));
    let (has_feed, has_backup) = (reads(&["a feed", "a consumer"]), reads(&["backup"]));
    running.iter().for_each(|running| running.held.release());
    for Running { thread, effect, name, .. } in running {
        match thread.join().expect("no call panics") {
            Ok(()) => effects.push(effect),
            Err(Error::Closed) => {}
            // The other call of the pair came first, and this call conflicts with it.
            Err(error) if is_pair && (error.is_retryable() || matches!(error, Error::KeyExists { .. })) => {}
            Err(error) => panic!("{what}: {name} failed: {error}"),
        }
    }
    close
        .join()
        .expect("close does not panic")
        .unwrap_or_else(|error| panic!("{what}: close failed: {error}"));
    let mut late = watched.late();
    // Late reads are allowed to a feed, which returns everything durable even after the close, and
    // to a backup, which fails at its next step.
    late.retain(|call| {
        let is_read = ["read ", "open ", "drop the cache of "].iter().any(|verb| call.starts_with(verb));
        !(has_feed && call.starts_with("read log/") || has_backup && is_read)
    });
    assert_eq!(late, Vec::<String>::new(), "{what}: device calls that outlive close");
    drop(database);
    let report = Database::verify_in(Arc::new(memory.clone()), None).unwrap();
    assert!(report.is_sound(), "{what}: {:#?}", report.faults);
    let next = Database::open_in(Arc::new(memory), options(engine)).unwrap();
    let rows = next.open_table("rows").unwrap().expect("it was there");
    let mut found: BTreeMap<_, _> =
        common::contents(&next, &rows).into_iter().map(|(key, value)| (key, value.len())).collect();
    assert_eq!(found.remove(&b"news"[..]), Some(1), "{what}: an acknowledged commit is lost");
    for effect in effects {
        match effect {
            Effect::Nothing => {}
            Effect::Value(key, length) => {
                assert_eq!(found.get(key.as_bytes()), Some(&length), "{what}: {key:?} was acknowledged");
            }
            Effect::NoValue(key) => assert_eq!(found.get(key.as_bytes()), None, "{what}: {key:?} is gone"),
            Effect::Table(name) => assert!(next.open_table(name).unwrap().is_some(), "{what}: {name:?}"),
            Effect::NoTable(name) => assert!(next.open_table(name).unwrap().is_none(), "{what}: {name:?}"),
        }
    }
    common::assert_sound(&next.verify(None).unwrap());
}

pub fn each_call_held_up_at_each_device_call(engine: EngineKind) {
    let mut held = 0;
    for operation in operations() {
        for at in 0.. {
            let opened = world(engine);
            let txn = (operation.prepare)(&opened.0);
            let running = run(&opened.0, &operation, txn, at);
            let Ok(call) = running.held.reached.recv() else {
                // The call has ended without a device call of this number.
                close_beside(engine, opened, vec![running], operation.name);
                break;
            };
            held += 1;
            let what = format!("{engine}: {}, held up at call {at}, {call}", operation.name);
            close_beside(engine, opened, vec![running], &what);
        }
    }
    // If fewer calls were held up, the test would show little.
    assert!(held > 30, "only {held} device calls were held up");
}

pub fn pairs_of_calls_held_up(engine: EngineKind) {
    let seed = common::seed(common::fresh_seed());
    println!("replay with KATYDID_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let operations = operations();
    for (nth, one_of_them) in operations.iter().enumerate() {
        // Each pair runs in one of its two orders.
        for other in &operations[nth..] {
            let (first, second) = if rng.bool() { (one_of_them, other) } else { (other, one_of_them) };
            let (one, two) = (rng.usize(..4), rng.usize(..4));
            let what = format!("{engine}, seed {seed}: {} at {one} and {} at {two}", first.name, second.name);
            // Two long transactions change the same keys, and would wait for each other here.
            if first.is_long() && second.is_long() {
                continue;
            }
            let opened = world(engine);
            // Prepare both calls before the first one is held up, because the held call could block
            // the preparation of the second call.
            let (txn_of_first, txn_of_second) = ((first.prepare)(&opened.0), (second.prepare)(&opened.0));
            let mut running = vec![run(&opened.0, first, txn_of_first, one)];
            // The first call may wait for the second call's transaction, and then makes no device
            // call yet.
            let _reached_or_ended = running[0].held.reached.recv_timeout(A_WHILE);
            running.push(run(&opened.0, second, txn_of_second, two));
            // The second call may wait for the first, and then makes no device call yet.
            let _reached_or_ended = running[1].held.reached.recv_timeout(A_WHILE / 20);
            if rng.bool() {
                running.reverse();
            }
            close_beside(engine, opened, running, &what);
        }
    }
}
