//! Checkpoints whose files must not be removed because they are being copied.
//!
//! Any thread runs this code. `numbers` is a leaf latch. A copy holds `CheckpointSchedule::turn`
//! while it adds the number of the checkpoint that the control file names. A checkpoint holds
//! `turn` while it reads `numbers` and removes files. So all files of the checkpoints in `numbers`
//! exist. After a crash the list is empty, and the next opening removes the files of former
//! checkpoints.

use crate::latch::Mutex;

/// The numbers of the checkpoints that are being copied.
#[derive(Debug, Default)]
pub(crate) struct CopiedCheckpoints {
    numbers: Mutex<Vec<u64>>,
}

/// Keeps the files of a checkpoint until this guard is dropped.
#[must_use = "dropping it lets the files be removed"]
#[derive(Debug)]
pub(crate) struct CopiedCheckpoint<'a> {
    all: &'a CopiedCheckpoints,
    number: u64,
}

impl CopiedCheckpoints {
    /// Keeps the files of the checkpoint that the control file names.
    pub(super) fn hold(&self, number: u64) -> CopiedCheckpoint<'_> {
        self.numbers.lock().push(number);
        CopiedCheckpoint { all: self, number }
    }

    /// The numbers of the checkpoints that are being copied, once for each copy.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.numbers.lock().clone()
    }
}

impl Drop for CopiedCheckpoint<'_> {
    fn drop(&mut self) {
        let mut numbers = self.all.numbers.lock();
        if let Some(at) = numbers.iter().position(|number| *number == self.number) {
            numbers.swap_remove(at);
        }
    }
}
