//! Checks that take long: model checkers, Miri, ThreadSanitizer and campaigns. A campaign runs a
//! test target or a program with a setting, such as a seed, so that the same command replays a
//! failure.

use crate::nightly::steps;
use crate::run::{Outcome, cargo, root, run, target};
use crate::tools::need_go;
use std::process::Command;

/// Flags and a separate target folder. A shared folder would make cargo rebuild the ordinary build
/// each time.
fn special(cfg: &str) -> (String, String) {
    (format!("--cfg {cfg}"), root().join("target").join(cfg).display().to_string())
}

/// The command that runs the kernels under loom.
pub fn loom() -> Command {
    let (flags, target) = special("loom");
    let mut command = cargo(["test", "--profile", "checkers", "--lib"]);
    command.args(["-p", "katydid-kernels", "loom_"]);
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target);
    command
}

/// The command that runs the kernels under the explorer.
pub fn explore() -> Command {
    let (flags, target) = special("katydid_explore");
    let mut command = cargo(["test", "--profile", "checkers", "--lib"]);
    command.args(["-p", "katydid-kernels", "explore_"]);
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target);
    command
}

/// Runs the log's and the device layer's tests under Miri.
pub fn miri(seeds: u32) -> Outcome {
    for mut command in steps::miri_of_the_log(seeds)? {
        run("miri: the log", &mut command)?;
    }
    for mut command in steps::miri_of_the_device()? {
        run("miri: the device layer", &mut command)?;
    }
    Ok(())
}

/// Runs the log's and the store's tests on real threads under ThreadSanitizer.
pub fn tsan() -> Outcome {
    for mut command in steps::thread_sanitizer_of_the_log()? {
        run("tsan: the log", &mut command)?;
    }
    for mut command in steps::thread_sanitizer_of_the_engine()? {
        run("tsan: the store", &mut command)?;
    }
    Ok(())
}

/// Feeds mutated bytes to every decoder.
pub fn fuzz(seconds: u64, seed: Option<u64>) -> Outcome {
    let mut command = cargo(["run", "--profile", "campaign", "-p", "katydid-fuzz", "--"]);
    command.args(["--seconds", &seconds.to_string()]);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    run("fuzz", &mut command)
}

/// Crashes the store on the simulated device.
pub fn crash(seconds: u64, seed: Option<u64>) -> Outcome {
    let mut command =
        cargo(["test", "--profile", "campaign", "-p", "katydid", "--test", "crash", "--", "--nocapture"]);
    command.env("KATYDID_SECONDS", seconds.to_string());
    if let Some(seed) = seed {
        command.env("KATYDID_SEED", seed.to_string());
    }
    run("crash campaign", &mut command)
}

/// Crashes, backs up and archives databases with read views and followers, and restores them to
/// every commit stamp.
pub fn restore(seconds: u64, seed: Option<u64>) -> Outcome {
    let mut command = cargo([
        "test",
        "--profile",
        "campaign",
        "-p",
        "katydid",
        "--test",
        "archive",
        "--",
        "--nocapture",
        "campaign",
    ]);
    command.env("KATYDID_SECONDS", seconds.to_string());
    if let Some(seed) = seed {
        command.env("KATYDID_SEED", seed.to_string());
    }
    run("restore campaign", &mut command)
}

/// Runs clusters of replicas on simulated machines, disks and networks. With `checkers`, porcupine
/// then checks the histories of these clusters, and adya checks transactions of real replicas.
pub fn replicas(seconds: u64, seed: Option<u64>, checkers: bool) -> Outcome {
    let arguments = ["test", "--profile", "campaign", "-p", "katydid-replica", "--lib", "simulation::"];
    let mut command = cargo(arguments.iter().copied().chain(["--", "--nocapture"]));
    command.env("KATYDID_SECONDS", seconds.to_string());
    // With this flag a program can seed the order in which tokio wakes some tasks.
    command.env("RUSTFLAGS", "--cfg tokio_unstable").env("CARGO_TARGET_DIR", target().join("replicas"));
    if let Some(seed) = seed {
        command.env("KATYDID_SEED", seed.to_string());
    }
    if !checkers {
        return run("campaign of clusters", &mut command);
    }
    need_go()?;
    let histories = target().join("histories");
    if histories.exists() {
        std::fs::remove_dir_all(&histories)?;
    }
    std::fs::create_dir_all(&histories)?;
    let clusters = run("campaign of clusters", command.env("KATYDID_HISTORIES", &histories));
    // Histories of a failed run are checked too.
    let mut checker = Command::new("go");
    checker.args(["run", "."]).arg(&histories).current_dir(root().join("checkers"));
    let linearizable = run("porcupine on the histories", &mut checker);
    clusters?;
    linearizable?;
    std::fs::remove_dir_all(&histories)?;
    let arguments =
        ["test", "--profile", "campaign", "-p", "katydid-replica", "--test", "main", "histories::"];
    let mut command = cargo(arguments.iter().copied().chain(["--", "--nocapture"]));
    run("adya on transactions of real replicas", command.env("KATYDID_SECONDS", seconds.to_string()))
}

/// Kills the real process.
pub fn kill9(rounds: u32) -> Outcome {
    run(
        "kill -9 campaign",
        cargo([
            "test",
            "--profile",
            "campaign",
            "-p",
            "katydid-cli",
            "--test",
            "main",
            "kill9::",
            "--",
            "--nocapture",
        ])
        .env("KATYDID_ROUNDS", rounds.to_string()),
    )
}
