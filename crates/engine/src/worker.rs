//! A thread that sleeps until it is notified, and then does its work once.
//!
//! Any thread notifies; the worker's own thread waits. If several notifications come before the
//! worker takes them, they count as one.
//!
//! Rules:
//!
//! 1. After [`Worker::notify`] has returned, the worker does its work once more, from the start,
//!    unless it is stopping. So a thread first changes the state that the work must see, and then
//!    notifies.
//! 2. A panic of the work is reported to the owner, which shuts the engine off: without the work
//!    the log would grow until it is full, and the threads that wait for the work would never go
//!    on. The worker goes on waiting for notifications until it is stopped.

use crate::latch::{Condvar, Mutex};
use katydid_kernels::notification::Notification;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

#[derive(Debug, Default)]
struct State {
    notified: bool,
    stopping: bool,
}

/// A worker thread and its notification; see the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// Pending notification. A thread that finds a notification pending does not take the latch.
    notification: Notification,
    // Leaf latch.
    state: Mutex<State>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// Notifies the thread.
    pub(crate) fn notify(&self) {
        if self.notification.give() {
            self.state.lock().notified = true;
            self.wake.notify_one();
        }
    }

    /// Starts the thread, which calls `work` with `owner` after each notification, and calls
    /// `panicked` after a panic of `work`. `worker` returns the owner's worker.
    ///
    /// # Errors
    /// The system's error if it cannot start a thread.
    pub(crate) fn start<T: Send + Sync + 'static>(
        owner: &Arc<T>,
        worker: fn(&T) -> &Worker,
        name: &str,
        work: fn(&T),
        panicked: fn(&T),
    ) -> std::io::Result<()> {
        let weak = Arc::downgrade(owner);
        let thread = std::thread::Builder::new().name(name.to_owned());
        *worker(owner).thread.lock() = Some(thread.spawn(move || run(&weak, worker, work, panicked))?);
        Ok(())
    }

    /// Ends the thread after its current work, and waits for its end unless the caller is that
    /// thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // The thread itself has reported panics of the work.
            let _panicked = thread.join();
        }
    }

    /// Returns true if the thread must end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Takes the notification and returns whether there was one. Called where there is no worker
    /// thread.
    pub(crate) fn take_notification(&self) -> bool {
        self.take(&mut self.state.lock())
    }

    fn take(&self, state: &mut State) -> bool {
        self.notification.take();
        std::mem::take(&mut state.notified)
    }

    /// Waits for a notification; `false` if the thread must end.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.notified && !state.stopping {
            self.wake.wait(&mut state);
        }
        self.take(&mut state);
        !state.stopping
    }
}

fn run<T>(weak: &Weak<T>, worker: fn(&T) -> &Worker, work: fn(&T), panicked: fn(&T)) {
    let Some(owner) = weak.upgrade() else { return };
    while worker(&owner).wait() {
        // The panic hook has reported the panic.
        if catch_unwind(AssertUnwindSafe(|| work(&owner))).is_err() {
            panicked(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// An owner whose work panics when the test says so.
    struct Panics {
        worker: Worker,
        seen: Mutex<Sender<&'static str>>,
        calls: Mutex<Receiver<bool>>,
    }

    #[test]
    fn a_panic_of_the_work_is_reported_and_the_next_notification_is_taken() {
        let (seen, reports) = channel();
        let (calls, take) = channel();
        let owner =
            Arc::new(Panics { worker: Worker::default(), seen: Mutex::new(seen), calls: Mutex::new(take) });
        let work = |owner: &Panics| {
            let panics = owner.calls.lock().recv().expect("the test says whether to panic");
            assert!(!panics, "planted");
            owner.seen.lock().send("worked").expect("the test listens");
        };
        let panicked = |owner: &Panics| owner.seen.lock().send("panicked").expect("the test listens");
        Worker::start(&owner, |owner| &owner.worker, "worker", work, panicked).expect("a thread");
        for (panics, expected) in [(true, "panicked"), (false, "worked"), (true, "panicked")] {
            calls.send(panics).expect("the thread is there");
            owner.worker.notify();
            assert_eq!(reports.recv(), Ok(expected));
        }
        owner.worker.stop();
    }
}
