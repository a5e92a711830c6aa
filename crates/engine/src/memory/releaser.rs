//! Ending transactions that keep their versions to themselves until they are durable, when nobody waits for them by blocking.
//!
//! With `LockRelease::AfterDurable` a transaction that commits with a callback or a future has left its thread when it becomes durable,
//! and nobody may ever poll the callback or the future. So a thread of its own, started by the first such commit, waits for the log and
//! ends them, in their order. It is parked while there is none.
//!
//! Invariants:
//!
//! 1. A transaction is ended only when the log has come as far as it asked, or never will.
//! 2. The queue is drained before the thread ends, and nothing is put in it after that.

use super::engine::{Committed, Engine};
use super::store::Validated;
use katydid_wal::Background;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

#[derive(Debug)]
struct Pending {
    committed: Committed,
    held: Validated,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Pending>,
    stopping: bool,
    thread: Option<JoinHandle<()>>,
}

/// The queue of transactions to end.
#[derive(Debug, Default)]
pub(crate) struct Releaser {
    // Leaf latch.
    state: Mutex<State>,
    more: Condvar,
}

impl Releaser {
    /// Ends `held` once the log has come as far as it asked.
    pub(super) fn end_later(engine: &Arc<Engine>, committed: Committed, held: Validated) {
        if engine.options.log.background == Background::Caller {
            engine.end_pending([Pending { committed, held }]);
            return;
        }
        let mut state = engine.releaser.state.lock();
        if state.stopping {
            // The database is being closed, and nobody looks at the queue any more.
            drop(state);
            engine.end_pending([Pending { committed, held }]);
            return;
        }
        state.queue.push_back(Pending { committed, held });
        if state.thread.is_none() {
            let weak = Arc::downgrade(engine);
            let thread = std::thread::Builder::new().name("katydid-release".to_owned());
            match thread.spawn(move || run(&weak)) {
                Ok(thread) => state.thread = Some(thread),
                Err(_) => {
                    // No thread to be had: this one waits, which is slow and right.
                    let pending = std::mem::take(&mut state.queue);
                    drop(state);
                    engine.end_pending(pending);
                    return;
                }
            }
        }
        drop(state);
        engine.releaser.more.notify_one();
    }

    /// Ends the thread when everything is ended.
    pub(super) fn stop(&self) {
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
        let pending = {
            let mut state = engine.releaser.state.lock();
            while state.queue.is_empty() {
                if state.stopping {
                    return;
                }
                engine.releaser.more.wait(&mut state);
            }
            std::mem::take(&mut state.queue)
        };
        engine.end_pending(pending);
    }
}

impl Engine {
    fn end_pending(&self, pending: impl IntoIterator<Item = Pending>) {
        for Pending { committed, held } in pending {
            let outcome = self.wait(&committed);
            self.end(&committed, held, &outcome);
        }
    }
}
