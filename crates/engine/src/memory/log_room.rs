//! Room in the log. Only checkpoints make room in a log in NVRAM, which cannot grow, and in a log
//! in files that is longer than `log_hard_bytes`.
//!
//! Threads of transactions run this code. [`crate::fullness`] says which transactions wait, and for
//! what. A checkpoint frees all log that existed when it began, whatever transactions are open. So
//! a transaction that waits for a checkpoint gets room, if its record fits into the log.
//!
//! Room for a transaction's record is made before the transaction is validated. From its validation
//! until its end, the transaction's versions may be in place and undecided. A checkpoint waits for
//! undecided versions, so their transaction must not wait for a checkpoint.

use super::engine::Engine;
use super::store::ActiveTxn;
use crate::error::{Error, Result};
use crate::fullness::{FULL, used_and_limit};
use katydid_wal::{ReserveGuard, Stream};

/// Maximum bytes of a record in addition to its writes: its dependencies.
const HEAD_BYTES: u64 = 2048;
/// Maximum bytes of each write in addition to key and value.
const WRITE_BYTES: u64 = 16;
/// Share of a stream in use, in per mille, below which small records need no room set aside. A
/// record is small if it takes at most one part in [`SMALL`] of the stream. Below this share, the
/// small records of all transactions that commit at the same time find room.
const ROOMY: u32 = 500;
const SMALL: u64 = 256;

impl Engine {
    fn is_nearly_full(log: &Stream) -> bool {
        log.fullness().is_some_and(|taken| taken >= FULL)
    }

    /// Called before a transaction's first write. Requests a checkpoint if one is due, and takes
    /// one or waits for one if the log is nearly full.
    pub(super) fn enter_log(&self, log: &Stream) -> Result<()> {
        let taken = log.fullness().unwrap_or(0);
        if self.schedule.share.is_due(taken) {
            self.schedule.worker.notify();
        }
        while Self::is_nearly_full(log) {
            self.make_room(log, || Self::is_nearly_full(log))?;
        }
        Ok(())
    }

    /// Takes a checkpoint, if one is still needed after the checkpoints that other threads are
    /// taking. The caller checks again, because other threads may have filled the log meanwhile;
    /// one more checkpoint then makes room.
    ///
    /// # Errors
    /// `LogFull`, if the caller's own checkpoint freed nothing and room is still needed.
    #[cold]
    pub(super) fn make_room(&self, log: &Stream, is_needed: impl Fn() -> bool) -> Result<()> {
        let before = log.trimmed_to();
        let is_taken = self.checkpoint_if(&is_needed)?;
        if is_taken && log.trimmed_to() <= before && is_needed() { Err(self.log_full(log)) } else { Ok(()) }
    }

    pub(super) fn log_full(&self, log: &Stream) -> Error {
        let (used, limit) = match log.is_bounded() {
            true => used_and_limit(log),
            false => (self.log_bytes(), self.options.advanced.log_hard_bytes),
        };
        Error::LogFull { pinned_by: self.pinned_by(), used, limit }
    }

    /// Sets room aside for the transaction's record, if the calling thread's stream may have too
    /// little. Dropping the returned guard gives the room back.
    ///
    /// # Errors
    /// `LogFull`; the log's `TooLarge` if the record does not fit into an empty stream.
    pub(super) fn set_aside(&self, running: &ActiveTxn) -> Result<Option<ReserveGuard>> {
        let log = self.stream_of_thread();
        let Some(taken) = log.fullness() else { return Ok(None) };
        let (bytes, count) = running.to_write();
        if count == 0 {
            return Ok(None);
        }
        let bytes = log.record_bytes(HEAD_BYTES + bytes as u64 + count as u64 * WRITE_BYTES);
        if taken < ROOMY && bytes.saturating_mul(SMALL) <= log.capacity().unwrap_or(u64::MAX) {
            return Ok(None);
        }
        loop {
            let before = log.trimmed_to();
            match log.raise_reserve(bytes) {
                Ok(guard) => return Ok(Some(guard)),
                Err(katydid_wal::Error::NoSpace) => {}
                Err(error) => return Err(error.into()),
            }
            if log.space().live > 0 {
                self.make_room(log, || log.trimmed_to() <= before && log.space().live > 0)?;
            } else {
                // Other transactions have set the room aside and are about to use it.
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, EngineKind, Error, Options};
    use katydid_device::SimDevice;
    use katydid_wal::Background;
    use std::cell::Cell;

    fn open() -> Database {
        let mut options = Options { engine: EngineKind::Memory.into(), ..Options::default() };
        options.advanced.log.background = Background::Caller;
        Database::open_in(SimDevice::new(1).directory(), options).expect("open")
    }

    /// Another thread's checkpoint makes room before this thread may take one, and other threads
    /// fill the room before this thread checks again.
    #[test]
    fn room_that_others_made_and_filled_is_no_full_log() {
        let database = open();
        let engine = database.memory().engine();
        let looks = Cell::new(0);
        let is_needed = || looks.replace(looks.get() + 1) > 0;
        engine.make_room(engine.stream_of_thread(), is_needed).expect("the caller looks again");
        assert_eq!(looks.get(), 1, "only in its turn");
    }

    #[test]
    fn a_checkpoint_that_frees_nothing_is_a_full_log() {
        let database = open();
        let engine = database.memory().engine();
        let log = engine.stream_of_thread();
        // The first checkpoint frees what creation has left in the log.
        database.checkpoint().expect("checkpoint");
        match engine.make_room(log, || true).expect_err("full") {
            Error::LogFull { limit, .. } => assert_eq!(limit, engine.options.advanced.log_hard_bytes),
            other => panic!("{other}"),
        }
    }
}
