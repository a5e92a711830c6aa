//! A thread that sleeps until it is rung for, and the bell.
//!
//! Any thread rings; the bell's own thread listens. Rings that come before it listened again are one.
//!
//! 1. After [`Bell::ring`] returned, the thread goes through its work once more, from the start, unless it is to stop. So a thread rings after
//!    it has changed what the work is to see.
//! 2. A panic of the work is reported to the owner, which shuts the engine off: without the work the log would grow until it is full, and the
//!    threads that wait for the work would wait for ever. The thread goes on listening, and stops when it is told to.

use crate::latch::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

#[derive(Debug, Default)]
struct Alarm {
    rung: bool,
    stopping: bool,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Whether it was rung and not yet heard. Swapped (AcqRel) by ringers and by the thread when it hears: a ringer that finds a ring not yet heard
    /// leaves without the latch, so this word alone has to show the thread what that ringer has changed.
    rung: AtomicBool,
    // Leaf latch.
    alarm: Mutex<Alarm>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Bell {
    /// Wakes the thread.
    pub(crate) fn ring(&self) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        self.alarm.lock().rung = true;
        self.wake.notify_one();
    }

    /// Starts the thread, which does `work` on `owner` whenever `bell`, which is the owner's, was rung, and calls `panicked` after a panic of
    /// `work`.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start<T: Send + Sync + 'static>(
        owner: &Arc<T>,
        bell: fn(&T) -> &Bell,
        name: &str,
        work: fn(&T),
        panicked: fn(&T),
    ) -> std::io::Result<()> {
        let weak = Arc::downgrade(owner);
        let thread = std::thread::Builder::new().name(name.to_owned());
        *bell(owner).thread.lock() = Some(thread.spawn(move || run(&weak, bell, work, panicked))?);
        Ok(())
    }

    /// Ends the thread, after the work it may be in.
    pub(crate) fn stop(&self) {
        self.alarm.lock().stopping = true;
        self.wake.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // Panics of the work were reported by the thread itself.
            let _panicked = thread.join();
        }
    }

    /// Whether the thread is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.alarm.lock().stopping
    }

    /// Takes a ring, so that the next one is heard, where there is no thread; whether there was one.
    pub(crate) fn hear(&self) -> bool {
        self.heard(&mut self.alarm.lock())
    }

    fn heard(&self, alarm: &mut Alarm) -> bool {
        // A plain store would show it nothing, and what it looks at next might be older than the ring.
        self.rung.swap(false, Ordering::AcqRel);
        std::mem::take(&mut alarm.rung)
    }

    /// Waits for a ring; `false` if the thread is to end.
    fn listen(&self) -> bool {
        let mut alarm = self.alarm.lock();
        while !alarm.rung && !alarm.stopping {
            self.wake.wait(&mut alarm);
        }
        self.heard(&mut alarm);
        !alarm.stopping
    }
}

fn run<T>(weak: &Weak<T>, bell: fn(&T) -> &Bell, work: fn(&T), panicked: fn(&T)) {
    let Some(owner) = weak.upgrade() else { return };
    while bell(&owner).listen() {
        // The panic itself has been reported by the hook.
        if catch_unwind(AssertUnwindSafe(|| work(&owner))).is_err() {
            panicked(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Its work panics the first time.
    struct Panics {
        bell: Bell,
        seen: Mutex<Sender<&'static str>>,
        calls: Mutex<Receiver<bool>>,
    }

    #[test]
    fn a_panic_of_the_work_is_reported_and_the_next_ring_is_heard() {
        let (seen, told) = channel();
        let (calls, take) = channel();
        let owner =
            Arc::new(Panics { bell: Bell::default(), seen: Mutex::new(seen), calls: Mutex::new(take) });
        let work = |owner: &Panics| {
            let panics = owner.calls.lock().recv().expect("the test says whether to panic");
            assert!(!panics, "planted");
            owner.seen.lock().send("worked").expect("the test listens");
        };
        let panicked = |owner: &Panics| owner.seen.lock().send("panicked").expect("the test listens");
        Bell::start(&owner, |owner| &owner.bell, "rung", work, panicked).expect("a thread");
        for (panics, expected) in [(true, "panicked"), (false, "worked"), (true, "panicked")] {
            calls.send(panics).expect("the thread is there");
            owner.bell.ring();
            assert_eq!(told.recv(), Ok(expected));
        }
        owner.bell.stop();
    }
}
