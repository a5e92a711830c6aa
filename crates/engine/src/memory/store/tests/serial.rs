//! Random histories of concurrent transactions. Each history is checked by replaying its
//! transactions one after another in the order of their timestamps: in the replay each transaction
//! must see exactly what it saw in the run. A transaction that was acknowledged before another
//! began must have a lower timestamp.

use super::super::testing::FakeLog;
use super::super::{ActiveTxn, HandClock, Mark, Scan, Settings, Source, Store, Table, Timestamp, Validated};
use crate::cicada_options::{Contention, OldVersions};
use crate::direction::Direction;
use crate::error::{ConflictKind, Error};
use crate::ids::TableId;
use crate::options::Access;
use fastrand::Rng;
use katydid_wal::{Lsn, StreamId, StreamLsn};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug)]
enum Op {
    Get(Vec<u8>, Option<Vec<u8>>),
    Scan { from: Vec<u8>, to: Vec<u8>, is_down: bool, taken: usize, rows: Rows },
    Put(Vec<u8>, Vec<u8>),
    Insert(Vec<u8>, Vec<u8>, bool),
    Delete(Vec<u8>, bool),
    Savepoint,
    RollBack,
}

#[derive(Debug)]
struct Done {
    /// The timestamp, and whether the transaction only reads: a reader lies after the writer of the
    /// same timestamp.
    at: (Timestamp, bool),
    /// The greatest timestamp acknowledged before the transaction began.
    known: u64,
    ops: Vec<Op>,
}

#[derive(Debug, Clone, Copy)]
enum Release {
    /// Transactions are decided at once and durable at once.
    Early,
    /// Transactions are decided at once and become durable later.
    EarlyLagging,
    /// Another thread decides transactions, in any order.
    AfterDurable,
}

struct Setting {
    threads: u64,
    keys: u64,
    transactions: u64,
    release: Release,
    source: Source,
    contention: Contention,
    old_versions: OldVersions,
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

struct Shared {
    store: Arc<Store>,
    log: Arc<FakeLog>,
    table: Arc<Table>,
    acknowledged: AtomicU64,
    lsn: AtomicU64,
    done: Mutex<Vec<Done>>,
}

fn body(
    running: &mut ActiveTxn,
    shared: &Shared,
    random: &mut Rng,
    keys: u64,
    tag: u64,
    reads: bool,
) -> Result<Vec<Op>, Error> {
    let mut ops = Vec::new();
    let mut mark: Option<Mark> = None;
    let table = &shared.table;
    for nth in 0..random.u64(1..7) {
        let key_of = key(random.u64(0..keys));
        let value = format!("{tag}.{nth}").into_bytes();
        match random.u32(0..if reads { 4 } else { 12 }) {
            0..2 => {
                let found = running.get(table, &key_of)?.map(|value| value.to_vec());
                ops.push(Op::Get(key_of, found));
            }
            2..4 => {
                let from = random.u64(0..keys);
                let to = key(from + random.u64(0..keys / 2 + 1));
                let from = key(from);
                let is_down = random.bool();
                let taken = if random.bool() { usize::MAX } else { random.usize(0..4) };
                let direction = if is_down { Direction::Down } else { Direction::Up };
                let mut scan = Scan::new(table, Bound::Included(&from), Bound::Excluded(&to), direction);
                let mut rows = Rows::new();
                while rows.len() < taken
                    && let Some((key, value)) = scan.next(running)?
                {
                    rows.push((key.to_vec(), value.to_vec()));
                }
                ops.push(Op::Scan { from, to, is_down, taken, rows });
            }
            4..7 => {
                running.put(table, &key_of, &value)?;
                ops.push(Op::Put(key_of, value));
            }
            7..9 => {
                let inserted = match running.insert(table, &key_of, &value) {
                    Ok(()) => true,
                    Err(Error::KeyExists { .. }) => false,
                    Err(error) => return Err(error),
                };
                ops.push(Op::Insert(key_of, value, inserted));
            }
            9..11 => {
                let was_there = running.delete(table, &key_of)?;
                ops.push(Op::Delete(key_of, was_there));
            }
            _ => match mark {
                None => {
                    mark = Some(running.savepoint());
                    ops.push(Op::Savepoint);
                }
                Some(mark) => {
                    running.rollback_to(mark);
                    ops.push(Op::RollBack);
                }
            },
        }
    }
    Ok(ops)
}

fn acknowledge(shared: &Shared, seen_to: Timestamp) {
    shared.store.acknowledge(seen_to);
    shared.acknowledged.fetch_max(seen_to.get(), SeqCst);
}

fn worker(
    shared: &Shared,
    setting: &Setting,
    seed: u64,
    thread: u64,
    later: &mpsc::Sender<Validated>,
) -> u64 {
    let mut random = Rng::with_seed(seed.wrapping_mul(131) + thread);
    let mut gave_way = 0;
    for nth in 0..setting.transactions {
        let known = shared.acknowledged.load(SeqCst);
        let reads = random.u32(0..4) == 0;
        let access = if reads { Access::ReadOnly } else { Access::ReadWrite };
        let mut running = shared.store.begin(access, super::LONG).expect("begin");
        let tag = thread * setting.transactions + nth;
        let outcome = body(&mut running, shared, &mut random, setting.keys, tag, reads);
        if random.u32(0..16) == 0 {
            std::thread::yield_now();
        }
        let outcome = outcome.and_then(|ops| running.validate().map(|validated| (validated, ops)));
        let (validated, ops) = match outcome {
            Ok(done) => done,
            Err(Error::Conflict { kind: ConflictKind::Changed | ConflictKind::Overtaken, .. }) if !reads => {
                gave_way += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        if random.u32(0..10) == 0 {
            validated.abort();
            continue;
        }
        let seen_to = validated.seen_to();
        let at = if reads { (seen_to, true) } else { (validated.timestamp(), false) };
        let has_writes = validated.writes().len() > 0;
        match setting.release {
            Release::AfterDurable if has_writes => {
                shared.done.lock().push(Done { at, known, ops });
                later.send(validated).expect("the other thread listens");
                continue;
            }
            Release::EarlyLagging => {
                let end = Lsn::new(shared.lsn.fetch_add(1, SeqCst) + 1);
                let place = StreamLsn { stream: StreamId::new(0), end };
                shared.store.has_logged(validated.timestamp(), place);
                let depends = validated.pre_committed(place);
                assert!(depends.iter().all(|place| place.end < end));
                shared.log.durable_below(end.get().saturating_sub(20));
            }
            _ => {
                let place = StreamLsn { stream: StreamId::new(thread as u16 % 3), end: Lsn::new(nth) };
                assert!(validated.pre_committed(place).is_empty(), "everything is durable");
            }
        }
        acknowledge(shared, seen_to);
        shared.done.lock().push(Done { at, known, ops });
    }
    gave_way
}

/// Ends transactions in random order.
fn releaser(shared: &Shared, seed: u64, incoming: &mpsc::Receiver<Validated>) {
    let mut random = Rng::with_seed(seed);
    let mut held: Vec<Validated> = Vec::new();
    loop {
        match incoming.try_recv() {
            Ok(validated) => held.push(validated),
            Err(mpsc::TryRecvError::Empty) => std::thread::yield_now(),
            Err(mpsc::TryRecvError::Disconnected) if held.is_empty() => return,
            Err(mpsc::TryRecvError::Disconnected) => {}
        }
        if !held.is_empty() && (held.len() > 5 || random.bool()) {
            let validated = held.swap_remove(random.usize(0..held.len()));
            let seen_to = validated.seen_to();
            validated.committed();
            shared.acknowledged.fetch_max(seen_to.get(), SeqCst);
        }
    }
}

fn replay(mut done: Vec<Done>) {
    done.sort_by_key(|done| done.at);
    let mut state: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for one in done {
        assert!(one.at.0.get() >= one.known, "began after {} was acknowledged: {one:?}", one.known);
        let mut saved = None;
        for op in &one.ops {
            match op {
                Op::Get(key, found) => assert_eq!(state.get(key), found.as_ref(), "{op:?} of {one:?}"),
                Op::Scan { from, to, is_down, taken, rows } => {
                    let range = state.range(from.clone()..to.clone().max(from.clone()));
                    let own = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
                    let there: Rows = match is_down {
                        false => range.take(*taken).map(own).collect(),
                        true => range.rev().take(*taken).map(own).collect(),
                    };
                    assert_eq!(&there, rows, "{op:?} of {one:?}");
                }
                Op::Put(key, value) => drop(state.insert(key.clone(), value.clone())),
                Op::Insert(key, value, inserted) => {
                    assert_eq!(!state.contains_key(key), *inserted, "{op:?} of {one:?}");
                    state.entry(key.clone()).or_insert_with(|| value.clone());
                }
                Op::Delete(key, was_there) => {
                    assert_eq!(state.remove(key).is_some(), *was_there, "{op:?} of {one:?}");
                }
                Op::Savepoint => saved = Some(state.clone()),
                Op::RollBack => state = saved.clone().expect("a savepoint"),
            }
        }
    }
}

fn run(seed: u64, setting: Setting) {
    println!("seed {seed}");
    let log = Arc::new(FakeLog::default());
    let source = match &setting.source {
        Source::Monotonic(_) => Source::monotonic(),
        Source::Hand(hand) => Source::Hand(hand.clone()),
    };
    let settings = Settings {
        contention: setting.contention,
        old_versions: setting.old_versions,
        ..Settings::new(1 << 30, 64, source)
    };
    let store = Store::new(settings, log.clone());
    let shared = Shared {
        table: store.table(TableId::new(1)),
        store,
        log,
        acknowledged: AtomicU64::new(0),
        lsn: AtomicU64::new(0),
        done: Mutex::default(),
    };
    let (later, incoming) = mpsc::channel();
    let gave_way: u64 = std::thread::scope(|scope| {
        let (shared, setting) = (&shared, &setting);
        scope.spawn(move || releaser(shared, seed, &incoming));
        let workers: Vec<_> = (0..setting.threads)
            .map(|thread| {
                let later = later.clone();
                scope.spawn(move || worker(shared, setting, seed, thread, &later))
            })
            .collect();
        drop(later);
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    let Shared { store, table, log, done, .. } = shared;
    let done = done.into_inner();
    println!("{} committed, {gave_way} gave way", done.len());
    replay(done);
    // After all keys are deleted and collected, the store is empty.
    log.durable_below(u64::MAX);
    let mut running = store.begin(Access::ReadWrite, Duration::ZERO).expect("begin");
    for number in 0..setting.keys {
        running.delete(&table, &key(number)).expect("nobody else is there");
    }
    running.validate().expect("nobody else is there").committed();
    store.collect();
    store.collect();
    assert_eq!((store.uncollected(), store.used()), (0, 0));
}

fn seeds() -> Vec<u64> {
    match std::env::var("KATYDID_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => vec![fastrand::u64(..1 << 32), fastrand::u64(..1 << 32)],
    }
}

fn run_all(release: Release) {
    // Katydid's rules, and those of the papers.
    let rules = [
        (Contention::AtValidation, OldVersions::UntilUnread),
        (Contention::Early, OldVersions::UntilDurable),
    ];
    for seed in seeds() {
        for (threads, keys, transactions) in [(2, 12, 3000), (4, 6, 1500), (8, 40, 1000)] {
            for (contention, old_versions) in rules {
                for source in
                    [Source::monotonic(), Source::Hand(HandClock::new(1)), Source::Hand(HandClock::new(7))]
                {
                    run(
                        seed,
                        Setting { threads, keys, transactions, release, source, contention, old_versions },
                    );
                }
            }
        }
    }
}

#[test]
fn histories_with_early_release_are_serial_in_the_order_of_their_timestamps() {
    run_all(Release::Early);
}

#[test]
fn histories_whose_durability_lags_are_serial_in_the_order_of_their_timestamps() {
    run_all(Release::EarlyLagging);
}

#[test]
fn histories_with_release_after_durable_are_serial_in_the_order_of_their_timestamps() {
    run_all(Release::AfterDurable);
}
