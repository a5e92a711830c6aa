//! A folder of files whose subfolders are in memory: the store keeps its log in a subfolder, so this is a database that
//! logs to memory, the fastest device there is.

use katydid_device::{Create, Directory, DirectoryLock, File, MemoryDirectory, Method, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Files on the file system, subfolders in memory.
#[derive(Debug)]
pub struct SubfoldersInMemory {
    files: Arc<dyn Directory>,
    in_memory: Mutex<BTreeMap<String, Arc<dyn Directory>>>,
}

impl SubfoldersInMemory {
    /// Over a folder whose own files stay where they are.
    pub fn new(files: Arc<dyn Directory>) -> Self {
        SubfoldersInMemory { files, in_memory: Mutex::default() }
    }
}

impl Directory for SubfoldersInMemory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        self.files.open(name, create, method)
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        self.files.open_read_only(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.files.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.files.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.files.sync()
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.files.lock()
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        let mut in_memory = self.in_memory.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = in_memory.entry(name.to_owned()).or_insert_with(|| Arc::new(MemoryDirectory::new()));
        Ok(Arc::clone(directory))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Ok(self.in_memory.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(Arc::clone))
    }

    fn describe(&self) -> String {
        format!("{}, log in memory", self.files.describe())
    }
}
