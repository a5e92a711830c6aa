//! The thread that makes appended entries durable and says so.
//!
//! One thread for each open log. It takes all that waits, leads or joins a sync up to the last of them, and then calls all callbacks in order: what comes meanwhile is the
//! next group, so the entries of one group share a sync. A callback is called with success only after everything up to its entries is durable, so completions are a watermark. After
//! a failure every callback gets an error: the log's own failure is permanent.
//!
//! A crash loses callbacks, and with them entries that nobody was told of.

use crate::error::{Error, Result};
use katydid_wal::{Durability, Lsn, Stream};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Called when everything below a position is durable, or never will be.
type Callback = Box<dyn FnOnce(io::Result<()>) + Send>;

/// See the head of this file. Dropping it waits until what was handed to it is told.
pub(crate) struct Flusher {
    /// `None` once it is stopped.
    inside: Mutex<Option<Running>>,
}

/// The thread, and the way to it.
type Running = (Sender<(Lsn, Callback)>, JoinHandle<()>);

impl Flusher {
    pub(crate) fn start(stream: Stream) -> Result<Self> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("katydid-raft-log".to_owned())
            .spawn(move || run(&stream, &receiver))
            .map_err(|source| Error::Thread { source: Arc::new(source) })?;
        Ok(Flusher { inside: Mutex::new(Some((sender, thread))) })
    }

    /// Calls `told` when everything below `end` is durable. Calls come in the order of the ends.
    pub(crate) fn push(&self, end: Lsn, told: impl FnOnce(io::Result<()>) + Send + 'static) {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let told: Callback = Box::new(told);
        match &*inside {
            Some((sender, _)) => {
                if let Err(refused) = sender.send((end, told)) {
                    refused.0.1(Err(closed()));
                }
            }
            None => told(Err(closed())),
        }
    }

    /// Ends the thread when everything was told.
    pub(crate) fn stop(&self) {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((sender, thread)) = inside {
            drop(sender);
            // A callback of the last handle's owner may run here: the thread does not wait for itself. A callback that has panicked has told its own
            // thread.
            if thread.thread().id() != std::thread::current().id() {
                drop(thread.join());
            }
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop();
    }
}

fn closed() -> io::Error {
    Error::Log(katydid_wal::Error::Closed).into()
}

fn run(stream: &Stream, receiver: &Receiver<(Lsn, Callback)>) {
    let mut group = Vec::new();
    while let Ok(first) = receiver.recv() {
        group.push(first);
        group.extend(receiver.try_iter());
        let end = group.iter().map(|(end, _)| *end).max().unwrap_or(Lsn::ZERO);
        let outcome = stream.wait(end, Durability::Durable);
        for (_, told) in group.drain(..) {
            told(outcome.clone().map_err(|error| Error::Log(error).into()));
        }
    }
}
