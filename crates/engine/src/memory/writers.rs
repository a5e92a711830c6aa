//! The sessions of the log's streams, with the buffers in which records are made. A thread opens a
//! session if its shard has no idle one, up to the number of sessions that the log allows.
//!
//! Committing threads run this code. A thread first tries to take an idle session of its own shard,
//! then to open one, then to take an idle one of another shard of its stream. If none of these
//! succeeds, the thread waits until a session is returned. So with few sessions a thread waits, and
//! its commit does not fail. Invariants:
//!
//! 1. A session that is not in use lies in the idle list of one shard. Any thread of a stream may
//!    use any session of that stream.
//! 2. No wake-up is lost: a thread that waits increments `waiting` before it reads the idle lists,
//!    and holds `turn` from then until it sleeps. A thread that returns a session first adds it to
//!    a list, and then reads `waiting`. Either the returning thread reads the count and notifies
//!    under `turn`, or the waiting thread finds the session, because it takes the list's latch
//!    after the session was added.
//!
//! Sessions do not survive a crash.

use crate::error::{Error, Result};
use crate::latch::{Condvar, Mutex};
use crate::shard::{SHARDS, shard_of_thread};
use crossbeam_utils::CachePadded;
use katydid_wal::{self as wal, Log, Session};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum bytes of a buffer that is kept for the next record.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// A session, and the buffer of its next record.
struct Writer {
    session: Session,
    buffer: Vec<u8>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

/// A session in use, which is returned when this is dropped, also by a panic.
struct WriterGuard<'a> {
    of: &'a Writers,
    /// `None` only during the drop.
    writer: Option<Writer>,
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.of.give(writer);
        }
    }
}

/// All sessions of the log.
#[derive(Debug)]
pub(super) struct Writers {
    streams: usize,
    /// Idle sessions, by the shard of the thread that used them. Leaf latches.
    idle: Box<[CachePadded<Mutex<Vec<Writer>>>]>,
    /// Number of threads that wait for a session. Relaxed, because the latches of `idle` give the
    /// order that invariant 2 needs.
    waiting: AtomicUsize,
    /// A waiting thread holds this from its search of `idle` until it sleeps; a notifying thread
    /// holds this while it notifies. Taken before `idle`.
    turn: Mutex<()>,
    returned: Condvar,
}

impl Writers {
    pub(super) fn new(streams: usize) -> Self {
        Writers {
            streams,
            idle: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            waiting: AtomicUsize::new(0),
            turn: Mutex::new(()),
            returned: Condvar::new(),
        }
    }

    /// The stream of the calling thread.
    pub(super) fn stream(&self) -> usize {
        shard_of_thread() % self.streams
    }

    /// Runs `work` with a session of the calling thread's stream and an empty buffer. Waits for a
    /// session if the log allows no more.
    pub(super) fn with<R>(&self, log: &Log, work: impl FnOnce(&mut Session, &mut Vec<u8>) -> R) -> Result<R> {
        let mut taken = WriterGuard { of: self, writer: Some(self.take(log)?) };
        let Some(Writer { session, buffer }) = &mut taken.writer else {
            return Err(Error::Internal("a session was given back while in use"));
        };
        buffer.clear();
        Ok(work(session, buffer))
    }

    fn take(&self, log: &Log) -> Result<Writer> {
        let idle = self.idle[shard_of_thread()].lock().pop();
        if let Some(writer) = idle {
            return Ok(writer);
        }
        match log.streams()[self.stream()].session() {
            Ok(session) => Ok(Writer { session, buffer: Vec::new() }),
            Err(wal::Error::SessionsExhausted { .. }) => Ok(self.wait()),
            Err(error) => Err(Error::from(error)),
        }
    }

    #[cold]
    fn wait(&self) -> Writer {
        let mut turn = self.turn.lock();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let shards = self.idle.iter().skip(self.stream()).step_by(self.streams);
        let writer = loop {
            match shards.clone().find_map(|idle| idle.lock().pop()) {
                Some(writer) => break writer,
                None => self.returned.wait(&mut turn),
            }
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        writer
    }

    fn give(&self, mut writer: Writer) {
        if writer.buffer.capacity() > BUFFER_BYTES_KEPT {
            writer.buffer = Vec::new();
        }
        self.idle[shard_of_thread()].lock().push(writer);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            let _turn = self.turn.lock();
            // All waiting threads are notified, because they may wait for sessions of different
            // streams.
            self.returned.notify_all();
        }
    }

    /// Closes the idle sessions.
    pub(super) fn clear(&self) {
        self.idle.iter().for_each(|idle| idle.lock().clear());
    }
}
