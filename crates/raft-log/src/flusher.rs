//! Makes appended records durable and says so: by a thread of the log's own, or by a [`Syncer`] of
//! the program.
//!
//! The thread takes all that waits, leads or joins a sync up to the last of them, and then calls
//! all callbacks in order: what comes meanwhile is the next group, so the records of one group
//! share a sync. A callback is called with success only after everything up to its records is
//! durable, so completions are a watermark. After a failure every callback gets an error: the log's
//! own failure is permanent.
//!
//! A crash loses callbacks, and with them records that were not acknowledged.

use crate::error::{Error, Result};
use katydid_wal::{Durability, Lsn, Stream};
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Called when everything below a position is durable, or never will be.
type Callback = Box<dyn FnOnce(io::Result<()>) + Send>;

/// A program's own way to run the syncs of a log, in place of the log's thread. See
/// [`RaftLog::open_with_syncer`](crate::RaftLog::open_with_syncer).
pub trait Syncer: Send + Sync + 'static {
    /// Takes a sync, to be run soon. Syncs of one log must be run in the order in which they were
    /// handed over. A sync that is dropped is never acknowledged.
    fn submit(&self, sync: PendingSync);
}

/// A sync that the log has asked for.
pub struct PendingSync {
    stream: Stream,
    end: Lsn,
    told: Callback,
}

impl PendingSync {
    /// Blocks until the records are durable or the log has failed, and completes the appends that
    /// wait for it.
    pub fn run(self) {
        let outcome = self.stream.wait(self.end, Durability::Durable);
        (self.told)(outcome.map_err(|error| Error::Log(error).into()));
    }
}

impl fmt::Debug for PendingSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingSync").field("end", &self.end).finish_non_exhaustive()
    }
}

/// See the head of this file. Dropping it waits until what was handed to its thread is told.
pub(crate) struct Flusher {
    stream: Stream,
    by: By,
}

enum By {
    /// `None` once it is stopped.
    Thread(Mutex<Option<Running>>),
    Program(Arc<dyn Syncer>),
}

/// The thread, and the way to it.
type Running = (Sender<(Lsn, Callback)>, JoinHandle<()>);

impl Flusher {
    pub(crate) fn start(stream: Stream) -> Result<Self> {
        let (sender, receiver) = channel();
        let of_thread = stream.clone();
        let thread = std::thread::Builder::new()
            .name("katydid-raft-log".to_owned())
            .spawn(move || run(&of_thread, &receiver))
            .map_err(|source| Error::Thread { source: Arc::new(source) })?;
        Ok(Flusher { stream, by: By::Thread(Mutex::new(Some((sender, thread)))) })
    }

    pub(crate) fn of(stream: Stream, syncer: Arc<dyn Syncer>) -> Self {
        Flusher { stream, by: By::Program(syncer) }
    }

    /// Calls `told` when everything below `end` is durable. Calls come in the order of the ends.
    pub(crate) fn push(&self, end: Lsn, told: impl FnOnce(io::Result<()>) + Send + 'static) {
        let told: Callback = Box::new(told);
        let inside = match &self.by {
            By::Program(syncer) => {
                return syncer.submit(PendingSync { stream: self.stream.clone(), end, told });
            }
            By::Thread(inside) => inside.lock().unwrap_or_else(PoisonError::into_inner),
        };
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
        let By::Thread(inside) = &self.by else { return };
        let inside = inside.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((sender, thread)) = inside {
            drop(sender);
            // A callback of the last handle's owner may run here: the thread does not wait for
            // itself. A callback that has panicked has told its own thread.
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
