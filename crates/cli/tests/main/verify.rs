//! `verify` compared with opening. A database that `verify` calls sound can be opened and has all
//! rows; one that cannot be opened is never called sound.

use crate::program::{contents, run_in};
use katydid::{Database, EngineKind, Error, MemoryOptions, Options, PagedOptions};
use std::fs;
use std::path::Path;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let there = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &there);
        } else {
            fs::copy(&path, &there).unwrap();
        }
    }
}

fn options(engine: EngineKind) -> Options {
    let memory = MemoryOptions { streams: 2, ..MemoryOptions::default() };
    let mut options = Options { engine: engine.with(PagedOptions::default(), memory), ..Options::default() };
    options.advanced.log.medium = katydid::FileOptions {
        segment_bytes: 64 << 10,
        ring_bytes: 64 << 10,
        spare_segments: 1,
        ..Default::default()
    }
    .into();
    options.advanced.log.reserve_bytes = 16 << 10;
    options.advanced.log.run_ahead_bytes = 32 << 10;
    options.advanced.log.background = katydid::testing::Background::Caller;
    options
}

fn put(database: &Database, numbers: std::ops::Range<u32>) {
    let table = database.table("t").unwrap();
    for number in numbers {
        database.put(&table, number.to_string(), [7; 500]).unwrap();
    }
}

/// A copy of an open database equals the state after a crash. `verify` recovers it in memory, and
/// it has all rows.
fn what_a_crash_left_is_recovered_in_memory(engine: EngineKind) {
    let root = tempfile::tempdir().unwrap();
    let (live, left) = (root.path().join("live"), root.path().join("left"));
    let database = Database::open_with(&live, options(engine)).unwrap();
    put(&database, 0..100);
    database.checkpoint().unwrap();
    put(&database, 100..300);
    copy(&live, &left);
    let before = contents(&left);
    let done = run_in(&left, "verify");
    assert!(done.err.contains("in memory"), "{}", done.err);
    let out = done.expect(0);
    assert!(out.contains("1 table, 300 keys, "), "{out}");
    assert!(out.contains("not closed cleanly"), "{out}");
    assert!(contents(&left) == before, "something was changed");
    assert_eq!(run_in(&left, "scan t").expect(0).lines().count(), 300);
}

#[test]
fn what_a_crash_left_is_recovered_in_memory_paged() {
    what_a_crash_left_is_recovered_in_memory(EngineKind::Paged);
}

#[test]
fn what_a_crash_left_is_recovered_in_memory_memory() {
    what_a_crash_left_is_recovered_in_memory(EngineKind::Memory);
}

/// While a process has the database open, `verify` calls it neither sound nor faulty.
fn what_another_process_has_open_is_not_checked(engine: EngineKind) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("live");
    let database = Database::open_with(&dir, options(engine)).unwrap();
    put(&database, 0..100);
    let refused = Database::verify_path(&dir, None).expect_err("it is open in this process");
    assert!(
        matches!(refused, Error::Locked { pid: Some(pid), .. } if pid == std::process::id()),
        "{refused}"
    );
    let expected = format!("in use by process {}", std::process::id());
    run_in(&dir, "verify").expect_error(3, &expected);
    let done = run_in(&dir, "verify --json");
    assert!(done.err.contains(&expected), "{}", done.err);
    let found: serde_json::Value = serde_json::from_str(&done.expect(3)).unwrap();
    assert_eq!(found["sound"], false, "{found}");
    assert!(found["unchecked"].as_str().is_some_and(|why| why.contains(&expected)), "{found}");
    put(&database, 100..200);
    database.close().unwrap();
    let before = contents(&dir);
    let out = run_in(&dir, "verify").expect(0);
    assert!(out.contains("200 keys"), "{out}");
    assert!(contents(&dir) == before, "something was changed");
}

#[test]
fn what_another_process_has_open_is_not_checked_paged() {
    what_another_process_has_open_is_not_checked(EngineKind::Paged);
}

#[test]
fn what_another_process_has_open_is_not_checked_memory() {
    what_another_process_has_open_is_not_checked(EngineKind::Memory);
}

/// Copies files at different times, as `cp -r` does while a process writes. The files in `late` are
/// copied after a checkpoint that trims the log.
fn torn_copy(engine: EngineKind, late: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let (live, copied) = (root.path().join("live"), root.path().join("copied"));
    let database = Database::open_with(&live, options(engine)).unwrap();
    put(&database, 0..100);
    database.checkpoint().unwrap();
    put(&database, 100..200);
    copy(&live, &copied);
    put(&database, 200..700);
    database.checkpoint().unwrap();
    for name in late {
        fs::copy(live.join(name), copied.join(name)).unwrap();
    }
    root
}

/// Checks that `verify` finds a fault in the copy, and that opening the copy fails.
fn assert_not_called_sound(root: &tempfile::TempDir) {
    let copied = root.path().join("copied");
    let before = contents(&copied);
    let done = run_in(&copied, "verify");
    assert!(!done.out.contains("sound: "), "{}", done.out);
    assert!(done.err.contains("fault: "), "{}", done.err);
    done.expect(1);
    assert!(contents(&copied) == before, "something was changed");
    run_in(&copied, "tables").expect(1);
}

#[test]
fn a_control_file_newer_than_its_log_is_not_sound_paged() {
    assert_not_called_sound(&torn_copy(EngineKind::Paged, &["katydid.control"]));
}

#[test]
fn a_control_file_newer_than_its_checkpoint_is_not_sound_memory() {
    assert_not_called_sound(&torn_copy(EngineKind::Memory, &["katydid.control"]));
}

#[test]
fn a_lost_control_file_is_named() {
    for engine in [EngineKind::Paged, EngineKind::Memory] {
        let root = torn_copy(engine, &[]);
        let copied = root.path().join("copied");
        fs::remove_file(copied.join("katydid.control")).unwrap();
        let before = contents(&copied);
        for words in ["verify", "get t 1", "scan t", "tables", "stat", "checkpoint", "put t k v"] {
            run_in(&copied, words).expect_error(1, "katydid.control is missing");
        }
        let after = contents(&copied);
        let is_lock = |name: &String| name.ends_with("/LOCK");
        assert!(
            before
                .iter()
                .filter(|(name, _)| !is_lock(name))
                .eq(after.iter().filter(|(name, _)| !is_lock(name))),
            "something was changed"
        );
    }
}

#[test]
fn a_log_that_cannot_be_recovered_in_memory_is_not_called_checked() {
    let dir = tempfile::tempdir().unwrap();
    let mut with_ring = options(EngineKind::Paged);
    let memory = katydid::NvramOptions { bytes: 1 << 20, ..Default::default() };
    with_ring.advanced.log.medium = katydid::MediumOptions::NvRing { memory, inserter: Default::default() };
    let database = Database::open_with(dir.path(), with_ring).unwrap();
    put(&database, 0..10);
    // A transaction with writes is open at the end and must be undone, so the database is not
    // closed cleanly.
    let table = database.table("t").unwrap();
    let open = database.begin().unwrap();
    open.put(&table, "never committed", "1").unwrap();
    database.close().unwrap();
    drop((open, table, database));
    let done = run_in(dir.path(), "verify");
    assert!(done.out.is_empty(), "{}", done.out);
    assert!(done.err.contains("not checked: ") && done.err.contains("nv_ring"), "{}", done.err);
    done.expect(3);
}
