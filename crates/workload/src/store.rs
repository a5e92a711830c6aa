//! The interface of a store to a workload: any store can stand behind the same driver.
//!
//! A [`Store`] is shared by all threads; each thread has a [`Client`] of its own and runs one
//! [`Transaction`] at a time on it, while commits of earlier ones may still be in flight.
//!
//! 1. `commit` returns, and the callback of `commit_with` runs, only when the commit is as durable
//!    as the store was opened to make it. This is what the driver measures.
//! 2. Callbacks run inside `poll` or `wait_below` of the client that committed, or on any other
//!    thread.
//! 3. Dropping a transaction rolls it back.
//! 4. What a transaction sees need not be consistent until it commits: a store that validates then
//!    may show it half of another one. So what it finds wrong ([`StoreError::is_doubtful`]) is
//!    wrong only if it is so again and again.
//! 5. An error for which [`StoreError::is_retryable`] holds leaves nothing behind: the same
//!    transaction may be run again.

use std::error::Error;
use std::fmt;

/// Reason why a call on a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another transaction was in the way; run this one again.
    #[error("conflict: {0}")]
    Conflict(Box<dyn Error + Send + Sync>),
    /// `insert` found the key present.
    #[error("the key {0:?} exists already")]
    KeyExists(String),
    /// The values that were read are not those that were acknowledged before. The store, or the
    /// driver, is wrong.
    #[error("inconsistent: {0}")]
    Inconsistent(String),
    /// Anything else the store reports.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Returns whether the same transaction, run again, may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Conflict(_))
    }

    /// Returns whether the transaction may have seen something with which it could not have
    /// committed.
    pub fn is_doubtful(&self) -> bool {
        matches!(self, StoreError::KeyExists(_) | StoreError::Inconsistent(_))
    }
}

/// The result of a call on a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Intent of a transaction: it may write, or only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intent {
    /// It only reads.
    ReadOnly,
    /// It may write.
    ReadWrite,
}

/// Counters of a store since it was opened; `None` where it does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Durable writes or syncs of the log.
    pub syncs: Option<u64>,
    /// Bytes those made durable.
    pub bytes_synced: Option<u64>,
}

impl Counters {
    /// Counts between `earlier` and this.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let difference = |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old?));
        Counters {
            syncs: difference(self.syncs, earlier.syncs),
            bytes_synced: difference(self.bytes_synced, earlier.bytes_synced),
        }
    }
}

/// A store of byte keys and values in named tables.
pub trait Store: Send + Sync {
    /// Client with which one thread works.
    type Client<'s>: Client
    where
        Self: 's;

    /// A client for the tables of these names, at least one, which are created where there are
    /// none.
    fn client(&self, tables: &[&str]) -> Result<Self::Client<'_>>;

    /// Counters so far.
    fn counters(&self) -> Result<Counters>;

    /// Name and version, for reports.
    fn describe(&self) -> String;
}

/// One thread's access to some tables.
pub trait Client {
    /// A transaction under way.
    type Transaction<'c>: Transaction
    where
        Self: 'c;

    /// Begins a transaction.
    fn begin(&mut self, intent: Intent) -> Result<Self::Transaction<'_>>;

    /// Runs the callbacks of commits that are done; how many. Never blocks.
    fn poll(&mut self) -> usize;

    /// Commits whose callbacks have not run.
    fn pending(&self) -> usize;

    /// Blocks until fewer than `limit` commits are pending, running callbacks. `limit` is at least
    /// 1.
    fn wait_below(&mut self, limit: usize) -> Result<()>;
}

/// Keys beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys<'k> {
    /// The first one, if it is there.
    pub from: &'k [u8],
    /// They all lie before this one, if there is such a limit.
    pub to: Option<&'k [u8]>,
}

impl<'k> Keys<'k> {
    /// All keys of a table.
    pub const ALL: Keys<'static> = Keys { from: &[], to: None };

    /// From `from` on.
    pub fn from(from: &'k [u8]) -> Self {
        Keys { from, to: None }
    }

    /// From `from` on, before `to`.
    pub fn between(from: &'k [u8], to: &'k [u8]) -> Self {
        Keys { from, to: Some(to) }
    }
}

/// Reads and writes that happen all or not at all.
///
/// They are about one of the client's tables: the first, until [`Transaction::on`] says otherwise.
pub trait Transaction: Sized {
    /// Lets the calls that follow be about the table of this number, counted from 0 in the order in
    /// which the client was asked for them.
    fn on(&mut self, table: usize) -> &mut Self;

    /// The value of `key`.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The value of `key`, which this transaction is about to write.
    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Sets the value of `key`.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Sets the value of `key`; [`StoreError::KeyExists`] if it has one.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes `key`. Returns whether it was there.
    fn delete(&mut self, key: &[u8]) -> Result<bool>;

    /// Shows `visit` at most `limit` keys of `keys`, in order. Returns the number of keys.
    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize>;

    /// Reads `key`, lets `change` work on its value and writes it back. Returns whether it was
    /// there.
    fn read_modify_write(&mut self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool> {
        let Some(mut value) = self.get_for_update(key)? else { return Ok(false) };
        change(&mut value);
        self.put(key, &value)?;
        Ok(true)
    }

    /// Commits and waits until that is durable.
    fn commit(self) -> Result<()>;

    /// Commits; `done` is told once that is durable, or why it is not.
    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static);
}

/// A key as it is shown in messages.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}
