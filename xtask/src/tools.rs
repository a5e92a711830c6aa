//! Tools that a task needs beyond the pinned toolchain. If a tool is missing, the task fails and
//! names the command that installs the tool. A check that did not run must not look like one that
//! passed.

use crate::run::Outcome;
use std::path::PathBuf;
use std::process::Command;

/// Fails unless nightly has Miri.
pub fn need_miri() -> Outcome {
    let found = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    found
        .is_ok_and(|output| output.status.success())
        .then_some(())
        .ok_or_else(|| "Miri is missing: rustup toolchain install nightly --component miri,rust-src".into())
}

/// Fails unless this machine can run ThreadSanitizer: Linux on x86-64, and nightly with the
/// standard library's sources. The standard library must also be built with the sanitizer: without
/// the sanitizer its locks look like races.
pub fn need_thread_sanitizer() -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("ThreadSanitizer is run on Linux on x86-64 only".into());
    }
    let sysroot = Command::new("rustc").args(["+nightly", "--print", "sysroot"]).output();
    let sources = sysroot.ok().filter(|output| output.status.success()).map(|output| {
        let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        PathBuf::from(sysroot).join("lib/rustlib/src/rust/library/Cargo.lock")
    });
    sources.filter(|file| file.exists()).map(|_| ()).ok_or_else(|| {
        "the standard library's sources are missing: rustup toolchain install nightly --component rust-src".into()
    })
}

/// Fails unless this toolchain is installed.
pub fn need_toolchain(version: &str) -> Outcome {
    let found = Command::new("cargo").args([&format!("+{version}"), "--version"]).output();
    found.is_ok_and(|output| output.status.success()).then_some(()).ok_or_else(|| {
        format!("Rust {version} is missing: rustup toolchain install {version} --profile minimal").into()
    })
}

/// Fails unless the toolchain in use has the standard library of this target.
pub fn need_target(target: &str) -> Outcome {
    let found = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let folder = found.ok().filter(|output| output.status.success());
    let folder =
        folder.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim().to_owned()));
    folder
        .filter(|folder| folder.exists())
        .map(|_| ())
        .ok_or_else(|| format!("the target {target} is missing: rustup target add {target}").into())
}

/// Fails unless there is a C compiler. The build of some rivals needs one.
pub fn need_c_compiler() -> Outcome {
    let found = Command::new("cc").arg("--version").output();
    found
        .is_ok_and(|output| output.status.success())
        .then_some(())
        .ok_or_else(|| "a C compiler (cc) is missing: apt-get install gcc".into())
}

/// Fails unless there is Go, with which the checker of histories is built.
pub fn need_go() -> Outcome {
    let found = Command::new("go").arg("version").output();
    found.is_ok_and(|output| output.status.success()).then_some(()).ok_or_else(|| {
        "Go 1.20 or newer is missing, which builds the checker of histories: https://go.dev/dl".into()
    })
}

/// Fails unless this process can make network namespaces, with a bridge in one of them.
pub fn need_namespaces() -> Outcome {
    for (tool, package) in
        [("unshare", "util-linux"), ("mount", "mount"), ("ip", "iproute2"), ("tc", "iproute2")]
    {
        if !Command::new(tool).arg("-V").output().is_ok_and(|output| output.status.success()) {
            return Err(format!("{tool} is missing: apt-get install {package}").into());
        }
    }
    let mut probe = Command::new("unshare");
    probe.args(["--net", "--mount", "--pid", "--fork", "--kill-child"]);
    let output = probe.args(["ip", "link", "add", "probe", "type", "bridge"]).output()?;
    output.status.success().then_some(()).ok_or_else(|| {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        format!("network namespaces need Linux and root: run cargo as root, for example with sudo ({why})")
            .into()
    })
}
