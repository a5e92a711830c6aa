//! Finds the C libraries of the stores whose features are enabled. Tells the program Katydid's
//! commit, whether files differ from that commit, and the compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    built_from();
    if std::env::var_os("CARGO_FEATURE_ROCKSDB").is_some() {
        rocksdb();
    }
    #[cfg(feature = "wiredtiger")]
    wiredtiger();
}

/// Sets the variables that name the commit and the compiler. Outside of a repository no commit is
/// set.
fn built_from() {
    for path in [
        "../.git/logs/HEAD",
        "../crates/device/src",
        "../crates/wal/src",
        "../crates/engine/src",
        "../crates/workload/src",
        "src",
    ] {
        if Path::new(path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let output_of = |program: &std::ffi::OsStr, arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
        output.and_then(|output| String::from_utf8(output.stdout).ok()).map(|text| text.trim().to_owned())
    };
    let git = std::ffi::OsStr::new("git");
    if let Some(commit) = output_of(git, &["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo:rustc-env=KATYDID_COMMIT={commit}");
    }
    if let Some(changes) = output_of(git, &["status", "--porcelain", "--", "../crates", "../Cargo.toml", "."])
    {
        println!("cargo:rustc-env=KATYDID_DIRTY={}", !changes.is_empty());
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if let Some(version) = output_of(&rustc, &["--version"]) {
        println!("cargo:rustc-env=KATYDID_RUSTC={version}");
    }
    println!("cargo:rustc-env=KATYDID_PROFILE={}", std::env::var("PROFILE").unwrap_or_default());
}

/// The folder that the first set variable of `variables` names.
fn folder(variables: &[&str]) -> Option<PathBuf> {
    variables.iter().find_map(|variable| {
        println!("cargo:rerun-if-env-changed={variable}");
        std::env::var_os(variable).map(PathBuf::from)
    })
}

/// Finds RocksDB's header, which states the version. The linker searches for the library in its
/// default folders, or in the folder that ROCKSDB_LIB_DIR names.
fn rocksdb() {
    let include = folder(&["ROCKSDB_INCLUDE_DIR"]).unwrap_or_else(|| "/usr/include".into());
    let header = include.join("rocksdb/version.h");
    let Ok(text) = std::fs::read_to_string(&header) else {
        panic!(
            "feature rocksdb: there is no {}: install librocksdb-dev, or set ROCKSDB_INCLUDE_DIR and ROCKSDB_LIB_DIR",
            header.display()
        );
    };
    let part = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
        rest.unwrap_or("?").trim().to_owned()
    };
    let version = ["ROCKSDB_MAJOR", "ROCKSDB_MINOR", "ROCKSDB_PATCH"].map(part).join(".");
    println!("cargo:rustc-env=KATYDID_ROCKSDB_VERSION={version}");
    if let Some(folder) = folder(&["ROCKSDB_LIB_DIR"]) {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    }
}

/// Finds WiredTiger. WIREDTIGER_DIR names a build with a static library, and with a header in
/// `include`.
#[cfg(feature = "wiredtiger")]
fn wiredtiger() {
    const SHIM: &str = "src/adapters/wiredtiger/shim.c";
    println!("cargo:rerun-if-changed={SHIM}");
    let built = folder(&["WIREDTIGER_DIR"]);
    let include = built.as_ref().map_or_else(|| "/usr/include".into(), |folder| folder.join("include"));
    if !include.join("wiredtiger.h").exists() {
        panic!(
            "feature wiredtiger: there is no wiredtiger.h in {}: install libwiredtiger-dev, or set WIREDTIGER_DIR to a build",
            include.display()
        );
    }
    cc::Build::new().file(SHIM).include(include).compile("katydid_wiredtiger_shim");
    match built {
        Some(folder) => {
            println!("cargo:rustc-link-search=native={}", folder.display());
            println!("cargo:rustc-link-lib=static=wiredtiger");
        }
        None => println!("cargo:rustc-link-lib=wiredtiger"),
    }
}
