//! Checking a database: its pages, trees, free-page map and log.

use crate::Lsn;
use std::fmt;
use std::sync::Arc;

/// Told how many pages of how many are checked.
pub type VerifyProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// One thing found wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where: the page, the table and key, or the log position.
    pub place: String,
    /// What is wrong.
    pub finding: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.finding)
    }
}

/// What a check found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Whether the database had been closed cleanly. If not, and it is not open, pages that recovery would still change
    /// were not judged by the tree they are in.
    pub clean: bool,
    /// Pages read.
    pub pages: u64,
    /// Tables walked.
    pub tables: u64,
    /// Keys seen.
    pub keys: u64,
    /// Log records read.
    pub log_records: u64,
    /// Where the log begins.
    pub log_start: Lsn,
    /// Where the log ends.
    pub log_end: Lsn,
    /// What is wrong, in the order found; at most 1,000.
    pub faults: Vec<Fault>,
    /// Remarks that are no faults, such as a torn tail that recovery will cut.
    pub notes: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }
}
