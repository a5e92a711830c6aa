//! When a log in NVRAM, which cannot grow, needs a checkpoint.
//!
//! Any thread. How much is taken is asked of the log (`Stream::fullness`), per mille of what writes may take.
//!
//! 1. From [`Share::is_due`] on the checkpoint thread is rung for; nobody waits.
//! 2. From [`FULL`] on, or below if many have written and not ended, who has not written yet waits. The rest is for those who have:
//!    they hold part of the log, and only their ends give it back.
//! 3. Whoever waits holds no latch, and waits for checkpoints, which need neither locks nor anybody's end. Where an open transaction keeps
//!    them from freeing anything (paged engine), he waits for that one, and not in a circle (`paged::log_room`). Then he is told `LogFull`.

use crate::error::Error;
use crate::options::Options;
use crate::stat::Pin;
use katydid_wal::Stream;
use std::sync::atomic::{AtomicU32, Ordering};

/// See rule 2.
pub(crate) const FULL: u32 = 900;

/// A checkpoint that has left more than its share is followed by the next when so much more is taken: what kept it may be there for long.
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

    /// Whether enough is taken for a checkpoint, whatever the last one has left.
    pub(crate) fn is_over(&self, taken: u32) -> bool {
        taken >= self.least
    }

    /// A checkpoint was taken, or was tried, and has left so much.
    pub(crate) fn left(&self, taken: u32) {
        self.due.store(self.least.max(taken.saturating_add(MORE)), Ordering::Relaxed);
    }
}

/// Bytes of log, and of those that a log in NVRAM can hold.
pub(crate) fn used_and_limit(log: &Stream) -> (u64, u64) {
    let space = log.space();
    (space.live, log.capacity().unwrap_or(u64::MAX).saturating_sub(space.reserve))
}

/// The error of an append that found no room in NVRAM, for whoever can make some or knows what is in the way.
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
