//! Amounts that a step tried, read from its output.
//!
//! A campaign ends with a line `evidence: NUMBER UNIT`, for example `evidence: 5123 crash points`.
//! The numbers of one unit are added over all lines and rounds. libtest's result lines give the
//! number of tests that passed.

use std::collections::BTreeMap;
use std::fmt;

/// Amounts counted so far.
#[derive(Default)]
pub struct Counts {
    rounds: u64,
    by_unit: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts a finished round.
    pub fn round(&mut self) {
        self.rounds += 1;
    }

    /// Reads a line of output.
    pub fn line(&mut self, line: &str) {
        let (text, is_tests) = match (line.strip_prefix("evidence: "), line.strip_prefix("test result: ")) {
            (Some(text), _) => (text, false),
            (_, Some(text)) => (text.split_once(". ").map_or("", |(_, counts)| counts), true),
            _ => return,
        };
        let Some((number, unit)) = text.trim().split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        let unit = if is_tests { "tests" } else { unit };
        *self.by_unit.entry(unit.to_owned()).or_default() += number;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> =
            self.by_unit.iter().map(|(unit, number)| format!("{number} {unit}")).collect();
        if self.rounds > 1 {
            parts.push(format!("{} rounds", self.rounds));
        }
        to.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_unit_are_added_up_over_lines_and_rounds() {
        let mut counts = Counts::default();
        counts.line("evidence: 40 crash points");
        counts.line("the last line was evidence: 7 nothings");
        counts.line(
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s",
        );
        counts.round();
        counts.line("evidence: 2 crash points");
        counts.line("test result: FAILED. 1 passed; 2 failed; 0 ignored");
        counts.round();
        assert_eq!(counts.to_string(), "42 crash points, 13 tests, 2 rounds");
    }
}
