//! `lab replication` and `lab replicas`: rows of runs with server processes, and the flags that
//! they refuse.

use crate::program::run;
use std::collections::BTreeMap;

/// Returns the rows of a CSV file, by the names of its columns, without quotes.
fn rows(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    // The quoted name of the machine has commas.
    let fields = |line: &'_ str| -> Vec<(usize, usize)> {
        let (mut cut, mut from, mut quoted) = (Vec::new(), 0, false);
        for (at, byte) in line.bytes().enumerate() {
            match byte {
                b'"' => quoted = !quoted,
                b',' if !quoted => {
                    cut.push((from, at));
                    from = at + 1;
                }
                _ => {}
            }
        }
        cut.push((from, line.len()));
        cut
    };
    lines
        .map(|line| {
            names.iter().copied().zip(fields(line).into_iter().map(|(from, to)| &line[from..to])).collect()
        })
        .collect()
}

fn measure(words: &str) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let (work, csv) = (dir.path().join("work"), dir.path().join("rows.csv"));
    let flags = ["--dir", work.to_str().unwrap(), "--csv", csv.to_str().unwrap()];
    let out = run(["lab", "replication"].into_iter().chain(words.split(' ')).chain(flags)).expect(0);
    assert!(!work.exists(), "the folder is left as it was");
    (out, std::fs::read_to_string(csv).unwrap())
}

fn number(row: &BTreeMap<&str, &str>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

#[test]
fn inserts_are_the_same_at_all_servers_of_each_scheme() {
    let (out, csv) = measure(
        "--figure flushing7 --quick --threads 4 --replicas 1,3 --sync slotted,aggregated,raft-quorum,raft-all --network 0",
    );
    let rows = rows(&csv);
    let cases: Vec<(&str, &str)> = rows.iter().map(|row| (row["replicas"], row["sync"])).collect();
    let schemes = ["slotted", "aggregated", "raft-quorum", "raft-all"];
    let expected: Vec<_> =
        schemes[..3].iter().map(|sync| ("1", *sync)).chain(schemes.map(|sync| ("3", sync))).collect();
    assert_eq!(cases, expected, "{out}");
    for row in &rows {
        assert!(number(row, "commits") > 0.0, "{row:?}");
        assert_eq!(row["commits"], row["checked"], "{row:?}");
        match row["sync"].starts_with("raft") {
            true => assert_eq!((row["server_us"], row["syncs"]), ("", ""), "{row:?}"),
            false => {
                let times = ["sync_us_per_commit", "server_us", "slowest_server_us", "mean_us"];
                let times = times.map(|column| number(row, column));
                assert!(times.is_sorted() && times[0] > 0.0, "{row:?}");
                assert!(number(row, "syncs") > 0.0, "{row:?}");
            }
        }
    }
}

#[test]
fn transactions_of_sysbench_leave_rows_and_index_whole() {
    let (out, csv) = measure(
        "--figure flushing8 --quick --threads 3 --replicas 2 --sync aggregated --keys 150 --network 0",
    );
    let rows = rows(&csv);
    assert_eq!(rows.len(), 1, "{out}");
    // There are 150 rows, and an index entry for each.
    assert_eq!((rows[0]["work"], rows[0]["checked"]), ("sysbench-write", "300"), "{out}");
    assert!(number(&rows[0], "commits") > 0.0, "{out}");
}

#[test]
fn unknown_schemes_and_what_raft_does_not_run_are_refused() {
    run(["lab", "replication", "--sync", "raft"]).expect_error(2, "no scheme \"raft\"");
    run(["lab", "replication", "--figure", "flushing9"]).expect_error(2, "no figure");
    run(["lab", "replication", "--replicas", "0"]).expect_error(2, "from 1 to 9");
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["lab", "replication", "--figure", "flushing8", "--sync", "raft-all", "--replicas", "2", "--quick"];
    run(words.into_iter().chain(["--dir", dir.path().to_str().unwrap()]))
        .expect_error(2, "process of the leader");
    std::fs::write(dir.path().join("kept"), "").unwrap();
    run(["lab", "replication", "--dir", dir.path().to_str().unwrap()]).expect_error(1, "is not empty");
}

#[test]
fn a_group_of_three_is_measured_with_a_slow_replica_a_killed_leader_and_an_absent_follower() {
    let dir = tempfile::tempdir().unwrap();
    let (work, csv) = (dir.path().join("work"), dir.path().join("rows.csv"));
    let flags = ["--dir", work.to_str().unwrap(), "--csv", csv.to_str().unwrap()];
    let words = ["lab", "replicas", "--quick", "--clients", "2"];
    let out = run(words.into_iter().chain(flags)).expect(0);
    assert!(!work.exists(), "the folder is left as it was");
    let csv = std::fs::read_to_string(csv).unwrap();
    let rows = rows(&csv);
    let cases: Vec<_> = rows.iter().map(|row| (row["case"], row["durability"], row["clients"])).collect();
    let expected = [
        ("commits", "quorum", "2"),
        ("commits", "all", "2"),
        ("commits", "quorum", "32"),
        ("commits", "all", "32"),
        ("slow", "quorum", "32"),
        ("slow", "all", "32"),
        ("failover", "quorum", "32"),
        ("rejoin", "quorum", "32"),
    ];
    assert_eq!(cases, expected, "{out}");
    for row in &rows {
        match row["case"] {
            "failover" => assert!(number(row, "gaps_ms") > 0.0, "{row:?}"),
            "rejoin" => assert!(number(row, "rejoin_seconds") > 0.0, "{row:?}"),
            _ => assert!(number(row, "p99_us") >= number(row, "p50_us"), "{row:?}"),
        }
    }
    for target in ["p99 over p50 at 32 clients", "after the leader is killed", "while a replica rejoins"] {
        let has_verdict = |line: &str| line.ends_with(" met") || line.ends_with(" missed");
        assert!(out.lines().any(|line| line.contains(target) && has_verdict(line)), "{target}: {out}");
    }
    run(["lab", "replicas", "--part", "slower"]).expect_error(2, "no part");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("kept"), "").unwrap();
    run(["lab", "replicas", "--dir", work.to_str().unwrap()]).expect_error(1, "is not empty");
}
