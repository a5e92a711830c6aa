//! The files of the memory engine's checkpoints: a manifest, and parts that have all rows. Several
//! threads write and read parts at the same time.
//!
//! This module does not depend on the engine: callers pass rows in and read rows back. The files
//! are in the folder `checkpoints`: `part-<number>-<part>`, and `manifest-<number>`. (There is no
//! folder for each checkpoint, because folders cannot be listed or removed through [`Directory`].)
//! The thread that takes or reads the checkpoint runs this code, and several threads run the code
//! of parts.
//!
//! Invariants:
//!
//! 1. A checkpoint is valid only if the control file names it, and the control file names it only
//!    after its manifest, parts and their names are durable. Files of any other number have no
//!    meaning and may be removed.
//! 2. Files of the checkpoint that the control file names are never written.
//! 3. Room in a file is prepared before bytes are written to it. So a full device causes
//!    `Error::NoSpace` and does not shut the gate. Room for a copy (`copy.rs`) is not prepared,
//!    because a copy has a gate of its own.
//! 4. A checksum is compared before the bytes that it covers are used. The checksum of each head
//!    covers the length of the payload, so no memory is allocated for an unchecked length.
//!
//! The moment of a crash decides which checkpoint the next opening finds:
//!
//! - While parts or the manifest are written: the former checkpoint. The control file names it (1),
//!   and its files are untouched (2). The files of the new checkpoint may be torn;
//!   [`CheckpointFolder::remove_all_but`] removes them.
//! - While the control file is written: the checkpoint that the control file names. All files of
//!   both checkpoints are complete.
//! - While the former checkpoint is removed: the new checkpoint. Some files of the former one are
//!   left.

mod block;
mod copy;
pub(crate) mod fuzz;
mod manifest;
mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::error::{Error, Result};
use katydid_device::{Directory, File, Id, Method};
use manifest::Identity;
use std::sync::Arc;

pub(crate) use block::Row;
pub(crate) use manifest::{Manifest, PARTS_MAX, PartSummary};
pub(crate) use read::CheckpointReader;
#[cfg(test)]
use read::PartReader;
pub(crate) use write::{CheckpointWriter, PartWriter};

/// Name of the folder of checkpoints, inside the database's directory.
pub(crate) const FOLDER: &str = "checkpoints";

fn part_name(number: u64, part: u32) -> String {
    format!("part-{number:06}-{part:03}")
}

fn manifest_name(number: u64) -> String {
    format!("manifest-{number:06}")
}

/// The number of the checkpoint to which file `name` belongs; `None` if it is no file of a
/// checkpoint.
fn number_of(name: &str) -> Option<u64> {
    let number = match name.strip_prefix("part-") {
        Some(rest) => rest.split_once('-')?.0,
        None => name.strip_prefix("manifest-")?,
    };
    number.parse().ok()
}

/// Returns whether a database's `directory` has any file of a checkpoint.
pub(crate) fn any(directory: &dyn Directory) -> Result<bool> {
    let Some(folder) = directory.existing_subdirectory(FOLDER)? else { return Ok(false) };
    Ok(folder.list()?.iter().any(|name| number_of(name).is_some()))
}

/// Folder of a database's checkpoints. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointFolder {
    directory: Arc<dyn Directory>,
    method: Method,
    database: Id,
}

impl CheckpointFolder {
    /// Opens the folder in the database's `directory`; creates it if it is missing.
    pub(crate) fn create(directory: &dyn Directory, method: Method, database: Id) -> Result<Self> {
        Ok(CheckpointFolder { directory: directory.subdirectory(FOLDER)?, method, database })
    }

    /// Opens the folder if it exists, and changes nothing. `method` is the I/O method of
    /// checkpoints.
    pub(crate) fn existing(directory: &dyn Directory, method: Method, database: Id) -> Result<Option<Self>> {
        let found = directory.existing_subdirectory(FOLDER)?;
        Ok(found.map(|directory| CheckpointFolder { directory, method, database }))
    }

    /// Begins checkpoint `number`, which the control file does not name. Removes the files of an
    /// earlier attempt at the same number.
    pub(crate) fn begin(&self, number: u64) -> Result<CheckpointWriter> {
        self.remove_if(|found| found == number)?;
        Ok(CheckpointWriter::new(self.clone(), Identity { database: self.database, number }))
    }

    /// Removes the files of checkpoint `number`, which the control file does not name and which
    /// will not be finished. Errors are ignored, because `begin` and the next opening remove the
    /// files that are left.
    pub(crate) fn discard(&self, number: u64) {
        let _removed = self.remove_if(|found| found == number);
    }

    /// Reads checkpoint `number`, which the control file names: all its files must exist. The bytes
    /// are read from the device, not from pages that a dead process has left in the operating
    /// system's cache.
    pub(crate) fn read(&self, number: u64) -> Result<CheckpointReader> {
        CheckpointReader::open(self.clone(), Identity { database: self.database, number })
    }

    /// Removes the files of all checkpoints except those in `keep`, and returns the number of
    /// removed files. `keep` contains the number of the checkpoint that the control file names
    /// (zero if there is none), and the numbers of the checkpoints that are being copied.
    pub(crate) fn remove_all_but(&self, keep: &[u64]) -> Result<usize> {
        self.remove_if(|found| !keep.contains(&found))
    }

    fn remove_if(&self, is_old: impl Fn(u64) -> bool) -> Result<usize> {
        let names = self.directory.list()?;
        let old: Vec<String> =
            names.into_iter().filter(|name| number_of(name).is_some_and(&is_old)).collect();
        for name in &old {
            self.directory.remove(name)?;
        }
        if !old.is_empty() {
            self.directory.sync()?;
        }
        Ok(old.len())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        let file = match self.directory.open_read_only(name) {
            Err(error) if error.is_not_found() => {
                return Err(Error::Corrupt {
                    place: name.to_owned(),
                    page: None,
                    finding: "the file is missing; the checkpoint cannot be read without it".to_owned(),
                });
            }
            file => file?,
        };
        file.drop_cache()?;
        Ok(file)
    }
}
