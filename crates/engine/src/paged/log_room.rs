//! Room in a log in NVRAM, which only checkpoints make.
//!
//! Runs on transaction threads. What may wait for what is in [`crate::fullness`]. A checkpoint frees the log up to the first record of
//! the oldest transaction that has not ended. If the log begins there already, none is taken: its records would use up the room that is
//! kept for that transaction's end.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::fullness::{FULL, used_and_limit};
use crate::paged::engine::Engine;
use katydid_wal::Admission;

impl Engine {
    /// Per mille of the log that is taken; nothing of one that can grow.
    fn taken(&self) -> u32 {
        self.log.fullness().unwrap_or(0)
    }

    /// Whether the log's share is taken from which on the next checkpoint is due.
    pub(crate) fn is_share_taken(&self) -> bool {
        self.log.fullness().is_some_and(|taken| self.checkpoints.share.is_due(taken))
    }

    /// Before a transaction's first record: calls for a checkpoint, or waits for one.
    pub(crate) fn enter_log(&self) -> Result<()> {
        let taken = self.taken();
        if self.checkpoints.share.is_due(taken) {
            self.checkpoints.bell.ring();
        }
        if taken < FULL { Ok(()) } else { self.make_room_while(|| self.taken() >= FULL) }
    }

    /// Where the log begins, if it is one that a checkpoint makes room in.
    pub(crate) fn log_begins(&self) -> Option<Lsn> {
        self.log.kind().in_nvram().then(|| self.log.start())
    }

    /// After something found the log full that began before: so it can be tried again.
    pub(crate) fn make_room_beyond(&self, before: Lsn) -> Result<()> {
        self.make_room_while(|| self.log.start() <= before)
    }

    /// Takes checkpoints, or waits for those of others, while they are needed and free something. The caller holds no latch.
    #[cold]
    fn make_room_while(&self, is_needed: impl Fn() -> bool) -> Result<()> {
        while is_needed() {
            let before = self.log.start();
            self.checkpoint_if(|| is_needed() && !self.is_pinned())?;
            if self.log.start() <= before && is_needed() {
                let (used, limit) = used_and_limit(&self.log);
                return Err(Error::LogFull { pinned_by: self.pinned_by(), used, limit });
            }
        }
        Ok(())
    }

    /// Whether the log begins with a record of a transaction that has not ended.
    fn is_pinned(&self) -> bool {
        let start = self.log.start();
        self.active.oldest().1.is_some_and(|(_, first): (_, Lsn)| first <= start)
    }

    /// How a checkpoint's records are admitted: it gives space back, if it can.
    pub(crate) fn admission_of_checkpoint(&self) -> Admission {
        if self.log.kind().in_nvram() && self.is_pinned() { Admission::Normal } else { Admission::Critical }
    }
}
