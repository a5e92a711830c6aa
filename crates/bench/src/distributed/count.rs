//! Counts of the dependencies that would cross logs if the records of one log were distributed over
//! several logs (Aether, A.5).
//!
//! Pure functions. A record depends on the last record that changed the same page, if that record
//! is in another log: with physiological logging, the older record must be durable before the newer
//! one. A dependence is tight if the older record is one of the last five of its log when the newer
//! record is added. Such a record is probably not durable yet, because a log is flushed at commits.
//! The number five is the paper's. A commit spans logs if it has to flush more than one log: the
//! logs of its own records, and the logs on which its records depend tightly.
//!
//! Transactions (or pages) are assigned to logs in the order in which they first appear. The id of
//! a transaction does not decide its log, because the id depends on the thread that runs the
//! transaction.

use std::collections::HashMap;
use std::fmt;

/// Number of last records of a log. A dependence is tight if the older record is one of them
/// (Aether, A.5).
const TIGHT: u64 = 5;

/// Maximum number of logs.
pub const LOGS_MAX: usize = 64;

/// The rule that chooses the log of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// All records of a transaction go to one log. Transactions are assigned to logs round-robin.
    Transaction,
    /// A record goes to the log of the first page that it changes. Pages are assigned to logs
    /// round-robin.
    Page,
}

impl Assignment {
    pub const ALL: [Assignment; 2] = [Assignment::Transaction, Assignment::Page];
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Assignment::Transaction => "transaction",
            Assignment::Page => "page",
        })
    }
}

/// Counts of records and transactions, over all logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of records that change pages.
    pub records: u64,
    /// Number of records that depend on a record in another log.
    pub crossing: u64,
    /// Number of records with at least one tight dependence.
    pub tight: u64,
    /// Number of transactions that committed after a change.
    pub commits: u64,
    /// Number of commits that span logs.
    pub spanning: u64,
}

impl Counted {
    /// Returns `count` as a share of all records.
    pub fn of_records(&self, count: u64) -> f64 {
        count as f64 / self.records.max(1) as f64
    }

    /// The share of commits that span logs.
    pub fn spanning_share(&self) -> f64 {
        self.spanning as f64 / self.commits.max(1) as f64
    }
}

/// Log of the record that changed a page last, and the record's index in that log.
#[derive(Debug, Clone, Copy)]
struct Place {
    log: usize,
    number: u64,
}

/// Counts the dependencies in a log, record by record.
#[derive(Debug)]
pub struct Counter {
    assignment: Assignment,
    /// The log of each transaction, or page, that has appeared.
    dealt: HashMap<u64, usize>,
    /// Number of records in each log.
    lengths: Vec<u64>,
    last: HashMap<u64, Place>,
    /// For each open transaction, one bit for each log that must be durable before the transaction
    /// commits.
    open: HashMap<u64, u64>,
    counted: Counted,
}

impl Counter {
    /// Makes a counter that distributes records over `logs` logs, at most [`LOGS_MAX`].
    pub fn new(assignment: Assignment, logs: usize) -> Counter {
        Counter {
            assignment,
            dealt: HashMap::new(),
            lengths: vec![0; logs.clamp(1, LOGS_MAX)],
            last: HashMap::new(),
            open: HashMap::new(),
            counted: Counted::default(),
        }
    }

    /// Counts a record by which transaction `txn` changes `pages`.
    pub fn change(&mut self, txn: u64, pages: &[u64]) {
        let Some(first) = pages.first() else { return };
        let what = match self.assignment {
            Assignment::Transaction => txn,
            Assignment::Page => *first,
        };
        let next = self.dealt.len() % self.lengths.len();
        let log = *self.dealt.entry(what).or_insert(next);
        let mut needed = 1 << log;
        let (mut crosses, mut is_tight) = (false, false);
        for page in pages {
            let Some(older) = self.last.get(page).filter(|older| older.log != log) else { continue };
            crosses = true;
            if self.lengths[older.log] - older.number <= TIGHT {
                is_tight = true;
                needed |= 1 << older.log;
            }
        }
        let number = self.lengths[log];
        self.lengths[log] += 1;
        self.last.extend(pages.iter().map(|page| (*page, Place { log, number })));
        *self.open.entry(txn).or_default() |= needed;
        self.counted.records += 1;
        self.counted.crossing += u64::from(crosses);
        self.counted.tight += u64::from(is_tight);
    }

    /// Counts the commit of transaction `txn`.
    pub fn commit(&mut self, txn: u64) {
        let Some(needed) = self.open.remove(&txn) else { return };
        self.counted.commits += 1;
        self.counted.spanning += u64::from(needed.count_ones() > 1);
    }

    /// Forgets transaction `txn`, which has been rolled back.
    pub fn abort(&mut self, txn: u64) {
        self.open.remove(&txn);
    }

    /// Counts so far.
    pub fn counted(&self) -> Counted {
        self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(assignment: Assignment) -> Counter {
        Counter::new(assignment, 8)
    }

    #[test]
    fn a_page_that_moves_between_logs_makes_a_dependence_and_one_that_stays_makes_none() {
        let mut counter = counter(Assignment::Transaction);
        // Transactions 1 to 8 use all eight logs. Transaction 9 gets the log of transaction 1.
        (1..=8).for_each(|txn| counter.change(txn, &[txn]));
        [1, 9, 9].into_iter().for_each(|txn| counter.change(txn, &[1]));
        assert_eq!((counter.counted().records, counter.counted().crossing), (11, 0));
        counter.change(10, &[1]);
        let Counted { crossing, tight, .. } = counter.counted();
        assert_eq!((crossing, tight), (1, 1));
        counter.change(11, &[78, 1]);
        assert_eq!(counter.counted().crossing, 2, "of the second page");
    }

    #[test]
    fn a_dependence_on_the_sixth_record_from_the_end_is_not_tight() {
        for (others, tight) in [(4, 1), (5, 0)] {
            let mut counter = counter(Assignment::Transaction);
            counter.change(1, &[77]);
            (0..others).for_each(|page| counter.change(1, &[page]));
            counter.change(2, &[77]);
            counter.commit(2);
            let counted = counter.counted();
            assert_eq!(
                (counted.crossing, counted.tight, counted.spanning),
                (1, tight, tight),
                "{others} others"
            );
        }
    }

    #[test]
    fn a_commit_spans_the_logs_of_its_records_and_of_those_they_depend_on_tightly() {
        let mut by_page = counter(Assignment::Page);
        by_page.change(1, &[8]);
        by_page.change(1, &[16]);
        by_page.change(2, &[8]);
        by_page.change(2, &[9]);
        by_page.change(3, &[9]);
        (1..=4).for_each(|txn| by_page.commit(txn));
        let counted = by_page.counted();
        assert_eq!(
            (counted.commits, counted.spanning, counted.crossing),
            (3, 2, 0),
            "the fourth wrote nothing"
        );
        let mut by_transaction = counter(Assignment::Transaction);
        by_transaction.change(1, &[8]);
        by_transaction.commit(1);
        by_transaction.change(2, &[8]);
        by_transaction.abort(2);
        by_transaction.commit(2);
        by_transaction.change(4, &[8]);
        by_transaction.commit(4);
        let counted = by_transaction.counted();
        assert_eq!((counted.commits, counted.spanning), (2, 1), "what was rolled back is no commit");
    }
}
