//! Faults of a payload that cannot be decoded.
//!
//! A `Malformed` is a plain value; any thread may use it.

use crate::{Error, Lsn};

/// The rule that a payload breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

impl Malformed {
    /// The error for the record at `lsn`.
    pub(crate) fn at(self, lsn: Lsn) -> Error {
        Error::Corrupt { place: format!("log record at {lsn}"), page: None, finding: self.0.to_owned() }
    }
}
