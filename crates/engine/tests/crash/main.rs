//! Crashes of the store on the simulated device: at every step of seeded workloads, with un-synced bytes dropped, torn
//! and reordered, and again during recovery. After each, rules 1 and 2 of the design are checked: every acknowledged
//! commit is there, no unacknowledged transaction is partly there, nothing that depends on a lost one survives, and
//! recovering again changes nothing.
//!
//! `KATYDID_SEED` replays one seed, `KATYDID_SECONDS` runs new seeds for so long (`cargo xtask crash --seconds N`).

#[path = "../common/mod.rs"]
mod common;

mod client;
mod crowd;
mod history;

use client::{Client, options};
use common::Rng;
use history::{History, Model};
use katydid::{Database, Error};
use katydid_device::{SimDevice, Survival};
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

fn survival(random: &mut Rng) -> Survival {
    match random.u32(0..8) {
        0 => Survival::DropAll,
        1 => Survival::KeepAll,
        _ => Survival::Random,
    }
}

/// Recovers, crashing on the way some times; the device it succeeded on, and the open database.
pub fn recover(mut device: SimDevice, random: &mut Rng, seed: u64) -> (SimDevice, Database) {
    device = device.reopen_with(random.u64(..), survival(random));
    for _ in 0..random.usize(0..4) {
        // Most recoveries take fewer steps than the upper end; then this one succeeds and is crashed right after.
        device.crash_at(random.u64(0..120));
        match Database::open_in(device.directory(), options(seed)) {
            Ok(database) => {
                device.freeze();
                drop(database);
            }
            Err(error) => assert!(device.is_crashed(), "recovery failed: {error}"),
        }
        device = device.reopen_with(random.u64(..), survival(random));
    }
    let database = Database::open_in(device.directory(), options(seed)).unwrap_or_else(|error| {
        panic!("recovery failed: {error}");
    });
    (device, database)
}

fn expect_crash(result: Result<(), Error>, device: &SimDevice) {
    if let Err(error) = result {
        assert!(device.is_crashed(), "failed without a crash: {error}");
    }
}

/// Runs the workload of `seed`, crashing at `step`; some generations of crash and recovery.
fn crash_once(seed: u64, step: u64, units: usize) {
    let mut random = Rng::with_seed(seed ^ (step << 32) ^ 0x5eed);
    let mut history = History::default();
    let mut device = SimDevice::new(seed);
    device.crash_at(step);
    for generation in 0..3 {
        println!("generation {generation}");
        let result = Client::new(&device, seed + generation, &mut history).run(units);
        expect_crash(result, &device);
        let (recovered, database) = recover(device, &mut random, seed);
        let found = everything(&database);
        let survivors = history.survivors(&found);
        common::assert_sound(&database.verify(None).expect("verify"));
        drop(database);
        let again = Database::open_in(recovered.directory(), options(seed)).expect("open again");
        let same = everything(&again);
        assert!(same == found, "opening again changed the store, which had {survivors} units");
        drop(again);
        history.settle(found);
        device = recovered;
        device.crash_at(device.steps() + random.u64(1..400));
    }
}

fn steps(seed: u64, units: usize) -> u64 {
    let device = SimDevice::new(seed);
    let mut history = History::default();
    Client::new(&device, seed, &mut history).run(units).expect("a run without a crash");
    let database = Database::open_in(device.directory(), options(seed)).expect("open");
    assert!(everything(&database) == history.state());
    device.steps()
}

fn replay<T>(seed: u64, step: u64, run: impl FnOnce() -> T + std::panic::UnwindSafe) -> T {
    std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        println!("KATYDID_SEED={seed} step {step}");
        std::panic::resume_unwind(panic)
    })
}

fn seconds() -> Option<Duration> {
    let seconds = std::env::var("KATYDID_SECONDS").ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[test]
fn a_crash_at_every_step() {
    let seed = common::seed(21);
    let units = 40;
    let total = steps(seed, units);
    println!("KATYDID_SEED={seed}: {total} steps");
    for step in 0..total {
        replay(seed, step, || crash_once(seed, step, units));
    }
}

#[test]
fn crashes_at_some_steps_of_many_workloads() {
    let first = common::seed(1000);
    let mut points = 0;
    for seed in first..first + 30 {
        let units = 120;
        let total = steps(seed, units);
        let mut random = Rng::with_seed(seed);
        for _ in 0..12 {
            let step = random.u64(0..total);
            replay(seed, step, || crash_once(seed, step, units));
            points += 1;
        }
    }
    println!("{points} crash points");
}

#[test]
fn crashes_under_several_threads() {
    let first = common::seed(500);
    for seed in first..first + 40 {
        replay(seed, 0, || crowd::crash_once(seed));
    }
}

/// The campaign: new seeds until the time is up. Does nothing unless `KATYDID_SECONDS` is set.
#[test]
fn campaign() {
    let Some(length) = seconds() else { return };
    let start = Instant::now();
    let mut seed = common::seed(start.elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 20);
    let mut points = 0u64;
    while start.elapsed() < length {
        println!("KATYDID_SEED={seed}");
        let units = 100;
        let total = steps(seed, units);
        let mut random = Rng::with_seed(seed);
        for _ in 0..20 {
            let step = random.u64(0..total);
            replay(seed, step, || crash_once(seed, step, units));
            points += 1;
        }
        replay(seed, 0, || crowd::crash_once(seed));
        points += 1;
        seed = seed.wrapping_add(1);
    }
    println!("{points} crash points in {} s", start.elapsed().as_secs());
}
