//! A folder whose files are in one directory and whose subfolders are in another. The store keeps
//! its log in a subfolder. A database in such a folder therefore logs to another device, such as
//! memory or a device with an added delay.

use katydid_device::{Create, Directory, DirectoryLock, File, Method, Result};
use std::sync::Arc;

/// The files of one directory, and the subfolders of another.
#[derive(Debug)]
pub struct Split {
    files: Arc<dyn Directory>,
    subfolders: Arc<dyn Directory>,
}

impl Split {
    /// A folder with the files of `files` and the subfolders of `subfolders`.
    pub fn new(files: Arc<dyn Directory>, subfolders: Arc<dyn Directory>) -> Self {
        Split { files, subfolders }
    }
}

impl Directory for Split {
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
        self.subfolders.subdirectory(name)
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        self.subfolders.existing_subdirectory(name)
    }

    fn describe(&self) -> String {
        format!("{}, log in {}", self.files.describe(), self.subfolders.describe())
    }
}
