//! An open log, as its users see it: one or more streams that commit as one.
//!
//! Any thread may call this code. A log of one stream is the common case. With several streams,
//! each appending thread may have a stream of its own; threads that append to different streams
//! share no word of memory (P-WAL; Cicada + P-WAL, section III). A record names the positions in
//! other streams that its transaction depends on, and from these alone recovery decides which
//! records survive (`head.rs`, `docs/recovery.md`). The log does not order transactions: a program
//! orders the replayed transactions by their commit stamps.
//!
//! Differences from the papers: in section III-A of Cicada + P-WAL a shared counter numbers the
//! records; this log has no such counter. A committer waits for the streams that it depends on; in
//! P-WAL it waits for the least durable position of all streams. [`Log::everything`] provides
//! P-WAL's rule.

use crate::completion::{Completion, Completions};
use crate::counters::Counters;
use crate::error::{Error, OpenError, ReadError};
use crate::open_log::{GateOwner, Guards, OpenLog};
use crate::options::{Background, Options};
use crate::retention::Pin;
use crate::session::Session;
use crate::stream::{Space, Stream};
use crate::streams::opening::{OpenOne, open_log, open_one};
use katydid_device::{self as device, Directory, FileDirectory, Gate, Id, Verb, Watch};
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::sync_shim::Ordering;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open log of one or more streams. Clones share the log. The log is closed when the last clone,
/// stream, session and future is dropped.
///
/// Dropping the log makes everything appended durable, if possible. Call [`Log::close`] to learn
/// whether that succeeded.
///
/// In a log of several streams a transaction is one record in one stream. The transaction is
/// durable when that record is durable and so are all positions in its [`Dependencies`]. After a
/// crash a transaction is replayed exactly if its record and its dependencies have survived.
///
/// ```
/// use katydid_wal::{Append, CommitStamp, Dependencies, Durability, Kind, Log, Options};
/// # use katydid_device::SimDevice;
/// # let directory = SimDevice::new(1).directory();
/// let log = Log::open_in(directory, Options { streams: 2, ..Options::default() })?;
/// let mut first = log.streams()[0].session()?;
/// let mut second = log.streams()[1].session()?;
/// let written = first.append(&Append::new(Kind::USER, &[b"x = 1"]).stamp(CommitStamp::new(100)))?;
/// // This transaction has read what the first one wrote.
/// let depends = Dependencies::from_iter([written.position()]);
/// let record = Append::new(Kind::USER, &[b"y = x"]).commit(CommitStamp::new(105), &depends);
/// let appended = second.append(&record)?;
/// log.wait(appended.position(), &depends, Durability::Durable)?;
/// # log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Log {
    open: Arc<OpenLog>,
    /// The streams; at least one.
    streams: Arc<[Stream]>,
}

impl Log {
    /// Opens the log in the folder at `path`, and recovers each of its streams. The folder is
    /// created if missing.
    ///
    /// A process that has a log open and calls `fork` must not use the log in the child. The child
    /// has the memory and the lock of the log, but none of its threads, so a call there may wait
    /// for ever. The child may call `exec`.
    ///
    /// # Errors
    /// See [`OpenError`]. `Cause::Locked` inside [`OpenError::Device`] if another handle has the
    /// log open; [`OpenError::OtherStreams`] if the log has another number of streams than
    /// [`Options::streams`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Log, OpenError> {
        let directory = FileDirectory::open(path.as_ref())?;
        Self::open_in(Arc::new(directory), options)
    }

    /// Opens the log in any kind of directory.
    ///
    /// # Errors
    /// Those of [`Log::open`].
    pub fn open_in(directory: Arc<dyn Directory>, options: Options) -> Result<Log, OpenError> {
        options.validate()?;
        let watch = Watch::new(options.stall_after);
        if options.background == Background::Threads {
            watch.start().map_err(|error| {
                device::Error::from_io(Verb::Open, "the thread that watches the device", error)
            })?;
        }
        Self::open_watched(watch.before(directory), options, watch)
    }

    /// Opens the log in a directory whose calls `watch` observes already.
    ///
    /// # Errors
    /// Those of [`Log::open`].
    #[doc(hidden)]
    pub fn open_watched(
        directory: Arc<dyn Directory>,
        options: Options,
        watch: Watch,
    ) -> Result<Log, OpenError> {
        let (directory, gate) = Gate::wrap(directory);
        Self::open_guarded(directory, &options, Guards { gate, owner: GateOwner::Log, watch }, &open_one)
    }

    /// Opens the log in a directory whose calls pass `gate` and `watch` already. Both may serve
    /// other files too, such as those of a database. The caller must close the gate after closing
    /// the log. Until then the caller must hold a lock that keeps other programs from opening the
    /// log.
    ///
    /// # Errors
    /// Those of [`Log::open`].
    #[doc(hidden)]
    pub fn open_behind(
        directory: Arc<dyn Directory>,
        options: Options,
        gate: Gate,
        watch: Watch,
    ) -> Result<Log, OpenError> {
        Self::open_guarded(directory, &options, Guards { gate, owner: GateOwner::Opener, watch }, &open_one)
    }

    /// Opens the log in a directory whose calls pass `guards`; `one` opens each stream.
    pub(crate) fn open_guarded(
        directory: Arc<dyn Directory>,
        options: &Options,
        guards: Guards,
        one: &OpenOne<'_>,
    ) -> Result<Log, OpenError> {
        let open = Arc::new(open_log(&directory, options, guards, one)?);
        let stream = |index| Stream::new(&open, StreamId::new(index as u16));
        let streams = (0..open.streams.len()).map(stream).collect();
        Ok(Log { open, streams })
    }

    pub(crate) fn inside(&self) -> &Arc<OpenLog> {
        &self.open
    }

    /// Returns the log's id, which was fixed when the log was made: the id in the options, or a
    /// random one.
    pub fn id(&self) -> Id {
        self.open.id
    }

    /// Returns a number that grows with each opening: the largest incarnation of any stream.
    pub fn epoch(&self) -> u32 {
        self.open.streams.iter().map(|stream| stream.report.incarnation).max().unwrap_or(0)
    }

    /// Returns the streams, by their numbers.
    #[inline]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns the first stream. The first stream is the only one unless [`Options::streams`] asks
    /// for more.
    #[inline]
    pub fn first(&self) -> &Stream {
        &self.streams[0]
    }

    /// Returns a session to append with. Successive calls return sessions of the streams in turn;
    /// [`Stream::session`] returns a session of one stream.
    ///
    /// # Errors
    /// [`Error::SessionsExhausted`] if the stream whose turn it is has as many open sessions as it
    /// may.
    pub fn session(&self) -> Result<Session, Error> {
        let turn = self.open.turn.fetch_add(1, Ordering::Relaxed);
        self.streams[turn % self.streams.len()].session()
    }

    // ---- waiting

    /// Returns whether the position is durable. Costs one load in a log in files, and a scan of the
    /// inserter in NVRAM.
    ///
    /// # Panics
    /// If the log does not have the stream of `at`. All functions that take a position panic in
    /// this case.
    #[inline]
    pub fn is_durable(&self, at: StreamLsn) -> bool {
        self.open.durable(at.stream) >= at.end
    }

    /// Returns `Ok` if the position and its dependencies are at `durability`, an error if they
    /// never will be, and `None` if they are not yet.
    pub fn is_settled(
        &self,
        at: StreamLsn,
        dependencies: &Dependencies,
        durability: Durability,
    ) -> Option<Result<(), Error>> {
        self.open.is_settled(at, dependencies, durability)
    }

    /// Blocks until the position and its dependencies are at `durability`. The calling thread may
    /// write and sync for that. For `Buffered` the call returns at once. In a log of one stream
    /// [`Stream::wait`] does the same.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the log failed before the position was at this level,
    /// [`Error::Closed`] if the log was closed while the record was being appended,
    /// [`Error::BeyondEnd`] if the position is beyond the end of its stream.
    pub fn wait(
        &self,
        at: StreamLsn,
        dependencies: &Dependencies,
        durability: Durability,
    ) -> Result<(), Error> {
        self.open.wait(at, dependencies, durability)
    }

    /// Requests `durability` for the position and its dependencies, and returns at once.
    pub fn request(&self, at: StreamLsn, dependencies: &Dependencies, durability: Durability) {
        for at in std::iter::once(at).chain(dependencies.iter()) {
            self.open.core(at.stream).request(at.end, durability);
        }
    }

    /// Returns a future that is ready when [`Log::wait`] would return. The durability is requested
    /// at once, not at the first poll. A worker thread of the log calls the wakers: see
    /// [`Completion`].
    pub fn wait_async(
        &self,
        at: StreamLsn,
        dependencies: &Dependencies,
        durability: Durability,
    ) -> Completion {
        Completion::new(self.streams[at.stream.index()].clone(), at.end, dependencies.clone(), durability)
    }

    /// Makes an empty queue of notifications: see [`Completions`].
    pub fn completions<T>(&self) -> Completions<T> {
        Completions::new(&self.open)
    }

    // ---- all of it

    /// Returns everything that was appended so far and is not durable. A transaction with these
    /// dependencies depends on all records in the log (P-WAL's rule).
    ///
    /// In a log of kind [`LogKind::NvDirect`](crate::LogKind::NvDirect) the result is empty, unless
    /// the inserter is `Chunked`: a record is durable when its append returns. In such a log the
    /// result must not name positions that are reserved by appends still under way: no thread has
    /// waited for their records, so a crash may lose them, and recovery would then drop the
    /// transaction.
    pub fn everything(&self) -> Dependencies {
        let position = |stream: &Stream| {
            let end = stream.reserved();
            let waits = stream.core().poll(end, Durability::Durable).is_none_or(|settled| settled.is_err());
            waits.then(|| stream.at(end))
        };
        self.streams.iter().filter_map(position).collect()
    }

    /// Makes everything appended before this call durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`].
    pub fn sync(&self) -> Result<(), Error> {
        let ends: Vec<Lsn> = self.streams.iter().map(Stream::reserved).collect();
        // The other streams are synced while this thread syncs the first.
        for (stream, end) in self.streams.iter().zip(&ends).skip(1) {
            stream.request(*end, Durability::Durable);
        }
        self.streams.iter().zip(&ends).try_for_each(|(stream, end)| {
            stream.wait(*end, Durability::Durable)?;
            stream.core().settle(*end);
            Ok(())
        })
    }

    /// Trims each stream to its position in `to`, or to the lowest position that a pin retains, if
    /// that is lower; see [`Stream::trim`]. A crash during the trim may leave some streams trimmed
    /// and others not. The next replay must therefore begin at `to`, or at a later cut: see
    /// [`Log::replay`].
    ///
    /// # Errors
    /// Those of [`Stream::trim`].
    ///
    /// # Panics
    /// If `to` does not have a position for each stream.
    pub fn trim(&self, to: &[Lsn]) -> Result<(), Error> {
        assert_eq!(to.len(), self.streams.len(), "a position for each stream");
        self.streams.iter().zip(to).try_for_each(|(stream, to)| stream.trim(*to))
    }

    /// Retains each stream from its position in `from` on: no trim drops records above that
    /// position until the pin is dropped. A pin is lost if it is more than `bytes_max` behind the
    /// end of the log when the log's owner trims, and no other pin retains that part. In NVRAM a
    /// pin is also lost when a quarter of the log or more is in use after a trim.
    ///
    /// Each position is the start of a record, such as [`Stream::start`] or the end of a record
    /// that was read, or it is [`Stream::durable`].
    ///
    /// ```
    /// use katydid_wal::{Append, Kind, Log, Options};
    /// # use katydid_device::SimDevice;
    /// # let directory = SimDevice::new(1).directory();
    /// let log = Log::open_in(directory, Options::default())?;
    /// let first = log.session()?.append(&Append::new(Kind::USER, &[b"record"]))?;
    /// log.sync()?;
    /// let pin = log.pin(&[first.lsn], u64::MAX)?;
    /// log.trim(&[log.first().durable()])?;
    /// assert_eq!(log.first().read(first.lsn)?.payload, b"record", "it is there still");
    /// drop(pin);
    /// log.trim(&[log.first().durable()])?;
    /// assert!(log.first().read(first.lsn).is_err());
    /// # log.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Read`] with [`ReadError::Trimmed`] if the log starts above a position, or with
    /// [`ReadError::Corrupt`] if no record starts at a position, or with [`ReadError::Device`] if
    /// the device fails; [`Error::BeyondEnd`] if a position is not durable.
    ///
    /// # Panics
    /// If `from` does not have a position for each stream.
    pub fn pin(&self, from: &[Lsn], bytes_max: u64) -> Result<Pin, Error> {
        assert_eq!(from.len(), self.streams.len(), "a position for each stream");
        self.streams.iter().zip(from).try_for_each(|(stream, from)| stream.check_cut(*from))?;
        let pin = self.open.retention.pin(from, bytes_max);
        pin.map_err(|(stream, start)| ReadError::Trimmed { at: from[stream], start }.into())
    }

    /// Pins everything that the log has at this moment, like [`Log::pin`] with the start of each
    /// stream.
    pub fn pin_all(&self, bytes_max: u64) -> Pin {
        self.open.retention.pin_all(bytes_max)
    }

    /// Returns the bytes that pins retain below [`Stream::trimmed_to`], the position that the owner
    /// has trimmed to.
    pub fn pinned_bytes(&self) -> u64 {
        self.open.retention.kept()
    }

    /// Does the work that background threads would have done by now, on a log that was opened
    /// without them. On other logs it does nothing.
    #[doc(hidden)]
    pub fn run_background(&self) {
        self.streams.iter().for_each(|stream| stream.core().run_background());
    }

    /// Returns the use of space of all streams together.
    pub fn space(&self) -> Space {
        let none = Space { live: 0, prepared: 0, reserve: 0, on_disk: 0 };
        self.streams.iter().map(Stream::space).fold(none, |sum, space| Space {
            live: sum.live + space.live,
            prepared: sum.prepared + space.prepared,
            reserve: sum.reserve + space.reserve,
            on_disk: sum.on_disk + space.on_disk,
        })
    }

    /// Returns the sums of the counters of all streams; `depth` is the largest of any stream.
    pub fn counters(&self) -> Counters {
        self.streams
            .iter()
            .map(Stream::counters)
            .reduce(|sum, counters| sum.plus(&counters))
            .unwrap_or_default()
    }

    /// Returns the device calls that took longer than [`Options::stall_after`], and the call that
    /// is taking longer now, if any.
    pub fn device_stalls(&self) -> device::Stalls {
        self.open.guards.watch.stalls()
    }

    /// Returns the first failure of any stream, if one has failed. After a failure no commit is
    /// acknowledged any more.
    pub fn poisoned(&self) -> Option<Error> {
        self.open.failure()
    }

    /// Closes the log: refuses further appends, makes everything appended durable, stores that the
    /// log ended cleanly, ends the background threads, and unlocks the directory. (A log in NVRAM
    /// keeps its memory, and can be opened again only after the last handle, session, reader and
    /// future of the closed log is dropped.) A record that another thread is appending at this
    /// moment may or may not be in the log; the result of the append says which. Readers still work
    /// afterwards.
    ///
    /// When this returns, no call of this log uses the directory any more: calls under way have
    /// ended, and later ones fail with [`Error::Closed`]. A second call waits for the first and has
    /// the same outcome.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if not everything could be made durable. This is the error of the first
    /// stream that failed; the other streams are closed nevertheless. [`Error::Device`] in two
    /// cases. If the clean end could not be stored, the log is closed nevertheless. If this thread
    /// is inside a device call of the log, as a logger or a panic hook may be, nothing is closed,
    /// because the thread would wait for itself.
    pub fn close(&self) -> Result<(), Error> {
        self.open.close()
    }

    /// Ends the log as a crash of the process would: records that are only in memory are lost.
    pub(crate) fn abandon(&self) {
        self.open.abandon();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("directory", &self.open.directory)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}
