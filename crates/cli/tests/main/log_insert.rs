//! `bench log-insert`: every sweep's rows and charts, and the flags that it refuses. No test checks
//! a speed.

use crate::program::{Done, command, run, run_in};
use crate::rows::{number, read};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Runs sweeps of three designs for a short time.
fn sweep(dir: &Path, words: &str) -> Done {
    let (csv, svg) = (dir.join("out.csv"), dir.join("charts"));
    let words = format!(
        "bench log-insert --inserter hybrid,grasshopper,marks --seconds 0.001 {words} --csv {} --svg {}",
        csv.display(),
        svg.display()
    );
    run_in(&dir.join("logs"), &words)
}

#[test]
fn every_sweep_has_its_rows_and_its_chart_and_leaves_nothing_else() {
    for (name, flags, rows, vary) in [
        ("threads", "--work 0", 3 * 7, "threads"),
        ("size", "--threads 2", 3 * 8, "record"),
        ("size-cached", "--threads 2", 3 * 8, "record"),
        ("outlier", "--threads 2", 3 * 8, "outlier"),
        ("slots", "--threads 2", 10, "slots"),
        ("work", "--threads 1,2", 3 * 4 * 2, "work_ns"),
        ("crawl", "--threads 1,2", 2 * 3 * 2, "hop_bytes"),
        ("bitmap", "--threads 1,2", 2 * 3, "record"),
        ("stall", "--threads 2,3", 3 * 2, "threads"),
        ("limits", "--record 120", 2 + 1 + 3 * 2, "threads"),
        ("txn", "--threads 1,2 --record 128,4096 --in-flight 8", 3 * 2 * 2 * 2, "device"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let out = sweep(dir.path(), &format!("--sweep {name} --rounds 2 {flags}")).expect(0);
        for word in ["machine", "options    seconds=0.001 rounds=2", "durability", &format!("sweep {name}:")]
        {
            assert!(out.contains(word), "{name}: no {word:?}:\n{out}");
        }
        let found = read(&dir.path().join("out.csv"));
        assert_eq!(found.len(), rows, "{name}: {found:#?}");
        for row in &found {
            assert_eq!((row["sweep"].as_str(), row["rounds"].as_str()), (name, "2"));
            assert!(!row["machine"].is_empty());
            let rate = number(row, "records_per_second");
            assert!(
                rate > 0.0 && number(row, "records") > 0.0 && number(row, "megabytes_per_second") > 0.0,
                "{row:?}"
            );
            assert!((number(row, "slowest_round")..=number(row, "fastest_round")).contains(&rate), "{row:?}");
            assert!(number(row, "least") <= number(row, "most"), "{row:?}");
        }
        assert!(found.iter().any(|row| row[vary] != found[0][vary]), "{name}: {vary} does not vary");
        let svg = fs::read_to_string(dir.path().join("charts").join(format!("{name}.svg"))).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"),
            "{name}: {svg}"
        );
        // The run leaves neither a partial file nor a log.
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["charts", "out.csv"], "{name}");
        let charts = if name == "txn" { 2 } else { 1 };
        assert_eq!(fs::read_dir(dir.path().join("charts")).unwrap().count(), charts, "{name}");
    }
}

#[test]
fn what_a_sweep_measures_besides_is_in_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), "--sweep crawl,stall,limits,txn --rounds 1 --threads 1,2 --record 128 --in-flight 4")
        .expect(0);
    let all = read(&dir.path().join("out.csv"));
    let of = |sweep: &str| all.iter().filter(|row| row["sweep"] == sweep).collect::<Vec<_>>();
    assert!(of("crawl").iter().all(|row| row["inserter"] == "grasshopper"));
    for row in of("stall") {
        assert!(
            number(row, "look_us") > 0.0 && !row["times"].is_empty() && row["durability"] == "none",
            "{row:?}"
        );
    }
    let limits = of("limits");
    let names: Vec<_> = limits.iter().map(|row| row["inserter"].as_str()).collect();
    assert_eq!(names[..3], ["private-rings", "private-rings", "bare-word"]);
    for row in limits {
        assert!(number(row, "to_private_rings") > 0.0 && number(row, "to_bare_word") > 0.0, "{row:?}");
        let itself = match row["inserter"].as_str() {
            "private-rings" => "to_private_rings",
            "bare-word" => "to_bare_word",
            "grasshopper" => "to_grasshopper",
            // The mutex design was not run, so no row has a ratio to it.
            _ => {
                assert_eq!(row["to_mutex"], "");
                continue;
            }
        };
        assert_eq!(row[itself], "1.000");
    }
    for row in of("txn") {
        // The latency of each transaction was measured.
        assert_eq!(row["times"], row["records"], "{row:?}");
        assert!(number(row, "p50_us") > 0.0 && number(row, "p50_us") <= number(row, "p99_us"), "{row:?}");
        assert!(number(row, "p999_us") <= number(row, "max_us"), "{row:?}");
        assert_eq!((row["durability"].as_str(), row["in_flight"].as_str()), ("durable", "4"));
    }
}

#[test]
fn what_the_command_line_gives_replaces_the_sweeps_own() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), "--threads 2 --record 200 --outlier 5000 --slots 2,3 --hop-bytes 64KiB --chunk-bytes 512 --ring 128KiB --work 50")
        .expect(0);
    let rows = read(&dir.path().join("out.csv"));
    assert_eq!(rows.len(), 3 * 2);
    for row in &rows {
        let given = ["threads", "record", "outlier", "hop_bytes", "chunk_bytes", "ring", "work_ns"];
        let values = given.map(|name| row[name].as_str());
        assert_eq!(values, ["2", "200", "5000", "65536", "512", "131072", "50"]);
    }
    assert_eq!(rows.iter().filter(|row| row["slots"] == "3").count(), 3);
}

#[test]
fn wrong_words_are_named() {
    let refused = |words: &str, why: &str| {
        run(format!("bench log-insert {words}").split(' ')).expect_error(2, why);
    };
    refused("--sweep sise", "no sweep \"sise\"; there are threads, size, size-cached");
    refused("--sweep threads,sise", "no sweep \"sise\"");
    refused("--inserter marx", "no inserter \"marx\"; there are mutex");
    refused("--sweep slots --inserter marks", "is about consolidated, hybrid, delegated only");
    refused("--sweep threads,size --svg out.svg", "--svg must name a folder");
    refused("--sweep all --svg out.svg", "--svg must name a folder");
    refused("--sweep limits --outlier 100", "--outlier does not go with sweep \"limits\"");
    refused("--sweep limits --record 100000", "--record does not go with sweep \"limits\"");
    refused("--sweep txn --work 100", "--work does not go with sweep \"txn\"");
    for (flag, value, why) in [
        ("--slots", "0", "from 1 to 64"),
        ("--slots", "four", "whole number"),
        ("--hop-bytes", "5000", "a power of two"),
        ("--chunk-bytes", "100", "from 256 to 65536"),
        ("--threads", "0", "from 1 to 1024"),
        ("--record", "47", "from 48"),
        ("--outlier", "1t", "from 48"),
        ("--ring", "100000", "a power of two"),
        ("--work", "-1", "from 0"),
        ("--rounds", "0", "from 1 to 1000"),
        ("--seconds", "0", "seconds"),
        ("--in-flight", "0", "0 is not in"),
    ] {
        // Flag and value are one word, because a value may begin with a dash.
        let done = run(["bench", "log-insert", &format!("{flag}={value}")]);
        assert!(done.err.contains(flag), "{flag}: {}", done.err);
        done.expect_error(2, why);
    }
    for bench in ["ycsb", "insert"] {
        for flag in ["--slots 65", "--hop-bytes 1000", "--chunk-bytes 1"] {
            let name = flag.split(' ').next().unwrap();
            run(format!("bench {bench} {flag}").split(' ')).expect_error(2, name);
        }
    }
}

#[test]
fn the_stores_benches_take_the_designs_settings() {
    let dir = tempfile::tempdir().unwrap();
    let words = "bench insert --operations 100 --no-limit --inserter consolidated --slots 7 --hop-bytes 64KiB --chunk-bytes 1024";
    let out = run_in(&dir.path().join("db"), words).expect(0);
    assert!(out.contains("slots=7 hop_bytes=65536 chunk_bytes=1024"), "{out}");
}

#[test]
fn a_folder_with_something_in_it_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("diary.txt"), "dear diary").unwrap();
    run_in(dir.path(), "bench log-insert --sweep txn --seconds 0.001").expect_error(1, "not empty");
    assert_eq!(fs::read_to_string(dir.path().join("diary.txt")).unwrap(), "dear diary");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_signal_leaves_neither_a_log_nor_half_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (logs, csv) = (dir.path().join("logs"), dir.path().join("out.csv"));
    let words = "bench log-insert --sweep txn --inserter marks --seconds 0.01 --rounds 1000";
    let mut command = command(words.split(' '));
    let mut child = command.arg("--dir").arg(&logs).arg("--csv").arg(&csv).spawn().unwrap();
    let mut line = String::new();
    // The program prints the line after it has made the folder.
    assert!(BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap() > 0);
    assert!(logs.is_dir());
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let out = child.wait_with_output().unwrap();
    let err = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(1) && err.contains("stopped by a signal"), "{err}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
