//! A session: one thread's (or one pooled worker's) way to append to a stream.
//!
//! A session owns a slot of the inserter, so that appenders share as little as possible. A session
//! may move between threads, but one thread at a time uses it. At most
//! [`Options::sessions_max`](crate::Options::sessions_max) sessions are open at once.

use crate::append::{Append, Appended};
use crate::completion::{Callback, Completions};
use crate::error::{AppendError, Error};
use crate::head::{Entry, encode};
use crate::stream::Stream;
use katydid_kernels::dependencies::{Dependencies, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Chain;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

/// A record that depends on at most this number of positions, and whose payload has fewer than
/// [`FEW_PIECES`] pieces, needs no allocation.
const FEW_POSITIONS: usize = 4;
const FEW_PIECES: usize = 8;

/// A session of one stream: see the head of this file. Made by [`Stream::session`] and
/// [`Log::session`](crate::Log::session).
pub struct Session {
    stream: Stream,
    slot: usize,
    completions: Option<Completions<Callback>>,
    // One thread at a time uses the session, because the slot's mark has one writer.
    _not_sync: PhantomData<Cell<()>>,
}

impl Session {
    pub(crate) fn new(stream: Stream) -> Result<Self, Error> {
        let slot = stream.core().open_slot()?;
        Ok(Session { stream, slot, completions: None, _not_sync: PhantomData })
    }

    /// Appends a record. When this returns, the record is in the log's memory
    /// ([`Durability::Buffered`]). The record becomes durable when a caller waits for that or
    /// requests it. The call never waits for a sync of records, but may wait for a write if the
    /// ring is full, or until a segment is prepared.
    ///
    /// # Errors
    /// See [`AppendError`]. After an error no reader returns any part of the record.
    #[inline]
    pub fn append(&mut self, append: &Append<'_>) -> Result<Appended, AppendError> {
        match append.dependencies {
            None => self.stream.core().append(self.slot, append),
            Some(dependencies) => self.append_dependent(append, dependencies),
        }
    }

    /// Appends a record that has, before its payload, the positions of `dependencies` that are not
    /// durable. Reads the durable frontiers of the streams that the record depends on, and shares
    /// nothing else with those streams.
    fn append_dependent(
        &mut self,
        append: &Append<'_>,
        dependencies: &Dependencies,
    ) -> Result<Appended, AppendError> {
        let (log, payload) = (self.stream.log(), append.payload);
        let missing = dependencies.iter().filter(|at| log.durable(at.stream) < at.end);
        let entry = |at: StreamLsn| encode(at, log.incarnation(at.stream));
        if dependencies.len() > FEW_POSITIONS || payload.len() >= FEW_PIECES {
            let entries: Vec<Entry> = missing.map(entry).collect();
            let pieces: Vec<&[u8]> =
                std::iter::once(entries.as_flattened()).chain(payload.iter().copied()).collect();
            return self.append_pieces(append, entries.len(), &pieces);
        }
        let mut entries = [[0; _]; FEW_POSITIONS];
        let mut count = 0;
        for at in missing {
            entries[count] = entry(at);
            count += 1;
        }
        let mut pieces = [&[][..]; FEW_PIECES];
        pieces[0] = entries[..count].as_flattened();
        pieces[1..=payload.len()].copy_from_slice(payload);
        // An empty first piece is left out.
        self.append_pieces(append, count, &pieces[usize::from(count == 0)..=payload.len()])
    }

    /// Appends the record with these pieces. If `dependencies` is not 0, the first piece holds that
    /// number of dependencies.
    #[inline]
    fn append_pieces(
        &self,
        append: &Append<'_>,
        dependencies: usize,
        pieces: &[&[u8]],
    ) -> Result<Appended, AppendError> {
        let chain = match append.chain {
            // There is at most one dependency in each stream, and stream numbers have 16 bits.
            Chain::Commit { stamp, .. } => Chain::Commit { stamp, dependencies: dependencies as u16 },
            previous => previous,
        };
        self.stream
            .core()
            .append(self.slot, &Append { chain, payload: pieces, dependencies: None, ..*append })
    }

    /// Returns the stream that the session appends to.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Queues `callback`. A later [`Session::poll`], [`Session::wait_below`] or [`Session::drain`]
    /// of this session runs `callback` once, when everything in the stream below `end` is at
    /// `durability`, or never will be. The call also requests that durability. Callbacks run in the
    /// order in which they were queued.
    pub fn on_complete(
        &mut self,
        end: Lsn,
        durability: Durability,
        callback: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let at = self.stream.at(end);
        self.completions().push(at, &Dependencies::default(), durability, Box::new(callback));
    }

    /// Runs the callbacks that are ready, and returns their number. Never blocks.
    pub fn poll(&mut self) -> usize {
        self.completions.as_mut().map_or(0, Completions::poll)
    }

    /// Returns the number of callbacks that have not run yet.
    pub fn pending(&self) -> usize {
        self.completions.as_ref().map_or(0, Completions::pending)
    }

    /// Runs callbacks that are ready, and blocks until fewer than `limit` (at least 1) are pending.
    pub fn wait_below(&mut self, limit: usize) {
        if let Some(completions) = &mut self.completions {
            completions.wait_below(limit);
        }
    }

    /// Runs all callbacks, and blocks until each is ready.
    pub fn drain(&mut self) {
        self.wait_below(1);
    }

    fn completions(&mut self) -> &mut Completions<Callback> {
        self.completions.get_or_insert_with(|| Completions::new(self.stream.log()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stream.core().close_slot(self.slot);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("stream", &self.stream.id())
            .field("slot", &self.slot)
            .field("pending", &self.pending())
            .finish()
    }
}
