//! Steps of a nightly run.

use crate::run::{PUBLISHED, cargo, package, root, target};
use crate::tools;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One step.
pub struct Step {
    pub name: &'static str,
    /// Purpose of the step, in one line.
    pub about: &'static str,
    pub work: Work,
}

pub type Commands = Result<Vec<Command>, Box<dyn std::error::Error>>;

/// Work of a step.
pub enum Work {
    /// Commands that run to their end, one after the other. The number is the minutes that they
    /// took, including the build, on two cores with a load average of 20.
    Check(u64, fn() -> Commands),
    /// Tests in the profile `campaign`, run repeatedly, each time with another `KATYDID_SEED`.
    /// Tests that take a time read `KATYDID_SECONDS`.
    Tests { weight: u32, arguments: &'static [&'static str], filter: &'static [&'static str] },
    /// A program that gets a seed and a time, and is run repeatedly until its time is over.
    Program { weight: u32, command: fn(u64, Duration) -> Command },
}

impl Work {
    /// The step's share of the campaigns' time; 0 for a check.
    pub fn weight(&self) -> u32 {
        match *self {
            Self::Check(..) => 0,
            Self::Tests { weight, .. } | Self::Program { weight, .. } => weight,
        }
    }
}

/// Name of the step that needs root.
pub const PARTITIONS: &str = "partitions";

/// All steps, in the order in which they run.
pub const STEPS: &[Step] = &[
    Step {
        name: "locked",
        about: "the lock file is complete, and everything builds with it",
        work: Work::Check(3, || Ok(vec![cargo(["check", "--workspace", "--all-targets", "--locked"])])),
    },
    Step {
        name: "msrv",
        about: "the oldest supported compiler builds the libraries and the program",
        work: Work::Check(3, msrv),
    },
    Step {
        name: "aarch64",
        about: "Linux on aarch64 compiles (it is not run)",
        work: Work::Check(3, || check_for("aarch64-unknown-linux-gnu")),
    },
    Step {
        name: "macos",
        about: "macOS on aarch64 compiles (it is not run)",
        work: Work::Check(11, || check_for("aarch64-apple-darwin")),
    },
    Step {
        name: "windows",
        about: "the libraries compile for Windows on x86-64 (they are not run)",
        work: Work::Check(3, windows),
    },
    Step {
        name: "release",
        about: "all tests as they are released: other timing, no debug assertions",
        work: Work::Check(40, || {
            Ok(vec![cargo(["test", "--workspace", "--profile", "campaign", "--locked", "--no-fail-fast"])])
        }),
    },
    Step {
        name: "package",
        about: "each crate that is published builds from its package alone",
        work: Work::Check(3, || Ok(vec![package()])),
    },
    Step {
        name: "compare",
        about: "the comparison with other stores builds and passes its tests, with RocksDB and WiredTiger where they are installed",
        work: Work::Check(15, compare),
    },
    Step {
        name: "miri-wal",
        about: "undefined behaviour in the log's kernels",
        work: Work::Check(25, || miri_of_the_log(8)),
    },
    Step {
        name: "miri-device",
        about: "undefined behaviour in the device layer",
        work: Work::Check(25, miri_of_the_device),
    },
    Step {
        name: "tsan-wal",
        about: "data races in the log, on real threads",
        work: Work::Check(20, thread_sanitizer_of_the_log),
    },
    Step {
        name: "tsan-engine",
        about: "data races in both engines, on real threads",
        work: Work::Check(30, thread_sanitizer_of_the_engine),
    },
    Step {
        name: "crash",
        about: "the store crashes at calls of the simulated device: one client, several, clients in turns",
        work: Work::Tests {
            weight: 4,
            arguments: &["-p", "katydid", "--test", "crash"],
            filter: &["campaign"],
        },
    },
    Step {
        name: "restore",
        about: "views and followers beside crashes, backups and archives; restored to every stamp",
        work: Work::Tests {
            weight: 3,
            arguments: &["-p", "katydid", "--test", "archive"],
            filter: &["campaign"],
        },
    },
    Step {
        name: "store",
        about: "the store's other random tests: trust, faults, models, serializability, backups, closing, logs in NVRAM, system calls",
        work: Work::Tests {
            weight: 3,
            arguments: &[
                "-p", "katydid", "--lib", "--test", "random", "--test", "faults", "--test", "memory",
                "--test", "closing", "--test", "backup", "--test", "syscalls",
            ],
            filter: &["--skip", "interleaved_tests::campaign"],
        },
    },
    Step {
        name: "interleaved",
        about: "clients, checkpoints and close beside each other, in orders of all threads that seeds name",
        work: Work::Tests {
            weight: 2,
            arguments: &["-p", "katydid", "--lib"],
            filter: &["interleaved_tests::campaign"],
        },
    },
    Step {
        name: "damage",
        about: "damaged bytes of whole databases: refused, or nothing that is read changes",
        work: Work::Tests {
            weight: 2,
            arguments: &["-p", "katydid", "--test", "damage"],
            filter: &["damage_is_refused"],
        },
    },
    Step {
        name: "log",
        about: "the log's random tests: crashes, faults, logs of several streams, NVRAM",
        work: Work::Tests {
            weight: 3,
            arguments: &["-p", "katydid-kernels", "-p", "katydid-wal", "--lib", "--tests"],
            filter: &[],
        },
    },
    Step {
        name: "device",
        about: "the device layer's random tests",
        work: Work::Tests {
            weight: 1,
            arguments: &["-p", "katydid-device", "--lib", "--tests"],
            filter: &[],
        },
    },
    Step {
        name: "replicas",
        about: "whole clusters on simulated machines, disks and networks: crashes, partitions, changes of members",
        work: Work::Tests {
            weight: 3,
            arguments: &["-p", "katydid-replica", "--lib"],
            filter: &["simulation::"],
        },
    },
    Step {
        name: "kill9",
        about: "the real program is killed under load",
        work: Work::Tests {
            weight: 2,
            arguments: &["-p", "katydid-cli", "--test", "main"],
            filter: &["kill9::"],
        },
    },
    Step {
        name: PARTITIONS,
        about: "the network between real replicas is cut under load; left out without root",
        work: Work::Program { weight: 2, command: partitions },
    },
    Step {
        name: "fuzz",
        about: "mutated bytes for every decoder",
        work: Work::Program { weight: 2, command: fuzz },
    },
    Step {
        name: "mutants",
        about: "rules broken on purpose are noticed by the tests",
        work: Work::Program { weight: 4, command: mutants },
    },
];

/// `cargo test` in the profile `campaign`.
pub fn tests(arguments: &[&str], more: &[&str]) -> Command {
    cargo(["test", "--profile", "campaign", "--locked"].iter().chain(arguments).chain(more))
}

fn msrv() -> Commands {
    let version = rust_version()?;
    tools::need_toolchain(&version)?;
    let mut command = Command::new("cargo");
    command.arg(format!("+{version}")).args(["check", "--workspace", "--locked"]);
    command.current_dir(root()).env("CARGO_TARGET_DIR", target().join("msrv"));
    Ok(vec![command])
}

/// The value of `rust-version` in the workspace's `Cargo.toml`.
fn rust_version() -> Result<String, Box<dyn std::error::Error>> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    Ok(line.ok_or("Cargo.toml names no rust-version")?.trim_matches('"').to_owned())
}

fn check_for(target: &'static str) -> Commands {
    tools::need_target(target)?;
    Ok(vec![cargo([
        "check",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
        "--examples",
        "--locked",
        "--target",
        target,
    ])])
}

/// Checks the libraries that a Windows program links. The command-line program and
/// `katydid-observe`, whose sockets are files, run on Linux and macOS only.
fn windows() -> Commands {
    const TARGET: &str = "x86_64-pc-windows-gnu";
    tools::need_target(TARGET)?;
    let mut check = cargo(["check", "--lib", "--examples", "--locked", "--target", TARGET]);
    check.args(PUBLISHED.iter().filter(|name| **name != "katydid-observe").flat_map(|name| ["-p", name]));
    Ok(vec![check])
}

fn compare() -> Commands {
    tools::need_c_compiler()?;
    let mut features = Vec::new();
    for (feature, header) in [("rocksdb", "rocksdb/version.h"), ("wiredtiger", "wiredtiger.h")] {
        if Path::new("/usr/include").join(header).exists() {
            features.push(feature);
        } else {
            println!("   without {feature}: there is no /usr/include/{header}");
        }
    }
    let one = |task: &[&str]| {
        let mut command = cargo(task);
        command.args(["--locked", "--features", &features.join(",")]);
        command.current_dir(root().join("compare")).env("CARGO_TARGET_DIR", target().join("compare"));
        command
    };
    Ok(vec![one(&["build"]), one(&["test"])])
}

/// The log's tests that are written for Miri. The tests of kernels run under `seeds` schedules. The
/// tests of whole logs take a hundred times as long each, and run under a quarter of these
/// schedules.
pub fn miri_of_the_log(seeds: u32) -> Commands {
    const WHOLE: &str = "core::checks::miri_";
    let under = |seeds: u32| -> Result<Command, Box<dyn std::error::Error>> {
        let mut command = miri()?;
        command.args(["-p", "katydid-kernels", "-p", "katydid-wal", "--lib", "--"]);
        command.env("MIRIFLAGS", format!("-Zmiri-disable-isolation -Zmiri-many-seeds=0..{}", seeds.max(1)));
        Ok(command)
    };
    let (mut kernels, mut whole) = (under(seeds)?, under(seeds / 4)?);
    kernels.args(["miri_", "--skip", WHOLE]);
    whole.arg(WHOLE);
    Ok(vec![kernels, whole])
}

/// The device layer's tests that Miri can run. Tests for faults that only a rare schedule shows run
/// under several schedules.
pub fn miri_of_the_device() -> Commands {
    let mut all = miri()?;
    all.args(["-p", "katydid-device", "--lib", "--test", "main"]);
    all.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    let mut schedules = miri()?;
    schedules.args(["-p", "katydid-device", "--lib", "--", "miri_"]);
    schedules
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-preemption-rate=0.02 -Zmiri-many-seeds=0..16");
    Ok(vec![all, schedules])
}

fn miri() -> Result<Command, Box<dyn std::error::Error>> {
    tools::need_miri()?;
    let mut command = Command::new("cargo");
    command.args(["+nightly", "miri", "test"]).current_dir(root());
    command.env("CARGO_TARGET_DIR", target().join("miri"));
    Ok(command)
}

/// The log's own tests, the tests of its background threads and the conformance suite.
/// ThreadSanitizer checks accesses to the bytes of the ring, which the models of the kernels do not
/// contain. ThreadSanitizer does not support fences; the kernels have none on x86-64, where these
/// tests run.
pub fn thread_sanitizer_of_the_log() -> Commands {
    Ok(vec![
        thread_sanitizer(&["-p", "katydid-kernels", "-p", "katydid-wal", "--lib", "--test", "threads"])?,
        thread_sanitizer(&["-p", "katydid-wal", "--test", "main", "conformance::"])?,
    ])
}

/// The engine's tests that run many threads.
pub fn thread_sanitizer_of_the_engine() -> Commands {
    Ok(vec![
        thread_sanitizer(&["-p", "katydid", "--test", "memory"])?,
        thread_sanitizer(&[
            "-p", "katydid", "--test", "main", "--test", "random", "--", "api::", "serial::",
        ])?,
    ])
}

/// ThreadSanitizer sees only calls of libc, so rustix must map memory through libc. Otherwise
/// ThreadSanitizer would take two successive mappings at one address for one mapping.
/// ThreadSanitizer also does not see an atomic maximum (`sync_shim::raise`).
const SANITIZED: &str = "-Zsanitizer=thread --cfg=rustix_use_libc --cfg=katydid_sanitized";

/// Runs tests under ThreadSanitizer.
fn thread_sanitizer(arguments: &[&str]) -> Result<Command, Box<dyn std::error::Error>> {
    tools::need_thread_sanitizer()?;
    let mut command = Command::new("cargo");
    command.args(["+nightly", "test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu"]);
    command.args(arguments).current_dir(root());
    command.env("RUSTFLAGS", SANITIZED).env("CARGO_TARGET_DIR", target().join("tsan"));
    Ok(command)
}

fn fuzz(seed: u64, left: Duration) -> Command {
    // Seconds for each decoder. A round is short, so that the next round uses another seed soon.
    let seconds = (left.as_secs() / 20).clamp(1, 10);
    let mut command = cargo(["run", "--profile", "campaign", "--locked", "-p", "katydid-fuzz", "--"]);
    command.args(["--seconds", &seconds.to_string(), "--seed", &seed.to_string()]);
    command
}

fn partitions(seed: u64, left: Duration) -> Command {
    // A round is at most two minutes long, because its checks read all rows that it wrote.
    let seconds = left.as_secs().clamp(10, 120);
    let mut command = cargo(["run", "--quiet", "--package", "xtask", "--", "partitions"]);
    command.args(["--seconds", &seconds.to_string(), "--seed", &seed.to_string()]);
    command
}

fn mutants(seed: u64, left: Duration) -> Command {
    let mut command = cargo(["run", "--quiet", "--package", "xtask", "--", "mutants"]);
    command.args(["--seconds-total", &left.as_secs().to_string(), "--random", "--seed", &seed.to_string()]);
    command
}
