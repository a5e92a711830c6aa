//! Closing once: the first thread closes; every other thread waits, and gets the same outcome.
//!
//! Any thread may call this code. Invariants:
//!
//! 1. The directory's lock is handed to the first closing only, and no call to close returns before
//!    the first closing has ended. When a call to close has returned, the directory is therefore
//!    free, and no call of this opening reaches the directory any more (the gate's invariant 6). If
//!    the program owns the log's gate, the log gives the lock back before the program closes the
//!    gate (`open_log.rs`, invariant 3).
//! 2. A thread inside a device call does not close the log, except by dropping the last handle. In
//!    that case no other thread waits for the closing.
//!
//! `state` is held during a closing, and therefore taken before every latch of the log (rank 7).
//!
//! All state of this file is in memory only. After a crash the kernel releases the directory's
//! lock.

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
    /// The directory's lock; `None` after a closing that panicked.
    Open(Option<Box<dyn DirectoryLock>>),
    Closed(Result<()>),
}

impl Closing {
    pub(crate) fn new(lock: Box<dyn DirectoryLock>) -> Self {
        Closing { state: Mutex::new(State::Open(Some(lock))) }
    }

    /// Runs `close`, which gives the lock back, unless an earlier call has run it. Returns the
    /// outcome of the one run.
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

/// Returns the error for a thread that closes the log from inside a device call: the close would
/// wait for that same call to end.
pub(crate) fn from_inside(directory: &str) -> device::Error {
    let why = "a log cannot be closed from inside one of its device calls";
    device::Error::from_io(Verb::Lock, directory, io::Error::new(io::ErrorKind::Deadlock, why))
}
