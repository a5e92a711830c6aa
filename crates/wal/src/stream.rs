//! One stream of an open log: its frontiers and its space, reading and trimming.
//!
//! Any thread may call this code. A stream has a medium, an inserter and a sync protocol of its
//! own, and shares no word of memory with the log's other streams. The stream is opened and closed
//! with its [`Log`](crate::Log). Besides its log, a handle points to the stream's `Core`. Waiting,
//! and appending a record without dependencies, use only the `Core`, however many streams the log
//! has.

use crate::completion::{Completion, Completions};
use crate::core::{Core, Use, locked};
use crate::counters::Counters;
use crate::error::{Error, ReadError};
use crate::medium_options::LogKind;
use crate::open_log::{OpenLog, OpenStream};
use crate::reader::{self, PrefixExtent, Reader, Record, RecordFilter};
use crate::recover::RecoveryReport;
use crate::session::Session;
use katydid_device as device;
use katydid_device::nvram::Form;
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use std::fmt;
use std::sync::Arc;

/// Used part of a log in NVRAM, in per mille, from which on a trim marks pins as lost.
const PINNED_SHARE: u32 = 250;

/// A handle of one stream of an open [`Log`](crate::Log). Clones are handles of the same stream. A
/// handle keeps the log open.
#[derive(Clone)]
pub struct Stream {
    core: Arc<Core>,
    log: Arc<OpenLog>,
}

/// The use of space, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes from the log's start to its reserved end. In a log whose records lie apart
    /// ([`LogKind::lies_apart`]), bytes of the heap's used chunks.
    pub live: u64,
    /// Bytes prepared for later records, the reserve included. In a log whose records lie apart
    /// ([`LogKind::lies_apart`]), bytes of the heap's free chunks.
    pub prepared: u64,
    /// Bytes of `prepared` that only critical appends may use.
    pub reserve: u64,
    /// Bytes of all files, those kept for reuse included.
    pub on_disk: u64,
}

impl Stream {
    /// Makes a handle of the stream of `log` with this number, which exists.
    pub(crate) fn new(log: &Arc<OpenLog>, id: StreamId) -> Self {
        Stream { core: log.core(id).clone(), log: log.clone() }
    }

    /// Makes a handle of another stream of the same log.
    pub(crate) fn sibling(&self, id: StreamId) -> Self {
        Stream::new(&self.log, id)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn shared_core(&self) -> Arc<Core> {
        self.core.clone()
    }

    /// Returns the stream's number.
    pub fn id(&self) -> StreamId {
        self.core.stream
    }

    /// Returns the position `end` together with this stream's number.
    pub fn at(&self, end: Lsn) -> StreamLsn {
        StreamLsn { stream: self.core.stream, end }
    }

    /// Returns the state that all handles of the log share.
    pub(crate) fn log(&self) -> &Arc<OpenLog> {
        &self.log
    }

    fn opened(&self) -> &OpenStream {
        &self.log.streams[self.core.stream.index()]
    }

    /// Returns the report of the stream's recovery when the log was opened.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.opened().report
    }

    /// Returns the kind of storage of the stream.
    pub fn kind(&self) -> LogKind {
        self.core().medium.kind()
    }

    /// Returns the form of a log's NVRAM (real, emulated or simulated), which should be shown with
    /// every figure measured on the log. `None` for logs in files.
    pub fn nvram(&self) -> Option<Form> {
        self.core().medium.form()
    }

    /// Returns the maximum number of bytes of records, the reserve included, between
    /// [`Stream::start`] and [`Stream::reserved`]. `None` for logs in files, whose capacity is not
    /// fixed. In NVRAM only [`Stream::trim`] makes room. If the records lie apart
    /// ([`LogKind::lies_apart`]), the log often holds some more bytes; it holds fewer if short
    /// records use up its entries first.
    pub fn capacity(&self) -> Option<u64> {
        self.core().capacity()
    }

    /// Returns whether the capacity is fixed, so that only [`Stream::trim`] makes room.
    pub fn is_bounded(&self) -> bool {
        self.capacity().is_some()
    }

    /// Returns the used part of a log in NVRAM, in per mille of the space for appends that are not
    /// critical. `None` for logs in files, which can grow. At 1,000 such appends fail with
    /// [`AppendError::NoSpace`](crate::AppendError::NoSpace). The value is above 1,000 if critical
    /// appends use part of the reserve, or if the reserve was raised when the space was already
    /// used. For logs whose records lie apart ([`LogKind::lies_apart`]) the value is the used part
    /// of the entries or of the heap, whichever is greater. A chunk of the heap counts as used from
    /// its first record on, until all its records are trimmed.
    pub fn fullness(&self) -> Option<u32> {
        self.core().fullness()
    }

    /// Returns the I/O method in use. The method may differ from the option if
    /// [`device::Method::Direct`] or `Uring` fell back. Has no meaning in NVRAM.
    pub fn method(&self) -> device::Method {
        self.opened().method
    }

    /// Returns a session to append to this stream.
    ///
    /// # Errors
    /// [`Error::SessionsExhausted`] if the stream has as many open sessions as it may.
    pub fn session(&self) -> Result<Session, Error> {
        Session::new(self.clone())
    }

    /// Blocks until everything below `end` is at `durability`. The calling thread may write and
    /// sync for that. For `Buffered` the call returns at once. With [`LogKind::NvDirect`], unless
    /// the inserter is `Chunked`, the call returns even if appends of other threads below `end` are
    /// under way, because a finished append is durable in such a log.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the log failed before `end` was at this level, [`Error::Closed`] if
    /// the log was closed while a record below `end` was being appended, [`Error::BeyondEnd`] if
    /// `end` is beyond the end of the stream.
    pub fn wait(&self, end: Lsn, durability: Durability) -> Result<(), Error> {
        self.core().wait(end, durability)
    }

    /// Returns a future that is ready when [`Stream::wait`] would return. The durability is
    /// requested at once, not at the first poll. A worker thread of the log calls the wakers: see
    /// [`Completion`].
    pub fn wait_async(&self, end: Lsn, durability: Durability) -> Completion {
        Completion::new(self.clone(), end, Dependencies::default(), durability)
    }

    /// Makes an empty queue of notifications: see [`Completions`].
    pub fn completions<T>(&self) -> Completions<T> {
        Completions::new(&self.log)
    }

    /// Requests `durability` for everything below `end`, and returns at once.
    pub fn request(&self, end: Lsn, durability: Durability) {
        self.core().request(end, durability);
    }

    /// Makes everything appended before this call durable, and returns its end.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`].
    pub fn sync(&self) -> Result<Lsn, Error> {
        let end = self.reserved();
        self.wait(end, Durability::Durable)?;
        self.core().settle(end);
        Ok(end)
    }

    /// Returns a position that separates appends. Every record whose append ended before this call
    /// lies below the position. Every record whose append begins after this call lies at the
    /// position or above. The call writes nothing and waits for no device. A barrier costs little,
    /// except with [`InserterKind::Chunked`](crate::InserterKind::Chunked), which has to fill all
    /// open chunks. A log with that inserter should need few barriers.
    pub fn barrier(&self) -> Lsn {
        self.core().barrier()
    }

    /// Returns the start of the log. Everything below was trimmed.
    pub fn start(&self) -> Lsn {
        self.core().medium.start()
    }

    /// Returns the greatest position that [`Stream::trim`] was called with in this opening; before
    /// the first call, the start of the stream. The position is never below [`Stream::start`]; pins
    /// may keep the start lower.
    pub fn trimmed_to(&self) -> Lsn {
        self.log.retention.owner(self.core.stream.index())
    }

    /// Fails unless `at` is a position at which the log may begin: the start of a durable record,
    /// or the durable frontier.
    pub(crate) fn check_cut(&self, at: Lsn) -> Result<(), Error> {
        let core = self.core();
        core.settle(at);
        let (start, durable) = (self.start(), core.frontiers().durable());
        if at > durable {
            return Err(Error::BeyondEnd { at, end: durable });
        }
        if at == start || at == durable {
            return Ok(());
        }
        reader::check_record(core.medium.source().as_ref(), core, at).map_err(Error::from)
    }

    /// Returns the position at which the next record will start. With
    /// [`InserterKind::Chunked`](crate::InserterKind::Chunked) every record appended so far lies
    /// below it, and some later records may also lie below it.
    pub fn reserved(&self) -> Lsn {
        self.core().frontiers().reserved()
    }

    /// Returns a position below which everything is in memory: the filled frontier as a thread
    /// stored it last. This call does not look for records that were filled since then. With some
    /// inserters, among them the default, a thread stores the frontier only when it scans for
    /// filled records, for example before it writes the log. So more of the log may be filled
    /// already.
    pub fn filled(&self) -> Lsn {
        self.core().frontiers().filled()
    }

    /// Returns the position below which everything was handed to the operating system. In NVRAM the
    /// position is the same as [`Stream::durable`].
    pub fn written(&self) -> Lsn {
        self.core().look();
        self.core().frontiers().written()
    }

    /// Returns the position below which everything is on the device, or persisted. The position
    /// moves when a caller waits or asks for durability.
    pub fn durable(&self) -> Lsn {
        self.core().look();
        self.core().frontiers().durable()
    }

    /// Returns a reader of the records from `from` on: those that were appended before this call,
    /// and those that are written later.
    ///
    /// # Errors
    /// [`Error::Poisoned`] or [`Error::Closed`] if the record at `from` was appended and never
    /// written because the log failed or was closed before; [`Error::Read`] if `from` is outside
    /// the log.
    pub fn reader(&self, from: Lsn) -> Result<Reader, Error> {
        self.make_readable(self.reserved())?;
        let core = &self.core;
        Reader::new(core.medium.source(), core.clone(), from, RecordFilter::Users)
            .map_err(|error| self.unread(error))
    }

    /// Converts the error of a read. If the record was appended, and the log failed or was closed
    /// before the record was written, the error is that failure or closing.
    fn unread(&self, error: ReadError) -> Error {
        match (error, self.core().poll(self.reserved(), Durability::Written)) {
            (ReadError::BeyondEnd { at, .. }, Some(Err(ended))) if at < self.reserved() => ended,
            (error, _) => self.found(error),
        }
    }

    /// Returns a reader of the records from `from` on that this opening found.
    pub(crate) fn recovered(&self, from: Lsn) -> Result<Reader, ReadError> {
        let core = &self.core;
        let found = PrefixExtent { extent: core.clone(), end: self.opened().report.end };
        Reader::new(core.medium.source(), Arc::new(found), from, RecordFilter::Users)
    }

    /// Reads the record that `lsn` identifies.
    ///
    /// # Errors
    /// Those of [`Stream::reader`]; [`Error::Read`] with [`ReadError::Corrupt`] if `lsn` identifies
    /// no record, with [`ReadError::Truncated`] if the record was dropped, and with
    /// [`ReadError::Device`] if the device fails.
    pub fn read(&self, lsn: Lsn) -> Result<Record, Error> {
        // `readable` is the position up to which whole records can be read. The written frontier
        // may lie above it, because a write may end within a record.
        if lsn >= self.core().medium.readable(self.core()) {
            self.make_readable(self.reserved())?;
        }
        let core = &self.core;
        reader::read_record(core.medium.source().as_ref(), core.as_ref(), lsn)
            .map_err(|error| self.unread(error))
    }

    /// Returns the error that a reader returns in place of `error`. After the log was closed,
    /// another opening of the directory may have trimmed the record and reused its file. A read of
    /// the record may then find damage or fail in the device. In place of these two errors, a
    /// reader returns [`Error::Closed`].
    pub(crate) fn found(&self, error: ReadError) -> Error {
        match error {
            ReadError::Corrupt { .. } | ReadError::Device(_) if self.log.is_given_back() => Error::Closed,
            error => error.into(),
        }
    }

    fn make_readable(&self, end: Lsn) -> Result<(), Error> {
        self.core().settle(end);
        // A log that has failed or is closed can still be read as far as it was written.
        match self.wait(end, Durability::Written) {
            Err(Error::Poisoned { .. } | Error::Closed) => Ok(()),
            outcome => outcome,
        }
    }

    /// Trims the stream: its owner needs only the records from `to` on. `to` is the start of a
    /// record or [`Stream::durable`]. The log below `to` is dropped, as far as no pin
    /// ([`Log::pin`](crate::Log::pin)) retains it: segments that lie entirely below `to` are reused
    /// or removed; in NVRAM the bytes are reused. The trim is durable when this returns. Pins that
    /// are too far behind are lost.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] if `to` is not durable yet; [`Error::Read`] if no record starts at
    /// `to`; [`Error::Poisoned`], [`Error::Closed`], [`Error::Device`].
    pub fn trim(&self, to: Lsn) -> Result<(), Error> {
        let core = self.core();
        if let Some(cause) = core.failure() {
            return Err(Error::Poisoned { cause });
        }
        if core.is_closed() {
            return Err(Error::Closed);
        }
        core.settle(to);
        let durable = core.frontiers().durable();
        if to > durable {
            return Err(Error::BeyondEnd { at: to, end: durable });
        }
        // The start may be at the beginning of a truncated range, but not inside the range
        // (`truncated.rs`, invariant 4).
        let truncations = &core.truncations;
        let _turn = locked(&truncations.turn);
        let ends = self.log.ends();
        let (retention, stream) = (&self.log.retention, self.core.stream.index());
        // The retention keeps the position for good, so the position is checked first.
        if to > retention.owner(stream) {
            self.check_cut(to).map_err(|error| match error {
                Error::Read(ReadError::Device(error)) => error.into(),
                error => error,
            })?;
        }
        core.trim(retention.trim(stream, to, &ends, |to| truncations.start_below(to)))?;
        if core.fullness().is_some_and(|taken| taken >= PINNED_SHARE) {
            // In NVRAM only trims make room, so pins must not keep the log full.
            core.trim(retention.release(stream))?;
        }
        core.maintenance.forget_no_space();
        core.nudge_maintenance();
        Ok(())
    }

    /// Returns the maximum number of bytes of the log that a record with a payload of this size
    /// takes, for [`Stream::raise_reserve`].
    pub fn record_bytes(&self, payload: u64) -> u64 {
        self.core().record_bytes(payload)
    }

    /// Sets `bytes` more of the prepared space aside for critical appends, until the guard is
    /// dropped. In a log whose records lie apart ([`LogKind::lies_apart`]) the call also sets aside
    /// entries for as many records as there may be in these bytes. The call may wait until segments
    /// are prepared. Records that other threads are appending at this moment may still take some of
    /// that space.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is not enough room; [`Error::TooLarge`] if there is not enough
    /// room even in an empty log; [`Error::Poisoned`], [`Error::Closed`].
    pub fn raise_reserve(&self, bytes: u64) -> Result<ReserveGuard, Error> {
        let core = self.core();
        let limit = core.medium.raise_bytes_max(&core.buffer.admission);
        if bytes > limit {
            return Err(Error::TooLarge { bytes, limit });
        }
        core.buffer.admission.change_reserve(core.frontiers(), core.medium.prepared_end(), |reserve| {
            reserve.saturating_add(bytes)
        });
        let guard = ReserveGuard { stream: self.clone(), bytes };
        core.make_prepared(0, crate::AppendClass::Normal)?;
        Ok(guard)
    }

    /// Returns the stream's use of space.
    pub fn space(&self) -> Space {
        let core = self.core();
        let reserved = self.reserved();
        let Use { live, prepared } = core.medium.space(reserved);
        let reserve = core.buffer.admission.reserve_at(reserved.get());
        Space { live, prepared, reserve, on_disk: core.medium.bytes() }
    }

    /// Returns the counters of the stream.
    pub fn counters(&self) -> Counters {
        self.core().counters()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("id", &self.id())
            .field("start", &self.start())
            .field("durable", &self.durable())
            .field("reserved", &self.reserved())
            .finish_non_exhaustive()
    }
}

/// Space that [`Stream::raise_reserve`] has set aside, until this guard is dropped.
#[must_use = "dropping the guard gives the space back"]
#[derive(Debug)]
pub struct ReserveGuard {
    stream: Stream,
    bytes: u64,
}

impl ReserveGuard {
    /// Returns the number of bytes that this guard sets aside.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for ReserveGuard {
    fn drop(&mut self) {
        let core = self.stream.core();
        let bytes = self.bytes;
        core.buffer.admission.change_reserve(core.frontiers(), core.medium.prepared_end(), |reserve| {
            reserve.saturating_sub(bytes)
        });
    }
}
