//! The log as the pool uses it.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::opening::Visit;
use std::fmt::Debug;

/// The log's side of the write-ahead rule. The pool calls [`WalBarrier::make_durable`] in one place
/// (`flush`), before it writes any page.
pub(crate) trait WalBarrier: Send + Sync + Debug {
    /// Returns when the log is durable up to `end`, the exclusive end of a record. Must not take a
    /// page latch.
    fn make_durable(&self, end: Lsn) -> Result<()>;

    /// Returns a position below which everything appended so far lies. The position is loaded with
    /// Acquire or stronger.
    fn reserved(&self) -> Lsn;

    /// Shuts the engine off because of a bug: nothing is written any more, and pages in memory may
    /// be wrong. Returns the error with which the caller, and every later call, fails.
    fn poison(&self, what: &'static str) -> Error;

    /// Returns a position from which the log can be read, and above which the calling thread's
    /// later records lie. The position is loaded with Acquire or stronger. If the inserter gives
    /// later appends higher LSNs (every inserter does except `chunked`), the reserved frontier is
    /// such a position, and the provided implementation returns it.
    fn floor(&self) -> Lsn {
        self.reserved()
    }

    /// Lets the caller read a page from the device, and write other pages back to make room, until
    /// the returned visit is dropped. Fails if the database was closed. Returns `None` if closing
    /// need not wait for the caller.
    fn visit(&self) -> Result<Option<Visit<'_>>> {
        Ok(None)
    }
}
