//! Copies of a database: the directory in which one is made, and how fast.
//!
//! A copy is a database directory of its own. It is made by one thread, which calls the engine for
//! the files and does the rest here, in this order:
//! (1) the directory is found empty and is locked, (2) [`INCOMPLETE`] is made, durable, (3) the
//!     engine writes everything but the control file,
//! durable, (4) [`manifest`](Manifest) says what the copy is, durable, (5) the control file is
//! made, durable, (6) [`INCOMPLETE`] is removed.
//!
//! 1. There is no control file before everything else is durable. So a copy that was interrupted is
//!    never opened; until (5) it is refused by `Error::Copy` with [`CopyFault::Incomplete`],
//!    because of (2).
//! 2. A copy has an id of its own, in all of its files. Its source and other copies of it may go
//!    on, and no file of one is taken for a file of another (docs/adr/0042).
//! 3. A failure in the directory of the copy changes nothing of the source: the copy has no gate in
//!    common with it.
//!
//! A crash leaves by where it strikes: before (2) an empty directory; before (5) an incomplete
//! copy, which can be removed; after (5) the whole copy.

mod manifest;
mod pace;

pub(crate) use manifest::{FILE_NAME as MANIFEST, Manifest};
pub(crate) use pace::Pace;

use crate::control::{self, Control, ControlFile};
use crate::error::{CopyFault, Error, Result};
use crate::{CommitStamp, LogOptions, Lsn};
use katydid_device::{Create, Directory, DirectoryLock, File, Id, Method};
use katydid_wal::{Cut, ExtendedLog, Pin};
use std::sync::Arc;

/// The file that stands in a directory for as long as the copy in it is not whole.
pub(crate) const INCOMPLETE: &str = "katydid.incomplete";

/// The control file of an increment, which is no database by itself.
pub(crate) const INCREMENT: &str = "katydid.increment";

/// The copy that an increment is one to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base {
    pub(crate) id: Id,
    /// Pages with this LSN or a greater one may be others than in the base.
    pub(crate) changed_from: Lsn,
}

/// A copy that was not opened since it was made.
#[derive(Debug, Clone)]
pub(crate) struct Unopened {
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) manifest: Manifest,
}

/// Log of a restored database beyond the copy that it is made of.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) log: ExtendedLog,
    /// Ends of the streams.
    pub(crate) cuts: Vec<Cut>,
    /// Paged engine: pages that the database file needs for it.
    pub(crate) pages: u64,
    /// Memory engine: commits with a greater stamp are left out, if there is such a stamp.
    pub(crate) until: Option<CommitStamp>,
}

/// Part of a copy that an engine has written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copied {
    /// Contents for its control file.
    pub(crate) control: Control,
    /// See [`crate::BackupReport::stamp`].
    pub(crate) stamp: CommitStamp,
    /// See [`Manifest`].
    pub(crate) incarnations: u64,
    /// See [`Manifest`].
    pub(crate) log_start: Lsn,
}

/// The directory in which a copy is made. Dropped before [`Target::finish`], it leaves the copy
/// incomplete.
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
    /// Takes an empty directory, and says in it that the copy is incomplete.
    ///
    /// # Errors
    /// `Error::Copy` if something is in it, `Error::Locked`.
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

    /// Fails if the log was trimmed while it was copied: what was read of it may be something else.
    pub(crate) fn check_pin(&self, pin: &Pin) -> Result<()> {
        if pin.is_held() { Ok(()) } else { Err(Error::copy(self.directory.as_ref(), CopyFault::TooSlow)) }
    }

    /// Makes the copy whole: everything else is written, and durable but for names.
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

/// Refuses a directory with a copy that is not whole: interrupted, or an increment.
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

/// Refuses a directory with a copy that was interrupted.
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
