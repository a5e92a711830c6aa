//! The log of a database in readable form, without opening the database. What its records say is
//! its engine's to tell.

use crate::control;
use crate::directory::existing;
use crate::error::Result;
use crate::ids::EngineKind;
use crate::log_entry::LogEntry;
use crate::open;
use katydid_device::Directory;
use std::ops::ControlFlow;
use std::path::Path;

/// Reads the log of the database in directory `path`, changing nothing, and calls `visit` for each
/// record until the end or until `visit` breaks: in the order of positions in a paged database, and
/// of commit stamps in a memory database, whose log has several streams. Returns how the log ends,
/// in words; or, if `visit` broke, the position or stamp at which more follows.
pub fn dump_log(path: impl AsRef<Path>, visit: impl FnMut(&LogEntry) -> ControlFlow<()>) -> Result<String> {
    dump_log_in(&existing(path.as_ref())?, visit)
}

/// Dumps a log like [`dump_log`], in a directory of any device.
pub fn dump_log_in(
    directory: &dyn Directory,
    mut visit: impl FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<String> {
    // A log is to be read also where the control file is damaged.
    let engine = control::read(directory).ok().flatten().map_or(EngineKind::Paged, |control| control.engine);
    open::dump_log(engine, directory, &mut visit)
}
