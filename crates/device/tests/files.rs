//! Real files pass the suite that every directory passes, and show what only they can: refused methods, a full device,
//! and locks between processes.

#![cfg(not(miri))] // Miri has no file system to speak of.

use katydid_device::testing::conformance;
use katydid_device::{Cause, Create, Directory, FileDirectory, Gate, Method, Verb, WriteMode};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Where the build puts its files: a real file system, unlike what may be mounted for temporary ones.
fn scratch() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch directory")
}

/// Makes directories below a scratch directory.
fn files(scratch: &TempDir) -> impl Fn() -> Arc<dyn Directory> {
    let count = RefCell::new(0);
    move || {
        *count.borrow_mut() += 1;
        let path = scratch.path().join(format!("{}/inner", count.borrow()));
        Arc::new(FileDirectory::open(path).expect("open"))
    }
}

#[test]
fn files_conform() {
    let scratch = scratch();
    conformance(files(&scratch));
}

#[test]
fn files_behind_a_gate_conform() {
    let scratch = scratch();
    let make = files(&scratch);
    conformance(|| Gate::wrap(make()).0);
}

#[test]
fn files_in_the_temporary_directory_conform() {
    let scratch = TempDir::new().expect("a temporary directory");
    conformance(files(&scratch));
}

#[test]
fn a_method_the_file_system_refuses_is_replaced() {
    let scratch = scratch();
    let directory = FileDirectory::open(scratch.path()).expect("open");
    let file = directory.open("a", Create::New, Method::Direct).expect("create");
    match file.method() {
        Method::Direct => assert_eq!(file.alignment(), 4096),
        _ => assert_eq!(file.alignment(), 1),
    }
    let file = directory.open("a", Create::Never, Method::Buffered).expect("open");
    assert_eq!((file.method(), file.alignment()), (Method::Buffered, 1));
}

#[test]
fn opening_an_existing_directory_creates_nothing() {
    let scratch = scratch();
    let path = scratch.path().join("missing");
    assert!(FileDirectory::open_existing(&path).expect_err("it does not exist").is_not_found());
    assert!(!path.exists());
    std::fs::write(&path, b"a file").expect("write");
    assert!(FileDirectory::open(&path).is_err(), "a file is no directory");
}

#[test]
fn no_room_is_typed_and_leaves_the_file_usable() {
    // The kernel's own full device.
    let directory = FileDirectory::open_existing("/dev").expect("open");
    let Ok(full) = directory.open("full", Create::Never, Method::Buffered) else { return };
    let error = full.prepare(0, 1 << 20).expect_err("it is full");
    assert!(error.is_no_space() && error.verb == Verb::Prepare, "{error}");
    for mode in [WriteMode::Written, WriteMode::Durable] {
        let error = full.write_at(&[IoSlice::new(b"x")], 0, mode).expect_err("it is full");
        assert!(error.is_no_space() && error.verb == Verb::Write, "{error}");
    }
    assert_eq!(full.read_at(&mut [0; 10], 0).expect("read"), 10);
}

#[test]
fn a_lock_held_by_another_process_names_it() {
    const VARIABLE: &str = "KATYDID_TEST_LOCK";
    if let Ok(path) = std::env::var(VARIABLE) {
        let directory = FileDirectory::open(path).expect("open");
        let _lock = directory.lock().expect("lock");
        println!("locked");
        std::io::stdout().flush().expect("flush");
        // Until the parent closes the pipe, or kills this process.
        std::io::stdin().read_to_end(&mut Vec::new()).expect("read");
        return;
    }
    let scratch = scratch();
    let directory = FileDirectory::open(scratch.path()).expect("open");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_lock_held_by_another_process_names_it", "--nocapture"])
        .env(VARIABLE, scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("locked")), "the child took the lock");
    let error = directory.lock().expect_err("the child has it");
    assert!(matches!(error.cause, Cause::Locked(Some(pid)) if pid == child.id()), "{error}");
    child.kill().expect("kill");
    child.wait().expect("wait");
    drop(directory.lock().expect("the kernel released it"));
}
