//! Every command detects a directory of the memory engine by itself. Wrong engines are refused.

use crate::program::{self, contents, run_in, run_with_input};
use katydid::{Database, EngineKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const LINES: u64 = 3000;

fn line(number: u64) -> String {
    format!("{number:05}\t{}\n", "x".repeat(number as usize % 200))
}

fn filled(dir: &Path) {
    let text: String = (0..LINES).map(line).collect();
    run_with_input(dir, "load t - --engine memory --streams 3", text.as_bytes()).expect(0);
    assert_eq!(Database::engine_at(dir).unwrap(), EngineKind::Memory);
}

#[test]
fn tools_find_out_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let all: String = (0..LINES).map(line).collect();
    assert_eq!(run_in(dir.path(), "scan t").expect(0), all);
    assert_eq!(run_in(dir.path(), "scan t --reverse --limit 1").expect(0), line(LINES - 1));
    assert_eq!(run_in(dir.path(), "get t 00042").expect(0), line(42));
    run_in(dir.path(), "put t 00042 another").expect(0);
    run_in(dir.path(), "put t 00043 third --engine memory").expect(0);
    run_in(dir.path(), "delete t 00044").expect(0);
    assert_eq!(
        run_in(dir.path(), "scan t --from 00042 --limit 3").expect(0),
        format!("00042\tanother\n00043\tthird\n{}", line(45))
    );
    assert_eq!(run_in(dir.path(), "tables").expect(0), "t\n");
    // Load into an existing directory, without --engine.
    run_with_input(dir.path(), "load other -", b"a\t1\nb\t2\n").expect(0);
    assert_eq!(run_in(dir.path(), "scan other").expect(0), "a\t1\nb\t2\n");
    assert!(run_in(dir.path(), "checkpoint").expect(0).starts_with("checkpoint taken; the log begins at "));
    assert_eq!(run_in(dir.path(), "scan other").expect(0), "a\t1\nb\t2\n");
}

#[test]
fn verify_and_dump_log_only_look() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let before = contents(dir.path());
    let out = run_in(dir.path(), "verify").expect(0);
    assert!(out.starts_with("sound: ") && out.contains(" 3,000 keys"), "{out}");
    let report: Value = serde_json::from_str(&run_in(dir.path(), "verify --json").expect(0)).unwrap();
    assert_eq!((&report["sound"], &report["clean"]), (&true.into(), &true.into()));
    let dumped = run_in(dir.path(), "dump-log").expect(0);
    let mut last = 0;
    for line in dumped.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let stamp = record["stamp"].as_u64().unwrap();
        assert!(stamp > last && record["txn"].as_u64().is_some_and(|txn| 0 < txn && txn <= stamp), "{line}");
        assert!(
            record["stream"].is_u64() && record["kind"] == "writes" && record["prev"].is_null(),
            "{line}"
        );
        last = stamp;
    }
    assert!(contents(dir.path()) == before, "something was changed");
}

#[test]
fn the_log_shows_what_was_written_since_the_last_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    // The process is killed before it closes the database, so the last rows are only in the log.
    let mut child = program::command(["load", "t", "-", "--acks", "--dir"]);
    let mut child = child.arg(dir.path()).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut acks = std::io::BufReader::new(child.stdout.take().unwrap());
    let many: String = (0..1000).map(|number| format!("late{number:04}\tvalue\n")).collect();
    std::io::Write::write_all(&mut stdin, many.as_bytes()).unwrap();
    let mut ack = String::new();
    std::io::BufRead::read_line(&mut acks, &mut ack).unwrap();
    assert_eq!(ack, "acknowledged 1000 lines\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let dumped = run_in(dir.path(), "dump-log").expect(0);
    assert!(dumped.contains("late0000") && dumped.contains("late0999"), "{dumped}");
    let stamp = |line: &str| serde_json::from_str::<Value>(line).unwrap()["stamp"].as_u64().unwrap();
    let last = dumped.lines().next_back().unwrap();
    let from = |stamp: u64| run_in(dir.path(), &format!("dump-log --from {stamp}")).expect(0);
    assert_eq!(from(stamp(last)).trim_end(), last);
    assert_eq!(from(stamp(last) + 1), "");
    let report: Value = serde_json::from_str(&run_in(dir.path(), "verify --json").expect(0)).unwrap();
    assert_eq!((&report["sound"], &report["clean"]), (&true.into(), &false.into()));
    assert_eq!(run_in(dir.path(), "scan t --prefix late").expect(0), many);
}

#[test]
fn stat_shows_the_memory_engine() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let out = run_in(dir.path(), "stat").expect(0);
    for word in ["engine", "memory", "old versions", "stream 2 reserved", "log pinned by", "incarnation"] {
        assert!(out.contains(word), "no {word:?}:\n{out}");
    }
    let stat: Value = serde_json::from_str(&run_in(dir.path(), "stat --json").expect(0)).unwrap();
    assert_eq!((&stat["engine"], &stat["tables"]), (&"memory".into(), &1.into()));
    assert!(stat["records"].as_u64().unwrap() >= LINES && stat["checkpoint"].as_u64().unwrap() > 0, "{stat}");
    let used = stat["used_bytes"].as_u64().unwrap();
    assert!(used > LINES * 100 && used < stat["limit_bytes"].as_u64().unwrap(), "{stat}");
    assert!(stat["held_by"].is_null(), "nobody reads: {stat}");
    let streams = stat["log"]["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 3);
    for stream in streams {
        let positions =
            ["start", "durable", "written", "filled", "reserved"].map(|name| stream[name].as_u64());
        assert!(positions.is_sorted() && positions[0].is_some(), "{stream}");
    }
}

#[test]
fn the_number_of_streams_has_the_limit_of_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let load = |streams: u16| {
        run_with_input(dir.path(), &format!("load t - --engine memory --streams {streams}"), b"a\t1\n")
    };
    let most = katydid::STREAMS_MAX;
    for wrong in [0, most + 1] {
        load(wrong).expect_error(2, &format!("'{wrong}' for '--streams <N>': {wrong} is not in 1..={most}"));
    }
    load(most).expect(0);
}

#[test]
fn another_engine_than_the_directorys_is_refused() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    filled(dirs[0].path());
    run_with_input(dirs[1].path(), "load t -", b"a\t1\n").expect(0);
    for (dir, made, asked) in [(&dirs[0], "memory", "paged"), (&dirs[1], "paged", "memory")] {
        let before = contents(dir.path());
        let why = format!("was made by the {made} engine, not by the {asked} engine");
        run_with_input(dir.path(), &format!("load t - --engine {asked}"), b"a\t1\n").expect_error(1, &why);
        run_in(dir.path(), &format!("put t a 1 --engine {asked}")).expect_error(1, &why);
        run_in(dir.path(), &format!("bench insert --engine {asked} --operations 1 --no-limit"))
            .expect_error(1, &why);
        // The lock's file changes, because it names the last process that had the lock.
        let files = |mut files: BTreeMap<String, Vec<u8>>| {
            files.retain(|path, _| !path.ends_with("LOCK"));
            files
        };
        assert!(files(contents(dir.path())) == files(before), "something was changed");
    }
    run_in(dirs[0].path(), "put t a 1 --engine both").expect_error(2, "must be paged or memory");
    run_in(dirs[0].path(), "put t a 1 --streams 257").expect_error(2, "--streams");
    run_in(dirs[0].path(), "put t a 1 --dependences some").expect_error(2, "must be tracked or all");
}

#[test]
fn too_little_memory_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..20_000).map(|number| format!("{number:06}\t{}\n", "x".repeat(200))).collect();
    let done = run_with_input(dir.path(), "load t - --engine memory --memory 1MiB --acks", text.as_bytes());
    let lines = done.out.lines().filter(|line| line.starts_with("acknowledged ")).count();
    assert!(lines >= 2, "{}", done.out);
    done.expect_error(1, "memory");
    // The acknowledged rows are there, and with more memory the rest can be loaded.
    assert!(run_in(dir.path(), "scan t").expect(0).lines().count() >= 1000);
    run_with_input(dir.path(), "load t -", text.as_bytes()).expect(0);
    assert_eq!(run_in(dir.path(), "scan t").expect(0).lines().count(), 20_000);
}

fn files_below(folder: &Path, named: &str) -> Vec<PathBuf> {
    contents(folder).into_keys().filter(|path| path.contains(named)).map(PathBuf::from).collect()
}

#[test]
fn verify_names_the_place_of_damage() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let parts = files_below(dir.path(), "part-");
    assert!(!parts.is_empty());
    for path in parts {
        let bytes = fs::read(&path).unwrap();
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 3] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        run_in(dir.path(), "verify").expect_error(1, name);
        run_in(dir.path(), "scan t").expect_error(1, name);
        fs::write(&path, &bytes).unwrap();
    }
    run_in(dir.path(), "verify").expect(0);
}
