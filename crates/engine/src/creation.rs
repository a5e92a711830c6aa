//! Distinguishes an interrupted creation from a database that has lost its control file.
//!
//! A thread that finds no control file runs this code, which only reads. An opening that would make
//! a database runs it with the directory's lock. An interrupted creation leaves no control file,
//! because a creation makes this file last. An opening begins such a creation again, and writes
//! over everything in the directory. A database that has lost its control file must not be changed.
//!
//! Rules:
//!
//! 1. A creation makes the log before anything else, and appends nothing to it. So each of these
//!    proves that there was a database: a checkpoint of the memory engine; pages without a log, or
//!    pages that were changed since their creation; a record of an engine in the log; a log that
//!    was trimmed.
//! 2. A file that cannot be read is no proof of an interrupted creation: the opening fails with the
//!    error of the read.
//!
//! A database that was created and never used looks like an interrupted creation. Nothing is lost
//! if such a database is created again, because the database is empty.

use crate::control;
use crate::copy::refuse_incomplete;
use crate::directory::LOG_FOLDER;
use crate::error::{Error, Foreign, Result};
use crate::memory;
use crate::paged::{first_pages, space};
use katydid_device::Directory;
use katydid_wal::{Kind, Lsn, OpenError, ReadError, StreamInspection, inspect};

/// Refuses a directory without a control file if it holds more than an interrupted creation leaves.
///
/// # Errors
/// `Error::Corrupt` with the name of the control file and the evidence; `Error::LogOpen` if a file
/// of the log is lost as well; `Error::Copy` if the directory holds an incomplete copy or an
/// increment.
pub(crate) fn refuse_lost_control(directory: &dyn Directory) -> Result<()> {
    refuse_incomplete(directory)?;
    let Some(evidence) = evidence(directory)? else { return Ok(()) };
    Err(Error::Corrupt {
        place: directory.describe(),
        page: None,
        finding: format!(
            "{} is missing, and this is no interrupted creation: {evidence}",
            control::FILE_NAME
        ),
    })
}

/// Returns evidence that there was a database in `directory`, if there is any.
fn evidence(directory: &dyn Directory) -> Result<Option<String>> {
    if memory::has_checkpoint(directory)? {
        return Ok(Some("there is a checkpoint".to_owned()));
    }
    let pages = match directory.open_read_only(space::FILE_NAME) {
        Ok(file) if first_pages::is_blank(file.as_ref())? => None,
        Ok(file) => Some(file),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let log = match directory.existing_subdirectory(LOG_FOLDER)? {
        Some(folder) => log_evidence(folder.as_ref())?,
        None => LogEvidence::NoLog,
    };
    Ok(match (pages, log) {
        (_, LogEvidence::Used(evidence)) => Some(evidence),
        (Some(_), LogEvidence::NoLog) => Some(format!("{} was written", space::FILE_NAME)),
        (Some(pages), LogEvidence::Unused) if !first_pages::is_as_created(pages.as_ref())? => {
            Some(format!("{} was changed after its creation", space::FILE_NAME))
        }
        _ => None,
    })
}

enum LogEvidence {
    /// There is no log.
    NoLog,
    /// The log was created and never used.
    Unused,
    /// The log was used. The text names the evidence.
    Used(String),
}

fn log_evidence(folder: &dyn Directory) -> Result<LogEvidence> {
    let found = match inspect(folder) {
        Err(OpenError::Device(error)) if error.is_not_found() => return Ok(LogEvidence::NoLog),
        found => found?,
    };
    if let Some(evidence) = found.streams.iter().find_map(was_trimmed) {
        return Ok(LogEvidence::Used(evidence));
    }
    for stream in &found.streams {
        let mut records = stream.records().map_err(unreadable)?;
        while let Some(record) = records.next_record().map_err(unreadable)? {
            if record.kind >= Kind::USER {
                return Ok(LogEvidence::Used(format!("the log has a record at {}", record.lsn)));
            }
        }
    }
    Ok(LogEvidence::Unused)
}

fn unreadable(error: ReadError) -> Error {
    match error {
        ReadError::Device(error) => error.into(),
        error => Error::Corrupt {
            place: LOG_FOLDER.to_owned(),
            page: None,
            finding: format!("{} is missing, and the log cannot be read: {error}", control::FILE_NAME),
        },
    }
}

fn was_trimmed(log: &StreamInspection) -> Option<String> {
    (log.start > Lsn::ZERO).then(|| format!("the log was trimmed up to {}", log.start))
}

/// Explains an error of opening a directory without a control file: `Foreign::InterruptedCreation`
/// if an interrupted creation had begun with another kind of log, otherwise `error` itself.
pub(crate) fn explain(error: Error, place: &str) -> Error {
    let Error::LogOpen(cause) = &error else { return error };
    match cause.other_kind() {
        Some(log) => Error::Foreign { place: place.to_owned(), what: Foreign::InterruptedCreation { log } },
        None => error,
    }
}
