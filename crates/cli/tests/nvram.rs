//! Databases whose log is in NVRAM, of every kind: made when asked for, then found out by every tool; and what is said of the memory.

mod program;

use katydid_wal::LogKind;
use program::{contents, run_in, run_with_input};
use serde_json::Value;
use std::path::Path;

const ENGINES: [&str; 2] = ["paged", "memory"];

fn kinds() -> impl Iterator<Item = LogKind> {
    LogKind::ALL.into_iter().filter(|kind| kind.in_nvram())
}

fn line(number: u64) -> String {
    format!("{number:05}\t{}\n", "x".repeat(number as usize % 200))
}

fn filled(dir: &Path, kind: LogKind, engine: &str) -> String {
    let text: String = (0..2000).map(line).collect();
    let words = format!(
        "load t - --engine {engine} --streams 2 --log {kind} --nvram-bytes 1MiB --nvram-latency 400ns"
    );
    run_with_input(dir, &words, text.as_bytes()).expect(0);
    text
}

#[test]
fn tools_find_out_the_kind_and_say_what_the_memory_is() {
    for kind in kinds() {
        for engine in ENGINES {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            let all = filled(dir, kind, engine);
            let before = contents(dir);
            assert!(run_in(dir, "verify").expect(0).starts_with("sound: "));
            let dumped = run_in(dir, "dump-log").expect(0);
            assert!(dumped.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
            assert_eq!(contents(dir), before, "{kind}, {engine}: something was changed by looking");
            assert_eq!(run_in(dir, "scan t").expect(0), all);
            run_in(dir, "put t 00042 another").expect(0);
            assert_eq!(run_in(dir, "get t 00042").expect(0), "00042\tanother\n");
            run_with_input(dir, "load other -", b"a\t1\n").expect(0);
            assert!(run_in(dir, "checkpoint").expect(0).starts_with("checkpoint at "));
            let stat = run_in(dir, "stat").expect(0);
            assert!(stat.contains(&format!(" in {kind}\n")) && stat.contains("EMULATED NVRAM: "), "{stat}");
            let stat: Value = serde_json::from_str(&run_in(dir, "stat --json").expect(0)).unwrap();
            assert_eq!(stat["log"]["kind"], kind.to_string());
            assert!(stat["log"]["nvram"].as_str().unwrap().starts_with("EMULATED"));
            assert!(stat["log"]["fullness_per_mille"].as_u64().unwrap() <= 1000);
            run_with_input(dir, "load t - --log disk", b"a\t1\n")
                .expect_error(1, &format!("the log is kept in {kind}, not in disk"));
        }
    }
}

#[test]
fn a_bench_says_at_its_head_what_the_memory_is() {
    for (kind, engine) in kinds().zip(ENGINES.into_iter().cycle()) {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("report.json");
        let words = format!(
            "bench insert --log {kind} --engine {engine} --operations 300 --threads 2 --no-limit --nvram-bytes 4MiB \
             --nvram emulated --nvram-latency 2us --json {}",
            json.display()
        );
        let out = run_in(&dir.path().join("db"), &words).expect(0);
        let head = out.lines().nth(1).unwrap();
        assert!(head.starts_with("the log is in EMULATED NVRAM: ") && head.contains("2µs added"), "{out}");
        assert!(out.contains(&format!("log={kind}")) && out.contains("nvram_latency_us=2"), "{out}");
        let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
        assert!(report["nvram"].as_str().unwrap().contains("2µs"));
        assert_eq!(report["check"]["keys"], 300);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let load = |words: &str| run_with_input(dir.path(), &format!("load t - {words}"), b"a\t1\n");
    load("--log nv_ring --nvram-bytes 100000").expect_error(2, "a power of two");
    load("--log nv_ring --nvram real --nvram-latency 1us").expect_error(2, "--nvram emulated");
    load("--log tape").expect_error(2, "`tape` is not one of disk");
    load("--log nv_ring --nvram-bytes 16KiB").expect_error(1, "nvram.bytes");
}
