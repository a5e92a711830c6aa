//! The operations of the Raft log: opening, appending, truncating, purging, reading. `storage.rs`
//! implements openraft's trait with them.
//!
//! Any thread may call these operations. A thread that needs two latches takes `layout` first, then
//! `inside`. A read of entries holds `layout` shared, and a truncation or purge holds it
//! exclusively, so no entry is dropped during a read. An append holds `inside`, so that the order
//! of calls is the order of records. Invariants:
//!
//! 1. Votes, entries, truncations and purges are records of one stream. A record takes effect after
//!    a crash only if all records before it are durable.
//! 2. The last record of kind `STATE` has the vote, the committed log id and the purged log id.
//!    This record lies at or above the start of the log and is never lost by a truncation, because
//!    the truncation appends a copy in the same step.
//! 3. The index has exactly the entries that are neither truncated nor purged. Their numbers have
//!    no gap.
//! 4. After a failure no call appends, truncates or purges, and no append is acknowledged: either
//!    `failure` is set, or the write-ahead log is shut.
//!
//! A crash leaves a prefix of the records, which has every durable record. So a crash never undoes
//! a saved vote, an entry whose append was completed, or a truncation that has returned.

use crate::codec::{ENTRY, STATE, State, decode, encode};
use crate::error::{Error, Result};
use crate::flusher::{Flusher, Syncer};
use crate::tail::Tail;
use katydid_wal::device::Directory;
use katydid_wal::{Append, Appended, EntryError, EntryIndex, Log, LogKind, Lsn, Options, Session, Stream};
use openraft::RaftTypeConfig;
use openraft::alias::{LogIdOf, VoteOf};
use openraft::async_runtime::OneshotSender;
use openraft::entry::RaftEntry;
use openraft::type_config::TypeConfigExt;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A Raft log in a folder, for [`openraft::Raft`]: see the crate's documentation. Clones share one
/// log. [`RaftLog::close`] closes it, and so does dropping the last clone.
pub struct RaftLog<C: RaftTypeConfig> {
    shared: Arc<Shared<C>>,
}

impl<C: RaftTypeConfig> Clone for RaftLog<C> {
    fn clone(&self) -> Self {
        RaftLog { shared: self.shared.clone() }
    }
}

struct Shared<C: RaftTypeConfig> {
    inside: Mutex<Inside<C>>,
    layout: RwLock<()>,
    /// Declared before `log`, so that it is dropped first.
    flusher: Flusher,
    log: Log,
}

struct Inside<C: RaftTypeConfig> {
    session: Session,
    index: EntryIndex,
    tail: Tail,
    state: State<C>,
    /// Id of the last entry, if there is one.
    last: Option<LogIdOf<C>>,
    failure: Option<Arc<Error>>,
}

impl<C: RaftTypeConfig> RaftLog<C> {
    /// Opens the log in the folder at `path`, and reads it once. The folder is created if it is
    /// missing.
    ///
    /// # Errors
    /// [`Error::Open`]; [`Error::Unsuited`] if the options are not those of a log of one stream in
    /// files; [`Error::Foreign`], [`Error::Decode`] and [`Error::Entries`] if the records are not
    /// those of a Raft log with these types; [`Error::Entries`] or [`Error::Log`] if a record
    /// cannot be read; [`Error::Thread`] if the system cannot start the log's thread.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        check_suited(options.medium.kind(), options.streams.into())?;
        Self::of(Log::open(path, options)?, None)
    }

    /// Opens the log in any kind of directory.
    ///
    /// # Errors
    /// Those of [`RaftLog::open`].
    pub fn open_in(directory: Arc<dyn Directory>, options: Options) -> Result<Self> {
        check_suited(options.medium.kind(), options.streams.into())?;
        Self::of(Log::open_in(directory, options)?, None)
    }

    /// Opens the log in any kind of directory, and lets the program run the log's syncs, for
    /// example on its thread pool, or at a simulated time. The log starts no thread for syncs.
    ///
    /// # Errors
    /// Those of [`RaftLog::open`], except [`Error::Thread`].
    pub fn open_with_syncer(
        directory: Arc<dyn Directory>,
        options: Options,
        syncer: Arc<dyn Syncer>,
    ) -> Result<Self> {
        check_suited(options.medium.kind(), options.streams.into())?;
        Self::of(Log::open_in(directory, options)?, Some(syncer))
    }

    fn of(log: Log, syncer: Option<Arc<dyn Syncer>>) -> Result<Self> {
        let stream = log.first();
        check_suited(stream.kind(), log.streams().len())?;
        let (index, state) = recover::<C>(stream)?;
        let last = match index.get(index.numbers().end.wrapping_sub(1)) {
            Some(lsn) => Some(read_one::<C>(stream, lsn)?.log_id()),
            None => None,
        };
        let (session, tail) = (stream.session()?, Tail::default());
        let inside = Inside { session, index, tail, state, last, failure: None };
        let flusher = match syncer {
            Some(syncer) => Flusher::of(stream.clone(), syncer),
            None => Flusher::start(stream.clone())?,
        };
        Ok(RaftLog {
            shared: Arc::new(Shared { inside: Mutex::new(inside), layout: RwLock::new(()), flusher, log }),
        })
    }

    /// Returns the write-ahead log, for its counters, its space and its followers. Appending to
    /// that log, truncating it or trimming it makes the Raft log unreadable.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Makes all records durable, completes the waiting appends, and closes the log. Later calls
    /// fail.
    ///
    /// # Errors
    /// [`Error::Log`] if a record could not be made durable.
    pub fn close(&self) -> Result<()> {
        self.shared.flusher.stop();
        Ok(self.shared.log.close()?)
    }

    fn stream(&self) -> &Stream {
        self.shared.log.first()
    }

    // While `inside` or `layout` is held, only code of the program can panic: an encoder, a
    // decoder, or the iterator that `append` reads. This code runs before or between changes. So
    // the state behind a poisoned latch is sound.
    fn inside(&self) -> MutexGuard<'_, Inside<C>> {
        self.shared.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.shared.layout.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn dropping(&self) -> RwLockWriteGuard<'_, ()> {
        self.shared.layout.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all records below `end` are durable.
    pub(crate) async fn durable(&self, end: Lsn) -> io::Result<()> {
        let (sender, outcome) = C::oneshot();
        // The send fails if the task that waits has been dropped, which is no error.
        self.flusher().push(end, move |durable| drop(sender.send(durable)));
        outcome.await.unwrap_or_else(|_| Err(Error::Log(katydid_wal::Error::Closed).into()))
    }

    pub(crate) fn flusher(&self) -> &Flusher {
        &self.shared.flusher
    }

    /// Returns the log ids of the last purged entry and of the last entry.
    pub(crate) fn ends(&self) -> (Option<LogIdOf<C>>, Option<LogIdOf<C>>) {
        let inside = self.inside();
        (inside.state.purged.clone(), inside.last.clone())
    }

    pub(crate) fn vote(&self) -> Option<VoteOf<C>> {
        self.inside().state.vote.clone()
    }

    pub(crate) fn committed(&self) -> Option<LogIdOf<C>> {
        self.inside().state.committed.clone()
    }

    /// Changes the state and appends it. Returns the end of the record.
    pub(crate) fn change_state(&self, change: impl FnOnce(&mut State<C>)) -> Result<Lsn> {
        let mut inside = self.inside();
        inside.change(|inside| Ok(inside.append_state(change)?.end))
    }

    /// Appends entries, which can be read when this returns. Returns the end of the last entry's
    /// record, or `None` if there are no entries.
    pub(crate) fn append(&self, entries: impl Iterator<Item = C::Entry>) -> Result<Option<Lsn>> {
        let mut inside = self.inside();
        inside.change(|inside| {
            let mut end = None;
            for entry in entries {
                end = Some(inside.append_entry(&entry)?);
            }
            Ok(end)
        })
    }

    /// Truncates the entries from `number` on. The truncation is durable when this returns.
    pub(crate) fn truncate_from(&self, number: u64) -> Result<()> {
        let _layout = self.dropping();
        let mut inside = self.inside();
        let stream = self.stream();
        inside.change(|inside| {
            let number = number.max(inside.index.numbers().start);
            let Some(position) = inside.index.get(number) else { return Ok(()) };
            let last = match number.checked_sub(1).and_then(|number| inside.index.get(number)) {
                Some(lsn) => Some(read_one::<C>(stream, lsn)?.log_id()),
                None => None,
            };
            // The truncation also appends this copy of the state (invariant 2).
            let state = encode("state", &inside.state)?;
            stream.truncate_after(position, &[Append::new(STATE, &[&state])])?;
            inside.index.truncate_from(number);
            inside.tail.truncate_from(number);
            inside.last = last;
            Ok(())
        })
    }

    /// Purges the entries up to and including `purged`. Returns the end of the purge's record, and
    /// the position to pass to [`RaftLog::trim`] once that record is durable. Returns `None` if the
    /// entries were purged before.
    pub(crate) fn purge(&self, purged: &LogIdOf<C>) -> Result<Option<(Lsn, Lsn)>> {
        let _layout = self.dropping();
        let mut inside = self.inside();
        inside.change(|inside| {
            if inside.state.purged.as_ref().is_some_and(|before| before.index() >= purged.index()) {
                return Ok(None);
            }
            let state = inside.append_state(|state| state.purged = Some(purged.clone()))?;
            let next = purged.index().saturating_add(1);
            inside.tail.trim_before(next);
            let first = inside.index.trim_before(next);
            if first.is_none() {
                inside.last = None;
            }
            Ok(Some((state.end, first.unwrap_or(state.first))))
        })
    }

    /// Frees the space below `position`.
    pub(crate) fn trim(&self, position: Lsn) -> Result<()> {
        let _layout = self.dropping();
        Ok(self.stream().trim(position)?)
    }

    /// Returns the numbers of the entries in the log.
    pub(crate) fn numbers(&self) -> Range<u64> {
        self.inside().index.numbers()
    }

    /// Reads the entries from `from` (inclusive) to `to` (exclusive), up to about `bytes_max`
    /// bytes, but at least one entry if there is any.
    pub(crate) fn entries(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<C::Entry>> {
        let _layout = self.reading();
        let stream = self.stream();
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let inside = self.inside();
        let numbers = inside.index.numbers();
        let (from, to) = (from.max(numbers.start), to.min(numbers.end));
        // The entries below `in_memory` are read from the files.
        let in_memory = inside.tail.first().unwrap_or(to).clamp(from, to.max(from));
        let begin = inside.index.get(from).filter(|_| from < in_memory);
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for number in in_memory..to {
            let Some(payload) = inside.tail.get(number).filter(|_| kept.is_empty() || bytes < bytes_max)
            else {
                break;
            };
            bytes += payload.len();
            kept.push(payload.to_vec());
        }
        drop(inside);
        bytes = 0;
        if let Some(begin) = begin {
            let mut reader = stream.reader(begin)?;
            let mut number = from;
            while number < in_memory && (entries.is_empty() || bytes < bytes_max) {
                let Some(record) = reader.next_record()? else { break };
                if record.kind == ENTRY {
                    check_number(number, record.txn, record.lsn)?;
                    bytes += record.payload.len();
                    entries.push(decode("entry", record.lsn, record.payload)?);
                    number += 1;
                }
            }
            if number < in_memory && bytes < bytes_max {
                let at = reader.position();
                return Err(Error::Foreign { at, reason: "an entry of the index is missing" });
            }
            if number < in_memory {
                return Ok(entries);
            }
        }
        for payload in kept {
            if !entries.is_empty() && bytes >= bytes_max {
                break;
            }
            bytes += payload.len();
            entries.push(decode("entry", Lsn::ZERO, &payload)?);
        }
        Ok(entries)
    }
}

impl<C: RaftTypeConfig> Inside<C> {
    /// Runs a change of the log, unless an earlier change has failed. Stores the error of a failed
    /// change (invariant 4).
    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(first) = &self.failure {
            return Err(Error::Shut { first: first.clone() });
        }
        change(self).inspect_err(|error| self.failure = Some(Arc::new(error.clone())))
    }

    /// Appends the changed state. If that fails, the state stays as it was.
    fn append_state(&mut self, change: impl FnOnce(&mut State<C>)) -> Result<Appended> {
        let mut state = self.state.clone();
        change(&mut state);
        let payload = encode("state", &state)?;
        let appended = self.session.append(&Append::new(STATE, &[&payload]))?;
        self.state = state;
        Ok(appended)
    }

    fn append_entry(&mut self, entry: &C::Entry) -> Result<Lsn> {
        let number = entry.index();
        let payload = encode("entry", entry)?;
        if let Some(expected) = self.index.next_number().filter(|expected| *expected != number) {
            let at = self.session.stream().reserved();
            return Err(EntryError::OutOfOrder { found: number, expected, at }.into());
        }
        let appended = self.session.append(&Append::new(ENTRY, &[&payload]).txn(number))?;
        self.index.push(number, &appended)?;
        self.tail.push(number, payload);
        self.last = Some(entry.log_id());
        Ok(appended.end)
    }
}

/// Rebuilds the index and the state from the records of a log.
fn recover<C: RaftTypeConfig>(stream: &Stream) -> Result<(EntryIndex, State<C>)> {
    let mut state = State::<C>::default();
    let mut failure = None;
    let index = EntryIndex::rebuild(stream, |record| {
        use katydid_wal::EntryStep::{Entry, Other, TrimBefore};
        match record.kind {
            ENTRY => return Entry(record.txn),
            STATE => match decode::<State<C>>("state", record.lsn, record.payload) {
                Ok(found) => {
                    state = found;
                    return state
                        .purged
                        .as_ref()
                        .map_or(Other, |id| TrimBefore(id.index().saturating_add(1)));
                }
                Err(error) => failure = failure.take().or(Some(error)),
            },
            _ => {
                let error = Error::Foreign { at: record.lsn, reason: "it has a kind of another program" };
                failure = failure.take().or(Some(error));
            }
        }
        Other
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok((index?, state)),
    }
}

/// Fails unless a log of this kind is suited to a Raft log. Called with the options before the log
/// is opened, because opening an empty folder would make a log of the wrong kind in it.
fn check_suited(kind: LogKind, streams: usize) -> Result<()> {
    if streams == 1 && kind == LogKind::Disk { Ok(()) } else { Err(Error::Unsuited { kind, streams }) }
}

fn check_number(expected: u64, found: u64, at: Lsn) -> Result<()> {
    if found == expected { Ok(()) } else { Err(EntryError::OutOfOrder { found, expected, at }.into()) }
}

/// Reads the entry whose record is at `lsn`.
fn read_one<C: RaftTypeConfig>(stream: &Stream, lsn: Lsn) -> Result<C::Entry> {
    let record = stream.read(lsn)?;
    decode("entry", lsn, &record.payload)
}

impl<C: RaftTypeConfig> fmt::Debug for RaftLog<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftLog").field("log", &self.shared.log).finish_non_exhaustive()
    }
}
