//! Crashes of the store on the simulated device: at every step of seeded workloads, with un-synced bytes dropped, torn
//! and reordered, and again during recovery. After each, rules 1 and 2 of the design are checked: every acknowledged
//! commit is there, no unacknowledged transaction is partly there, nothing that depends on a lost one survives, and
//! recovering again changes nothing.
//!
//! | what | replayable |
//! |---|---|
//! | one client, all work on its thread | exactly: seed, step and units name one sequence of device calls and one outcome |
//! | one client beside the database's own threads | roughly: the seed gives the same transactions, a step is a time |
//! | several clients that take turns | exactly, but for what the number of a thread changes: see `turns` |
//! | several clients, also at every sync of the log | roughly: the seed gives each client's choices, not how they meet |
//!
//! A failure prints the line that replays it (`one_crash`). `KATYDID_SEED` alone sets the first seed of each test,
//! `KATYDID_SECONDS` runs new seeds for so long (`cargo xtask crash --seconds N`).

#[path = "../common/mod.rs"]
mod common;

mod client;
mod crowd;
mod history;
mod machine;
mod order;
mod turns;
mod worker;

use client::Client;
use common::Rng;
use history::{History, Model};
use katydid::testing::Background::{self, Caller, Threads};
use katydid::{Database, Error, InserterKind};
use machine::{Kind, Machine};
use std::time::{Duration, Instant};

/// Everything in the store.
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

/// Recovers, crashing on the way some times; the machine it succeeded on, and the open database.
pub fn recover(machine: Machine, random: &mut Rng, seed: u64) -> (Machine, Database) {
    let restarted = machine.restart(random);
    recover_restarted(restarted, random, seed)
}

/// The same, on a machine that was restarted already.
pub fn recover_restarted(mut machine: Machine, random: &mut Rng, seed: u64) -> (Machine, Database) {
    for _ in 0..random.usize(0..4) {
        // Most recoveries take fewer steps than the upper end; then this one succeeds and is crashed right after.
        machine.device.crash_at(random.u64(0..120));
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

/// A seeded workload of so many units of one client.
#[derive(Debug, Clone, Copy)]
struct Workload {
    seed: u64,
    units: usize,
    background: Background,
}

/// What came of a crash: after each recovery the number of units that survived and the store; and all device calls.
#[derive(Debug, PartialEq)]
struct Outcome {
    generations: Vec<(usize, Model)>,
    told: Vec<String>,
}

impl Workload {
    /// Steps it takes without a crash.
    fn steps(self) -> u64 {
        let machine = Machine::new(self.seed, self.background);
        let mut history = History::default();
        Client::new(&machine, self.seed, &mut history).run(self.units).expect("a run without a crash");
        let database = machine.open(self.seed).expect("open");
        assert!(everything(&database) == history.state());
        machine.device.steps()
    }

    /// Runs it, crashing at `step`; some generations of crash and recovery.
    fn crash_at(self, step: u64) -> Outcome {
        let Workload { seed, units, background } = self;
        let mut random = Rng::with_seed(seed ^ (step << 32) ^ 0x5eed);
        let mut history = History::default();
        let mut machine = Machine::new(seed, background);
        let mut generations = Vec::new();
        machine.device.crash_at(step);
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
            machine.device.crash_at(machine.device.steps() + random.u64(1..400));
        }
        Outcome { generations, told: machine.told() }
    }

    /// As [`Workload::crash_at`]; a failure says how to see it again.
    fn crash_replayably(self, step: u64) -> Outcome {
        let Workload { seed, units, background } = self;
        replay(
            || self.crash_at(step),
            || match background {
                Caller => println!(
                    "KATYDID_SEED={seed} KATYDID_STEP={step} KATYDID_UNITS={units} cargo test -p katydid --test crash one_crash"
                ),
                _ => println!(
                    "seed {seed}, about step {step}, beside background threads: not exactly replayable"
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

fn crowd(seed: u64) {
    replay(|| crowd::crash_once(seed), || println!("seed {seed} of several clients: not exactly replayable"));
}

/// Every protocol with every lock release and device.
fn kinds(seed: u64) -> impl Iterator<Item = Kind> {
    // By twos: of three lock releases two are the same.
    let all = (seed..seed + Kind::WITHOUT_INSERTERS).map(Kind::of);
    let mut seen: Vec<Kind> = Vec::new();
    all.filter(move |kind| {
        let same = |other: &Kind| Kind { inserter: other.inserter, ..*kind } == *other;
        let new = !seen.iter().any(same);
        if new {
            seen.push(*kind);
        }
        new
    })
}

/// Crashes at every write and sync of the log of a short workload of several clients; how many.
fn at_every_sync(seed: u64, kind: Kind) -> u64 {
    for nth in 0.. {
        let crashed = replay(
            || crowd::crash_at_sync(seed, kind, nth),
            || println!("seed {seed}, {kind:?}, log call {nth}, of several clients: not exactly replayable"),
        );
        if !crashed {
            return nth;
        }
    }
    0
}

/// Some crashes of a workload of clients that take turns.
fn turns(seed: u64, inserter: InserterKind, crashes: usize, workers: &[worker::Worker]) {
    let units = 300;
    let total = turns::steps(seed, inserter, units, workers);
    let mut random = Rng::with_seed(seed);
    for _ in 0..crashes {
        let step = random.u64(0..=total * 2);
        replay(
            || turns::crash_at(seed, inserter, units, step, workers),
            || {
                println!(
                    "KATYDID_SEED={seed} KATYDID_STEP={step} KATYDID_INSERTER={inserter} cargo test -p katydid --test crash one_turn"
                );
            },
        );
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_crash_at_every_step() {
    let workload = Workload { seed: common::seed(21), units: 40, background: Caller };
    let total = workload.steps();
    println!("{workload:?}: {total} steps");
    for step in 0..total {
        workload.crash_replayably(step);
    }
}

#[test]
fn crashes_at_some_steps_of_many_workloads() {
    some_steps_of_many(Caller, common::seed(1000), 12);
}

#[test]
fn crashes_beside_background_threads() {
    some_steps_of_many(Threads, common::seed(2000), 6);
}

fn some_steps_of_many(background: Background, first: u64, crashes: usize) {
    for seed in first..first + 30 {
        let workload = Workload { seed, units: 120, background };
        let total = workload.steps();
        let mut random = Rng::with_seed(seed);
        for _ in 0..crashes {
            workload.crash_replayably(random.u64(0..total));
        }
    }
}

#[test]
fn crashes_under_several_threads() {
    let first = common::seed(500);
    for seed in first..first + 40 {
        crowd(seed);
    }
}

/// With early release nothing was acknowledged, and nothing shown as durable, that depends on a lost transaction.
#[test]
fn release_crashes_at_every_sync_take_back_nothing_that_was_relied_on() {
    let first = common::seed(6000);
    for kind in kinds(first) {
        let crashes = at_every_sync(first, kind);
        println!("{kind:?}: {crashes} crashes");
        assert!(crashes > 5);
    }
}

#[test]
fn crashes_while_clients_take_turns() {
    let workers = turns::workers();
    let first = common::seed(4000);
    for seed in first..first + 60 {
        turns(seed, InserterKind::Chunked, 10, &workers);
    }
    for (seed, inserter) in (first..).zip(InserterKind::ALL) {
        turns(seed, inserter, 4, &workers);
    }
}

/// The crash of clients that take turns that a failure named. Does nothing unless it is told which.
#[test]
fn one_turn() {
    let (Some(seed), Some(step)) = (setting("KATYDID_SEED"), setting("KATYDID_STEP")) else { return };
    let Ok(inserter) = std::env::var("KATYDID_INSERTER") else { return };
    let inserter = inserter.parse().expect("an inserter");
    turns::crash_at(seed, inserter, 300, step, &turns::workers());
}

/// On another thread, beside whatever else runs: neither may matter.
#[test]
fn a_seed_gives_the_same_calls_and_the_same_outcome_again() {
    let first = common::seed(3000);
    // All designs are among so many seeds.
    for seed in first..first + 12 {
        let workload = Workload { seed, units: 80, background: Caller };
        let total = workload.steps();
        assert_eq!(total, workload.steps());
        let mut random = Rng::with_seed(seed);
        for _ in 0..3 {
            let step = random.u64(0..total);
            let once = workload.crash_at(step);
            let again = std::thread::spawn(move || workload.crash_at(step)).join().expect("no panic");
            let differs = once.told.iter().zip(&again.told).position(|(a, b)| a != b);
            if let Some(at) = differs {
                let near = |outcome: &Outcome| outcome.told[at.saturating_sub(5)..=at].to_vec();
                panic!("seed {seed} step {step}: call {at} differs: {:#?} {:#?}", near(&once), near(&again));
            }
            assert_eq!(once.told.len(), again.told.len(), "seed {seed} step {step}");
            assert!(once == again, "seed {seed} step {step}: other survivors after the same calls");
            assert!(once.generations.len() == 3 && once.told.iter().any(|call| call == "crash"));
        }
    }
}

/// The crash that a failure named. Does nothing unless it is told which.
#[test]
fn one_crash() {
    let (Some(seed), Some(step), Some(units)) =
        (setting("KATYDID_SEED"), setting("KATYDID_STEP"), setting("KATYDID_UNITS"))
    else {
        return;
    };
    let workload = Workload { seed, units: units as usize, background: Caller };
    let Outcome { generations, told } = workload.crash_at(step);
    let survived: Vec<usize> = generations.iter().map(|(units, _)| *units).collect();
    println!("{} device calls, survivors {survived:?}", told.len());
}

/// The campaign: new seeds until the time is up. Does nothing unless `KATYDID_SECONDS` is set.
#[test]
fn campaign() {
    let Some(length) = setting("KATYDID_SECONDS").map(Duration::from_secs) else { return };
    let start = Instant::now();
    let mut seed = common::seed(start.elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 20);
    let (mut points, mut seen) = (0u64, 0u64);
    let workers = turns::workers();
    while start.elapsed() < length {
        println!("KATYDID_SEED={seed}");
        for (background, crashes) in [(Caller, 14), (Threads, 6)] {
            let workload = Workload { seed, units: 100, background };
            let total = workload.steps();
            let mut random = Rng::with_seed(seed);
            for _ in 0..crashes {
                workload.crash_replayably(random.u64(0..total));
                points += 1;
            }
        }
        crowd(seed);
        turns(seed, InserterKind::Chunked, 10, &workers);
        turns(seed, InserterKind::ALL[(seed % 9) as usize], 2, &workers);
        points += 13 + at_every_sync(seed, Kind::of(seed));
        seen += 1;
        seed = seed.wrapping_add(1);
    }
    let (seconds, all) = (start.elapsed().as_secs(), Kind::WITHOUT_INSERTERS);
    println!(
        "{points} crash points in {seconds} s, over {seen} kinds of database ({all}: each protocol, lock release and device)"
    );
}
