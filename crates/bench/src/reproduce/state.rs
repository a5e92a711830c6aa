//! Files of each experiment, from which an interrupted report continues.
//!
//! Each experiment has a folder with `rows.csv`, `rounds.csv`, charts, `output.txt`, `errors.txt`,
//! and finally `done.json`. An experiment without `done.json` was interrupted or failed, and is
//! measured again. An experiment whose arguments, commit or machine have changed is also measured
//! again.

use katydid_command::failure::{Failure, Result};
use katydid_command::whole_file;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of an experiment.
#[derive(Debug, Clone)]
pub struct ResultFolder {
    pub folder: PathBuf,
}

/// Contents of `done.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub arguments: Vec<String>,
    pub commit: String,
    pub machine: String,
    pub seconds: f64,
    /// Time at which the experiment ended, in seconds since 1970.
    pub at: u64,
}

fn cannot(what: &str, path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::failed(format_args!("cannot {what} {}: {error}", path.display()))
}

impl ResultFolder {
    /// Creates the folder, or empties an existing one.
    pub fn begin(&self) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(|error| cannot("empty", &self.folder, error))?;
        }
        fs::create_dir_all(&self.folder).map_err(|error| cannot("create", &self.folder, error))
    }

    /// Path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes `done.json`.
    pub fn finish(&self, done: &Done) -> Result<()> {
        let Done { arguments, commit, machine, seconds, at } = done;
        let value = json!({"arguments": arguments, "commit": commit, "machine": machine, "seconds": seconds, "at": at});
        whole_file::write(&self.file("done.json"), format!("{value:#}\n").as_bytes())
    }

    /// The contents of `done.json`; `None` if the file is missing or malformed.
    pub fn done(&self) -> Option<Done> {
        let value: Value = serde_json::from_slice(&fs::read(self.file("done.json")).ok()?).ok()?;
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let arguments = value.get("arguments")?.as_array()?;
        Some(Done {
            arguments: arguments.iter().map(|word| Some(word.as_str()?.to_owned())).collect::<Option<_>>()?,
            commit: text("commit")?,
            machine: text("machine")?,
            seconds: value.get("seconds")?.as_f64()?,
            at: value.get("at")?.as_u64()?,
        })
    }

    /// The charts in the folder as SVG, in the order of their files' names.
    pub fn charts(&self) -> Result<Vec<String>> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(Vec::new()) };
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "svg"))
            .collect();
        paths.sort();
        paths
            .iter()
            .map(|path| fs::read_to_string(path).map_err(|error| cannot("read", path, error)))
            .collect()
    }

    /// The rows as CSV; empty if there are none.
    pub fn rows(&self) -> String {
        fs::read_to_string(self.file("rows.csv")).unwrap_or_default()
    }

    /// The rows of each round as CSV; empty if there are none.
    pub fn rounds(&self) -> String {
        fs::read_to_string(self.file("rounds.csv")).unwrap_or_default()
    }

    /// The last three lines of `errors.txt`.
    pub fn last_errors(&self) -> String {
        let text = fs::read(self.file("errors.txt")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(3)..].join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_known_and_what_was_cut_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let kept = ResultFolder { folder: dir.path().join("aether-3") };
        assert_eq!(kept.done(), None);
        kept.begin().unwrap();
        let done = Done {
            arguments: vec!["bench".to_owned(), "--quick".to_owned()],
            commit: "0123".to_owned(),
            machine: "a machine".to_owned(),
            seconds: 1.5,
            at: 7,
        };
        kept.finish(&done).unwrap();
        assert_eq!(kept.done(), Some(done));
        let whole = fs::read(kept.file("done.json")).unwrap();
        fs::write(kept.file("done.json"), &whole[..whole.len() / 2]).unwrap();
        assert_eq!(kept.done(), None);
        fs::write(kept.file("rows.csv"), "left over").unwrap();
        kept.begin().unwrap();
        assert!(kept.rows().is_empty() && kept.charts().unwrap().is_empty());
    }
}
