//! Checks a database that is not open: first its files, then the state that an opening would
//! recover from them, in memory.

use crate::control::{self, Control};
use crate::creation;
use crate::database::Database;
use crate::directory::existing;
use crate::engine_options::{MemoryOptions, PagedOptions};
use crate::error::{Error, Result};
use crate::limits::VERIFY_CACHE_BYTES;
use crate::open;
use crate::options::Options;
use crate::quarantine::refuse_repairing;
use crate::report::{Fault, VerifyProgress, VerifyReport};
use katydid_device::{Directory, OverlayDirectory};
use katydid_wal::{Background, LogKind};
use std::path::Path;
use std::sync::Arc;

impl Database {
    /// Checks a database that is not open, and returns the faults found. The call changes nothing.
    /// First the call checks the files, and then the state that an opening would recover. To
    /// recover this state the call opens the database with an overlay in memory. Recovery writes 4
    /// KiB to the overlay for each block of 4 KiB that it changes. The memory engine takes as much
    /// memory as when it is open.
    ///
    /// A fault that keeps the database from being opened is in the report. If the call cannot try
    /// to open the database, [`VerifyReport::unchecked`] says why.
    ///
    /// The database cannot be opened during the check.
    ///
    /// # Errors
    /// `Error::NotFound` if there is no database; `Error::Locked` if it is open, in this process or
    /// another; `Error::Repair` if a repair was interrupted; `Error::Corrupt` if the control file
    /// is lost or damaged; `Error::LogOpen` if a file of the log is lost together with the control
    /// file; `Error::Foreign` if a newer version wrote the control file; `Error::Copy` if the
    /// directory holds an incomplete copy or an increment; failures of the device.
    pub fn verify_path(path: impl AsRef<Path>, progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        Self::verify_in(Arc::new(existing(path.as_ref())?), progress)
    }

    /// Checks a database in a directory of any device. See [`Database::verify_path`].
    pub fn verify_in(
        directory: Arc<dyn Directory>,
        progress: Option<VerifyProgress>,
    ) -> Result<VerifyReport> {
        // Without the lock, a process could write during the check, and the check could report
        // damage where there is none. The control file is read under the lock as well. Otherwise an
        // opening could end between that reading and the check, and leave other files than the
        // control file names.
        let _lock = directory.lock_to_read()?;
        check(directory, progress)
    }
}

/// Checks a database whose lock is held. See [`Database::verify_path`].
pub(crate) fn check(directory: Arc<dyn Directory>, progress: Option<VerifyProgress>) -> Result<VerifyReport> {
    refuse_repairing(directory.as_ref())?;
    let Some(control) = control::read(directory.as_ref())? else {
        creation::refuse_lost_control(directory.as_ref())?;
        return Err(Error::NotFound { place: directory.describe() });
    };
    let mut report = open::verify_files(directory.as_ref(), &control, progress.clone())?;
    let overlay = OverlayDirectory::over(directory);
    let opened = Database::open_in(Arc::new(overlay.clone()), options_to_recover(&control));
    let checked = opened.and_then(|database| {
        let checked = if report.clean { None } else { Some(database.verify(progress)?) };
        // The overlay discards the writes of closing.
        overlay.seal();
        Ok(checked)
    });
    match checked {
        Ok(None) => {}
        Ok(Some(recovered)) => report.take_over(recovered),
        Err(error) => report.could_not_open(error)?,
    }
    Ok(report)
}

/// Checks the files of a database that a repair has made and closed, whose lock is held.
pub(crate) fn check_repaired(directory: &dyn Directory) -> Result<VerifyReport> {
    match control::read(directory)? {
        Some(control) => open::verify_files(directory, &control, None),
        None => Err(Error::NotFound { place: directory.describe() }),
    }
}

/// Options for opening the database only to check it.
fn options_to_recover(control: &Control) -> Options {
    let mut options = Options {
        create: false,
        engine: control.engine.with(
            PagedOptions { cache_bytes: VERIFY_CACHE_BYTES, ..PagedOptions::default() },
            // No limit: the data fitted into memory when it was written.
            MemoryOptions { memory_bytes: 1 << 60, ..MemoryOptions::default() },
        ),
        ..Options::default()
    };
    options.advanced.log.background = Background::Caller;
    options
}

impl VerifyReport {
    /// Takes over the report of recovering a database that was not closed cleanly.
    fn take_over(&mut self, recovered: VerifyReport) {
        self.notes.push(
            "the database was not closed cleanly: what recovery makes of it was checked, in memory"
                .to_owned(),
        );
        (self.pages, self.tables, self.keys) = (recovered.pages, recovered.tables, recovered.keys);
        for Fault { place, finding } in recovered.faults {
            self.fault(place, finding);
        }
    }

    /// Judges why the database could not be opened. Adds a fault of the database to the report, and
    /// returns a failure of the attempt.
    fn could_not_open(&mut self, error: Error) -> Result<()> {
        match (&error, other_kind(&error)) {
            (Error::Device(cause), _) if !cause.is_not_found() => return Err(error),
            (Error::Poisoned { cause }, _) if matches!(**cause, Error::Device(_)) => return Err(error),
            // A note is enough: the files were checked, and a clean closing leaves nothing to
            // recover.
            (_, Some(log)) if self.clean => {
                self.notes.push(format!("opening was not tried: the log is of kind {log}"));
            }
            (_, Some(log)) => {
                self.unchecked = Some(format!("a log of kind {log} cannot be recovered in memory"));
            }
            (Error::Corrupt { place, finding, .. }, None) => self.fault(place.clone(), finding.clone()),
            (_, None) => self.fault("opening", error.to_string()),
        }
        Ok(())
    }
}

/// Returns the kind of the existing log, if opening failed because of that kind.
fn other_kind(error: &Error) -> Option<LogKind> {
    let Error::LogOpen(error) = error else { return None };
    error.other_kind()
}
