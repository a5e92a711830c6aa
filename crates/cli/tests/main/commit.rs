//! `bench log-commit` and `bench commit`: rows, charts, the check of TPC-B, and the flags that they
//! refuse. No test checks a speed.

use crate::program::{Done, command, run, run_in};
use crate::rows::{Row, number, read};
use katydid_wal::SyncKind;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

const SYNCS: usize = SyncKind::ALL.len();

/// Runs a bench on a small log, for a short time.
fn bench(dir: &Path, words: &str) -> Done {
    let (csv, svg) = (dir.join("out.csv"), dir.join("charts"));
    let words =
        format!("bench {words} --segment 1MiB --spare 1 --csv {} --svg {}", csv.display(), svg.display());
    run_in(&dir.join("logs"), &words)
}

/// Runs figures on a small store.
fn figure(dir: &Path, words: &str) -> Done {
    bench(dir, &format!("commit --branches 3 --accounts 10 --keys 50 --seconds 0.01 {words}"))
}

/// Checks the properties of every row, and that a run leaves only the files that it was asked for.
fn check(dir: &Path, charts: &[&str]) -> Vec<Row> {
    let found = read(&dir.join("out.csv"));
    for row in &found {
        let rate = number(row, "commits_per_second");
        assert!(rate > 0.0 && number(row, "commits") > 0.0 && number(row, "times") > 0.0, "{row:?}");
        // The rates in the file are rounded, so allow a difference of 1.
        assert!(
            number(row, "slowest_round") <= rate + 1.0 && rate <= number(row, "fastest_round") + 1.0,
            "{row:?}"
        );
        let times = ["p50_us", "p99_us", "p999_us", "max_us"].map(|name| number(row, name));
        assert!(times[0] > 0.0 && times.is_sorted(), "{row:?}");
        assert!(
            number(row, "raw_write_us") > 0.0 && number(row, "raw_megabytes_per_second") > 0.0,
            "{row:?}"
        );
        let writes = row["work"] != "readers" || row["writers"] != "0";
        // Megabytes have three decimal places, so a few small records per second round to zero. The
        // transactions of a short run of `update-search` may all be searches.
        let megabytes = number(row, "megabytes_per_second");
        let may_be_searches = row["work"] == "update-search";
        assert!(!writes || may_be_searches || megabytes > 0.0 || rate * 48.0 < 1_000.0, "{row:?}");
        assert!(!row["machine"].is_empty());
        for name in ["cpu_us_per_commit", "voluntary_per_commit", "involuntary_per_commit", "cores_busy"] {
            assert!(number(row, name) >= 0.0, "{row:?}");
        }
        if row["sync"] == SyncKind::default().to_string() {
            assert_eq!(row["to_adaptive"], "1.000");
        }
        // The run itself fails if a transfer is missing or was made twice.
        let transfers = if row["work"] == "tpcb" { number(row, "checked") } else { 0.0 };
        assert!(
            row["work"] != "tpcb" || row["rounds"] != "1" || transfers == number(row, "commits"),
            "{row:?}"
        );
    }
    for chart in charts {
        let svg = fs::read_to_string(dir.join("charts").join(format!("{chart}.svg"))).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"),
            "{chart}: {svg}"
        );
        let mark = if chart.ends_with("breakdown") { "<rect x=" } else { "<polyline" };
        assert!(svg.contains(mark), "{chart} has no {mark}");
    }
    assert_eq!(fs::read_dir(dir.join("charts")).unwrap().count(), charts.len());
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["charts", "out.csv"]);
    found
}

#[test]
fn the_log_alone_has_a_row_for_every_combination() {
    for (device, inserters) in [("file", &["marks"][..]), ("memory", &["marks", "mutex"])] {
        let dir = tempfile::tempdir().unwrap();
        let words = format!(
            "log-commit --threads 1,3 --callbacks 2x8 --payload 0,5000 --delay 0,50us --inserter {} --seconds 0.003 --rounds 2 --device {device}",
            inserters.join(",")
        );
        let out = bench(dir.path(), &words).expect(0);
        for word in
            ["machine", "options    ring=", "device=", "durability", "2 rounds of 0.003 s", "delay 50us: raw"]
        {
            assert!(out.contains(word), "no {word:?}:\n{out}");
        }
        let found = check(dir.path(), &["log-commit-rate", "log-commit-p99"]);
        assert_eq!(found.len(), SYNCS * 3 * 2 * 2 * inserters.len());
        for row in &found {
            assert_eq!(
                (row["figure"].as_str(), row["work"].as_str(), row["device"].as_str()),
                ("log-commit", "log", device)
            );
            // A commit is acknowledged after the device's delay.
            assert!(number(row, "p50_us") >= number(row, "delay_us"), "{row:?}");
            let (timed, commits) = (number(row, "times"), number(row, "commits"));
            match row["in_flight"].as_str() {
                "1" => assert!(timed >= commits, "of two rounds all are timed: {row:?}"),
                many => assert_eq!(many, "8"),
            }
            // Each durable record was synced, with its header of 48 bytes.
            let bytes = number(row, "commits_per_sync") * (48.0 + number(row, "payload"));
            assert!(number(row, "bytes_per_sync") >= bytes * 0.9, "{row:?}");
        }
    }
}

#[test]
fn what_the_command_line_gives_reaches_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let words =
        "log-commit --threads none --callbacks 1x4 --sync pipelined --method buffered --ring 128KiB --quick";
    let out = bench(dir.path(), words).expect(0);
    assert!(out.contains("options    ring=131072 segment=1048576 spare=1 depth=1 group=0,0,0"), "{out}");
    let found = check(dir.path(), &["log-commit-rate", "log-commit-p99"]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        ["sync", "method", "threads", "in_flight", "millis"].map(|name| found[0][name].as_str()),
        ["pipelined", "buffered", "1", "4", "50"]
    );
}

#[test]
fn early_release_is_compared_with_the_other_and_everything_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--figure aether3 --threads 4 --skew 0,1 --delay 0,1ms --rounds 1";
    let out = figure(dir.path(), words).expect(0);
    for word in
        ["aether3: what early lock release gains", "the paper saw:", "check: after every run all balances"]
    {
        assert!(out.contains(word), "no {word:?}:\n{out}");
    }
    let found = check(dir.path(), &["aether3-rate", "aether3-speed-up"]);
    assert_eq!(found.len(), 2 * 2 * 2);
    for row in &found {
        match row["lock_release"].as_str() {
            "early" => assert!(number(row, "speed_up") > 0.0),
            _ => assert_eq!(row["speed_up"], ""),
        }
    }
}

#[test]
fn every_other_figure_has_its_rows_and_charts() {
    for (name, flags, rows, charts) in [
        ("aether2", "--threads 1,3 --in-flight 5", Some(2 * 5), &["breakdown", "log-wait"][..]),
        ("aether4", "--threads 1,3 --in-flight 5", None, &["cpu", "rate", "switches"]),
        ("aether5", "--threads 2 --in-flight 5", None, &["p99", "rate"]),
        ("aether9", "--threads 2 --in-flight 5", Some(5), &["rate"]),
        ("flushing5", "--threads 2,3", Some(2 * 2 * SYNCS), &["p99", "rate"]),
        ("flushing6", "--threads 3", Some(SYNCS), &["p99", "rate"]),
        ("flushing-table1", "--threads 3 --sync all", Some(SYNCS), &["p99", "rate"]),
        ("eleda8", "--threads 1,2 --in-flight 5", Some(2 * 5), &["breakdown", "latency", "log-wait", "rate"]),
        ("eleda10", "--threads 2 --in-flight 5", Some(5), &["latency", "rate"]),
        ("eleda12", "--threads 2 --in-flight 5 --warehouses 2 --items 10 --customers 3", Some(5), &["rate"]),
        ("eleda13", "--threads 2 --in-flight 5", Some(2 * 5), &["rate"]),
        ("eleda14", "--payload 100,5000 --in-flight 5", Some(2 * 4), &["bandwidth", "rate"]),
        ("eleda18", "--payload 100 --sync adaptive,pipelined", None, &["latency"]),
        ("eleda19", "--threads 2 --in-flight 5", Some(2 * 4), &["rate"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let out = figure(dir.path(), &format!("--figure {name} {flags} --rounds 1")).expect(0);
        assert!(out.contains(&format!("{name}: ")) && out.contains("the paper saw:"), "{out}");
        let charts: Vec<String> = charts.iter().map(|chart| format!("{name}-{chart}")).collect();
        let found = check(dir.path(), &charts.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(rows.is_none_or(|rows| rows == found.len()) && !found.is_empty(), "{name}: {found:#?}");
        assert!(found.iter().all(|row| row["figure"] == name));
        let method = if name.starts_with("flushing") { "buffered" } else { "direct" };
        assert!(found.iter().all(|row| row["method"] == method));
        let has = |column: &str, word: &str| found.iter().any(|row| row[column] == word);
        match name {
            "aether2" => {
                for row in &found {
                    let shares = ["user_share", "system_share", "idle_share", "log_wait_share"];
                    assert!(shares.iter().all(|share| (0.0..=1.1).contains(&number(row, share))), "{row:?}");
                    // The shares are rounded to thousandths of all processors.
                    let used = number(row, "cores_busy");
                    assert!(used < 0.1 || number(row, "user_share") + number(row, "system_share") > 0.0);
                }
                assert!(found.iter().any(|row| number(row, "log_wait_share") > 0.0), "{found:?}");
            }
            "aether4" => assert!(has("in_flight", "1") && has("in_flight", "5")),
            "aether5" => {
                assert!(["written", "buffered", "durable"].iter().all(|word| has("durability", word)))
            }
            "aether9" => assert!(has("lock_release", "after-durable") && has("system", "+ log buffer")),
            "eleda8" | "eleda10" | "eleda12" | "eleda13" => {
                assert!(has("system", "vanilla") && has("system", "ELEDA") && has("system", "ours"));
                // Only the system "vanilla in memory" has its log in memory.
                let memory = |row: &Row| row["device"] == "memory";
                assert!(found.iter().all(|row| memory(row) == (row["system"] == "vanilla in memory")));
                assert!(name != "eleda12" || found.iter().all(|row| row["checked"] == row["commits"]));
                // There are rows of the memory engine and of the paged one.
                assert!(name != "eleda13" || (has("streams", "1") && has("streams", "")));
            }
            "flushing5" => assert!(has("work", "insert") && has("work", "update-search")),
            "eleda14" => {
                assert!(has("system", "ELEDA") && has("io_unit", "524288") && has("inserter", "grasshopper"))
            }
            _ => {}
        }
    }
}

#[test]
fn the_memory_engine_is_measured_as_its_paper_did() {
    let dir = tempfile::tempdir().unwrap();
    let words = "cicada --figure all --threads 1,3 --tuples 2000 --seconds 0.05 --rounds 1 --in-flight 5";
    let out = bench(dir.path(), words).expect(0);
    for word in ["device=memory", "engine=memory tuples=2000", "Figure 3", "Figure 6", "the paper saw:"] {
        assert!(out.contains(word), "no {word:?}:\n{out}");
    }
    let names = ["cicada-readers", "cicada3", "cicada4", "cicada5", "cicada6"];
    let charts: Vec<String> =
        names.iter().flat_map(|name| [format!("{name}-p99"), format!("{name}-rate")]).collect();
    let found = check(dir.path(), &charts.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &found {
        let (durability, threads) = (row["durability"].as_str(), row["threads"].as_str());
        assert!(["1", "3"].contains(&threads) && number(row, "streams") >= 1.0, "{row:?}");
        assert_eq!(row["device"], "memory");
        match row["figure"].as_str() {
            "cicada-readers" => {
                assert!(number(row, "to_alone") > 0.0 && row["conflicts"] == "0", "{row:?}");
                continue;
            }
            "cicada3" | "cicada6" => assert!(number(row, "to_logging_off") > 0.0),
            figure => {
                assert_eq!(row["reads_percent"], if figure == "cicada5" { "80" } else { "0" });
                assert_eq!(durability, "durable");
            }
        }
        if row["figure"] != "cicada6" && durability == "durable" {
            assert!(number(row, "to_serial") > 0.0, "{row:?}");
        }
    }
    // Each protocol has a row with the gain of early lock release, for each number of clients and
    // each way to wait.
    let compared = found.iter().filter(|row| row["figure"] == "cicada4" && !row["speed_up"].is_empty());
    assert!(compared.count() >= 3 * 2 * 2);
}

#[test]
fn several_figures_go_into_one_file_in_their_own_order() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--figure flushing-table1,aether5 --threads 2 --rounds 2";
    figure(dir.path(), words).expect(0);
    let found = read(&dir.path().join("out.csv"));
    let mut names: Vec<_> = found.iter().map(|row| row["figure"].as_str()).collect();
    names.dedup();
    assert_eq!(names, ["aether5", "flushing-table1"]);
}

#[test]
fn wrong_words_are_named() {
    let refused = |words: &str, why: &str| {
        run(format!("bench {words}").split(' ')).expect_error(2, why);
    };
    refused("commit --figure aether6", "no figure \"aether6\"; there are aether2, aether3");
    refused("cicada --figure 7", "no figure \"7\"; there are 3, 4, 5, 6, readers, or all");
    refused("commit --figure aether3,aether6", "no figure \"aether6\"");
    refused(
        "commit --figure aether3 --sync sometimes",
        "no sync protocol \"sometimes\"; there are adaptive, pipelined",
    );
    refused("log-commit --sync sometimes", "no sync protocol \"sometimes\"; there are adaptive, pipelined");
    refused(
        "commit --figure aether4 --skew 1",
        "--skew does not go with figure \"aether4\", which takes --threads",
    );
    refused("commit --figure aether3 --payload 1", "--payload does not go with figure \"aether3\"");
    refused("commit --figure all --delay 1ms", "--delay does not go with figure \"aether2\"");
    refused("log-commit --threads none --callbacks none", "--threads and --callbacks are both none");
    refused("log-commit --threads 1,0", "--threads 0: must be from 1 to 1024");
    refused("log-commit --callbacks 2", "--callbacks 2: expected THREADSxIN_FLIGHT");
    refused("log-commit --quick --rounds 2", "cannot be used with");
    for (flag, value, why) in [
        ("--delay", "15", "a time such as"),
        ("--delay", "2s", "at most 1s"),
        ("--payload", "2MiB", "from 0 to 1 MiB"),
        ("--io-unit", "5000", "a multiple of 4096"),
        ("--inserter", "marx", "is not one of mutex"),
        ("--ring", "100000", "a power of two"),
        ("--segment", "5000", "a multiple of 4096"),
        ("--spare", "0", "from 1 to 1024"),
        ("--depth", "65", "from 1 to 64"),
        ("--group", "1,2", "COMMITS,BYTES,US"),
        ("--rounds", "0", "from 1 to 1000"),
        ("--seconds", "0", "seconds"),
        ("--svg", "one.svg", "must name a folder"),
    ] {
        for bench in ["log-commit", "commit"] {
            // Flag and value are one word, because a value may begin with a dash.
            let done = run(["bench", bench, &format!("{flag}={value}")]);
            assert!(done.err.contains(flag), "{flag}: {}", done.err);
            done.expect_error(2, why);
        }
    }
    for (flag, value, why) in
        [("--skew", "-1", "from 0 to 10"), ("--in-flight", "1", "from 2"), ("--branches", "0", "0 is not in")]
    {
        run(["bench", "commit", &format!("{flag}={value}")]).expect_error(2, why);
    }
}

#[test]
fn a_folder_with_something_in_it_is_left_alone() {
    for bench in ["bench log-commit --quick", "bench commit --quick", "bench cicada --quick"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("diary.txt"), "dear diary").unwrap();
        run_in(dir.path(), bench).expect_error(1, "not empty");
        assert_eq!(fs::read_to_string(dir.path().join("diary.txt")).unwrap(), "dear diary");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_signal_leaves_neither_a_log_nor_half_a_file() {
    for words in [
        "bench log-commit --segment 1MiB --threads 1 --callbacks none --seconds 0.01 --rounds 1000",
        "bench commit --segment 1MiB --branches 2 --accounts 5 --delay 0 --threads 2 --seconds 0.01 --rounds 1000",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (logs, csv) = (dir.path().join("logs"), dir.path().join("out.csv"));
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
}

#[test]
fn striped_logs_are_distinguished_and_their_folders_restored() {
    let dir = tempfile::tempdir().unwrap();
    let stripes = ["one", "two"].map(|name| dir.path().join("logs").join(name).display().to_string());
    let words =
        format!("--figure eleda8 --threads 2 --rounds 1 --in-flight 5 --stripe {}", stripes.join(","));
    let out = figure(dir.path(), &words).expect(0);
    assert!(out.contains("device=stripes"), "{out}");
    let charts = ["breakdown", "latency", "log-wait", "rate"].map(|name| format!("eleda8-{name}"));
    let charts = charts.each_ref().map(String::as_str);
    let found = check(dir.path(), &charts);
    for row in &found {
        let device = if row["system"] == "vanilla in memory" { "memory" } else { "stripes" };
        assert_eq!(row["device"], device, "{row:?}");
        let ring = if row["system"] == "ELEDA" { "33554432" } else { "" };
        assert_eq!(row["ring"], ring, "{row:?}");
    }
    let words =
        format!("--figure eleda8 --threads 2 --rounds 1 --ring 1MiB --in-flight 5 --stripe {}", stripes[0]);
    figure(dir.path(), &words).expect(0);
    assert!(check(dir.path(), &charts).iter().any(|row| row["ring"] == "1048576"));
    let own = tempfile::tempdir().unwrap();
    fs::write(own.path().join("diary.txt"), "dear diary").unwrap();
    let words = format!("--figure eleda8 --stripe {},{}", stripes[0], own.path().display());
    figure(dir.path(), &words).expect_error(1, "each folder of --stripe must be new or empty");
    assert_eq!(fs::read_to_string(own.path().join("diary.txt")).unwrap(), "dear diary");
}
