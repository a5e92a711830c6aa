//! Stage three: who writes and syncs, and who is told.
//!
//! One trait, [`SyncProtocol`]; one file per design; all of them pass `testing::conformance`. The pieces they share: the baton
//! (`waiters`), what a leader does with it (`leading`), and the syncer thread (`syncer`).
//!
//! Rules for every design:
//!
//! 1. Only the holder of the baton calls [`Rounds::write`] and [`Rounds::sync`].
//! 2. Whoever is queued is looked at after every write and sync, and woken once settled. After a failure everybody is settled.
//! 3. A wish (a non-blocking request) is forgotten only after a round that got everything reserved before it to its level.
//! 4. With nobody queued and nothing wished, no thread runs: there is no timer.

mod adaptive;
#[cfg(test)]
mod checks;
mod gather;
mod leading;
mod pipelined;
mod syncer;
mod waiters;

use crate::lsn::Lsn;
use crate::options::{Durability, Options, SyncKind};
use std::fmt::Debug;

/// How a write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wrote {
    /// Everything that had been reserved when it began is written.
    pub(crate) all: bool,
    /// A sync is needed to get what is written to the level that was asked for.
    pub(crate) needs_sync: bool,
}

/// What a protocol drives. Implemented by the log, and by small models in tests.
pub(crate) trait Rounds {
    /// Writes what is filled. Waits, briefly, until `own` is filled. Never returns an error: a failure settles everybody.
    fn write(&self, level: Durability, own: Lsn) -> Wrote;
    /// Makes what is written durable.
    fn sync(&self);
    /// Whether `end` has got to `level`, or never will.
    fn settled(&self, end: Lsn, level: Durability) -> bool;
    /// Starts the thread that calls [`SyncProtocol::serve`]; false if that is impossible.
    fn start_syncer(&self) -> bool;
    /// So many waiters have just been released.
    fn released(&self, waiters: u64);
}

/// A design of stage three.
pub(crate) trait SyncProtocol: Send + Sync + Debug {
    /// Blocks until `end`, which is reserved, is settled at `level`.
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability);
    /// Makes sure that everything reserved by now gets to `level`; does not wait for it.
    fn request(&self, rounds: &dyn Rounds, level: Durability);
    /// The body of the syncer thread.
    fn serve(&self, rounds: &dyn Rounds);
    /// Ends [`SyncProtocol::serve`], after what it has in hand. Later requests are served by whoever makes them.
    fn stop(&self);
    /// How often the syncer thread has woken up.
    fn syncer_wakeups(&self) -> u64;
}

/// The design that the options name.
pub(crate) fn choose(options: &Options) -> Box<dyn SyncProtocol> {
    match options.sync {
        SyncKind::Adaptive => Box::new(adaptive::Adaptive::new()),
        SyncKind::Pipelined => Box::new(pipelined::Pipelined::new()),
    }
}
