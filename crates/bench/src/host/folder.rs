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
    /// The folder has contents. Whether they are a database is not checked here.
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

/// Returns the state of a folder, which must be new or empty. `flag` is the flag that names it.
pub fn new_or_empty(dir: &Path, flag: &str) -> Result<FolderState> {
    match look(dir)? {
        FolderState::Something => Err(Failure::failed(format_args!(
            "{} is not empty: {flag} must be a new or empty folder, and is restored afterwards",
            dir.display()
        ))),
        found => Ok(found),
    }
}

/// Runs a measurement in the folder of the flag `--dir`, which must be new or empty, and restores
/// the folder afterwards.
pub fn within(dir: &Path, measure: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = new_or_empty(dir, "--dir")?;
    fs::create_dir_all(dir).map_err(Failure::failed)?;
    let measured = measure();
    // If the measurement failed, its error is returned rather than that of the removal.
    let removed = remove(dir, before);
    measured.and(removed)
}

/// Restores a folder to its state `before`: removes a folder that was missing, and the contents of
/// a folder that was empty. A folder that had contents stays as it is.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_restored_after_a_measurement_even_if_it_failed() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("new");
        let write = || fs::write(dir.join("file"), "left").map_err(Failure::failed);
        within(&dir, write).unwrap();
        assert!(!dir.exists());
        fs::create_dir(&dir).unwrap();
        let failed = within(&dir, || write().and(Err(Failure::failed("it failed")))).unwrap_err();
        assert!(format!("{failed:?}").contains("it failed"), "{failed:?}");
        assert_eq!(look(&dir).unwrap(), FolderState::Empty);
        fs::write(dir.join("kept"), "").unwrap();
        let refused = within(&dir, || panic!("it is not empty")).unwrap_err();
        assert!(format!("{refused:?}").contains("--dir must be a new or empty folder"), "{refused:?}");
        assert!(dir.join("kept").exists());
    }
}
