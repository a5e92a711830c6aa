//! The contents that each cache line may have after a crash. Pure functions.
//!
//! Invariants:
//!
//! 1. The field `kept` of a line is its last fenced content, or its initial content. `recent` holds
//!    the newer contents that were seen in the line, oldest first, each different from the one
//!    before; at most [`VERSIONS_MAX`]. A line without an entry in `recent` still has its kept
//!    content.
//! 2. The kept version of a line is replaced only by a later one, whichever thread's fence comes
//!    first.
//! 3. A crash gives each word of eight bytes one of its versions, from the kept one on. No order
//!    holds between words, not even between the words of one line: only eight bytes are promised to
//!    arrive whole.
//!
//! So a word that was stored may survive a crash although its line was not written back. This
//! models a cache, which may write a line back at any time.

use crate::nvram::LINE_BYTES;
use crate::survival::Survival;
use fastrand::Rng;
use std::collections::BTreeMap;

/// Words of a line.
pub(super) const WORDS: usize = LINE_BYTES as usize / 8;
/// Maximum number of versions of a line that are remembered besides the kept one. If a line has
/// more versions, the oldest is forgotten.
const VERSIONS_MAX: usize = 16;

/// A line's content.
pub(super) type Line = [u64; WORDS];

/// A content of a line that is newer than the line's kept content.
#[derive(Debug, Clone, Copy)]
struct Version {
    number: u64,
    line: Line,
    written_back: bool,
}

/// A line that a thread has written back, to be fenced by the same thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenBack {
    index: usize,
    number: u64,
    line: Line,
}

/// All lines of a region.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    kept: Vec<Line>,
    /// Numbers of the versions in `kept`.
    numbers: Vec<u64>,
    recent: BTreeMap<usize, Vec<Version>>,
    last: u64,
}

impl Lines {
    pub(super) fn new(kept: Vec<Line>) -> Self {
        Lines { numbers: vec![0; kept.len()], kept, recent: BTreeMap::new(), last: 0 }
    }

    /// Records what a line holds now.
    pub(super) fn see(&mut self, index: usize, line: Line) {
        if *self.newest(index) == line {
            return;
        }
        self.last += 1;
        let versions = self.recent.entry(index).or_default();
        if versions.len() == VERSIONS_MAX {
            versions.remove(0);
        }
        versions.push(Version { number: self.last, line, written_back: false });
    }

    /// Records that a line is written back as it is now.
    pub(super) fn write_back(&mut self, index: usize, line: Line) -> WrittenBack {
        self.see(index, line);
        let mut number = self.numbers[index];
        if let Some(version) = self.recent.get_mut(&index).and_then(|versions| versions.last_mut()) {
            version.written_back = true;
            number = version.number;
        }
        WrittenBack { index, number, line }
    }

    /// Keeps a line as it was written back.
    pub(super) fn fence(&mut self, written_back: WrittenBack) {
        let WrittenBack { index, number, line } = written_back;
        if number <= self.numbers[index] {
            return;
        }
        self.numbers[index] = number;
        self.kept[index] = line;
        if let Some(versions) = self.recent.get_mut(&index) {
            versions.retain(|version| version.number > number);
            if versions.is_empty() {
                self.recent.remove(&index);
            }
        }
    }

    /// Returns the content of a line as last seen.
    fn newest(&self, index: usize) -> &Line {
        let version = self.recent.get(&index).and_then(|versions| versions.last());
        version.map_or(&self.kept[index], |version| &version.line)
    }

    /// Returns all lines as last seen.
    pub(super) fn seen(&self) -> Vec<Line> {
        (0..self.kept.len()).map(|index| *self.newest(index)).collect()
    }

    /// Returns the number of lines that a crash may leave different from their last seen content.
    pub(super) fn unkept(&self) -> usize {
        self.recent.len()
    }

    /// Returns the lines after a crash.
    pub(super) fn survivors(&self, survival: Survival, rng: &mut Rng) -> Vec<Line> {
        let mut lines = self.kept.clone();
        // Percentages of written-back and of merely stored contents that survive; each of the five
        // values is equally likely.
        let mut mood = || [0, 10, 50, 90, 100][rng.usize(0..5)];
        let (written_back, stored) = (mood(), mood());
        let mut left = match survival {
            Survival::Prefix => rng.usize(0..=self.recent.len() * WORDS),
            Survival::Random | Survival::DropAll | Survival::KeepAll | Survival::Trash => 0,
        };
        for (index, versions) in &self.recent {
            let kept = &mut lines[*index];
            match survival {
                Survival::DropAll => {}
                Survival::KeepAll => *kept = *self.newest(*index),
                Survival::Prefix => {
                    let count = left.min(WORDS);
                    kept[..count].copy_from_slice(&self.newest(*index)[..count]);
                    left -= count;
                }
                // A word is stored whole or not at all, so `Trash` is the same as `Random`.
                Survival::Random | Survival::Trash => {
                    let whole = rng.bool();
                    let mut from = None;
                    for (nth, word) in kept.iter_mut().enumerate() {
                        if nth == 0 || !whole {
                            from = pick(versions, written_back, stored, rng);
                        }
                        if let Some(version) = from {
                            *word = version.line[nth];
                        }
                    }
                }
            }
        }
        lines
    }
}

/// Picks the version of a line, or of a word of it, that survives; `None` for the kept one.
fn pick<'a>(versions: &'a [Version], written_back: u8, stored: u8, rng: &mut Rng) -> Option<&'a Version> {
    let mut chance = |percent: u8| rng.u8(0..100) < percent;
    if let Some(version) = versions.iter().rfind(|version| version.written_back)
        && chance(written_back)
    {
        return Some(version);
    }
    if !chance(stored) {
        return None;
    }
    if rng.bool() { versions.last() } else { versions.get(rng.usize(0..versions.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survivors(lines: &Lines, seeds: u64) -> Vec<Line> {
        (0..seeds).map(|seed| lines.survivors(Survival::Random, &mut Rng::with_seed(seed))[0]).collect()
    }

    #[test]
    fn a_late_fence_does_not_bring_an_older_line_back() {
        let mut lines = Lines::new(vec![[0; WORDS]]);
        let first = lines.write_back(0, [1; WORDS]);
        let second = lines.write_back(0, [2; WORDS]);
        lines.fence(second);
        lines.fence(first);
        assert!(survivors(&lines, 50).iter().all(|line| *line == [2; WORDS]));
        assert_eq!(lines.unkept(), 0);
        // The line is clean at the first write-back, and changed before the second. Again the late
        // fence must not bring back the older content.
        let clean = lines.write_back(0, [2; WORDS]);
        let newer = lines.write_back(0, [3; WORDS]);
        lines.fence(newer);
        lines.fence(clean);
        assert!(survivors(&lines, 50).iter().all(|line| *line == [3; WORDS]));
    }

    #[test]
    fn a_fence_keeps_the_line_as_it_was_written_back_and_what_came_later_may_survive() {
        let mut lines = Lines::new(vec![[0; WORDS]]);
        let written_back = lines.write_back(0, [1; WORDS]);
        lines.see(0, [2; WORDS]);
        lines.fence(written_back);
        let found = survivors(&lines, 200);
        assert!(found.iter().flatten().all(|word| [1, 2].contains(word)));
        assert!(found.contains(&[1; WORDS]) && found.contains(&[2; WORDS]));
        assert!(found.iter().any(|line| line.contains(&1) && line.contains(&2)), "torn");
    }

    #[test]
    fn every_version_since_the_fence_may_survive_and_none_from_before() {
        let mut lines = Lines::new(vec![[0; WORDS]]);
        let kept = lines.write_back(0, [9; WORDS]);
        lines.fence(kept);
        (1..=4).for_each(|value| lines.see(0, [value; WORDS]));
        let found = survivors(&lines, 400);
        for value in [9, 1, 2, 3, 4] {
            assert!(found.contains(&[value; WORDS]), "{value}");
        }
        assert!(!found.iter().flatten().any(|word| *word == 0));
    }

    #[test]
    fn a_long_history_forgets_its_oldest_and_never_what_was_written_back() {
        let mut lines = Lines::new(vec![[0; WORDS]]);
        let early = lines.write_back(0, [1; WORDS]);
        (2..100).for_each(|value| lines.see(0, [value; WORDS]));
        lines.fence(early);
        let found = survivors(&lines, 100);
        assert!(found.iter().flatten().all(|word| *word == 1 || *word > 99 - VERSIONS_MAX as u64));
        let most = lines.recent.values().map(Vec::len).max();
        assert_eq!(most, Some(VERSIONS_MAX));
    }
}
