//! The incarnations (numbers of openings) that wrote a log, and the range that each one wrote.
//!
//! Pure functions. Incarnations grow along the log. Each begins where an opening cut off the
//! previous one. The end of an incarnation's part therefore says for ever which of its records
//! survived, whatever later incarnations have appended. `head.rs` judges dependencies by these
//! ends.

use katydid_kernels::lsn::Lsn;

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct IncarnationHistory {
    start: Lsn,
    /// Incarnation of the record at `start`, or a smaller one.
    first: u32,
    /// Larger incarnations, ascending, and where each begins.
    later: Vec<(u32, Lsn)>,
    end: Lsn,
}

impl IncarnationHistory {
    /// Returns the history of a log that begins with this incarnation.
    pub(crate) fn new(start: Lsn, first: u32) -> Self {
        IncarnationHistory { start, first, later: Vec::new(), end: start }
    }

    /// Notes that this larger incarnation begins at `at`.
    pub(crate) fn begin(&mut self, incarnation: u32, at: Lsn) {
        self.later.push((incarnation, at));
    }

    /// Notes the end of the log.
    pub(crate) fn close(&mut self, end: Lsn) {
        self.end = end;
    }

    /// Returns whether everything that `incarnation` wrote below `end` survived. Trimmed records
    /// count as survivors. If `incarnation` is above the first one and the history does not name
    /// it, none of its records survived.
    pub(crate) fn holds(&self, incarnation: u32, end: Lsn) -> bool {
        if incarnation < self.first {
            return end <= self.start;
        }
        let after = self.later.partition_point(|(other, _)| *other <= incarnation);
        match self.later.get(after) {
            Some((_, begin)) => end <= *begin,
            None => end <= self.end && incarnation == self.later.last().map_or(self.first, |(last, _)| *last),
        }
    }
}

impl IncarnationHistory {
    /// Returns the incarnation that wrote the record at `at`, which exists.
    pub(crate) fn at(&self, at: Lsn) -> u32 {
        let after = self.later.partition_point(|(_, begin)| *begin <= at);
        after.checked_sub(1).map_or(self.first, |last| self.later[last].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incarnation_holds_what_lies_before_the_next_one() {
        let mut incarnations = IncarnationHistory::new(Lsn::new(800), 3);
        incarnations.begin(5, Lsn::new(1000));
        incarnations.begin(6, Lsn::new(1048));
        incarnations.close(Lsn::new(2000));
        let expected = [(0, 800), (2, 800), (3, 1000), (4, 1000), (5, 1048), (6, 2000)];
        for (incarnation, end) in expected {
            assert!(incarnations.holds(incarnation, Lsn::new(end)), "{incarnation}");
            assert!(!incarnations.holds(incarnation, Lsn::new(end + 8)), "{incarnation}");
        }
        assert!(!incarnations.holds(7, Lsn::new(8)), "it left no trace");
        assert!(IncarnationHistory::new(Lsn::ZERO, 0).holds(0, Lsn::ZERO));
        let wrote = [(800, 3), (992, 3), (1000, 5), (1040, 5), (1048, 6), (1992, 6)];
        for (at, incarnation) in wrote {
            assert_eq!(incarnations.at(Lsn::new(at)), incarnation);
        }
    }
}
