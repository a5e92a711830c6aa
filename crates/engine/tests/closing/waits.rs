//! Waits that closing ends, callers that may close, and outcomes of callers that close at the same
//! time.
//!
//! A waiter that closing does not notify would wait for hours, and the test would not end.

use crate::common::{self, options_for, with_advanced};
use crate::device::{CallPoint, Watched, held_up};
use katydid::{BackupOptions, ChangesFrom, Database, EngineKind, Error, Options, Result, Table};
use katydid_device::{Cause, Directory, Fault, MemoryDirectory, SimDevice, Verb};
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const FOR_EVER: Duration = Duration::from_secs(1_000_000);

fn patient(engine: EngineKind) -> Options {
    with_advanced(Options { lock_wait: FOR_EVER, ..options_for(engine) }, |advanced| {
        advanced.retries = 1_000_000
    })
}

fn open(memory: &MemoryDirectory, options: Options) -> (Database, Table) {
    let database = Database::open_in(Arc::new(memory.clone()), options).unwrap();
    let table = database.table("t").unwrap();
    (database, table)
}

/// Waits for a state that must come.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

fn assert_closed<T: std::fmt::Debug>(outcome: Result<T>) {
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
}

// ---- waiters

pub fn a_waiter_for_a_lock_is_ended(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let (database, table) = open(&memory, patient(engine));
    let holder = database.begin().unwrap();
    holder.put(&table, "k", "v").unwrap();
    let waiting = |count| until(|| database.stat().unwrap().paged().unwrap().lock_waits == count);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| database.put(&table, "k", "w"));
        waiting(1);
        let reader = scope.spawn(|| database.get(&table, "k"));
        waiting(2);
        let ranger = scope.spawn(|| database.begin().unwrap().range(&table, ..).next().unwrap().map(drop));
        waiting(3);
        let checker = scope.spawn(|| database.verify(None).map(drop));
        waiting(4);
        database.close().unwrap();
        assert_closed(writer.join().unwrap());
        assert_closed(reader.join().unwrap());
        assert_closed(ranger.join().unwrap());
        assert_closed(checker.join().unwrap());
    });
    assert_closed(holder.commit());
}

pub fn a_drop_that_waits_for_a_transaction_is_ended(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let (database, table) = open(&memory, patient(engine));
    let user = database.begin().unwrap();
    user.put(&table, "k", "v").unwrap();
    let other = database.clone();
    let dropper = std::thread::spawn(move || other.drop_table("t"));
    if engine == EngineKind::Paged {
        until(|| database.stat().unwrap().paged().unwrap().lock_waits == 1);
    }
    database.close().unwrap();
    assert_closed(dropper.join().unwrap());
    drop((user, table, database));
    let (next, table) = open(&memory, patient(engine));
    assert_eq!(next.get(&table, "k").unwrap(), None);
}

/// The memory engine has 4,095 slots for open transactions. If all are in use, `begin` waits for a
/// slot, and closing the database ends this wait.
pub fn a_begin_that_waits_for_a_slot_is_ended(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let (database, _) = open(&memory, patient(engine));
    let open: Vec<_> = (0..4095).map(|_| database.begin().unwrap()).collect();
    let (begins, has_begun) = channel();
    let other = database.clone();
    let beginner = std::thread::spawn(move || {
        begins.send(()).unwrap();
        other.begin().map(drop)
    });
    has_begun.recv().unwrap();
    database.close().unwrap();
    match beginner.join().unwrap() {
        // The waiter gets an error, or (in the paged engine) begins without waiting.
        Err(Error::Closed) => {}
        Ok(()) => assert_eq!(engine, EngineKind::Paged),
        other => panic!("{other:?}"),
    }
    drop(open);
}

// ---- callers

/// Closes a database on another thread, which is held up at its write of the control file while
/// `work` runs. Returns the outcomes of all closers.
fn beside_a_slow_close(
    engine: EngineKind,
    work: impl FnOnce(&Database, Sender<Result<()>>),
) -> Vec<Result<()>> {
    let memory = MemoryDirectory::new();
    let watched = Watched::new(Arc::new(memory.clone()));
    let database = Database::open_in(Arc::new(watched), options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "k", "v").unwrap();
    let closing = database.clone();
    let (held, first) = held_up(CallPoint::Write("katydid.control"), move || closing.close());
    held.reached.recv().unwrap();
    let (others, other_outcomes) = channel();
    work(&database, others);
    // No other closer gets its outcome while the first one closes. (The 50 ms only give a wrong
    // outcome time to arrive.)
    assert!(other_outcomes.recv_timeout(Duration::from_millis(50)).is_err(), "a closer returned too early");
    held.release();
    let mut outcomes = vec![first.join().unwrap()];
    outcomes.extend(other_outcomes.iter());
    drop((table, database));
    open(&memory, options_for(engine));
    outcomes
}

pub fn closers_at_the_same_time_return_when_it_is_done(engine: EngineKind) {
    let outcomes = beside_a_slow_close(engine, |database, outcomes| {
        for _ in 0..2 {
            let (outcomes, database) = (outcomes.clone(), database.clone());
            std::thread::spawn(move || outcomes.send(database.close()).unwrap());
        }
    });
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// Dropping the last handle closes the database, and the directory stays locked until that close
/// has ended.
pub fn the_last_handle_waits_as_well(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let watched = Watched::new(Arc::new(memory.clone()));
    let database = Database::open_in(Arc::new(watched), options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "k", "v").unwrap();
    let (held, last) = held_up(CallPoint::Write("katydid.control"), move || drop(database));
    held.reached.recv().unwrap();
    // The test also tries the directory's lock itself. The log's own lock would refuse an opening
    // too, but it would not refuse a repair or a check.
    let refused = memory.lock().expect_err("the directory was given back too early");
    assert!(matches!(refused.cause, Cause::Locked(_)), "{refused}");
    match Database::open_in(Arc::new(memory.clone()), options_for(engine)) {
        Err(Error::Locked { .. }) => {}
        other => panic!("the directory was given back too early: {other:?}"),
    }
    held.release();
    last.join().unwrap();
    let (next, table) = open(&memory, options_for(engine));
    assert_eq!(next.get(&table, "k").unwrap().as_deref(), Some(&b"v"[..]));
}

pub fn a_failure_is_returned_to_every_closer(engine: EngineKind) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "k", "v").unwrap();
    device.fail_when(|verb, _, _| matches!(verb, Verb::Write | Verb::Sync).then_some(Fault::Io));
    let first = database.close();
    assert!(first.is_err(), "the device failed");
    let second = database.clone().close();
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    assert_closed(database.begin().map(drop));
}

pub fn every_call_on_a_closed_database_says_so(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let (database, table) = open(&memory, options_for(engine));
    let session = database.session();
    let begin = || database.begin().unwrap();
    let (txn, unused) = (begin(), [begin(), begin(), begin()]);
    let savepoint = txn.savepoint();
    txn.put(&table, "k", "lost").unwrap();
    let written = || {
        let txn = begin();
        txn.put(&table, fastrand::u64(..).to_le_bytes(), "lost").unwrap();
        txn
    };
    let (for_commit, for_async, for_session, for_rollback) = (written(), written(), written(), written());
    let future = {
        let txn = begin();
        txn.put(&table, "kept", "1").unwrap();
        txn.commit_async()
    };
    let sequence = database.sequence(&table, "numbers", NonZeroU64::MIN).unwrap();
    let mut consumer = database.consumer("outbox", 1 << 30, &ChangesFrom::Now).unwrap();
    database.close().unwrap();

    assert_closed(database.table("t"));
    assert_closed(database.open_table("t"));
    assert_closed(database.tables());
    assert_closed(database.drop_table("t"));
    assert_closed(database.rename_table("t", "u"));
    assert_closed(database.begin().map(drop));
    assert_closed(database.begin_read_only().map(drop));
    assert_closed(database.transact(|_| Ok(())));
    assert_closed(common::block_on(database.transact_async(|_| Ok(()))));
    assert_closed(database.transact_with(
        &session,
        |_| Ok(()),
        |outcome| panic!("a callback ran with {outcome:?}"),
    ));
    assert_closed(common::block_on(database.view_async(|_| Ok(()))));
    assert_closed(sequence.next());
    assert_closed(database.changes(&ChangesFrom::Oldest).map(drop));
    assert_closed(database.consumer("late", 1 << 30, &ChangesFrom::Now).map(drop));
    assert_closed(database.remove_consumer("outbox"));
    assert_closed(consumer.acknowledge());
    let copy: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    assert_closed(database.backup_in(copy.clone(), &BackupOptions::default()).map(drop));
    assert_eq!(copy.list().unwrap(), [] as [&str; 0], "a copy was begun");
    if engine == EngineKind::Paged {
        assert_closed(database.log_archiver("late", 1 << 30).map(drop));
        assert_closed(database.remove_log_archiver("archive"));
    }
    assert_closed(database.sync());
    assert_closed(database.checkpoint());
    assert_closed(database.stat().map(drop));
    assert_closed(database.verify(None).map(drop));
    for (method, attempt) in common::uses::each_use_of_a_table() {
        let outcome = attempt(&database, &txn, &table);
        assert!(matches!(outcome, Err(Error::Closed)), "{method}: {outcome:?}");
    }
    assert_closed(txn.rollback_to(&savepoint));
    let [commit, rollback, with] = unused;
    assert_closed(commit.commit());
    assert_closed(rollback.rollback());
    assert_closed(for_commit.commit());
    assert_closed(common::block_on(for_async.commit_async()));
    assert_closed(for_rollback.rollback());
    let outcomes: Arc<Mutex<Vec<Result<_>>>> = Arc::default();
    for txn in [with, for_session] {
        let outcomes = outcomes.clone();
        txn.commit_with(&session, move |outcome| outcomes.lock().unwrap().push(outcome));
    }
    assert_eq!(session.poll(), 2);
    std::mem::take(&mut *outcomes.lock().unwrap()).into_iter().for_each(assert_closed);
    assert_closed(session.drain());
    // The future's transaction was committed before the close.
    common::block_on(future).unwrap();

    drop((txn, session, sequence, consumer, table, database));
    let (next, table) = open(&memory, options_for(engine));
    assert_eq!(common::contents(&next, &table).into_keys().collect::<Vec<_>>(), [b"kept"]);
    common::assert_sound(&next.verify(None).unwrap());
}

// ---- places

pub fn a_body_may_close(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let (database, table) = open(&memory, patient(engine));
    assert_closed(database.transact(|txn| {
        txn.put(&table, "k", "lost")?;
        database.close()
    }));
    drop((table, database));
    let (next, table) = open(&memory, patient(engine));
    assert_eq!(next.get(&table, "k").unwrap(), None);
}

pub fn a_callback_may_close(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let (database, table) = open(&memory, patient(engine));
    let session = database.session();
    let outcomes: Arc<Mutex<Vec<_>>> = Arc::default();
    for number in 0..3 {
        let txn = database.begin().unwrap();
        txn.put(&table, [number], "kept").unwrap();
        let (outcomes, database) = (outcomes.clone(), database.clone());
        txn.commit_with(&session, move |outcome| {
            outcomes.lock().unwrap().push((outcome.is_ok(), database.close().is_ok()))
        });
    }
    assert_closed(session.drain());
    assert_eq!(*outcomes.lock().unwrap(), [(true, true); 3]);
}

pub fn a_check_may_be_closed_from_its_progress(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let (database, table) = open(&memory, patient(engine));
    database.put(&table, "k", "v").unwrap();
    let closing = database.clone();
    let outcome = database.verify(Some(Arc::new(move |_, _| closing.close().unwrap())));
    assert_closed(outcome.map(drop));
    drop((table, database));
    let (next, table) = open(&memory, patient(engine));
    assert_eq!(next.get(&table, "k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// A waker that closes the database when it is woken, and sends the outcome of the close.
struct Closer(Database, Mutex<Sender<Result<()>>>);

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        let outcome = self.0.close();
        let _gone = self.1.lock().unwrap().send(outcome);
    }
}

pub fn a_waker_may_close(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    let watched = Watched::new(Arc::new(memory.clone()));
    let database = Database::open_in(Arc::new(watched), patient(engine)).unwrap();
    let table = database.table("t").unwrap();
    let (sender, close_outcome) = channel();
    let waker = Waker::from(Arc::new(Closer(database.clone(), Mutex::new(sender))));
    let mut waits = false;
    for number in 0..1000_u32 {
        let txn = database.begin().unwrap();
        txn.put(&table, number.to_be_bytes(), "kept").unwrap();
        let mut future = txn.commit_async();
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
        waits = polled.is_pending();
        if waits {
            close_outcome.recv().expect("the waker is called").unwrap();
            let again = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(again, Poll::Ready(Ok(_))), "{again:?}");
            break;
        }
    }
    assert!(waits, "no commit was pending when it was polled");
    assert_closed(database.begin().map(drop));
}
