//! Rules of the memory engine that the papers on Cicada compare, each beside ours.
//!
//! Pure; any thread.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Rule of the memory engine for when a transaction looks for conflicts, and after which it pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Contention {
    /// A transaction validates its reads once, after its versions were put in place, and pauses
    /// after a validation that failed.
    #[default]
    AtValidation,
    /// Early checks and pauses, as in the original Cicada. What a transaction has read is also
    /// checked before its versions are put in place (early version consistency check, section 3.4),
    /// unless the thread's last five transactions were all validated. A transaction pauses after
    /// every conflict, also one that `get`, `put` or `delete` has met (contention regulation,
    /// section 3.9): when it is rolled back, for a random time below a maximum of at most 1 ms that
    /// follows the throughput.
    Early,
}

/// Rule of the memory engine for how long it keeps a replaced version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OldVersions {
    /// Until no transaction can read it any more.
    #[default]
    UntilUnread,
    /// Also until no record is in the log's memory that is not durable and has an earlier timestamp
    /// than the version that replaced it (Cicada with P-WAL, section III-C). When memory is full,
    /// `UntilUnread` holds.
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
