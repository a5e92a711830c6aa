//! Making room in a log in NVRAM, where only checkpoints free space.
//!
//! Runs on transaction threads. The rules of waiting are in [`crate::fullness`]. A checkpoint frees
//! the log up to the first record of the oldest transaction that has not ended. If the log already
//! begins at that record, the transaction is the log's head. No checkpoint is then taken, because a
//! checkpoint's records would use up the room that is kept for the end of that transaction.
//!
//! A transaction that then needs room waits for others to end, at most as long as for a lock. The
//! waiting transaction fails with `LogFull` at once if the oldest transaction that has written
//! waits, through locks, for the waiting one. The oldest itself waits at most 20 ms (`AS_OLDEST`).
//! Every other transaction that waits here in effect waits for the end of the oldest one, and then
//! for the end of the next oldest. If waits form a cycle, one transaction of the cycle waits here
//! and holds a lock for which another one waits; the transaction that waits here finds the cycle.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::fullness::{FULL, used_and_limit};
use crate::ids::TxnId;
use crate::paged::engine::Engine;
use katydid_wal::AppendClass;
use std::time::{Duration, Instant};

/// Interval at which a waiting transaction checks for room.
const LOOK: Duration = Duration::from_millis(1);

/// Maximum time for which the oldest writing transaction waits for other transactions to end and to
/// give back reserved room. This time is short, because the other transactions may be waiting for
/// the oldest one.
const AS_OLDEST: Duration = Duration::from_millis(20);

/// Decrease of the taken share, per mille, after which a call that found the log full is tried
/// again.
const LESS: u32 = 20;

/// Taken share of the log, per mille, below which every transaction may begin to write.
const ROOMY: u32 = 300;

/// A transaction that needs room, and the maximum time that it waits for others to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiter {
    pub(crate) txn: TxnId,
    pub(crate) patience: Duration,
}

impl Waiter {
    /// A waiter that never waits, because it may hold a latch, such as `ddl`, that another
    /// transaction needs before it can end.
    pub(crate) const NEVER: Waiter = Waiter { txn: TxnId::NONE, patience: Duration::ZERO };
}

impl Engine {
    /// Share of the log that is taken, per mille; 0 if the log can grow.
    fn taken(&self) -> u32 {
        self.log.fullness().unwrap_or(0)
    }

    /// Returns whether the taken share of the log makes the next checkpoint due.
    pub(crate) fn is_share_taken(&self) -> bool {
        self.log.fullness().is_some_and(|taken| self.schedule.share.is_due(taken))
    }

    /// Called before a transaction's first record. Requests a checkpoint if one is due, and waits
    /// for room if the log is overcommitted.
    pub(crate) fn enter_log(&self, who: Waiter) -> Result<()> {
        let taken = self.taken();
        if self.schedule.share.is_due(taken) {
            self.schedule.worker.notify();
        }
        if !self.is_overcommitted() {
            return Ok(());
        }
        let helps = || self.schedule.share.is_over(self.taken());
        self.make_room_while(who, helps, || self.is_overcommitted())
    }

    /// Returns whether the log is overcommitted: the transactions that have written need all the
    /// room that is left. Each of them is expected to log about as many bytes again as it has
    /// reserved for its rollback.
    fn is_overcommitted(&self) -> bool {
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

    /// Start of the log, if checkpoints make room in it; else `None`.
    pub(crate) fn log_begins(&self) -> Option<Lsn> {
        self.log.is_bounded().then(|| self.log.trimmed_to())
    }

    /// Makes room after a call has found the log full. `before` is the position at which the log
    /// began at that call. Returns when the call can be tried again.
    pub(crate) fn make_room_beyond(&self, before: Lsn, who: Waiter) -> Result<()> {
        let taken = self.taken();
        // The end of another transaction gives back the room that was reserved for it.
        self.make_room_while(who, || true, || self.log.trimmed_to() <= before && self.taken() + LESS > taken)
    }

    /// Waits until `is_needed` is false. In each round the thread takes a checkpoint if one can
    /// make room, and otherwise sleeps, so that other transactions end and other threads take
    /// checkpoints. The caller holds no latch.
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
                // The transaction that keeps the log from being trimmed may never end.
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
            // The thread polls. A transaction that ends wakes no thread here: otherwise each ending
            // transaction would have to look for waiting threads, which seldom exist. (A park with
            // a time limit could consume an unpark token of the program's own executor.)
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The transaction that has not ended and has its first record where the log begins, if there
    /// is one.
    pub(crate) fn head(&self) -> Option<TxnId> {
        let start = self.log.trimmed_to();
        self.active.oldest_of_all().filter(|(_, first)| *first <= start).map(|(txn, _)| txn)
    }

    /// Admission class of a checkpoint's records: critical, unless the checkpoint cannot give space
    /// back.
    pub(crate) fn class_of_checkpoint(&self) -> AppendClass {
        if self.log.is_bounded() && self.head().is_some() {
            AppendClass::Normal
        } else {
            AppendClass::Critical
        }
    }
}
