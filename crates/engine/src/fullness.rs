//! Need of checkpoints of a log in NVRAM, which cannot grow.
//!
//! Any thread. How much is taken is asked of the log (`Stream::fullness`), per mille of what writes
//! may take.
//!
//! 1. From [`Share::is_due`] on the checkpoint thread is notified; no transaction waits.
//! 2. From [`FULL`] on, or below if many have written and not ended, a transaction that has not
//!    written yet waits. The rest is for those that have written: they hold part of the log, and
//!    only their ends give it back.
//! 3. A transaction that waits holds no latch, and waits for checkpoints, which need neither locks
//!    nor the end of a transaction. Where an open transaction keeps checkpoints from freeing
//!    anything (paged engine), the waiting one waits for that transaction, and never in a circle
//!    (`paged::log_room`). Then it fails with `LogFull`.

use crate::error::Error;
use crate::options::Options;
use crate::stat::Pin;
use katydid_wal::Stream;
use std::sync::atomic::{AtomicU32, Ordering};

/// See rule 2.
pub(crate) const FULL: u32 = 900;

/// A checkpoint that has left more than its share is followed by the next when this much more is
/// taken, in per mille: what kept it may be there for long.
const MORE: u32 = 50;

/// Share of a log in use at which a checkpoint begins.
#[derive(Debug)]
pub(crate) struct Share {
    least: u32,
    /// A hint, relaxed.
    due: AtomicU32,
}

impl Share {
    pub(crate) fn new(options: &Options) -> Self {
        let least = options.advanced.nvram_checkpoint * 10;
        Share { least, due: AtomicU32::new(least) }
    }

    pub(crate) fn is_due(&self, taken: u32) -> bool {
        taken >= self.due.load(Ordering::Relaxed)
    }

    /// Returns whether enough is taken for a checkpoint, whatever the last one has left.
    pub(crate) fn is_over(&self, taken: u32) -> bool {
        taken >= self.least
    }

    /// Takes note that a checkpoint was taken, or was tried, and has left `taken`.
    pub(crate) fn left(&self, taken: u32) {
        self.due.store(self.least.max(taken.saturating_add(MORE)), Ordering::Relaxed);
    }
}

/// Bytes of log, and of those that a log in NVRAM can hold.
pub(crate) fn used_and_limit(log: &Stream) -> (u64, u64) {
    let space = log.space();
    (space.live, log.capacity().unwrap_or(u64::MAX).saturating_sub(space.reserve))
}

/// The error of an append that found no room in NVRAM. The caller makes room, or finds out what
/// pins the log.
#[cold]
pub(crate) fn no_room(log: &Stream) -> Error {
    let (used, limit) = used_and_limit(log);
    Error::LogFull { pinned_by: Pin::Checkpoint(log.trimmed_to()), used, limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_could_not_free_much_is_not_tried_at_once_again() {
        let share = Share::new(&Options::default());
        assert!(!share.is_due(699) && share.is_due(700));
        share.left(720);
        assert!(!share.is_due(769) && share.is_due(770));
        share.left(100);
        assert!(!share.is_due(699) && share.is_due(700));
    }
}
