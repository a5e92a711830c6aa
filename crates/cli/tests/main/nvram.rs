//! Databases with every kind of log in NVRAM: a flag makes them, every command detects them, and
//! the output names the memory.

use crate::program::{contents, run_in, run_with_input};
use crate::rows::{Row, number, read};
use katydid_wal::LogKind;
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
            // Take a checkpoint, because `verify` does not check the log that the memory engine
            // leaves in NVRAM for the next opening.
            run_in(dir, "checkpoint").expect(0);
            let before = contents(dir);
            assert!(run_in(dir, "verify").expect(0).starts_with("sound: "));
            let dumped = run_in(dir, "dump-log").expect(0);
            assert!(dumped.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
            assert_eq!(contents(dir), before, "{kind}, {engine}: something was changed by looking");
            assert_eq!(run_in(dir, "scan t").expect(0), all);
            run_in(dir, "put t 00042 another").expect(0);
            assert_eq!(run_in(dir, "get t 00042").expect(0), "00042\tanother\n");
            run_with_input(dir, "load other -", b"a\t1\n").expect(0);
            assert!(run_in(dir, "checkpoint").expect(0).starts_with("checkpoint taken; the log begins at "));
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

fn is_empty_or_gone(dir: &Path) -> bool {
    std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}

#[test]
fn every_figure_runs_over_every_kind_and_each_row_says_what_its_memory_was() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, svg, memory) =
        (dir.path().join("out.csv"), dir.path().join("charts"), dir.path().join("memory"));
    let words = format!(
        "bench nvram --figure all --quick --threads 2 --warehouses 1 --items 100 --customers 10 --keys 50 --nvram-bytes 8MiB \
         --segment 1MiB --spare 1 --nvram-dir {} --csv {} --svg {}",
        memory.display(),
        csv.display(),
        svg.display()
    );
    let out = run_in(&dir.path().join("work"), &words).expect(0);
    for said in
        ["logs in EMULATED NVRAM: a mapped file on ", "400ns added", "check: the conditions of TPC-C held"]
    {
        assert!(out.contains(said), "no {said:?} in {out}");
    }
    assert!(is_empty_or_gone(&memory) && is_empty_or_gone(&dir.path().join("work")));
    let rows = read(&csv);
    for figure in ["nvlogging6", "nvlogging7", "nvlogging9", "eleda15", "append"] {
        for kind in kinds() {
            let of = |row: &&Row| row["figure"] == figure && row["log"] == kind.to_string();
            assert!(rows.iter().any(|row| of(&row)), "no {kind} in {figure}");
        }
    }
    for row in &rows {
        assert!(number(row, "commits") > 0.0 && number(row, "transaction_us") > 0.0, "{row:?}");
        let (on_disk, micros) = (row["log"] == "disk", number(row, "delay_us"));
        assert_eq!(row["nvram"].is_empty(), on_disk);
        let latency =
            if micros == 0.0 { "0ns added".to_owned() } else { format!("{}ns added", micros * 1e3) };
        assert!(on_disk || row["nvram"].contains(&latency), "{row:?}");
        // The run itself fails if an order is missing or was made twice.
        assert!(row["work"] != "tpcc-pair" || number(row, "checked") == number(row, "commits"));
        let compared = !on_disk && ["nvlogging6", "nvlogging7", "eleda15"].contains(&row["figure"].as_str());
        assert_eq!(row["to_disk"].is_empty(), !compared, "{row:?}");
    }
    let mut charts: Vec<_> = std::fs::read_dir(svg)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    charts.sort();
    assert_eq!(charts.len(), 10, "{charts:?}");
}

#[test]
fn the_log_alone_is_measured_in_every_kind_once() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("out.csv");
    let words = format!(
        "bench log-commit --log all --sync adaptive,grouped --threads 2 --callbacks 1x20 --delay 0,400ns --quick --segment 1MiB --spare 1 \
         --nvram-bytes 4MiB --device memory --nvram-dir {} --csv {}",
        dir.path().join("memory").display(),
        csv.display()
    );
    let out = run_in(&dir.path().join("work"), &words).expect(0);
    assert!(
        out.contains("NVRAM, delay 400ns: 168 bytes copied") || out.contains("NVRAM, delay 0.4us: 168 bytes"),
        "{out}"
    );
    let rows = read(&csv);
    for kind in kinds() {
        let of = rows.iter().filter(|row| row["log"] == kind.to_string());
        assert_eq!(of.clone().count(), 2 * 2, "{kind}");
        assert!(of.clone().all(|row| row["nvram"].starts_with("EMULATED") && row["sync"] == "-"));
    }
    assert_eq!(rows.iter().filter(|row| row["log"] == "disk").count(), 2 * 2 * 2);
}
