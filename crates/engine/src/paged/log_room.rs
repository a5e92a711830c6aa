//! Room in a log in NVRAM, which only checkpoints make.
//!
//! Runs on transaction threads. What may wait for what is in [`crate::fullness`]. A checkpoint frees the log up to the first record of
//! the oldest transaction that has not ended: its head. If the log begins there already, none is taken: its records would use up the room that is
//! kept for that transaction's end.
//!
//! Then whoever needs room waits for the head's end, as long as for a lock, and not if the head waits for him, by locks. The head itself waits for no
//! room. So whoever waits here waits for the head only; a circle closes with a lock of somebody who waits here, and he finds it.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::fullness::{FULL, used_and_limit};
use crate::ids::TxnId;
use crate::paged::engine::Engine;
use katydid_wal::Admission;
use std::time::{Duration, Instant};

/// How often whoever waits looks whether there is room.
const LOOK: Duration = Duration::from_millis(1);

/// Who needs room, and how long it waits for the log's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiter {
    pub(crate) txn: TxnId,
    pub(crate) patience: Duration,
}

impl Waiter {
    /// One that holds what a transaction may want that is no lock.
    pub(crate) const NEVER: Waiter = Waiter { txn: TxnId::NONE, patience: Duration::ZERO };
}

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
    pub(crate) fn enter_log(&self, who: Waiter) -> Result<()> {
        let taken = self.taken();
        if self.checkpoints.share.is_due(taken) {
            self.checkpoints.bell.ring();
        }
        if taken < FULL { Ok(()) } else { self.make_room_while(who, || self.taken() >= FULL) }
    }

    /// Where the log begins, if it is one that a checkpoint makes room in.
    pub(crate) fn log_begins(&self) -> Option<Lsn> {
        self.log.kind().in_nvram().then(|| self.log.start())
    }

    /// After something found the log full that began before: so it can be tried again.
    pub(crate) fn make_room_beyond(&self, before: Lsn, who: Waiter) -> Result<()> {
        self.make_room_while(who, || self.log.start() <= before)
    }

    /// Takes checkpoints, or waits for those of others, or for the transaction that keeps them from freeing anything, while room is needed. The
    /// caller holds no latch.
    #[cold]
    fn make_room_while(&self, who: Waiter, is_needed: impl Fn() -> bool) -> Result<()> {
        let mut deadline = None;
        while is_needed() {
            let before = self.log.start();
            self.checkpoint_if(|| is_needed() && self.head().is_none())?;
            if self.log.start() > before || !is_needed() {
                continue;
            }
            let now = Instant::now();
            let is_late = now >= *deadline.get_or_insert(now + who.patience);
            if is_late || self.head().is_some_and(|head| self.locks.leads_to(head, who.txn)) {
                let (used, limit) = used_and_limit(&self.log);
                return Err(Error::LogFull { pinned_by: self.pinned_by(), used, limit });
            }
            // Nobody wakes it: who ends should not have to look for those who wait, who are few.
            std::thread::park_timeout(LOOK);
        }
        Ok(())
    }

    /// The transaction that has not ended with a record of which the log begins, if there is one.
    fn head(&self) -> Option<TxnId> {
        let start = self.log.start();
        self.active.oldest_of_all().filter(|(_, first)| *first <= start).map(|(txn, _)| txn)
    }

    /// How a checkpoint's records are admitted: it gives space back, if it can.
    pub(crate) fn admission_of_checkpoint(&self) -> Admission {
        if self.log.kind().in_nvram() && self.head().is_some() {
            Admission::Normal
        } else {
            Admission::Critical
        }
    }
}
