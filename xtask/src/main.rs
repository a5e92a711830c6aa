//! `cargo xtask` runs everything that a contributor does. CI uses the same commands.

mod browser;
mod ci;
mod evidence;
mod layers;
mod long;
mod mutants;
mod nightly;
mod partitions;
mod run;
mod tidy;
mod tools;
mod watchdog;

use clap::{Parser, Subcommand};
use run::Outcome;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Run the checks and campaigns of the Katydid workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check of CI, in an order in which failures show early
    Ci,
    /// Check which crate and module uses which, that only `device` syncs, and that only the shim
    /// names atomics
    Layers,
    /// Check the language of comments and documents, and the links between documents
    Tidy(tidy::Arguments),
    /// Make a small report of the papers' figures, and check it in a headless browser
    Browser,
    /// Run the kernels under loom
    Loom,
    /// Run the kernels under the explorer, which tries all interleavings
    Explore,
    /// Run the tests of the log and of the device layer under Miri
    ///
    /// The task fails if the toolchain has no Miri.
    Miri {
        /// Number of seeds for the kernels
        #[arg(long, default_value_t = 8)]
        seeds: u32,
    },
    /// Run the tests of the log and of the store on real threads under ThreadSanitizer
    ///
    /// The task fails if the toolchain has no ThreadSanitizer.
    Tsan,
    /// Run everything that CI does not run, and append a row for each step to docs/evidence.md
    ///
    /// The task continues after a failed step, and fails at the end.
    Nightly {
        /// Hours that all steps together may take
        ///
        /// The checks take the time that they need; the campaigns divide the rest.
        #[arg(long, default_value_t = 1.0)]
        hours: f64,
        /// Run only the step with this name
        #[arg(long)]
        only: Option<String>,
        /// Seed from which the campaigns start, instead of a random one
        #[arg(long)]
        seed: Option<u64>,
        /// Print the steps, and run none
        #[arg(long)]
        list: bool,
    },
    /// Feed mutated bytes to every decoder
    Fuzz {
        /// Seconds for each decoder
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// Seed from which to start, instead of a random one
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Crash the store at calls of the simulated device, for a given time, with new seeds
    Crash {
        /// Seconds to run
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Seed from which to start, instead of a random one
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Crash, back up and archive databases, and restore them to every commit stamp, for a given
    /// time, with new seeds
    ///
    /// The databases have read views and followers.
    Restore {
        /// Seconds to run
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Seed from which to start, instead of a random one
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Run clusters on simulated machines, disks and networks, for a given time, with new seeds
    Replicas {
        /// Seconds to run
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Seed from which to start, instead of a random one
        #[arg(long)]
        seed: Option<u64>,
        /// Check the histories with Porcupine and adya too
        ///
        /// Porcupine checks the histories of the simulated clients. It needs Go, and its first
        /// build needs the network. Then transactions run at real replicas, for the same number of
        /// seconds, and adya checks their histories.
        #[arg(long)]
        checkers: bool,
    },
    /// Cut the network between three real replicas under load, and look for acknowledged lines that
    /// are missing
    ///
    /// Each replica runs in a Linux network namespace of its own, so the host's network is not
    /// touched. One replica is cut off, or the leader, or two replicas, or one direction of a link,
    /// and a link is slow at times. Needs root, `unshare`, `mount`, `ip` and `tc`.
    Partitions(partitions::Arguments),
    /// Put known faults into a copy of the tree, one at a time, and fail if the tests miss one
    Mutants(mutants::Arguments),
    /// Kill the real process under load repeatedly, and compare the database with the acknowledged
    /// commits
    Kill9 {
        /// Number of rounds
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
        Task::Replicas { seconds, seed, checkers } => long::replicas(seconds, seed, checkers),
        Task::Partitions(arguments) => partitions::start(arguments),
        Task::Mutants(arguments) => mutants::run(&arguments),
        Task::Kill9 { rounds } => long::kill9(rounds),
    }
}
