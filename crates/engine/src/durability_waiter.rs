//! Ending transactions that hold locks or versions until they are durable, when no thread blocks on
//! them.
//!
//! With `LockRelease::AfterDurable` a transaction that commits with a callback or a future has left
//! its thread when it becomes durable, and the program may never poll the callback or the future.
//! So the end depends on neither: the first such commit starts a thread, which waits for the log
//! and ends the transactions in their order. It is parked while there is none. (The alternative was
//! to give the duty to the thread that waits for what is held. That saves this thread, but makes
//! every such wait know about the log, and the deadlock detector about waits that are no locks.)
//!
//! Invariants:
//!
//! 1. Each pending transaction is given once to the engine's `on_durable`, which waits for the log,
//!    in the order of the calls.
//! 2. The queue is drained before the thread ends, and nothing is put in it after that: a later
//!    committing thread ends its own transaction.
//! 3. A panic while one transaction is ended shuts the engine off, for what that transaction holds
//!    may never be released. The thread goes on with the others.

use crate::latch::{Condvar, Mutex};
use katydid_wal::Background;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// An engine whose transactions may hold on to something until they are durable.
pub(crate) trait OnDurable: Send + Sync + 'static {
    /// A transaction that is in the log, with the locks or versions it holds.
    type Pending: Send;
    fn durability_waiter(&self) -> &DurabilityWaiter<Self::Pending>;
    /// Waits until the log has come as far as the transaction asked, or has failed, and ends the
    /// transaction accordingly.
    fn on_durable(&self, pending: Self::Pending);
    /// Shuts the engine off, for the reason given: one of its own threads panicked.
    fn panicked(&self, what: &'static str);
}

/// Reason for poisoning the engine after a panic.
const PANICKED: &str = "a panic while a durable transaction was ended";

#[derive(Debug)]
struct State<P> {
    queue: VecDeque<P>,
    stopping: bool,
    thread: Option<JoinHandle<()>>,
}

/// The queue of transactions to end when they are durable, and the thread that ends them.
#[derive(Debug)]
pub(crate) struct DurabilityWaiter<P> {
    // Leaf latch.
    state: Mutex<State<P>>,
    more: Condvar,
}

impl<P> Default for DurabilityWaiter<P> {
    fn default() -> Self {
        let state = State { queue: VecDeque::new(), stopping: false, thread: None };
        DurabilityWaiter { state: Mutex::new(state), more: Condvar::new() }
    }
}

impl<P> DurabilityWaiter<P> {
    /// Ends `pending` when it is durable. The calling thread waits for that itself if there is to
    /// be no other thread, or none can be started.
    pub(crate) fn enqueue<E: OnDurable<Pending = P>>(engine: &Arc<E>, background: Background, pending: P) {
        if background == Background::Caller {
            engine.on_durable(pending);
            return;
        }
        let mut state = engine.durability_waiter().state.lock();
        if state.stopping {
            drop(state);
            engine.on_durable(pending);
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
                    queue.into_iter().for_each(|pending| engine.on_durable(pending));
                    return;
                }
            }
        }
        drop(state);
        engine.durability_waiter().more.notify_one();
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

    /// Transactions to be ended; `None` when the thread is to end.
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

fn run<E: OnDurable>(weak: &Weak<E>) {
    let Some(engine) = weak.upgrade() else { return };
    while let Some(pending) = engine.durability_waiter().next() {
        for pending in pending {
            // The panic itself has been reported by the hook.
            if catch_unwind(AssertUnwindSafe(|| engine.on_durable(pending))).is_err() {
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
        waiter: DurabilityWaiter<u32>,
        ended: Mutex<Vec<u32>>,
        poison: Mutex<Option<&'static str>>,
    }

    impl OnDurable for Panics {
        type Pending = u32;

        fn durability_waiter(&self) -> &DurabilityWaiter<u32> {
            &self.waiter
        }

        fn on_durable(&self, pending: u32) {
            assert_ne!(pending, 2, "planted");
            self.ended.lock().push(pending);
        }

        fn panicked(&self, what: &'static str) {
            *self.poison.lock() = Some(what);
        }
    }

    #[test]
    fn a_panic_while_one_transaction_ends_shuts_off_the_engine_and_ends_the_others() {
        let engine = Arc::new(Panics::default());
        for pending in 1..=4 {
            DurabilityWaiter::enqueue(&engine, Background::Threads, pending);
        }
        engine.waiter.stop();
        assert_eq!(*engine.ended.lock(), [1, 3, 4]);
        assert_eq!(*engine.poison.lock(), Some(PANICKED));
    }
}
