//! `demo crash` without a terminal: its counts, and that no commit is lost.

use crate::program::{run, run_in};
use serde_json::Value;

#[test]
fn a_scripted_demo_loses_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let words = "demo crash --clients 300 --seconds 1.2 --json --script kill,power,kill,power --dir";
    let out = run(words.split(' ').chain([db.to_str().unwrap()])).expect(0);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&Value> = lines.iter().map(|event| &event["event"]).collect();
    assert_eq!(events, ["killed", "power cut", "killed", "power cut"]);
    for event in &lines {
        assert_eq!(event["acknowledged"], event["found"], "{event}");
        assert_eq!(event["lost"], 0, "{event}");
    }
    let count = |event: &Value, what: &str| event[what].as_u64().unwrap();
    let killed: u64 = lines
        .iter()
        .step_by(2)
        .map(|event| count(event, "acknowledged") + count(event, "found_beyond"))
        .sum();
    assert!(killed > 0 && count(&lines[1], "acknowledged") > 0, "{out}");
    // The database in the folder has at least the commits that the events report; clients may have
    // committed more after the last event.
    let scanned = run_in(&db, "scan clients --json").expect(0);
    let number = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let hex = match (&row["value_hex"], &row["value"]) {
            (Value::String(hex), _) => hex.clone(),
            (_, Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            other => panic!("{other:?}"),
        };
        u64::from_str_radix(&hex, 16).unwrap()
    };
    let there: u64 = scanned.lines().map(number).sum();
    assert!(there >= killed, "{there}: {out}");
}

#[test]
fn a_demo_for_people_has_one_line_for_each_event() {
    let out = run("demo crash --clients 50 --seconds 0.2 --script power".split(' ')).expect(0);
    let numbers: Vec<&str> = out.split("acknowledged ").nth(1).unwrap().trim_end().split(", ").collect();
    assert!(out.starts_with("power cut  acknowledged "), "{out}");
    assert_eq!(numbers[1].trim_start_matches("found "), numbers[0], "{out}");
    assert_eq!(*numbers.last().unwrap(), "lost 0", "{out}");
    run(["demo", "crash"]).expect_error(2, "--script kill,power");
    run("demo crash --script burn".split(' ')).expect(2);
    run("demo crash --script kill --dir /tmp".split(' ')).expect_error(1, "exists already");
}
