//! Checkpoints whose files must stay because they are being copied.
//!
//! Any thread. `numbers` is a leaf latch. A number is held with the turn of checkpoints held, while
//! the control file names it, and a checkpoint asks in its turn before it removes files: so what is
//! held is there. A crash ends all holding, and the next opening removes the files.

use crate::latch::Mutex;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct CopiedCheckpoints {
    numbers: Mutex<Vec<u64>>,
}

/// Keeps the files of a checkpoint until dropped.
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

    /// The checkpoints that are held, each as often as it is.
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
