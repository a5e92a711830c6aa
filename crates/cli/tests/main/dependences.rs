//! `lab dependences`: its rows, its chart, and the flags that it refuses.

use crate::program::run;
use crate::rows::{number, read};
use std::fs;

#[test]
fn what_a_distributed_log_would_keep_in_order_is_counted_for_each_workload_and_assignment() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, rounds, svg) =
        (dir.path().join("out.csv"), dir.path().join("rounds.csv"), dir.path().join("charts"));
    let words = format!(
        "lab dependences --threads 1,2 --seconds 0.03 --rounds 2 --warehouses 2 --branches 3 --csv {} --rounds-csv {} --svg {}",
        csv.display(),
        rounds.display(),
        svg.display()
    );
    let out = run(words.split(' ')).expect(0);
    assert!(out.contains("dealt_by") && out.contains("tpcb"), "{out}");
    let found = read(&csv);
    assert_eq!(found.len(), 2 * 2 * 2);
    assert_eq!(read(&rounds).len(), 2 * found.len());
    for row in &found {
        let of = |name: &str| number(row, name);
        assert!(of("commits") > 0.0 && of("records") >= of("commits") && of("log_bytes") > 0.0, "{row:?}");
        let shares = ["tight", "crossing", "spanning"].map(of);
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{row:?}");
        assert!(shares[0] <= shares[1], "a tight dependence is one: {row:?}");
    }
    // Three branches lie on one page, which each transfer changes.
    let tpcb = found.iter().find(|row| row["workload"] == "tpcb" && row["dealt_by"] == "transaction");
    assert!(number(tpcb.unwrap(), "spanning") > 0.9, "{tpcb:?}");
    let chart = fs::read_to_string(svg.join("dependences.svg")).unwrap();
    assert!(chart.contains("<polyline") && !chart.contains("NaN"), "{chart}");
}

#[test]
fn logs_and_workloads_that_make_no_sense_are_refused() {
    run(["lab", "dependences", "--logs", "1"]).expect_error(2, "must be from 2 to 64");
    run(["lab", "dependences", "--workload", "ycsb"]).expect_error(2, "must be tpcc or tpcb");
}
