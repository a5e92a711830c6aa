//! `bench tpcb`, `tpcc`, `tatp` and `sysbench`: their reports, the checks after a run, and the
//! flags that they refuse.

use crate::program::run_in;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Small configurations of the workloads, each with its kinds of transactions.
const SMALL: [(&str, &str, &[&str]); 7] = [
    ("tpcb", "tpcb --branches 3 --accounts 50", &["transfer"]),
    (
        "tpcc",
        "tpcc --warehouses 2 --items 150 --customers 20",
        &["new_order", "payment", "order_status", "delivery", "stock_level"],
    ),
    ("pair", "tpcc --warehouses 2 --items 150 --customers 20 --mix pair", &["new_order", "payment"]),
    (
        "tatp",
        "tatp --subscribers 120",
        &[
            "get_subscriber_data",
            "get_new_destination",
            "get_access_data",
            "update_subscriber_data",
            "update_location",
            "insert_call_forwarding",
            "delete_call_forwarding",
        ],
    ),
    ("location", "tatp --subscribers 120 --mix update-location", &["update_location"]),
    ("sysbench", "sysbench --tables 2 --table-size 300", &["oltp_read_write"]),
    ("index", "sysbench --table-size 300 --mix update-index --skew 0.5", &["oltp_update_index"]),
];

/// Number of transactions of a run. One transaction in fifty is of the rarest kind. The number of
/// such transactions depends on the scheduler, so a run without one must be improbable: 2 in 10^9.
const OPERATIONS: u64 = 1_000;

fn report(dir: &Path, words: &str) -> Value {
    let json = dir.with_extension("json");
    run_in(dir, &format!("bench {words} --no-limit --json {}", json.display())).expect(0);
    serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap()
}

/// Returns the number that the check has counted after the run. This number must equal the expected
/// one.
fn checked(report: &Value) -> u64 {
    let check = report["check"].as_object().unwrap();
    let (_, found) = check.iter().find(|(name, _)| *name != "expected").unwrap();
    assert_eq!((check.len(), found), (2, &check["expected"]), "{report:#}");
    found.as_u64().unwrap()
}

fn sum(report: &Value, of: &str) -> u64 {
    let kinds = report["kinds"].as_object().unwrap();
    kinds.values().map(|kind| kind[of].as_u64().unwrap()).sum()
}

#[test]
fn each_runs_on_both_engines_is_checked_and_used_again() {
    let dir = tempfile::tempdir().unwrap();
    for (name, words, kinds) in SMALL {
        for (engine, flags) in [
            ("paged", "--threads 3 --lock-release after-durable"),
            ("memory", "--threads 2 --in-flight 20 --streams 2"),
        ] {
            let words = format!("{words} --engine {engine} {flags} --operations {OPERATIONS}");
            let db = dir.path().join(format!("{name}-{engine}"));
            let first = report(&db, &words);
            assert_eq!(sum(&first, "transactions"), first["transactions"].as_u64().unwrap(), "{first:#}");
            assert_eq!(sum(&first, "rolled_back"), first["rolled_back"].as_u64().unwrap(), "{first:#}");
            assert_eq!(sum(&first, "transactions") + sum(&first, "rolled_back"), OPERATIONS, "{first:#}");
            for kind in kinds {
                let of = &first["kinds"][kind];
                let all = of["transactions"].as_u64().unwrap() + of["rolled_back"].as_u64().unwrap();
                assert!(all > 0, "no {kind}: {first:#}");
            }
            assert!(first["load"]["batches"].as_u64().unwrap() > 0);
            assert_eq!((&first["options"]["engine"], &first["options"]["seed"]), (&engine.into(), &1.into()));
            let before = checked(&first);

            // A run with another seed uses the records that the first run has loaded.
            let again = report(&db, &format!("{words} --seed 7"));
            assert!(again["load"].is_null(), "{again:#}");
            let after = checked(&again);
            match words.split(' ').next().unwrap() {
                "tpcb" => assert_eq!((before, after), (OPERATIONS, 2 * OPERATIONS)),
                "tpcc" => assert_eq!(after - before, again["kinds"]["new_order"]["transactions"]),
                "tatp" => assert!(before > 0),
                _ => assert_eq!(before, after),
            }
            run_in(&db, "verify").expect(0);
        }
    }
}

#[test]
fn the_table_names_kinds_and_what_was_checked() {
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str, words: &str| {
        run_in(&dir.path().join(name), &format!("bench {words} --operations 300 --threads 2 --no-limit"))
            .expect(0)
    };
    let company = out("tpcc", SMALL[1].1);
    for text in
        ["new order ", "stock level ", "tpmC", "orders, as many as were acknowledged; conditions 1 to 4 hold"]
    {
        assert!(company.contains(text), "no {text:?}:\n{company}");
    }
    let register = out("tatp", SMALL[3].1);
    for text in ["get access data ", "MQTh", "rolled back", "all rows belong to each other"] {
        assert!(register.contains(text), "no {text:?}:\n{register}");
    }
    let unchecked = out("tpcb", &format!("{} --no-check", SMALL[0].1));
    assert!(!unchecked.lines().any(|line| line.starts_with("check")), "{unchecked}");
    let checked = out("tpcb", SMALL[0].1);
    assert!(
        checked.contains("600 transfers, as many as were acknowledged; all sums are the same"),
        "{checked}"
    );
}

#[test]
fn all_may_share_a_folder_and_each_size_wants_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let run = |words: &str| run_in(&db, &format!("bench {words} --operations 50 --threads 2 --no-limit"));
    for (_, words, _) in [SMALL[0], SMALL[1], SMALL[3], SMALL[5]] {
        run(words).expect(0);
    }
    for (words, text) in [
        (
            "tpcb --branches 4 --accounts 50",
            "\"tpcb\" was loaded for other records (branches 3, accounts 50 each)",
        ),
        (
            "tpcc --warehouses 1 --items 150 --customers 20",
            "(warehouses 2, items 150, customers 20 a district)",
        ),
        ("tatp --subscribers 121", "use --fresh to load it anew, or another --dir"),
        ("sysbench --table-size 300", "(tables 2, rows 300 each)"),
    ] {
        run(words).expect_error(1, text);
    }
    // A load with fewer tables than before removes the others.
    run("sysbench --table-size 300 --fresh").expect(0);
    let tables = run_in(&db, "tables").expect(0);
    assert!(tables.contains("sbtest1_by_k") && !tables.contains("sbtest2"), "{tables}");
    for (_, words, _) in &SMALL[..5] {
        run(words).expect(0);
    }
    run_in(&db, "put orders a b").expect(0);
    run("tpcc --warehouses 2 --items 150 --customers 20")
        .expect_error(1, "inconsistent: a of orders is no row");
    run("tpcc --warehouses 2 --items 150 --customers 20").expect_error(1, "did not finish; use --fresh");
}

#[test]
fn tables_of_others_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    run_in(&db, "put stock apples 12").expect(0);
    run_in(&db, "bench tpcc --threads 1 --operations 5 --no-limit")
        .expect_error(1, "table \"stock\" was not made by this bench");
    assert_eq!(run_in(&db, "get stock apples").expect(0), "apples\t12\n");
}

#[test]
fn what_was_lost_is_found() {
    let dir = tempfile::tempdir().unwrap();
    // Each case removes enough rows that the run, or the check after it, misses one. The command
    // line of `delete` can hold these keys as they are, because none has a space.
    for (table, many, words, text) in [
        ("tellers", 30, SMALL[0].1, "is missing or cut"),
        ("call_forwarding", 1, "tatp --subscribers 30 --mix update-location", "call forwardings, but"),
    ] {
        let db = dir.path().join(table);
        let words = format!("bench {words} --operations 100 --threads 1 --no-limit");
        run_in(&db, &words).expect(0);
        let rows = run_in(&db, &format!("scan {table}")).expect(0);
        for row in rows.lines().take(many) {
            let key = row.split('\t').next().unwrap();
            run_in(&db, &format!("delete {table} {key}")).expect(0);
        }
        run_in(&db, &words).expect_error(1, text);
    }
}

#[test]
fn wrong_flags_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    for words in [
        "tpcb --branches 0",
        "tpcb --skew minus",
        "tpcc --warehouses 0",
        "tpcc --mix read-write",
        "tpcc --customers 0",
        "tatp --subscribers 0",
        "tatp --mix pair",
        "sysbench --tables 0",
        "sysbench --table-size none",
        "sysbench --mix standard",
        "tatp --seconds 1 --operations 5",
        "tpcc --branches 3",
    ] {
        run_in(&db, &format!("bench {words}")).expect_error(2, "For more information");
        assert!(!db.exists(), "{words}");
    }
}
