//! Compaction, which gives the space of free pages back to the file system.
//!
//! The thread of the caller does all work, with the directory's lock. The engine rewrites the file;
//! the engine's module says what a crash leaves.

use crate::control::{self, Shutdown};
use crate::creation;
use crate::database::Database;
use crate::directory::existing;
use crate::error::{CopyFault, Error, Result};
use crate::ids::EngineKind;
use crate::open;
use crate::options::Options;
use crate::quarantine::refuse_repairing;
use crate::report::VerifyProgress;
use katydid_device::Directory;
use std::path::Path;
use std::sync::Arc;

/// The outcome of [`Database::compact`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Bytes of the database file before compaction. Memory engine: bytes of its checkpoint.
    pub bytes_before: u64,
    /// Bytes of the database file after compaction.
    pub bytes_after: u64,
}

impl Database {
    /// Rewrites the file of a closed database without its free pages, so that the file shrinks. The
    /// database must have been closed cleanly, by [`Database::close`]. A database of the memory
    /// engine has no free pages, so the call does not change it.
    ///
    /// The call needs free space for a second copy of the pages in use, and takes as long as
    /// copying the file. Half-empty pages stay as they are. A crash at any moment leaves the
    /// database either as it was or rewritten, never in between. `progress` gets the number of
    /// pages done and the number of all pages.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let path = folder.path().join("db");
    /// let database = katydid::Database::open(&path)?;
    /// let logs = database.table("logs")?;
    /// database.transact(|txn| (0..1_000u32).try_for_each(|key| txn.put(&logs, key.to_be_bytes(), [0; 500])))?;
    /// database.drop_table("logs")?;
    /// database.close()?;
    /// let report = katydid::Database::compact(&path, None)?;
    /// assert!(report.bytes_after < report.bytes_before);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::NotFound`, `Error::Locked`; `Error::Copy` with [`CopyFault::NotClosed`] if the
    /// database was not closed cleanly; `Error::Copy` also if the directory holds an incomplete
    /// copy or an increment; `Error::Repair` if a repair was interrupted; `Error::Corrupt` if a
    /// page or the control file is damaged, or the control file is lost; `Error::LogOpen` if a file
    /// of the log is lost together with the control file; `Error::Foreign` if a newer version wrote
    /// the control file; failures of the device. After an error the rows are unchanged; if the last
    /// sync of the directory failed, the file may have been rewritten all the same.
    pub fn compact(path: impl AsRef<Path>, progress: Option<VerifyProgress>) -> Result<CompactReport> {
        Self::compact_in(Arc::new(existing(path.as_ref())?), progress)
    }

    /// Rewrites the file of a database in a directory of any device. See [`Database::compact`].
    ///
    /// # Errors
    /// The errors of [`Database::compact`].
    pub fn compact_in(
        directory: Arc<dyn Directory>,
        progress: Option<VerifyProgress>,
    ) -> Result<CompactReport> {
        refuse_repairing(directory.as_ref())?;
        if control::read(directory.as_ref())?.is_none() {
            creation::refuse_lost_control(directory.as_ref())?;
            return Err(Error::NotFound { place: directory.describe() });
        }
        let _lock = directory.lock()?;
        directory.sync()?;
        // Check again under the lock and after the sync: since the first check a process may have
        // opened the database or begun a repair.
        refuse_repairing(directory.as_ref())?;
        let method = Options::default().advanced.log.method;
        let Some(control) = control::ControlFile::open(directory.as_ref(), method)? else {
            return Err(Error::NotFound { place: directory.describe() });
        };
        let control = control.get();
        // A database of the memory engine need not be `Clean`: `close` may leave its rows in the
        // log, and nothing is rewritten.
        if control.engine == EngineKind::Paged && control.shutdown != Shutdown::Clean {
            return Err(Error::copy(directory.as_ref(), CopyFault::NotClosed));
        }
        let (bytes_before, bytes_after) = open::compact(&directory, &control, method, progress.as_ref())?;
        Ok(CompactReport { bytes_before, bytes_after })
    }
}
