//! A queue of commit callbacks.

use crate::error::Result;

/// Runs the callbacks of [`crate::Transaction::commit_with`] on the thread that calls it. `Send`, not `Sync`.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// Runs the callbacks of all commits that are done; how many. Never blocks.
    pub fn poll(&self) -> usize {
        0
    }

    /// Commits whose callbacks have not run.
    pub fn pending(&self) -> usize {
        0
    }

    /// Blocks until fewer than `limit` commits are pending, running callbacks.
    pub fn wait_below(&self, _limit: usize) -> Result<()> {
        Ok(())
    }

    /// Blocks until no commit is pending, running callbacks.
    pub fn drain(&self) -> Result<()> {
        Ok(())
    }
}
