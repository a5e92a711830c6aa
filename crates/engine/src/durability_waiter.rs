//! Ends transactions that hold locks or versions until their commits are durable, if no thread
//! waits for these commits.
//!
//! With `LockRelease::AfterDurable`, no thread waits for a transaction that commits with a callback
//! or a future, and the program may never poll the callback or the future. So the first such commit
//! starts a thread, which waits for the log and ends the transactions in the order of their
//! commits. The thread is parked while there is no transaction to end. (An alternative would save
//! this thread: a thread that waits for a lock or version would end the transaction that holds it.
//! But then every wait for a lock or version would have to know about the log, and the deadlock
//! detector would have to know about waits for the log.)
//!
//! Invariants:
//!
//! 1. Each pending transaction is passed once to the engine's `on_durable`, which waits for the
//!    log. Transactions are passed in the order of the calls of `enqueue`.
//! 2. The thread drains the queue before it ends, and no transaction is queued after that: a later
//!    committing thread ends its own transaction.
//! 3. A panic while one transaction is ended poisons the engine, because the locks or versions of
//!    that transaction may never be released. The thread goes on with the other transactions.

use crate::latch::{Condvar, Mutex};
use katydid_wal::Background;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// An engine whose transactions may hold locks or versions until they are durable.
pub(crate) trait OnDurable: Send + Sync + 'static {
    /// A transaction whose commit record is in the log, with its locks or versions.
    type Pending: Send;
    fn durability_waiter(&self) -> &DurabilityWaiter<Self::Pending>;
    /// Waits until the transaction is as durable as it asked, or the log has failed, and ends the
    /// transaction accordingly.
    fn on_durable(&self, pending: Self::Pending);
    /// Poisons the engine for the reason `what`, because one of the engine's threads panicked.
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
    /// Ends `pending` when it is durable. The calling thread does this itself if `background` is
    /// `Background::Caller`, after `stop`, or if no thread can be started.
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

    /// Stops the thread and waits for its end. Before its end the thread ends all transactions in
    /// the queue.
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
            // The panic hook has reported a panic of that thread.
            let _panicked = thread.join();
        }
    }

    /// Waits until transactions are in the queue, and takes all of them out; `None` if the thread
    /// must stop.
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
            // The panic hook has reported the panic.
            if catch_unwind(AssertUnwindSafe(|| engine.on_durable(pending))).is_err() {
                engine.panicked(PANICKED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that panics when it ends the transaction numbered 2.
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
