//! Folders over which the files of a log are spread in ELEDA's units (section 6.1).
//!
//! The folders must be new or empty, and are restored afterwards.

use super::folder::{self, FolderState};
use katydid_command::failure::{Failure, Result};
use katydid_device::{Directory, FileDirectory, StripedDirectory};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders of stripes, as the head of this file describes.
#[derive(Debug)]
pub struct Stripes {
    folders: Vec<(PathBuf, FolderState)>,
    directory: Arc<dyn Directory>,
}

impl Stripes {
    /// Stripes over the folders `paths`, which must be new or empty; `None` if `paths` is empty.
    /// The folders may lie inside `dir`, the folder of all other files.
    pub fn take(paths: &[PathBuf], dir: &Path) -> Result<Option<Stripes>> {
        if paths.is_empty() {
            return Ok(None);
        }
        let mut folders = Vec::new();
        for path in paths {
            if folders.iter().any(|(known, _)| known == path) {
                return Err(Failure::usage(format_args!("--stripe: {} is named twice", path.display())));
            }
            if path == dir {
                return Err(Failure::usage(format_args!("--stripe: {} is --dir itself", path.display())));
            }
            match folder::look(path)? {
                FolderState::Something => {
                    return Err(Failure::failed(format_args!(
                        "{} is not empty: each folder of --stripe must be new or empty, and is restored afterwards",
                        path.display()
                    )));
                }
                before => folders.push((path.clone(), before)),
            }
        }
        let open = |path: &PathBuf| Ok(Arc::new(FileDirectory::open(path)?) as Arc<dyn Directory>);
        let directories = paths.iter().map(open).collect::<Result<Vec<_>>>()?;
        let directory = Arc::new(StripedDirectory::open(directories, StripedDirectory::UNIT_BYTES)?);
        Ok(Some(Stripes { folders, directory }))
    }

    /// All folders as one directory.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Removes everything called `name` in all folders. None of these files may be open.
    pub fn forget(&self, name: &str) -> Result<()> {
        for (path, _) in &self.folders {
            let path = path.join(name);
            if folder::look(&path)? != FolderState::Nothing {
                folder::remove(&path, FolderState::Nothing)?;
            }
        }
        Ok(())
    }

    /// Restores the folders to their state before the measurement.
    pub fn remove(&self) -> Result<()> {
        self.folders.iter().try_for_each(|(path, before)| folder::remove(path, *before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_wal::{Append, Durability, FileOptions, Kind, Log, Options};

    fn write(stripes: &Stripes) -> u64 {
        let files =
            FileOptions { segment_bytes: 2 << 20, first_segment_bytes: 2 << 20, ..FileOptions::default() };
        let options = Options { medium: files.into(), ..Options::default() };
        let directory = stripes.directory().subdirectory("log").expect("a folder");
        let log = Log::open_in(directory, options).expect("open");
        let before = log.first().durable().get();
        let mut session = log.session().expect("session");
        for _ in 0..20 {
            session.append(&Append::new(Kind::USER, &[&[7; 100 << 10]])).expect("append");
        }
        let end = log.first().reserved();
        log.first().wait(end, Durability::Durable).expect("durable");
        drop(session);
        log.close().expect("close");
        before
    }

    #[test]
    fn a_log_lies_in_all_folders_and_begins_anew_when_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("a folder");
        let paths = ["one", "two"].map(|name| dir.path().join(name));
        let stripes = Stripes::take(&paths, dir.path()).expect("new folders").expect("two");
        let first = write(&stripes);
        assert!(write(&stripes) > first, "it goes on");
        for path in &paths {
            let bytes: u64 = std::fs::read_dir(path.join("log"))
                .expect("the log")
                .map(|entry| entry.expect("a file").metadata().expect("a file").len())
                .sum();
            assert!(bytes > 1 << 20, "{}: {bytes}", path.display());
        }
        stripes.forget("log").expect("removed");
        assert_eq!(write(&stripes), first, "nothing is left of it");
        stripes.remove().expect("removed");
        assert!(paths.iter().all(|path| !path.exists()));
    }

    #[test]
    fn folders_that_are_not_empty_or_named_twice_are_refused_by_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let paths = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::create_dir(&paths[1]).expect("a folder");
        std::fs::write(paths[1].join("diary.txt"), "dear diary").expect("a file");
        let refused = format!("{:?}", Stripes::take(&paths, dir.path()).expect_err("not empty"));
        assert!(refused.contains("two is not empty"), "{refused}");
        assert!(!paths[0].exists(), "nothing was made");
        let twice = [paths[0].clone(), paths[0].clone()];
        let refused = format!("{:?}", Stripes::take(&twice, dir.path()).expect_err("twice"));
        assert!(refused.contains("named twice"), "{refused}");
        let refused = format!("{:?}", Stripes::take(&paths[..1], &paths[0]).expect_err("the same"));
        assert!(refused.contains("is --dir itself"), "{refused}");
    }
}
