//! Checking a database, open or not: what is found. How it is found is its engine's.

use crate::Lsn;
use crate::control;
use crate::database::{Database, existing};
use crate::error::{Error, Result};
use crate::memory;
use crate::options::EngineKind;
use crate::paged;
use katydid_device::Directory;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Faults listed at most.
const FAULTS_MAX: usize = 1000;
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

impl VerifyReport {
    pub(crate) fn fault(&mut self, place: impl Into<String>, finding: impl Into<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { place: place.into(), finding: finding.into() });
        }
    }

    /// Corruption is what is looked for; other failures end the check.
    pub(crate) fn note(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(Error::Corrupt { place, finding, .. }) => {
                self.fault(place, finding);
                Ok(())
            }
            result => result,
        }
    }
}

impl Database {
    /// The same without opening the database and without changing anything. A database that was not closed cleanly is
    /// checked as it lies there: its log, and its pages one by one; how they hang together is known only after recovery.
    pub fn verify_path(path: impl AsRef<Path>, progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        Self::verify_in(&existing(path.as_ref())?, progress)
    }

    /// As [`Database::verify_path`], in a directory of any device.
    pub fn verify_in(directory: &dyn Directory, progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        let place = directory.describe();
        let Some(control) = control::read(directory)? else { return Err(Error::NotFound { place }) };
        match control.engine {
            EngineKind::Paged => paged::verify::verify_in(directory, &control, progress),
            EngineKind::Memory => memory::verify::verify_in(directory, &control, progress),
        }
    }
}
