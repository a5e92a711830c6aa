//! Decides when a log in NVRAM, which cannot grow, needs a checkpoint.
//!
//! Any thread may call this code. The log reports its fullness (`Stream::fullness`), in per mille
//! of the bytes that writes may use.
//!
//! Rules:
//!
//! 1. When [`Share::is_due`] returns true, the worker that takes checkpoints is notified; no
//!    transaction waits.
//! 2. From a fullness of [`FULL`] on, a transaction waits before its first write. In the paged
//!    engine this limit is lower while many transactions have written and not ended. The rest of
//!    the log is for the transactions that have written, because each of them keeps a part of the
//!    log until it ends.
//! 3. A transaction that waits holds no latch. It waits for checkpoints; in the memory engine it
//!    may take one itself instead. A checkpoint needs neither locks nor the end of a transaction.
//!    If an open transaction keeps checkpoints from freeing log (paged engine), the waiting
//!    transaction waits for the end of that transaction instead. If this wait would close a circle
//!    of waits, the waiting transaction fails with `LogFull` (`paged::log_room`).

use crate::error::Error;
use crate::options::Options;
use crate::stat::Pin;
use katydid_wal::Stream;
use std::sync::atomic::{AtomicU32, Ordering};

/// Fullness in per mille from which a transaction waits before its first write (rule 2).
pub(crate) const FULL: u32 = 900;

/// Minimum growth of the fullness, in per mille, between a checkpoint and the next one. Without
/// this minimum, checkpoints would follow each other at once while an open transaction keeps the
/// log fuller than the configured share.
const MORE: u32 = 50;

/// The fullness of a log at which a checkpoint is due.
#[derive(Debug)]
pub(crate) struct Share {
    /// The configured share of the log, in per mille (`AdvancedOptions::nvram_checkpoint`).
    least: u32,
    /// Fullness at which the next checkpoint is due: a hint with relaxed accesses.
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

    /// Returns whether `taken` has reached the configured share, whatever the fullness was after
    /// the last checkpoint.
    pub(crate) fn is_over(&self, taken: u32) -> bool {
        taken >= self.least
    }

    /// Notes `taken`, the fullness after a checkpoint (in the memory engine also after one that
    /// failed). The next checkpoint is due at `taken` plus [`MORE`], but never below the configured
    /// share.
    pub(crate) fn left(&self, taken: u32) {
        self.due.store(self.least.max(taken.saturating_add(MORE)), Ordering::Relaxed);
    }
}

/// Returns the bytes of log in use, and the bytes that a log in NVRAM can hold without its reserve.
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
