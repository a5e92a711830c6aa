//! The folder in which a measurement works: its state before, and the removal of the measurement's
//! files.

use katydid_command::failure::{Failure, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// State of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderState {
    /// The folder does not exist.
    Nothing,
    /// The folder is empty.
    Empty,
    /// The folder has contents. The store reports whether they are a database.
    Something,
}

/// Returns the state of a folder.
pub fn look(dir: &Path) -> Result<FolderState> {
    match fs::read_dir(dir) {
        Ok(mut entries) => {
            Ok(if entries.next().is_none() { FolderState::Empty } else { FolderState::Something })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(FolderState::Nothing),
        Err(error) => Err(Failure::failed(format_args!("cannot look into {}: {error}", dir.display()))),
    }
}

/// Removes the files that a measurement left in a folder, if the folder was missing or empty
/// before.
pub fn remove(dir: &Path, before: FolderState) -> Result<()> {
    let cannot = |error| Failure::failed(format_args!("cannot remove what is in {}: {error}", dir.display()));
    match before {
        FolderState::Nothing => fs::remove_dir_all(dir).map_err(cannot),
        FolderState::Empty => {
            for entry in fs::read_dir(dir).map_err(cannot)? {
                let path = entry.map_err(cannot)?.path();
                let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
                removed.map_err(cannot)?;
            }
            Ok(())
        }
        FolderState::Something => Ok(()),
    }
}
