//! The log as its users see it.

use crate::closing::{self, Closing};
use crate::completion::Completion;
use crate::core::{Core, Start};
use crate::counters::Counters;
use crate::error::{AppendError, Error, OpenError, ReadError};
use crate::nvram::store::{NvStore, Use};
use crate::options::{Background, LogKind, Options};
use crate::reader::{self, Below, Reader, Record, Show};
use crate::recover::scan::{Nobody, Onlooker};
use crate::recover::{self, Eras, RecoveryReport};
use crate::session::Session;
use katydid_device::nvram::Form;
use katydid_device::{self as device, Cause, Directory, FileDirectory, Gate, Verb, Watch};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Kind;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open log. Clones share it; it is closed when the last clone, session and future is dropped.
///
/// Dropping makes everything appended durable, if it can; call [`Log::close`] to learn whether it could.
#[derive(Clone)]
pub struct Log {
    handle: Arc<Handle>,
}

struct Handle {
    core: Arc<Core>,
    report: RecoveryReport,
    eras: Eras,
    method: device::Method,
    directory: String,
    /// Before all files of the log. Closed before the directory's lock is given back.
    gate: Gate,
    closing: Closing,
    watch: Watch,
}

/// What the log's space is used for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// From the log's start to its reserved end. Of [`LogKind::NvLogging`] the heap's chunks that records are in.
    pub live: u64,
    /// Prepared for records to come, the reserve included. Of [`LogKind::NvLogging`] the heap's free chunks.
    pub prepared: u64,
    /// Of those, for critical appends only.
    pub reserve: u64,
    /// Of all files, those kept for reuse included.
    pub on_disk: u64,
}

impl Log {
    /// Opens the log in the folder at `path`, which is created if missing, and recovers it.
    ///
    /// A process that has a log open must not go on without `exec` in a child of `fork`: the child has the log's memory and lock, but none of its
    /// threads, and a call there may wait for ever.
    ///
    /// # Errors
    /// See [`OpenError`]. `Cause::Locked` inside [`OpenError::Device`] if another handle has it open.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Log, OpenError> {
        let directory = FileDirectory::open(path.as_ref())?;
        Self::open_in(Arc::new(directory), options)
    }

    /// Opens the log in any kind of directory.
    ///
    /// # Errors
    /// As [`Log::open`].
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

    /// As [`Log::open_in`], in a directory before which `watch` stands already, perhaps for more than the log.
    ///
    /// # Errors
    /// As [`Log::open`].
    #[doc(hidden)]
    pub fn open_watched(
        directory: Arc<dyn Directory>,
        options: Options,
        watch: Watch,
    ) -> Result<Log, OpenError> {
        Self::open_seen(directory, options, watch, &mut Nobody)
    }

    /// The same; `onlooker` sees the records that are found.
    pub(crate) fn open_seen(
        directory: Arc<dyn Directory>,
        options: Options,
        watch: Watch,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Log, OpenError> {
        options.validate()?;
        // After a failed write or sync, or once it is closed, nothing of this log reaches the device again.
        let (directory, gate) = Gate::wrap(directory);
        let lock = directory.lock()?;
        let opened = recover::open(&directory, &options, onlooker)?;
        let start = Start {
            store: opened.store,
            incarnation: opened.incarnation,
            end: opened.end,
            tail: opened.tail,
        };
        let method = start.store.method(start.end).unwrap_or(options.method);
        let core = Core::new(&options, start);
        let spawned = core.start_threads();
        // From here on the handle's drop ends what was started.
        let log = Log {
            handle: Arc::new(Handle {
                core,
                report: opened.report,
                eras: opened.eras,
                method,
                directory: directory.describe(),
                gate,
                closing: Closing::new(lock),
                watch,
            }),
        };
        spawned.map_err(|error| device::Error::from_io(Verb::Open, "the log's background threads", error))?;
        log.core().nudge_maintenance();
        Ok(log)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.handle.core
    }

    /// What recovery found when the log was opened.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.handle.report
    }

    /// What the log is kept in.
    pub fn kind(&self) -> LogKind {
        self.core().store.nvram().map_or(LogKind::Disk, NvStore::kind)
    }

    /// How the memory of a log in NVRAM persists: to be shown with every figure measured on it. None for others.
    pub fn nvram(&self) -> Option<Form> {
        self.core().store.nvram().map(NvStore::form)
    }

    /// Most bytes of records, the reserve included, between [`Log::start`] and [`Log::reserved`], if that is fixed: in NVRAM nothing makes room
    /// but [`Log::trim`]. Of [`LogKind::NvLogging`] so many bytes surely fit, and often some more; if it has few entries, not of short records.
    pub fn capacity(&self) -> Option<u64> {
        self.core().capacity()
    }

    /// How much of a log in NVRAM is taken, per mille of what appends that are not critical may take; at 1,000 they get
    /// [`AppendError::NoSpace`], and more was taken by critical ones, or has been set aside since. None for others, which can grow. Of
    /// [`LogKind::NvLogging`] the share of its entries or of its heap, whichever is greater; a chunk of the heap is taken as soon as there is
    /// one record in it, and free when all its records were trimmed.
    pub fn fullness(&self) -> Option<u32> {
        self.core().fullness()
    }

    /// How bytes travel to the device; [`device::Method::Direct`] and `Uring` may have fallen back. Without meaning in NVRAM.
    pub fn method(&self) -> device::Method {
        self.handle.method
    }

    /// A session to append with.
    ///
    /// # Errors
    /// [`Error::SessionsExhausted`] if too many are open.
    pub fn session(&self) -> Result<Session, Error> {
        Session::new(self.clone())
    }

    /// Blocks until everything below `end` is at `durability`; may write and sync on this thread. `Buffered` returns at once. With
    /// [`LogKind::NvDirect`] what has been appended is durable already; others' appends below `end` may still be under way then.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if that cannot be any more, [`Error::BeyondEnd`] if nothing was appended there.
    pub fn wait(&self, end: Lsn, durability: Durability) -> Result<(), Error> {
        self.core().wait(end, durability)
    }

    /// As [`Log::wait`], as a future. The request is made now. Wakers are called by a worker thread of the log: see [`Completion`].
    pub fn wait_async(&self, end: Lsn, durability: Durability) -> Completion {
        Completion::new(self.clone(), end, durability)
    }

    /// Asks that everything below `end` gets to `durability`, and returns at once.
    pub fn request(&self, end: Lsn, durability: Durability) {
        self.core().request(end, durability);
    }

    /// Does what background threads would have done by now, on a log that was opened without them; otherwise nothing.
    #[doc(hidden)]
    pub fn run_background(&self) {
        self.core().run_background();
    }

    /// Makes everything appended before this call durable; returns up to where.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn sync(&self) -> Result<Lsn, Error> {
        let end = self.reserved();
        self.wait(end, Durability::Durable)?;
        self.core().settle(end);
        Ok(end)
    }

    /// Separates appends in the log: everything whose append ended before this call lies below what it returns, everything whose
    /// append begins after it returned lies there or above. Writes nothing and waits for no device. Free but for
    /// [`InserterKind::Chunked`](crate::InserterKind::Chunked), which has to fill all open chunks: call it rarely then.
    pub fn barrier(&self) -> Lsn {
        self.core().barrier()
    }

    /// Where the log starts: everything below was trimmed.
    pub fn start(&self) -> Lsn {
        self.core().store.start()
    }

    /// Where the next record will start. With [`InserterKind::Chunked`](crate::InserterKind::Chunked): everything appended so far lies
    /// below, and so may some of what comes.
    pub fn reserved(&self) -> Lsn {
        self.core().frontiers().reserved()
    }

    /// Everything below is in memory. As last found out; it moves when somebody writes.
    pub fn filled(&self) -> Lsn {
        self.core().frontiers().filled()
    }

    /// Everything below was handed to the operating system. In NVRAM the same as [`Log::durable`].
    pub fn written(&self) -> Lsn {
        self.core().look();
        self.core().frontiers().written()
    }

    /// Everything below is on the device, or persisted. It moves when somebody waits or asks for it.
    pub fn durable(&self) -> Lsn {
        self.core().look();
        self.core().frontiers().durable()
    }

    /// A reader of the records from `from` on: everything that was appended before this call, and what is written later.
    ///
    /// # Errors
    /// [`Error::Poisoned`] or [`Error::Closed`] if `from` was appended and never written because the log failed or was closed before;
    /// [`Error::Read`] if it is outside the log.
    pub fn reader(&self, from: Lsn) -> Result<Reader, Error> {
        self.make_readable(self.reserved())?;
        let core = &self.handle.core;
        Reader::new(core.store.source(), core.clone(), from, Show::Users).map_err(|error| self.unread(error))
    }

    /// A record that was appended and cannot be read because the log failed, or was closed, before it was written is not missing.
    fn unread(&self, error: ReadError) -> Error {
        match (error, self.core().poll(self.reserved(), Durability::Written)) {
            (ReadError::BeyondEnd { at, .. }, Some(Err(ended))) if at < self.reserved() => ended,
            (error, _) => error.into(),
        }
    }

    /// Which incarnation wrote what of the log that this opening found.
    pub(crate) fn eras(&self) -> &Eras {
        &self.handle.eras
    }

    /// A reader of the records from `from` on that this opening found.
    pub(crate) fn recovered(&self, from: Lsn) -> Result<Reader, ReadError> {
        let core = &self.handle.core;
        let found = Below { extent: core.clone(), end: self.handle.report.end };
        Reader::new(core.store.source(), Arc::new(found), from, Show::Users)
    }

    /// The record whose identity is `lsn`.
    ///
    /// # Errors
    /// As [`Log::reader`].
    pub fn read(&self, lsn: Lsn) -> Result<Record, Error> {
        if lsn >= self.written() {
            self.make_readable(self.reserved())?;
        }
        let core = &self.handle.core;
        reader::read_record(core.store.source().as_ref(), core.as_ref(), lsn)
            .map_err(|error| self.unread(error))
    }

    fn make_readable(&self, end: Lsn) -> Result<(), Error> {
        self.core().settle(end);
        // A log that has failed or is closed can still be read as far as it was written.
        match self.wait(end, Durability::Written) {
            Err(Error::Poisoned { .. } | Error::Closed) => Ok(()),
            outcome => outcome,
        }
    }

    /// Drops the log below `to`, the start of a record or [`Log::durable`], and recycles the segments entirely below it, or in NVRAM
    /// their bytes.
    /// Durable when this returns.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] if `to` is not durable yet; [`Error::Poisoned`], [`Error::Closed`].
    pub fn trim(&self, to: Lsn) -> Result<(), Error> {
        let core = self.core();
        if let Some(cause) = core.failure() {
            return Err(Error::Poisoned { cause });
        }
        if core.is_closed() {
            return Err(Error::Closed);
        }
        core.trim(to)?;
        core.maintenance.forget_no_space();
        core.nudge_maintenance();
        Ok(())
    }

    /// Most bytes of the log that a record with a payload of so many takes, for [`Log::raise_reserve`].
    pub fn record_bytes(&self, payload: u64) -> u64 {
        self.core().record_bytes(payload)
    }

    /// Sets `bytes` more of the prepared space aside for critical appends, until the guard is dropped; of [`LogKind::NvLogging`] also entries for as
    /// many records as there may be in them. Waits for
    /// segments to be prepared if need be. What other threads are appending at this moment may still take from it.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is not so much room.
    pub fn raise_reserve(&self, bytes: u64) -> Result<ReserveGuard, Error> {
        let core = self.core();
        let change = |change: &dyn Fn(u64) -> u64| {
            core.buffer.admission.change_reserve(core.frontiers(), core.store.prepared_end(), change);
        };
        change(&|reserve| reserve.saturating_add(bytes));
        let guard = ReserveGuard { log: self.clone(), bytes };
        core.make_prepared(0, crate::AppendClass::Normal)?;
        Ok(guard)
    }

    /// What the log's space is used for.
    pub fn space(&self) -> Space {
        let core = self.core();
        let reserved = self.reserved();
        let (live, prepared) = match core.store.nvram() {
            None => (reserved.since(self.start()), core.store.prepared_end().since(reserved)),
            Some(store) => {
                let Use { live, prepared } = store.space(reserved);
                (live, prepared)
            }
        };
        Space { live, prepared, reserve: core.buffer.admission.reserve(), on_disk: core.store.bytes() }
    }

    /// What the log has done so far.
    pub fn counters(&self) -> Counters {
        self.core().counters()
    }

    /// Device calls that took longer than [`Options::stall_after`], and the one that is taking so long now, if any.
    pub fn device_stalls(&self) -> device::Stalls {
        self.handle.watch.stalls()
    }

    /// The first failure, after which nothing is acknowledged any more.
    pub fn poisoned(&self) -> Option<Error> {
        self.core().failure().map(|cause| Error::Poisoned { cause })
    }

    /// Refuses further appends, makes everything appended durable, remembers that, ends the background threads, and gives
    /// the directory back (a log in NVRAM keeps its memory, and can be opened again, when the last handle, session, reader and future of this one
    /// is dropped). Reading goes on. What other threads are appending at this very moment may or may not be in the log; they are told.
    ///
    /// When this returns, no call of this log reaches the directory any more: those under way have ended, later ones get
    /// [`Error::Closed`]. A second call waits for the first and has its outcome.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if not everything could be made durable. [`Error::Device`] if this thread is inside a device call of the log, as
    /// a logger or a panic hook may be: it would wait for itself, and nothing is closed.
    pub fn close(&self) -> Result<(), Error> {
        if self.handle.gate.is_inside() {
            return Err(closing::from_inside(&self.handle.directory).into());
        }
        let outcome = self.handle.close(true);
        self.core().wakers.call_due();
        outcome
    }

    /// Ends the log as a crash of the process would: what is only in memory is lost.
    pub(crate) fn abandon(&self) {
        let crash = device::Error::new(Verb::Write, self.handle.directory.clone(), Cause::Crashed);
        // Abandoned; or closed before, which is as good.
        let _outcome = self.handle.end(|| {
            self.core().fail(crash.clone());
            Err(Error::Poisoned { cause: crash })
        });
    }
}

impl Handle {
    fn close(&self, mark: bool) -> Result<(), Error> {
        self.end(|| self.finish(mark))
    }

    /// Runs `finish`, and ends the log, whatever came of that; only once.
    fn end(&self, finish: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.closing.once(|lock| {
            let outcome = finish();
            self.core.shut();
            self.core.stop_threads();
            if !self.gate.is_inside() {
                self.core.join_threads();
            }
            self.core.end(&self.gate);
            self.gate.close(lock);
            outcome
        })
    }

    fn finish(&self, mark: bool) -> Result<(), Error> {
        let core = &self.core;
        core.wait(core.frontiers().reserved(), Durability::Durable)?;
        if mark {
            match core.append_own(Kind::MARK) {
                // It saves the next opening a search, no more: not worth failing for.
                Ok(_) | Err(AppendError::NoSpace) => {}
                Err(error) => return Err(error.into()),
            }
        }
        core.shut();
        core.wait(core.frontiers().reserved(), Durability::Durable)?;
        core.settle(core.frontiers().reserved());
        if mark {
            // No later record will remember that the last ones were durable.
            core.store.note_durable(core.frontiers().durable())?;
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to be told; `close` tells. If it was called, this does nothing.
        let _outcome = if self.gate.is_inside() {
            // Waiting for writes would be waiting for itself. What was not acknowledged may be lost.
            self.end(|| {
                let inside = closing::from_inside(&self.directory);
                self.core.fail(inside.clone());
                Err(inside.into())
            })
        } else {
            self.close(false)
        };
        self.core.wakers.call_due();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("directory", &self.handle.directory)
            .field("start", &self.start())
            .field("durable", &self.durable())
            .field("reserved", &self.reserved())
            .finish_non_exhaustive()
    }
}

/// Space set aside by [`Log::raise_reserve`], until dropped.
#[must_use = "dropping the guard gives the space back"]
#[derive(Debug)]
pub struct ReserveGuard {
    log: Log,
    bytes: u64,
}

impl ReserveGuard {
    /// How much this guard sets aside, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for ReserveGuard {
    fn drop(&mut self) {
        let core = self.log.core();
        let bytes = self.bytes;
        core.buffer.admission.change_reserve(core.frontiers(), core.store.prepared_end(), |reserve| {
            reserve.saturating_sub(bytes)
        });
    }
}
