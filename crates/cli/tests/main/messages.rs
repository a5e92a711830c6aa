//! Error messages of commands. They name the subject and the reason, and advise only existing
//! flags; the commands leave no files.

use crate::program::{contents, run, run_in, run_with_input};
use std::fs;
use std::path::Path;

/// Commands that need an existing database.
const LOOKERS: [&str; 9] =
    ["get t k", "delete t k", "scan t", "tables", "stat", "stat --json", "checkpoint", "verify", "dump-log"];

#[test]
fn a_place_without_a_database_is_named_with_the_reason() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "text").unwrap();
    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let missing = root.path().join("not").join("there");
    let before = contents(root.path());
    for words in LOOKERS {
        for (place, why) in
            [(&file, "not a folder"), (&empty, "is empty or holds other files"), (&missing, "no such folder")]
        {
            let done = run_in(place, words);
            assert!(done.out.is_empty(), "{words}: {}", done.out);
            assert!(done.err.contains(place.to_str().unwrap()), "{words}: {}", done.err);
            done.expect_error(1, why);
        }
    }
    run_in(&file, "put t k v").expect_error(1, "file");
    assert!(contents(root.path()) == before && !missing.exists(), "something was left");
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "something was left");
}

#[test]
fn a_device_is_measured_only_in_a_folder_that_is_there() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("x");
    let measure =
        |dir: &Path| run(["bench-disk", "--quick", "--file-bytes", "1MiB", "--dir", dir.to_str().unwrap()]);
    measure(&missing).expect_error(1, "no such folder");
    assert!(!missing.exists(), "another disk may belong there");
    let file = root.path().join("file");
    fs::write(&file, "text").unwrap();
    measure(&file).expect_error(1, "not a folder");
    measure(Path::new("/proc")).expect_error(1, "no file can be made");
}

#[test]
fn advice_names_what_the_command_has() {
    let dir = tempfile::tempdir().unwrap();
    for words in [r"put t k a\q", r"put t k a\", r"put t a\q v", r"get t a\q"] {
        let done = run_in(dir.path(), words);
        assert!(done.err.contains(r"a backslash is written \\"), "{}", done.err);
        assert!(!done.err.contains("--raw"), "{}", done.err);
        done.expect(2);
    }
    let done = run_with_input(dir.path(), "load t -", b"k\ta\\q\n");
    assert!(done.err.contains("line 1") && done.err.contains("--raw"), "{}", done.err);
    done.expect(1);
}

#[test]
fn one_is_not_a_plural() {
    let dir = tempfile::tempdir().unwrap();
    let out = run_with_input(dir.path(), "load t - --acks", b"k\tv\n").expect(0);
    assert!(out.starts_with("acknowledged 1 line\nacknowledged 1 line ("), "{out}");
    let done = run_with_input(dir.path(), "load t -", b"l\tv\n\n");
    assert!(done.err.contains("the line before it is durable"), "{}", done.err);
    let done = run_with_input(dir.path(), "load t -", b"\n");
    assert!(done.err.contains("nothing was put"), "{}", done.err);
    let out = run_in(dir.path(), "verify").expect(0);
    assert!(out.contains("1 table,") && out.contains("2 keys,"), "{out}");
}

#[test]
fn a_dumped_log_says_where_it_ends_or_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), "put t k v").expect(0);
    let done = run_in(dir.path(), "dump-log");
    assert!(done.err.contains("the log: closed, ends at "), "{}", done.err);
    let last = done.expect(0).lines().count();
    let done = run_in(dir.path(), "dump-log --limit 1");
    assert!(done.err.contains("the log: more records follow, from "), "{}", done.err);
    assert!(last > 1 && done.expect(0).lines().count() == 1);
}

#[test]
fn numbers_out_of_range_are_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    for words in [
        "scan t --limit=-1",
        "scan t --limit many",
        "dump-log --from x",
        "dump-log --limit 1.5",
        "load t - --batch 0",
    ] {
        let done = run_in(dir.path(), words);
        assert!(done.err.contains("invalid value"), "{words}: {}", done.err);
        done.expect(2);
    }
}
