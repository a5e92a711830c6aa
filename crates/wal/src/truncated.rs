//! The truncated ranges of a stream: which records between its start and its end are dropped, and
//! the record that names a range.
//!
//! Any thread may call this code, which is pure except that it takes two latches. A stream is
//! truncated by a record of kind [`Kind::TRUNCATE`]. This record is appended at the end of the
//! stream, and names the range of positions whose records are dropped (`truncate.rs`). Positions
//! are never used twice, and no byte of the range is changed. Invariants:
//!
//! 1. A range lies below the record that names it. The range begins in one of three places: at the
//!    start of a record that was not truncated before, at the beginning of an earlier range, or at
//!    the durable frontier at the time of the truncation.
//! 2. Two ranges are therefore disjoint, or the later one contains the earlier one. The merged
//!    ranges are sorted, and at least one record lies between any two of them.
//! 3. An open log counts a range only after the record that names it is durable. Otherwise a
//!    follower could pass over records that a crash brings back.
//! 4. The start of a stream is never inside a range; the end of the range counts as inside, its
//!    beginning does not (`Range::has_inside`). If a trim names a position inside a range, the log
//!    is trimmed only up to the beginning of the range. Otherwise a consumer that continues from
//!    the start of the stream could not get the error that it has seen truncated records.
//!
//! After a crash there are two cases. Either the record that names the range is in the log, and all
//! records of the range are dropped; or that record is lost, and this truncation drops nothing.
//! Recovery's walk finds the record before users read anything.

use katydid_kernels::checksum::read_u64;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{Decoded, Kind, Part};
use katydid_kernels::sync_shim::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// Bytes of the body of a record that truncates.
pub(crate) const BODY_BYTES: usize = 16;

/// Positions whose records are dropped: `from` inclusive, `to` exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub from: Lsn,
    pub to: Lsn,
}

impl Range {
    pub(crate) fn encode(self) -> [u8; BODY_BYTES] {
        let mut body = [0; BODY_BYTES];
        body[..8].copy_from_slice(&self.from.get().to_le_bytes());
        body[8..].copy_from_slice(&self.to.get().to_le_bytes());
        body
    }

    /// Returns the range that a record names: none if the record is of another kind, an error if no
    /// log writes such a record.
    pub(crate) fn of(record: &Decoded<'_>) -> Result<Option<Range>, ()> {
        let header = &record.header;
        if header.kind != Kind::TRUNCATE {
            return Ok(None);
        }
        if header.part != Part::Whole || record.body.len() != BODY_BYTES {
            return Err(());
        }
        let (from, to) = (read_u64(record.body, 0), read_u64(record.body, 8));
        let is_sound = from < to && to <= header.lsn.get() && from.is_multiple_of(8);
        if is_sound { Ok(Some(Range { from: Lsn::new(from), to: Lsn::new(to) })) } else { Err(()) }
    }

    /// Returns whether the position is above the beginning of the range, and at most at its end. A
    /// reader that has come to such a position by reading has returned a truncated record.
    fn has_inside(self, at: Lsn) -> bool {
        self.from < at && at <= self.to
    }
}

/// Truncated ranges, sorted and disjoint (invariant 2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ranges(Vec<Range>);

impl Ranges {
    /// Adds the range of a later record.
    pub(crate) fn add(&mut self, mut range: Range) {
        // A range that ends where this one begins is merged with it, because no record lies between
        // them.
        while let Some(last) = self.0.last().copied().filter(|last| last.to >= range.from) {
            range.from = range.from.min(last.from);
            self.0.pop();
        }
        self.0.push(range);
    }

    /// Returns whether a record that starts at `at` is truncated.
    pub(crate) fn drops(&self, at: Lsn) -> bool {
        self.next(at).is_some_and(|range| range.from <= at)
    }

    /// Returns the first range that ends above the position.
    fn next(&self, at: Lsn) -> Option<Range> {
        self.0.get(self.0.partition_point(|range| range.to <= at)).copied()
    }

    fn inside(&self, at: Lsn) -> Option<Range> {
        let first = self.0.partition_point(|range| range.to < at);
        self.0.get(first).copied().filter(|range| range.has_inside(at))
    }
}

/// The truncated ranges of an open stream.
#[derive(Debug, Default)]
pub(crate) struct Truncations {
    /// Number of truncations that this opening made. Stored (Release) under `state`, read (Acquire)
    /// by followers and by [`Skip`]. Both look at `state` again when this number has changed;
    /// `Skip` also does so when its reader has passed the range that it found last.
    made: AtomicUsize,
    /// This is a leaf latch.
    state: RwLock<State>,
    /// A thread holds this lock during a truncation or a trim, across device calls. Taken before
    /// every other lock of the stream (invariant 4).
    pub(crate) turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    ranges: Ranges,
    /// The ranges of the truncations that this opening made, in order; each takes 16 bytes.
    made: Vec<Range>,
}

impl Truncations {
    /// Returns the truncations of a stream whose recovery found these ranges.
    pub(crate) fn new(ranges: Ranges) -> Self {
        Truncations { state: RwLock::new(State { ranges, made: Vec::new() }), ..Self::default() }
    }

    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Acquire)
    }

    /// Adds a range, after the record that names it has become durable.
    pub(crate) fn add(&self, range: Range) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.ranges.add(range);
        state.made.push(range);
        self.made.store(state.made.len(), Ordering::Release);
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the range that drops the record at this position.
    pub(crate) fn dropping(&self, at: Lsn) -> Option<Range> {
        self.next(at).filter(|range| range.from <= at)
    }

    /// Returns the first range that ends above the position.
    pub(crate) fn next(&self, at: Lsn) -> Option<Range> {
        self.look(|state| state.ranges.next(at))
    }

    /// Returns the range that a reader at this position is inside of.
    pub(crate) fn inside(&self, at: Lsn) -> Option<Range> {
        self.look(|state| state.ranges.inside(at))
    }

    /// Returns the highest position up to `to` at which the stream may start (invariant 4).
    pub(crate) fn start_below(&self, to: Lsn) -> Lsn {
        self.inside(to).map_or(to, |range| range.from)
    }

    /// Returns one range that contains every record below `at` that later truncations have dropped,
    /// or `None` if they have dropped no record below `at`. The later truncations are those that
    /// this opening made after its first `seen` ones.
    pub(crate) fn since(&self, seen: usize, at: Lsn) -> Option<Range> {
        if self.made() == seen {
            return None;
        }
        self.look(|state| {
            let later = state.made.iter().skip(seen).filter(|range| range.from < at);
            later.copied().reduce(|one, two| Range { from: one.from.min(two.from), to: one.to.max(two.to) })
        })
    }
}

/// Finds the position behind truncated records, for one reader.
#[derive(Debug)]
pub(crate) struct Skip {
    /// Number of truncations when `next` was looked for; `usize::MAX` before that.
    seen: usize,
    next: Option<Range>,
}

impl Skip {
    pub(crate) fn new() -> Self {
        Skip { seen: usize::MAX, next: None }
    }

    /// Returns the position at which to continue, if a record that starts at `at` is truncated.
    #[inline]
    pub(crate) fn over(&mut self, truncations: &Truncations, at: Lsn) -> Option<Lsn> {
        let made = truncations.made();
        if self.seen != made || self.next.is_some_and(|next| next.to <= at) {
            self.seen = made;
            self.next = truncations.next(at);
        }
        self.next.filter(|next| next.from <= at).map(|next| next.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64) -> Range {
        Range { from: Lsn::new(from), to: Lsn::new(to) }
    }

    #[test]
    fn later_ranges_take_earlier_ones_in() {
        let truncations = Truncations::new(Ranges::default());
        let mut skip = Skip::new();
        assert_eq!(skip.over(&truncations, Lsn::new(120)), None);
        for (from, to) in [(80, 160), (200, 240), (200, 320), (80, 400), (480, 520), (520, 560)] {
            truncations.add(range(from, to));
        }
        let state = truncations.state.read().unwrap();
        assert_eq!(state.ranges.0, [range(80, 400), range(480, 560)]);
        drop(state);
        for (at, to) in
            [(72, None), (80, Some(400)), (392, Some(400)), (400, None), (480, Some(560)), (560, None)]
        {
            let (at, to) = (Lsn::new(at), to.map(Lsn::new));
            assert_eq!(truncations.dropping(at).map(|range| range.to), to, "{at}");
            assert_eq!(skip.over(&truncations, at), to, "{at}");
        }
        // A reader that has read all of a range stands at the range's end, so the end counts as
        // inside. The range's beginning does not.
        for (at, from) in [(80, None), (88, Some(80)), (400, Some(80)), (408, None)] {
            assert_eq!(truncations.inside(Lsn::new(at)).map(|range| range.from.get()), from, "{at}");
            assert_eq!(truncations.start_below(Lsn::new(at)).get(), from.unwrap_or(at));
        }
    }

    #[test]
    fn since_returns_what_later_truncations_have_dropped_below_a_reader() {
        let truncations = Truncations::new(Ranges::default());
        truncations.add(range(80, 160));
        truncations.add(range(200, 240));
        assert_eq!(truncations.since(0, Lsn::new(400)), Some(range(80, 240)));
        assert_eq!(truncations.since(1, Lsn::new(400)), Some(range(200, 240)));
        assert_eq!(truncations.since(1, Lsn::new(200)), None, "it has seen nothing of that");
        assert_eq!(truncations.since(2, Lsn::new(400)), None);
    }
}
