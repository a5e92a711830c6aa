//! Closing once: the first thread closes, every other one waits for that and gets the outcome.
//!
//! Any thread. Invariants:
//!
//! 1. The directory's lock is handed to the first closing only, and no call to close returns before
//!    that one has ended. So when a call to close has returned, the directory is free, and nothing
//!    of this opening reaches it any more (the gate's invariant 6). A log behind the gate of
//!    another opening gives its lock back before that gate is closed (`open_log.rs`, invariant 3).
//! 2. A thread inside a device call does not come here, except when it drops the last handle, and
//!    then no other thread waits.
//!
//! `state` is held through a closing, hence before every latch of the log (rank 7).
//!
//! A crash leaves nothing of it: the kernel gives the directory's lock back.

use crate::core::locked;
use crate::error::Result;
use katydid_device::{self as device, DirectoryLock, Verb};
use std::io;
use std::sync::Mutex;

/// See the head of this file.
pub(crate) struct Closing {
    state: Mutex<State>,
}

enum State {
    /// The directory's lock, unless a closing has begun that panicked.
    Open(Option<Box<dyn DirectoryLock>>),
    Closed(Result<()>),
}

impl Closing {
    pub(crate) fn new(lock: Box<dyn DirectoryLock>) -> Self {
        Closing { state: Mutex::new(State::Open(Some(lock))) }
    }

    /// Runs `close`, which gives the lock back, if no other call has; the outcome of the one that
    /// did.
    pub(crate) fn once(
        &self,
        close: impl FnOnce(Option<Box<dyn DirectoryLock>>) -> Result<()>,
    ) -> Result<()> {
        let mut state = locked(&self.state);
        match &mut *state {
            State::Closed(outcome) => outcome.clone(),
            State::Open(lock) => {
                let outcome = close(lock.take());
                *state = State::Closed(outcome.clone());
                outcome
            }
        }
    }
}

/// The error of a close by a thread that is inside a device call: it would wait for itself.
pub(crate) fn from_inside(directory: &str) -> device::Error {
    let why = "a log cannot be closed from inside one of its device calls";
    device::Error::from_io(Verb::Lock, directory, io::Error::new(io::ErrorKind::Deadlock, why))
}
