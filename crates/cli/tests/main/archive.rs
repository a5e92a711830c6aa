//! `archive`, and `restore --to`.

use crate::program::{command, contents, run, run_in};
use katydid::{Database, EngineKind, Options};
use katydid_observe::Socket;
use std::path::Path;
use std::process::Stdio;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn json(out: &str) -> serde_json::Value {
    serde_json::from_str(out).expect("JSON")
}

fn archive(db: &Path, to: &Path) -> u64 {
    let out = run_in(db, &format!("archive {} --json", text(to))).expect(0);
    json(&out)["stamp"].as_u64().expect("a stamp")
}

#[test]
fn a_closed_database_is_archived_and_restored_to_each_point() {
    ["paged", "memory"].into_iter().for_each(each_point);
}

fn each_point(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (db, monday, kept) = (path("db"), path("monday"), path("kept"));
    run_in(&db, &format!("put fruit apple red --engine {engine}")).expect(0);
    archive(&db, &kept);
    run_in(&db, &format!("backup {}", text(&monday))).expect(0);
    let mut points = Vec::new();
    for (number, fruit) in ["pear", "plum", "quince"].iter().enumerate() {
        run_in(&db, &format!("put fruit {fruit} new")).expect(0);
        points.push((archive(&db, &kept), number + 2));
    }
    let before = (contents(&monday), contents(&kept));
    let restore = |nth: usize, point: &str| {
        let to = path(&format!("restored-{nth}-{}", point.replace(':', "-")));
        let done =
            run(["restore", text(&monday), text(&to), "--archive", text(&kept), "--to", point, "--verify"]);
        (done, to)
    };
    for (nth, (stamp, fruits)) in points.iter().enumerate() {
        let (done, to) = restore(nth, &stamp.to_string());
        let out = done.expect(0);
        assert!(
            out.contains("the database has every commit up to stamp ") && out.contains("sound: "),
            "{out}"
        );
        assert_eq!(run_in(&to, "count fruit").expect(0).trim(), fruits.to_string());
    }
    let (done, to) = restore(9, "end");
    done.expect(0);
    assert_eq!(run_in(&to, "count fruit").expect(0).trim(), "4");
    restore(9, "1").0.expect_error(1, "an older backup is needed");
    restore(9, "9223372036854775807").0.expect_error(1, "the archive ends at stamp");
    restore(9, "2001-02-03T04:05:06Z").0.expect_error(1, "is not known");
    restore(9, "yesterday").0.expect_error(2, "expected `end`, the stamp of a commit, or a time");
    assert!((contents(&monday), contents(&kept)) == before, "a source was changed");

    // A run without new commits succeeds; a run for another database fails.
    let out = run_in(&db, &format!("archive {}", text(&kept))).expect(0);
    assert!(out.starts_with("archived "), "{out}");
    run_in(&path("other"), "put fruit apple red").expect(0);
    run_in(&path("other"), &format!("archive {}", text(&kept))).expect_error(1, "has the log of database");
}

/// `archive --follow` reads through the socket of the process that has the database open, until a
/// signal comes.
#[test]
fn a_running_database_is_followed() {
    [EngineKind::Paged, EngineKind::Memory].into_iter().for_each(followed);
}

fn followed(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (db, monday, kept, restored) = (path("db"), path("monday"), path("kept"), path("restored"));
    let options = Options { engine: engine.into(), ..Options::default() };
    let database = Database::open_with(&db, options).unwrap();
    let fruit = database.table("fruit").unwrap();
    run_in(&db, &format!("archive {}", text(&kept))).expect_error(1, "has opened no socket");
    let socket = Socket::open(&database, &db).unwrap();
    archive(&db, &kept);
    database.backup(&monday).unwrap();
    let mut follows = command(["archive", text(&kept), "--follow", "--every", "20ms", "--dir", text(&db)]);
    let child = follows.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for number in 0..300u32 {
        database.put(&fruit, number.to_be_bytes(), [7; 2_000]).unwrap();
    }
    let end: u64 = database.stat().unwrap().log.streams.iter().map(|stream| stream.durable.get()).sum();
    // The archiver's mark shows how much the archive has. With several streams it is the sum of the
    // positions.
    let is_archived = || {
        let stat = database.stat().unwrap();
        stat.log.consumers.iter().any(|consumer| consumer.name == "archive-archive" && consumer.mark >= end)
    };
    while !is_archived() {
        std::thread::yield_now();
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let ended = crate::program::collected(child.wait_with_output().unwrap());
    assert!(ended.expect(0).starts_with("archived "));
    drop(socket);
    drop(fruit);
    database.close().unwrap();
    run(["restore", text(&monday), text(&restored), "--archive", text(&kept), "--to", "end"]).expect(0);
    assert_eq!(run_in(&restored, "count fruit").expect(0).trim(), "300");
}
