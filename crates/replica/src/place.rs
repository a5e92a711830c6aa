//! The storage of a replica: a folder, or simulated devices that crash.
//!
//! Any thread may use a place. The state lies in a folder `store-N`. A received snapshot makes a
//! folder with another number, and the former folder is then removed. A removal first renames the
//! folder, so a crash that interrupts the removal leaves the rest under another name. The next
//! opening removes the rest. Under the name `store-N` the rest would look like a database that has
//! lost files, so the replica could not be opened.

use crate::error::{Error, Result};
use crate::types::Types;
use katydid_raft_log::RaftLog;
use katydid_raft_log::wal;
use katydid_raft_log::wal::device::{Directory, FileDirectory};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Prefix of the names of the state's folders.
const STORE: &str = "store-";
/// Prefix of the names of folders whose contents are being removed.
const REMOVED: &str = "removed-";

/// The storage of a replica's Raft log and state.
pub(crate) trait Place: Send + Sync {
    /// Returns the name of the place, for messages.
    fn describe(&self) -> String;

    /// Opens the Raft log.
    fn open_log(&self, options: wal::Options) -> Result<RaftLog<Types>>;

    /// Removes what an interrupted [`Place::remove_store`] has left. No other call may run at the
    /// same time.
    fn finish_removals(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the numbers of the state's folders, in any order.
    fn stores(&self) -> Result<Vec<u64>>;

    /// Returns the state's folder with this number. The folder is made if it is missing.
    fn store(&self, number: u64) -> Result<Arc<dyn Directory>>;

    /// Removes the state's folder with this number, and all that is in it.
    fn remove_store(&self, number: u64) -> Result<()>;
}

/// A folder of a file system. The state is in its subfolder `state`, and the Raft log in `log` or
/// in another directory.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) log: Option<Arc<dyn Directory>>,
}

impl Folder {
    fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// Opens the subfolder `state`. A missing subfolder is created durably.
    fn open_state(&self) -> Result<FileDirectory> {
        Ok(FileDirectory::open(self.state()).map_err(katydid::Error::from)?)
    }

    /// Returns the names of all folders in the subfolder `state`.
    fn names(&self) -> Result<Vec<String>> {
        let state = self.state();
        let io = |error| Error::io(state.display().to_string(), error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&state).map_err(io)? {
            names.extend(entry.map_err(io)?.file_name().into_string());
        }
        Ok(names)
    }

    /// Durably gives the state's folder with this number a name that [`Place::stores`] does not
    /// count. Returns the new path.
    fn set_aside(&self, number: u64) -> Result<PathBuf> {
        let path = self.state().join(format!("{STORE}{number}"));
        // An earlier folder of this number may still be under removal, so the name may be taken.
        let mut nth = 0_u64;
        let mut removed = path.clone();
        while removed.exists() {
            removed = self.state().join(format!("{REMOVED}{number}-{nth}"));
            nth += 1;
        }
        let renamed = std::fs::rename(&path, &removed);
        renamed.map_err(|error| Error::io(path.display().to_string(), error))?;
        self.open_state()?.sync().map_err(katydid::Error::from)?;
        Ok(removed)
    }
}

impl Place for Folder {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn open_log(&self, options: wal::Options) -> Result<RaftLog<Types>> {
        Ok(match &self.log {
            Some(directory) => RaftLog::open_in(directory.clone(), options)?,
            None => RaftLog::open(self.path.join("log"), options)?,
        })
    }

    fn finish_removals(&self) -> Result<()> {
        for name in self.names()?.iter().filter(|name| name.starts_with(REMOVED)) {
            remove(&self.state().join(name))?;
        }
        Ok(())
    }

    fn stores(&self) -> Result<Vec<u64>> {
        self.open_state()?;
        let number = |name: &String| name.strip_prefix(STORE)?.parse::<u64>().ok();
        Ok(self.names()?.iter().filter_map(number).collect())
    }

    fn store(&self, number: u64) -> Result<Arc<dyn Directory>> {
        let directory = FileDirectory::open(self.state().join(format!("{STORE}{number}")));
        Ok(Arc::new(directory.map_err(katydid::Error::from)?))
    }

    fn remove_store(&self, number: u64) -> Result<()> {
        remove(&self.set_aside(number)?)
    }
}

fn remove(path: &Path) -> Result<()> {
    std::fs::remove_dir_all(path).map_err(|error| Error::io(path.display().to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_under_removal_does_not_count_and_is_removed_by_the_next_opening() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Folder { path: folder.path().join("replica"), log: None };
        assert!(place.stores().expect("stores").is_empty());
        let fill = |number| {
            drop(place.store(number).expect("a store"));
            let store = place.state().join(format!("{STORE}{number}"));
            std::fs::write(store.join("katydid.pages"), "a page").expect("write");
            store
        };
        fill(1);
        fill(2);
        // A crash interrupts the removal of the folder, before or after its first file is removed.
        let removed = place.set_aside(2).expect("rename");
        assert_eq!(place.stores().expect("stores"), [1]);
        fill(2);
        place.remove_store(2).expect("remove");
        assert_eq!(place.stores().expect("stores"), [1]);
        assert!(removed.exists(), "it belongs to another removal");
        place.finish_removals().expect("remove");
        assert_eq!(place.names().expect("names"), ["store-1"]);
        assert!(place.remove_store(3).is_err());
    }
}
