//! Stage three of a log in NVRAM: there is nothing to write. Whoever waits looks whether the holes below are filled, until they are.
//!
//! A hole is filled by a thread that is copying, so the wait is as short as a copy, or as that thread's turn on the processor. Nothing is done for
//! those who do not wait: they look when they ask.

use super::{Ask, Rounds, SyncProtocol};
use crate::lsn::Lsn;
use crate::options::Durability;
use crate::sync_shim::pause;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Persisted;

impl SyncProtocol for Persisted {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        let mut step = 0;
        while !rounds.settled(end, level) {
            // It only looks.
            let _plan = rounds.plan(Ask { level, own: end, only_own: false, depth: 1 });
            if rounds.settled(end, level) {
                return;
            }
            pause(step);
            step += 1;
        }
    }

    fn request(&self, _: &dyn Rounds, _: Durability) {}

    fn serve(&self, _: &dyn Rounds, _: usize) {}

    fn stop(&self) {}

    fn syncer_wakeups(&self) -> u64 {
        0
    }
}
