//! Build script. Gives the program the commit that it was built from, whether files differed from
//! that commit, the compiler, and the profile. The commit is `KATYDID_COMMIT` if that variable is
//! set, else the one that git reports, else unknown. The script gives the program no paths.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=KATYDID_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    // Git appends to this log with every commit. A package without a repository does not have the
    // log, and its commit cannot change.
    let log = Path::new("../../.git/logs/HEAD");
    let has_repository = Path::new("../../.git").exists();
    if log.exists() {
        println!("cargo:rerun-if-changed={}", log.display());
    }
    let given = std::env::var("KATYDID_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| has_repository.then(asked_of_git).flatten());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    match commit {
        Some(commit) => {
            println!("cargo:rustc-env=KATYDID_COMMIT={commit}");
            println!("cargo:rustc-env=KATYDID_VERSION={version} ({commit})");
        }
        None => println!("cargo:rustc-env=KATYDID_VERSION={version}"),
    }
    if has_repository && let Some(dirty) = is_dirty() {
        println!("cargo:rustc-env=KATYDID_DIRTY={dirty}");
    }
    let compiler =
        std::env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("--version").output().ok());
    if let Some(compiler) = compiler.and_then(|output| String::from_utf8(output.stdout).ok()) {
        println!("cargo:rustc-env=KATYDID_RUSTC={}", compiler.trim());
    }
    println!("cargo:rustc-env=KATYDID_PROFILE={}", std::env::var("PROFILE").unwrap_or_default());
}

/// Returns whether the program's sources differ from the commit. Cargo runs the script again when
/// one of them changes.
fn is_dirty() -> Option<bool> {
    const MADE_OF: [&str; 3] = ["../../crates", "../../Cargo.toml", "../../Cargo.lock"];
    let folders = ["device", "wal", "engine", "workload", "manycore", "command", "bench", "cli"];
    folders.iter().for_each(|name| println!("cargo:rerun-if-changed=../{name}/src"));
    let output = Command::new("git").args(["status", "--porcelain", "--"]).args(MADE_OF).output().ok()?;
    output.status.success().then_some(!output.stdout.is_empty())
}

fn asked_of_git() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    let plain = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    (output.status.success() && plain).then_some(commit)
}
