//! Runs clients, maintenance and `close` concurrently, in an order that a seed determines, up to a
//! crash, and checks the recovered state against a model.
//!
//! Each task is a thread under the scheduler of `crates/interleave`, so a seed determines
//! everything that happens. Clients run transactions on a few shared keys: reads, writes, deletes,
//! rollbacks to savepoints, and reads of a table larger than the cache. A maintenance task takes
//! checkpoints (which trim the log), writes pages back and collects versions; another task takes
//! one checkpoint. In some runs a task closes the database.
//!
//! Each transaction that writes also inserts a row of its own, its mark. After the crash and a
//! recovery, the marks say which transactions survived. These rules are checked:
//!
//! 1. Every acknowledged transaction survived. So did every transaction whose writes an
//!    acknowledged reader has read.
//! 2. No transaction survived that was refused, rolled back, or never committed.
//! 3. If the survivors are replayed in the order of their commit stamps, each survivor reads the
//!    values that it has read in the run, and all survivors together leave exactly the rows found.
//!    The stamp of a commit that the crash interrupted is not known: at least one placement of such
//!    commits among the other commits must fit.

use crate::opening::Call;
use crate::pause::device::paused;
use crate::pause::scheduler::{Order, Step, Task, for_each_seed, number_in, replayable, run, run_alone};
use crate::{
    CommitStamp, Database, Durability, EngineKind, Error, Lsn, MemoryOptions, Options, PagedOptions, Result,
    Table, TransactionOptions,
};
use fastrand::Rng;
use katydid_device::{SimDevice, Survival};
use katydid_wal::Background;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const CLIENTS: usize = 3;
/// Number of shared keys.
const KEYS: u8 = 5;
const STREAMS: u16 = 2;
/// Number of rows that no transaction changes. Each row takes a page, so together they are more
/// than the cache holds.
const FILLERS: u64 = 24;

/// The number of the transaction that wrote a value.
type Writer = u64;
/// The writer of each shared key that is present.
type Rows = BTreeMap<u8, Writer>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The transaction was refused, rolled back, or not committed: it must not survive.
    Nothing,
    /// A crash interrupted the commit.
    Unknown,
    /// The transaction committed with this stamp.
    Committed { stamp: CommitStamp, is_acknowledged: bool },
}

/// The reads and writes of one transaction, and its outcome.
#[derive(Debug)]
struct Attempt {
    number: Writer,
    /// Each key that the transaction read before its own first write of the key, with the writer of
    /// the value.
    reads: Vec<(u8, Option<Writer>)>,
    /// The keys that the transaction wrote, in order; true for a put, false for a deletion.
    writes: Vec<(u8, bool)>,
    outcome: Outcome,
}

fn open(device: &SimDevice, kind: EngineKind) -> Database {
    let options = Options {
        engine: kind.with(
            PagedOptions { page_bytes: 4096, cache_bytes: 16 * 4096, ..PagedOptions::default() },
            MemoryOptions { streams: STREAMS, ..MemoryOptions::default() },
        ),
        ..Options::default()
    };
    open_with_places(device, options)
}

/// Opens a database with a small log and without threads of its own. Each of its device calls is a
/// scheduling point.
pub(crate) fn open_with_places(device: &SimDevice, mut options: Options) -> Database {
    options.advanced.log = options.advanced.log.map_files(|files| katydid_wal::FileOptions {
        segment_bytes: 64 << 10,
        ring_bytes: 16 << 10,
        spare_segments: 1,
        ..files
    });
    options.advanced.log.reserve_bytes = 64 << 10;
    options.advanced.log.run_ahead_bytes = 8 << 10;
    options.advanced.log.background = Background::Caller;
    Database::open_in(paused(device.directory()), options).expect("open")
}

struct Tables {
    rows: Table,
    marks: Table,
    fillers: Table,
}

impl Tables {
    fn of(database: &Database) -> Self {
        let [rows, marks, fillers] =
            ["rows", "marks", "fillers"].map(|name| database.table(name).expect("table"));
        Tables { rows, marks, fillers }
    }
}

fn value(number: Writer, random: &mut Rng) -> Vec<u8> {
    let length = if random.u8(..16) == 0 { random.usize(..9000) } else { random.usize(..200) };
    let mut value = number.to_le_bytes().to_vec();
    value.resize(8 + length, 7);
    value
}

fn writer(value: &[u8]) -> Writer {
    Writer::from_le_bytes(value[..8].try_into().expect("eight bytes"))
}

/// Frequency of each kind of step in a run. Each seed leaves some kinds out, so that steps of the
/// other kinds are interleaved more often (swarm testing).
#[derive(Debug, Clone, Copy)]
struct Mix {
    keys: u8,
    /// Maximum number of steps of a transaction.
    steps: usize,
    weights: [u8; 6],
}

/// The kinds of steps, in the order of [`Mix::weights`]. The sixth kind, which has no constant, is
/// a rollback to the savepoint.
const READ: usize = 0;
const PUT: usize = 1;
const DELETE: usize = 2;
const FILLER: usize = 3;
const SAVEPOINT: usize = 4;

impl Mix {
    fn new(random: &mut Rng) -> Self {
        let weights = [(); 6].map(|()| [0, 1, 1, 4][random.usize(..4)]);
        let keys = if random.bool() { 1 } else { random.u8(2..=KEYS) };
        Mix { keys, steps: random.usize(1..5), weights }
    }

    fn step(&self, random: &mut Rng) -> usize {
        let sum: u8 = self.weights.iter().sum();
        let mut left = random.u8(..sum.max(1));
        let is_it = |weight: &u8| match left.checked_sub(*weight) {
            Some(less) => {
                left = less;
                false
            }
            None => true,
        };
        self.weights.iter().position(is_it).unwrap_or(PUT)
    }
}

struct Client<'a> {
    number: u64,
    kind: EngineKind,
    mix: Mix,
    database: &'a Database,
    tables: &'a Tables,
    device: &'a SimDevice,
    random: Rng,
    attempts: Vec<Attempt>,
    /// The writers whose values acknowledged readers have seen.
    shown: Vec<Writer>,
}

impl Client<'_> {
    fn run(&mut self, count: u64) {
        for nth in 0..count {
            let number = self.number << 32 | nth;
            let durability = if self.random.bool() { Durability::Durable } else { Durability::Buffered };
            let mut attempt =
                Attempt { number, reads: Vec::new(), writes: Vec::new(), outcome: Outcome::Nothing };
            let outcome = self.transaction(&mut attempt, durability);
            let ends = match outcome {
                Ok(()) => false,
                Err(error) if error.is_retryable() => false,
                Err(Error::Closed) => true,
                Err(error) => {
                    assert!(self.device.is_crashed(), "client {}: {error}", self.number);
                    true
                }
            };
            if attempt.writes.is_empty() {
                if let Outcome::Committed { is_acknowledged: true, .. } = attempt.outcome {
                    self.shown.extend(attempt.reads.iter().filter_map(|(_, seen)| *seen));
                }
            } else {
                self.attempts.push(attempt);
            }
            if ends {
                return;
            }
            if self.kind == EngineKind::Memory && self.random.u8(..3) == 0 {
                // The run is too short for commits to collect old versions by themselves, so this
                // task calls the collection.
                self.database.memory().engine().store.collect();
            }
        }
    }

    fn transaction(&mut self, attempt: &mut Attempt, durability: Durability) -> Result<()> {
        let Client { database, tables, random, mix, .. } = self;
        let txn = database.begin_with(TransactionOptions { durability, ..TransactionOptions::default() })?;
        let mut savepoint = None;
        for _ in 0..random.usize(1..=mix.steps) {
            let key = random.u8(..mix.keys);
            match mix.step(random) {
                READ => {
                    let seen = txn.get(&tables.rows, [key])?.map(|value| writer(&value));
                    if !attempt.writes.iter().any(|(other, _)| *other == key) {
                        attempt.reads.push((key, seen));
                    }
                }
                PUT => {
                    txn.put(&tables.rows, [key], value(attempt.number, random))?;
                    attempt.writes.push((key, true));
                }
                DELETE => {
                    txn.delete(&tables.rows, [key])?;
                    attempt.writes.push((key, false));
                }
                FILLER => drop(txn.get(&tables.fillers, random.u64(..FILLERS).to_be_bytes())?),
                SAVEPOINT => savepoint = Some((txn.savepoint(), attempt.writes.len())),
                _ => {
                    if let Some((savepoint, length)) = savepoint.take() {
                        txn.rollback_to(&savepoint)?;
                        // From here on the transaction reads other transactions' values of the keys
                        // whose writes were just undone.
                        attempt.writes.truncate(length);
                    }
                }
            }
        }
        if !attempt.writes.is_empty() {
            txn.put(&tables.marks, attempt.number.to_be_bytes(), [])?;
        }
        match random.u8(..24) {
            0 => return txn.rollback(),
            1 => {
                // The transaction is neither committed nor rolled back when the machine crashes,
                // and keeps its locks.
                std::mem::forget(txn);
                return Err(Error::Closed);
            }
            _ => {}
        }
        match txn.commit() {
            Ok(stamp) => {
                let mut is_acknowledged = durability == Durability::Durable;
                attempt.outcome = Outcome::Committed { stamp, is_acknowledged };
                if !is_acknowledged && self.random.bool() {
                    self.database.sync()?;
                    is_acknowledged = true;
                }
                attempt.outcome = Outcome::Committed { stamp, is_acknowledged };
                Ok(())
            }
            Err(error) => {
                if !error.is_retryable() && !matches!(error, Error::Closed) {
                    attempt.outcome = Outcome::Unknown;
                }
                Err(error)
            }
        }
    }
}

/// Runs checkpoints, write-back and collection, in any order. Steps of the paged engine that
/// `Database` does not offer run in a [`Call`]: `close` waits for all calls before it takes the
/// last checkpoint, so none of these steps runs during that checkpoint.
fn maintain(database: &Database, device: &SimDevice, random: &mut Rng, kind: EngineKind) {
    for _ in 0..random.usize(1..6) {
        let outcome = match (random.u8(..4), kind) {
            (0, _) => database.checkpoint().map(drop),
            (1, EngineKind::Paged) => Call::enter(database.paged())
                .and_then(|call| call.engine().pool.flush_older(Lsn::new(u64::MAX)).map(drop)),
            (1, EngineKind::Memory) => {
                database.memory().engine().store.collect();
                Ok(())
            }
            (2, EngineKind::Paged) => {
                Call::enter(database.paged()).and_then(|call| call.engine().checkpoint_all())
            }
            _ => {
                database.run_background();
                Ok(())
            }
        };
        match outcome {
            Ok(()) | Err(Error::Closed) => {}
            Err(error) => assert!(device.is_crashed() || error.is_retryable(), "maintenance: {error}"),
        }
    }
}

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The device crashes at this step.
    AtStep(u64),
    /// The power fails after a task has taken a checkpoint.
    AfterCheckpoint,
    /// The power fails after all tasks are done.
    WhenAllAreDone,
    /// One of the tasks closes the database, then the power fails.
    Closed,
}

struct Run {
    device: SimDevice,
    attempts: Vec<Attempt>,
    shown: Vec<Writer>,
    base: Rows,
    end: End,
    order: Order,
}

/// Runs the tasks of this seed up to the end of the run.
fn run_once(seed: u64, kind: EngineKind) -> Run {
    let mut random = Rng::with_seed(seed);
    let device = SimDevice::new(seed);
    let database = open(&device, kind);
    let tables = Tables::of(&database);
    let mut base = Rows::new();
    for key in (0..KEYS).filter(|_| random.bool()).collect::<Vec<_>>() {
        let number = u64::MAX - u64::from(key);
        database.put(&tables.rows, [key], value(number, &mut random)).expect("put");
        base.insert(key, number);
    }
    if kind == EngineKind::Paged {
        let txn = database.begin().expect("begin");
        for filler in 0..FILLERS {
            txn.put(&tables.fillers, filler.to_be_bytes(), [1; 2000]).expect("put");
        }
        txn.commit().expect("commit");
    }
    if random.bool() {
        database.checkpoint().expect("checkpoint");
    }
    let end = match random.u8(..8) {
        0 | 1 => End::AtStep(random.u64(..60)),
        2..5 => End::AfterCheckpoint,
        5 | 6 => End::WhenAllAreDone,
        _ => End::Closed,
    };
    if let End::AtStep(step) = end {
        device.crash_at(device.steps() + step);
    }
    let mix = Mix::new(&mut random);
    let clients: Vec<Mutex<Client<'_>>> = (0..CLIENTS as u64)
        .map(|number| {
            let random = Rng::with_seed(seed ^ (number + 1) << 48);
            let (database, tables, device) = (&database, &tables, &device);
            let (attempts, shown) = Default::default();
            Mutex::new(Client { number, kind, mix, database, tables, device, random, attempts, shown })
        })
        .collect();
    let count = random.u64(1..10);
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for client in &clients {
        tasks.push(Box::new(move || client.lock().expect("no panic").run(count)));
    }
    tasks.push(Box::new(|| maintain(&database, &device, &mut Rng::with_seed(!seed), kind)));
    tasks.push(Box::new(|| {
        let taken = database.checkpoint();
        assert!(taken.is_ok() || device.is_crashed() || end == End::Closed, "checkpoint: {taken:?}");
        if end == End::AfterCheckpoint {
            device.freeze();
        }
    }));
    if end == End::Closed {
        tasks.push(Box::new(|| database.close().expect("close")));
    }
    let order = run(seed, tasks);
    let (mut attempts, mut shown) = (Vec::new(), Vec::new());
    for client in clients {
        let client = client.into_inner().expect("no panic");
        attempts.extend(client.attempts);
        shown.extend(client.shown);
    }
    device.freeze();
    Run { device, attempts, shown, base, end, order }
}

/// Recovers the database and checks the rules. Returns the number of transactions that survived.
fn judge(seed: u64, run: &Run, kind: EngineKind) -> usize {
    let survival =
        [Survival::DropAll, Survival::DropAll, Survival::KeepAll, Survival::Random][seed as usize % 4];
    let device = run.device.reopen_with(seed, survival);
    let database = open(&device, kind);
    let report = database.verify(None).expect("verify");
    assert!(report.is_sound(), "{:#?}", report.faults);
    let tables = Tables::of(&database);
    let all = |table: &Table| -> Vec<(Vec<u8>, Vec<u8>)> {
        let txn = database.begin().expect("begin");
        txn.range(table, ..).collect::<Result<_>>().expect("range")
    };
    let found: Rows = all(&tables.rows).iter().map(|(key, value)| (key[0], writer(value))).collect();
    let survivors: BTreeSet<Writer> = all(&tables.marks)
        .iter()
        .map(|(key, _)| Writer::from_be_bytes(key[..].try_into().expect("eight bytes")))
        .collect();
    let is_closed = run.end == End::Closed;
    for attempt in &run.attempts {
        let survived = survivors.contains(&attempt.number);
        match attempt.outcome {
            Outcome::Nothing => assert!(!survived, "not committed, and there: {attempt:?}"),
            Outcome::Unknown => {}
            Outcome::Committed { is_acknowledged, .. } => {
                assert!(survived || !(is_acknowledged || is_closed), "acknowledged, and lost: {attempt:?}");
            }
        }
    }
    let bases = u64::MAX - u64::from(KEYS);
    for shown in run.shown.iter().filter(|number| **number < bases) {
        assert!(survivors.contains(shown), "{shown:#x} was shown to an acknowledged reader, and is lost");
    }
    let survived = run.attempts.iter().filter(|attempt| survivors.contains(&attempt.number));
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for attempt in survived {
        match attempt.outcome {
            Outcome::Committed { stamp, .. } => known.push((stamp, attempt)),
            _ => unknown.push(attempt),
        }
    }
    known.sort_by_key(|(stamp, _)| *stamp);
    let known: Vec<&Attempt> = known.into_iter().map(|(_, attempt)| attempt).collect();
    assert!(
        fits(&run.base, &known, &unknown, &found),
        "no order leaves what is there: {found:x?}\nfrom {:x?}\nknown {known:#x?}\nunknown {unknown:#x?}",
        run.base
    );
    survivors.len()
}

/// Returns whether the transactions fit in some order: `known` in their order, with `unknown`
/// anywhere between them. In that order each transaction reads what the earlier ones left, and all
/// together leave `found`.
fn fits(state: &Rows, known: &[&Attempt], unknown: &[&Attempt], found: &Rows) -> bool {
    if known.is_empty() && unknown.is_empty() {
        return state == found;
    }
    let after = |attempt: &Attempt| -> Option<Rows> {
        attempt.reads.iter().all(|(key, seen)| state.get(key).copied() == *seen).then(|| {
            let mut state = state.clone();
            for (key, is_put) in &attempt.writes {
                match is_put {
                    true => state.insert(*key, attempt.number),
                    false => state.remove(key),
                };
            }
            state
        })
    };
    if let Some((first, rest)) = known.split_first()
        && let Some(state) = after(first)
        && fits(&state, rest, unknown, found)
    {
        return true;
    }
    (0..unknown.len()).any(|nth| {
        let mut rest = unknown.to_vec();
        let next = rest.remove(nth);
        after(next).is_some_and(|state| fits(&state, known, &rest, found))
    })
}

/// Counts over all runs.
#[derive(Debug, Default)]
struct Tally {
    runs: AtomicUsize,
    events: AtomicUsize,
    transactions: AtomicUsize,
    survived: AtomicUsize,
}

impl Tally {
    /// Runs and judges this seed, as one task.
    fn add(&self, seed: u64, kind: EngineKind) {
        run_alone(seed, |seed| {
            let run = run_once(seed, kind);
            let survived = judge(seed, &run, kind);
            self.runs.fetch_add(1, Relaxed);
            self.events.fetch_add(run.order.0.len(), Relaxed);
            self.transactions.fetch_add(run.attempts.len(), Relaxed);
            self.survived.fetch_add(survived, Relaxed);
        });
    }
}

fn runs(kind: EngineKind, count: u64) {
    let tally = Tally::default();
    for_each_seed(count, |seed| tally.add(seed, kind));
    println!("{kind}: {tally:?}");
}

#[test]
fn paged() {
    runs(EngineKind::Paged, 60);
}

#[test]
fn memory() {
    runs(EngineKind::Memory, 60);
}

/// Runs both engines with new seeds until the time is up. Does nothing unless `KATYDID_SECONDS` is
/// set. To replay a seed that failed, set `KATYDID_SEED` and run the test with the name of its
/// engine, `paged` or `memory`.
#[test]
fn campaign() {
    let Some(seconds) = number_in("KATYDID_SECONDS") else { return };
    let until = Instant::now() + Duration::from_secs(seconds);
    let first = number_in("KATYDID_SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    let tally = Tally::default();
    let mut nth = 0;
    while nth == 0 || Instant::now() < until {
        for kind in [EngineKind::Paged, EngineKind::Memory] {
            replayable(nth, first.wrapping_add(nth), |seed| tally.add(seed, kind));
        }
        nth += 1;
    }
    println!("{tally:?}");
    println!("evidence: {} crash points", tally.runs.load(Relaxed));
}

/// A seed determines every event, so a failure can be replayed.
#[test]
fn a_seed_names_one_order() {
    for kind in [EngineKind::Paged, EngineKind::Memory] {
        for_each_seed(6, |seed| {
            let order = || {
                let order = Mutex::new(Vec::new());
                let around =
                    run_alone(seed, |seed| *order.lock().expect("no panic") = run_once(seed, kind).order.0);
                let inside = order.into_inner().expect("no panic");
                inside.into_iter().chain(around.0).collect::<Vec<_>>()
            };
            let (first, second) = (order(), order());
            if let Some(at) = (0..first.len().max(second.len())).find(|at| first.get(*at) != second.get(*at))
            {
                let [first, second] = [&first, &second].map(|order| {
                    let part = &order[at.saturating_sub(20)..order.len().min(at + 10)];
                    let shown = |step: &Step| {
                        format!("{} {} {} {:?}\n", step.clock, step.task, step.place, step.line)
                    };
                    part.iter().map(shown).collect::<String>()
                });
                panic!("{kind}: the runs differ from event {at} on:\n{first}\n{second}");
            }
        });
    }
}
