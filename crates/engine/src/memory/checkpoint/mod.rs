//! The files of the memory engine's checkpoints: all rows, in parts that are written and read side
//! by side, and a manifest.
//!
//! Knows no engine: it is given rows and gives rows back. They are in the folder `checkpoints`:
//! `part-<number>-<part>`, and `manifest-<number>`. (Not in a folder for each checkpoint: folders
//! cannot be listed or removed through [`Directory`].) Threads: the one that takes the checkpoint,
//! and one for each part.
//!
//! Invariants:
//!
//! 1. A checkpoint counts only if the control file names it, and the control file names it only
//!    after its manifest, parts and their names are durable. What is of any other number means
//!    nothing and may be removed.
//! 2. Files of a number that the control file names are never written.
//! 3. Room is prepared before it is written: a full device is `Error::NoSpace` and shuts nothing
//!    off.
//! 4. Nothing that is read is believed before its checksum, and no length allocated for before it:
//!    a head's checksum covers the length of what follows.
//!
//! | crash | files | what the next opening finds |
//! |---|---|---|
//! | while parts or the manifest are written | any of the new one's, torn | the former checkpoint: the control file names it (1), its files are untouched (2); [`CheckpointFolder::remove_all_but`] clears the rest away |
//! | while the control file is written | both complete | the one that it names |
//! | while the former one is removed | the new one complete, some of the former | the new one |

mod block;
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

/// The folder, inside the database's.
pub(crate) const FOLDER: &str = "checkpoints";

fn part_name(number: u64, part: u32) -> String {
    format!("part-{number:06}-{part:03}")
}

fn manifest_name(number: u64) -> String {
    format!("manifest-{number:06}")
}

/// The checkpoint that the file called `name` belongs to, if it is one of ours.
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
    /// The folder in the database's `directory`, created if missing.
    pub(crate) fn create(directory: &dyn Directory, method: Method, database: Id) -> Result<Self> {
        Ok(CheckpointFolder { directory: directory.subdirectory(FOLDER)?, method, database })
    }

    /// The folder if it exists; nothing is changed. `method` is the I/O method of checkpoints.
    pub(crate) fn existing(directory: &dyn Directory, method: Method, database: Id) -> Result<Option<Self>> {
        let found = directory.existing_subdirectory(FOLDER)?;
        Ok(found.map(|directory| CheckpointFolder { directory, method, database }))
    }

    /// Begins checkpoint `number`, which the control file does not name. What an earlier attempt at
    /// it has left is removed.
    pub(crate) fn begin(&self, number: u64) -> Result<CheckpointWriter> {
        self.remove_if(|found| found == number)?;
        Ok(CheckpointWriter::new(self.clone(), Identity { database: self.database, number }))
    }

    /// Removes what there is of checkpoint `number`, which the control file does not name: it will
    /// not be finished. Best effort: `begin` and the next opening remove it as well.
    pub(crate) fn discard(&self, number: u64) {
        let _removed = self.remove_if(|found| found == number);
    }

    /// Reads checkpoint `number`, which the control file names: everything of it must be there. The
    /// bytes are read from the device, not taken from what a process that died has left in memory.
    pub(crate) fn read(&self, number: u64) -> Result<CheckpointReader> {
        CheckpointReader::open(self.clone(), Identity { database: self.database, number })
    }

    /// Removes the files of all checkpoints but `keep`: the one that the control file names (zero:
    /// it names none), and those that are being copied; how many.
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
                    finding: "the file is missing, without which the checkpoint cannot be read".to_owned(),
                });
            }
            file => file?,
        };
        file.drop_cache()?;
        Ok(file)
    }
}
