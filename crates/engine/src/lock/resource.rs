//! The resource of a lock as errors show it, and the error of a refused lock.

use super::range::Interval;
use crate::contested::{Contested, ContestedKeys, KeyExcerpt};
use crate::error::ConflictKind;
use crate::ids::{TableId, TxnId};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// The resource of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resource {
    /// A table as a whole.
    Table(TableId),
    /// One key, whether or not it is present.
    Point(TableId, Box<[u8]>),
    /// All keys of an interval, present or not.
    Range(TableId, Interval),
}

/// Error: a lock was not granted. The transaction keeps the locks that it holds, and should roll
/// back. A transaction that is run again may succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("transaction {victim} gave way: it wanted {wanted}{}; {}", Blockers(blockers), Cause(*kind))]
pub(crate) struct Conflict {
    /// The caller's transaction, which was refused the lock.
    pub(crate) victim: TxnId,
    /// The transactions that blocked the victim: holders, or earlier waiters.
    pub(crate) blockers: Vec<TxnId>,
    /// The resource that the transaction wanted.
    pub(crate) wanted: Resource,
    /// `Deadlock`, or `Timeout` for every other wait that ended without a grant.
    pub(crate) kind: ConflictKind,
    /// A transaction for which the victim waited, directly or through other transactions, and which
    /// the victim's own thread was the last to use. So the thread may have waited for itself.
    /// `None` if no such transaction was found.
    pub(crate) own: Option<TxnId>,
}

impl Resource {
    /// The table and keys of the resource, for users.
    pub(super) fn contested(self, name: impl FnOnce(TableId) -> Arc<str>) -> Contested {
        let (table, keys) = match self {
            Resource::Table(table) => (table, ContestedKeys::All),
            Resource::Point(table, key) => (table, ContestedKeys::Key(KeyExcerpt::of(&key))),
            Resource::Range(table, Interval { low, high }) => {
                let excerpt = |bound: Bound<Box<[u8]>>| bound.map(|key| KeyExcerpt::of(&key));
                (table, ContestedKeys::Range(excerpt(low), excerpt(high)))
            }
        };
        Contested { table: name(table), keys, holder_open: None }
    }
}

struct Blockers<'a>(&'a [TxnId]);

impl fmt::Display for Blockers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, txn) in self.0.iter().enumerate() {
            write!(f, "{}{txn}", if i == 0 { ", behind transaction " } else { ", " })?;
        }
        Ok(())
    }
}

struct Cause(ConflictKind);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            ConflictKind::Timeout => "the lock was not granted in time",
            _ => "they waited for each other",
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Table(table) => write!(f, "table {table}"),
            Resource::Point(table, key) => write!(f, "key {} of table {table}", Key(key)),
            Resource::Range(table, Interval { low, high }) => {
                match low {
                    Bound::Included(key) => write!(f, "keys [{}, ", Key(key)),
                    Bound::Excluded(key) => write!(f, "keys ({}, ", Key(key)),
                    Bound::Unbounded => write!(f, "keys (.., "),
                }?;
                match high {
                    Bound::Included(key) => write!(f, "{}]", Key(key)),
                    Bound::Excluded(key) => write!(f, "{})", Key(key)),
                    Bound::Unbounded => write!(f, "..)"),
                }?;
                write!(f, " of table {table}")
            }
        }
    }
}

/// Shows a key in quotes with escaped bytes, cut after 48 bytes.
struct Key<'a>(&'a [u8]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 48;
        let shown = &self.0[..self.0.len().min(SHOWN)];
        write!(f, "\"{}\"{}", shown.escape_ascii(), if self.0.len() > SHOWN { ".." } else { "" })
    }
}
