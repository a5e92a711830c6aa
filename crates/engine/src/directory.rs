//! The directory of a database: the names in it, and the gate and the watch through which all calls
//! on its files go while the database is open.
//!
//! The thread that opens or checks a database runs this code, which writes nothing.

use crate::error::{Error, Result};
use crate::opening::Opening;
use katydid_device::{Directory, FileDirectory, Gate, Watch};
use std::path::Path;
use std::sync::Arc;

/// The folder of the log, inside the database's folder.
pub(crate) const LOG_FOLDER: &str = "log";

/// The control file of a log of one stream, and the file that counts the streams of a log. If both
/// are missing, the log is lost.
pub(crate) const LOG_FILES: [&str; 2] = ["log.control", "streams.control"];

/// The directory of a database that is being opened.
pub(crate) struct DatabaseDir {
    /// The directory; all its calls pass the gate.
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) name: String,
    pub(crate) gate: Gate,
    pub(crate) watch: Watch,
    /// Holds the directory's lock until it is closed or dropped.
    pub(crate) opening: Arc<Opening>,
}

/// Opens the directory at `path`, which must exist.
///
/// # Errors
/// `Error::NotFound` if there is no such directory.
pub(crate) fn existing(path: &Path) -> Result<FileDirectory> {
    FileDirectory::open_existing(path).map_err(|error| match error.is_not_found() {
        true => Error::NotFound { place: path.display().to_string() },
        false => error.into(),
    })
}
