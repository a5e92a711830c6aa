//! `dump` and `restore-dump`.

use crate::program::{run, run_in, run_with_input, seeded};
use katydid::{Database, EngineKind, Options};
use std::collections::BTreeMap;
use std::path::Path;

type Rows = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn options(engine: EngineKind) -> Options {
    let mut options = Options { engine: engine.into(), ..Options::default() };
    options.advanced.log.medium =
        katydid::FileOptions { segment_bytes: 1 << 20, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 1 << 20;
    options
}

/// Makes a database with rows of arbitrary bytes.
fn filled(dir: &Path, engine: EngineKind) -> Rows {
    let mut rng = seeded(7);
    let mut bytes = |most: usize| -> Vec<u8> {
        let length = rng.usize(..most);
        let any = rng.bool();
        (0..length).map(|_| if any { rng.u8(..) } else { rng.u8(..0x7f) }).collect()
    };
    let database = Database::open_with(dir, options(engine)).unwrap();
    let mut rows = Rows::new();
    for name in ["fruit", "naïve \"name\"\n"] {
        let table = database.table(name).unwrap();
        for _ in 0..300 {
            let (key, value) = (bytes(20), bytes(300));
            database.put(&table, &key, &value).unwrap();
            rows.insert((name.to_owned(), key), value);
        }
    }
    // The dump must also have an empty table, and a long value as one row.
    database.table("empty").unwrap();
    let long = database.table("long").unwrap();
    database.put(&long, "zeros", vec![0; 3 << 20]).unwrap();
    rows.insert(("long".to_owned(), b"zeros".to_vec()), vec![0; 3 << 20]);
    database.close().unwrap();
    rows
}

fn found(dir: &Path, engine: EngineKind) -> (Vec<String>, Rows) {
    let database = Database::open_with(dir, Options { create: false, ..options(engine) }).unwrap();
    let mut names = database.tables().unwrap();
    names.sort();
    let mut rows = Rows::new();
    for name in &names {
        let table = database.open_table(name).unwrap().unwrap();
        let txn = database.begin().unwrap();
        for row in txn.range(&table, ..) {
            let (key, value) = row.unwrap();
            rows.insert((name.clone(), key), value);
        }
    }
    database.close().unwrap();
    (names, rows)
}

/// Dumps a database of one engine, and restores it with the other.
fn every_byte_comes_back(from: EngineKind, to: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let (db, new) = (folder.path().join("db"), folder.path().join("new"));
    let rows = filled(&db, from);
    let dump = run_in(&db, "dump").expect(0);
    assert!(dump.starts_with("{\"katydid_dump\":1}\n"), "{}", &dump[..40]);
    let words = format!("restore-dump --engine {to} --segment 4MiB");
    let printed = run_with_input(&new, &words, dump.as_bytes()).expect(0);
    assert_eq!(printed, format!("{} rows in 4 tables\n", rows.len()));
    let (names, restored) = found(&new, to);
    assert_eq!(names, ["empty", "fruit", "long", "naïve \"name\"\n"]);
    assert!(restored == rows, "the rows are others");
    assert_eq!(run_in(&new, "dump").expect(0), dump);
    run_with_input(&new, &words, dump.as_bytes()).expect_error(1, "is not empty");
}

#[test]
fn a_paged_database_comes_back_as_one_in_memory() {
    every_byte_comes_back(EngineKind::Paged, EngineKind::Memory);
}

#[test]
fn a_database_in_memory_comes_back_as_a_paged_one() {
    every_byte_comes_back(EngineKind::Memory, EngineKind::Paged);
}

/// A dump with any part removed or changed makes no database.
#[test]
fn a_dump_that_is_cut_off_or_changed_makes_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let (db, new) = (folder.path().join("db"), folder.path().join("new"));
    for (key, value) in [("apple", "red"), ("pear", "green"), ("plum", "blue")] {
        run_in(&db, &format!("put fruit {key} {value}")).expect(0);
    }
    run_in(&db, "put roots beet red").expect(0);
    let dump = run_in(&db, "dump").expect(0);
    let lines: Vec<&str> = dump.lines().collect();
    let mut bad: Vec<(String, &str)> = (0..lines.len())
        .map(|kept| (lines[..kept].iter().map(|line| format!("{line}\n")).collect(), "cut off"))
        .collect();
    bad.push((dump[..dump.len() - 20].to_owned(), "not a JSON object"));
    bad.push((dump.replace("green", "grown"), "its checksum"));
    bad.push((dump.replace("{\"key\":\"plum\",\"value\":\"blue\"}\n", ""), "4 rows"));
    bad.push((format!("{dump}{}\n", lines[2]), "after the last line"));
    bad.push((lines[1..].join("\n"), "and no other line"));
    for (text, why) in &bad {
        let done = run_with_input(&new, "restore-dump --segment 4MiB", text.as_bytes());
        assert!(!new.exists(), "a database was made of:\n{text}");
        done.expect_error(1, why);
        std::fs::remove_dir_all(folder.path().join("new.restoring")).unwrap();
    }
    // A row that cannot be written is named, and not the last row of its transaction.
    let twice = [&lines[..3], &[lines[2]], &lines[3..]].concat().join("\n");
    run_with_input(&new, "restore-dump --segment 4MiB", twice.as_bytes()).expect_error(1, "line 4: ");
    std::fs::remove_dir_all(folder.path().join("new.restoring")).unwrap();
    let file = folder.path().join("fruit.jsonl");
    std::fs::write(&file, run_in(&db, "dump --table fruit").expect(0)).unwrap();
    run_in(&new, &format!("restore-dump {} --segment 4MiB", file.display())).expect(0);
    assert_eq!(run_in(&new, "tables").expect(0), "fruit\n");
    run(["dump", "--table", "nofruit", "--dir", db.to_str().unwrap()]).expect_error(1, "nofruit");
}
