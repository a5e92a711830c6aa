//! `cargo xtask`: everything a contributor does, by one name. CI says the same words.

mod browser;
mod ci;
mod layers;
mod long;
mod mutants;
mod run;

use clap::{Parser, Subcommand};
use run::Outcome;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks and campaigns of the Katydid workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// What CI runs: format, lints, layering, docs, the README's tests, the model checkers.
    Ci,
    /// Checks which crate uses which, and that only `device` syncs and only the shim names atomics in kernels.
    Layers,
    /// Makes a small report of the papers' figures and looks at it in a browser without a window.
    Browser,
    /// Runs the log's kernels under loom.
    Loom,
    /// Runs the log's kernels under the explorer of all interleavings.
    Explore,
    /// Runs the kernels' tests under Miri with several seeds; says so where the toolchain has no Miri.
    Miri {
        /// How many seeds.
        #[arg(long, default_value_t = 8)]
        seeds: u32,
    },
    /// Runs the log's tests on real threads under ThreadSanitizer; says so where the toolchain has none.
    Tsan {
        /// For how long it may build and run, in seconds.
        #[arg(long, default_value_t = 1800)]
        seconds: u64,
    },
    /// Feeds mutated bytes to every decoder.
    Fuzz {
        /// For how long, in seconds, per decoder.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// Start from this seed instead of a random one.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Crashes the store on the simulated device at every call, for a given time, with new seeds.
    Crash {
        /// For how long, in seconds.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Start from this seed instead of a random one.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Puts known faults into a copy of the tree, one at a time, and fails if the tests do not notice one.
    Mutants {
        /// For how long each may build, and run, in seconds.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Only mutants whose names contain this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Kills the real process under load, again and again, and compares with what it had acknowledged.
    Kill9 {
        /// How many rounds.
        #[arg(long, default_value_t = 50)]
        rounds: u32,
    },
}

fn main() -> Outcome {
    match Arguments::parse().task {
        Task::Ci => ci::all(),
        Task::Layers => layers::check(),
        Task::Browser => browser::look(),
        Task::Loom => long::loom(),
        Task::Explore => long::explore(),
        Task::Miri { seeds } => long::miri(seeds),
        Task::Tsan { seconds } => long::tsan(seconds),
        Task::Fuzz { seconds, seed } => long::fuzz(seconds, seed),
        Task::Crash { seconds, seed } => long::crash(seconds, seed),
        Task::Mutants { seconds, only } => mutants::run(seconds, only.as_deref()),
        Task::Kill9 { rounds } => long::kill9(rounds),
    }
}
