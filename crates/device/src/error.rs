//! Errors of the device layer: the operation, its subject, and the cause of the failure.
//!
//! All device calls have one error type. The type is `Clone` because the gate keeps the first
//! failure and hands it to every later caller.

use crate::id::Id;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The result of a device call.
pub type Result<T> = std::result::Result<T, Error>;

/// Operation of a device call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Opening or creating a file or directory.
    Open,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Making written bytes durable.
    Sync,
    /// Writing zeros ahead of use, or growing a file.
    Prepare,
    /// Making directory entries durable.
    SyncDirectory,
    /// Giving a file another name.
    Rename,
    /// Removing a file.
    Remove,
    /// Listing a directory.
    List,
    /// Taking the directory's lock.
    Lock,
    /// Asking for or changing a file's length.
    Length,
    /// Opening or creating a region of non-volatile memory, and mapping it.
    Map,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Open => "open",
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Sync => "sync",
            Verb::Prepare => "prepare",
            Verb::SyncDirectory => "sync the directory of",
            Verb::Rename => "rename",
            Verb::Remove => "remove",
            Verb::List => "list",
            Verb::Lock => "lock",
            Verb::Length => "measure",
            Verb::Map => "map",
        })
    }
}

/// Cause of a failed device call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cause {
    /// The device or a quota has no room, or the file may not grow. If preparing space ahead fails
    /// with this cause, the gate stays open.
    NoSpace,
    /// The file does not exist.
    NotFound,
    /// The file exists already.
    AlreadyExists,
    /// Another process (its id, where known), or another opening in this process, holds the
    /// directory or region.
    Locked(Option<u32>),
    /// The simulated device has crashed: no call reaches it until it is opened again.
    Crashed,
    /// An earlier write or sync failed and shut the gate. The field is the error of that first
    /// failure.
    Poisoned(Arc<Error>),
    /// The gate that the call goes through was closed. Another opening may use the directory by
    /// now.
    Closed,
    /// A directory or file does not belong in this place of a striped set.
    Stripes(StripesFault),
    /// A file is not the requested region of non-volatile memory, or cannot be a region.
    Nvram(NvramFault),
    /// The code of the directory or file panicked, with this message. The effect of the call is
    /// unknown, as after an I/O error.
    Panicked(Arc<str>),
    /// Any other failure of the operating system or of the simulated device.
    Io(Arc<io::Error>),
}

/// Fault of a directory or file of a striped set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StripesFault {
    /// The directory has no label, although the label of another directory shows that it should
    /// have one: it is the wrong directory, or was emptied.
    Missing,
    /// The directory has no label and is not empty, so a set cannot be made with it.
    NotEmpty,
    /// The directory or file belongs to another set.
    Foreign {
        /// The set of the first directory.
        expected: Id,
        /// The set that the directory or file belongs to.
        found: Id,
    },
    /// The directory or file belongs to another index of this set.
    Misplaced {
        /// Index at which the caller gave the directory or file, counted from 0.
        given: usize,
        /// Index to which the directory or file belongs.
        belongs: usize,
    },
    /// The set has another number of directories than the caller gave.
    Count {
        /// Number of directories that were given.
        given: usize,
        /// Number of directories of the set.
        count: usize,
    },
    /// The label or header cannot be read.
    Damaged,
    /// The label or header was written by a newer version.
    Newer(u32),
}

impl fmt::Display for StripesFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StripesFault::Missing => {
                f.write_str("it has no label of a striped set: is it another directory?")
            }
            StripesFault::NotEmpty => f.write_str("it is neither empty nor a directory of a striped set"),
            StripesFault::Foreign { expected, found } => {
                write!(f, "it belongs to the striped set {found}, not to {expected}")
            }
            StripesFault::Misplaced { given, belongs } => {
                write!(f, "it is directory {belongs} of its striped set and was given as directory {given}")
            }
            StripesFault::Count { given, count } => {
                write!(f, "its striped set has {count} directories and {given} were given")
            }
            StripesFault::Damaged => f.write_str("its label or header of a striped set is damaged"),
            StripesFault::Newer(version) => write!(f, "it was written by a newer version ({version})"),
        }
    }
}

/// Reason why a file cannot be used as the requested region of non-volatile memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvramFault {
    /// The file does not begin like the file of a region.
    Foreign,
    /// The header of the file cannot be read.
    Damaged,
    /// The file was written by a newer version.
    Newer(u32),
    /// The file has another length than its header says: it was cut, or bytes were appended.
    Cut {
        /// Bytes that the file should have.
        expected: u64,
        /// Bytes that the file has.
        found: u64,
    },
    /// The region has another length than the caller asked for.
    Length {
        /// Bytes that were asked for.
        expected: u64,
        /// Bytes that the region has.
        found: u64,
    },
    /// No region can have this number of bytes: it is zero, or more than can be mapped, or not a
    /// multiple of a cache line.
    Bytes(u64),
    /// The caller asked for real persistence, but the file system does not map files with
    /// `MAP_SYNC`. The field is the kind of the file system, or `memory`.
    NoDax(&'static str),
    /// The caller asked for real persistence, and this processor has no instruction for it.
    NoInstruction,
}

impl fmt::Display for NvramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvramFault::Foreign => f.write_str("it is no region of non-volatile memory"),
            NvramFault::Damaged => f.write_str("the header of the region is damaged"),
            NvramFault::Newer(version) => write!(f, "it was written by a newer version ({version})"),
            NvramFault::Cut { expected, found } => {
                write!(f, "the region's file has {found} bytes and should have {expected}")
            }
            NvramFault::Length { expected, found } => {
                write!(f, "the region has {found} bytes and {expected} were asked for")
            }
            NvramFault::Bytes(bytes) => write!(f, "a region cannot have {bytes} bytes"),
            NvramFault::NoDax(kind) => write!(
                f,
                "there is no real persistence here: this {kind} does not map files with MAP_SYNC (it is not on DAX)"
            ),
            NvramFault::NoInstruction => f.write_str(
                "there is no real persistence here: no instruction that writes cache lines back is known for this processor",
            ),
        }
    }
}

/// A failed device call.
#[derive(Debug, Clone)]
pub struct Error {
    /// The operation that failed.
    pub verb: Verb,
    /// The file or directory of the call, with the byte range if there is one.
    pub subject: String,
    /// Cause of the failure.
    pub cause: Cause,
}

impl Error {
    /// Makes the error of a failure of the operating system, which becomes a [`Cause`].
    pub fn from_io(verb: Verb, subject: impl Into<String>, error: io::Error) -> Self {
        let cause = match error.kind() {
            // A file at its maximum length, which the file system or `ulimit -f` sets, has no room,
            // even if the device has.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Cause::NoSpace
            }
            io::ErrorKind::NotFound => Cause::NotFound,
            io::ErrorKind::AlreadyExists => Cause::AlreadyExists,
            _ => Cause::Io(Arc::new(error)),
        };
        Error { verb, subject: subject.into(), cause }
    }

    /// Makes an error with a known cause.
    pub fn new(verb: Verb, subject: impl Into<String>, cause: Cause) -> Self {
        Error { verb, subject: subject.into(), cause }
    }

    /// Returns true if the device had no room.
    pub fn is_no_space(&self) -> bool {
        matches!(self.cause, Cause::NoSpace)
    }

    /// Returns the first failure: if the gate refused the call, the failure that shut the gate, and
    /// otherwise this failure.
    pub fn into_first(self) -> Error {
        match self.cause {
            Cause::Poisoned(first) => Error::clone(&first).into_first(),
            _ => self,
        }
    }

    /// Returns whether the device had no room to prepare bytes ahead, or to create or rename a
    /// file. If so, nothing was lost, and the gate stays open. A write or a sync that finds no room
    /// is a failure like any other.
    pub fn is_no_space_ahead(&self) -> bool {
        self.is_no_space() && matches!(self.verb, Verb::Prepare | Verb::Open | Verb::Rename)
    }

    /// Returns true if the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.cause, Cause::NotFound)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: ", self.verb, self.subject)?;
        match &self.cause {
            Cause::NoSpace => f.write_str("no space left on the device, or a limit is reached"),
            Cause::NotFound => f.write_str("it does not exist"),
            Cause::AlreadyExists => f.write_str("it exists already"),
            Cause::Locked(Some(pid)) => write!(f, "it is in use by process {pid}"),
            Cause::Locked(None) => f.write_str("it is in use by another process"),
            Cause::Crashed => f.write_str("the simulated device has crashed"),
            Cause::Poisoned(first) => write!(f, "the device was shut off by an earlier failure ({first})"),
            Cause::Closed => f.write_str("the opening that it belongs to was closed"),
            Cause::Stripes(fault) => write!(f, "{fault}"),
            Cause::Nvram(fault) => write!(f, "{fault}"),
            Cause::Panicked(said) => write!(f, "the code of the directory or file panicked: {said}"),
            Cause::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Io(error) => Some(error.as_ref()),
            Cause::Poisoned(first) => Some(first.as_ref()),
            _ => None,
        }
    }
}

// With an alignment of 16 the compiler has made code that faults: see `Id`.
const _: () = assert!(std::mem::align_of::<Error>() <= std::mem::align_of::<u64>());
