//! Tells the program which commit it was built from: `KATYDID_COMMIT` if the builder sets it, else what git says, else
//! nothing. Never a path.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=KATYDID_COMMIT");
    // Changes with every commit; a package without a repository has none, and then nothing can change.
    let log = Path::new("../../.git/logs/HEAD");
    if log.exists() {
        println!("cargo:rerun-if-changed={}", log.display());
    } else {
        println!("cargo:rerun-if-changed=build.rs");
    }
    let given = std::env::var("KATYDID_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| log.exists().then(asked_of_git).flatten());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    match commit {
        Some(commit) => {
            println!("cargo:rustc-env=KATYDID_COMMIT={commit}");
            println!("cargo:rustc-env=KATYDID_VERSION={version} ({commit})");
        }
        None => println!("cargo:rustc-env=KATYDID_VERSION={version}"),
    }
}

fn asked_of_git() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    let plain = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    (output.status.success() && plain).then_some(commit)
}
