//! Fuzzy checkpoints, and the thread that takes them and writes pages back.
//!
//! A checkpoint stops no transaction. These are its steps:
//!
//! - (1) write back pages that have been dirty since before the previous checkpoint, so that the
//!   log's start can move;
//! - (2) append the begin record and pass a barrier of the log, so that all later records lie above
//!   the begin record;
//! - (3) capture the active transactions and then the dirty pages;
//! - (4) append the captured lists and the end record;
//! - (5) make the log durable up to the end record;
//! - (6) name the begin record in the control file, durably;
//! - (7) trim the log.
//!
//! Invariants:
//!
//! 1. A transaction that has a record below the begin record is captured with its first LSN, unless
//!    it has ended before the capture (`active`, invariant 1). Every page that a record below the
//!    begin record changed is captured, unless the change is durable in place
//!    (`Pool::dirty_pages`). Analysis finds later transactions and dirty pages by reading the log
//!    from the begin record on.
//! 2. The log is trimmed at most to the least of these positions: the begin record, the captured
//!    recovery LSNs, and the captured first LSNs. So redo and undo find everything they need from
//!    the checkpoint that the control file names.
//! 3. The control file names a checkpoint only when its end record is durable.
//!
//! With a log in files, step (1) lets the checkpoint trim the log up to the begin record of the
//! previous checkpoint, as far as open transactions allow. The worker writes most of these pages
//! before the checkpoint is due, in small batches in step with the log (`spread`), so that commits
//! seldom wait long for the device. When the worker takes the checkpoint, it writes the rest in
//! batches of the same size, or in full batches while the log is above its soft limit. A thread
//! that waits for its checkpoint writes full batches.
//!
//! A log in NVRAM is too small for the log of two intervals between checkpoints. So with such a
//! log, and after a refusal for lack of space, step (1) writes back all dirty pages. Then the log
//! can be trimmed up to this checkpoint, or up to the oldest transaction that has not ended.
//!
//! A crash before (6) leaves the previous checkpoint in force, with all the log it needs. A crash
//! between (6) and (7) leaves more log than needed.
//!
//! The worker ([`crate::checkpoint_schedule`]) is notified in these cases:
//!
//! - a commit finds that enough log has been appended for a checkpoint or for the next batch of
//!   pages;
//! - a writer finds the log above its soft limit, or a log in NVRAM too full;
//! - a writer finds few free pages in the database file, which the worker then grows;
//! - the device has refused space to an operation;
//! - a transaction could not be ended (`unfinished`).
//!
//! Tests whose runs must be identical have no worker. Such tests call `Engine::run_background`,
//! which does the worker's work.

use crate::Lsn;
use crate::checkpoint_schedule::{CheckpointSchedule, Taker, TakesCheckpoints};
use crate::control::Shutdown;
use crate::error::Result;
use crate::opening::Opening;
use crate::paged::engine::Engine;
use crate::paged::log_record::{
    CHECKPOINT_ACTIVE, CHECKPOINT_BEGIN, CHECKPOINT_END, CHECKPOINT_PAGES, CheckpointEnd, PAGES_PER_RECORD,
    REWRITTEN, encode_active, encode_checkpoint_end, encode_pages,
};
use crate::paged::spread::{Pace, Spread};
use crate::pause::{self, PausePoint};
use katydid_wal::{Append, AppendClass, Appended, Background, Durability, Kind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of pages written back between two checks for a stop.
const FLUSH_PAGES: usize = 1024;

/// Bytes of log after which the worker checks whether the pool runs out of clean pages.
const LOOK_BYTES: u64 = 1 << 20;

/// Minimum bytes of log in use for which a checkpoint is taken on a full device.
const WORTH_BYTES: u64 = 256 << 10;

/// A record of a checkpoint.
#[derive(Clone, Copy)]
struct Part {
    kind: u8,
    begin: Lsn,
    class: AppendClass,
}

impl TakesCheckpoints for Engine {
    fn schedule(&self) -> &CheckpointSchedule {
        &self.schedule
    }

    fn checkpoint_is_due(&self) -> bool {
        self.schedule.is_due(0, self.log.reserved())
            || self.is_share_taken()
            || self.lacks_space.load(Ordering::Relaxed)
            || self.is_log_long()
                // If the log already begins at the oldest open transaction, a checkpoint would trim
                // nothing and only make the log longer.
                && self.head().is_none()
    }

    fn checkpoint_of(&self) -> (&Opening, &str) {
        (&self.opening, &self.place)
    }

    fn write_checkpoint(&self, taker: Taker) -> Result<()> {
        let lacks_space = self.lacks_space.swap(false, Ordering::Relaxed);
        if self.log.is_bounded() || lacks_space {
            self.pool.flush_all()?;
            return self.capture();
        }
        let older = self.pool.dirty_before(self.last_checkpoint());
        let mut rest = older.as_slice();
        let mut pace = Pace::new(self.pool.page_bytes());
        while !rest.is_empty() && !self.schedule.worker.is_stopping() {
            let limit = match taker {
                Taker::Worker if !self.is_log_long() => pace.next(self.log.reserved()),
                Taker::Worker | Taker::Caller => FLUSH_PAGES,
            };
            let (pages, later) = rest.split_at(limit.min(rest.len()));
            self.pool.flush_pages(pages.to_vec())?;
            rest = later;
        }
        self.capture()
    }

    fn trimmed_bytes(&self) -> u128 {
        self.log.trimmed_to().get().into()
    }

    fn on_notification(&self) {
        // If a transaction cannot be ended yet, the worker tries again at the next notification,
        // and so does a thread that needs the transaction's locks or log space.
        self.end_unended();
        if self.space.is_short() {
            // A lack of space is reported to the transaction that needs a page; any other failure
            // has shut the gate.
            let _grown = self.space.grow_ahead();
        }
        self.take_due_checkpoints();
        // A failure has shut the gate, and the next write reports it.
        let _cleaned = self.clean_pages();
        let _written = self.write_in_step();
        self.look_again();
    }
}

impl Engine {
    /// LSN of the begin record of the last complete checkpoint.
    pub(crate) fn last_checkpoint(&self) -> Lsn {
        Lsn::new(self.checkpoint_begin.load(Ordering::Acquire))
    }

    /// Called after the device refused space to an operation. Has the worker take a checkpoint,
    /// which gives log segments back. If a checkpoint could trim little, none is taken, because a
    /// checkpoint's records come out of the reserve that rollback relies on.
    pub(crate) fn refused_for_space(&self) {
        if self.log_bytes() < WORTH_BYTES || self.head().is_some() {
            return;
        }
        self.lacks_space.store(true, Ordering::Relaxed);
        self.schedule.worker.notify();
    }

    /// Starts the worker, if the options ask for background threads.
    pub(crate) fn start_checkpoints(self: &Arc<Self>) -> std::io::Result<()> {
        self.schedule.set_due(&[self.last_checkpoint()], self.options.advanced.checkpoint_bytes);
        self.look_again();
        CheckpointSchedule::start(self, self.options.advanced.log.background)
    }

    /// If the engine was opened without background threads, does the work that these threads would
    /// have done by now. Otherwise does nothing.
    pub(crate) fn run_background(&self) {
        if self.options.advanced.log.background == Background::Threads {
            return;
        }
        self.whole_log.run_background();
        if self.schedule.worker.take_notification() {
            self.on_notification();
        }
    }

    /// Sets the position in the log at which a commit notifies the worker next.
    fn look_again(&self) {
        let look = self.log.reserved().plus(LOOK_BYTES);
        let spread = self.spread.lock();
        let at = if spread.begin() == self.last_checkpoint() {
            spread.next_at().map_or(look, |batch| batch.min(look))
        } else {
            // The worker has not listed the pages of the next checkpoint yet.
            Lsn::ZERO
        };
        self.schedule.wake_at(0, at);
    }

    /// Returns whether a log that can grow is above its soft limit.
    fn is_log_long(&self) -> bool {
        !self.log.is_bounded() && self.log_bytes() > self.options.advanced.log_soft_bytes
    }

    /// Writes back the pages that the next checkpoint has to write, as far as the log has advanced
    /// towards that checkpoint. Ends when a checkpoint is due, because the checkpoint writes all
    /// pages that are left.
    fn write_in_step(&self) -> Result<()> {
        let begin = self.last_checkpoint();
        if self.spread.lock().begin() != begin {
            // With a log in NVRAM a checkpoint writes all pages that are dirty when it is due, so a
            // page that is written earlier may have to be written twice.
            let is_spread = !self.log.is_bounded();
            let pages = if is_spread { self.pool.dirty_before(begin) } else { Vec::new() };
            *self.spread.lock() = Spread::new(begin, self.options.advanced.checkpoint_bytes, pages);
        }
        let mut pace = Pace::new(self.pool.page_bytes());
        // If another thread takes a checkpoint meanwhile, the next commit notifies the worker, and
        // the worker makes a new list.
        while self.last_checkpoint() == begin
            && !self.checkpoint_is_due()
            && !self.schedule.worker.is_stopping()
        {
            let end = self.log.reserved();
            let due = self.spread.lock().take_due(end, pace.next(end));
            let Some(pages) = due else { break };
            self.pool.flush_pages(pages)?;
        }
        Ok(())
    }

    /// Writes cold pages back while at least 7/8 of the pool's frames are in use and more than half
    /// of the frames are dirty, so that transactions need not write pages to get room.
    fn clean_pages(&self) -> Result<()> {
        loop {
            let pool = self.pool.stat();
            let is_full = pool.resident >= pool.capacity - pool.capacity / 8;
            if !is_full || pool.dirty <= pool.capacity / 2 || self.schedule.worker.is_stopping() {
                return Ok(());
            }
            if self.pool.flush_cold(FLUSH_PAGES.min(pool.capacity / 8))? == 0 {
                return Ok(());
            }
        }
    }

    /// Takes a checkpoint after which the log is trimmed as far as open transactions allow, if
    /// `is_needed` still returns true once this caller holds `CheckpointSchedule::turn`.
    pub(crate) fn checkpoint_if(&self, is_needed: impl FnOnce() -> bool) -> Result<()> {
        let _turn = self.schedule.turn.lock();
        if is_needed() {
            if self.log.is_bounded() {
                // Every dirty page retains the log from its recovery LSN on. So this calls
                // `flush_all`, which also waits for the pages whose latches other threads hold, and
                // writes them back.
                self.pool.flush_all()?;
            } else {
                self.pool.flush_older(self.log.reserved())?;
            }
            self.capture()?;
        }
        Ok(())
    }

    /// Writes all dirty pages back, then takes a checkpoint.
    pub(crate) fn checkpoint_all(&self) -> Result<()> {
        let _turn = self.schedule.turn.lock();
        self.pool.flush_all()?;
        self.capture()
    }

    /// Appends a part of a checkpoint. The parts are in the log in the order of the appends,
    /// because one thread appends them (`active`, invariant 4).
    fn append_part(&self, part: Part, payload: &[&[u8]]) -> Result<Appended> {
        let Part { kind, begin, class } = part;
        let append = Append::new(Kind::new(kind), payload).prev(begin).class(class);
        self.active.append(&self.log, &append)
    }

    fn capture(&self) -> Result<()> {
        let class = self.class_of_checkpoint();
        let is_rewritten = self.is_rewritten.load(Ordering::Relaxed);
        let rewritten: &[&[u8]] = if is_rewritten { &[&REWRITTEN] } else { &[] };
        let begin = self.append_part(Part { kind: CHECKPOINT_BEGIN, begin: Lsn::ZERO, class }, rewritten)?;
        let part = |kind| Part { kind, begin: begin.lsn, class };
        self.barrier.separate(begin.lsn);
        let active = self.active.capture();
        // The recovery LSN of a dirty page may lie below the start of the log. For example, a
        // thread has read that LSN before an earlier checkpoint, and stored it in the page's frame
        // after that checkpoint had captured the pages. No record below the start is needed, so the
        // LSN is raised to the start.
        let start = self.log.trimmed_to();
        let dirty: Vec<(u64, Lsn)> =
            self.pool.dirty_pages().into_iter().map(|(page, lsn)| (page.get(), lsn.max(start))).collect();
        pause::at(PausePoint::Captured);
        for pages in dirty.chunks(PAGES_PER_RECORD) {
            let payload = encode_pages(pages);
            self.append_part(part(CHECKPOINT_PAGES), &[&payload])?;
        }
        if !active.is_empty() {
            let mut payload = Vec::new();
            for entry in &active {
                encode_active(entry, &mut payload);
            }
            self.append_part(part(CHECKPOINT_ACTIVE), &[&payload])?;
        }
        let (next_txn, next_table) = (self.active.txn_limit(), self.control.get().next_table);
        let end = CheckpointEnd { begin: begin.lsn, next_txn, next_table: u64::from(next_table) };
        let payload = encode_checkpoint_end(&end);
        let end = self.append_part(part(CHECKPOINT_END), &[&payload])?;
        self.log.wait(end.end, Durability::Durable)?;
        let keep = dirty
            .iter()
            .map(|(_, lsn)| *lsn)
            .chain(active.iter().map(|entry| entry.first))
            .fold(begin.first, Lsn::min);
        // During the last checkpoint of a closing no other thread runs. So if nothing was captured,
        // recovery has nothing to do, and the shutdown is clean.
        let is_last = self.opening.is_ending();
        let ends_here = self.log.reserved() == end.end || !self.options.advanced.log.medium.keeps_order();
        debug_assert!(ends_here || !is_last, "a record behind the last checkpoint");
        let is_clean = is_last && active.is_empty() && dirty.is_empty() && ends_here;
        self.control.update(|control| {
            control.checkpoint = begin.lsn;
            control.next_transaction = next_txn;
            control.shutdown = if is_clean { Shutdown::Clean } else { Shutdown::Unclean };
        })?;
        self.checkpoint_begin.store(begin.lsn.get(), Ordering::Release);
        self.is_rewritten.store(false, Ordering::Relaxed);
        self.schedule.count();
        self.schedule.set_due(&[begin.lsn], self.options.advanced.checkpoint_bytes);
        self.look_again();
        self.log.trim(keep)?;
        if let Some(taken) = self.log.fullness() {
            self.schedule.share.left(taken);
        }
        Ok(())
    }
}

#[cfg(test)]
mod pacing_tests;
#[cfg(test)]
mod tests;
