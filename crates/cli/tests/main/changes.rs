//! `changes`: JSON Lines of committed transactions, positions, consumers.

use crate::program::{collected, command, run_in};
use serde_json::Value;
use std::io::{BufRead, BufReader};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn names_of(lines: &[Value]) -> Vec<&str> {
    let changes = lines.iter().flat_map(|line| line["changes"].as_array().expect("changes"));
    changes.filter_map(|change| change["key"].as_str()).collect()
}

fn consumer_gets_what_it_has_not_acknowledged(engine: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("db");
    run_in(&db, &format!("put fruit first red --engine {engine}")).expect(0);
    assert_eq!(run_in(&db, "changes --consumer outbox --from now").expect(0), "");
    run_in(&db, "put fruit apple \\xff").expect(0);
    run_in(&db, "delete fruit apple").expect(0);
    run_in(&db, "put vegetables leek green").expect(0);
    let some = lines(&run_in(&db, "changes --consumer outbox --limit 1 --old").expect(0));
    assert_eq!(names_of(&some), ["apple"]);
    assert_eq!(some[0]["changes"][0]["table"], "fruit");
    assert_eq!(some[0]["changes"][0]["value_hex"], "ff");
    let position = some[0]["position"].as_str().expect("a position").to_owned();
    // Reading without --consumer does not move the consumer.
    let seen = lines(&run_in(&db, &format!("changes --from {position}")).expect(0));
    let rest = lines(&run_in(&db, "changes --consumer outbox").expect(0));
    assert_eq!(seen, rest);
    assert_eq!(names_of(&rest), ["apple", "leek"]);
    assert_eq!(rest[0]["changes"][0]["deleted"], true);
    assert_eq!(rest[1]["changes"][0]["created"], "vegetables");
    assert_eq!(run_in(&db, "changes --consumer outbox").expect(0), "");
    run_in(&db, "changes --from nowhere").expect_error(2, "must be a stamp");
}

#[test]
fn a_consumer_of_a_paged_database_gets_what_it_has_not_acknowledged() {
    consumer_gets_what_it_has_not_acknowledged("paged");
}

#[test]
fn a_consumer_of_a_database_in_memory_gets_what_it_has_not_acknowledged() {
    consumer_gets_what_it_has_not_acknowledged("memory");
}

#[test]
fn following_ends_cleanly_at_a_signal_and_acknowledges_what_was_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("db");
    run_in(&db, "put fruit first red").expect(0);
    run_in(&db, "changes --consumer outbox --from now").expect(0);
    run_in(&db, "put fruit apple red").expect(0);
    let text = db.to_str().expect("text");
    let mut child =
        command(["changes", "--dir", text, "--consumer", "outbox", "--follow"]).spawn().expect("spawn");
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(names_of(&lines(&line)), ["apple"]);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .expect("it runs");
    collected(child.wait_with_output().expect("it ends")).expect(0);
}
