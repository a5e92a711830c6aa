//! Ending transactions that hold on to something until they are durable, when nobody waits for them by blocking.
//!
//! With `LockRelease::AfterDurable` a transaction that commits with a callback or a future has left its thread when it becomes
//! durable, and nobody may ever poll the callback or the future. So the end depends on neither: a thread of its own, started by the
//! first such commit, waits for the log and ends them, in their order. It is parked while there is none. (Giving the duty to whoever
//! waits for what is held was the other choice; it saves this thread, but makes every such wait know about the log, and the deadlock
//! detector about waits that are no locks.)
//!
//! Invariants:
//!
//! 1. What is pending is given to the engine's `end_pending`, which waits for the log, once, in the order of the calls.
//! 2. The queue is drained before the thread ends, and nothing is put in it after that: a later committing thread ends its own.
//! 3. A panic while one transaction is ended shuts the engine off, for what that transaction holds may never be released. The thread goes
//!    on with the others.

use crate::latch::{Condvar, Mutex};
use katydid_wal::Background;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// An engine that has such transactions.
pub(crate) trait EndsLater: Send + Sync + 'static {
    /// A transaction that is in the log, and what it holds.
    type Pending: Send;
    fn ender(&self) -> &Ender<Self::Pending>;
    /// Waits until the log has come as far as the transaction asked, or never will, and ends it accordingly.
    fn end_pending(&self, pending: Self::Pending);
    /// Shuts the engine off, for the reason given: one of its own threads panicked.
    fn panicked(&self, what: &'static str);
}

/// Why the engine is shut off after a panic.
const PANICKED: &str = "a panic while a durable transaction was ended";

#[derive(Debug)]
struct State<P> {
    queue: VecDeque<P>,
    stopping: bool,
    thread: Option<JoinHandle<()>>,
}

/// The queue of transactions to end.
#[derive(Debug)]
pub(crate) struct Ender<P> {
    // Leaf latch.
    state: Mutex<State<P>>,
    more: Condvar,
}

impl<P> Default for Ender<P> {
    fn default() -> Self {
        let state = State { queue: VecDeque::new(), stopping: false, thread: None };
        Ender { state: Mutex::new(state), more: Condvar::new() }
    }
}

impl<P> Ender<P> {
    /// Ends `pending` in its time; on this thread, which waits, if there is to be no other or none to be had.
    pub(crate) fn end_later<E: EndsLater<Pending = P>>(engine: &Arc<E>, background: Background, pending: P) {
        if background == Background::Caller {
            engine.end_pending(pending);
            return;
        }
        let mut state = engine.ender().state.lock();
        if state.stopping {
            drop(state);
            engine.end_pending(pending);
            return;
        }
        state.queue.push_back(pending);
        if state.thread.is_none() {
            let weak = Arc::downgrade(engine);
            let thread = std::thread::Builder::new().name("katydid-release".to_owned());
            match thread.spawn(move || run(&weak)) {
                Ok(thread) => state.thread = Some(thread),
                Err(_) => {
                    let queue = std::mem::take(&mut state.queue);
                    drop(state);
                    queue.into_iter().for_each(|pending| engine.end_pending(pending));
                    return;
                }
            }
        }
        drop(state);
        engine.ender().more.notify_one();
    }

    /// Ends the thread when everything is ended.
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

    /// What is to be ended; `None` when the thread is to end.
    fn next(&self) -> Option<VecDeque<P>> {
        let mut state = self.state.lock();
        while state.queue.is_empty() {
            if state.stopping {
                return None;
            }
            self.more.wait(&mut state);
        }
        Some(std::mem::take(&mut state.queue))
    }
}

fn run<E: EndsLater>(weak: &Weak<E>) {
    let Some(engine) = weak.upgrade() else { return };
    while let Some(pending) = engine.ender().next() {
        for pending in pending {
            // The panic itself has been reported by the hook.
            if catch_unwind(AssertUnwindSafe(|| engine.end_pending(pending))).is_err() {
                engine.panicked(PANICKED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics when it ends the transaction numbered 2.
    #[derive(Default)]
    struct Panics {
        ender: Ender<u32>,
        ended: Mutex<Vec<u32>>,
        shut_off: Mutex<Option<&'static str>>,
    }

    impl EndsLater for Panics {
        type Pending = u32;

        fn ender(&self) -> &Ender<u32> {
            &self.ender
        }

        fn end_pending(&self, pending: u32) {
            assert_ne!(pending, 2, "planted");
            self.ended.lock().push(pending);
        }

        fn panicked(&self, what: &'static str) {
            *self.shut_off.lock() = Some(what);
        }
    }

    #[test]
    fn a_panic_while_one_transaction_ends_shuts_off_the_engine_and_ends_the_others() {
        let engine = Arc::new(Panics::default());
        for pending in 1..=4 {
            Ender::end_later(&engine, Background::Threads, pending);
        }
        engine.ender.stop();
        assert_eq!(*engine.ended.lock(), [1, 3, 4]);
        assert_eq!(*engine.shut_off.lock(), Some(PANICKED));
    }
}
