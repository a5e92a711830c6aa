//! Errors of the log: one enum for each family of operations, and [`Error`] for calls that meet
//! several.
//!
//! Errors are plain values. The errors are `Clone`, because every waiter and every later caller
//! gets the first failure of a log.

use crate::control::FORMAT_VERSION;
use crate::medium_options::LogKind;
use crate::options::OptionsError;
use katydid_device::{self as device, Directory, Id};
use katydid_kernels::lsn::Lsn;

/// The result of a call on an open log.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call on an open log.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An earlier write or sync failed. No commit is acknowledged any more, but reads still work.
    /// Opening the log again recovers it.
    #[error("the log was shut by an earlier failure: {cause}")]
    Poisoned {
        /// The first failure.
        #[source]
        cause: device::Error,
    },
    /// The device has no room for more segments, or a log in NVRAM is full. Calls succeed again
    /// when there is room.
    #[error("the log's device has no space left")]
    NoSpace,
    /// A record or a reserve of more bytes than the format allows, or than an empty log in NVRAM
    /// has room for.
    #[error("a record or reserve of {bytes} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// Size of the record, header included, or bytes by which the reserve is raised.
        bytes: u64,
        /// Largest size.
        limit: u64,
    },
    /// The kind belongs to the log itself: users' kinds start at [`Kind::USER`](crate::Kind::USER).
    #[error("kind {kind} is reserved for the log itself")]
    ReservedKind {
        /// The refused kind.
        kind: u8,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// The log has as many open sessions as [`Options::sessions_max`](crate::Options::sessions_max)
    /// allows.
    #[error("all {limit} sessions are in use")]
    SessionsExhausted {
        /// Maximum number of open sessions.
        limit: usize,
    },
    /// The position is beyond the end of the log, or is not durable although the call needs a
    /// durable position.
    #[error("position {at} is beyond {end}, the highest position allowed here")]
    BeyondEnd {
        /// Requested position.
        at: Lsn,
        /// The frontier, which lies below the position.
        end: Lsn,
    },
    /// The call needs a log in files: a log in NVRAM has no segments that could be copied.
    #[error("a log of kind {kind} is not in files, and cannot be copied")]
    NotInFiles {
        /// The kind of the log.
        kind: LogKind,
    },
    /// The log cannot be truncated: only a log in files with one stream can.
    #[error(
        "a log of kind {kind} with {streams} streams cannot be truncated: only one in files with one stream can"
    )]
    NotTruncatable {
        /// The kind of the log.
        kind: LogKind,
        /// Number of streams of the log.
        streams: usize,
    },
    /// The name of a consumer must have 1 to 64 lower-case letters, digits, `-` and `_`.
    #[error("a consumer cannot be called {name:?}: 1 to 64 lower-case letters, digits, - and _ are allowed")]
    ConsumerName {
        /// The refused name.
        name: String,
    },
    /// The consumer was removed.
    #[error("consumer {name} was removed")]
    ConsumerGone {
        /// The consumer's name.
        name: String,
    },
    /// A device call failed on which no commit waited. After a failed write or sync the log is
    /// shut, and later calls return [`Error::Poisoned`].
    #[error(transparent)]
    Device(device::Error),
    /// Reading the log failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The reason why a record was not appended. No reader returns any part of the record.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// No prepared space is left for this record. Try again when the device has room or the log was
    /// trimmed. A log ends at [`Lsn::LIMIT`](crate::Lsn::LIMIT), where trying again always fails.
    #[error("the log has no prepared space left")]
    NoSpace,
    /// The record is larger than the format allows, or than an empty log in NVRAM has room for. For
    /// a record that is not critical, the reserve does not count as room.
    #[error("a record of {bytes} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// Size of the record, header included.
        bytes: u64,
        /// Largest size.
        limit: u64,
    },
    /// The kind belongs to the log itself: users' kinds start at [`Kind::USER`](crate::Kind::USER).
    #[error("kind {kind} is reserved for the log itself")]
    ReservedKind {
        /// The refused kind.
        kind: u8,
    },
    /// An earlier write or sync failed.
    #[error("the log was shut by an earlier failure: {cause}")]
    Poisoned {
        /// The first failure.
        #[source]
        cause: device::Error,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
}

impl From<device::Error> for Error {
    /// Converts a refusal by the gate to the reason for which the gate is shut.
    fn from(error: device::Error) -> Self {
        match error.cause {
            device::Cause::Closed => Error::Closed,
            device::Cause::Poisoned(_) => Error::Poisoned { cause: error.into_first() },
            _ => Error::Device(error),
        }
    }
}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::NoSpace => Error::NoSpace,
            AppendError::TooLarge { bytes, limit } => Error::TooLarge { bytes, limit },
            AppendError::ReservedKind { kind } => Error::ReservedKind { kind },
            AppendError::Closed => Error::Closed,
            AppendError::Poisoned { cause } => Error::Poisoned { cause },
        }
    }
}

/// The reason why a log could not be opened. Nothing was changed, unless the variant says so.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An option is out of range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A device call failed, perhaps after the opening had changed files. The log itself may be
    /// sound, and opening it again is safe.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// There are segments without a control file.
    #[error("the log has segments (such as {segment}) but no control file {file}")]
    MissingControl {
        /// The missing file.
        file: String,
        /// A segment that exists.
        segment: String,
    },
    /// A control file, or the file of a consumer, is damaged.
    #[error("the control file {file} is corrupt: {reason}")]
    CorruptControl {
        /// The damaged file.
        file: String,
        /// The fault.
        reason: &'static str,
    },
    /// A file of the log is of another version of the format, older or newer.
    #[error(
        "the log has format version {found}; this program reads version {supported} ({file} in {directory})"
    )]
    OtherVersion {
        /// The directory of the log.
        directory: String,
        /// The file.
        file: String,
        /// The version of the file.
        found: u32,
        /// The version that this program reads: [`FORMAT_VERSION`](crate::FORMAT_VERSION), or 3 for
        /// the region of a log in NVRAM.
        supported: u32,
    },
    /// A segment belongs to another log.
    #[error("segment {file} belongs to log {found}, not to {expected}")]
    ForeignSegment {
        /// The segment.
        file: String,
        /// This log's id.
        expected: Id,
        /// The id in the segment.
        found: Id,
    },
    /// A segment that the log needs is missing.
    #[error("segment {file}, which holds the log from {from}, is missing")]
    MissingSegment {
        /// The missing file.
        file: String,
        /// First position in the segment.
        from: Lsn,
    },
    /// A segment's header or length is wrong in a way that no crash can cause.
    #[error("segment {file} is corrupt: {reason}")]
    CorruptSegment {
        /// The segment.
        file: String,
        /// The fault.
        reason: &'static str,
    },
    /// A record that was known to be durable is damaged. Ending the log before that record would
    /// lose acknowledged records.
    #[error("the log is corrupt at {at} in {file}, below its durable end {durable}")]
    CorruptBelowDurable {
        /// Start of the first invalid record.
        at: Lsn,
        /// The segment of the record.
        file: String,
        /// Position up to which the log is known to have been durable.
        durable: Lsn,
    },
    /// One of several streams of the log has no files.
    #[error("{directory}, a stream of the log, is missing")]
    MissingStream {
        /// The folder of the stream.
        directory: String,
    },
    /// The folder of a stream holds a stream of another log, or another stream of this log.
    #[error("{directory} holds log {found}, not {expected}, this log's stream of that name")]
    ForeignStream {
        /// The folder of the stream.
        directory: String,
        /// The id the stream must have.
        expected: Id,
        /// The id of the log that the folder holds.
        found: Id,
    },
    /// The log has another number of streams than the options name.
    #[error("the log has {found} streams, not {asked}")]
    OtherStreams {
        /// Number of streams of the log.
        found: u16,
        /// [`Options::streams`](crate::Options::streams) of the opening.
        asked: u16,
    },
    /// One of the log's streams could not be opened. Other streams may have been written to
    /// meanwhile, but none of their records has changed.
    #[error("stream {directory}: {source}")]
    Stream {
        /// The folder of the stream.
        directory: String,
        /// The error of the stream.
        source: Box<OpenError>,
    },
    /// The directory holds another kind of log than was asked for.
    #[error("the log is kept in {found}, not in {asked}")]
    OtherKind {
        /// The kind of the log.
        found: LogKind,
        /// The kind of [`Options::medium`](crate::Options::medium).
        asked: LogKind,
    },
    /// The log was opened 2^32 - 1 times, and has no number for one more incarnation.
    #[error("the log has used up its incarnation numbers")]
    IncarnationsExhausted,
}

impl OpenError {
    pub(crate) fn other_version(directory: &dyn Directory, file: &str, found: u32) -> Self {
        let (directory, file) = (directory.describe(), file.to_owned());
        OpenError::OtherVersion { directory, file, found, supported: FORMAT_VERSION }
    }

    /// Returns the kind of log that the directory holds, if opening failed because another kind was
    /// asked for.
    pub fn other_kind(&self) -> Option<LogKind> {
        match self {
            OpenError::OtherKind { found, .. } => Some(*found),
            OpenError::Stream { source, .. } => source.other_kind(),
            _ => None,
        }
    }
}

/// The reason why a record could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The device failed to read the bytes.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// The position is below the log's start: that part was trimmed.
    #[error("position {at} was trimmed: the log starts at {start}")]
    Trimmed {
        /// Requested position.
        at: Lsn,
        /// Present start of the log.
        start: Lsn,
    },
    /// The position is at or beyond the end of the written log.
    #[error("position {at} is not before {end}, the end of the written log")]
    BeyondEnd {
        /// Requested position.
        at: Lsn,
        /// The written frontier.
        end: Lsn,
    },
    /// The position lies in a part that [`Stream::truncate_after`](crate::Stream::truncate_after)
    /// has dropped. A follower returns this error once if records that it has returned were
    /// dropped. Its next call continues above the dropped part.
    #[error("position {at} was truncated: the records from {from} up to {to} were dropped")]
    Truncated {
        /// Requested position, or the position of the follower.
        at: Lsn,
        /// The first position that was dropped.
        from: Lsn,
        /// Position at which the log continues.
        to: Lsn,
    },
    /// The position is inside the log, and no valid record starts there. If the position came from
    /// the log itself, the log is damaged; otherwise the position may be wrong.
    #[error("no valid record at {at} in {file}: {reason}")]
    Corrupt {
        /// Position at which the record should start.
        at: Lsn,
        /// The segment in which the record should be.
        file: String,
        /// The fault.
        reason: &'static str,
    },
}

// A compiler has made faulty code for an alignment of 16: see `Id`.
const _: () = assert!(std::mem::align_of::<Error>() <= std::mem::align_of::<u64>());
const _: () = assert!(std::mem::align_of::<OpenError>() <= std::mem::align_of::<u64>());
