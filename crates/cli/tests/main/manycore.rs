//! `manycore run`: its reproducible figures, its files, and the flags that it refuses.

use crate::program::{self, run};
use crate::rows::{number, read};
use std::fs;

fn manycore(words: &str) -> program::Done {
    run(format!("manycore run {words}").split(' '))
}

#[test]
fn the_same_seed_prints_and_writes_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let go = |name: &str, seed: u32| {
        let (csv, svg) = (dir.path().join(format!("{name}.csv")), dir.path().join(format!("{name}.svg")));
        let words = format!(
            "--machine aether --inserter mutex,marks --threads 1,8 --millis 0.3 --seed {seed} --csv {} --svg {}",
            csv.display(),
            svg.display()
        );
        let done = manycore(&words);
        assert!(done.err.contains("million a second"), "{}", done.err);
        (done.expect(0), fs::read_to_string(csv).unwrap(), fs::read_to_string(svg).unwrap())
    };
    let first = go("first", 5);
    assert_eq!(go("second", 5), first);
    assert_ne!(go("third", 6), first);
    let (out, csv, svg) = first;
    assert_eq!(csv.lines().count(), 1 + 4);
    assert!(svg.starts_with("<svg") && svg.contains(">marks</text>") && !svg.contains("NaN"), "{svg}");
    // Where the true value is known, the output also has the error of the model.
    assert!(out.contains("off by a factor of"), "{out}");
}

#[test]
fn lists_vary_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("out.csv");
    for (list, column, values) in [
        ("--record 48,1024,12288", "record", ["48", "1024", "12288"]),
        ("--record 48 --outlier 64,4096,262144", "outlier", ["64", "4096", "262144"]),
        ("--slots 1,4,10", "slots", ["1", "4", "10"]),
        ("--work 0,200,3000", "work_ns", ["0", "200", "3000"]),
    ] {
        let words = "--machine eleda --inserter consolidated --threads 8 --millis 0.3";
        manycore(&format!("{words} {list} --csv {}", csv.display())).expect(0);
        let rows = read(&csv);
        assert_eq!(rows.iter().map(|row| row[column].as_str()).collect::<Vec<_>>(), values);
        assert_ne!(rows[0]["records"], rows[2]["records"]);
    }
}

#[test]
fn every_sweep_runs_and_repeats_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let go = |name: &str| {
        let (csv, svg) = (dir.path().join(format!("{name}.csv")), dir.path().join(name));
        let words = format!(
            "--machine modern --sweep all --inserter hybrid,grasshopper --threads 1,6 --millis 0.05 --rounds 2 \
             --ring 1MiB --seed 3 --csv {} --svg {}",
            csv.display(),
            svg.display()
        );
        let out = manycore(&words).expect(0);
        let chart = |sweep: &str| fs::read_to_string(svg.join(format!("{sweep}.svg"))).unwrap();
        (out, fs::read_to_string(csv).unwrap(), SWEEPS.map(|(sweep, _)| chart(sweep)))
    };
    const SWEEPS: [(&str, usize); 8] = [
        ("threads", 2 * 2),
        ("size", 2 * 2 * 8),
        ("size-cached", 2 * 2 * 8),
        ("outlier", 2 * 2 * 8),
        ("slots", 2 * 10),
        ("work", 2 * 2 * 4),
        ("crawl", 2 * 3 * 2),
        ("bitmap", 2 * 3),
    ];
    let first = go("first");
    assert!(go("second") == first, "the same options do not print and write the same bytes");
    assert!(first.0.contains("the sizes of caches are not modelled"), "{}", first.0);
    let rows = read(&dir.path().join("first.csv"));
    for (sweep, count) in SWEEPS {
        let of: Vec<_> = rows.iter().filter(|row| row["sweep"] == sweep).collect();
        assert_eq!(of.len(), count, "{sweep}");
        for row in of {
            assert!(number(row, "slowest_round") <= number(row, "records_per_second"), "{row:?}");
            assert!(number(row, "events") > 0.0 && row["seed"] == "3" && row["device"].is_empty(), "{row:?}");
        }
    }
    // The column has a value only if a thread has asked for the filled frontier.
    let crawled = rows.iter().filter(|row| row["sweep"] == "crawl" && !row["crawled"].is_empty());
    assert!(crawled.map(|row| number(row, "crawled")).any(|share| share > 0.0 && share <= 1.0));
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    manycore("--machine eledda").expect_error(2, "aether, eleda, modern, host");
    manycore("--machine eleda --inserter marx").expect_error(2, "marks, or all");
    manycore("--machine nowhere.toml").expect_error(2, "cannot read nowhere.toml");
    manycore("--machine eleda --record 40").expect_error(2, "from 48");
    manycore("--machine eleda --threads 0").expect_error(2, "from 1 to 1024");
    manycore("--machine eleda --threads 1 --millis 0").expect_error(2, "millis");
    manycore("--machine eleda --sweep sise").expect_error(2, "no sweep \"sise\"; there are threads, size");
    manycore("--machine eleda --sweep stall").expect_error(2, "katydid lab log-insert --sweep stall");
    manycore("--machine eleda --slots 65").expect_error(2, "--slots");
    manycore("--machine eleda --hop-bytes 5000").expect_error(2, "--hop-bytes");
    manycore("--machine eleda --chunk-bytes 5").expect_error(2, "--chunk-bytes");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("half.toml");
    fs::write(&file, "sockets = 1\n").unwrap();
    manycore(&format!("--machine {}", file.display())).expect_error(2, "missing field");
}

#[test]
fn transactions_give_a_table_and_files_that_repeat() {
    let dir = tempfile::tempdir().unwrap();
    let go = |name: &str| {
        let (csv, svg) = (dir.path().join(format!("{name}.csv")), dir.path().join(format!("{name}.svg")));
        let words = format!(
            "manycore txn --machine eleda --threads 1,4 --millis 0.2 --csv {} --svg {}",
            csv.display(),
            svg.display()
        );
        let out = run(words.split(' ')).expect(0);
        (out, fs::read_to_string(csv).unwrap(), fs::read_to_string(svg).unwrap())
    };
    let first = go("first");
    assert_eq!(go("second"), first);
    assert_eq!(first.1.lines().count(), 3);
    assert!(first.1.starts_with("threads,none,parallel,"), "{}", first.1);
    assert!(first.2.contains(">serial</text>") && !first.2.contains("NaN"));
    run("manycore txn --record 20KiB".split(' ')).expect_error(2, "must be at most 16384 bytes");
}

#[test]
fn reads_give_tables_and_files_that_repeat() {
    let dir = tempfile::tempdir().unwrap();
    let go = |name: &str, more: &str| {
        let (csv, svg) = (dir.path().join(format!("{name}.csv")), dir.path().join(format!("{name}.svg")));
        let words = format!(
            "lab manycore reads --rows 10000 --threads 1,4 --millis 0.2 --csv {} --svg {}{more}",
            csv.display(),
            svg.display()
        );
        let out = run(words.split(' ')).expect(0);
        (out, fs::read_to_string(csv).unwrap(), fs::read_to_string(svg).unwrap())
    };
    let first = go("first", "");
    assert_eq!(go("second", ""), first);
    assert!(first.0.contains("keys=uniform reads=1 rows=10000"), "{}", first.0);
    assert!(first.0.contains("\nto one thread\n"), "{}", first.0);
    assert_eq!(first.1.lines().count(), 3);
    assert!(first.1.starts_with("threads,paged-root,paged-locked,paged-registry,paged,"), "{}", first.1);
    assert!(first.2.contains(">memory-epochs</text>") && !first.2.contains("NaN"));
    let some = go("some", " --design memory,paged --keys zipfian --reads 10 --rounds 2");
    assert!(some.1.starts_with("threads,memory,paged\n"), "{}", some.1);
    assert!(some.0.contains("keys=zipfian reads=10"), "{}", some.0);
    // Without one thread there is nothing to divide by.
    let out = run("lab manycore reads --design paged --threads 2 --millis 0.1".split(' ')).expect(0);
    assert!(!out.contains("to one thread"), "{out}");
}

#[test]
fn reads_that_cannot_be_simulated_are_refused() {
    let refused = |words: &str, why: &str| {
        run(format!("lab manycore reads {words}").split(' ')).expect_error(2, why);
    };
    refused("--design pages", "no design \"pages\"; there are paged-root, paged-locked, paged-registry,");
    refused("--keys latest", "uniform, zipfian");
    refused("--threads 0", "from 1 to 1024");
    refused("--rows 0", "rows is 0; it must be from 1 to 10000000");
    refused("--rows-per-leaf 1", "from 10 to 1000");
    refused("--reads 0", "reads is 0");
    refused("--value 70000", "from 0 to 65536 bytes");
    refused("--paged-work 2e9", "from 0 to 1e9 nanoseconds");
    refused("--millis 0", "millis");
}
