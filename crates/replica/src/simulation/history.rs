//! The history of a run's operations on registers, for a checker outside of this project (`cargo
//! xtask replicas --checkers`).
//!
//! The simulation has one thread. Time is the number of calls and returns so far, so the times have
//! the order in which the calls and returns happened. A history is stored only if
//! `KATYDID_HISTORIES` names a folder. `checkers/README.md` describes the format. A failed run
//! stores its history as well.

use super::oracle::Number;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// A register's name and its value as text.
pub type Named<V> = (String, V);

/// The history of a run, as the head of this file describes.
#[derive(Debug, Default)]
pub struct History {
    /// Folder of the history; `None` if it is not stored.
    folder: Option<PathBuf>,
    now: u64,
    /// Writes without an outcome, by client: the time of the call, and the values.
    open: BTreeMap<Number, (u64, Vec<Named<String>>)>,
    lines: String,
}

impl History {
    /// Makes an empty history.
    pub fn new() -> Self {
        History { folder: std::env::var_os("KATYDID_HISTORIES").map(PathBuf::from), ..History::default() }
    }

    /// Notes the call of an operation, and returns its time.
    pub fn call(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Notes the call of a write set. A client has one at a time.
    pub fn begin(&mut self, client: Number, values: Vec<Named<String>>) {
        let call = self.call();
        self.open.insert(client, (call, values));
    }

    /// Notes the outcome of a client's write set.
    pub fn end(&mut self, client: Number, is_committed: bool) {
        let outcome = if is_committed { "ok" } else { "failed" };
        let returned = self.call();
        if let Some((call, values)) = self.open.remove(&client) {
            for (key, value) in values {
                self.line(client, "write", &key, Some(&value), call, Some(returned), outcome);
            }
        }
    }

    /// Notes the answer to a read of one state.
    pub fn read(&mut self, client: Number, call: u64, values: impl IntoIterator<Item = Named<Option<u64>>>) {
        let returned = self.call();
        for (key, value) in values {
            let value = value.map(|value| value.to_string());
            self.line(client, "read", &key, value.as_deref(), call, Some(returned), "ok");
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a line has this many fields")]
    fn line(
        &mut self,
        client: Number,
        op: &str,
        key: &str,
        value: Option<&str>,
        call: u64,
        returned: Option<u64>,
        outcome: &str,
    ) {
        if self.folder.is_none() {
            return;
        }
        let value = value.map_or("null".to_owned(), |value| format!("\"{value}\""));
        let returned = returned.map_or("null".to_owned(), |returned| returned.to_string());
        // Writing to a string cannot fail.
        let _written = writeln!(
            self.lines,
            r#"{{"client":{client},"op":"{op}","key":"{key}","value":{value},"call":{call},"return":{returned},"outcome":"{outcome}"}}"#
        );
    }

    /// Ends the history. If the history has a folder, stores the history there, in the file
    /// `name.jsonl`. The outcomes of open writes are unknown.
    pub fn store(&mut self, name: &str) {
        for (client, (call, values)) in std::mem::take(&mut self.open) {
            for (key, value) in values {
                self.line(client, "write", &key, Some(&value), call, None, "unknown");
            }
        }
        if let Some(folder) = &self.folder {
            let file = folder.join(format!("{name}.jsonl"));
            std::fs::write(&file, &self.lines)
                .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_times_and_outcomes_of_operations() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut history = History { folder: Some(folder.path().to_owned()), ..History::default() };
        history.begin(1, vec![("a".to_owned(), "7".to_owned())]);
        let call = history.call();
        history.read(2, call, [("a".to_owned(), None)]);
        history.end(1, true);
        history.begin(1, vec![("b".to_owned(), "8".to_owned())]);
        history.end(1, false);
        history.begin(3, vec![("a".to_owned(), "9".to_owned())]);
        history.store("h");
        let told = std::fs::read_to_string(folder.path().join("h.jsonl")).expect("a file");
        let expected = [
            r#"{"client":2,"op":"read","key":"a","value":null,"call":2,"return":3,"outcome":"ok"}"#,
            r#"{"client":1,"op":"write","key":"a","value":"7","call":1,"return":4,"outcome":"ok"}"#,
            r#"{"client":1,"op":"write","key":"b","value":"8","call":5,"return":6,"outcome":"failed"}"#,
            r#"{"client":3,"op":"write","key":"a","value":"9","call":7,"return":null,"outcome":"unknown"}"#,
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    }
}
