//! `stat`, `verify`, `dump-log`, `checkpoint`: their output, and that commands which only read
//! change nothing.

use crate::program::{command, contents, run_in, run_with_input, times};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

fn filled(dir: &Path) {
    let text: String =
        (0..3000).map(|number| format!("{number:05}\t{}\n", "x".repeat(number % 200))).collect();
    run_with_input(dir, "load t -", text.as_bytes()).expect(0);
}

#[test]
fn what_only_looks_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let before = (contents(dir.path()), times(dir.path()));
    assert_eq!(run_in(dir.path(), "get t 00001").expect(0), "00001\tx\n");
    assert_eq!(run_in(dir.path(), "scan t").expect(0).lines().count(), 3000);
    assert_eq!(run_in(dir.path(), "count t --prefix 000").expect(0), "100\n");
    assert_eq!(run_in(dir.path(), "tables").expect(0), "t\n");
    run_in(dir.path(), "get t none").expect(1);
    run_in(dir.path(), "stat").expect(0);
    assert!((contents(dir.path()), times(dir.path())) == before, "something was changed");
    let out = run_in(dir.path(), "verify").expect(0);
    assert!(out.starts_with("sound: ") && out.contains(" 3,000 keys"), "{out}");
    assert_eq!(run_in(dir.path(), "verify --quiet").expect(0), "");
    let report: Value = serde_json::from_str(&run_in(dir.path(), "verify --json").expect(0)).unwrap();
    assert_eq!((&report["sound"], &report["keys"]), (&true.into(), &3000.into()));
    let dumped = run_in(dir.path(), "dump-log").expect(0);
    let mut last = 0;
    for line in dumped.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert!(record["lsn"].as_u64().unwrap() >= last && record["kind"].is_string(), "{line}");
        last = record["end"].as_u64().unwrap();
    }
    assert!(run_in(dir.path(), "dump-log --limit 1").expect(0).lines().count() <= 1);
    assert!((contents(dir.path()), times(dir.path())) == before, "something was changed");
}

#[test]
fn stat_and_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let out = run_in(dir.path(), "stat").expect(0);
    assert!(out.contains("log pinned by"), "{out}");
    let stat: Value = serde_json::from_str(&run_in(dir.path(), "stat --json").expect(0)).unwrap();
    assert_eq!(stat["tables"], 1);
    assert!(stat["pages"].as_u64().unwrap() > 10);
    let log = &stat["log"];
    let position = |name: &str| log[name].as_u64().unwrap_or_else(|| panic!("no {name} in {log}"));
    assert!(position("start") <= position("durable") && position("durable") <= position("written"));
    assert!(position("written") <= position("filled") && position("filled") <= position("reserved"));
    assert!(log["pinned_by"].is_string());
    // The number of stalls depends on the device, so the test only checks that a number is shown.
    assert!(out.contains("device stalls") && stat["device_stalls"]["count"].is_u64(), "{out}{stat}");
    assert!(stat["device_stalls"]["under_way"].is_null(), "{stat}");
    assert!(run_in(dir.path(), "checkpoint").expect(0).starts_with("checkpoint taken; the log begins at "));
    run_in(dir.path(), "verify").expect(0);
}

#[test]
fn verify_names_the_place_of_damage() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    const PAGE: usize = 8192;
    let path = dir.path().join("katydid.pages");
    let bytes = fs::read(&path).unwrap();
    let pages = bytes.chunks(PAGE).take_while(|page| page.iter().any(|byte| *byte != 0)).count();
    assert!(pages > 10, "only {pages} pages");
    for page in 0..pages {
        let mut damaged = bytes.clone();
        damaged[page * PAGE + 100 + page * 37] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        run_in(dir.path(), "verify").expect_error(1, &page.to_string());
    }
    fs::write(&path, &bytes).unwrap();
    run_in(dir.path(), "verify").expect(0);
}

#[test]
fn a_database_in_use_is_not_opened_twice() {
    let dir = tempfile::tempdir().unwrap();
    let database = katydid::Database::open(dir.path()).unwrap();
    database.table("t").unwrap();
    for words in ["scan t", "stat", "put t a b"] {
        run_in(dir.path(), words).expect_error(1, "in use");
    }
    for words in ["get t a", "scan t", "count t", "tables", "stat"] {
        run_in(dir.path(), words).expect_error(1, "katydid_observe::Socket::open");
    }
    database.close().unwrap();
    run_in(dir.path(), "scan t").expect(0);
}

#[test]
fn a_running_load_can_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let mut load = command(["load", "t", "-", "--batch", "1", "--acks", "--segment", "4MiB"]);
    let mut load = load.arg("--dir").arg(dir.path()).stdin(Stdio::piped()).spawn().unwrap();
    let (mut lines, mut acks) =
        (load.stdin.take().unwrap(), BufReader::new(load.stdout.take().unwrap()).lines());
    for number in 0..1200 {
        writeln!(lines, "{number:05}\tv{number}").unwrap();
        acks.next().unwrap().unwrap();
    }
    assert_eq!(run_in(dir.path(), "get t 00007 --json").expect(0), "{\"key\":\"00007\",\"value\":\"v7\"}\n");
    assert_eq!(run_in(dir.path(), "count t").expect(0), "1200\n");
    assert_eq!(run_in(dir.path(), "tables").expect(0), "t\n");
    // These rows take more than one reply of the socket.
    let expected: String = (0..1200).map(|number| format!("{number:05}\tv{number}\n")).collect();
    assert_eq!(run_in(dir.path(), "scan t").expect(0), expected);
    let backwards: String = expected.lines().rev().take(1100).map(|line| line.to_owned() + "\n").collect();
    assert_eq!(run_in(dir.path(), "scan t --reverse --limit 1100").expect(0), backwards);
    let stat: Value = serde_json::from_str(&run_in(dir.path(), "stat --json").expect(0)).unwrap();
    assert!(stat["commits"].as_u64().unwrap() >= 1200, "{stat}");
    assert!(stat["commit_latency_us"]["count"].as_u64().unwrap() >= 1200, "{stat}");
    let top = run_in(dir.path(), "top --count 2 --interval 0.01").expect(0);
    assert_eq!(top.matches("commit latency  p50 ").count(), 2, "{top}");
    assert!(top.contains("paged engine, ") && top.contains("0 transactions, the oldest:"), "{top}");
    let top: Value =
        serde_json::from_str(&run_in(dir.path(), "top --count 1 --interval 0.01 --json").expect(0)).unwrap();
    assert_eq!((&top["per_second"]["commits"], &top["stat"]["tables"]), (&0.0.into(), &1.into()));
    run_in(dir.path(), "get t none").expect(1);
    run_in(dir.path(), "get u none").expect_error(1, "there is no table \"u\"; there are: t");
    run_in(dir.path(), "put t k v").expect_error(1, "in use");
    // A killed process leaves its socket behind. The next command finds that no process has the
    // database open, and does not use the socket.
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(dir.path().join("katydid.socket").exists());
    assert_eq!(run_in(dir.path(), "count t").expect(0), "1200\n");
    run_in(dir.path(), "top").expect_error(1, "no process has the database");
    run_with_input(dir.path(), "load t -", b"k\tv\n").expect(0);
    assert!(!dir.path().join("katydid.socket").exists());
}
