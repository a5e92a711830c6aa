//! Atomic replacement of files: a program that opens such a file finds either the old contents or
//! all of the new ones.
//!
//! The new contents go to a temporary file in the same folder, which is then renamed. A pipe, a
//! terminal or another path that is not a regular file is written to directly. Nothing is synced,
//! so a crash of the machine may bring back the old contents, or leave a part of the new ones.

use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Replaces the contents of `file` by `bytes`.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = |error| Failure::failed(format_args!("cannot write {}: {error}", file.display()));
    match fs::metadata(file) {
        Ok(found) if !found.is_file() => fs::write(file, bytes).map_err(cannot),
        // Replaces the target of a symbolic link, so that the link stays.
        Ok(_) => replace(&fs::canonicalize(file).map_err(cannot)?, bytes).map_err(cannot),
        Err(_) => replace(file, bytes).map_err(cannot),
    }
}

/// Creates the folder of `file`.
pub fn create_parent(file: &Path) -> Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => fs::create_dir_all(folder)
            .map_err(|error| Failure::failed(format_args!("cannot create {}: {error}", folder.display()))),
        None => Ok(()),
    }
}

fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = beside(file);
    let done = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, file));
    if done.is_err() {
        // The caller gets the first error; an error of removing the temporary file is ignored.
        let _may_not_be_there = fs::remove_file(&beside);
    }
    done
}

fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out.csv");
        write(&file, b"one, and a long one").unwrap();
        write(&file, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, b"three").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            (fs::read(&file).unwrap(), fs::read_dir(dir.path()).unwrap().count()),
            (b"three".to_vec(), 2)
        );
        // If the folder does not exist, no file is made.
        assert!(write(&dir.path().join("none").join("out"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
