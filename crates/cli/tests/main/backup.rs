//! `backup` and `restore`.

use crate::program::{contents, run, run_in};
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn copied_and_restored(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (db, copy, back) = (path("db"), path("copy"), path("back"));
    run_in(&db, &format!("put fruit apple red --engine {engine}")).expect(0);
    run_in(&db, "put fruit pear green").expect(0);
    let before = contents(&db);
    let out = run_in(&db, &format!("backup {} --verify", text(&copy))).expect(0);
    assert!(out.starts_with("copied ") && out.contains("sound: "), "{out}");
    assert!(contents(&db) == before, "the database was changed");
    run_in(&db, &format!("backup {}", text(&copy))).expect_error(1, "a copy needs an empty directory");

    let out = run(["restore", text(&copy), text(&back), "--json", "--verify"]).expect(0);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert!(report["bytes"].as_u64() > Some(0) && report["verified"]["sound"] == true, "{out}");
    assert_eq!(run_in(&back, "scan fruit").expect(0), "apple\tred\npear\tgreen\n");
    // Reading from a backup leaves it a backup; writing makes it a database.
    run_in(&copy, "get fruit apple").expect(0);
    run(["restore", text(&copy), text(&path("again"))]).expect(0);
    run_in(&copy, "put fruit plum blue").expect(0);
    run(["restore", text(&copy), text(&path("late"))]).expect_error(1, "was opened after it was made");
    run(["restore", text(&db), text(&path("other"))]).expect_error(1, "was made by no backup");
    run(["restore", text(&path("nothing")), text(&path("other"))]).expect_error(1, "there is no database");
}

#[test]
fn a_paged_database_is_copied_and_restored() {
    copied_and_restored("paged");
}

#[test]
fn a_database_in_memory_is_copied_and_restored() {
    copied_and_restored("memory");
}

/// An interrupted backup says so, and leaves a folder that is not accepted as a database.
#[test]
fn an_interrupted_backup_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let (db, copy) = (folder.path().join("db"), folder.path().join("copy"));
    run_in(&db, "put fruit apple red").expect(0);
    let mut slow = crate::program::command(["backup", "--rate", "1", text(&copy), "--dir", text(&db)]);
    let mut child = slow.spawn().unwrap();
    // Once the file exists, the copy has begun. At this rate its next piece takes a day, so the
    // signal interrupts the copy.
    while !copy.join("katydid.pages").is_file() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let ended = crate::program::collected(child.wait_with_output().unwrap());
    ended.expect_error(1, "cancelled");
    run_in(&copy, "get fruit apple").expect_error(1, "incomplete");
    run_in(&copy, "verify").expect_error(1, "incomplete");
    run(["restore", text(&copy), text(&folder.path().join("back"))]).expect_error(1, "incomplete");
}

#[test]
fn incremental_backups_are_restored_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (db, monday, tuesday, wednesday) = (path("db"), path("monday"), path("tuesday"), path("wednesday"));
    run_in(&db, "put fruit apple red").expect(0);
    run_in(&db, &format!("backup {}", text(&monday))).expect(0);
    run_in(&db, "put fruit pear green").expect(0);
    run_in(&db, &format!("backup {} --incremental {}", text(&tuesday), text(&monday))).expect(0);
    run_in(&db, "put fruit plum blue").expect(0);
    run_in(&db, &format!("backup {} --incremental {}", text(&wednesday), text(&tuesday))).expect(0);
    let all = [text(&monday), text(&tuesday), text(&wednesday)];
    for last in 1..=3 {
        let back = path(&format!("back-{last}"));
        let mut words = vec!["restore"];
        words.extend(&all[..last]);
        words.extend([text(&back), "--verify"]);
        run(words).expect(0);
        assert_eq!(run_in(&back, "count fruit").expect(0), format!("{last}\n"));
    }
    run(["restore", all[0], all[2], text(&path("no"))])
        .expect_error(1, "the increment there is one to backup");
    run(["restore", all[1], text(&path("no"))]).expect_error(1, "increment");
    run_in(&tuesday, "get fruit apple").expect_error(1, "increment");
}

#[test]
fn compacting_shrinks_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    let lines: String = (0..3_000).map(|key| format!("{key:06}\t{}\n", "x".repeat(800))).collect();
    crate::program::run_with_input(&db, "load big -", lines.as_bytes()).expect(0);
    run_in(&db, "put fruit apple red").expect(0);
    run_in(&db, "drop-table big").expect(0);
    let length = || std::fs::metadata(db.join("katydid.pages")).unwrap().len();
    let before = length();
    let out = run_in(&db, "compact --verify --json").expect(0);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (report["bytes_before"].as_u64(), report["bytes_after"].as_u64()),
        (Some(before), Some(length()))
    );
    assert!(length() * 4 < before && report["verified"]["sound"] == true, "{out}");
    assert_eq!(run_in(&db, "scan fruit").expect(0), "apple\tred\n");
    run_in(&db, "put fruit pear green").expect(0);
    run_in(&folder.path().join("none"), "compact").expect_error(1, "there is no database");
}
