//! The parallel log as its users see it.

use super::completion::ParallelCompletion;
use super::opening::{OpenStream, check_count, open_streams};
use super::session::ParallelSession;
use crate::closing::{self, Closing};
use crate::counters::Counters;
use crate::error::{Error, OpenError};
use crate::log::{Log, Space};
use crate::options::{Background, Options};
use crate::recover::Eras;
use katydid_device::{self as device, Directory, FileDirectory, Gate, Verb, Watch};
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Several open logs that commit as one. Clones share it; it is closed when the last clone, session and future is dropped.
///
/// A transaction is one record in one stream. It is durable when its record is, and so is everything it depends on: the places that
/// [`Dependencies`] holds. After a crash, exactly those records are replayed of which that can be said.
///
/// ```
/// use katydid_wal::{CommitStamp, Dependencies, Durability, Kind, Options, ParallelLog, StreamId};
/// # use katydid_device::SimDevice;
/// # let directory = SimDevice::new(1).directory();
/// let log = ParallelLog::open_in(directory, 2, Options::default())?;
/// let mut first = log.session(StreamId::new(0))?;
/// let mut second = log.session(StreamId::new(1))?;
/// let written = first.append(CommitStamp::new(100), &Dependencies::default(), Kind::USER, &[b"x = 1"])?;
/// // This one has read what that one wrote.
/// let depends = Dependencies::from_iter([written]);
/// let place = second.append(CommitStamp::new(105), &depends, Kind::USER, &[b"y = x"])?;
/// log.wait(place, &depends, Durability::Durable)?;
/// # log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ParallelLog {
    shared: Arc<Shared>,
}

struct Shared {
    id: u128,
    streams: Box<[Log]>,
    /// What each was before this opening.
    eras: Box<[Eras]>,
    /// That of each since this opening.
    incarnations: Box<[u32]>,
    directory: String,
    background: Background,
    gate: Gate,
    watch: Watch,
    closing: Closing,
}

impl ParallelLog {
    /// Opens the log of so many streams in the folder at `path`, which is created if missing, and recovers each. `options` are each stream's:
    /// sizes count once for each.
    ///
    /// # Errors
    /// See [`OpenError`]; [`OpenError::OtherStreams`] if the log has another number of streams, [`OpenError::MissingStream`] if one is gone.
    pub fn open(path: impl AsRef<Path>, streams: u16, options: Options) -> Result<ParallelLog, OpenError> {
        Self::open_in(Arc::new(FileDirectory::open(path.as_ref())?), streams, options)
    }

    /// Opens the log in any kind of directory.
    ///
    /// # Errors
    /// As [`ParallelLog::open`].
    pub fn open_in(
        directory: Arc<dyn Directory>,
        streams: u16,
        options: Options,
    ) -> Result<ParallelLog, OpenError> {
        options.validate()?;
        let watch = Watch::new(options.stall_after);
        if options.background == Background::Threads {
            watch.start().map_err(|error| {
                device::Error::from_io(Verb::Open, "the thread that watches the device", error)
            })?;
        }
        Self::open_watched(watch.before(directory), streams, options, watch)
    }

    /// As [`ParallelLog::open_in`], in a directory before which `watch` stands already, perhaps for more than the log.
    ///
    /// # Errors
    /// As [`ParallelLog::open`].
    #[doc(hidden)]
    pub fn open_watched(
        directory: Arc<dyn Directory>,
        streams: u16,
        options: Options,
        watch: Watch,
    ) -> Result<ParallelLog, OpenError> {
        let open = |_, folder, options| Log::open_watched(folder, options, watch.clone());
        Self::open_by(directory, streams, &options, watch.clone(), &open)
    }

    pub(super) fn open_by(
        directory: Arc<dyn Directory>,
        streams: u16,
        options: &Options,
        watch: Watch,
        open: &OpenStream<'_>,
    ) -> Result<ParallelLog, OpenError> {
        options.validate()?;
        check_count(streams)?;
        // After a failed write or sync of one stream nothing of any reaches the device again.
        let (directory, gate) = Gate::wrap(directory);
        let lock = directory.lock()?;
        let (streams, id) = open_streams(directory.as_ref(), streams, options, open)?;
        let streams = streams.into_boxed_slice();
        let eras = streams.iter().map(|log| log.eras().clone()).collect();
        let incarnations = streams.iter().map(|log| log.recovery().incarnation).collect();
        let directory = directory.describe();
        let (background, closing) = (options.background, Closing::new(lock));
        let shared = Shared { id, streams, eras, incarnations, directory, background, gate, watch, closing };
        Ok(ParallelLog { shared: Arc::new(shared) })
    }

    /// The log's id: that of the options, or a random one, from when it was made.
    pub fn id(&self) -> u128 {
        self.shared.id
    }

    /// The streams, by their numbers. Records are appended through a [`ParallelSession`] only: others than its own, replay does not understand.
    pub fn streams(&self) -> &[Log] {
        &self.shared.streams
    }

    /// The log that is this stream.
    ///
    /// # Panics
    /// If there is no such stream.
    #[inline]
    pub(super) fn stream(&self, stream: StreamId) -> &Log {
        &self.shared.streams[stream.index()]
    }

    pub(super) fn eras(&self) -> &[Eras] {
        &self.shared.eras
    }

    pub(super) fn background(&self) -> Background {
        self.shared.background
    }

    /// The stream's incarnation since this opening.
    #[inline]
    pub(super) fn incarnation(&self, stream: StreamId) -> u32 {
        self.shared.incarnations[stream.index()]
    }

    /// A number that is larger after each opening: the largest incarnation of any stream.
    pub fn epoch(&self) -> u32 {
        self.shared.incarnations.iter().copied().max().unwrap_or(0)
    }

    /// A session to append to this stream with.
    ///
    /// # Errors
    /// [`Error::SessionsExhausted`] if too many are open on it.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn session(&self, stream: StreamId) -> Result<ParallelSession, Error> {
        ParallelSession::new(self.clone(), stream)
    }

    // ---- waiting

    /// Whether the place is durable: one load.
    #[inline]
    pub fn is_durable(&self, place: StreamLsn) -> bool {
        self.stream(place.stream).durable() >= place.end
    }

    /// Whether the place and all that it depends on are at `durability`; an error if that will never be.
    pub fn is_settled(
        &self,
        place: StreamLsn,
        depends: &Dependencies,
        durability: Durability,
    ) -> Option<Result<(), Error>> {
        if durability == Durability::Buffered {
            return Some(Ok(()));
        }
        let mut all = true;
        for place in std::iter::once(place).chain(depends.iter()) {
            match self.stream(place.stream).core().poll(place.end, durability) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Some(Err(error)),
                None => all = false,
            }
        }
        all.then_some(Ok(()))
    }

    /// Blocks until the place, and then all that it depends on, are at `durability`; may write and sync on this thread. `Buffered`
    /// returns at once.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if that cannot be any more, [`Error::BeyondEnd`] if nothing was appended there.
    pub fn wait(
        &self,
        place: StreamLsn,
        depends: &Dependencies,
        durability: Durability,
    ) -> Result<(), Error> {
        for place in std::iter::once(place).chain(depends.iter()) {
            self.stream(place.stream).wait(place.end, durability)?;
        }
        Ok(())
    }

    /// Asks that the place and all that it depends on get to `durability`, and returns at once.
    pub fn request(&self, place: StreamLsn, depends: &Dependencies, durability: Durability) {
        for place in std::iter::once(place).chain(depends.iter()) {
            self.stream(place.stream).request(place.end, durability);
        }
    }

    /// As [`ParallelLog::wait`], as a future. The request is made now.
    pub fn wait_async(
        &self,
        place: StreamLsn,
        depends: &Dependencies,
        durability: Durability,
    ) -> ParallelCompletion {
        ParallelCompletion::new(self, place, depends, durability)
    }

    // ---- all of it

    /// Everything that was appended so far and is not durable: whoever depends on this depends on all that is there (P-WAL's rule).
    ///
    /// Where a wait is over at once, because every append has persisted its record, there is nothing to depend on. What is reserved and not
    /// appended yet must not be named then: nobody has waited for it, and it may be missing after a crash.
    pub fn everything(&self) -> Dependencies {
        let place = |(index, log): (usize, &Log)| {
            let end = log.reserved();
            let waits = log.core().poll(end, Durability::Durable).is_none_or(|settled| settled.is_err());
            waits.then(|| StreamLsn { stream: StreamId::new(index as u16), end })
        };
        self.streams().iter().enumerate().filter_map(place).collect()
    }

    /// Where the next record of each stream will start; see [`Log::reserved`].
    pub fn reserved(&self) -> Vec<Lsn> {
        self.streams().iter().map(Log::reserved).collect()
    }

    /// Separates appends of each stream; see [`Log::barrier`].
    pub fn barrier(&self) -> Vec<Lsn> {
        self.streams().iter().map(Log::barrier).collect()
    }

    /// Makes everything appended before this call durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn sync(&self) -> Result<(), Error> {
        let ends = self.reserved();
        // All but the first are under way while this thread sees to that.
        for (log, end) in self.streams().iter().zip(&ends).skip(1) {
            log.request(*end, Durability::Durable);
        }
        self.streams().iter().zip(&ends).try_for_each(|(log, end)| log.wait(*end, Durability::Durable))
    }

    /// Drops each stream below its position in `to`; see [`Log::trim`]. A crash meanwhile leaves some trimmed and others not, so that what is
    /// read later begins at `to`, or a later cut: see [`ParallelLog::replay`].
    ///
    /// # Errors
    /// As [`Log::trim`].
    ///
    /// # Panics
    /// If `to` does not have a position for each stream.
    pub fn trim(&self, to: &[Lsn]) -> Result<(), Error> {
        assert_eq!(to.len(), self.streams().len(), "a position for each stream");
        self.streams().iter().zip(to).try_for_each(|(log, to)| log.trim(*to))
    }

    /// Does what background threads would have done by now, on a log that was opened without them; otherwise nothing.
    #[doc(hidden)]
    pub fn run_background(&self) {
        self.streams().iter().for_each(Log::run_background);
    }

    /// Closes every stream, and gives the directory back; see [`Log::close`]. A second call waits for the first and has its outcome.
    ///
    /// # Errors
    /// The first stream's that could not be made durable; the others are closed all the same.
    pub fn close(&self) -> Result<(), Error> {
        if self.shared.gate.is_inside() {
            return Err(closing::from_inside(&self.shared.directory).into());
        }
        self.shared.closing.once(|lock| {
            let mut outcome = Ok(());
            for log in self.streams() {
                outcome = outcome.and(log.close());
            }
            self.shared.gate.close(lock);
            outcome
        })
    }

    /// The first failure of any stream, after which nothing is acknowledged any more.
    pub fn poisoned(&self) -> Option<Error> {
        let failed = self.shared.gate.failure().map(|cause| Error::Poisoned { cause: cause.into_first() });
        failed.or_else(|| self.streams().iter().find_map(Log::poisoned))
    }

    /// Device calls that took too long; see [`Log::device_stalls`].
    pub fn device_stalls(&self) -> device::Stalls {
        self.shared.watch.stalls()
    }

    /// What the streams have done so far, together; of `depth` the largest.
    pub fn counters(&self) -> Counters {
        self.streams().iter().fold(Counters::default(), |sum, log| sum.plus(&log.counters()))
    }

    /// What the streams' space is used for, together.
    pub fn space(&self) -> Space {
        let none = Space { live: 0, prepared: 0, reserve: 0, on_disk: 0 };
        self.streams().iter().map(Log::space).fold(none, |sum, space| Space {
            live: sum.live + space.live,
            prepared: sum.prepared + space.prepared,
            reserve: sum.reserve + space.reserve,
            on_disk: sum.on_disk + space.on_disk,
        })
    }
}

impl fmt::Debug for ParallelLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelLog")
            .field("directory", &self.shared.directory)
            .field("streams", &self.streams())
            .finish_non_exhaustive()
    }
}
