//! The keys of a range, from either end.
//!
//! The thread that uses a transaction also uses its ranges. A step borrows the transaction until
//! the step returns, so steps of several ranges, reads and writes of one transaction can be
//! interleaved.

use crate::direction::Direction;
use crate::engine::EngineRange;
use crate::error::{Error, Result};
use crate::open::{ChosenRange, ChosenTransaction, ChosenUnlocked};
use std::cell::RefCell;
use std::fmt;

/// An iterator over the keys and values of a range, from either end. After an error the iterator
/// ends, and the transaction may have to roll back.
///
/// The transaction can be used between two steps of the range: for reads, for writes, and for other
/// ranges. Each step returns an entry as it is at that step, with the transaction's own writes. The
/// range finds keys that the transaction writes ahead of the range's position, but not keys that
/// the transaction writes behind this position. A range that has returned `None` has ended.
///
/// ```
/// # fn main() -> katydid::Result<()> {
/// # let database = katydid::Database::in_memory()?;
/// let (jobs, done) = (database.table("jobs")?, database.table("done")?);
/// let txn = database.begin()?;
/// for job in ["mail", "print", "scan"] {
///     txn.put(&jobs, job, "")?;
/// }
/// for row in txn.range(&jobs, "n"..) {
///     let (job, _value) = row?;
///     txn.delete(&jobs, &job)?;
///     txn.put(&done, &job, "")?;
/// }
/// assert_eq!((txn.count(&jobs, ..)?, txn.count(&done, ..)?), (1, 2));
/// # Ok(())
/// # }
/// ```
pub struct Range<'t> {
    transaction: &'t RefCell<ChosenTransaction>,
    /// The range, or an error that the first step returns.
    of: std::result::Result<ChosenRange, Option<Error>>,
    /// Maximum number of entries to return from now on.
    limit: Option<usize>,
}

impl<'t> Range<'t> {
    pub(crate) fn new(transaction: &'t RefCell<ChosenTransaction>, of: Result<ChosenRange>) -> Self {
        Range { transaction, of: of.map_err(Some), limit: None }
    }

    /// Ends the range after `entries` entries, counted from both ends together. Unlike with
    /// `take(entries)`, the engine knows the number beforehand: the paged engine reads and locks
    /// the entries at once (up to 128 entries, or 128 KiB), and no entry beyond them. Without a
    /// limit the paged engine reads and locks batches of growing size.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let database = katydid::Database::open(folder.path().join("db"))?;
    /// # let fruit = database.table("fruit")?;
    /// # let txn = database.begin()?;
    /// for name in ["apple", "banana", "cherry"] {
    ///     txn.put(&fruit, name, "7")?;
    /// }
    /// let first: Vec<_> = txn.range(&fruit, "b"..).limit(1).collect::<katydid::Result<_>>()?;
    /// assert_eq!(first, [(b"banana".to_vec(), b"7".to_vec())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit(mut self, entries: usize) -> Self {
        self.limit = Some(self.limit.map_or(entries, |limit| limit.min(entries)));
        self
    }

    /// Returns the next key and its value without a copy; both are valid until the next step of
    /// this range. In all else the call works as `next` does.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let database = katydid::Database::open(folder.path().join("db"))?;
    /// # let fruit = database.table("fruit")?;
    /// # let txn = database.begin()?;
    /// for name in ["apple", "banana", "cherry"] {
    ///     txn.put(&fruit, name, "7")?;
    /// }
    /// let mut bytes = 0;
    /// let mut range = txn.range(&fruit, "b"..);
    /// while let Some((key, value)) = range.next_ref()? {
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!(bytes, 14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Up)
    }

    /// Returns the next entry from the other end, without a copy. See [`Range::next_ref`].
    pub fn next_back_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Down)
    }

    fn step(&mut self, direction: Direction) -> Result<Option<(&[u8], &[u8])>> {
        let before = self.limit;
        if let Some(limit) = &mut self.limit {
            let Some(left) = limit.checked_sub(1) else { return Ok(None) };
            *limit = left;
        }
        match &mut self.of {
            Ok(range) => range.step(&mut self.transaction.borrow_mut(), direction, before),
            Err(error) => error.take().map_or(Ok(None), Err),
        }
    }

    fn copy(&mut self, direction: Direction) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        let entry = self.step(direction).transpose()?;
        Some(entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.copy(Direction::Up)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.copy(Direction::Down)
    }
}

impl std::iter::FusedIterator for Range<'_> {}

impl fmt::Debug for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Ok(range) => range.fmt(f),
            Err(error) => write!(f, "Range({error:?})"),
        }
    }
}

/// An iterator over the keys and values of a range that no other transaction has locked, in order.
/// After an error the iterator ends. See
/// [`Transaction::range_unlocked`](crate::Transaction::range_unlocked). The transaction can be used
/// between two steps, as with a [`Range`].
pub struct UnlockedRange<'t> {
    transaction: &'t RefCell<ChosenTransaction>,
    /// The range, or an error that the first step returns.
    of: std::result::Result<ChosenUnlocked, Option<Error>>,
}

impl<'t> UnlockedRange<'t> {
    pub(crate) fn new(transaction: &'t RefCell<ChosenTransaction>, of: Result<ChosenUnlocked>) -> Self {
        UnlockedRange { transaction, of: of.map_err(Some) }
    }

    /// Returns the next key and its value without a copy; both are valid until the next step. In
    /// all else the call works as `next` does.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match &mut self.of {
            Ok(range) => range.step(&mut self.transaction.borrow_mut(), Direction::Up, None),
            Err(error) => error.take().map_or(Ok(None), Err),
        }
    }
}

impl Iterator for UnlockedRange<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_ref().transpose()?;
        Some(entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

impl std::iter::FusedIterator for UnlockedRange<'_> {}

impl fmt::Debug for UnlockedRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Ok(range) => range.fmt(f),
            Err(error) => write!(f, "UnlockedRange({error:?})"),
        }
    }
}
