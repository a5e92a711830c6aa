//! `manycore run`: figures that do not change, its files, and what it refuses.

mod program;

use program::run;
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
    assert!(csv.lines().all(|line| line.split(',').count() == 16), "{csv}");
    assert!(svg.starts_with("<svg") && svg.contains(">marks</text>") && !svg.contains("NaN"), "{svg}");
    // Every result comes with how far the model is off where the truth is known.
    assert!(out.contains("off by a factor of"), "{out}");
}

#[test]
fn sweeps_vary_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("out.csv");
    for (sweep, column, values) in [
        ("--record 48,1024,12288", 3, ["48", "1024", "12288"]),
        ("--record 48 --outlier 64,4096,262144", 4, ["64", "4096", "262144"]),
        ("--slots 1,4,10", 5, ["1", "4", "10"]),
    ] {
        let words = "--machine eleda --inserter consolidated --threads 8 --millis 0.3";
        manycore(&format!("{words} {sweep} --csv {}", csv.display())).expect(0);
        let text = fs::read_to_string(&csv).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.iter().map(|row| row[column]).collect::<Vec<_>>(), values, "{text}");
        assert!(rows[0][10] != rows[2][10], "{text}");
    }
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    manycore("--machine eledda").expect_error(2, "aether, eleda, modern, host");
    manycore("--machine eleda --inserter marx").expect_error(2, "marks, or all");
    manycore("--machine nowhere.toml").expect_error(2, "cannot read nowhere.toml");
    manycore("--machine eleda --record 40").expect_error(2, "from 48");
    manycore("--machine eleda --threads 0").expect_error(2, "from 1 to 1024");
    manycore("--machine eleda --threads 1 --millis 0").expect_error(2, "millis");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("half.toml");
    fs::write(&file, "sockets = 1\n").unwrap();
    manycore(&format!("--machine {}", file.display())).expect_error(2, "missing field");
}
