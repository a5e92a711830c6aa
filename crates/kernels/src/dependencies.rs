//! What a transaction depends on, as places in streams.
//!
//! Pure; any thread. A stream becomes durable in order, so of several places in one stream only the highest counts. Invariants:
//!
//! 1. Places are sorted by their streams, one for each.
//! 2. Whoever depends on a transaction joins that one's place *and* its dependencies: so the set is closed, and a transaction survives a
//!    crash exactly if every place in its set did. Nothing has to be followed from record to record.

use crate::lsn::Lsn;
use smallvec::SmallVec;
use std::fmt;

/// One of a parallel log's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u16);

impl StreamId {
    /// The stream of this number, from 0.
    pub const fn new(number: u16) -> Self {
        StreamId(number)
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The number, as an index.
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
    /// Where the record ends, exclusively.
    pub end: Lsn,
}

/// A set of places: durable when each stream has come that far.
///
/// ```
/// use katydid_kernels::dependencies::{Dependencies, StreamLsn, StreamId};
/// use katydid_kernels::lsn::Lsn;
/// let place = |stream, end| StreamLsn { stream: StreamId::new(stream), end: Lsn::new(end) };
/// let mut set = Dependencies::default();
/// set.join(place(1, 80));
/// set.join(place(0, 200));
/// set.join(place(1, 160));
/// assert_eq!(set.iter().collect::<Vec<_>>(), [place(0, 200), place(1, 160)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dependencies {
    /// Invariant 1.
    places: SmallVec<[StreamLsn; 2]>,
}

impl Dependencies {
    /// Adds a place.
    pub fn join(&mut self, place: StreamLsn) {
        match self.places.binary_search_by_key(&place.stream, |known| known.stream) {
            Ok(at) => self.places[at].end = self.places[at].end.max(place.end),
            Err(at) => self.places.insert(at, place),
        }
    }

    /// Adds all places of another set.
    pub fn join_all(&mut self, others: &Dependencies) {
        others.iter().for_each(|place| self.join(place));
    }

    /// Keeps the places for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(StreamLsn) -> bool) {
        self.places.retain(|place| keep(*place));
    }

    /// The places, by stream.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = StreamLsn> + '_ {
        self.places.iter().copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of streams in it.
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

impl FromIterator<StreamLsn> for Dependencies {
    fn from_iter<I: IntoIterator<Item = StreamLsn>>(places: I) -> Self {
        let mut set = Dependencies::default();
        places.into_iter().for_each(|place| set.join(place));
        set
    }
}
