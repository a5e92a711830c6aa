//! The log of a database in readable form, without opening the database. The engine decodes the
//! records.

use crate::control;
use crate::directory::existing;
use crate::error::{Error, Result};
use crate::ids::EngineKind;
use crate::log_entry::LogEntry;
use crate::open;
use katydid_device::Directory;
use std::ops::ControlFlow;
use std::path::Path;

/// Reads the log of the database in directory `path`, changing nothing, and calls `visit` for each
/// record until the end of the log or until `visit` breaks. Records come in the order of positions
/// in a paged database, and in the order of commit stamps in a memory database, whose log has
/// several streams. Returns a sentence about the end of the log; if `visit` broke, about the
/// position or stamp at which the log continues.
///
/// # Errors
/// `Error::NotFound` if there is no log; `Error::LogOpen` or `Error::Corrupt` if the log is
/// damaged; `Error::Foreign` if a newer version wrote the control file; failures of the device.
pub fn dump_log(path: impl AsRef<Path>, visit: impl FnMut(&LogEntry) -> ControlFlow<()>) -> Result<String> {
    dump_log_in(&existing(path.as_ref())?, visit)
}

/// Reads the log of the database in a directory of any device. See [`dump_log`].
pub fn dump_log_in(
    directory: &dyn Directory,
    mut visit: impl FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<String> {
    // The log can be read even if the control file is lost or damaged; it is then read as a log of
    // the paged engine.
    let engine = match control::read(directory) {
        Ok(Some(control)) => control.engine,
        Ok(None) | Err(Error::Corrupt { .. }) => EngineKind::Paged,
        Err(error) => return Err(error),
    };
    open::dump_log(engine, directory, &mut visit)
}
