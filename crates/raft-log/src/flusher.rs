//! Makes appended records durable and then calls their callbacks, on a thread of the log or by a
//! [`Syncer`] of the program.
//!
//! The thread takes all waiting requests as one group, and leads or joins a sync up to the largest
//! position of the group. Then it calls the group's callbacks in order. Requests that arrive during
//! the sync are the next group. A callback gets success only after all records below its position
//! are durable. After a failure every callback gets an error, because the failure of the log is
//! permanent.
//!
//! A crash may lose records whose callbacks have not been called.

use crate::error::{Error, Result};
use katydid_wal::{Durability, Lsn, Stream};
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Called when all records below a position are durable, or the log has failed.
type Callback = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Runs the syncs of a log in place of the log's own thread. See
/// [`RaftLog::open_with_syncer`](crate::RaftLog::open_with_syncer).
pub trait Syncer: Send + Sync + 'static {
    /// Accepts a sync, which the implementation must run soon by [`PendingSync::run`]. Syncs of one
    /// log must run in the order in which they were submitted. Appends whose sync is dropped are
    /// never acknowledged.
    fn submit(&self, sync: PendingSync);
}

/// A sync that the log has asked for.
pub struct PendingSync {
    stream: Stream,
    end: Lsn,
    callback: Callback,
}

impl PendingSync {
    /// Blocks until the records are durable or the log has failed, and completes the appends that
    /// wait for it.
    pub fn run(self) {
        let outcome = self.stream.wait(self.end, Durability::Durable);
        (self.callback)(outcome.map_err(|error| Error::Log(error).into()));
    }
}

impl fmt::Debug for PendingSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingSync").field("end", &self.end).finish_non_exhaustive()
    }
}

/// Makes appended records durable, and then calls their callbacks. Dropping the flusher waits until
/// the thread has called all callbacks.
pub(crate) struct Flusher {
    stream: Stream,
    by: By,
}

enum By {
    /// `None` once the thread is stopped.
    Thread(Mutex<Option<Running>>),
    Program(Arc<dyn Syncer>),
}

/// The thread, and the sender of its requests.
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

    /// Calls `callback` when all records below `end` are durable. Callbacks are called in the order
    /// of the requests.
    pub(crate) fn push(&self, end: Lsn, callback: impl FnOnce(io::Result<()>) + Send + 'static) {
        let callback: Callback = Box::new(callback);
        let inside = match &self.by {
            By::Program(syncer) => {
                return syncer.submit(PendingSync { stream: self.stream.clone(), end, callback });
            }
            By::Thread(inside) => inside.lock().unwrap_or_else(PoisonError::into_inner),
        };
        match &*inside {
            Some((sender, _)) => {
                if let Err(refused) = sender.send((end, callback)) {
                    refused.0.1(Err(closed()));
                }
            }
            None => callback(Err(closed())),
        }
    }

    /// Ends the thread after it has called all callbacks.
    pub(crate) fn stop(&self) {
        let By::Thread(inside) = &self.by else { return };
        let inside = inside.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((sender, thread)) = inside {
            drop(sender);
            // A callback may drop the last handle of the log, so `stop` may run on the thread
            // itself, which must not join itself. A panic of a callback has been printed already.
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
        for (_, callback) in group.drain(..) {
            callback(outcome.clone().map_err(|error| Error::Log(error).into()));
        }
    }
}
