//! Positions of entries that a program numbers one by one, such as those of a Raft log.
//!
//! One thread at a time uses an index. Only [`EntryIndex::rebuild`] reads the log; all other
//! functions are pure. The index is in memory only and costs 16 bytes an entry. A program that
//! opens a log reads the log once to make the index. Invariants:
//!
//! 1. The numbers in the index are consecutive. An entry that is pushed out of order is refused,
//!    and changes nothing.
//! 2. Positions grow with numbers.
//!
//! A crash loses the index.

use crate::append::Appended;
use crate::error::{Error, ReadError};
use crate::reader::RecordRef;
use crate::stream::Stream;
use katydid_kernels::lsn::Lsn;
use std::collections::VecDeque;
use std::ops::Range;

/// Meaning of a record for an [`EntryIndex`]. For each record, the function that a program passes
/// to [`EntryIndex::rebuild`] returns one of these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryStep {
    /// The record is the entry of this number.
    Entry(u64),
    /// Entries below this number are not needed from this record on, and the next entry has at
    /// least this number.
    TrimBefore(u64),
    /// The record is not an entry.
    Other,
}

/// The reason why an entry was not added, or why an index was not made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A number was left out, or came twice.
    #[error("entry {found} stands at {at}, where entry {expected} should follow")]
    OutOfOrder {
        /// Number of the entry.
        found: u64,
        /// The number that would follow.
        expected: u64,
        /// Position of the entry's record.
        at: Lsn,
    },
    /// Reading the log failed.
    #[error(transparent)]
    Log(#[from] Error),
}

impl From<ReadError> for EntryError {
    fn from(error: ReadError) -> Self {
        EntryError::Log(error.into())
    }
}

/// An index from the numbers of entries to their positions: see the head of this file.
///
/// ```
/// use katydid_wal::{Append, EntryIndex, EntryStep, Kind, Log, Options};
/// # use katydid_device::SimDevice;
/// # let directory = SimDevice::new(1).directory();
/// let log = Log::open_in(directory, Options::default())?;
/// let (stream, mut session) = (log.first(), log.session()?);
/// for number in 1..=5 {
///     session.append(&Append::new(Kind::USER, &[b"entry"]).txn(number))?;
/// }
/// let mut index = EntryIndex::rebuild(stream, |record| EntryStep::Entry(record.txn))?;
/// assert_eq!(index.numbers(), 1..6);
/// // Entries 4 and 5 are replaced by another 4.
/// if let Some(position) = index.truncate_from(4) {
///     stream.truncate_after(position, &[])?;
/// }
/// let appended = session.append(&Append::new(Kind::USER, &[b"another"]).txn(4))?;
/// index.push(4, &appended)?;
/// assert_eq!(stream.read(index.get(4).expect("it is there"))?.payload, b"another");
/// # log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryIndex {
    /// Number of the first entry, or of the next entry if the index is empty. `None` if the next
    /// entry may have any number.
    first: Option<u64>,
    positions: VecDeque<EntryPosition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryPosition {
    /// Start of the record's first fragment.
    first: Lsn,
    /// The LSN that identifies the record.
    lsn: Lsn,
}

impl EntryIndex {
    /// Makes an empty index, whose first entry may have any number.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the index of all entries that were appended to the stream. Entries that are only in
    /// memory are written first. `step` returns the meaning of each record.
    ///
    /// # Errors
    /// [`EntryError::OutOfOrder`] if the numbers do not follow each other; [`EntryError::Log`].
    pub fn rebuild(
        stream: &Stream,
        mut step: impl FnMut(&RecordRef<'_>) -> EntryStep,
    ) -> Result<Self, EntryError> {
        let mut index = EntryIndex::new();
        let mut reader = stream.reader(stream.start())?.read_ahead();
        while let Some(record) = reader.next_record()? {
            match step(&record) {
                EntryStep::Entry(number) => {
                    index.add(number, EntryPosition { first: record.first, lsn: record.lsn })?
                }
                EntryStep::TrimBefore(number) => drop(index.trim_before(number)),
                EntryStep::Other => {}
            }
        }
        Ok(index)
    }

    /// Returns the range of the entries' numbers. If there are no entries, both ends are the number
    /// of the next entry, or 0 if the next entry may have any number.
    pub fn numbers(&self) -> Range<u64> {
        let first = self.first.unwrap_or(0);
        first..first + self.positions.len() as u64
    }

    /// Returns the number of the next entry; `None` if it may have any number.
    pub fn next_number(&self) -> Option<u64> {
        self.first.map(|first| first + self.positions.len() as u64)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns true if the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Returns the LSN of the entry, for [`Stream::read`].
    pub fn get(&self, number: u64) -> Option<Lsn> {
        self.position(number).map(|position| position.lsn)
    }

    fn position(&self, number: u64) -> Option<&EntryPosition> {
        let nth = number.checked_sub(self.first?)?;
        self.positions.get(usize::try_from(nth).ok()?)
    }

    /// Adds the next entry.
    ///
    /// # Errors
    /// [`EntryError::OutOfOrder`] if another number is next.
    pub fn push(&mut self, number: u64, appended: &Appended) -> Result<(), EntryError> {
        self.add(number, EntryPosition { first: appended.first, lsn: appended.lsn })
    }

    fn add(&mut self, number: u64, position: EntryPosition) -> Result<(), EntryError> {
        let expected = self.next_number().unwrap_or(number);
        if number != expected || number == u64::MAX {
            return Err(EntryError::OutOfOrder { found: number, expected, at: position.lsn });
        }
        self.first.get_or_insert(number);
        self.positions.push_back(position);
        Ok(())
    }

    /// Removes the entry `number` and all later ones from the index. Returns the position at which
    /// the stream must be truncated to drop these entries ([`Stream::truncate_after`]); `None` if
    /// the index has none of them.
    pub fn truncate_from(&mut self, number: u64) -> Option<Lsn> {
        let number = number.max(self.first?);
        let position = self.get(number)?;
        self.positions.truncate(usize::try_from(number - self.first?).ok()?);
        Some(position)
    }

    /// Removes the entries below `number`. Returns the start of the first remaining entry, to which
    /// the stream can be trimmed. If no entry remains, returns `None`, and the next entry's number
    /// is at least `number`.
    pub fn trim_before(&mut self, number: u64) -> Option<Lsn> {
        let numbers = self.numbers();
        if number >= numbers.end || self.first.is_none() {
            self.positions.clear();
            self.first = Some(number.max(numbers.end));
            return None;
        }
        if let Some(count) = number.checked_sub(numbers.start) {
            self.positions.drain(..count as usize);
            self.first = Some(number);
        }
        self.positions.front().map(|position| position.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(number: u64) -> EntryPosition {
        let at = number % 1000 * 100;
        EntryPosition { first: Lsn::new(at), lsn: Lsn::new(at + 8) }
    }

    fn index(numbers: Range<u64>) -> EntryIndex {
        let mut index = EntryIndex::new();
        numbers.for_each(|number| index.add(number, position(number)).expect("in order"));
        index
    }

    #[test]
    fn numbers_follow_each_other_and_others_are_refused() {
        let mut entries = index(7..10);
        for number in [0, 8, 9, 11, u64::MAX] {
            let error = entries.add(number, position(number)).expect_err("out of order");
            assert!(matches!(error, EntryError::OutOfOrder { found, expected: 10, .. } if found == number));
        }
        assert_eq!(entries, index(7..10), "nothing has changed");
        // The number that follows this one does not exist.
        let mut fresh = EntryIndex::new();
        fresh.add(u64::MAX, position(7)).expect_err("no number can follow");
        assert_eq!(fresh, EntryIndex::new(), "nothing has changed");
        fresh.add(7, position(7)).expect("any other number");
        assert_eq!((entries.get(6), entries.get(7), entries.get(10)), (None, Some(position(7).lsn), None));
    }

    #[test]
    fn a_suffix_is_truncated_and_a_prefix_trimmed() {
        let mut entries = index(7..20);
        assert_eq!(entries.truncate_from(20), None);
        assert_eq!(entries.truncate_from(15), Some(position(15).lsn));
        assert_eq!(entries.numbers(), 7..15);
        assert_eq!(entries.trim_before(3), Some(position(7).first), "nothing is there to be trimmed");
        assert_eq!(entries.trim_before(10), Some(position(10).first));
        assert_eq!(entries.numbers(), 10..15);
        assert_eq!(entries.truncate_from(2), Some(position(10).lsn), "all of them");
        assert_eq!(entries.numbers(), 10..10);
        entries.add(10, position(10)).expect("the same number again");
        // A snapshot may cover all entries, and also entries that were never appended here.
        assert_eq!(entries.trim_before(30), None);
        entries.add(11, position(11)).expect_err("long gone");
        entries.add(30, position(30)).expect("the next");
        let mut fresh = EntryIndex::new();
        assert_eq!(fresh.trim_before(5), None);
        fresh.add(4, position(4)).expect_err("below what was trimmed");
        fresh.add(5, position(5)).expect("the first");
    }
}
