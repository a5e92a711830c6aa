//! Restart: analysis, redo, undo.
//!
//! Runs on the thread that opens the database, before any other thread uses the database; redo
//! starts more threads. `docs/recovery.md` argues why the outcome is right. Invariants:
//!
//! 1. Reading the checkpoint changes nothing. Redo changes pages in memory as the log says and
//!    appends nothing. Undo appends compensation records before it changes pages, like any
//!    transaction.
//! 2. Redo repeats every change of every transaction, losers included, on every page that may lack
//!    the change. After redo the pages are as they were when the last record of the log was
//!    appended.
//! 3. Undo continues where compensation records say that an earlier undo stopped, so it undoes
//!    nothing twice.
//!
//! A crash during recovery leaves more compensation records in the log and some newer pages. The
//! next recovery begins at the same checkpoint, or, if the crashed recovery completed a checkpoint,
//! at that one. In both cases it arrives at the same state.

mod analysis;
#[cfg(test)]
mod analysis_tests;
mod redo;

pub(crate) use analysis::{Analysis, Checkpoint, read_checkpoint};
pub(crate) use redo::repeat;

use crate::Lsn;
use crate::options::{Phase, RecoveryProgress};

/// Reports the progress of recovery to the opening program. A pass over the log reports at its
/// begin and its end, and in between at most once for each [`STEP_BYTES`] of log.
#[derive(Clone)]
pub(crate) struct Progress {
    receiver: Option<RecoveryProgress>,
}

const STEP_BYTES: u64 = 1 << 20;

impl Progress {
    pub(crate) fn new(receiver: Option<RecoveryProgress>) -> Self {
        Progress { receiver }
    }

    pub(crate) fn report(&self, phase: Phase, done: u64, total: u64) {
        if let Some(receiver) = &self.receiver {
            receiver(phase, done, total);
        }
    }

    /// Begins a pass over the log from `from` to `to`, and reports the begin.
    fn over(&self, phase: Phase, from: Lsn, to: Lsn) -> Walk<'_> {
        self.report(phase, 0, to.since(from));
        Walk { progress: self, phase, from, to, reported: from }
    }
}

struct Walk<'a> {
    progress: &'a Progress,
    phase: Phase,
    from: Lsn,
    to: Lsn,
    reported: Lsn,
}

impl Walk<'_> {
    #[inline]
    fn at(&mut self, lsn: Lsn) {
        if lsn.since(self.reported) >= STEP_BYTES {
            self.reported = lsn;
            self.progress.report(self.phase, lsn.since(self.from), self.to.since(self.from));
        }
    }

    fn done(self) {
        let total = self.to.since(self.from);
        self.progress.report(self.phase, total, total);
    }
}
