//! The keys of a range, from either end.

use crate::error::{Error, Result};
use crate::memory::MemoryRange;
use crate::paged::range::PagedRange;
use std::fmt;

/// The keys and values of a range, from either end. After an error it ends, and the transaction may have to roll back.
pub struct Range<'t> {
    pub(crate) of: RangeOf<'t>,
}

/// The range, as its engine walks it.
#[expect(clippy::large_enum_variant, reason = "a range is on the stack of who walks it")]
pub(crate) enum RangeOf<'t> {
    Paged(PagedRange<'t>),
    Memory(MemoryRange<'t>),
    /// Of another database: its error, until it is told.
    Refused(Option<Error>),
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.of {
            RangeOf::Paged(range) => range.next(),
            RangeOf::Memory(range) => range.next(),
            RangeOf::Refused(error) => error.take().map(Err),
        }
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.of {
            RangeOf::Paged(range) => range.next_back(),
            RangeOf::Memory(range) => range.next_back(),
            RangeOf::Refused(error) => error.take().map(Err),
        }
    }
}

impl std::iter::FusedIterator for Range<'_> {}

impl fmt::Debug for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            RangeOf::Paged(range) => range.fmt(f),
            RangeOf::Memory(range) => range.fmt(f),
            RangeOf::Refused(error) => write!(f, "Range({error:?})"),
        }
    }
}
