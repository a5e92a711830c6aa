//! The campaigns: model checkers, fuzzing, crashes. Each is a test target run with a setting, so that a failure seen
//! here is replayed by the same test.

use crate::run::{Outcome, cargo, root, run};
use std::path::PathBuf;
use std::process::Command;

/// Separate target folders keep the special builds from evicting the ordinary one.
fn special(cfg: &str) -> (String, String) {
    (format!("--cfg {cfg}"), root().join("target").join(cfg).display().to_string())
}

/// The kernels under loom.
pub fn loom() -> Outcome {
    let (flags, target) = special("loom");
    run(
        "loom",
        cargo(["test", "--profile", "checkers", "-p", "katydid-wal", "--lib", "loom_"])
            .env("RUSTFLAGS", flags)
            .env("CARGO_TARGET_DIR", target)
            .env("LOOM_MAX_PREEMPTIONS", "3"),
    )
}

/// The kernels under the explorer.
pub fn explore() -> Outcome {
    let (flags, target) = special("katydid_explore");
    run(
        "explorer",
        cargo(["test", "--profile", "checkers", "--lib", "-p", "katydid-wal", "-p", "katydid", "explore_"])
            .env("RUSTFLAGS", flags)
            .env("CARGO_TARGET_DIR", target),
    )
}

/// The kernels' ordinary tests under Miri.
pub fn miri(seeds: u32) -> Outcome {
    let has = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!(
            "== miri: not here (rustup component add miri rust-src --toolchain nightly); nothing was checked"
        );
        return Ok(());
    }
    let target = root().join("target").join("miri");
    run(
        "miri",
        Command::new("cargo")
            .args(["+nightly", "miri", "test", "-p", "katydid-wal", "--lib", "miri_"])
            .current_dir(root())
            .env("MIRIFLAGS", format!("-Zmiri-disable-isolation -Zmiri-many-seeds=0..{seeds}"))
            .env("CARGO_TARGET_DIR", target),
    )
}

/// The log's own tests and the conformance suite, on real threads, under ThreadSanitizer. It watches the bytes of the ring, which no
/// model of a kernel has. It understands no fences: the kernels have none.
pub fn tsan(seconds: u64) -> Outcome {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let sysroot = Command::new("rustc").args(["+nightly", "--print", "sysroot"]).output();
    let sysroot = sysroot.ok().filter(|output| output.status.success());
    // The standard library has to be built with it too; otherwise its locks look like races.
    let sources = sysroot.map(|output| {
        let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        PathBuf::from(sysroot).join("lib/rustlib/src/rust/library/Cargo.lock")
    });
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) || !sources.is_some_and(|file| file.exists()) {
        println!(
            "== tsan: not here (Linux on x86-64; rustup component add rust-src --toolchain nightly); nothing was checked"
        );
        return Ok(());
    }
    run(
        "tsan",
        Command::new("timeout")
            .arg(seconds.to_string())
            .args(["cargo", "+nightly", "test", "-Zbuild-std", "--target", TARGET, "-p", "katydid-wal"])
            .args(["--lib", "--test", "conformance", "--test", "tracker"])
            .current_dir(root())
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            .env("CARGO_TARGET_DIR", root().join("target").join("tsan")),
    )
}

/// Mutated bytes into every decoder.
pub fn fuzz(seconds: u64, seed: Option<u64>) -> Outcome {
    let mut command = cargo(["run", "--release", "-p", "katydid-fuzz", "--"]);
    command.args(["--seconds", &seconds.to_string()]);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    run("fuzz", &mut command)
}

/// Crashes of the store on the simulated device.
pub fn crash(seconds: u64, seed: Option<u64>) -> Outcome {
    let mut command = cargo(["test", "--release", "-p", "katydid", "--test", "crash", "--", "--nocapture"]);
    command.env("KATYDID_SECONDS", seconds.to_string());
    if let Some(seed) = seed {
        command.env("KATYDID_SEED", seed.to_string());
    }
    run("crash campaign", &mut command)
}

/// Kills of the real process.
pub fn kill9(rounds: u32) -> Outcome {
    run(
        "kill -9 campaign",
        cargo(["test", "--release", "-p", "katydid-cli", "--test", "kill9", "--", "--nocapture"])
            .env("KATYDID_ROUNDS", rounds.to_string()),
    )
}
