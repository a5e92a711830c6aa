//! The sessions of the log's streams, with the buffers that records are made in: as many as append
//! at once, or as the log allows.
//!
//! Runs on committing threads. A thread takes an idle session of its own shard, opens one, takes an
//! idle one of another shard of its stream, or waits until one is given back: with few sessions a
//! thread waits, and is never refused. Invariants:
//!
//! 1. A session that is not in use is idle in one shard. Any session of a stream serves any thread
//!    of that stream.
//! 2. No wake-up is lost: a thread that waits counts itself in `waiting` before it looks at the
//!    idle lists, and holds `turn` from then until it sleeps. A thread that gives a session back
//!    puts it into a list first, and looks at `waiting` afterwards: either it sees the count, and
//!    notifies under `turn`, or the list's latch shows the session to the thread that waits.
//!
//! Nothing here survives a crash.

use crate::error::{Error, Result};
use crate::latch::{Condvar, Mutex};
use crate::shard::{SHARDS, shard_of_thread};
use crossbeam_utils::CachePadded;
use katydid_wal::{self as wal, Log, Session};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A larger buffer is not kept for the next record.
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

/// A session in use. Dropped, also by a panic, it is given back.
struct WriterGuard<'a> {
    of: &'a Writers,
    /// None only while it is dropped.
    writer: Option<Writer>,
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.of.give(writer);
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Writers {
    streams: usize,
    /// Idle ones, by the shard of the thread that used them. Leaf latches.
    idle: Box<[CachePadded<Mutex<Vec<Writer>>>]>,
    /// Threads that wait for one. Relaxed: invariant 2 has the latches of `idle` for the order.
    waiting: AtomicUsize,
    /// Held while looking for an idle one with the intention to sleep, and to notify. Before
    /// `idle`.
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

    /// Runs `work` with a session of the calling thread's stream, and an empty buffer. Waits for a
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
            // All: they may wait for sessions of different streams.
            self.returned.notify_all();
        }
    }

    /// Closes those that are idle.
    pub(super) fn clear(&self) {
        self.idle.iter().for_each(|idle| idle.lock().clear());
    }
}
