//! The callbacks of a session: their order, and callbacks that use their own session, commit again
//! or panic. One test is about a panic in the progress callback of a check.

use crate::common::{self, options_for, with_advanced};
use katydid::{Database, EngineKind, Error, Options, Session, Table};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

suite! {
    a_refused_commit_is_reported_after_those_before_it,
    a_callback_that_drains_runs_those_behind_it_in_order,
    draining_waits_for_what_callbacks_commit,
    a_callback_that_panics_loses_none_behind_it,
    callbacks_of_a_closed_database_still_run,
    callbacks_of_a_dropped_session_run,
    a_progress_callback_that_panics_leaves_no_lock_behind,
    a_progress_callback_may_look_at_the_database_and_create_a_table,
    a_body_that_conflicts_runs_again_and_its_callback_once,
    a_body_that_fails_leaves_its_callback_unrun,
}

/// A database, a session that callbacks use, and the names of the callbacks that have run.
struct Callbacks {
    database: Database,
    table: Table,
    session: Rc<Session>,
    ran: Arc<Mutex<Vec<String>>>,
}

thread_local! {
    /// Callbacks find their session here. Callbacks cannot own a reference to the session, because
    /// a callback must be `Send` and a session is not `Sync`.
    static SESSION: RefCell<Option<Rc<Session>>> = const { RefCell::new(None) };
}

fn session_of_thread() -> Rc<Session> {
    SESSION.with(|session| session.borrow().clone().expect("the test has set it"))
}

impl Callbacks {
    fn new(engine: EngineKind) -> Callbacks {
        let memory = Arc::new(katydid_device::MemoryDirectory::new());
        let database = Database::open_in(memory, options_for(engine)).unwrap();
        let table = database.table("t").unwrap();
        let session = Rc::new(database.session());
        SESSION.with(|slot| *slot.borrow_mut() = Some(session.clone()));
        Callbacks { database, table, session, ran: Arc::default() }
    }

    /// Commits on the session. The callback notes `name`, with `!` if the commit failed, and then
    /// runs `then`.
    fn commit(&self, name: &str, then: impl FnOnce() + Send + 'static) {
        commit(&self.database, &self.table, &self.ran, name, then);
    }

    fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        SESSION.with(|slot| slot.borrow_mut().take());
    }
}

fn commit(
    database: &Database,
    table: &Table,
    ran: &Arc<Mutex<Vec<String>>>,
    name: &str,
    then: impl FnOnce() + Send + 'static,
) {
    let txn = database.begin().unwrap();
    txn.put(table, name, "v").unwrap();
    let (ran, name) = (ran.clone(), name.to_owned());
    txn.commit_with(&session_of_thread(), move |outcome| {
        ran.lock().unwrap().push(if outcome.is_ok() { name } else { format!("{name}!") });
        then();
    });
}

fn a_refused_commit_is_reported_after_those_before_it(engine: EngineKind) {
    let callbacks = Callbacks::new(engine);
    let memory = Arc::new(katydid_device::MemoryDirectory::new());
    let other_engine = match engine {
        EngineKind::Paged => EngineKind::Memory,
        _ => EngineKind::Paged,
    };
    let other = Database::open_in(memory, options_for(other_engine)).unwrap();
    let other_table = other.table("t").unwrap();
    callbacks.commit("first", || {});
    commit(&other, &other_table, &callbacks.ran, "refused", || {});
    callbacks.commit("last", || {});
    callbacks.session.drain().unwrap();
    assert_eq!(callbacks.ran(), ["first", "refused!", "last"]);
}

fn a_callback_that_drains_runs_those_behind_it_in_order(engine: EngineKind) {
    let callbacks = Callbacks::new(engine);
    let (database, table, ran) = (callbacks.database.clone(), callbacks.table.clone(), callbacks.ran.clone());
    callbacks.commit("first", move || {
        commit(&database, &table, &ran, "third", || {});
        let session = session_of_thread();
        session.drain().unwrap();
        assert_eq!(session.pending(), 0);
        ran.lock().unwrap().push("drained".to_owned());
    });
    callbacks.commit("second", || {
        session_of_thread().poll();
    });
    callbacks.database.sync().unwrap();
    callbacks.session.poll();
    assert_eq!(callbacks.ran(), ["first", "second", "third", "drained"]);
    assert_eq!(callbacks.session.pending(), 0);
}

fn draining_waits_for_what_callbacks_commit(engine: EngineKind) {
    let callbacks = Callbacks::new(engine);
    let (database, table, ran) = (callbacks.database.clone(), callbacks.table.clone(), callbacks.ran.clone());
    callbacks.commit("first", move || {
        let (again, rows, notes) = (database.clone(), table.clone(), ran.clone());
        commit(&database, &table, &ran, "second", move || commit(&again, &rows, &notes, "third", || {}));
    });
    callbacks.session.drain().unwrap();
    assert_eq!(callbacks.session.pending(), 0, "after drain, which ran {:?}", callbacks.ran());
    assert_eq!(callbacks.ran(), ["first", "second", "third"]);
}

fn a_callback_that_panics_loses_none_behind_it(engine: EngineKind) {
    let callbacks = Callbacks::new(engine);
    for number in 0..5 {
        callbacks.commit(&number.to_string(), move || assert!(number % 2 == 0, "callback {number} panics"));
    }
    callbacks.database.sync().unwrap();
    let drain = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callbacks.session.drain()));
    let panic = drain().expect_err("the panic goes to the caller");
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("callback 1 panics"));
    assert_eq!(callbacks.session.pending(), 3);
    assert!(drain().is_err());
    assert_eq!(callbacks.session.pending(), 1);
    drain().expect("no panic is left").unwrap();
    assert_eq!(callbacks.session.pending(), 0);
    assert_eq!(callbacks.ran(), ["0", "1", "2", "3", "4"]);
}

fn callbacks_of_a_dropped_session_run(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let session = database.session();
    for number in 0..20u32 {
        let txn = database.begin().unwrap();
        txn.put(&table, number.to_be_bytes(), "v").unwrap();
        let outcomes = outcomes.clone();
        txn.commit_with(&session, move |outcome| {
            outcomes.lock().unwrap().push((number, outcome));
            assert_ne!(number, 7, "planted");
        });
    }
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(session)));
    assert!(panic.is_err(), "the callback's panic is passed on");
    let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
    assert!(outcomes.iter().map(|(number, _)| *number).eq(0..20), "each in its order: {outcomes:?}");
    let firm = |outcome: &Result<_, Error>| matches!(outcome, Ok(_) | Err(Error::SessionDropped));
    assert!(outcomes.iter().all(|(_, outcome)| firm(outcome)), "{outcomes:?}");
    database.sync().unwrap();
    assert_eq!(database.begin().unwrap().count(&table, ..).unwrap(), 20, "the commits went on");
}

fn callbacks_of_a_closed_database_still_run(engine: EngineKind) {
    let callbacks = Callbacks::new(engine);
    callbacks.commit("before", || {});
    callbacks.database.close().unwrap();
    assert!(matches!(callbacks.session.drain(), Err(Error::Closed)));
    assert_eq!(callbacks.ran(), ["before"]);
    assert_eq!(callbacks.session.pending(), 0);
}

/// The check holds locks on all tables while it calls the progress callback. If the callback
/// panics, the check must release the locks.
fn a_progress_callback_that_panics_leaves_no_lock_behind(engine: EngineKind) {
    let options =
        with_advanced(Options { lock_wait: Duration::from_millis(50), ..options_for(engine) }, |advanced| {
            advanced.retries = 0
        });
    let database = Database::open_in(Arc::new(katydid_device::MemoryDirectory::new()), options).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, b"k", b"1").unwrap();
    for call in 0..3 {
        let calls = AtomicU32::new(0);
        let progress = move |_, _| {
            if calls.fetch_add(1, Ordering::Relaxed) == call {
                panic!("the caller's own");
            }
        };
        let checked = catch_unwind(AssertUnwindSafe(|| database.verify(Some(Arc::new(progress)))));
        assert!(checked.is_err() || call > 0, "the check calls back at least once");
        database.put(&table, b"k", call.to_string()).expect("nothing is locked any more");
        assert!(database.drop_table(&format!("none {call}")).is_ok_and(|dropped| !dropped));
        database.table(&format!("new {call}")).expect("nor is the catalog");
        common::assert_sound(&database.verify(None).expect("it can be checked again"));
    }
    database.close().unwrap();
}

/// The check must not hold the catalog while it calls the progress callback.
fn a_progress_callback_may_look_at_the_database_and_create_a_table(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let tables = ["a", "b"].map(|name| database.table(name).unwrap());
    for number in 0..500_u32 {
        let txn = database.begin().unwrap();
        for table in &tables {
            txn.put(table, number.to_be_bytes(), [1; 100]).unwrap();
        }
        txn.commit().unwrap();
    }
    let used = database.clone();
    let progress = move |_, _| {
        let made = used.table("made meanwhile").unwrap();
        assert_eq!(used.tables().unwrap(), ["a", "b", made.name()]);
        assert_eq!(used.stat().unwrap().tables, 3);
        assert!(used.open_table("none").unwrap().is_none());
    };
    common::assert_sound(&database.verify(Some(Arc::new(progress))).unwrap());
    let report = database.verify(None).unwrap();
    common::assert_sound(&report);
    assert_eq!((report.tables, report.keys), (3, 1000));
    database.put(&database.table("made meanwhile").unwrap(), "k", "v").unwrap();
}

/// All bodies read and write the same key, so that most of them conflict. Each callback reports its
/// commit once.
fn a_body_that_conflicts_runs_again_and_its_callback_once(engine: EngineKind) {
    const THREADS: u32 = 4;
    const EACH: u32 = 50;
    let options = with_advanced(options_for(engine), |advanced| advanced.retries = u32::MAX);
    let database = Database::in_memory_with(options).unwrap();
    let table = database.table("t").unwrap();
    let reported = Arc::new(AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let session = database.session();
                for _ in 0..EACH {
                    let add = |txn: &katydid::Transaction| {
                        let old = txn.get(&table, "sum")?.map_or(0, |old| old[0]);
                        txn.put(&table, "sum", [old + 1])?;
                        Ok(old)
                    };
                    let reported = reported.clone();
                    let done = move |outcome: katydid::Result<_>| {
                        outcome.unwrap();
                        reported.fetch_add(1, Ordering::Relaxed);
                    };
                    assert!(database.transact_with(&session, add, done).unwrap() < 200);
                    session.wait_below(8).unwrap();
                }
                session.drain().unwrap();
            });
        }
    });
    assert_eq!(reported.load(Ordering::Relaxed), THREADS * EACH);
    assert_eq!(database.get(&table, "sum").unwrap(), Some(vec![(THREADS * EACH) as u8]));
}

fn a_body_that_fails_leaves_its_callback_unrun(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let other = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let (session, foreign) = (database.session(), other.session());
    let refused = database.transact_with(
        &session,
        |txn| {
            txn.put(&table, "k", "v")?;
            txn.insert(&table, "k", "again")
        },
        |outcome| panic!("a callback ran with {outcome:?}"),
    );
    assert!(matches!(refused, Err(Error::KeyExists { .. })), "{refused:?}");
    let put = |txn: &katydid::Transaction| txn.put(&table, "k", "v");
    let refused = database.transact_with(&foreign, put, |outcome| panic!("a callback ran with {outcome:?}"));
    assert!(matches!(refused, Err(Error::ForeignSession)), "{refused:?}");
    assert_eq!((session.pending(), foreign.pending()), (0, 0));
    assert_eq!(database.get(&table, "k").unwrap(), None);
}
