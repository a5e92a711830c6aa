//! What the pool asks of the log.

use crate::Lsn;
use crate::error::Result;
use std::fmt::Debug;

/// The write-ahead rule's other side. The pool calls [`WalBarrier::make_durable`] in one place (`flush`), before it writes
/// any page.
pub(crate) trait WalBarrier: Send + Sync + Debug {
    /// Returns when the log is durable up to `end`, an exclusive end of a record. Must not take a page latch.
    fn make_durable(&self, end: Lsn) -> Result<()>;

    /// Where the next record will begin, or later records already do: a lower bound (loaded with Acquire or stronger) of the
    /// LSN of every record appended after this call by the caller.
    fn reserved(&self) -> Lsn;
}
