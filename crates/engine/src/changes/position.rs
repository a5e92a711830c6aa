//! A position in the feed, which a program can store.
//!
//! Nothing here does I/O. The text form is `stamp@lsn,lsn,...` with one LSN for each stream.

use crate::error::Error;
use crate::{CommitStamp, Lsn};
use std::fmt;
use std::str::FromStr;

/// A position in the feed of one database: after the transaction with a given stamp. A program can
/// store it as text and continue from it in any later opening.
///
/// ```
/// use katydid::ChangePosition;
/// let position: ChangePosition = "4096@512,0".parse()?;
/// assert_eq!((position.stamp().get(), position.to_string()), (4096, "4096@512,0".to_owned()));
/// # Ok::<(), katydid::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChangePosition {
    pub(crate) stamp: CommitStamp,
    /// For each stream, a position at or above which all records of transactions with a greater
    /// stamp lie.
    pub(crate) from: Vec<Lsn>,
}

impl ChangePosition {
    /// The stamp of the last transaction before the position; zero if there is none.
    pub fn stamp(&self) -> CommitStamp {
        self.stamp
    }

    /// For each stream, the first position of the log that a feed needs to continue at this
    /// position.
    pub fn log_from(&self) -> &[Lsn] {
        &self.from
    }
}

impl fmt::Display for ChangePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.stamp)?;
        for (nth, from) in self.from.iter().enumerate() {
            write!(f, "{}{from}", if nth == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for ChangePosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let malformed = || Error::Option {
            option: "position",
            reason: format!("must be a stamp, @, and a position of each stream, not {text:?}"),
        };
        let (stamp, from) = text.split_once('@').ok_or_else(malformed)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| malformed());
        let lsn = |text: &str| Some(Lsn::new(number(text).ok()?)).filter(|lsn| *lsn <= Lsn::LIMIT);
        let from = from.split(',').map(|text| lsn(text).ok_or_else(malformed)).collect::<Result<_, _>>()?;
        let position = ChangePosition { stamp: CommitStamp::new(number(stamp)?), from };
        // A position has exactly one text, without signs and leading zeros, so that programs may
        // compare texts.
        if position.to_string() == text { Ok(position) } else { Err(malformed()) }
    }
}
