//! Writes `docs/evidence.md`, which has one row for each step of a nightly run.
//!
//! The table is the end of the file. One write appends a row when its step has ended, so an
//! interrupted run leaves complete rows for the steps that had ended.

use crate::run::root;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Path of the file, relative to the root.
pub const FILE: &str = "docs/evidence.md";

/// The tested commit, with a `+` if tracked or new files differ from it.
pub struct Commit(String);

impl Commit {
    /// Asks git for the commit of the tree.
    pub fn of_the_tree() -> Result<Self, Box<dyn std::error::Error>> {
        let asked = |arguments: &[&str]| -> Result<String, Box<dyn std::error::Error>> {
            let output = Command::new("git").args(arguments).current_dir(root()).output()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if output.status.success() { Ok(text) } else { Err(format!("git {arguments:?} failed").into()) }
        };
        let head = asked(&["rev-parse", "--short=12", "HEAD"])?;
        // Leave out the table itself, because each row changes it.
        let others = asked(&["status", "--porcelain", "--", ".", &format!(":(exclude){FILE}")])?;
        Ok(Self(if others.is_empty() { head } else { head + "+" }))
    }
}

/// End of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    Passed,
    /// The step failed; the text names the failure.
    Failed(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => to.write_str("passed"),
            Self::Failed(why) => write!(to, "FAILED: {why}"),
        }
    }
}

/// One row of the table.
pub struct Row<'a> {
    /// Time at which the step ended.
    pub at: SystemTime,
    pub commit: &'a Commit,
    pub step: &'a str,
    /// Seed of the step's random choices; `None` if it has no random choices.
    pub seed: Option<u64>,
    /// Amount that the step tried, with its unit, for example crash points, inputs or tests.
    pub counted: String,
    pub took: Duration,
    pub ending: &'a Ending,
}

impl Row<'_> {
    fn line(&self) -> String {
        let seed = self.seed.map_or_else(|| "-".to_owned(), |seed| seed.to_string());
        let counted = if self.counted.is_empty() { "-" } else { &self.counted };
        let cells = [
            utc(self.at),
            self.commit.0.clone(),
            self.step.to_owned(),
            seed,
            counted.to_owned(),
            self.took.as_secs().to_string(),
            self.ending.to_string(),
        ];
        format!("| {} |\n", cells.map(|cell| cell_of(&cell)).join(" | "))
    }

    /// Appends the row to the table in `file`.
    ///
    /// # Errors
    /// The file is missing, or cannot be written.
    pub fn append_to(&self, file: &Path) -> io::Result<()> {
        OpenOptions::new().append(true).open(file)?.write_all(self.line().as_bytes())
    }
}

/// Duration of a step in the last row of `page` in which the step passed.
pub fn last_passed(page: &str, step: &str) -> Option<Duration> {
    page.lines().rev().find_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells[..] {
            ["", _, _, name, _, _, seconds, "passed", ""] if name == step => {
                seconds.parse().ok().map(Duration::from_secs)
            }
            _ => None,
        }
    })
}

/// The text on one line of at most 200 characters, with `/` in place of bars, which would begin
/// another cell.
fn cell_of(text: &str) -> String {
    let mut cell: String = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/");
    if cell.chars().count() > 200 {
        cell = cell.chars().take(199).chain(['…']).collect();
    }
    cell
}

/// The time as `2026-02-28 23:59` in UTC.
fn utc(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (minutes, mut day) = (seconds / 60 % 1440, seconds / 86400);
    let mut year = 1970;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_of = |year| if is_leap(year) { 366 } else { 365 };
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02}", day + 1, minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_stays_one_line_of_seven_cells() {
        let ending = Ending::Failed("two\nlines | and a bar".to_owned());
        let row = Row {
            at: UNIX_EPOCH + Duration::from_secs(1_709_251_199),
            commit: &Commit("0123456789ab+".to_owned()),
            step: "crash",
            seed: Some(7),
            counted: "12 crash points".to_owned(),
            took: Duration::from_millis(61_900),
            ending: &ending,
        };
        let expected = "| 2024-02-29 23:59 | 0123456789ab+ | crash | 7 | 12 crash points | 61 | FAILED: two lines / and a bar |\n";
        assert_eq!(row.line(), expected);
    }

    #[test]
    fn a_row_is_appended_below_the_others() {
        let file = std::env::temp_dir().join(format!("katydid-evidence-{}", std::process::id()));
        std::fs::write(&file, "| head |\n").expect("write");
        let (commit, ending) = (Commit("0123456789ab".to_owned()), Ending::Passed);
        for step in ["one", "two"] {
            let took = Duration::from_secs(1);
            let row = Row {
                at: UNIX_EPOCH,
                commit: &commit,
                step,
                seed: None,
                counted: String::new(),
                took,
                ending: &ending,
            };
            row.append_to(&file).expect("append");
        }
        let text = std::fs::read_to_string(&file).expect("read");
        std::fs::remove_file(&file).expect("remove");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| head |");
        assert_eq!(last_passed(&text, "two"), Some(Duration::from_secs(1)));
        assert_eq!(last_passed(&text, "three"), None);
        assert_eq!(lines[2], "| 1970-01-01 00:00 | 0123456789ab | two | - | - | 1 | passed |");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn the_page_ends_with_a_table_of_as_many_columns_as_a_row_has_cells() {
        let text = std::fs::read_to_string(root().join(FILE)).expect("the page");
        let head = text.lines().find(|line| line.starts_with("| date")).expect("a table");
        assert_eq!(head.matches('|').count(), 8);
        assert!(text.ends_with("|\n"), "what is appended would not be a row of the table");
    }
}
