//! Crashes of the store on the simulated device: at every step of seeded workloads, with un-synced
//! bytes dropped, torn and reordered, and again during recovery. These rules are checked after each
//! crash: every acknowledged commit is there, no unacknowledged transaction is partly there,
//! nothing that depends on a lost transaction survives, and recovering again changes nothing.
//!
//! How far a failure can be replayed depends on the kind of test:
//!
//! - One client, all work on its thread: exactly, on a thread whose number is the same modulo six
//!   (`worker::on_number`). Seed, step and units name one sequence of device calls and one outcome.
//! - One client beside the database's own threads: roughly. The seed gives the same transactions; a
//!   step's number says only roughly when the step was.
//! - One client, any of whose device calls may fail, over several processes: exactly, except for
//!   the thread that makes the failing read. See `lives`.
//! - Several clients that take turns: exactly, except what the number of a thread changes. See
//!   `turns`.
//! - Several clients, with crashes also at every sync of the log: roughly. The seed gives each
//!   client's choices, but not the order of the calls of different clients.
//!
//! With logs in NVRAM, the write-backs and fences of their memories are steps too, and a crash
//! leaves any of the words that were not persisted.
//!
//! A failure prints the line that replays it (`one_crash`). Each test has seeds that are always the
//! same, and some new ones. `KATYDID_SEED`, without the other variables of that line, sets the
//! first seed of each test. `KATYDID_ENGINE` picks the engine of a replay and of the campaign.
//! `KATYDID_SECONDS` is the time for which the campaign runs new seeds (`cargo xtask crash
//! --seconds N`).

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod client;
mod clients;
mod history;
mod lives;
mod machine;
mod order;
mod trash;
mod turns;
mod worker;

use client::Client;
use common::Rng;
use history::{History, Model};
use katydid::testing::Background::{self, Caller, Threads};
use katydid::{Database, EngineKind, Error, InserterKind, LogKind};
use machine::{Kind, Machine, Point, Steps};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Returns everything in the store.
pub fn everything(database: &Database) -> Model {
    let tables = database.tables().expect("tables");
    tables
        .into_iter()
        .map(|name| {
            let table = database.open_table(&name).expect("open table").expect("a listed table");
            (name, common::contents(database, &table))
        })
        .collect()
}

/// Recovers, after some crashes on the way. Returns the machine on which recovery succeeded, and
/// the open database.
pub fn recover(machine: Machine, random: &mut Rng, seed: u64) -> (Machine, Database) {
    let restarted = machine.restart(random);
    recover_restarted(restarted, random, seed)
}

/// Recovers on a machine that was restarted already.
pub fn recover_restarted(mut machine: Machine, random: &mut Rng, seed: u64) -> (Machine, Database) {
    for _ in 0..random.usize(0..4) {
        // Most recoveries end before the step of the crash. Such a recovery succeeds, and the
        // device is frozen right after it.
        machine.crash_soon(random, 120, 60);
        match machine.open(seed) {
            Ok(database) => {
                machine.device.freeze();
                drop(database);
            }
            Err(error) => assert!(machine.device.is_crashed(), "recovery failed: {error}"),
        }
        machine = machine.restart(random);
    }
    let database = machine.open(seed).unwrap_or_else(|error| panic!("recovery failed: {error}"));
    (machine, database)
}

/// A seeded workload of `units` units of one client.
#[derive(Debug, Clone, Copy)]
struct Workload {
    engine: EngineKind,
    log: LogKind,
    seed: u64,
    units: usize,
    background: Background,
}

/// Result of a crash: for each recovery, the number of units that survived and the contents of the
/// store; and all device calls.
#[derive(Debug, PartialEq)]
struct Outcome {
    generations: Vec<(usize, Model)>,
    calls: Vec<String>,
}

impl Workload {
    /// Returns the steps that the workload takes without a crash.
    fn steps(self) -> Steps {
        worker::on_number(self.seed as usize, || self.steps_here())
    }

    fn machine(self) -> Machine {
        Machine::new(self.engine, self.seed, self.background).with_log(self.log).perhaps_high(self.seed)
    }

    fn steps_here(self) -> Steps {
        let machine = self.machine();
        let mut history = History::default();
        Client::new(&machine, self.seed, &mut history).run(self.units).expect("a run without a crash");
        let database = machine.open(self.seed).expect("open");
        assert!(everything(&database) == history.state());
        machine.steps()
    }

    /// Asserts that the workload's log positions pass [`machine::HIGH`].
    fn expect_high(self) {
        let machine = self.machine();
        let database = machine.open(self.seed).expect("open");
        let stream = |database: &Database| database.stat().expect("stat").log.streams;
        assert!(stream(&database).iter().all(|stream| stream.start.get() < machine::HIGH));
        drop(database);
        let mut history = History::default();
        Client::new(&machine, self.seed, &mut history).run(self.units).expect("a run without a crash");
        let database = machine.open(self.seed).expect("open");
        assert!(stream(&database).iter().any(|stream| stream.reserved.get() > machine::HIGH));
    }

    /// Runs the workload with a crash at a step, and then some generations of crash and recovery.
    fn crash_at(self, point: Point) -> Outcome {
        worker::on_number(self.seed as usize, || self.crash_here(point))
    }

    fn crash_here(self, point: Point) -> Outcome {
        let Workload { seed, units, .. } = self;
        let (Point::Device(step) | Point::Memory(_, step)) = point;
        let mut random = Rng::with_seed(seed ^ (step << 32) ^ 0x5eed);
        let mut history = History::default();
        let mut machine = self.machine();
        let mut generations = Vec::new();
        machine.crash_at(point);
        for generation in 0..3 {
            println!("generation {generation}");
            let result = Client::new(&machine, seed + generation, &mut history).run(units);
            expect_crash(result, &machine);
            let (recovered, database) = recover(machine, &mut random, seed);
            let found = everything(&database);
            let survivors = history.survivors(&found);
            common::assert_sound(&database.verify(None).expect("verify"));
            drop(database);
            let again = recovered.open(seed).expect("open again");
            let same = everything(&again);
            assert!(same == found, "opening again changed the store, which had {survivors} units");
            drop(again);
            generations.push((survivors, found.clone()));
            history.settle(found);
            machine = recovered;
            machine.crash_soon(&mut random, 400, 400);
        }
        Outcome { generations, calls: machine.changes() }
    }

    /// Runs [`Workload::crash_at`]; a failure prints how to replay it.
    fn crash_replayably(self, point: Point) -> Outcome {
        let Workload { engine, log, seed, units, background } = self;
        let (place, step) = match point {
            Point::Device(step) => (String::new(), step),
            Point::Memory(nth, step) => (format!("KATYDID_MEMORY={nth} "), step),
        };
        replay(
            || self.crash_at(point),
            || match background {
                Caller => println!(
                    "KATYDID_ENGINE={engine} KATYDID_LOG={log} KATYDID_SEED={seed} {place}KATYDID_STEP={step} KATYDID_UNITS={units} cargo test -p katydid --test crash one_crash"
                ),
                _ => println!(
                    "{engine} engine, {log}, seed {seed}, about {point:?}, beside background threads: not exactly replayable"
                ),
            },
        )
    }
}

fn expect_crash(result: Result<(), Error>, machine: &Machine) {
    if let Err(error) = result {
        assert!(machine.device.is_crashed(), "failed without a crash: {error}");
    }
}

fn replay<T>(run: impl FnOnce() -> T, say: impl FnOnce()) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        say();
        std::panic::resume_unwind(panic)
    })
}

fn clients(engine: EngineKind, log: LogKind, seed: u64) {
    replay(
        || clients::crash_once(engine, log, seed),
        || println!("{engine} engine, {log}, seed {seed} of several clients: not exactly replayable"),
    );
}

/// Returns kinds with every combination of protocol, lock release and I/O method (and rule of
/// dependencies), each with its seed.
fn kinds(engine: EngineKind, seed: u64) -> impl Iterator<Item = (u64, Kind)> {
    // The seeds repeat kinds, because two of the three lock releases are the same.
    let all = (seed..seed + Kind::without_inserters(engine)).map(move |seed| (seed, Kind::of(engine, seed)));
    let mut seen: Vec<Kind> = Vec::new();
    all.filter(move |(_, kind)| {
        let same = |other: &Kind| {
            let Kind { inserter, streams, page_method, .. } = *other;
            Kind { inserter, streams, page_method, ..*kind } == *other
        };
        let new = !seen.iter().any(same);
        if new {
            seen.push(*kind);
        }
        new
    })
}

/// Crashes at every write and sync of the log of a short workload of several clients. Returns the
/// number of crashes.
fn at_every_sync(seed: u64, (number, kind): (u64, Kind)) -> u64 {
    for nth in 0.. {
        let crashed = replay(
            || clients::crash_at_sync(seed, kind, nth),
            || {
                println!(
                    "{kind:?}, of several clients: not exactly replayable. About: KATYDID_ENGINE={} KATYDID_SEED={seed} KATYDID_KIND={number} KATYDID_STEP={nth} cargo test -p katydid --test crash one_sync",
                    kind.engine
                );
            },
        );
        if !crashed {
            return nth;
        }
    }
    0
}

/// Runs some crashes of a workload of clients that take turns.
fn turns(engine: EngineKind, seed: u64, inserter: InserterKind, crashes: usize, workers: &[worker::Worker]) {
    let (units, log) = (300, common::log());
    let steps = turns::steps((engine, log), seed, inserter, units, workers);
    let mut random = Rng::with_seed(seed);
    for _ in 0..crashes {
        // The step is often beyond the end: the device then crashes in the sync at the end.
        let point = steps.point(random.u64(0..=steps.total() * 2));
        replay(
            || turns::crash_at((engine, log), seed, inserter, units, point, workers),
            || {
                let (Point::Device(step) | Point::Memory(_, step)) = point;
                println!(
                    "{log}, {point:?}; on disk: KATYDID_ENGINE={engine} KATYDID_SEED={seed} KATYDID_STEP={step} KATYDID_INSERTER={inserter} cargo test -p katydid --test crash one_turn"
                );
            },
        );
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the engine of a replay, from the environment.
fn engine() -> EngineKind {
    std::env::var("KATYDID_ENGINE").map_or(EngineKind::Paged, |name| name.parse().expect("an engine"))
}

suite! {
    a_crash_at_every_step,
    crashes_at_some_steps_of_many_workloads,
    crashes_while_positions_take_a_33rd_bit,
    crashes_beside_background_threads,
    crashes_under_several_threads,
    release_crashes_at_every_sync_take_back_nothing_that_was_relied_on,
    crashes_while_clients_take_turns,
    lives_in_which_any_call_may_fail_lose_nothing,
    garbage_in_sectors_being_written_outside_the_log_loses_nothing,
    a_seed_gives_the_same_calls_and_the_same_outcome_again,
}

// A log in NVRAM makes no write and no sync. So the list leaves out
// `release_crashes_at_every_sync_take_back_nothing_that_was_relied_on`, which crashes at syncs. It
// also leaves out the tests with failing device calls (`lives`) and with garbage in sectors
// (`trash`).
suite! {
    in_nvram:
    a_crash_at_every_step,
    crashes_at_some_steps_of_many_workloads,
    crashes_while_positions_take_a_33rd_bit,
    crashes_beside_background_threads,
    crashes_under_several_threads,
    crashes_while_clients_take_turns,
    a_seed_gives_the_same_calls_and_the_same_outcome_again,
}

/// Returns the number of seeds for an engine. The numbers are small, because CI runs these tests;
/// the campaign (`cargo xtask crash`) does all of their work with new seeds for a given time.
fn some(engine: EngineKind, of_paged: u64, of_memory: u64) -> u64 {
    if engine == EngineKind::Paged { of_paged } else { of_memory }
}

fn a_crash_at_every_step(engine: EngineKind) {
    let units = if common::log().in_nvram() { 4 } else { 20 };
    let workload = Workload { engine, log: common::log(), seed: common::seed(21), units, background: Caller };
    let steps = workload.steps();
    println!("{workload:?}: {steps:?}");
    for step in 0..steps.total() {
        workload.crash_replayably(steps.point(step));
    }
}

fn garbage_in_sectors_being_written_outside_the_log_loses_nothing(engine: EngineKind) {
    let mut reached = BTreeSet::new();
    for seed in common::seeds(7000, 2, 1) {
        reached.extend(trash::crashes(engine, seed, 90, 5).into_keys());
    }
    for kind in trash::kinds(engine) {
        assert!(reached.contains(kind), "no crash in a write of {kind}: {reached:?}");
    }
}

fn crashes_at_some_steps_of_many_workloads(engine: EngineKind) {
    some_steps_of_many(engine, Caller, 1000, 8);
}

fn crashes_while_positions_take_a_33rd_bit(engine: EngineKind) {
    let (first, log) = (common::seed(9000), common::log());
    let (seeds, crashes) = if log.in_nvram() { (1, 4) } else { (4, 6) };
    for seed in (first..).filter(|seed| machine::begins_high(*seed)).take(seeds) {
        let workload = Workload { engine, log, seed, units: 120, background: Caller };
        worker::on_number(seed as usize, || workload.expect_high());
        let steps = workload.steps();
        let mut random = Rng::with_seed(seed);
        for _ in 0..crashes {
            workload.crash_replayably(steps.point(random.u64(0..steps.total())));
        }
    }
}

fn crashes_beside_background_threads(engine: EngineKind) {
    some_steps_of_many(engine, Threads, 2000, 4);
}

fn some_steps_of_many(engine: EngineKind, background: Background, first: u64, crashes: usize) {
    let log = common::log();
    let seeds = if log.in_nvram() { 1 } else { some(engine, 6, 4) };
    for seed in common::seeds(first, seeds, 2) {
        let workload = Workload { engine, log, seed, units: 120, background };
        let steps = workload.steps();
        let mut random = Rng::with_seed(seed);
        for _ in 0..crashes {
            workload.crash_replayably(steps.point(random.u64(0..steps.total())));
        }
    }
}

fn crashes_under_several_threads(engine: EngineKind) {
    let log = common::log();
    let seeds = if log.in_nvram() { 6 } else { 15 };
    for seed in common::seeds(500, seeds, 4) {
        clients(engine, log, seed);
    }
}

/// With early release, nothing that depends on a lost transaction was acknowledged or shown as
/// durable.
fn release_crashes_at_every_sync_take_back_nothing_that_was_relied_on(engine: EngineKind) {
    let first = common::seed(6000);
    let step = some(engine, 2, 3) as usize;
    for kind in kinds(engine, first).step_by(step) {
        let crashes = at_every_sync(first, kind);
        println!("{:?}: {crashes} crashes", kind.1);
        assert!(crashes > 5);
    }
}

fn crashes_while_clients_take_turns(engine: EngineKind) {
    let workers = turns::workers();
    let first = 4000;
    // A crash with a log in NVRAM takes longer, because the write-backs and fences of the memory
    // are steps too.
    let (seeds, crashes, of_each) =
        if common::log().in_nvram() { (1, 4, 1) } else { (some(engine, 8, 4), 10, 2) };
    for seed in common::seeds(first, seeds, 2) {
        turns(engine, seed, InserterKind::Chunked, crashes, &workers);
    }
    for (seed, inserter) in (common::seed(first)..).zip(InserterKind::ALL) {
        turns(engine, seed, inserter, of_each, &workers);
    }
}

/// Runs fixed seeds, some of which have found a bug, and new seeds.
fn lives_in_which_any_call_may_fail_lose_nothing(engine: EngineKind) {
    let mut met = lives::LifeEvents::default();
    for seed in common::seeds(7000, 100, 60) {
        lives::live(engine, seed, &mut met);
    }
    println!("{met:?}");
    assert!(met.faults > 100 && met.failed_openings > 20 && met.kills > 100 && met.crashes > 100, "{met:?}");
}

/// Runs the life that a failure named. Does nothing unless the environment names it.
#[test]
fn one_life() {
    let Some(seed) = setting("KATYDID_SEED") else { return };
    lives::live(engine(), seed, &mut lives::LifeEvents::default());
}

/// Repeats the crash of clients that take turns, as a failure named it. Does nothing unless the
/// environment names it.
#[test]
fn one_turn() {
    let (Some(seed), Some(step)) = (setting("KATYDID_SEED"), setting("KATYDID_STEP")) else { return };
    let Ok(inserter) = std::env::var("KATYDID_INSERTER") else { return };
    let inserter = inserter.parse().expect("an inserter");
    let store = (engine(), LogKind::Disk);
    turns::crash_at(store, seed, inserter, 300, Point::Device(step), &turns::workers());
}

/// The second run is on another thread, and beside other tests. The thread and the other tests must
/// not change the outcome.
fn a_seed_gives_the_same_calls_and_the_same_outcome_again(engine: EngineKind) {
    let first = common::seed(3000);
    // Together these seeds use all designs.
    let seeds = if common::log().in_nvram() { 4 } else { 12 };
    // The last seed has rows of several tables in one checkpoint, which once were in the order of a
    // hash map.
    for seed in (first..first + seeds).chain([5]) {
        let workload = Workload { engine, log: common::log(), seed, units: 80, background: Caller };
        let steps = workload.steps();
        assert_eq!(steps, workload.steps());
        let mut random = Rng::with_seed(seed);
        for _ in 0..3 {
            let step = random.u64(0..steps.total());
            let point = steps.point(step);
            let once = workload.crash_at(point);
            let again = std::thread::spawn(move || workload.crash_at(point)).join().expect("no panic");
            let differs = once.calls.iter().zip(&again.calls).position(|(a, b)| a != b);
            if let Some(at) = differs {
                let near = |outcome: &Outcome| outcome.calls[at.saturating_sub(5)..=at].to_vec();
                panic!("seed {seed} step {step}: call {at} differs: {:#?} {:#?}", near(&once), near(&again));
            }
            assert_eq!(once.calls.len(), again.calls.len(), "seed {seed} step {step}");
            assert!(once == again, "seed {seed} step {step}: other survivors after the same calls");
            assert!(once.generations.len() == 3 && once.calls.iter().any(|call| call == "crash"));
        }
    }
}

/// Repeats the crash that a failure named. Does nothing unless the environment names it.
#[test]
fn one_crash() {
    let (Some(seed), Some(step), Some(units)) =
        (setting("KATYDID_SEED"), setting("KATYDID_STEP"), setting("KATYDID_UNITS"))
    else {
        return;
    };
    let background = if std::env::var_os("KATYDID_THREADS").is_some() { Threads } else { Caller };
    let log = std::env::var("KATYDID_LOG").map_or(LogKind::Disk, |name| name.parse().expect("a log"));
    let workload = Workload { engine: engine(), log, seed, units: units as usize, background };
    let point = match setting("KATYDID_MEMORY") {
        Some(nth) => Point::Memory(nth as usize, step),
        None => Point::Device(step),
    };
    for _ in 1..setting("KATYDID_TIMES").unwrap_or(1) {
        workload.crash_at(point);
    }
    let Outcome { generations, calls } = workload.crash_at(point);
    let survived: Vec<usize> = generations.iter().map(|(units, _)| *units).collect();
    println!("{} device calls, survivors {survived:?}", calls.len());
}

/// Repeats the crash of several clients that a failure named, a number of times. Does nothing
/// unless the environment names it.
#[test]
fn one_sync() {
    let (Some(seed), Some(nth), Some(number)) =
        (setting("KATYDID_SEED"), setting("KATYDID_STEP"), setting("KATYDID_KIND"))
    else {
        return;
    };
    for _ in 0..setting("KATYDID_TIMES").unwrap_or(100) {
        clients::crash_at_sync(seed, Kind::of(engine(), number), nth);
    }
}

/// Runs the campaign: crashes with new seeds until the time is up. Does nothing unless
/// `KATYDID_SECONDS` is set.
#[test]
fn campaign() {
    let Some(length) = setting("KATYDID_SECONDS").map(Duration::from_secs) else { return };
    let start = Instant::now();
    let mut seed = common::seed(common::fresh_seed());
    let (mut points, mut seen) = (0u64, 0u64);
    let only = std::env::var_os("KATYDID_ENGINE");
    let workers = turns::workers();
    while start.elapsed() < length {
        println!("KATYDID_SEED={seed}");
        let engine = if only.is_some() {
            self::engine()
        } else {
            [EngineKind::Paged, EngineKind::Memory][(seen % 2) as usize]
        };
        let log = LogKind::ALL[(seen / 2) as usize % LogKind::ALL.len()];
        for (background, crashes) in [(Caller, 14), (Threads, 6)] {
            let workload = Workload { engine, log, seed, units: 100, background };
            let steps = workload.steps();
            let mut random = Rng::with_seed(seed);
            for _ in 0..crashes {
                workload.crash_replayably(steps.point(random.u64(0..steps.total())));
                points += 1;
            }
        }
        clients(engine, log, seed);
        turns(engine, seed, InserterKind::Chunked, 10, &workers);
        turns(engine, seed, InserterKind::ALL[(seed % 9) as usize], 2, &workers);
        points += 13 + at_every_sync(seed, (seed, Kind::of(engine, seed)));
        points += trash::crashes(engine, seed, 120, 20).values().sum::<u64>();
        let mut met = lives::LifeEvents::default();
        for nth in 0..40 {
            lives::live(engine, seed.wrapping_add(nth << 32), &mut met);
        }
        points += met.kills + met.crashes;
        seen += 1;
        seed = seed.wrapping_add(1);
    }
    let seconds = start.elapsed().as_secs();
    println!(
        "{points} crash points in {seconds} s, over {seen} kinds of database, of both engines unless one was named"
    );
    println!("evidence: {points} crash points");
}
