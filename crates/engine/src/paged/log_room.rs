//! Room in a log in NVRAM, which only checkpoints make.
//!
//! Runs on transaction threads. [`crate::fullness`] says what may wait for what. A checkpoint frees
//! the log up to the first record of the oldest transaction that has not ended: its head. If the
//! log begins there already, none is taken: its records would use up the room that is kept for that
//! transaction's end.
//!
//! Then a transaction that needs room waits for others to end, at most as long as for a lock, but
//! not if the oldest transaction that has written waits for it, by locks. The oldest itself waits
//! only for a moment. So a transaction that waits longer waits for the oldest, then for the next. A
//! circle closes with a lock of a transaction that waits here, and that transaction finds it.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::fullness::{FULL, used_and_limit};
use crate::ids::TxnId;
use crate::paged::engine::Engine;
use katydid_wal::AppendClass;
use std::time::{Duration, Instant};

/// Interval at which a waiting transaction looks whether there is room.
const LOOK: Duration = Duration::from_millis(1);

/// Time that the oldest transaction that has written waits for the others, whose ends give back
/// what was set aside for them. Not longer: they may wait for it.
const AS_OLDEST: Duration = Duration::from_millis(20);

/// Decrease of the taken share, per mille, after which something that found the log full is tried
/// again.
const LESS: u32 = 20;

/// Taken share, per mille, below which every transaction that wants to write does.
const ROOMY: u32 = 300;

/// A transaction that needs room, and the time it waits for others to end.
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

    /// Returns whether the log's share is taken from which on the next checkpoint is due.
    pub(crate) fn is_share_taken(&self) -> bool {
        self.log.fullness().is_some_and(|taken| self.schedule.share.is_due(taken))
    }

    /// Before a transaction's first record: calls for a checkpoint, or waits for one.
    pub(crate) fn enter_log(&self, who: Waiter) -> Result<()> {
        let taken = self.taken();
        if self.schedule.share.is_due(taken) {
            self.schedule.worker.notify();
        }
        if !self.is_crowded() {
            return Ok(());
        }
        let helps = || self.schedule.share.is_over(self.taken());
        self.make_room_while(who, helps, || self.is_crowded())
    }

    /// Returns whether the transactions that have written need what is left. Each is expected to
    /// log about as much again as it has set aside for going back.
    fn is_crowded(&self) -> bool {
        let taken = self.taken();
        if taken < ROOMY {
            return false;
        }
        let reserve = self.log.space().reserve;
        let room = self.log.capacity().unwrap_or(u64::MAX).saturating_sub(reserve).max(1);
        let expected = reserve.saturating_sub(self.undo_room.standing) + self.undo_room.step;
        let share = (expected.saturating_mul(1000) / room).min(1000) as u32;
        taken >= FULL.min(1000 - share)
    }

    /// Start of the log, if checkpoints make room in it.
    pub(crate) fn log_begins(&self) -> Option<Lsn> {
        self.log.is_bounded().then(|| self.log.trimmed_to())
    }

    /// After something found the log full that began before: until it can be tried again.
    pub(crate) fn make_room_beyond(&self, before: Lsn, who: Waiter) -> Result<()> {
        let taken = self.taken();
        // The end of another transaction gives back what was set aside for it.
        self.make_room_while(who, || true, || self.log.trimmed_to() <= before && self.taken() + LESS > taken)
    }

    /// Takes checkpoints, or waits for those of others, or for the transaction that keeps them from
    /// freeing anything, while room is needed. The caller holds no latch.
    #[cold]
    fn make_room_while(
        &self,
        who: Waiter,
        helps: impl Fn() -> bool,
        is_needed: impl Fn() -> bool,
    ) -> Result<()> {
        let mut begun = None;
        while is_needed() {
            if self.opening.is_closing() {
                // The transaction that is in the way may never end any more.
                return Err(Error::Closed);
            }
            self.end_unended();
            if self.gate.is_shut() {
                return Err(self.poison_error());
            }
            let before = self.log.trimmed_to();
            self.checkpoint_if(|| is_needed() && helps() && self.head().is_none())?;
            if self.log.trimmed_to() > before || !is_needed() {
                continue;
            }
            let waited = begun.get_or_insert_with(Instant::now).elapsed();
            let oldest = self.active.oldest_of_all().map(|(txn, _)| txn);
            let patience = if oldest == Some(who.txn) { who.patience.min(AS_OLDEST) } else { who.patience };
            let is_circle = oldest.is_some_and(|txn| txn != who.txn && self.locks.leads_to(txn, who.txn));
            if waited >= patience || is_circle {
                let (used, limit) = used_and_limit(&self.log);
                return Err(self.log_full(used, limit));
            }
            // No thread wakes it: an ending transaction should not have to look for waiting ones,
            // which are few. (Not a park with a limit, which would take a token of the program's
            // own executor.)
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The transaction that has not ended with a record of which the log begins, if there is one.
    pub(crate) fn head(&self) -> Option<TxnId> {
        let start = self.log.trimmed_to();
        self.active.oldest_of_all().filter(|(_, first)| *first <= start).map(|(txn, _)| txn)
    }

    /// Admission class of a checkpoint's records: a checkpoint gives space back, if it can.
    pub(crate) fn class_of_checkpoint(&self) -> AppendClass {
        if self.log.is_bounded() && self.head().is_some() {
            AppendClass::Normal
        } else {
            AppendClass::Critical
        }
    }
}
