//! Simulations of whole clusters. One seed drives real replicas, Raft logs and engines on simulated
//! machines, disks and networks, in one thread.
//!
//! | simulated | how |
//! |---|---|
//! | time | the runtime of each machine has a clock that only the simulation advances; clocks may run at different rates, and a paused machine's clock jumps |
//! | network | `network`: delay, loss of connections, cuts of one or both directions, late arrivals |
//! | disks | `disk`: the devices of `katydid-device`, which lose bytes that were not synced, fail, and become full |
//! | processes | `machine`: killed, cut from power, paused |
//!
//! Invariants, checked by `oracle` and `world`:
//!
//! 1. A leadership ends with the life of the replica that won it. A term and a replica together
//!    identify a leadership, because openraft admits several leaders in a term and orders them by
//!    their numbers.
//! 2. A read of a register returns the number that was acknowledged last, or a later number that
//!    its client has begun to write. So no acknowledged commit is lost, no read is stale, and no
//!    write is applied twice: a second application would set a register back.
//! 3. No read returns a write that was reported as not committed, or one half of a write.
//! 4. A replica that starts again remembers the greatest vote that it has sent to a candidate.
//! 5. A leader has every entry in its log that was acknowledged before its term began (leader
//!    completeness).
//! 6. After all faults have ended, the clients can write, and all members have equal rows.
//!
//! The histories of the clients' operations can be stored for a checker outside of this project
//! (`history`).
//!
//! A failed run prints its events and the command that replays it. A seed determines a run
//! completely only if the code is compiled with `--cfg tokio_unstable`, as `cargo xtask replicas`
//! does. Without that flag tokio wakes some tasks in an order that no seed determines, so a replay
//! meets the failure often, not always. `KATYDID_SECONDS` runs new seeds for that time (`cargo
//! xtask replicas --seconds N`).

mod client;
mod disk;
mod history;
mod leases;
mod machine;
mod network;
mod oracle;
mod world;

use std::time::{Duration, Instant};
use world::{Mix, Summary, World};

/// Runs one seed on a new thread, because the run seeds the thread's generator of random numbers.
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

/// Runs `count` seeds from `first` on, or only `KATYDID_SEED` if it is set. Then runs new seeds for
/// `KATYDID_SECONDS`.
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
    // A single seed may have few writes or elections, so only the sum is checked.
    if given.is_none() {
        assert!(sum.acknowledged > 10 * runs && sum.reads > 10 * runs, "{sum:?}");
        assert!(sum.leaderships as u64 > runs, "leaders changed: {sum:?}");
    }
}

#[test]
fn clusters_under_faults_keep_what_they_acknowledged() {
    seeds(0, 60, || None);
}

#[test]
fn voters_that_lose_power_keep_their_votes() {
    seeds(10_000, 30, || Some(Mix::elections()));
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
