//! Limits: the number of places in each area that may break each rule. Limits only go down.

use super::rules::{Finding, Rule};
use crate::run::root;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

const HEAD: &str = "# Places in each area of the tree that break a rule of `cargo xtask tidy`. They only go down: an area or rule
# that is not here has none. `cargo xtask tidy --lower` writes this file.
";

type Key = (String, Rule);

/// Number of findings for each area and rule.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Key, usize>);

impl Counts {
    pub fn of(findings: &[Finding]) -> Self {
        let mut counts = Self::default();
        for finding in findings {
            *counts.0.entry((finding.area(), finding.rule)).or_default() += 1;
        }
        counts
    }

    pub fn get(&self, area: &str, rule: Rule) -> usize {
        self.0.get(&(area.to_owned(), rule)).copied().unwrap_or_default()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Limits(Counts);

impl Limits {
    fn path() -> PathBuf {
        root().join("xtask/src/tidy/limits.txt")
    }

    pub fn read() -> Result<Self, String> {
        let path = Self::path();
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text)
    }

    /// Reads lines `AREA RULE NUMBER`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut limits = Counts::default();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || format!("limits.txt:{}: not `AREA RULE NUMBER`: {line:?}", index + 1);
            let [area, rule, number] =
                line.split_whitespace().collect::<Vec<_>>().try_into().map_err(|_| wrong())?;
            let rule = Rule::ALL.into_iter().find(|one| one.to_string() == rule).ok_or_else(wrong)?;
            let number = number.parse().map_err(|_| wrong())?;
            if limits.0.insert((area.to_owned(), rule), number).is_some() {
                return Err(format!("limits.txt:{}: {area} {rule} for the second time", index + 1));
            }
        }
        Ok(Self(limits))
    }

    /// The areas and rules with more findings than their limits, with the limits.
    pub fn exceeded_by(&self, counts: &Counts) -> Vec<(String, Rule, usize)> {
        let over = counts.0.iter().filter_map(|((area, rule), count)| {
            let limit = self.0.get(area, *rule);
            (*count > limit).then(|| (area.clone(), *rule, limit))
        });
        over.collect()
    }

    /// Lowers each limit to its count. Returns the sum of the differences.
    pub fn lower(&mut self, counts: &Counts) -> usize {
        let mut spare = 0;
        self.0.0.retain(|(area, rule), limit| {
            let count = counts.get(area, *rule).min(*limit);
            spare += *limit - count;
            *limit = count;
            count > 0
        });
        spare
    }

    pub fn write(&self) -> Result<(), String> {
        let path = Self::path();
        fs::write(&path, self.text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for ((area, rule), limit) in &self.0.0 {
            writeln!(text, "{area} {rule} {limit}").expect("a string takes everything");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, Rule, usize)]) -> Counts {
        Counts(entries.iter().map(|(area, rule, count)| (((*area).to_owned(), *rule), *count)).collect())
    }

    #[test]
    fn only_more_than_the_limit_exceeds_it() {
        let limits = Limits::parse("# remark\nwal word 2\n").expect("limits");
        assert!(limits.exceeded_by(&counts(&[("wal", Rule::Word, 2)])).is_empty());
        let over = limits.exceeded_by(&counts(&[("wal", Rule::Word, 3), ("wal", Rule::Width, 1)]));
        assert_eq!(over, [("wal".to_owned(), Rule::Width, 0), ("wal".to_owned(), Rule::Word, 2)]);
    }

    #[test]
    fn limits_are_lowered_and_never_raised() {
        let mut limits = Limits::parse("cli width 1\nwal width 4\nwal word 2\n").expect("limits");
        let spare = limits.lower(&counts(&[("wal", Rule::Word, 5), ("wal", Rule::Width, 3)]));
        assert_eq!(spare, 2);
        assert_eq!(limits, Limits::parse("wal width 3\nwal word 2\n").expect("limits"));
        assert_eq!(Limits::parse(&limits.text()).expect("what was written"), limits);
    }

    #[test]
    fn wrong_lines_are_named() {
        for line in ["wal word", "wal wort 1", "wal word x", "wal word 1\nwal word 1"] {
            let error = Limits::parse(line).expect_err(line);
            assert!(error.starts_with("limits.txt:"), "{error}");
        }
    }
}
