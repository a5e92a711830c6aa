//! Transactions under an executor of one thread, which nothing may block: bodies, commits, dropped
//! futures, close; and permits.

use crate::common::{options_for, with_advanced};
use katydid::{Database, EngineKind, Error, MemoryDirectory, Options, Permits, Table, TransactFuture};
use katydid_device::SimDevice;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::sync::oneshot;

suite! {
    a_body_commits_and_its_value_comes_out,
    an_error_of_the_callers_own_rolls_back_and_comes_out_as_it_was,
    thousands_of_bodies_in_flight_lose_no_update,
    a_future_that_is_never_polled_does_nothing,
    a_body_whose_future_is_dropped_while_it_waits_is_dropped_with_it,
    a_transaction_whose_future_is_dropped_while_the_body_runs_is_rolled_back,
    bodies_that_fail_and_wait_for_the_log_stall_no_other_body,
    a_commit_whose_future_is_dropped_goes_on,
    a_panic_of_a_body_comes_out_of_its_future,
    bodies_beside_close_are_committed_or_refused,
    a_future_keeps_the_database_open_until_it_is_ready,
    inside_a_body_a_future_is_refused,
    a_view_waits_for_no_writer_and_writes_nothing,
}

/// Runs a future, and the tasks that it spawns, on this thread alone.
fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    let executor = tokio::runtime::Builder::new_current_thread().build().expect("an executor");
    tokio::task::LocalSet::new().block_on(&executor, future)
}

fn database(engine: EngineKind) -> (Database, Table) {
    // A body runs again after any number of conflicts, because no test here is about the limit.
    let options = with_advanced(options_for(engine), |advanced| advanced.retries = u32::MAX);
    let database = Database::in_memory_with(options).unwrap();
    let table = database.table("t").unwrap();
    (database, table)
}

fn put(database: &Database, table: &Table, key: impl AsRef<[u8]>) -> TransactFuture<()> {
    let (table, key) = (table.clone(), key.as_ref().to_vec());
    database.transact_async(move |txn| txn.put(&table, &key, "v"))
}

fn a_body_commits_and_its_value_comes_out(engine: EngineKind) {
    let (database, table) = database(engine);
    let body_of = table.clone();
    let future = database.transact_async(move |txn| {
        txn.put(&body_of, "k", "v")?;
        Ok("value")
    });
    assert_eq!(on_one_thread(future).unwrap(), "value");
    assert_eq!(database.get(&table, "k").unwrap().as_deref(), Some(&b"v"[..]));
    let body_of = table.clone();
    let read = on_one_thread(database.transact_async(move |txn| txn.get(&body_of, "k")));
    assert_eq!(read.unwrap().as_deref(), Some(&b"v"[..]));
}

#[derive(Debug, PartialEq)]
enum CallerError {
    Refused(u32),
    Store,
}

impl From<Error> for CallerError {
    fn from(_: Error) -> Self {
        CallerError::Store
    }
}

fn an_error_of_the_callers_own_rolls_back_and_comes_out_as_it_was(engine: EngineKind) {
    let (database, table) = database(engine);
    let body_of = table.clone();
    let refused: TransactFuture<(), CallerError> = database.try_transact_async(move |txn| {
        txn.put(&body_of, "k", "v")?;
        Err(CallerError::Refused(7))
    });
    assert_eq!(on_one_thread(refused), Err(CallerError::Refused(7)));
    assert_eq!(database.get(&table, "k").unwrap(), None);
    database.close().unwrap();
    let closed: TransactFuture<(), CallerError> = database.try_transact_async(|_| Ok(()));
    assert_eq!(on_one_thread(closed), Err(CallerError::Store));
}

/// The conflict is found when the transaction is submitted, after the body.
#[test]
fn a_conflict_runs_the_body_again() {
    let (database, table) = database(EngineKind::Memory);
    let others = database.clone();
    let (body_of, runs) = (table.clone(), Arc::new(AtomicU32::new(0)));
    let counted = runs.clone();
    let future = database.transact_async(move |txn| {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        txn.get(&body_of, "k")?;
        txn.put(&body_of, "k", "mine")?;
        if run == 0 {
            let other = others.begin()?;
            other.put(&body_of, "k", "other")?;
            other.commit()?;
        }
        Ok(())
    });
    on_one_thread(future).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(database.get(&table, "k").unwrap().as_deref(), Some(&b"mine"[..]));
}

fn thousands_of_bodies_in_flight_lose_no_update(engine: EngineKind) {
    const BODIES: u32 = 3000;
    let (database, table) = database(engine);
    on_one_thread(async {
        let tasks: Vec<_> = (0..BODIES)
            .map(|number| {
                let body_of = table.clone();
                tokio::task::spawn_local(database.transact_async(move |txn| {
                    let more = |old: Option<Vec<u8>>| {
                        let old =
                            old.map_or(0, |old| u32::from_be_bytes(old.try_into().expect("four bytes")));
                        Some((old + 1).to_be_bytes().to_vec())
                    };
                    txn.update(&body_of, [(number % 50) as u8], more)
                }))
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic").unwrap();
        }
    });
    let txn = database.begin().unwrap();
    let counts = txn.range(&table, ..).map(|row| row.unwrap().1);
    let sum: u32 = counts.map(|value| u32::from_be_bytes(value.try_into().unwrap())).sum();
    assert_eq!(sum, BODIES);
}

/// The number of bodies that wait for the lock is greater than the number of bodies that may run at
/// once. Bodies that want other locks go on, and so does the executor.
#[test]
fn a_lock_held_across_an_await_stalls_nobody_else() {
    const WAITERS: u32 = 100;
    let (database, table) = database(EngineKind::Paged);
    on_one_thread(async {
        let holder = database.begin().unwrap();
        holder.put(&table, "locked", "holder").unwrap();
        let waiters: Vec<_> =
            (0..WAITERS).map(|_| tokio::task::spawn_local(put(&database, &table, "locked"))).collect();
        // All of these bodies wait for the lock before the others begin.
        while database.stat().unwrap().paged().unwrap().lock_waits < u64::from(WAITERS) {
            tokio::task::yield_now().await;
        }
        for number in 0..200u32 {
            put(&database, &table, number.to_be_bytes()).await.unwrap();
        }
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        holder.commit_async().await.unwrap();
        for waiter in waiters {
            waiter.await.expect("no panic").unwrap();
        }
    });
    assert_eq!(database.begin().unwrap().count(&table, ..).unwrap(), 201);
}

/// The number of bodies that wait for the device is greater than the number of bodies that may run
/// at once.
fn bodies_that_fail_and_wait_for_the_log_stall_no_other_body(engine: EngineKind) {
    const WAITERS: u32 = 100;
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    device.stall_writes(true);
    let txn = database.begin().unwrap();
    txn.put(&table, "k", "v").unwrap();
    let commit = txn.commit_async();
    let mut waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let body_of = table.clone();
            database.transact_async(move |txn| match txn.get(&body_of, "k")? {
                Some(_) => Err::<(), _>(Error::ReadOnly),
                None => Ok(()),
            })
        })
        .collect();
    for waiter in &mut waiters {
        assert!(poll_once(waiter).is_pending());
    }
    // The errors of the other bodies depend on a commit that is not durable. This body reads
    // nothing.
    on_one_thread(database.transact_async(|_| Ok(()))).unwrap();
    device.stall_writes(false);
    on_one_thread(commit).unwrap();
    for waiter in waiters {
        assert!(matches!(on_one_thread(waiter), Err(Error::ReadOnly)));
    }
}

/// A waker that counts its calls.
#[derive(Default)]
struct Counted(AtomicU32);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let waker = Waker::from(Arc::new(Counted::default()));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

fn a_future_that_is_never_polled_does_nothing(engine: EngineKind) {
    let (database, table) = database(engine);
    let held = Arc::new(());
    let (body_of, inside) = (table.clone(), held.clone());
    let future = database.transact_async(move |txn| {
        let _held = &inside;
        txn.put(&body_of, "k", "v")
    });
    assert_eq!(Arc::strong_count(&held), 2);
    drop(future);
    assert_eq!(Arc::strong_count(&held), 1);
    assert_eq!(database.get(&table, "k").unwrap(), None);
}

/// Starts bodies that keep all body threads busy until the sender is dropped.
fn busy(database: &Database) -> (Vec<TransactFuture<()>>, mpsc::Sender<()>) {
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = Arc::new(Mutex::new(may_go_on));
    let mut futures: Vec<_> = (0..600)
        .map(|_| {
            let may_go_on = may_go_on.clone();
            database.transact_async(move |_| {
                let _dropped = may_go_on.lock().unwrap().recv();
                Ok(())
            })
        })
        .collect();
    for future in &mut futures {
        assert!(poll_once(future).is_pending());
    }
    (futures, go_on)
}

fn a_body_whose_future_is_dropped_while_it_waits_is_dropped_with_it(engine: EngineKind) {
    let (database, table) = database(engine);
    let (blockers, go_on) = busy(&database);
    let held = Arc::new(());
    let (body_of, inside) = (table.clone(), held.clone());
    let mut future = database.transact_async(move |txn| {
        let _held = &inside;
        txn.put(&body_of, "k", "v")
    });
    assert!(poll_once(&mut future).is_pending());
    assert_eq!(Arc::strong_count(&held), 2);
    drop(future);
    assert_eq!(Arc::strong_count(&held), 1, "it was dropped at once");
    drop(go_on);
    for blocker in blockers {
        on_one_thread(blocker).unwrap();
    }
    assert_eq!(database.get(&table, "k").unwrap(), None);
}

fn a_transaction_whose_future_is_dropped_while_the_body_runs_is_rolled_back(engine: EngineKind) {
    let (database, table) = database(engine);
    let commits = database.stat().unwrap().commits;
    let (begin, begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let body_of = table.clone();
    let mut future = database.transact_async(move |txn| {
        txn.put(&body_of, "k", "v")?;
        begin.send(()).expect("the test waits");
        may_go_on.recv().expect("the test says so");
        Ok(())
    });
    assert!(poll_once(&mut future).is_pending());
    begun.recv().unwrap();
    drop(future);
    go_on.send(()).unwrap();
    // The body owns the sender, and is dropped after the transaction.
    assert!(begun.recv().is_err());
    assert_eq!(database.get(&table, "k").unwrap(), None);
    assert_eq!(database.stat().unwrap().commits, commits);
}

fn a_commit_whose_future_is_dropped_goes_on(engine: EngineKind) {
    let (database, table) = database(engine);
    let counted = Arc::new(Counted::default());
    let waker = Waker::from(counted.clone());
    let mut future = put(&database, &table, "k");
    assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
    while counted.0.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // The waker was called because the transaction was submitted. The future is not polled again.
    drop(future);
    database.sync().unwrap();
    assert_eq!(database.get(&table, "k").unwrap().as_deref(), Some(&b"v"[..]));
}

fn a_panic_of_a_body_comes_out_of_its_future(engine: EngineKind) {
    let (database, table) = database(engine);
    let body_of = table.clone();
    let future = database.transact_async(move |txn| -> katydid::Result<()> {
        txn.put(&body_of, "k", "v")?;
        panic!("planted")
    });
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| on_one_thread(future)));
    let payload = outcome.expect_err("the body's panic");
    assert_eq!(payload.downcast_ref(), Some(&"planted"));
    on_one_thread(put(&database, &table, "after")).unwrap();
    assert_eq!(database.get(&table, "k").unwrap(), None);
}

fn bodies_beside_close_are_committed_or_refused(engine: EngineKind) {
    let directory = Arc::new(MemoryDirectory::new());
    for round in 0..10u32 {
        let database = Database::open_in(directory.clone(), options_for(engine)).unwrap();
        let table = database.table("t").unwrap();
        let committed = on_one_thread(async {
            let mut futures: Vec<_> = (0..200u32)
                .map(|number| {
                    let (table, key) = (table.clone(), [round.to_be_bytes(), number.to_be_bytes()].concat());
                    database.transact_async(move |txn| {
                        txn.put(&table, &key, "")?;
                        Ok(key.clone())
                    })
                })
                .collect();
            for future in &mut futures {
                assert!(poll_once(future).is_pending());
            }
            let closer = database.clone();
            let (closed, is_closed) = oneshot::channel();
            std::thread::spawn(move || closed.send(closer.close()));
            let mut committed = Vec::new();
            for future in futures {
                match future.await {
                    Ok(key) => committed.push(key),
                    Err(Error::Closed) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            is_closed.await.expect("no panic").unwrap();
            committed
        });
        drop((database, table));
        let database = Database::open_in(directory.clone(), options_for(engine)).unwrap();
        let table = database.table("t").unwrap();
        for key in committed {
            assert!(database.contains(&table, &key).unwrap(), "{key:?} of round {round}");
        }
        database.close().unwrap();
    }
}

fn a_future_keeps_the_database_open_until_it_is_ready(engine: EngineKind) {
    let directory = Arc::new(MemoryDirectory::new());
    for _ in 0..20 {
        let database = Database::open_in(directory.clone(), options_for(engine)).unwrap();
        let table = database.table("t").unwrap();
        let future = put(&database, &table, "k");
        drop((database, table));
        on_one_thread(future).unwrap();
        // The database has ended, so the directory is free.
        let database = Database::open_in(directory.clone(), options_for(engine)).unwrap();
        let table = database.table("t").unwrap();
        assert!(database.delete(&table, "k").unwrap());
    }
}

fn inside_a_body_a_future_is_refused(engine: EngineKind) {
    let (database, table) = database(engine);
    let refused = database.transact(|_| match poll_once(&mut put(&database, &table, "k")) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Ok(()),
    });
    assert!(matches!(refused, Err(Error::Nested { .. })), "{refused:?}");
    assert_eq!(database.get(&table, "k").unwrap(), None);
}

#[test]
fn permits_bound_what_is_in_flight() {
    let permits = Permits::new(2.try_into().unwrap());
    let (first, second) = (permits.acquire(), permits.try_acquire().expect("the second"));
    assert!(permits.clone().try_acquire().is_none());
    let mut waits = permits.acquire_async();
    assert!(poll_once(&mut waits).is_pending());
    let mut given_up = permits.acquire_async();
    assert!(poll_once(&mut given_up).is_pending());
    drop(given_up);
    drop(first);
    let third = on_one_thread(waits);
    assert!(permits.try_acquire().is_none());
    let taken = std::thread::scope(|scope| {
        let blocked = scope.spawn(|| permits.acquire());
        drop(second);
        blocked.join().expect("no panic")
    });
    drop((third, taken));
    assert!(permits.try_acquire().is_some());
}

/// A producer on the executor's own thread never has more bodies or commits in flight than permits.
#[test]
fn a_producer_with_permits_is_held_back() {
    const LIMIT: usize = 8;
    let options = Options { lock_wait: Duration::from_secs(60), ..options_for(EngineKind::Paged) };
    let database = Database::in_memory_with(options).unwrap();
    let table = database.table("t").unwrap();
    let permits = Permits::new(LIMIT.try_into().unwrap());
    let (in_flight, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    on_one_thread(async {
        let mut tasks = Vec::new();
        for number in 0..200u32 {
            let permit = permits.acquire_async().await;
            let now = in_flight.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(now, Ordering::Relaxed);
            let (work, in_flight) = (put(&database, &table, number.to_be_bytes()), in_flight.clone());
            tasks.push(tokio::task::spawn_local(async move {
                let outcome = work.await;
                in_flight.fetch_sub(1, Ordering::Relaxed);
                drop(permit);
                outcome
            }));
        }
        for task in tasks {
            task.await.expect("no panic").unwrap();
        }
    });
    let most = most.load(Ordering::Relaxed) as usize;
    assert!(most <= LIMIT, "{most}");
    assert_eq!(database.begin().unwrap().count(&table, ..).unwrap(), 200);
}

fn a_view_waits_for_no_writer_and_writes_nothing(engine: EngineKind) {
    let (database, table) = database(engine);
    database.put(&table, "k", "before").unwrap();
    let writer = database.begin().unwrap();
    writer.put(&table, "k", "not committed").unwrap();
    let body_of = table.clone();
    let seen = on_one_thread(database.view_async(move |view| view.get(&body_of, "k")));
    assert_eq!(seen.unwrap().as_deref(), Some(&b"before"[..]));
    let body_of = table.clone();
    let refused = on_one_thread(database.view_async(move |view| view.put(&body_of, "k", "v")));
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    writer.commit().unwrap();
}
