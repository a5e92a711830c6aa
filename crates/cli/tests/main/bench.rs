//! `bench`: its report, its JSON, and the flags that it refuses.

use crate::program::{command, in_repository, run, run_in, run_unheard};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

fn report(dir: &Path, words: &str) -> Value {
    let json = dir.with_extension("json");
    run_in(dir, &format!("{words} --json {}", json.display())).expect(0);
    serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap()
}

/// Checks the fields of a report, and their types.
fn check_schema(report: &Value) {
    assert!(report["transactions_per_second"].as_f64().unwrap() > 0.0);
    for kind in ["reads", "commits"] {
        let part = &report[kind];
        assert!(part["count"].is_u64(), "{report:#}");
        let latency: Vec<f64> = ["p50", "p95", "p99", "p999", "max"]
            .iter()
            .map(|name| part["latency_us"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {report:#}")))
            .collect();
        assert!(latency.is_sorted(), "{latency:?}");
        let mean = part["latency_us"]["mean"].as_f64().unwrap();
        assert!(mean <= latency[4] && (part["count"] == 0) == (mean == 0.0));
    }
    assert!(report["syncs"].is_u64() && report["bytes_synced"].is_u64());
    assert!(report["cpu_seconds"].as_f64().unwrap() > 0.0);
    for object in ["options", "machine"] {
        assert!(report[object].is_object(), "{object}: {report:#}");
    }
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
    assert_eq!(report["check"]["keys"], report["check"]["expected"]);
}

/// Checks the part about the raw device. Only some runs measure the device, because that takes
/// longer than the rest of these short runs.
fn check_limit(report: &Value, is_measured: bool) {
    let limit = &report["device_limit"];
    assert_eq!(limit.is_object(), is_measured, "{report:#}");
    if is_measured {
        assert!(limit["alone"]["latency_us"]["p50"].as_f64().unwrap() > 0.0);
        assert!(limit["many"]["writes_per_second"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn ycsb_blocking_and_with_callbacks() {
    let dir = tempfile::tempdir().unwrap();
    for (name, flags) in [
        ("blocking", "--in-flight 1 --inserter mutex --sync pipelined --method buffered"),
        ("callbacks", "--in-flight 50 --inserter marks --sync adaptive --lock-release after-durable"),
    ] {
        for letter in ['a', 'd', 'e', 'f'] {
            let file = in_repository(&format!("workloads/ycsb/workload{letter}"));
            let dir = dir.path().join(format!("{name}-{letter}"));
            let no_limit = if letter == 'a' { "" } else { " --no-limit" };
            let words = format!(
                "bench ycsb --workload {} -p maxscanlength=5 -p fieldlength=10 --records 300 --operations 600 \
                 --threads 3 {flags}{no_limit}",
                file.display()
            );
            let report = report(&dir, &words);
            check_schema(&report);
            check_limit(&report, letter == 'a');
            assert_eq!(report["transactions"], 600);
            let counted =
                report["reads"]["count"].as_u64().unwrap() + report["commits"]["count"].as_u64().unwrap();
            assert_eq!(counted, 600);
            assert!(report["check"]["keys"].as_u64().unwrap() >= 300);
            assert!(report["syncs"].as_u64().unwrap() > 0);
        }
    }
}

#[test]
fn both_engines_run_in_turn_each_in_its_own_folder() {
    let dir = tempfile::tempdir().unwrap();
    for (letter, in_flight) in [('a', 1), ('b', 50), ('c', 50), ('d', 50), ('e', 50), ('f', 50)] {
        let file = in_repository(&format!("workloads/ycsb/workload{letter}"));
        let (db, json) = (dir.path().join(letter.to_string()), dir.path().join(format!("{letter}.json")));
        let words = format!(
            "bench ycsb --workload {} -p maxscanlength=5 -p fieldlength=10 --records 300 --operations 600 --threads 3 \
             --in-flight {in_flight} --engine all --streams 2 --no-limit --json {}",
            file.display(),
            json.display()
        );
        run_in(&db, &words).expect(0);
        for engine in ["paged", "memory"] {
            let json = dir.path().join(format!("{letter}-{engine}.json"));
            let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
            check_schema(&report);
            check_limit(&report, false);
            assert_eq!(
                (&report["transactions"], &report["options"]["engine"]),
                (&600.into(), &engine.into())
            );
            if engine == "memory" {
                assert_eq!(report["options"]["streams"], 2, "{report:#}");
            }
            run_in(&db.join(engine), "verify").expect(0);
        }
    }
}

#[test]
fn the_table_names_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let out =
        run_in(&dir.path().join("db"), "bench ycsb --records 100 --operations 200 --threads 2").expect(0);
    for word in [
        "loaded 100 records",
        "200 transactions",
        "reads",
        "durable commits",
        "p99.9",
        "commits a sync",
        "raw 4 KiB",
    ] {
        assert!(out.contains(word), "no {word:?}:\n{out}");
    }
    for line in ["machine", "options", "data", "cpu", "log", "check"] {
        assert!(out.lines().any(|at| at.starts_with(line)), "no {line}:\n{out}");
    }
    assert!(out.contains("durability=durable") && out.contains("distribution=zipfian(0.99)"), "{out}");
}

/// The command names the ignored property on standard error.
#[test]
fn a_closed_standard_error_ends_no_measurement() {
    let dir = tempfile::tempdir().unwrap();
    let words = "bench ycsb --records 100 --operations 50 --threads 1 --no-limit -p label=1";
    run_unheard(&dir.path().join("db"), words).expect(0);
}

#[test]
fn a_loaded_folder_is_used_again_and_another_load_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let words = "bench ycsb --records 100 --operations 50 --threads 1 -p insertproportion=0.5 --no-limit";
    assert_eq!(report(&db, words)["load"]["records"], 100);
    let again = report(&db, words);
    assert!(again["load"].is_null());
    assert_eq!(again["check"]["keys"], again["check"]["expected"]);
    run_in(&db, "bench ycsb --records 200 --operations 50 --no-limit").expect_error(1, "--fresh");
    run_in(&db, "bench ycsb --records 200 --operations 50 --no-limit --fresh").expect(0);
}

#[test]
fn inserts_never_repeat() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let first = report(&db, "bench insert --operations 500 --threads 3 --key-bytes 20 --value-bytes 100");
    check_schema(&first);
    check_limit(&first, true);
    assert_eq!((&first["commits"]["count"], &first["reads"]["count"]), (&500.into(), &0.into()));
    let words =
        "bench insert --operations 500 --threads 3 --in-flight 20 --key-bytes 9 --order hashed --no-limit";
    let second = report(&db, words);
    assert_eq!(second["check"], serde_json::json!({ "keys": 1000, "expected": 1000 }));
}

#[test]
fn a_load_alone_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let loaded = report(&db, "bench ycsb --records 200 -p dotransactions=false -p dataintegrity=true");
    check_schema(&loaded);
    assert_eq!((&loaded["transactions"], &loaded["load"]["records"]), (&200.into(), &200.into()));
    // With `dataintegrity` keys determine their values, and the reading threads check them.
    let checked = report(
        &db,
        "bench ycsb --records 200 -p dataintegrity=true --operations 300 --target 20000 --no-limit",
    );
    assert_eq!(checked["options"]["latency_from"], "intended start");
}

#[test]
fn a_signal_ends_a_run_with_its_report() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let words = "bench ycsb --records 100 -p insertproportion=0.5 --seconds 3600 --threads 2 --no-limit";
    let mut child = command(words.split(' ')).arg("--dir").arg(&db).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("run:") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended by itself");
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
    assert!(
        rest.contains("stopped by a signal") && out.contains("as many as were acknowledged"),
        "{rest}{out}"
    );
    // The database was closed cleanly, and another run can use it.
    run_in(&db, "bench ycsb --records 100 -p insertproportion=0.5 --operations 100 --no-limit").expect(0);
}

#[test]
fn a_log_in_memory_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (name, existed) in [("new", false), ("empty", true)] {
        let db = dir.path().join(name);
        if existed {
            fs::create_dir(&db).unwrap();
        }
        let report = report(&db, "bench insert --operations 300 --in-flight 10 --device memory");
        assert_eq!(report["options"]["device"], "memory");
        assert_eq!(report["check"]["keys"], 300);
        assert_eq!(db.exists(), existed);
        assert!(!existed || fs::read_dir(&db).unwrap().next().is_none());
    }
}

#[test]
fn a_latency_log_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let hlog = dir.path().join("out.hlog");
    let words = format!("bench ycsb --records 50 --operations 100 --no-limit --hdr {}", hlog.display());
    run_in(&dir.path().join("db"), &words).expect(0);
    let text = fs::read_to_string(hlog).unwrap();
    assert!(text.starts_with("#[Histogram log format version 1.3]"), "{text}");
    assert!(text.contains("Tag=READ,") && text.contains("Tag=COMMIT,"), "{text}");
}

#[test]
fn weaker_durability_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = run_in(dir.path(), "bench insert --operations 100 --durability buffered --no-limit").expect(0);
    assert!(out.contains("commits, weak") && !out.contains("durable commits"), "{out}");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("diary.txt"), "dear diary").unwrap();
    for words in ["bench ycsb", "bench insert", "bench insert --device memory"] {
        run_in(dir.path(), words).expect_error(1, "not empty");
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["diary.txt"], "{words}");
    }
}

#[test]
fn wrong_workloads_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("workload");
    let db = dir.path().join("db");
    let refused = |text: &str, why: &str| {
        fs::write(&file, text).unwrap();
        run_in(&db, &format!("bench ycsb --workload {}", file.display())).expect_error(2, why);
        assert!(!db.exists());
    };
    refused("recordcount=10\nreadpropotion=1\n", "line 2: unknown property \"readpropotion\"");
    refused("recordcount=ten\n", "line 1: recordcount=ten: must be a whole number");
    refused("requestdistribution=normal\n", "requestdistribution=normal: must be one of uniform, zipfian");
    run_in(&db, "bench ycsb -p nonsense=1").expect_error(2, "unknown property \"nonsense\"");
    run_in(&db, "bench ycsb -p nonsense").expect_error(2, "expected NAME=VALUE");
    run_in(&db, "bench ycsb --workload /nowhere").expect_error(2, "cannot read /nowhere");
    run_in(&db, "bench ycsb --inserter magic").expect(2);
    run_in(&db, "bench ycsb --seconds 1 --operations 5").expect(2);
    run_in(&db, "bench insert --key-bytes 7").expect(2);
    run_in(&db, "bench insert --cache lots").expect(2);
    assert!(!db.exists());
}

#[test]
fn a_disk_is_measured_and_left_clean() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("disk");
    fs::create_dir(&place).unwrap();
    let path = place.to_str().unwrap();
    let out =
        run(["bench-disk", "--dir", path, "--seconds", "0.02", "--file-bytes", "1MiB", "--json"]).expect(0);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(report["methods"][0]["per_second"].as_f64().unwrap() > 0.0);
    assert!(["buffered", "direct", "io-uring"].contains(&report["device"]["method"].as_str().unwrap()));
    assert!(report["device"]["depth"].as_u64().unwrap() >= 1);
    assert!(report["states"].as_array().unwrap().len() >= 3);
    assert_eq!(report["syncs"].as_array().unwrap().len(), 5);
    assert_eq!(report["in_flight"].as_array().unwrap().len(), 4);
    assert_eq!(report["sequential"].as_array().unwrap().len(), 4);
    assert!(!report["advice"].as_array().unwrap().is_empty());
    let out = run(["bench-disk", "--dir", path, "--quick", "--file-bytes", "1MiB"]).expect(0);
    assert!(out.contains("buffered + fdatasync") && out.contains("use --method"), "{out}");
    run(["bench-disk", "--dir", path, "--quick", "--seconds", "2"]).expect(2);
    assert!(fs::read_dir(&place).unwrap().next().is_none());
}
