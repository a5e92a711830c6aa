//! A cursor: a position in a range of keys that can be moved in both directions. Both engines share
//! this code.
//!
//! The thread that uses the transaction uses its cursors. A cursor is built from ranges: it reads
//! one range while it moves in one direction. When it turns, it begins another range at its key;
//! when it jumps, it begins another range at the place to which it jumps. So the locks and errors
//! of a cursor are those of ranges, and the cursor shows the transaction's own writes as ranges do.
//! Invariants:
//!
//! 1. `key` and `value` are those of the entry that the last move found, if `position` is
//!    [`Position::At`].
//! 2. `walk` is the direction of the cursor's last moves, and the range of the keys that lie beyond
//!    the cursor's position in this direction. A move that does not continue this range drops it.

use crate::direction::Direction;
use crate::error::Result;
use crate::key_range::KeyRange;
use crate::range::Range;
use crate::table::Table;
use crate::transaction::Transaction;
use std::fmt;
use std::ops::Bound;

/// Position of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Before the first key of its range.
    Before,
    At,
    /// Behind the last key of its range.
    Behind,
}

/// A position in a range of keys that can be moved: at a key, before the first key, or behind the
/// last key.
///
/// A move returns the entry at the new position, with the transaction's own writes. A move past an
/// end of the range returns `None`; from there the cursor can move back. Other calls of the
/// transaction do not move the cursor: it stays at its key even if the key is deleted, and the next
/// move goes to the key that is the neighbour at the time of the move. The keys that a cursor has
/// passed over are locked as by [`Transaction::range`].
///
/// ```
/// # fn main() -> katydid::Result<()> {
/// # let database = katydid::Database::in_memory()?;
/// let fruit = database.table("fruit")?;
/// let txn = database.begin()?;
/// for name in ["apple", "banana", "cherry"] {
///     txn.put(&fruit, name, "7")?;
/// }
/// let mut cursor = txn.cursor(&fruit, ..);
/// assert_eq!(cursor.seek("b")?, Some((&b"banana"[..], &b"7"[..])));
/// assert!(cursor.put("8")?);
/// assert_eq!(cursor.prev()?, Some((&b"apple"[..], &b"7"[..])));
/// assert!(cursor.delete()?);
/// assert_eq!(cursor.prev()?, None);
/// assert_eq!(cursor.next()?, Some((&b"banana"[..], &b"8"[..])));
/// # Ok(())
/// # }
/// ```
pub struct Cursor<'t> {
    transaction: &'t Transaction,
    table: Table,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    position: Position,
    key: Vec<u8>,
    value: Vec<u8>,
    walk: Option<(Direction, Range<'t>)>,
}

/// An entry: key and value.
type Entry<'c> = (&'c [u8], &'c [u8]);

impl Transaction {
    /// Returns a cursor over the keys in `keys`, positioned before the first key. The cursor reads
    /// and locks nothing before its first move.
    pub fn cursor<'t>(&'t self, table: &Table, keys: impl KeyRange) -> Cursor<'t> {
        let (low, high) = keys.into_bounds();
        Cursor {
            transaction: self,
            table: table.clone(),
            low,
            high,
            position: Position::Before,
            key: Vec::new(),
            value: Vec::new(),
            walk: None,
        }
    }
}

impl Cursor<'_> {
    /// Moves to the next key and returns its entry. From before the first key the cursor moves to
    /// the first key; behind the last key it stays and returns `None`. Errors are those of
    /// [`Transaction::range`]; after an error the cursor has not moved.
    #[expect(clippy::should_implement_trait, reason = "it lends its entry, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        self.step(Direction::Up)
    }

    /// Moves to the previous key and returns its entry. From behind the last key the cursor moves
    /// to the last key; before the first key it stays and returns `None`. Errors are those of
    /// [`Cursor::next`].
    pub fn prev(&mut self) -> Result<Option<Entry<'_>>> {
        self.step(Direction::Down)
    }

    /// Moves to the first key of the cursor's range and returns its entry; `None` if the range is
    /// empty. Errors are those of [`Cursor::next`].
    pub fn first(&mut self) -> Result<Option<Entry<'_>>> {
        self.walk_from(Direction::Up, self.low.clone(), self.high.clone())
    }

    /// Moves to the last key of the cursor's range and returns its entry; `None` if the range is
    /// empty. Errors are those of [`Cursor::next`].
    pub fn last(&mut self) -> Result<Option<Entry<'_>>> {
        self.walk_from(Direction::Down, self.low.clone(), self.high.clone())
    }

    /// Moves to the first key of the cursor's range that is `key` or greater, and returns its
    /// entry. If there is no such key, moves behind the last key and returns `None`. Errors are
    /// those of [`Cursor::next`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Entry<'_>>> {
        let low = greater(self.low.clone(), key.as_ref());
        self.walk_from(Direction::Up, low, self.high.clone())
    }

    /// Moves to the last key of the cursor's range that is `key` or less, and returns its entry. If
    /// there is no such key, moves before the first key and returns `None`. Errors are those of
    /// [`Cursor::next`].
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Entry<'_>>> {
        let high = less(self.high.clone(), key.as_ref());
        self.walk_from(Direction::Down, self.low.clone(), high)
    }

    /// Returns the key at the cursor; `None` if the cursor is past an end. The key may have been
    /// deleted since the move.
    pub fn key(&self) -> Option<&[u8]> {
        (self.position == Position::At).then_some(&*self.key)
    }

    /// Reads the entry at the cursor again; `None` if the cursor is past an end or the key was
    /// deleted since the move. Errors are those of [`Transaction::get`].
    pub fn current(&mut self) -> Result<Option<Entry<'_>>> {
        if self.position != Position::At {
            return Ok(None);
        }
        let Some(value) = self.transaction.get(&self.table, &self.key)? else { return Ok(None) };
        self.value = value;
        Ok(Some((&self.key, &self.value)))
    }

    /// Sets the value of the key at the cursor, even if the key was deleted since the move. Returns
    /// `false` and changes nothing if the cursor is past an end. The cursor stays where it is.
    /// Errors are those of [`Transaction::put`].
    pub fn put(&mut self, value: impl AsRef<[u8]>) -> Result<bool> {
        if self.position != Position::At {
            return Ok(false);
        }
        self.transaction.put(&self.table, &self.key, value)?;
        Ok(true)
    }

    /// Deletes the key at the cursor, and returns whether it was there. The cursor stays where it
    /// is: the next move goes to a neighbour of the deleted key. Errors are those of
    /// [`Transaction::delete`].
    pub fn delete(&mut self) -> Result<bool> {
        if self.position != Position::At {
            return Ok(false);
        }
        self.transaction.delete(&self.table, &self.key)
    }

    fn step(&mut self, direction: Direction) -> Result<Option<Entry<'_>>> {
        let past = match direction {
            Direction::Up => Position::Behind,
            Direction::Down => Position::Before,
        };
        if self.position == past {
            return Ok(None);
        }
        if self.walk.as_ref().is_some_and(|(walked, _)| *walked == direction) {
            return self.go_on();
        }
        let (mut low, mut high) = (self.low.clone(), self.high.clone());
        if self.position == Position::At {
            match direction {
                Direction::Up => low = Bound::Excluded(self.key.clone()),
                Direction::Down => high = Bound::Excluded(self.key.clone()),
            }
        }
        self.walk_from(direction, low, high)
    }

    fn walk_from(
        &mut self,
        direction: Direction,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
    ) -> Result<Option<Entry<'_>>> {
        self.walk = Some((direction, self.transaction.range(&self.table, (low, high))));
        self.go_on()
    }

    /// Moves to the next entry of `walk` and returns it.
    fn go_on(&mut self) -> Result<Option<Entry<'_>>> {
        let Some((direction, mut range)) = self.walk.take() else { return Ok(None) };
        let (found, past) = match direction {
            Direction::Up => (range.next_ref()?, Position::Behind),
            Direction::Down => (range.next_back_ref()?, Position::Before),
        };
        let Some((key, value)) = found else {
            self.position = past;
            return Ok(None);
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        self.position = Position::At;
        self.walk = Some((direction, range));
        Ok(Some((&self.key, &self.value)))
    }
}

/// Returns the greater of two lower bounds: `low`, and `key` included.
fn greater(low: Bound<Vec<u8>>, key: &[u8]) -> Bound<Vec<u8>> {
    match &low {
        Bound::Included(at) if &**at > key => low,
        Bound::Excluded(at) if &**at >= key => low,
        _ => Bound::Included(key.to_vec()),
    }
}

/// Returns the lesser of two upper bounds: `high`, and `key` included.
fn less(high: Bound<Vec<u8>>, key: &[u8]) -> Bound<Vec<u8>> {
    match &high {
        Bound::Included(at) if &**at < key => high,
        Bound::Excluded(at) if &**at <= key => high,
        _ => Bound::Included(key.to_vec()),
    }
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("table", &self.table)
            .field("position", &self.position)
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}
