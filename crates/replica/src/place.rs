//! The storage of a replica: a folder, or simulated devices that crash.
//!
//! Any thread.

use crate::error::{Error, Result};
use crate::types::Types;
use katydid_raft_log::RaftLog;
use katydid_raft_log::wal;
use katydid_raft_log::wal::device::{Directory, FileDirectory};
use std::path::PathBuf;
use std::sync::Arc;

/// Prefix of the names of the state's folders.
const STORE: &str = "store-";

/// The storage of a replica's Raft log and state.
pub(crate) trait Place: Send + Sync {
    /// Returns the name of the place, for messages.
    fn describe(&self) -> String;

    /// Opens the Raft log.
    fn open_log(&self, options: wal::Options) -> Result<RaftLog<Types>>;

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

    fn stores(&self) -> Result<Vec<u64>> {
        let state = self.state();
        let io = |error| Error::io(state.display().to_string(), error);
        std::fs::create_dir_all(&state).map_err(io)?;
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&state).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.strip_prefix(STORE)?.parse::<u64>().ok()));
        }
        Ok(numbers)
    }

    fn store(&self, number: u64) -> Result<Arc<dyn Directory>> {
        let directory = FileDirectory::open(self.state().join(format!("{STORE}{number}")));
        Ok(Arc::new(directory.map_err(katydid::Error::from)?))
    }

    fn remove_store(&self, number: u64) -> Result<()> {
        let path = self.state().join(format!("{STORE}{number}"));
        std::fs::remove_dir_all(&path).map_err(|error| Error::io(path.display().to_string(), error))
    }
}
