//! The parts of an open log that all its handles share: its streams, its gate, and its end.
//!
//! Any thread may call this code. [`Log`](crate::Log) and [`Stream`](crate::Stream) are handles;
//! sessions and futures hold a handle. Dropping the last handle closes the log. Invariants:
//!
//! 1. One gate stands before the directory and every stream's folder, so a failure of one stream
//!    shuts all streams. The gate belongs to the log, or to the program that opened the log behind
//!    a gate of its own. Only the owner closes the gate.
//! 2. A stream ends once. No thread writes to a stream that has ended. The thread that ends a
//!    stream stops the stream's threads, and joins them if it is not inside a device call of the
//!    log. If an opening fails, the drop of each of its streams ends that stream.
//! 3. A log that has its own gate releases the directory after it has closed the gate. If the
//!    program owns the gate, the program closes it after the log, and holds a lock of its own until
//!    then.
//!
//! All state of this module is in memory only. Recovery needs none of it.

use crate::closing::{self, Closing};
use crate::consumers::Consumers;
use crate::core::Core;
use crate::error::{AppendError, Error, Result};
use crate::options::Background;
use crate::recover::{IncarnationHistory, RecoveryReport};
use crate::retention::Retention;
use katydid_device::{self as device, Cause, Gate, Id, Verb, Watch};
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Kind;
use katydid_kernels::sync_shim::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// The owner of the gate in front of a log. The owner closes the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateOwner {
    /// The log, which closes the gate at its end.
    Log,
    /// The program that opened the log, which closes the gate after the log.
    Opener,
}

/// Gate and watch in front of the files of a log, which all its streams share. The owner of the
/// gate has made it.
#[derive(Debug, Clone)]
pub(crate) struct Guards {
    pub gate: Gate,
    pub owner: GateOwner,
    pub watch: Watch,
}

/// One stream of an open log, until it is ended (invariant 2).
pub(crate) struct OpenStream {
    pub core: Arc<Core>,
    pub report: RecoveryReport,
    /// The incarnations that wrote the part of the stream that this opening found.
    pub incarnations: IncarnationHistory,
    pub method: device::Method,
    gate: Gate,
    // Swapped (AcqRel) by each thread that would end the stream; the first one ends it.
    has_ended: AtomicBool,
}

impl OpenStream {
    pub(crate) fn new(
        core: Arc<Core>,
        report: RecoveryReport,
        incarnations: IncarnationHistory,
        method: device::Method,
        gate: Gate,
    ) -> Self {
        OpenStream { core, report, incarnations, method, gate, has_ended: AtomicBool::new(false) }
    }

    /// Runs `finish`, and then ends the stream, whatever the outcome. Only the first call does so.
    fn end(&self, finish: impl FnOnce(&Core) -> Result<()>) -> Result<()> {
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let outcome = finish(&self.core);
        self.core.shut();
        self.core.stop_threads();
        if !self.gate.is_inside() {
            self.core.join_threads();
        }
        self.core.end(&self.gate);
        outcome
    }

    /// Ends the stream of a handle that was dropped.
    fn end_dropped(&self, directory: &str) -> Result<()> {
        self.end(|core| {
            if !self.gate.is_inside() {
                return finish(core, false);
            }
            // This thread is inside a device call of the log. If it waited for the calls under way,
            // it would wait for itself. Records that were not acknowledged may be lost.
            let inside = closing::from_inside(directory);
            core.fail(inside.clone());
            Err(inside.into())
        })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        // The outcome is ignored: only `Log::close` returns it. If the stream has ended already,
        // this call does nothing.
        let _outcome = self.end_dropped("a stream");
        self.core.wakers.call_due();
    }
}

/// Makes everything appended durable. If `mark` is set, also stores on the medium that everything
/// is durable.
fn finish(core: &Core, mark: bool) -> Result<()> {
    core.wait(core.frontiers().reserved(), Durability::Durable)?;
    if mark && !core.medium.is_unused(core) {
        match core.append_own(Kind::MARK) {
            // The record only saves the next opening a search, so a lack of space for it is
            // ignored.
            Ok(_) | Err(AppendError::NoSpace) => {}
            Err(error) => return Err(error.into()),
        }
    }
    core.shut();
    core.wait(core.frontiers().reserved(), Durability::Durable)?;
    core.settle(core.frontiers().reserved());
    if mark {
        // No later record will store that the last records were durable, so the medium stores it.
        core.medium.note_durable(core.frontiers().durable())?;
    }
    Ok(())
}

/// See the head of this file.
pub(crate) struct OpenLog {
    pub id: Id,
    pub streams: Box<[OpenStream]>,
    /// Copies of the `incarnations` of all streams, by number, in one slice, for questions that
    /// need several streams (such as those of `head.rs`).
    pub incarnations: Box<[IncarnationHistory]>,
    pub directory: String,
    pub background: Background,
    pub guards: Guards,
    pub retention: Arc<Retention>,
    pub consumers: Consumers,
    pub closing: Closing,
    /// The stream of the next session of [`Log::session`](crate::Log::session). Relaxed, because
    /// sessions may be given to the streams in any order.
    pub turn: AtomicUsize,
}

impl OpenLog {
    /// Returns the `Core` of this stream.
    ///
    /// # Panics
    /// If the log has no stream of this number.
    #[inline]
    pub(crate) fn core(&self, stream: StreamId) -> &Arc<Core> {
        &self.streams[stream.index()].core
    }

    /// Returns the stream's incarnation since this opening.
    #[inline]
    pub(crate) fn incarnation(&self, stream: StreamId) -> u32 {
        self.streams[stream.index()].report.incarnation
    }

    /// Returns the end of each stream.
    pub(crate) fn ends(&self) -> Vec<Lsn> {
        self.streams.iter().map(|stream| stream.core.frontiers().reserved()).collect()
    }

    // ---- waiting

    /// Returns the position below which everything in the stream is durable. Costs one load in a
    /// log in files, and a scan of the inserter in NVRAM.
    #[inline]
    pub(crate) fn durable(&self, stream: StreamId) -> Lsn {
        let core = self.core(stream);
        core.look();
        core.frontiers().durable()
    }

    /// Returns the position below which everything in the stream was handed to the operating
    /// system. Costs the same as [`OpenLog::durable`].
    #[inline]
    pub(crate) fn written(&self, stream: StreamId) -> Lsn {
        let core = self.core(stream);
        core.look();
        core.frontiers().written()
    }

    /// See [`Log::is_settled`](crate::Log::is_settled).
    pub(crate) fn is_settled(
        &self,
        at: StreamLsn,
        dependencies: &Dependencies,
        level: Durability,
    ) -> Option<Result<()>> {
        let mut all = true;
        for at in std::iter::once(at).chain(dependencies.iter()) {
            match self.core(at.stream).poll(at.end, level) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Some(Err(error)),
                None => all = false,
            }
        }
        all.then_some(Ok(()))
    }

    /// See [`Log::wait`](crate::Log::wait).
    pub(crate) fn wait(&self, at: StreamLsn, dependencies: &Dependencies, level: Durability) -> Result<()> {
        for at in std::iter::once(at).chain(dependencies.iter()) {
            self.core(at.stream).wait(at.end, level)?;
        }
        Ok(())
    }

    /// Returns the first failure: of a device call, or of a stream whose medium makes no device
    /// calls.
    pub(crate) fn failure(&self) -> Option<Error> {
        let failed = self.guards.gate.failure().map(device::Error::into_first);
        let failed = failed.or_else(|| self.streams.iter().find_map(|stream| stream.core.failure()));
        failed.map(|cause| Error::Poisoned { cause })
    }

    /// Returns whether another opening may have the directory by now, and may have trimmed the log
    /// and reused its files.
    pub(crate) fn is_given_back(&self) -> bool {
        self.guards.gate.is_closed()
    }

    // ---- the end

    /// See [`Log::close`](crate::Log::close).
    pub(crate) fn close(&self) -> Result<()> {
        if self.guards.gate.is_inside() {
            return Err(closing::from_inside(&self.directory).into());
        }
        let outcome = self.end(|stream| stream.end(|core| finish(core, true)));
        self.streams.iter().for_each(|stream| stream.core.wakers.call_due());
        outcome
    }

    /// Ends the log as a crash of the process would: records that are only in memory are lost.
    pub(crate) fn abandon(&self) {
        let crash = device::Error::new(Verb::Write, self.directory.clone(), Cause::Crashed);
        // The outcome does not matter: it is the crash made here, or the outcome of an earlier
        // close.
        let _outcome = self.end(|stream| {
            stream.end(|core| {
                core.fail(crash.clone());
                Err(Error::Poisoned { cause: crash.clone() })
            })
        });
    }

    /// Ends each stream by `end`, and then releases the directory. Only the first call does so.
    /// Returns the first failure.
    fn end(&self, end: impl Fn(&OpenStream) -> Result<()>) -> Result<()> {
        self.closing.once(|lock| {
            let mut outcome = Ok(());
            for stream in &self.streams {
                outcome = outcome.and(end(stream));
            }
            match self.guards.owner {
                GateOwner::Log => self.guards.gate.close(lock),
                GateOwner::Opener => drop(lock),
            }
            outcome
        })
    }
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        // The outcome is ignored: only `Log::close` returns it. If the log has ended already, this
        // call does nothing.
        let _outcome = self.end(|stream| stream.end_dropped(&self.directory));
        self.streams.iter().for_each(|stream| stream.core.wakers.call_due());
    }
}
