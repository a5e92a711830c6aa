//! Checks dependencies between crates, ranks of modules inside each crate, and words that only some
//! folders may use.
//!
//! This file declares which crate may use which. Each crate declares the ranks of its modules in
//! its `Cargo.toml`, as `modules` describes.

mod modules;
mod source;
mod tokens;

use crate::run::{Outcome, cargo, root};
use modules::Declared;
use serde_json::Value;
use source::Modules;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate of the workspace, with the workspace crates on which it may depend. Lower crates
/// never depend on higher ones.
const LAYERS: &[(&str, &[&str])] = &[
    ("katydid-kernels", &[]),
    ("katydid-device", &[]),
    ("katydid-wal", &["katydid-kernels", "katydid-device"]),
    ("katydid-raft-log", &["katydid-device", "katydid-wal"]),
    ("katydid-interleave", &[]),
    ("katydid", &["katydid-kernels", "katydid-device", "katydid-wal", "katydid-interleave"]),
    (
        "katydid-replica",
        &["katydid-device", "katydid-wal", "katydid-raft-log", "katydid", "katydid-workload"],
    ),
    ("katydid-observe", &["katydid"]),
    ("katydid-workload", &["katydid"]),
    ("katydid-virtual-machine", &[]),
    ("katydid-kernels-simulated", &["katydid-virtual-machine"]),
    ("katydid-manycore", &["katydid-virtual-machine", "katydid-kernels-simulated"]),
    ("katydid-command", &["katydid-device", "katydid-wal", "katydid", "katydid-observe", "katydid-workload"]),
    (
        "katydid-bench",
        &[
            "katydid-device",
            "katydid-wal",
            "katydid",
            "katydid-observe",
            "katydid-replica",
            "katydid-workload",
            "katydid-manycore",
            "katydid-command",
        ],
    ),
    (
        "katydid-cli",
        &[
            "katydid-device",
            "katydid-wal",
            "katydid",
            "katydid-observe",
            "katydid-replica",
            "katydid-command",
            "katydid-bench",
        ],
    ),
    ("katydid-examples", &["katydid-wal", "katydid"]),
    ("katydid-fuzz", &["katydid-device", "katydid-wal", "katydid", "katydid-replica"]),
    ("xtask", &[]),
];

/// Crates on which only tests may depend, because they redefine functions of the C library.
const FOR_TESTS: &[&str] = &["katydid-interleave"];

/// Packages that compile another package's sources, with the reason.
const SOURCES_ELSEWHERE: &[(&str, &str)] =
    &[("katydid-kernels-simulated", "katydid-kernels, compiled for the simulated machine: docs/adr/0009")];

/// Words that only some folders may use, with the folders and the reason.
const WORDS: &[(&[&str], &[&str], &str)] = &[
    (
        &["sync_data(", "sync_all(", "fdatasync(", "O_DIRECT", "O_DSYNC", "pwritev2("],
        &["crates/device/src"],
        "all device calls go through the device crate's gate",
    ),
    (
        &["std::sync::atomic", "core::sync::atomic", "std::thread::park", "hint::spin_loop"],
        &[
            "crates/device",
            "crates/engine",
            "crates/workload",
            "crates/replica",
            "crates/bench",
            "crates/cli",
            "crates/interleave",
            "crates/kernels/src/explore",
            "crates/kernels/src/sync_shim",
            "crates/manycore/vm/src/sync_shim",
            "crates/wal/src/testing",
        ],
        "the kernels and the log name atomics and threads only through sync_shim",
    ),
    (
        &["unsafe {", "unsafe impl", "unsafe fn"],
        &[
            "crates/kernels/src",
            "crates/device/src",
            "crates/interleave/src",
            "crates/wal/src",
            "crates/manycore/vm/src",
        ],
        "unsafe stays where the design needs it",
    ),
];

/// Checks all layers. The error contains every violation.
pub fn check() -> Outcome {
    println!("== layering");
    let metadata = metadata()?;
    let mut wrong = dependencies(&metadata)?;
    wrong.extend(ranks(&metadata)?);
    wrong.extend(words()?);
    if wrong.is_empty() { Ok(()) } else { Err(format!("layering:\n  {}", wrong.join("\n  ")).into()) }
}

fn metadata() -> Result<Value, Box<dyn Error>> {
    let output = cargo(["metadata", "--format-version", "1", "--no-deps"]).output()?;
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

fn packages(metadata: &Value) -> Result<&Vec<Value>, Box<dyn Error>> {
    Ok(metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?)
}

/// Checks the modules of every crate, and prints a summary for each.
fn ranks(metadata: &Value) -> Result<Vec<String>, Box<dyn Error>> {
    let mut wrong = Vec::new();
    for package in packages(metadata)? {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().ok_or("a package without a folder")?;
        if let Some((_, why)) = SOURCES_ELSEWHERE.iter().find(|(elsewhere, _)| *elsewhere == name) {
            println!("{name}: {why}");
            continue;
        }
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root));
        let root =
            roots.iter().find(|root| root.exists()).ok_or_else(|| format!("{name} has no root file"))?;
        let declared = Declared::read(&package["metadata"]["layers"]);
        let found = declared.look(&Modules::read(root, folder)?);
        println!(
            "{name}: {} files, {} arrows, {} of them up, largest circle {}, {} paths out",
            found.files,
            found.arrows,
            found.upward.len(),
            found.circle.len(),
            found.outside.len()
        );
        declared.slack(&found).iter().for_each(|allowance| println!("   allowance too large: {allowance}"));
        wrong.extend(declared.faults(name, &found));
    }
    Ok(wrong)
}

fn dependencies(metadata: &Value) -> Result<Vec<String>, Box<dyn Error>> {
    let packages = packages(metadata)?;
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            wrong.push(format!("{name} has no layer: add it to xtask/src/layers/mod.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            // A crate may use itself, and tests may use a lower crate's test support.
            if ours.contains(&on) && on != name && !allowed.contains(&on) {
                wrong.push(format!("{name} may not depend on {on}"));
            }
            if FOR_TESTS.contains(&on) && dependency["kind"] != "dev" {
                wrong.push(format!("{name} may depend on {on} in its tests only"));
            }
        }
    }
    Ok(wrong)
}

fn words() -> Result<Vec<String>, Box<dyn Error>> {
    let root = root();
    let mut files = Vec::new();
    rust_files(&root.join("crates"), &mut files)?;
    let mut wrong = Vec::new();
    for file in files {
        let shown = file.strip_prefix(&root)?.display().to_string();
        if shown.contains("/tests/") || shown.contains("/examples/") || shown.contains("/benches/") {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        for (number, line) in text.lines().enumerate() {
            let code = line.trim_start();
            if code.starts_with("//") {
                continue;
            }
            for (words, folders, why) in WORDS {
                if folders.iter().any(|folder| shown.starts_with(folder)) {
                    continue;
                }
                if let Some(word) = words.iter().find(|word| code.contains(**word)) {
                    wrong.push(format!("{shown}:{}: `{word}`: {why}", number + 1));
                }
            }
        }
    }
    Ok(wrong)
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) -> Outcome {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, into)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
    Ok(())
}
