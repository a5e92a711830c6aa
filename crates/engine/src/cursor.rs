//! A cursor: a place in a range of keys that can be moved, once for both engines.
//!
//! Used by the thread that uses the transaction. It is made of ranges: one is walked as long as the
//! cursor goes on in one direction, and another one begins at the cursor's key when it turns or
//! jumps. So locks, errors and own writes are those of ranges. Invariants:
//!
//! 1. `key` and `value` are those of the entry that the last move found, if `position` is
//!    [`Position::At`].
//! 2. `walk` is a range from the cursor's place on, in its direction; a move that does not go on
//!    with it drops it.

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
    /// Behind the last one.
    Behind,
}

/// A place in a range of keys that can be kept and moved: at a key, before the first one, or behind
/// the last one.
///
/// A move returns the entry that the cursor stands at afterwards, as it is at that moment, the
/// transaction's own writes included; `None` if it has moved past an end, from where it can turn
/// back. Other calls of the transaction do not move the cursor: it stays at its key, also if the
/// key is deleted, and the next move goes to what is then the next key. What it has passed over is
/// locked as by [`Transaction::range`].
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
    /// A cursor over the keys in `keys`, before the first one. Nothing is read or locked before it
    /// is moved.
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
    /// Moves to the next key; from before the first key to that. Behind the last key it stays.
    /// Errors as [`Transaction::range`]; the cursor then has not moved.
    #[expect(clippy::should_implement_trait, reason = "it lends its entry, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        self.step(Direction::Up)
    }

    /// Moves to the key before; from behind the last key to that. Before the first key it stays.
    /// Errors as [`Cursor::next`].
    pub fn prev(&mut self) -> Result<Option<Entry<'_>>> {
        self.step(Direction::Down)
    }

    /// Moves to the first key of its range. Errors as [`Cursor::next`].
    pub fn first(&mut self) -> Result<Option<Entry<'_>>> {
        self.walk_from(Direction::Up, self.low.clone(), self.high.clone())
    }

    /// Moves to the last key of its range. Errors as [`Cursor::next`].
    pub fn last(&mut self) -> Result<Option<Entry<'_>>> {
        self.walk_from(Direction::Down, self.low.clone(), self.high.clone())
    }

    /// Moves to the first key of its range that is `key` or greater; behind the last one if there
    /// is none. Errors as [`Cursor::next`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Entry<'_>>> {
        let low = greater(self.low.clone(), key.as_ref());
        self.walk_from(Direction::Up, low, self.high.clone())
    }

    /// Moves to the last key of its range that is `key` or less; before the first one if there is
    /// none. Errors as [`Cursor::next`].
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Entry<'_>>> {
        let high = less(self.high.clone(), key.as_ref());
        self.walk_from(Direction::Down, self.low.clone(), high)
    }

    /// The key that it stands at; `None` if it is past an end. The key may have been deleted since.
    pub fn key(&self) -> Option<&[u8]> {
        (self.position == Position::At).then_some(&*self.key)
    }

    /// Reads the entry that it stands at once more: `None` if it is past an end, or the key was
    /// deleted since. Errors as [`Transaction::get`].
    pub fn current(&mut self) -> Result<Option<Entry<'_>>> {
        if self.position != Position::At {
            return Ok(None);
        }
        let Some(value) = self.transaction.get(&self.table, &self.key)? else { return Ok(None) };
        self.value = value;
        Ok(Some((&self.key, &self.value)))
    }

    /// Sets the value of the key that it stands at, also if the key was deleted since; `false`, and
    /// nothing is done, if it is past an end. It stays where it is. Errors as [`Transaction::put`].
    pub fn put(&mut self, value: impl AsRef<[u8]>) -> Result<bool> {
        if self.position != Position::At {
            return Ok(false);
        }
        self.transaction.put(&self.table, &self.key, value)?;
        Ok(true)
    }

    /// Deletes the key that the cursor stands at. Returns whether it was there. The cursor stays
    /// where it is: the next move goes to a neighbour of the deleted key. Errors as
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

    /// The next entry of the walk.
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

/// The greater one of a lower bound and `key`.
fn greater(low: Bound<Vec<u8>>, key: &[u8]) -> Bound<Vec<u8>> {
    match &low {
        Bound::Included(at) if &**at > key => low,
        Bound::Excluded(at) if &**at >= key => low,
        _ => Bound::Included(key.to_vec()),
    }
}

/// The lesser one of an upper bound and `key`.
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
