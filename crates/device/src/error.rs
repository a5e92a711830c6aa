//! Errors of the device layer: what was being done to what, and why it failed.
//!
//! One type for all device calls. It is `Clone` because the first failure is latched by the gate and handed to every
//! later caller.

use std::fmt;
use std::io;
use std::sync::Arc;

/// The result of a device call.
pub type Result<T> = std::result::Result<T, Error>;

/// What was being done when a device call failed.
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
        })
    }
}

/// Why a device call failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cause {
    /// The device or quota has no room. Never latched by the gate when met while preparing space ahead.
    NoSpace,
    /// No such file.
    NotFound,
    /// The file exists already.
    AlreadyExists,
    /// Another process (its id, where known) holds the directory.
    Locked(Option<u32>),
    /// The simulated device has crashed: nothing reaches it until it is opened again.
    Crashed,
    /// An earlier write or sync failed and shut the gate; that first failure.
    Poisoned(Arc<Error>),
    /// Any other failure of the operating system or of the simulated device.
    Io(Arc<io::Error>),
}

/// A failed device call.
#[derive(Debug, Clone)]
pub struct Error {
    /// What was being done.
    pub verb: Verb,
    /// The file or directory it was done to, with the byte range where there is one.
    pub subject: String,
    /// Why it failed.
    pub cause: Cause,
}

impl Error {
    /// A failure of the operating system, sorted into a [`Cause`].
    pub fn from_io(verb: Verb, subject: impl Into<String>, error: io::Error) -> Self {
        let cause = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Cause::NoSpace,
            io::ErrorKind::NotFound => Cause::NotFound,
            io::ErrorKind::AlreadyExists => Cause::AlreadyExists,
            _ => Cause::Io(Arc::new(error)),
        };
        Error { verb, subject: subject.into(), cause }
    }

    /// A failure with a known cause.
    pub fn new(verb: Verb, subject: impl Into<String>, cause: Cause) -> Self {
        Error { verb, subject: subject.into(), cause }
    }

    /// Whether the device had no room.
    pub fn is_no_space(&self) -> bool {
        matches!(self.cause, Cause::NoSpace)
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.cause, Cause::NotFound)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: ", self.verb, self.subject)?;
        match &self.cause {
            Cause::NoSpace => f.write_str("no space left on the device"),
            Cause::NotFound => f.write_str("it does not exist"),
            Cause::AlreadyExists => f.write_str("it exists already"),
            Cause::Locked(Some(pid)) => write!(f, "it is in use by process {pid}"),
            Cause::Locked(None) => f.write_str("it is in use by another process"),
            Cause::Crashed => f.write_str("the simulated device has crashed"),
            Cause::Poisoned(first) => write!(f, "the device was shut off by an earlier failure ({first})"),
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
