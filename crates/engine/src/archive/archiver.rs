//! Giving a program the finished stretches of the log, and keeping them until it has them.
//!
//! On the thread of the program. A step reads what is durable, and only then what the engine says of it (pages, numbers of tables), so that both cover the
//! records of the stretch.

use super::format::{HEAD, Head, STRETCH_BYTES, sum_of};
use super::mark::{self, ArchiveMark};
use crate::Lsn;
use crate::database::Database;
use crate::engine::Engine;
use crate::error::{ArchiveFault, Error, Result};
use crate::limits::ARCHIVER_PREFIX;
use crate::open::Chosen;
use crate::opening::Call;
use katydid_wal::{self as wal, Consumer, ReadError, RecordMark, Stretch};
use std::fmt;
use std::ops::ControlFlow;
use std::time::SystemTime;

/// A finished stretch of the log: whole records, all of them durable.
#[derive(Debug, Clone)]
pub struct LogStretch {
    pub(super) head: Head,
    pub(super) bytes: Vec<u8>,
}

impl LogStretch {
    /// The first position in it: the end of the stretch before.
    pub fn from(&self) -> Lsn {
        self.head.from
    }

    /// Its exclusive end.
    pub fn to(&self) -> Lsn {
        self.head.to
    }

    /// A moment when all of it was durable, by the clock of the machine that archives.
    pub fn moment(&self) -> SystemTime {
        self.head.time()
    }

    /// The name of a file of it, which sorts by its position. A directory of such files is an archive.
    pub fn file_name(&self) -> String {
        self.head.file_name()
    }

    /// The content of a file of it, with checksums.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.head.encode()[..], &self.bytes].concat()
    }

    /// Reads what [`LogStretch::to_bytes`] has made.
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::Corrupt`] of other bytes, with [`ArchiveFault::NewerVersion`] of those of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<LogStretch> {
        let rest = bytes.get(HEAD..).unwrap_or_default();
        let head = mark::decode(bytes, rest.len() as u64)?;
        if rest.len() as u64 != head.bytes() || sum_of(rest) != head.sum {
            let finding = "the checksum of its bytes does not match".to_owned();
            let fault = ArchiveFault::Corrupt { file: head.file_name(), at: head.from, finding };
            return Err(Error::Archive { place: "an archived stretch".to_owned(), fault: Box::new(fault) });
        }
        Ok(LogStretch { head, bytes: rest.to_vec() })
    }

    /// The end of an archive whose last stretch this is.
    pub fn mark(&self) -> ArchiveMark {
        ArchiveMark(self.head)
    }
}

/// Gives the log of a database in stretches, and keeps it until they are acknowledged. Made by [`Database::log_archiver`].
///
/// Dropping it changes nothing: the log is kept from the last acknowledgement on until [`Database::remove_log_archiver`].
pub struct LogArchiver {
    of: Chosen,
    consumer: Consumer,
    /// The end of the last stretch that was given, and the last record in it.
    at: Lsn,
    last: Option<RecordMark>,
    /// Milliseconds since 1970; never less than that of a stretch before.
    moment: u64,
}

impl Database {
    /// The archiver of this name; a new one, which begins at the start of the log, if there is none. It goes on where it acknowledged last, in this opening
    /// and in later ones. The log is kept for it as long as it is at most `bytes_max` bytes of log behind: writers and checkpoints never wait for it. One
    /// that is farther behind when a checkpoint trims the log has a gap, which is an error and never left out in silence.
    ///
    /// Only the paged engine has archivers.
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
    ///     // It is safe there:
    ///     archiver.acknowledge()?;
    /// }
    /// assert!(!kept.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::LogTrimmed`] if the archiver has a gap ([`Database::remove_log_archiver`] forgets it, and a new one begins
    /// after the gap), of the memory engine, or of a log in NVRAM; [`Error::Log`] if the name has other than 1 to 56 lower-case letters, digits, `-` and `_`;
    /// failures of the device.
    pub fn log_archiver(&self, name: &str, bytes_max: u64) -> Result<LogArchiver> {
        self.check_access()?;
        LogArchiver::open(&self.of, name, bytes_max, None)
    }

    /// The archiver of this name, which goes on where an archive ends. What the archive has is acknowledged. See [`Database::log_archiver`].
    ///
    /// # Errors
    /// Those of [`Database::log_archiver`]; [`Error::Archive`] with [`ArchiveFault::OtherDatabase`] or [`ArchiveFault::OtherHistory`] if the archive is
    /// of another log.
    pub fn log_archiver_after(
        &self,
        name: &str,
        bytes_max: u64,
        archive: &ArchiveMark,
    ) -> Result<LogArchiver> {
        self.check_access()?;
        let (found, wanted) = (archive.0.database, self.of.id());
        if found != wanted {
            let fault = ArchiveFault::OtherDatabase { file: archive.0.file_name(), found, wanted };
            return Err(Error::Archive { place: self.of.place().to_owned(), fault: Box::new(fault) });
        }
        LogArchiver::open(&self.of, name, bytes_max, Some(&archive.0))
    }

    /// Forgets the archiver of this name; whether there was one. Durable when this returns. What the log has kept for it goes with the next checkpoint.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn remove_log_archiver(&self, name: &str) -> Result<bool> {
        self.remove_consumer(&format!("{ARCHIVER_PREFIX}{name}"))
    }
}

impl LogArchiver {
    /// Goes on after `archived`, the last stretch that an archive has; without, where the archiver of this name was.
    pub(super) fn open(of: &Chosen, name: &str, bytes_max: u64, archived: Option<&Head>) -> Result<Self> {
        if name.is_empty() {
            return Err(wal::Error::ConsumerName { name: name.to_owned() }.into());
        }
        let call = Call::enter(of)?;
        call.archive_facts()?;
        let (log, name) = (call.log(), format!("{ARCHIVER_PREFIX}{name}"));
        let stream = log.first();
        // Until the consumer is there nothing is trimmed.
        let pin = log.pin_all(u64::MAX);
        let known = log.consumers().into_iter().find(|consumer| consumer.name == name);
        let fault = |fault| Error::Archive { place: call.place().to_owned(), fault: Box::new(fault) };
        let gap = |archived_to| {
            let log_start = stream.start();
            fault(ArchiveFault::LogTrimmed { archived_to, log_start })
        };
        let (at, keep) = match (archived, &known) {
            (Some(head), _) => (head.to, kept_from(stream, head).map_err(|is| told(is, head, &fault, &gap))?),
            // The consumer keeps the last record, so archiving goes on behind that.
            (None, Some(known)) => (Lsn::new(known.mark), known.from[0]),
            (None, None) => (pin.from()[0], pin.from()[0]),
        };
        if at < stream.start() {
            return Err(gap(at));
        }
        let is_acknowledged = known.as_ref().is_some_and(|known| !known.is_lost && known.mark == at.get());
        let consumer = match known {
            // What was lost for it was found to be in the archive.
            Some(known) if known.is_lost => {
                log.remove_consumer(&name)?;
                log.consumer(&name, bytes_max, at.get(), &[keep])?
            }
            _ => log.consumer(&name, bytes_max, at.get(), &[keep])?,
        };
        let last = archived.map(|head| head.last);
        let moment = archived.map_or(0, |head| head.moment);
        let archiver = LogArchiver { of: of.clone(), consumer, at, last, moment };
        drop(pin);
        drop(call);
        if archived.is_some() && !is_acknowledged {
            archiver.acknowledge_at()?;
        }
        Ok(archiver)
    }

    /// The end of the last stretch that was given.
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// Bytes of durable log that were not given yet.
    pub fn left(&self) -> u64 {
        self.of.log().first().durable().since(self.at)
    }

    /// The next stretch of at most 4 MiB, if more is durable. Does not wait.
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::LogTrimmed`] if the archiver was too far behind; [`Error::Log`] if the log is damaged; [`Error::Closed`];
    /// failures of the device. The archiver stays where it is.
    pub fn try_next(&mut self) -> Result<Option<LogStretch>> {
        let call = Call::enter(&self.of)?;
        let stream = call.log().first();
        let stretch = stream.stretch(self.at, STRETCH_BYTES).map_err(|error| match error {
            wal::Error::Read(ReadError::Trimmed { start, .. }) => Error::Archive {
                place: call.place().to_owned(),
                fault: Box::new(ArchiveFault::LogTrimmed { archived_to: self.at, log_start: start }),
            },
            error => error.into(),
        })?;
        let Some(Stretch { from, to, last, bytes, .. }) = stretch else { return Ok(None) };
        let (pages, next_table) = call.archive_facts()?;
        let database = call.id();
        drop(call);
        let moment = self.now();
        let sum = sum_of(&bytes);
        (self.at, self.last) = (to, Some(last));
        let head = Head { database, from, to, moment, pages, next_table, sum, last };
        Ok(Some(LogStretch { head, bytes }))
    }

    /// The next stretch; blocks until more is durable.
    ///
    /// # Errors
    /// Those of [`LogArchiver::try_next`]. [`Error::Closed`] if the database was closed, [`Error::Poisoned`] if it has failed.
    #[expect(clippy::should_implement_trait, reason = "a log has no end at which an iterator would stop")]
    pub fn next(&mut self) -> Result<LogStretch> {
        loop {
            if let Some(stretch) = self.try_next()? {
                return Ok(stretch);
            }
            self.wait()?;
        }
    }

    /// Blocks until more is durable than was given.
    ///
    /// # Errors
    /// [`Error::Closed`] if the database was closed, [`Error::Poisoned`] if it has failed.
    pub fn wait(&self) -> Result<()> {
        let follower = {
            let call = Call::enter(&self.of)?;
            call.log().first().follow(self.at)
        };
        match follower {
            Ok(mut follower) => Ok(follower.wait()?),
            // The next call says so.
            Err(wal::Error::Read(ReadError::Trimmed { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Says that every stretch that was given is safe elsewhere, so that the log need not be kept for it. Durable when this returns. It costs one durable
    /// write.
    ///
    /// # Errors
    /// [`Error::Archive`] if the archiver was too far behind and the log was trimmed; failures of the device.
    pub fn acknowledge(&mut self) -> Result<()> {
        self.acknowledge_at()
    }

    fn acknowledge_at(&self) -> Result<()> {
        let call = Call::enter(&self.of)?;
        let keep = self.last.map_or(self.at, |last| last.lsn.max(call.log().first().start()));
        self.consumer.acknowledge(self.at.get(), &[keep]).map_err(|error| match error {
            wal::Error::Read(ReadError::Trimmed { at, start }) => Error::Archive {
                place: call.place().to_owned(),
                fault: Box::new(ArchiveFault::LogTrimmed { archived_to: at, log_start: start }),
            },
            error => error.into(),
        })
    }

    /// Gives `give` each finished stretch and acknowledges it when `give` returns, until `give` breaks or fails: a hook for programs that keep archives by
    /// means of their own. Blocks while nothing more is durable.
    ///
    /// # Errors
    /// That of `give`, whose stretch is given again by the next archiver of this name; those of [`LogArchiver::next`] and [`LogArchiver::acknowledge`].
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

    /// A stretch of no bytes, which notes that at this moment nothing was durable beyond what was given; `None` if something is, or nothing was given yet. A
    /// time up to that moment can then be restored to.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn note(&mut self) -> Result<Option<LogStretch>> {
        let Some(last) = self.last else { return Ok(None) };
        let call = Call::enter(&self.of)?;
        let (from, to) = (self.at, self.at);
        if call.log().first().durable() > to {
            return Ok(None);
        }
        let (pages, next_table) = call.archive_facts()?;
        let database = call.id();
        drop(call);
        let (moment, sum) = (self.now(), sum_of(&[]));
        let head = Head { database, from, to, moment, pages, next_table, sum, last };
        Ok(Some(LogStretch { head, bytes: Vec::new() }))
    }

    /// Called after what is durable was looked at.
    fn now(&mut self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.moment = self.moment.max(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        self.moment
    }
}

/// Why an archive cannot go on.
enum ResumeFailure {
    OtherHistory,
    Trimmed,
    Failed(wal::Error),
}

/// From where on the log is kept for an archive that ends with `head`: from its last record on, if the log still has that.
fn kept_from(stream: &wal::Stream, head: &Head) -> std::result::Result<Lsn, ResumeFailure> {
    match stream.has_record(head.last) {
        Ok(true) if head.to <= stream.durable() => Ok(head.last.lsn),
        Ok(_) => Err(ResumeFailure::OtherHistory),
        // It was acknowledged by nobody, and trimmed. The log still has what follows.
        Err(wal::Error::Read(ReadError::Trimmed { start, .. })) if head.to >= start => Ok(head.to),
        Err(wal::Error::Read(ReadError::Trimmed { .. })) => Err(ResumeFailure::Trimmed),
        Err(error) => Err(ResumeFailure::Failed(error)),
    }
}

fn told(
    why: ResumeFailure,
    head: &Head,
    fault: &dyn Fn(ArchiveFault) -> Error,
    gap: &dyn Fn(Lsn) -> Error,
) -> Error {
    match why {
        ResumeFailure::OtherHistory => fault(ArchiveFault::OtherHistory { at: head.last.lsn }),
        ResumeFailure::Trimmed => gap(head.to),
        ResumeFailure::Failed(error) => error.into(),
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
