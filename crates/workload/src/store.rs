//! The interface between a store and a workload. Any store that implements it runs under the same
//! driver.
//!
//! All threads share a [`Store`]. Each thread has a [`Client`] and runs one [`Transaction`] at a
//! time on it, while commits of earlier transactions may still be in flight. Rules:
//!
//! 1. `commit` returns, and the callback of `commit_with` runs, only when the commit has the
//!    durability for which the store was opened. The driver measures this durability.
//! 2. Callbacks run inside `poll` or `wait_below` of the client that committed, or on any other
//!    thread.
//! 3. Dropping a transaction rolls it back.
//! 4. Reads need not be consistent before the commit: a store that validates in the commit may show
//!    half of another transaction. An inconsistency ([`StoreError::is_doubtful`]) is therefore a
//!    fault only if it appears in every attempt.
//! 5. An error for which [`StoreError::is_retryable`] holds has no effects: the same transaction
//!    may be run again.

use std::error::Error;
use std::fmt;

/// Reason why a call on a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The transaction conflicts with another transaction. Run it again.
    #[error("conflict: {0}")]
    Conflict(Box<dyn Error + Send + Sync>),
    /// `insert` found the key present.
    #[error("the key {0:?} exists already")]
    KeyExists(String),
    /// The values that were read differ from the values that were acknowledged before. If this
    /// happens in every attempt, the store or the driver has a bug.
    #[error("inconsistent: {0}")]
    Inconsistent(String),
    /// Any other error of the store.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Returns whether the same transaction, run again, may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Conflict(_))
    }

    /// Returns whether the transaction may have read inconsistent values, with which it could not
    /// have committed.
    pub fn is_doubtful(&self) -> bool {
        matches!(self, StoreError::KeyExists(_) | StoreError::Inconsistent(_))
    }
}

/// The result of a call on a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Intent of a transaction: it may write, or only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intent {
    /// The transaction only reads.
    ReadOnly,
    /// The transaction may write.
    ReadWrite,
}

/// Counters of a store since it was opened; `None` if the store does not count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Durable writes or syncs of the log.
    pub syncs: Option<u64>,
    /// Bytes that these writes or syncs made durable.
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
    /// The client of one thread.
    type Client<'s>: Client
    where
        Self: 's;

    /// Creates a client for the tables with these names (at least one). Missing tables are created.
    fn client(&self, tables: &[&str]) -> Result<Self::Client<'_>>;

    /// Counters since the store was opened.
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

    /// Runs the callbacks of finished commits and returns their number. Never blocks.
    fn poll(&mut self) -> usize;

    /// Number of commits whose callbacks have not run.
    fn pending(&self) -> usize;

    /// Runs callbacks and blocks until fewer than `limit` commits are pending. `limit` is at least
    /// 1.
    fn wait_below(&mut self, limit: usize) -> Result<()>;
}

/// An interval of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys<'k> {
    /// The first key of the interval, whether it is present or not.
    pub from: &'k [u8],
    /// All keys of the interval lie before this key, if there is one.
    pub to: Option<&'k [u8]>,
}

impl<'k> Keys<'k> {
    /// All keys of a table.
    pub const ALL: Keys<'static> = Keys { from: &[], to: None };

    /// All keys from `from` on.
    pub fn from(from: &'k [u8]) -> Self {
        Keys { from, to: None }
    }

    /// All keys from `from` on and before `to`.
    pub fn between(from: &'k [u8], to: &'k [u8]) -> Self {
        Keys { from, to: Some(to) }
    }
}

/// Reads and writes that happen all or not at all.
///
/// Calls refer to one of the client's tables: the first, or the table that [`Transaction::on`]
/// chose last.
pub trait Transaction: Sized {
    /// Chooses the table of the calls that follow. Tables are numbered from 0 in the order in which
    /// [`Store::client`] received their names.
    fn on(&mut self, table: usize) -> &mut Self;

    /// The value of `key`.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Passes the value of `key` to `visit`, without a copy if the store can lend it. Returns
    /// whether the key was present.
    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.get(key)?;
        Ok(value.map(|value| visit(&value)).is_some())
    }

    /// The value of `key`, which this transaction will write.
    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Sets the value of `key`.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Sets the value of `key`; [`StoreError::KeyExists`] if the key is present.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes `key`. Returns whether the key was present.
    fn delete(&mut self, key: &[u8]) -> Result<bool>;

    /// Passes at most `limit` keys of `keys` and their values to `visit`, in order. Returns the
    /// number of keys.
    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize>;

    /// Reads `key`, lets `change` edit the value and writes the value back. Returns whether the key
    /// was present.
    fn read_modify_write(&mut self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool> {
        let Some(mut value) = self.get_for_update(key)? else { return Ok(false) };
        change(&mut value);
        self.put(key, &value)?;
        Ok(true)
    }

    /// Commits and waits until the commit is durable.
    fn commit(self) -> Result<()>;

    /// Commits. `done` receives the result when the commit is durable or has failed.
    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static);
}

/// A key as messages show it.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}
