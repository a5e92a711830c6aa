//! Releasing locks when a commit is durable, for commits that nobody waits for by blocking.
//!
//! With `LockRelease::AfterDurable` a transaction that commits with a callback or a future has left its thread when it
//! becomes durable, and nobody may ever poll the callback or the future. So the release depends on neither: a thread
//! of its own, started by the first such commit, waits for the log and releases. It is parked while there is nothing to
//! release. (Giving the duty to whoever waits for the lock was the other choice; it saves this thread but makes every
//! lock wait know about the log, and the deadlock detector about waits that are no locks.)
//!
//! Invariants:
//!
//! 1. Locks are released only when the log has reached what their commit asked for, or never: after a failure they are
//!    kept, because nobody knows whether the commit survives.
//! 2. The queue is drained before the thread ends.

use crate::lock::TxnLocks;
use crate::paged::engine::Engine;
use crate::paged::transaction::Committed;
use katydid_wal::Background;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

#[derive(Debug)]
struct Pending {
    committed: Committed,
    locks: TxnLocks,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Pending>,
    stopping: bool,
    thread: Option<JoinHandle<()>>,
}

/// The queue of locks to release.
#[derive(Debug, Default)]
pub(crate) struct Releaser {
    // Leaf latch.
    state: Mutex<State>,
    more: Condvar,
}

impl Releaser {
    /// Releases `locks` once the log has come as far as their transaction asked.
    pub(crate) fn release_later(engine: &Arc<Engine>, locks: TxnLocks, committed: Committed) {
        if engine.options.log.background == Background::Caller {
            engine.release_pending(vec![Pending { committed, locks }]);
            return;
        }
        let mut state = engine.releaser.state.lock();
        state.queue.push_back(Pending { committed, locks });
        if state.thread.is_none() && !state.stopping {
            let weak = Arc::downgrade(engine);
            let thread = std::thread::Builder::new().name("katydid-release".to_owned());
            match thread.spawn(move || run(&weak)) {
                Ok(thread) => state.thread = Some(thread),
                Err(_) => {
                    // No thread to be had: this one waits, which is slow and right.
                    let pending: Vec<Pending> = state.queue.drain(..).collect();
                    drop(state);
                    engine.release_pending(pending);
                    return;
                }
            }
        }
        drop(state);
        engine.releaser.more.notify_one();
    }

    /// Ends the thread when everything is released.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut state = self.state.lock();
            state.stopping = true;
            state.thread.take()
        };
        self.more.notify_all();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has been reported by the thread itself.
            let _panicked = thread.join();
        }
    }
}

fn run(weak: &Weak<Engine>) {
    let Some(engine) = weak.upgrade() else { return };
    loop {
        let pending: Vec<Pending> = {
            let mut state = engine.releaser.state.lock();
            while state.queue.is_empty() {
                if state.stopping {
                    return;
                }
                engine.releaser.more.wait(&mut state);
            }
            state.queue.drain(..).collect()
        };
        engine.release_pending(pending);
    }
}

impl Engine {
    fn release_pending(&self, pending: Vec<Pending>) {
        for Pending { committed, mut locks } in pending {
            match self.log.wait(committed.end, committed.durability) {
                Ok(()) => self.locks.release_all(&mut locks, committed.left_behind()),
                Err(_) => self.keep_locks(locks),
            }
        }
    }
}
