//! `cargo xtask`: everything a contributor does, by one name. CI says the same words.

mod browser;
mod ci;
mod evidence;
mod layers;
mod long;
mod mutants;
mod nightly;
mod run;
mod tidy;
mod tools;
mod watchdog;

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
    /// Runs CI: format, layering, language, lints, docs, the README's tests, the model checkers, a
    /// few mutants.
    Ci,
    /// Checks which crate uses which, the ranks of modules inside each, and that only `device`
    /// syncs and only the shim names atomics in kernels.
    Layers,
    /// Checks the language of comments and documents, and the links between documents.
    Tidy(tidy::Arguments),
    /// Makes a small report of the papers' figures and looks at it in a browser without a window.
    Browser,
    /// Runs the log's kernels under loom.
    Loom,
    /// Runs the log's kernels under the explorer of all interleavings.
    Explore,
    /// Runs the log's and the device layer's tests under Miri. Fails where the toolchain has no
    /// Miri.
    Miri {
        /// Number of seeds for the log's kernels.
        #[arg(long, default_value_t = 8)]
        seeds: u32,
    },
    /// Runs the log's and the store's tests on real threads under ThreadSanitizer. Fails where the
    /// toolchain has none.
    Tsan,
    /// Runs everything that CI does not, and appends a row for each step to docs/evidence.md. Goes
    /// on after a failure, and fails at the end.
    Nightly {
        /// Hours that all steps together may take. The checks take what they need; the campaigns
        /// divide the rest.
        #[arg(long, default_value_t = 1.0)]
        hours: f64,
        /// Only the step of this name.
        #[arg(long)]
        only: Option<String>,
        /// Start the campaigns from this seed instead of random ones.
        #[arg(long)]
        seed: Option<u64>,
        /// Print the steps and run none.
        #[arg(long)]
        list: bool,
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
    /// Restores databases with read views and followers that crash, are backed up and archived, to
    /// every stamp, for a given time, with new seeds.
    Restore {
        /// For how long, in seconds.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Start from this seed instead of a random one.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Runs whole clusters on simulated machines, disks and networks, for a given time, with new
    /// seeds.
    Replicas {
        /// For how long, in seconds.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Start from this seed instead of a random one.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Puts known faults into a copy of the tree, one at a time, and fails if the tests do not
    /// notice one.
    Mutants(mutants::Arguments),
    /// Kills the real process under load, again and again, and compares with what it had
    /// acknowledged.
    Kill9 {
        /// Number of rounds.
        #[arg(long, default_value_t = 50)]
        rounds: u32,
    },
}

fn main() -> Outcome {
    match Arguments::parse().task {
        Task::Ci => ci::all(),
        Task::Layers => layers::check(),
        Task::Tidy(arguments) => tidy::run(&arguments),
        Task::Browser => browser::look(browser::built()),
        Task::Loom => run::run("loom", &mut long::loom()),
        Task::Explore => run::run("explorer", &mut long::explore()),
        Task::Miri { seeds } => long::miri(seeds),
        Task::Tsan => long::tsan(),
        Task::Nightly { list: true, .. } => {
            nightly::list();
            Ok(())
        }
        Task::Nightly { hours, only, seed, list: false } => nightly::run(hours, only.as_deref(), seed),
        Task::Fuzz { seconds, seed } => long::fuzz(seconds, seed),
        Task::Crash { seconds, seed } => long::crash(seconds, seed),
        Task::Restore { seconds, seed } => long::restore(seconds, seed),
        Task::Replicas { seconds, seed } => long::replicas(seconds, seed),
        Task::Mutants(arguments) => mutants::run(&arguments),
        Task::Kill9 { rounds } => long::kill9(rounds),
    }
}
