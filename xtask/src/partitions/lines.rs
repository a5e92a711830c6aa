//! Lines that the loader writes, and the check of scans against the acknowledgements.
//!
//! Pure functions. The loader writes one file of [`LINES`] lines in each round. Every line follows
//! from the seed, the round and the line's number, so no line is stored. Three of four lines have a
//! key of their own. The fourth line has a key that every round writes again, so a write that is
//! applied twice or too late shows as an old value.
//!
//! A line is in one of three states:
//!
//! 1. It was acknowledged: the group must have it.
//! 2. A loader failed while it wrote the line's batch: the group may have the line.
//! 3. Otherwise the line was never sent: the group must not have it.

use std::collections::BTreeSet;
use std::io::BufRead;

/// Number of lines in a round.
pub const LINES: u32 = 2_000;

/// Number of lines in a transaction of the loader.
pub const BATCH: u32 = 10;

/// Maximum number of wrong rows that a message names.
const NAMED: usize = 5;

/// A line of a round, numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    round: usize,
    number: u32,
}

impl Line {
    /// True if every round writes the line's key again.
    fn is_shared(self) -> bool {
        self.number % 4 == 3
    }

    fn key(self) -> String {
        if self.is_shared() {
            format!("shared-{:04}", self.number)
        } else {
            format!("line-{:06}-{:04}", self.round, self.number)
        }
    }

    fn value(self, seed: u64) -> String {
        let place = ((self.round as u64) << 32) | u64::from(self.number);
        format!("{} {} {:016x}", self.round, self.number, fastrand::Rng::with_seed(seed ^ place).u64(..))
    }

    fn row(self, seed: u64) -> String {
        format!("{}\t{}", self.key(), self.value(seed))
    }

    /// Reads a row of a scan. `None` means that the row is no line of any round.
    fn of_row(row: &str, seed: u64) -> Option<Line> {
        let mut words = row.split_once('\t')?.1.split(' ');
        let line = Line { round: words.next()?.parse().ok()?, number: words.next()?.parse().ok()? };
        (line.row(seed) == row).then_some(line)
    }
}

/// The text of a round's file.
pub fn file(seed: u64, round: usize) -> String {
    (0..LINES).map(|number| Line { round, number }.row(seed) + "\n").collect()
}

/// Acknowledgements so far.
pub struct Ledger {
    seed: u64,
    /// Number of acknowledged lines of each round. Lines are acknowledged in their order.
    acknowledged: Vec<u32>,
    /// Lines of batches that failed.
    unknown: BTreeSet<Line>,
}

impl Ledger {
    pub fn new(seed: u64) -> Self {
        Ledger { seed, acknowledged: Vec::new(), unknown: BTreeSet::new() }
    }

    /// Begins a round, and returns its number.
    pub fn begin_round(&mut self) -> usize {
        self.acknowledged.push(0);
        self.acknowledged.len() - 1
    }

    /// Records that the first `lines` lines of a round are acknowledged.
    pub fn acknowledge(&mut self, round: usize, lines: u32) {
        if let Some(known) = self.acknowledged.get_mut(round) {
            *known = (*known).max(lines);
        }
    }

    /// Records that a loader failed after the first `lines` lines of a round. The outcome of the
    /// next batch is unknown.
    pub fn lose(&mut self, round: usize, lines: u32) {
        self.unknown.extend((lines..(lines + BATCH).min(LINES)).map(|number| Line { round, number }));
    }

    /// Number of rounds.
    pub fn rounds(&self) -> usize {
        self.acknowledged.len()
    }

    /// Number of acknowledged lines.
    pub fn total(&self) -> u64 {
        self.acknowledged.iter().copied().map(u64::from).sum()
    }

    /// The key and the row of the last acknowledged line that has a key of its own.
    pub fn last(&self) -> Option<(String, String)> {
        let newest = |(round, lines): (usize, &u32)| {
            (0..*lines).rev().map(|number| Line { round, number }).find(|line| !line.is_shared())
        };
        let line = self.acknowledged.iter().enumerate().rev().find_map(newest)?;
        Some((line.key(), line.row(self.seed)))
    }

    fn is_acknowledged(&self, line: Line) -> bool {
        self.acknowledged.get(line.round).is_some_and(|lines| line.number < *lines)
    }

    /// The last round in which the line with this number was acknowledged.
    fn newest(&self, number: u32) -> Option<usize> {
        let is_newest = |(_, lines): &(usize, &u32)| number < **lines;
        self.acknowledged.iter().enumerate().rev().find(is_newest).map(|(round, _)| round)
    }

    /// Compares a whole scan with the acknowledgements, and returns the number of its rows.
    ///
    /// # Errors
    /// A message that counts the wrong rows and names the first ones.
    pub fn check(&self, rows: impl BufRead) -> Result<u64, String> {
        let newest: Vec<Option<usize>> = (0..LINES).map(|number| self.newest(number)).collect();
        let mut seen: Vec<Vec<bool>> = vec![vec![false; LINES as usize]; self.rounds()];
        let mut seen_shared = vec![false; LINES as usize];
        let mut wrong = Wrong::default();
        let (mut count, mut last) = (0, String::new());
        for row in rows.lines() {
            let row = row.map_err(|error| format!("cannot read the scan: {error}"))?;
            count += 1;
            let key = row.split('\t').next().unwrap_or_default();
            if count > 1 && *key <= *last {
                wrong.add(|| format!("key {key:?} comes after {last:?}"));
            }
            key.clone_into(&mut last);
            let Some(line) = Line::of_row(&row, self.seed) else {
                wrong.add(|| format!("{row:?} was never sent"));
                continue;
            };
            let (number, is_unknown) = (line.number as usize, self.unknown.contains(&line));
            if !self.is_acknowledged(line) && !is_unknown {
                wrong.add(|| format!("{row:?} was never sent"));
            } else if !line.is_shared() {
                seen[line.round][number] = true;
            } else {
                seen_shared[number] = true;
                if newest[number] > Some(line.round) && !is_unknown {
                    wrong.add(|| format!("{row:?} is older than the acknowledged value"));
                }
            }
        }
        for (round, lines) in self.acknowledged.iter().enumerate() {
            for line in (0..*lines).map(|number| Line { round, number }) {
                if !line.is_shared() && !seen[round][line.number as usize] {
                    wrong.add(|| format!("{:?} was acknowledged and is missing", line.row(self.seed)));
                }
            }
        }
        for (number, round) in (0..).zip(&newest) {
            if let Some(round) = *round {
                let line = Line { round, number };
                if line.is_shared() && !seen_shared[number as usize] {
                    wrong.add(|| format!("{:?} was acknowledged and is missing", line.row(self.seed)));
                }
            }
        }
        wrong.finish().map(|()| count)
    }
}

/// Wrong rows: how many there are, and the first ones.
#[derive(Default)]
struct Wrong {
    count: u64,
    named: Vec<String>,
}

impl Wrong {
    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(name());
        }
    }

    fn finish(self) -> Result<(), String> {
        match self.count {
            0 => Ok(()),
            count => Err(format!("wrong rows: {count}; the first: {}", self.named.join("; "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 11;

    /// Two whole rounds, and a third one of which 20 lines are acknowledged.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::new(SEED);
        for lines in [LINES, LINES, 20] {
            let round = ledger.begin_round();
            ledger.acknowledge(round, lines);
        }
        ledger
    }

    /// The rows of a group that has exactly the lines of these rounds.
    fn rows(rounds: &[u32]) -> Vec<String> {
        let mut rows = std::collections::BTreeMap::new();
        for (round, lines) in (0..).zip(rounds) {
            for line in (0..*lines).map(|number| Line { round, number }) {
                rows.insert(line.key(), line.row(SEED));
            }
        }
        rows.into_values().collect()
    }

    fn check(ledger: &Ledger, rows: &[String]) -> Result<u64, String> {
        ledger.check(rows.join("\n").as_bytes())
    }

    #[test]
    fn the_acknowledged_lines_alone_are_right() {
        let rows = rows(&[LINES, LINES, 20]);
        assert_eq!(check(&ledger(), &rows), Ok(rows.len() as u64));
        assert_eq!(ledger().total(), 4_020);
        assert_eq!(ledger().last().map(|(key, _)| key), Some("line-000002-0018".to_owned()));
    }

    #[test]
    fn each_missing_line_is_found() {
        let rows = rows(&[LINES, LINES, 20]);
        for at in [0, 1, rows.len() / 2, rows.len() - 1] {
            let mut fewer = rows.clone();
            let gone = fewer.remove(at);
            let error = check(&ledger(), &fewer).expect_err("a line is missing");
            assert_eq!(error, format!("wrong rows: 1; the first: {gone:?} was acknowledged and is missing"));
        }
    }

    #[test]
    fn a_line_that_was_never_sent_is_found() {
        for more in [21, 24] {
            let error = check(&ledger(), &rows(&[LINES, LINES, more])).expect_err("a line too many");
            assert!(error.contains("was never sent"), "{error}");
        }
        let mut other = rows(&[LINES, LINES, 20]);
        other[7].push('x');
        let error = check(&ledger(), &other).expect_err("another value");
        assert!(error.starts_with("wrong rows: 2;") && error.contains("was never sent"), "{error}");
    }

    #[test]
    fn a_row_that_is_there_twice_is_found() {
        let mut twice = rows(&[LINES, LINES, 20]);
        twice.insert(9, twice[8].clone());
        let error = check(&ledger(), &twice).expect_err("a row twice");
        assert!(error.contains("comes after"), "{error}");
    }

    #[test]
    fn a_value_of_an_earlier_round_is_found() {
        let mut old = rows(&[LINES, LINES, 20]);
        let at = old.iter().position(|row| row.starts_with("shared-0007\t2 ")).expect("a row");
        old[at] = Line { round: 1, number: 7 }.row(SEED);
        let error = check(&ledger(), &old).expect_err("an old value");
        assert!(error.contains("is older than the acknowledged value"), "{error}");
    }

    #[test]
    fn the_lines_of_a_failed_batch_may_be_there() {
        let mut ledger = ledger();
        ledger.lose(2, 20);
        for lines in [20, 24, 30] {
            let rows = rows(&[LINES, LINES, lines]);
            assert_eq!(check(&ledger, &rows), Ok(rows.len() as u64));
        }
        assert!(check(&ledger, &rows(&[LINES, LINES, 31])).is_err());
    }
}
