//! Wakers of futures that wait, and the thread that calls them.
//!
//! A waker runs a program's code, and may drop a task, a future, perhaps the last handle of the
//! log. A thread that leads, writes, or appends for a caller that holds latches must not run such
//! code. The leader therefore only collects the wakers that are due, and notifies the worker thread
//! `katydid-log-wakers` once for all of them. The first future or follower that waits starts that
//! thread. The thread sleeps while no waker is due.
//!
//! Pollers, leaders, appenders in `nv_direct` and the worker thread run this code. Invariants:
//!
//! 1. A poller counts its waker in `registered`, and then looks at the frontiers once more. A
//!    leader that has moved a frontier looks at `registered`, and so does an appender whose append
//!    alone has made its record durable (`nv_direct`). Each of the two threads has a sequentially
//!    consistent fence between its two steps. Therefore either the second thread finds the waker,
//!    or the poller finds what that thread has changed.
//! 2. No waker is called, dropped or cloned while `state` is held. The worker thread holds no latch
//!    while it calls a waker, and keeps nothing of the log alive except this file's `Shared`. So a
//!    waker may drop the last handle, which closes the log on the worker thread like on any other
//!    thread.
//! 3. Each waker that was registered and not taken back is called once: when its position is at its
//!    level, or when the log has failed or is closed. If a waker panics, the next ones are still
//!    called.
//! 4. The log never waits for the worker thread, nor for a waker. Closing does not join that
//!    thread: the closing thread may hold a latch that a waker waits for.
//! 5. Without threads of the log ([`Background::Caller`]) wakers are called by [`Wakers::call_due`]
//!    only: from [`Log::run_background`] and at the end of closing. In all other calls of the log
//!    the caller may hold latches.
//!
//! Wakers are called one after another. A waker that blocks delays the wakers behind it, but no
//! commit.
//!
//! Every movement of a frontier calls [`Wakers::release`]. In NVRAM every commit moves frontiers,
//! so [`Wakers::release`] must be cheap: it takes no latch if no waker is registered.
//!
//! All state of this file is in memory only. Recovery needs none of it.
//!
//! [`Log::run_background`]: crate::Log::run_background

use crate::options::Background;
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::sync_shim::{AtomicUsize, Ordering, fence};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Wakers {
    shared: Arc<Shared>,
    background: Background,
}

#[derive(Debug, Default)]
struct Shared {
    /// Pollers, leaders and the worker thread hold this latch for a few instructions; one poller
    /// also holds it while it starts that thread. In an `nv_direct` log a poller that is a follower
    /// scans the inserter under this latch.
    state: Mutex<State>,
    /// Notified when wakers have become due, or the thread is to end.
    due: Condvar,
    /// Wakers in `written` and `durable`. Changed under `state`.
    registered: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    written: BTreeMap<(Lsn, u64), Waker>,
    durable: BTreeMap<(Lsn, u64), Waker>,
    /// The last ticket given out.
    ticket: u64,
    /// Wakers to be called, in this order.
    due: Vec<Waker>,
    thread: Thread,
}

/// State of the worker thread.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Thread {
    #[default]
    Absent,
    /// The thread calls wakers, or is about to look for some.
    Busy,
    /// The thread waits for a notification.
    Asleep,
    /// The thread ends when nothing is due. No waker is registered any more.
    Over,
}

impl State {
    fn of(&mut self, level: Durability) -> &mut BTreeMap<(Lsn, u64), Waker> {
        match level {
            Durability::Buffered | Durability::Written => &mut self.written,
            Durability::Durable => &mut self.durable,
        }
    }
}

impl Wakers {
    pub(crate) fn new(background: Background) -> Self {
        Wakers { shared: Arc::default(), background }
    }

    /// Starts the worker thread, which calls registered wakers, unless it was started before or the
    /// log has no threads.
    ///
    /// # Errors
    /// If the system cannot start the worker thread.
    pub(crate) fn ensure_thread(&self) -> std::io::Result<()> {
        if self.background == Background::Caller {
            return Ok(());
        }
        let mut state = self.shared.lock();
        if state.thread == Thread::Absent {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("katydid-log-wakers".to_owned());
            // The worker thread is not joined (invariant 4).
            let _detached = thread.spawn(move || shared.run())?;
            state.thread = Thread::Busy;
        }
        Ok(())
    }

    /// Registers `waker`, in place of the waker with this `ticket`, unless `settled` holds. Returns
    /// the waker that is not needed any more, if any, for the caller to drop.
    pub(crate) fn register(
        &self,
        ticket: &mut Option<u64>,
        (end, level): (Lsn, Durability),
        waker: Waker,
        settled: impl Fn() -> bool,
    ) -> Option<Waker> {
        let mut state = self.shared.lock();
        let number = *ticket.get_or_insert_with(|| {
            state.ticket += 1;
            state.ticket
        });
        let replaced = state.of(level).insert((end, number), waker);
        self.shared.count(&state);
        // This fence stands between counting the waker and looking at the frontiers (invariant 1).
        fence(Ordering::SeqCst);
        if settled() {
            *ticket = None;
            let own = state.of(level).remove(&(end, number));
            self.shared.count(&state);
            drop(state);
            drop(replaced);
            return own;
        }
        replaced
    }

    /// Takes a registered waker back, unless it is due already, and returns it for the caller to
    /// drop.
    pub(crate) fn forget(&self, ticket: u64, (end, level): (Lsn, Durability)) -> Option<Waker> {
        let mut state = self.shared.lock();
        let own = state.of(level).remove(&(end, ticket));
        self.shared.count(&state);
        own
    }

    /// Makes each waker due if `settled` holds for its end and its level. If `settled` holds for an
    /// end, it must hold for every lower end. Calls no waker itself.
    pub(crate) fn release(&self, settled: impl Fn(Lsn, Durability) -> bool) {
        // This fence stands between moving a frontier and looking at `registered` (invariant 1).
        fence(Ordering::SeqCst);
        if self.shared.registered.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.shared.lock();
        let state = &mut *state;
        for (waiting, level) in
            [(&mut state.written, Durability::Written), (&mut state.durable, Durability::Durable)]
        {
            while let Some(first) = waiting.first_entry()
                && settled(first.key().0, level)
            {
                state.due.push(first.remove());
            }
        }
        self.shared.count(state);
        if !state.due.is_empty() && state.thread == Thread::Asleep {
            state.thread = Thread::Busy;
            self.shared.due.notify_one();
        }
    }

    /// Returns whether wakers are registered, for a thread that has just made something durable
    /// (invariant 1).
    pub(crate) fn are_waiting(&self) -> bool {
        fence(Ordering::SeqCst);
        self.shared.registered.load(Ordering::Relaxed) > 0
    }

    /// Makes the worker thread, which was started before, call the waker. After the end of the log
    /// the waker is dropped.
    pub(crate) fn hand_over(&self, waker: Waker) {
        let mut state = self.shared.lock();
        state.due.push(waker);
        if state.thread == Thread::Asleep {
            state.thread = Thread::Busy;
            self.shared.due.notify_one();
        }
    }

    /// Calls the wakers that are due, if the log has no threads. The caller must hold no latch.
    pub(crate) fn call_due(&self) {
        if self.background == Background::Caller {
            let due = std::mem::take(&mut self.shared.lock().due);
            due.into_iter().for_each(call);
        }
    }

    /// Makes all wakers due, and ends the worker thread after it has called them. The log is over:
    /// no waker is registered any more.
    pub(crate) fn end(&self) {
        self.release(|_, _| true);
        self.shared.lock().thread = Thread::Over;
        self.shared.due.notify_one();
    }
}

impl Shared {
    /// Updates `registered` after a waker was registered or removed, with the latch held.
    fn count(&self, state: &State) {
        self.registered.store(state.written.len() + state.durable.len(), Ordering::Relaxed);
    }

    /// Runs the worker thread.
    fn run(&self) {
        let mut due = Vec::new();
        let mut state = self.lock();
        loop {
            if !state.due.is_empty() {
                // The empty list goes back, so that its memory is used again.
                std::mem::swap(&mut state.due, &mut due);
                drop(state);
                due.drain(..).for_each(call);
                state = self.lock();
            } else if state.thread == Thread::Over {
                return;
            } else {
                state.thread = Thread::Asleep;
                state = self.due.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Takes the latch, poisoned or not: nothing that can panic happens under it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn call(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // The panic has been reported. Dropping its payload might panic again.
        std::mem::forget(payload);
    }
}
