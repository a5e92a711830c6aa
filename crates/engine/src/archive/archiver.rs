//! The archiver, which gives a program the finished stretches of the log. The database keeps that
//! log until the program acknowledges the stretches.
//!
//! The program's thread runs this code. For each stretch the thread first reads durable log, and
//! then the engine's number of pages and next table number. So these two numbers cover the records
//! of the stretch.
//!
//! The memory engine's log has several streams. If the archiver chose the end of each stream
//! separately, the log up to these ends might be a log that no crash leaves. So the memory engine's
//! archiver works in rounds. A round first takes a stamp below which no record can be appended any
//! more (the horizon), then a cut of all streams ([`Log::cut`](katydid_wal::Log::cut)). The
//! archiver then returns the log below the cut in stretches, each with a part of every stream. The
//! head of the round's last stretch says that the stretch ends at a cut, and names the stamp up to
//! which the cut has every commit. This stamp is below the horizon. It is also at most the greatest
//! archived stamp: the clock of a restored database continues from the greatest stamp in its log,
//! and gives the stamps above it to new commits.

use super::format::{Head, STRETCH_BYTES, StreamPart, StreamsHead, StretchHead, sum_of, table_of};
use super::mark::{self, ArchiveMark};
use crate::database::Database;
use crate::engine::Engine;
use crate::error::{ArchiveFault, Error, Result};
use crate::limits::ARCHIVER_PREFIX;
use crate::open::Chosen;
use crate::opening::Call;
use crate::pause::{self, PausePoint};
use crate::{CommitStamp, EngineKind, Lsn};
use katydid_kernels::record::PHYSICAL_BYTES_MAX;
use katydid_wal::{self as wal, Consumer, Follower, ReadError, RecordMark, Stretch};
use std::fmt;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::SystemTime;

/// A finished stretch of the log: whole records, all of them durable.
#[derive(Debug, Clone)]
pub struct LogStretch {
    pub(super) at: StretchHead,
    pub(super) bytes: Vec<u8>,
}

impl LogStretch {
    /// The first position of the stretch, which is the end of the preceding stretch. In the memory
    /// engine a position is the sum of the positions in all streams.
    pub fn from(&self) -> Lsn {
        self.at.head.from
    }

    /// The exclusive end of the stretch.
    pub fn to(&self) -> Lsn {
        self.at.head.to
    }

    /// A moment when the whole stretch was durable, by the clock of the machine that archives.
    pub fn moment(&self) -> SystemTime {
        self.at.head.time()
    }

    /// The name of the stretch's file in an archive. Names sort by position. A directory of such
    /// files is an archive.
    pub fn file_name(&self) -> String {
        self.at.head.file_name()
    }

    /// The contents of the stretch's file, with checksums.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.at.encode()[..], &self.bytes].concat()
    }

    /// Decodes the bytes that [`LogStretch::to_bytes`] has made.
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::Corrupt`] if the bytes are no stretch, and with
    /// [`ArchiveFault::NewerVersion`] if a newer version has made them.
    pub fn from_bytes(bytes: &[u8]) -> Result<LogStretch> {
        let (at, rest) = mark::decode(bytes, bytes.len().saturating_sub(super::format::HEAD) as u64)?;
        let log = rest.get(at.head.table_bytes()..).unwrap_or_default();
        if log.len() as u64 != at.head.bytes() || sum_of(log) != at.head.sum {
            let finding = "the checksum of its bytes does not match".to_owned();
            let fault = ArchiveFault::Corrupt { file: at.head.file_name(), at: at.head.from, finding };
            return Err(Error::Archive { place: "an archived stretch".to_owned(), fault: Box::new(fault) });
        }
        Ok(LogStretch { bytes: log.to_vec(), at })
    }

    /// The mark of an archive that ends with this stretch.
    pub fn mark(&self) -> ArchiveMark {
        ArchiveMark(self.at.clone())
    }
}

/// Reads the durable log of a database in stretches. The database keeps the log until the program
/// acknowledges the stretches. Made by [`Database::log_archiver`].
///
/// Dropping a `LogArchiver` does not end the archiving: until [`Database::remove_log_archiver`],
/// the database keeps the log from the last acknowledgement on.
pub struct LogArchiver {
    of: Chosen,
    consumer: Consumer,
    /// In each stream, the end of the log that was returned to the program.
    at: Vec<Lsn>,
    /// In each stream, the last record that was returned to the program.
    last: Vec<Option<RecordMark>>,
    /// The latest moment so far, in milliseconds since 1970. `now` returns no earlier moment.
    moment: u64,
    /// Memory engine: the greatest stamp of a record that was returned to the program.
    greatest: CommitStamp,
    /// Memory engine: the round whose stretches are being returned.
    round: Option<Round>,
}

/// A round of the memory engine's archiver: a horizon and a cut (see the head of this file).
#[derive(Debug, Clone)]
struct Round {
    /// All records with a stamp below `horizon` lie below `ends`.
    horizon: CommitStamp,
    ends: Vec<Lsn>,
    moment: u64,
}

impl Database {
    /// Returns the archiver of this name. A new archiver begins at the start of the log. An
    /// existing archiver continues after its last acknowledgement, in this opening and in later
    /// ones.
    ///
    /// The database keeps the log for an archiver that is at most `bytes_max` bytes behind the end
    /// of the log. Writers and checkpoints never wait for an archiver. An archiver that is farther
    /// behind when a checkpoint trims the log has a gap, and its calls return an error.
    ///
    /// The log of the memory engine has several streams, and one archiver reads all of them. The
    /// archiver reads up to a cut through all streams, and waits for one sync at each cut.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let database = katydid::Database::open(folder.path())?;
    /// let fruit = database.table("fruit")?;
    /// let mut archiver = database.log_archiver("s3", 1 << 30)?;
    /// database.put(&fruit, "apple", "red")?;
    /// let mut kept = std::collections::BTreeMap::new();
    /// while let Some(stretch) = archiver.try_next()? {
    ///     kept.insert(stretch.file_name(), stretch.to_bytes());
    ///     // The stretch is stored:
    ///     archiver.acknowledge()?;
    /// }
    /// assert!(!kept.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::LogTrimmed`] if the archiver has a gap (after
    /// [`Database::remove_log_archiver`], a new archiver of this name begins after the gap);
    /// [`Error::Archive`] if the log is in NVRAM; [`Error::Log`] if the name is not 1 to 56
    /// lower-case letters, digits, `-` and `_`; [`Error::ReadOnly`] if the database was opened for
    /// reading only; [`Error::Closed`]; failures of the device.
    pub fn log_archiver(&self, name: &str, bytes_max: u64) -> Result<LogArchiver> {
        self.check_access()?;
        LogArchiver::open(&self.of, name, bytes_max, None)
    }

    /// Returns the archiver of this name, positioned at the end of an archive. Everything before
    /// that end is acknowledged. See [`Database::log_archiver`].
    ///
    /// # Errors
    /// Those of [`Database::log_archiver`]; [`Error::Archive`] with [`ArchiveFault::OtherDatabase`]
    /// or [`ArchiveFault::OtherHistory`] if the archive is of another log.
    pub fn log_archiver_after(
        &self,
        name: &str,
        bytes_max: u64,
        archive: &ArchiveMark,
    ) -> Result<LogArchiver> {
        self.check_access()?;
        let (found, wanted) = (archive.0.head.database, self.of.id());
        if found != wanted {
            let fault = ArchiveFault::OtherDatabase { file: archive.0.head.file_name(), found, wanted };
            return Err(Error::Archive { place: self.of.place().to_owned(), fault: Box::new(fault) });
        }
        LogArchiver::open(&self.of, name, bytes_max, Some(&archive.0))
    }

    /// Removes the archiver of this name, and returns whether there was one. The removal is durable
    /// when this returns. The next checkpoint trims the log that was kept for the archiver.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the database was opened for reading only; [`Error::Closed`]; failures
    /// of the device.
    pub fn remove_log_archiver(&self, name: &str) -> Result<bool> {
        self.remove_consumer(&format!("{ARCHIVER_PREFIX}{name}"))
    }
}

impl LogArchiver {
    /// Opens the archiver after `archived`, the last stretch of an archive. With `None` the
    /// archiver continues after the last acknowledgement under this name, or begins at the start of
    /// the log if there was none.
    pub(super) fn open(
        of: &Chosen,
        name: &str,
        bytes_max: u64,
        archived: Option<&StretchHead>,
    ) -> Result<Self> {
        if name.is_empty() {
            return Err(wal::Error::ConsumerName { name: name.to_owned() }.into());
        }
        let call = Call::enter(of)?;
        call.archive_facts()?;
        let (log, name) = (call.log(), format!("{ARCHIVER_PREFIX}{name}"));
        let has_streams = call.options().engine.kind() == EngineKind::Memory;
        // This pin prevents a trim until the consumer exists.
        let pin = log.pin_all(u64::MAX);
        let known = log.consumers().into_iter().find(|consumer| consumer.name == name);
        let fault = |fault| Error::Archive { place: call.place().to_owned(), fault: Box::new(fault) };
        let gap = |archived_to, log_start| fault(ArchiveFault::LogTrimmed { archived_to, log_start });
        let (at, keep) = match (archived, &known) {
            (Some(StretchHead { head, parts }), _) => {
                if parts.len() != log.streams().len() || head.streams.is_some() != has_streams {
                    let at = parts.first().map_or(Lsn::ZERO, |part| part.to);
                    return Err(fault(ArchiveFault::OtherHistory { at }));
                }
                let mut keep = Vec::with_capacity(parts.len());
                for (stream, part) in log.streams().iter().zip(parts) {
                    let from = kept_from(stream, part).map_err(|why| match why {
                        ResumeFailure::OtherHistory { at } => fault(ArchiveFault::OtherHistory { at }),
                        ResumeFailure::Trimmed => gap(part.to, stream.start()),
                        ResumeFailure::Failed(error) => error.into(),
                    })?;
                    keep.push(if has_streams { part.to } else { from });
                }
                (parts.iter().map(|part| part.to).collect(), keep)
            }
            // In the paged engine the consumer's position is the LSN of the last archived record.
            // The consumer's mark is the end of that record, at which archiving continues.
            (None, Some(known)) if !has_streams => (vec![Lsn::new(known.mark)], known.from.clone()),
            (None, Some(known)) => (known.from.clone(), known.from.clone()),
            (None, None) => (pin.from().to_vec(), pin.from().to_vec()),
        };
        for (stream, at) in log.streams().iter().zip(&at) {
            if *at < stream.start() {
                return Err(gap(*at, stream.start()));
            }
        }
        let mark = position_of(&at)?.get();
        let is_acknowledged = known.as_ref().is_some_and(|known| !known.is_lost && known.mark == mark);
        let consumer = match known {
            // The log now starts above this consumer's position, but the archive has the part that
            // was trimmed.
            Some(known) if known.is_lost => {
                log.remove_consumer(&name)?;
                log.consumer(&name, bytes_max, mark, &keep)?
            }
            _ => log.consumer(&name, bytes_max, mark, &keep)?,
        };
        let last = match archived {
            Some(archived) => archived.parts.iter().map(|part| part.last).collect(),
            None => vec![None; at.len()],
        };
        let moment = archived.map_or(0, |archived| archived.head.moment);
        let greatest = archived.and_then(|archived| archived.head.streams).map(|streams| streams.greatest);
        let greatest = greatest.unwrap_or(CommitStamp::new(0));
        let archiver = LogArchiver { of: of.clone(), consumer, at, last, moment, greatest, round: None };
        drop(pin);
        drop(call);
        if archived.is_some() && !is_acknowledged {
            archiver.acknowledge_at()?;
        }
        Ok(archiver)
    }

    /// The end of the last stretch that was returned. In the memory engine it is the sum of the
    /// positions in all streams.
    pub fn position(&self) -> Lsn {
        Lsn::new(self.at.iter().map(|at| at.get()).fold(0, u64::saturating_add))
    }

    /// Bytes of durable log after the last stretch that was returned.
    pub fn left(&self) -> u64 {
        let streams = self.of.log().streams().iter().zip(&self.at);
        streams.map(|(stream, at)| stream.durable().since(*at)).sum()
    }

    /// Returns the next stretch, of at most 4 MiB, if more log is durable. Does not block, except
    /// for a sync in the memory engine.
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::LogTrimmed`] if the archiver was too far behind;
    /// [`Error::Log`] if the log is damaged; [`Error::Closed`]; failures of the device. After an
    /// error the archiver's position is unchanged.
    pub fn try_next(&mut self) -> Result<Option<LogStretch>> {
        self.begin_round()?;
        let call = Call::enter(&self.of)?;
        let (mut parts, mut bytes) = (Vec::with_capacity(self.at.len()), Vec::new());
        let mut greatest = self.greatest;
        for (nth, stream) in call.log().streams().iter().enumerate() {
            let (from, last) = (self.at[nth], self.last[nth]);
            let until = self.round.as_ref().map_or(Lsn::LIMIT, |round| round.ends[nth]);
            let room = STRETCH_BYTES - bytes.len();
            // If the stretch has room for fewer than `PHYSICAL_BYTES_MAX` bytes, the next record
            // might not fit, so this stream adds nothing to the stretch.
            let stretch = match room < PHYSICAL_BYTES_MAX {
                true => None,
                false => stream
                    .stretch_until(from, until, room)
                    .map_err(|error| archive_error(error, from, call.place()))?,
            };
            match stretch {
                Some(Stretch { to, last, stamp_max, bytes: more, .. }) => {
                    greatest = greatest.max(stamp_max);
                    parts.push(StreamPart { from, to, last: Some(last) });
                    // The bytes of the first stream are moved, not copied.
                    if bytes.is_empty() { bytes = more } else { bytes.extend_from_slice(&more) }
                }
                None => parts.push(StreamPart { from, to: from, last }),
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let facts = call.archive_facts()?;
        drop(call);
        self.greatest = greatest;
        self.give(parts, bytes, facts).map(Some)
    }

    /// Memory engine: takes a new cut if all log below the last cut was returned to the program.
    /// Paged engine: does nothing.
    fn begin_round(&mut self) -> Result<()> {
        let is_given = self.round.as_ref().is_none_or(|round| round.ends == self.at);
        if !is_given {
            return Ok(());
        }
        let call = Call::enter(&self.of)?;
        // The horizon is taken before the cut, so that all records below the horizon lie below the
        // cut.
        let Some(horizon) = call.archive_horizon()? else { return Ok(()) };
        let ends = call.log().cut()?;
        pause::at(PausePoint::Cut);
        drop(call);
        let moment = self.now();
        self.round = Some(Round { horizon, ends, moment });
        Ok(())
    }

    /// Makes a stretch of these bytes and advances the archiver past it.
    fn give(
        &mut self,
        parts: Vec<StreamPart>,
        bytes: Vec<u8>,
        (pages, next_table): (u64, u32),
    ) -> Result<LogStretch> {
        let (from, to): (Vec<Lsn>, Vec<Lsn>) = parts.iter().map(|part| (part.from, part.to)).unzip();
        let database = self.of.id();
        let head = |last, streams, moment| {
            let (from, to) = (position_of(&from)?, position_of(&to)?);
            Ok::<_, Error>(Head {
                database,
                from,
                to,
                moment,
                pages,
                next_table,
                sum: sum_of(&bytes),
                last,
                streams,
            })
        };
        let head = match (&self.round, parts[0].last) {
            (Some(Round { horizon, ends, moment }), _) => {
                let (count, greatest, is_cut) = (parts.len() as u16, self.greatest, *ends == to);
                let below = CommitStamp::new(horizon.get().saturating_sub(1));
                let complete_to = if is_cut { below.min(greatest) } else { CommitStamp::new(0) };
                let last = RecordMark { lsn: Lsn::ZERO, sum: sum_of(&table_of(&parts)) };
                head(last, Some(StreamsHead { count, is_cut, complete_to, greatest }), *moment)?
            }
            (None, last) => {
                let moment = self.now();
                head(last.ok_or(Error::Internal("a stretch without a record"))?, None, moment)?
            }
        };
        self.last = parts.iter().map(|part| part.last).collect();
        self.at = to;
        Ok(LogStretch { at: StretchHead { head, parts }, bytes })
    }

    /// Returns the next stretch; blocks until there is one.
    ///
    /// # Errors
    /// Those of [`LogArchiver::try_next`]. [`Error::Closed`] if the database was closed,
    /// [`Error::Poisoned`] if it has failed.
    #[expect(clippy::should_implement_trait, reason = "a log has no end at which an iterator would stop")]
    pub fn next(&mut self) -> Result<LogStretch> {
        loop {
            if let Some(stretch) = self.try_next()? {
                return Ok(stretch);
            }
            self.wait()?;
        }
    }

    /// Blocks until log after the last returned stretch is durable.
    ///
    /// # Errors
    /// [`Error::Closed`] if the database was closed, [`Error::Poisoned`] if it has failed.
    pub fn wait(&self) -> Result<()> {
        let log = self.of.log().clone();
        let followers = {
            let call = Call::enter(&self.of)?;
            let streams = call.log().streams().iter().zip(&self.at);
            streams.map(|(stream, at)| stream.follow(*at)).collect::<std::result::Result<Vec<Follower>, _>>()
        };
        match followers {
            Ok(mut followers) => Ok(log.block_on(|context| {
                let mut ended = None;
                for follower in &mut followers {
                    match follower.poll_more(context) {
                        Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                        Poll::Ready(Err(error)) => ended = Some(error),
                        Poll::Pending => {}
                    }
                }
                ended.map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
            })?),
            // The next call of `try_next` returns this error as `ArchiveFault::LogTrimmed`.
            Err(wal::Error::Read(ReadError::Trimmed { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Acknowledges every stretch that was returned: the program has stored them safely, and the
    /// database need not keep that log. The call makes one durable write: the acknowledgement is
    /// durable when the call returns.
    ///
    /// # Errors
    /// [`Error::Archive`] if the archiver was too far behind and the log was trimmed;
    /// [`Error::Closed`]; failures of the device.
    pub fn acknowledge(&mut self) -> Result<()> {
        self.acknowledge_at()
    }

    fn acknowledge_at(&self) -> Result<()> {
        let call = Call::enter(&self.of)?;
        let keep = match (call.options().engine.kind(), self.last.first().copied().flatten()) {
            (EngineKind::Paged, Some(last)) => vec![last.lsn.max(call.log().first().start())],
            _ => self.at.clone(),
        };
        let mark = position_of(&self.at)?.get();
        self.consumer.acknowledge(mark, &keep).map_err(|error| match error {
            wal::Error::Read(ReadError::Trimmed { at, .. }) => archive_error(error, at, call.place()),
            error => error.into(),
        })
    }

    /// Calls `give` with each finished stretch, and acknowledges the stretch when `give` returns
    /// `Ok`. Blocks while no more log is durable. Ends when `give` breaks or fails. This is for
    /// programs that store archives in their own way.
    ///
    /// # Errors
    /// The error of `give`, after which the next archiver of this name returns that stretch again.
    /// The errors of [`LogArchiver::next`] and [`LogArchiver::acknowledge`].
    pub fn run<E: From<Error>>(
        &mut self,
        mut give: impl FnMut(&LogStretch) -> std::result::Result<ControlFlow<()>, E>,
    ) -> std::result::Result<(), E> {
        loop {
            let stretch = self.next()?;
            let flow = give(&stretch)?;
            self.acknowledge()?;
            if flow.is_break() {
                return Ok(());
            }
        }
    }

    /// Returns a stretch of no bytes, which notes that the log is archived up to this moment.
    /// Returns `None` if more log is durable, or if no stretch was returned yet. If the note is in
    /// the archive, a database can be restored to a time up to this moment.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Poisoned`] if the database has failed; failures of the device.
    pub fn note(&mut self) -> Result<Option<LogStretch>> {
        if self.last.iter().all(Option::is_none) {
            return Ok(None);
        }
        self.begin_round()?;
        let call = Call::enter(&self.of)?;
        let mut streams = call.log().streams().iter().zip(&self.at);
        let is_given = match &self.round {
            Some(round) => round.ends == self.at,
            None => streams.all(|(stream, at)| stream.durable() <= *at),
        };
        if !is_given {
            return Ok(None);
        }
        let facts = call.archive_facts()?;
        drop(call);
        let parts =
            self.at.iter().zip(&self.last).map(|(at, last)| StreamPart { from: *at, to: *at, last: *last });
        self.give(parts.collect(), Vec::new(), facts).map(Some)
    }

    /// The clock in milliseconds since 1970, which never goes back. The caller has read the durable
    /// position before this call.
    fn now(&mut self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.moment = self.moment.max(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        self.moment
    }
}

/// The position of an archive: the sum of the positions in all streams.
fn position_of(positions: &[Lsn]) -> Result<Lsn> {
    let sum: u128 = positions.iter().map(|at| u128::from(at.get())).sum();
    match u64::try_from(sum).map(Lsn::new) {
        Ok(position) if position <= Lsn::LIMIT => Ok(position),
        _ => Err(Error::Internal("the sum of the positions of all streams is above the greatest LSN")),
    }
}

fn archive_error(error: wal::Error, archived_to: Lsn, place: &str) -> Error {
    match error {
        wal::Error::Read(ReadError::Trimmed { start, .. }) => Error::Archive {
            place: place.to_owned(),
            fault: Box::new(ArchiveFault::LogTrimmed { archived_to, log_start: start }),
        },
        error => error.into(),
    }
}

/// Reason why an archive cannot continue.
enum ResumeFailure {
    OtherHistory { at: Lsn },
    Trimmed,
    Failed(wal::Error),
}

/// Returns the position from which a stream's log is kept for an archive that ends with `part`.
/// This is the LSN of the part's last record. If the part names no last record, or the log no
/// longer has that record, it is the end of the part.
fn kept_from(stream: &wal::Stream, part: &StreamPart) -> std::result::Result<Lsn, ResumeFailure> {
    let Some(last) = part.last else {
        return match (part.to <= stream.durable(), part.to >= stream.start()) {
            (false, _) => Err(ResumeFailure::OtherHistory { at: part.to }),
            (true, false) => Err(ResumeFailure::Trimmed),
            (true, true) => Ok(part.to),
        };
    };
    match stream.has_record(last) {
        Ok(true) if part.to <= stream.durable() => Ok(last.lsn),
        Ok(_) => Err(ResumeFailure::OtherHistory { at: last.lsn }),
        // The log starts above the last archived record, but still has everything after the
        // archive's end.
        Err(wal::Error::Read(ReadError::Trimmed { start, .. })) if part.to >= start => {
            match part.to <= stream.durable() {
                true => Ok(part.to),
                false => Err(ResumeFailure::OtherHistory { at: last.lsn }),
            }
        }
        Err(wal::Error::Read(ReadError::Trimmed { .. })) => Err(ResumeFailure::Trimmed),
        Err(error) => Err(ResumeFailure::Failed(error)),
    }
}

impl fmt::Debug for LogArchiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogArchiver")
            .field("name", &self.consumer.name())
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
