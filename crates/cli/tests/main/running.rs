//! Following and copying a database that another process has open. Both processes end cleanly, in
//! either order.

use crate::program::{Done, collected, command, run_in};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A process of `load`, which has the database open and commits each line of its input.
struct Owner {
    child: Child,
    input: Option<ChildStdin>,
    acks: Lines<BufReader<ChildStdout>>,
}

impl Owner {
    fn begin(db: &Path) -> Owner {
        let mut load = command(["load", "t", "-", "--batch", "1", "--acks", "--segment", "4MiB"]);
        let mut child = load.arg("--dir").arg(db).stdin(Stdio::piped()).spawn().unwrap();
        let (input, out) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut owner = Owner { child, input, acks: BufReader::new(out).lines() };
        owner.put("first", "0");
        owner
    }

    /// Sends a line, and waits until it is durable.
    fn put(&mut self, key: &str, value: &str) {
        writeln!(self.input.as_mut().unwrap(), "{key}\t{value}").unwrap();
        self.acks.next().unwrap().unwrap();
    }

    /// Ends the input, after which the process closes the database and ends.
    fn close(mut self) {
        drop(self.input.take());
        drop(self.acks);
        assert!(self.child.wait().unwrap().success());
    }
}

struct Follower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn begin(db: &Path, words: &str) -> Follower {
        let mut child =
            command(["changes", "--follow"]).args(words.split(' ')).arg("--dir").arg(db).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Follower { child, lines }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().expect("a line").unwrap()).unwrap()
    }

    /// Returns the keys of the next transactions, up to `key`.
    fn keys_until(&mut self, key: &str) -> Vec<String> {
        let mut keys = Vec::new();
        while keys.last().is_none_or(|last| last != key) {
            keys.extend(keys_of(&self.next()));
        }
        keys
    }

    fn ended(self) -> Done {
        drop(self.lines);
        collected(self.child.wait_with_output().unwrap())
    }
}

/// Returns the keys that a transaction has changed.
fn keys_of(transaction: &Value) -> Vec<String> {
    let changes = transaction["changes"].as_array().unwrap();
    changes.iter().filter_map(|change| change["key"].as_str()).map(str::to_owned).collect()
}

#[test]
fn a_running_database_is_followed_until_its_owner_closes_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::begin(folder.path());
    let mut follower = Follower::begin(folder.path(), "--from oldest");
    assert_eq!(follower.keys_until("first"), ["first"]);
    for number in 0..50 {
        owner.put(&format!("k{number}"), "v");
    }
    assert_eq!(follower.keys_until("k49"), (0..50).map(|number| format!("k{number}")).collect::<Vec<_>>());
    // Other commands can read at the same time.
    assert_eq!(run_in(folder.path(), "count t").expect(0), "51\n");
    let seen = run_in(folder.path(), "changes --from oldest --limit 2").expect(0);
    assert_eq!(seen.lines().count(), 2);
    owner.close();
    follower.ended().expect(0);
}

#[test]
fn a_follower_of_an_owner_that_dies_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::begin(folder.path());
    let mut follower = Follower::begin(folder.path(), "--from oldest");
    follower.keys_until("first");
    owner.child.kill().unwrap();
    owner.child.wait().unwrap();
    follower.ended().expect_error(1, "has ended the connection");
}

#[test]
fn a_follower_that_dies_holds_its_owner_up_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::begin(folder.path());
    let mut all = vec!["first".to_owned()];
    let mut printed = 0;
    // Run more followers, one after the other, than the socket has connections. So the connection
    // of a follower that died must become free.
    for number in 0..12 {
        let mut follower = Follower::begin(folder.path(), "--consumer outbox");
        all.push(format!("k{number}"));
        owner.put(&all[number + 1], "v");
        let keys = follower.keys_until(&all[number + 1]);
        // The keys begin at the first one that no follower has acknowledged. All keys before it
        // were printed.
        assert!(all.ends_with(&keys) && all.len() - keys.len() <= printed, "{keys:?} after {printed}");
        printed = all.len();
        follower.child.kill().unwrap();
        follower.child.wait().unwrap();
    }
    all.push("last".to_owned());
    owner.put("last", "v");
    owner.close();
    let rest = run_in(folder.path(), "changes --consumer outbox").expect(0);
    let rest: Vec<String> =
        rest.lines().flat_map(|line| keys_of(&serde_json::from_str(line).unwrap())).collect();
    assert!(!rest.is_empty() && all.ends_with(&rest), "{rest:?}");
}

#[test]
fn a_signal_ends_a_follower_of_a_running_database_and_it_has_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::begin(folder.path());
    let mut follower = Follower::begin(folder.path(), "--consumer outbox --limit 3");
    owner.put("second", "2");
    assert_eq!(follower.keys_until("second"), ["first", "second"]);
    // The creation of the table counts as a transaction, so the limit of 3 is reached. The follower
    // acknowledges all three transactions and ends.
    follower.ended().expect(0);
    let mut follower = Follower::begin(folder.path(), "--consumer outbox");
    owner.put("third", "3");
    assert_eq!(follower.keys_until("third"), ["third"]);
    kill_process(Pid::from_child(&follower.child), Signal::INT).unwrap();
    follower.ended().expect(0);
    owner.close();
}

#[test]
fn a_running_database_is_backed_up_by_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut owner = Owner::begin(&path("db"));
    for number in 0..50 {
        owner.put(&format!("k{number}"), "v");
    }
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let made = run_in(&path("db"), &format!("backup {} --verify --json", text("monday"))).expect(0);
    let made: Value = serde_json::from_str(&made).unwrap();
    assert!(
        made["bytes"].as_u64().unwrap() > 0 && made["verified"]["faults"] == Value::Array(vec![]),
        "{made}"
    );
    owner.put("later", "v");
    run_in(&path("db"), &format!("backup {} --incremental {}", text("tuesday"), text("monday"))).expect(0);
    run_in(&path("db"), &format!("backup {}", text("monday"))).expect_error(1, "katydid");
    owner.close();
    assert_eq!(run_in(&path("monday"), "count t").expect(0), "51\n");
}

#[test]
fn a_backup_of_a_running_database_ends_with_its_client_or_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut owner = Owner::begin(&path("db"));
    let begun = |name: &str| {
        let mut backup = command(["backup", "--rate", "1", "--dir"]);
        let child = backup.arg(path("db")).arg(path(name)).spawn().unwrap();
        while !path(name).join("katydid.incomplete").exists() {
            std::thread::yield_now();
        }
        child
    };
    // The first client gets a signal. It cancels the copy, and ends when the owner has ended the
    // copy.
    let stopped = begun("stopped");
    kill_process(Pid::from_child(&stopped), Signal::INT).unwrap();
    collected(stopped.wait_with_output().unwrap()).expect_error(1, "cancelled");
    // The second client is killed, and the owner ends the copy by itself.
    let mut died = begun("died");
    died.kill().unwrap();
    died.wait().unwrap();
    owner.put("k", "v");
    // The owner closes the database without waiting for the copy.
    let ended = begun("ended");
    owner.close();
    collected(ended.wait_with_output().unwrap()).expect(1);
    for name in ["stopped", "died", "ended"] {
        run_in(&path(name), "count t").expect_error(1, "incomplete");
    }
    assert_eq!(run_in(&path("db"), "count t").expect(0), "2\n");
}

#[test]
fn the_activity_of_a_running_database_is_shown_until_its_owner_closes_it() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Owner::begin(folder.path());
    let mut top = command(["top", "--interval", "0.01"]).arg("--dir").arg(folder.path()).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("paged engine, "));
    owner.close();
    assert!(lines.all(|line| line.is_ok()));
    collected(top.wait_with_output().unwrap()).expect(0);
}
