//! Copies of a database: the directory in which a copy is made, and the pace of the copying.
//!
//! A copy is a database directory of its own. One thread makes it, in six steps; the engine does
//! step (3):
//!
//! - (1) the directory is found empty and is locked,
//! - (2) [`INCOMPLETE`] is made, durable,
//! - (3) everything but the manifest and the control file is written, durable,
//! - (4) the [manifest](Manifest), which describes the copy, is written, durable,
//! - (5) the control file is made, durable; an increment has it under the name [`INCREMENT`],
//! - (6) [`INCOMPLETE`] is removed.
//!
//! Invariants:
//!
//! 1. The control file is made after everything else is durable. So an interrupted copy is never
//!    opened: from (2) until (5) opening fails with `Error::Copy` and [`CopyFault::Incomplete`].
//! 2. A copy has an id of its own, in all of its files. So no file of the copy is taken for a file
//!    of its source or of another copy, even after all of these databases have been written to
//!    (docs/adr/0042).
//! 3. A failure in the directory of the copy does not affect the source, because copy and source
//!    have different gates.
//!
//! A crash before (2) leaves an empty directory. A crash between (2) and (5) leaves an incomplete
//! copy, which can be removed. A crash after (5) leaves the whole copy.

mod chunks;
mod manifest;
mod pace;

pub(crate) use chunks::{CHUNK, Chunk, ReadChunks, copy_chunks};
pub(crate) use manifest::{FILE_NAME as MANIFEST, Manifest};
pub(crate) use pace::Pace;

use crate::control::{self, Control, ControlFile};
use crate::error::{CopyFault, Error, Result};
use crate::{CommitStamp, LogOptions, Lsn};
use katydid_device::{Create, Directory, DirectoryLock, File, Id, Method};
use katydid_wal::{Cut, ExtendedLog, Pin};
use std::sync::Arc;

/// The file that marks the copy in a directory as incomplete.
pub(crate) const INCOMPLETE: &str = "katydid.incomplete";

/// The control file of an increment, which is no database by itself.
pub(crate) const INCREMENT: &str = "katydid.increment";

/// The base of an increment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base {
    pub(crate) id: Id,
    /// Pages with at least this page LSN may differ from the pages of the base.
    pub(crate) changed_from: Lsn,
}

/// A copy that was not opened since it was made.
#[derive(Debug, Clone)]
pub(crate) struct Unopened {
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) manifest: Manifest,
}

/// The archived log that a restore appends to the log of the copy.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) log: ExtendedLog,
    /// For each stream, the end of the log that is appended.
    pub(crate) cuts: Vec<Cut>,
    /// Paged engine: number of pages that the database file needs for the added log.
    pub(crate) pages: u64,
    /// Memory engine: the greatest stamp whose commit is restored; `None` if all are restored.
    pub(crate) until: Option<CommitStamp>,
}

/// Description of the part of a copy that an engine has written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copied {
    /// Contents for the copy's control file.
    pub(crate) control: Control,
    /// See [`crate::BackupReport::stamp`].
    pub(crate) stamp: CommitStamp,
    /// See [`Manifest::incarnations`].
    pub(crate) incarnations: u64,
    /// See [`Manifest::log_start`].
    pub(crate) log_start: Lsn,
}

/// The directory in which a copy is made. If a target is dropped before [`Target::finish`], the
/// copy stays incomplete.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) method: Method,
    /// Id of the copy.
    pub(crate) id: Id,
    /// The copy that this one is an increment to.
    pub(crate) base: Option<Base>,
    _lock: Box<dyn DirectoryLock>,
}

impl Target {
    /// Locks an empty directory and marks the copy in it as incomplete.
    ///
    /// # Errors
    /// `Error::Copy` if the directory is not empty, `Error::Locked` if another process has locked
    /// it.
    pub(crate) fn begin(
        directory: Arc<dyn Directory>,
        log: &LogOptions,
        base: Option<Base>,
    ) -> Result<Target> {
        refuse_incomplete(directory.as_ref())?;
        let lock = directory.lock()?;
        let taken = directory.list()?.into_iter().next();
        if let Some(name) = taken {
            return Err(Error::copy(directory.as_ref(), CopyFault::NotEmpty { name }));
        }
        drop(directory.open(INCOMPLETE, Create::New, log.method)?);
        directory.sync()?;
        let id = log.log_id.unwrap_or_else(Id::random);
        Ok(Target { directory, method: log.method, id, base, _lock: lock })
    }

    /// Makes one more file of the copy.
    pub(crate) fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.directory.open(name, Create::New, self.method)?)
    }

    /// Fails if the log was trimmed while it was copied, because its segments may have been reused
    /// for later log before they were read.
    pub(crate) fn check_pin(&self, pin: &Pin) -> Result<()> {
        if pin.is_held() { Ok(()) } else { Err(Error::copy(self.directory.as_ref(), CopyFault::TooSlow)) }
    }

    /// Makes the copy whole. The caller has written everything else, durable except for file names.
    pub(crate) fn finish(self, source: Id, copied: &Copied) -> Result<()> {
        let base = self.base.map(|base| base.id);
        Manifest::of(self.id, source, base, copied).write(self.directory.as_ref(), self.method)?;
        self.directory.sync()?;
        let name = if base.is_some() { INCREMENT } else { control::FILE_NAME };
        drop(ControlFile::create_as(name, self.directory.as_ref(), self.method, copied.control)?);
        self.directory.remove(INCOMPLETE)?;
        Ok(self.directory.sync()?)
    }
}

/// Refuses a directory whose copy was interrupted or is an increment.
///
/// # Errors
/// `Error::Copy` with `CopyFault::Incomplete` or `CopyFault::Increment`.
pub(crate) fn refuse_incomplete(directory: &dyn Directory) -> Result<()> {
    refuse_interrupted(directory)?;
    let names = directory.list()?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(INCREMENT) && !has(control::FILE_NAME) {
        return Err(Error::copy(directory, CopyFault::Increment));
    }
    Ok(())
}

/// Refuses a directory whose copy was interrupted.
///
/// # Errors
/// `Error::Copy` with `CopyFault::Incomplete`.
pub(crate) fn refuse_interrupted(directory: &dyn Directory) -> Result<()> {
    let names = directory.list()?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(INCOMPLETE) && !has(control::FILE_NAME) && !has(INCREMENT) {
        return Err(Error::copy(directory, CopyFault::Incomplete));
    }
    Ok(())
}
