//! The log as the pool uses it.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::opening::Visit;
use std::fmt::Debug;

/// The write-ahead rule's other side. The pool calls [`WalBarrier::make_durable`] in one place
/// (`flush`), before it writes any page.
pub(crate) trait WalBarrier: Send + Sync + Debug {
    /// Returns when the log is durable up to `end`, an exclusive end of a record. Must not take a
    /// page latch.
    fn make_durable(&self, end: Lsn) -> Result<()>;

    /// Everything appended so far lies below (loaded with Acquire or stronger).
    fn reserved(&self) -> Lsn;

    /// Shuts the engine off because of a bug: nothing is written any more, and what is in memory
    /// may be wrong. The error of every call from now on.
    fn poison(&self, what: &'static str) -> Error;

    /// A place from which the log can be read, below every record appended after this call by the
    /// caller (loaded with Acquire or stronger): the reserved frontier, where order of appends is
    /// order of LSNs.
    fn floor(&self) -> Lsn {
        self.reserved()
    }

    /// Lets a page be read from the device, and others be written back to make room for it, until
    /// what is returned is dropped. Fails when the database was closed. `None` where closing is
    /// nothing to wait for.
    fn visit(&self) -> Result<Option<Visit<'_>>> {
        Ok(None)
    }
}
