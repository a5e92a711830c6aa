//! Options for two rules of the memory engine: by default the rules differ from those of the papers
//! on Cicada; other values follow the papers.
//!
//! Nothing here does I/O.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Rule of the memory engine for when a transaction checks for conflicts, and when it pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Contention {
    /// A transaction validates its reads once, after it has installed its versions, and pauses
    /// after a failed validation.
    #[default]
    AtValidation,
    /// Early checks and pauses, as in the original Cicada. A transaction also checks its reads
    /// before it installs its versions (early version consistency check, section 3.4), unless the
    /// thread's last five transactions all passed validation. A transaction pauses after every
    /// conflict, also after one in `get`, `put` or `delete` (contention regulation, section 3.9).
    /// The pause comes when the transaction is rolled back, and takes a random time. The maximum of
    /// this time is adapted to the throughput and is at most 1 ms.
    Early,
}

/// Rule of the memory engine for how long it keeps a replaced version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OldVersions {
    /// A replaced version is kept until no transaction can read it any more.
    #[default]
    UntilUnread,
    /// A replaced version is also kept until all log records with a timestamp below that of the
    /// replacing version are durable (Cicada with P-WAL, section III-C). When memory is full, the
    /// rule `UntilUnread` applies.
    UntilDurable,
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Contention::AtValidation => "at-validation",
            Contention::Early => "early",
        })
    }
}

impl FromStr for Contention {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "at-validation" => Ok(Contention::AtValidation),
            "early" => Ok(Contention::Early),
            _ => Err(Error::Option {
                option: "contention",
                reason: format!("must be at-validation or early, not {text:?}"),
            }),
        }
    }
}

impl fmt::Display for OldVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            OldVersions::UntilUnread => "until-unread",
            OldVersions::UntilDurable => "until-durable",
        })
    }
}

impl FromStr for OldVersions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "until-unread" => Ok(OldVersions::UntilUnread),
            "until-durable" => Ok(OldVersions::UntilDurable),
            _ => Err(Error::Option {
                option: "old_versions",
                reason: format!("must be until-unread or until-durable, not {text:?}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_the_word_it_is_shown_as() {
        for rule in [Contention::AtValidation, Contention::Early] {
            assert_eq!(rule.to_string().parse::<Contention>().expect("a word"), rule);
        }
        for rule in [OldVersions::UntilUnread, OldVersions::UntilDurable] {
            assert_eq!(rule.to_string().parse::<OldVersions>().expect("a word"), rule);
        }
        assert!(
            "late".parse::<Contention>().expect_err("no such rule").to_string().contains("at-validation")
        );
        assert!("".parse::<OldVersions>().expect_err("no such rule").to_string().contains("until-durable"));
    }
}
