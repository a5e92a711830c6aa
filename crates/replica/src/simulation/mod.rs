//! Simulations of whole clusters: real replicas, Raft logs and engines on simulated machines, disks
//! and networks, in one thread, from one seed.
//!
//! | simulated | how |
//! |---|---|
//! | time | the runtime of each machine has a clock that only the simulation moves; clocks may run at different rates, and a paused machine's clock jumps |
//! | network | `network`: delay, loss of connections, cuts of one or both directions, late arrivals |
//! | disks | `disk`: the devices of `katydid-device`, which lose what was not synced, fail, and are full |
//! | processes | `machine`: killed, without power, paused |
//!
//! Invariants, checked by `oracle` and `world`:
//!
//! 1. A leadership, which is a term and a replica, ends with the life of the replica that won it.
//!    (openraft admits several leaders to a term, and orders them by their numbers.)
//! 2. A register that is read has the number that was acknowledged last, or a later one that its
//!    client has begun to write: no acknowledged commit is lost, no read is stale, and nothing is
//!    applied twice, which would take a register back.
//! 3. A write that was reported as not committed is never seen. A write is seen whole or not at
//!    all.
//! 4. A replica that starts again remembers the greatest vote that it has sent to a candidate.
//! 5. A leader has every entry in its log that was acknowledged before its term began (leader
//!    completeness).
//! 6. When all faults have ended the clients can write, and all members have the same rows.
//!
//! A failure prints what happened and the command that replays it. A seed names a run exactly where
//! the code is compiled with `--cfg tokio_unstable`, as `cargo xtask replicas` does; elsewhere
//! tokio draws the order in which it wakes some tasks, and a replay meets a failure often.
//! `KATYDID_SECONDS` runs new seeds for that time (`cargo xtask replicas --seconds N`).

mod client;
mod disk;
mod machine;
mod network;
mod oracle;
mod world;

use std::time::{Duration, Instant};
use world::{Mix, Summary, World};

/// Runs one seed on a thread of its own, whose generator of random numbers is the run's.
fn run(seed: u64, mix: Option<Mix>) -> Summary {
    let run = std::thread::spawn(move || World::run(seed, mix));
    match run.join() {
        Ok(summary) => summary,
        Err(panic) => {
            eprintln!("again: cargo xtask replicas --seconds 0 --seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs `count` seeds from `first` on, or, if a seed is given, that one; then new ones for the time
/// that is given.
fn seeds(first: u64, count: u64, mix: impl Fn() -> Option<Mix>) {
    let (given, seconds) = (number("KATYDID_SEED"), number("KATYDID_SECONDS").unwrap_or(0));
    let (first, count) = match given {
        Some(seed) => (seed, 1),
        None => (first, count),
    };
    let mut sum = Summary::default();
    let mut runs = 0;
    let mut add = |seed| {
        let ran = run(seed, mix());
        sum.acknowledged += ran.acknowledged;
        sum.refused += ran.refused;
        sum.reads += ran.reads;
        sum.leaderships += ran.leaderships;
        sum.faults += ran.faults;
        runs += 1;
    };
    (first..first + count).for_each(&mut add);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = given.unwrap_or_else(|| fastrand::u64(..u64::MAX / 2));
    while Instant::now() < end {
        seed += 1;
        add(seed);
    }
    println!("{sum:?}\nevidence: {runs} clusters");
    // One seed may be a quiet one.
    if given.is_none() {
        assert!(sum.acknowledged > 10 * runs && sum.reads > 10 * runs, "{sum:?}");
        assert!(sum.leaderships as u64 > runs, "leaders changed: {sum:?}");
    }
}

#[test]
fn clusters_under_faults_keep_what_they_acknowledged() {
    seeds(0, 100, || None);
}

#[test]
fn voters_that_lose_power_keep_their_votes() {
    seeds(10_000, 50, || Some(Mix::elections()));
}

#[test]
#[cfg(tokio_unstable)]
fn a_seed_names_a_run() {
    for seed in [3, 4] {
        let first = run(seed, None);
        assert!(first.acknowledged > 0);
        assert_eq!(first, run(seed, None), "seed {seed}");
    }
}
