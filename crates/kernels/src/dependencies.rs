//! Dependencies of a transaction, as positions in streams.
//!
//! Pure functions. A stream becomes durable in order, so only the highest position in each stream
//! counts. Invariants:
//!
//! 1. Positions are sorted by stream, with at most one for each stream.
//! 2. A transaction that depends on another one adds the other's position *and* the other's
//!    dependencies to its own set. So a transaction whose record has survived a crash is kept
//!    exactly if every position in its set has survived too. Recovery need not follow dependencies
//!    from record to record.

use crate::lsn::Lsn;
use smallvec::SmallVec;
use std::fmt;

/// One of a log's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u16);

impl StreamId {
    /// The first stream, and the only one of most logs.
    pub const FIRST: StreamId = StreamId(0);

    /// The stream with the given number, counted from 0.
    pub const fn new(number: u16) -> Self {
        StreamId(number)
    }

    /// The number of the stream.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The number of the stream, as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The end of a record in one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamLsn {
    /// The stream.
    pub stream: StreamId,
    /// Exclusive end of the record.
    pub end: Lsn,
}

/// A set of positions. The set is durable if each stream is durable up to its position in the set.
///
/// ```
/// use katydid_kernels::dependencies::{Dependencies, StreamLsn, StreamId};
/// use katydid_kernels::lsn::Lsn;
/// let at = |stream, end| StreamLsn { stream: StreamId::new(stream), end: Lsn::new(end) };
/// let mut set = Dependencies::default();
/// set.join(at(1, 80));
/// set.join(at(0, 200));
/// set.join(at(1, 160));
/// assert_eq!(set.iter().collect::<Vec<_>>(), [at(0, 200), at(1, 160)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dependencies {
    /// Invariant 1.
    positions: SmallVec<[StreamLsn; 2]>,
}

impl Dependencies {
    /// Adds a position.
    pub fn join(&mut self, at: StreamLsn) {
        match self.positions.binary_search_by_key(&at.stream, |known| known.stream) {
            Ok(known) => self.positions[known].end = self.positions[known].end.max(at.end),
            Err(next) => self.positions.insert(next, at),
        }
    }

    /// Adds all positions of another set.
    pub fn join_all(&mut self, others: &Dependencies) {
        others.iter().for_each(|at| self.join(at));
    }

    /// Removes a position from the set and returns it; `None` if the set is empty.
    pub fn pop(&mut self) -> Option<StreamLsn> {
        self.positions.pop()
    }

    /// Keeps the positions for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(StreamLsn) -> bool) {
        self.positions.retain(|at| keep(*at));
    }

    /// The positions, in the order of their streams.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = StreamLsn> + '_ {
        self.positions.iter().copied()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The number of streams that have a position in the set.
    pub fn len(&self) -> usize {
        self.positions.len()
    }
}

impl FromIterator<StreamLsn> for Dependencies {
    fn from_iter<I: IntoIterator<Item = StreamLsn>>(positions: I) -> Self {
        let mut set = Dependencies::default();
        positions.into_iter().for_each(|at| set.join(at));
        set
    }
}
