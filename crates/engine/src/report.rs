//! The findings of a check. The engines do the checks.

use crate::Lsn;
use crate::error::{Error, Foreign, Result};
use std::fmt;
use std::sync::Arc;

/// Maximum number of faults in a report.
const FAULTS_MAX: usize = 1000;

/// A receiver of progress, called with the number of steps done and the number of all steps. A step
/// is a page in the paged engine; in the memory engine it is a table of an open database, or a
/// checkpoint file of a closed one.
pub type VerifyProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A fault that a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The place of the fault: the page, the table and key, or the log position.
    pub place: String,
    /// The fault, in words.
    pub finding: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.finding)
    }
}

/// The findings of a check.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// True if the database had been closed cleanly. If it was neither closed cleanly nor open, the
    /// check read the state that recovery would produce.
    pub clean: bool,
    /// Number of pages read.
    pub pages: u64,
    /// Number of tables read.
    pub tables: u64,
    /// Number of keys read.
    pub keys: u64,
    /// Number of log records read.
    pub log_records: u64,
    /// Start of the log.
    pub log_start: Lsn,
    /// End of the log.
    pub log_end: Lsn,
    /// Faults, in the order found; at most 1,000.
    pub faults: Vec<Fault>,
    /// Remarks that are no faults, such as a torn tail that recovery will cut.
    pub notes: Vec<String>,
    /// The reason why the check could not read the state that recovery would produce: the database
    /// was not closed cleanly, and its log is in NVRAM. Such a database may be sound or not. `None`
    /// if everything was checked.
    pub unchecked: Option<String>,
}

impl VerifyReport {
    /// Returns true if everything was checked and no fault was found.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty() && self.unchecked.is_none()
    }

    pub(crate) fn fault(&mut self, place: impl Into<String>, finding: impl Into<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { place: place.into(), finding: finding.into() });
        }
    }

    /// Adds a corruption in `result`, or a file that is not one of this database, to the faults.
    /// Returns any other failure, which ends the check.
    pub(crate) fn note(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(Error::Corrupt { place, finding, .. }) => {
                self.fault(place, finding);
                Ok(())
            }
            Err(Error::Foreign { ref what, .. }) => {
                let (Foreign::Magic(file) | Foreign::NewerVersion { file, .. } | Foreign::Identity(file)) =
                    what
                else {
                    return result;
                };
                let place = file.clone();
                self.fault(place, what.to_string());
                Ok(())
            }
            result => result,
        }
    }
}
