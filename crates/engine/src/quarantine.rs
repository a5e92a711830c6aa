//! The files of a damaged database, kept aside in a folder inside the database's directory.
//!
//! The repairing thread runs this with the directory's lock. Files are copied, and removed from
//! their old place only when the copies are durable:
//!
//! 1. every file is copied durably into the folder [`PREFIX`]`N`; then the file [`WHOLE`] is made
//!    in the folder, durably;
//! 2. the file [`REPAIRING`], which contains the name of the folder, is made in the directory; it
//!    has another name until its content is durable;
//! 3. the files in the directory are removed, and a new database is made from the folder, durably;
//! 4. [`REPAIRING`] is removed, durably.
//!
//! Invariants:
//!
//! 1. While [`REPAIRING`] exists, only a repair accepts the directory as a database
//!    ([`refuse_repairing`]), and the folder that [`REPAIRING`] names is whole.
//! 2. Nothing ever removes or changes a file of a folder that is whole.
//!
//! A crash in (1) leaves the database unchanged, and a folder that is not whole; the next repair
//! writes over the folder. A crash in (2) before [`REPAIRING`] has its name leaves the database
//! unchanged, too; the next repair makes another folder. A crash in (3) leaves some files of the
//! new database; the next repair removes them and begins (3) again.

use crate::control;
use crate::copy::{INCOMPLETE, MANIFEST};
use crate::directory::LOG_FOLDER;
use crate::error::{Error, RepairFault, Result};
use crate::paged;
use katydid_device::{AlignedBuffer, Create, Directory, Method, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

/// Name of the file that marks a directory in which a new database is being made from the
/// quarantine.
pub(crate) const REPAIRING: &str = "katydid.repairing";
/// Name of the file [`REPAIRING`] until its content is durable.
const NEW_REPAIRING: &str = "katydid.repairing.new";
/// Name of the file that marks a folder as whole.
const WHOLE: &str = "katydid.quarantined";
/// The folders' names without their number.
const PREFIX: &str = "katydid.damaged-";
const BLOCK: usize = 4096;
const CHUNK: usize = 1 << 20;

/// Fails if a repair of the directory was interrupted.
pub(crate) fn refuse_repairing(directory: &dyn Directory) -> Result<()> {
    if directory.list()?.iter().any(|name| name == REPAIRING) {
        return Err(Error::Repair { place: directory.describe(), fault: RepairFault::Interrupted });
    }
    Ok(())
}

/// Returns the folder of the interrupted repair of this directory, if there is one.
pub(crate) fn interrupted(directory: &dyn Directory) -> Result<Option<(String, Arc<dyn Directory>)>> {
    let file = match directory.open_read_only(REPAIRING) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut block = AlignedBuffer::new_zeroed(BLOCK);
    let read = file.read_at(&mut block, 0)?;
    let end = block[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
    let name = String::from_utf8_lossy(&block[..end]).into_owned();
    let is_ours = name.strip_prefix(PREFIX).is_some_and(|number| number.parse::<u32>().is_ok());
    match if is_ours { directory.existing_subdirectory(&name)? } else { None } {
        Some(folder) if is_whole(folder.as_ref())? => Ok(Some((name, folder))),
        _ => Err(Error::Corrupt {
            place: format!("{REPAIRING} in {}", directory.describe()),
            page: None,
            finding: format!("it names the quarantine {name:?}, which is not there or not whole"),
        }),
    }
}

fn is_whole(folder: &dyn Directory) -> Result<bool> {
    Ok(folder.list()?.iter().any(|name| name == WHOLE))
}

/// Returns whether a file of this name belongs to a database.
fn is_ours(name: &str) -> bool {
    let own =
        [control::FILE_NAME, control::NEW_FILE_NAME, paged::compact::NEW_FILE_NAME, MANIFEST, INCOMPLETE];
    own.contains(&name) || paged::open::FILES.contains(&name)
}

/// Returns the name of the next quarantine.
pub(crate) fn next_name(directory: &dyn Directory) -> Result<String> {
    for number in 1..=u32::MAX {
        let name = format!("{PREFIX}{number}");
        match directory.existing_subdirectory(&name)? {
            Some(folder) if is_whole(folder.as_ref())? => {}
            _ => return Ok(name),
        }
    }
    Err(Error::Internal("every number of a quarantine is taken"))
}

/// Copies the database into the folder called `name`, and marks the directory as being repaired
/// (steps 1 and 2).
pub(crate) fn keep(directory: &dyn Directory, name: &str, method: Method) -> Result<Arc<dyn Directory>> {
    let folder = directory.subdirectory(name)?;
    for file in directory.list()?.iter().filter(|file| is_ours(file)) {
        copy(directory, folder.as_ref(), file, method)?;
    }
    if let Some(log) = directory.existing_subdirectory(LOG_FOLDER)? {
        let kept = folder.subdirectory(LOG_FOLDER)?;
        for file in log.list()? {
            copy(log.as_ref(), kept.as_ref(), &file, method)?;
        }
        kept.sync()?;
    }
    folder.sync()?;
    drop(folder.open(WHOLE, Create::IfMissing, method)?);
    folder.sync()?;
    directory.sync()?;
    let mut block = AlignedBuffer::new_zeroed(BLOCK);
    block[..name.len()].copy_from_slice(name.as_bytes());
    let marker = directory.open(NEW_REPAIRING, Create::IfMissing, method)?;
    marker.write_at(&[IoSlice::new(&block)], 0, WriteMode::Durable)?;
    marker.sync()?;
    drop(marker);
    directory.sync()?;
    directory.rename(NEW_REPAIRING, REPAIRING)?;
    directory.sync()?;
    Ok(folder)
}

/// Copies one file. Its bytes are durable when this returns, its name is not.
fn copy(from: &dyn Directory, to: &dyn Directory, name: &str, method: Method) -> Result<()> {
    let (source, target) = (from.open_read_only(name)?, to.open(name, Create::IfMissing, method)?);
    target.truncate(0)?;
    let mut buffer = AlignedBuffer::new_zeroed(CHUNK);
    let mut at = 0;
    loop {
        let read = source.read_at(&mut buffer, at)?;
        if read > 0 {
            target.write_at(&[IoSlice::new(&buffer[..read])], at, WriteMode::Written)?;
        }
        if read < CHUNK {
            break;
        }
        at += read as u64;
    }
    Ok(target.sync()?)
}

/// Removes the database's files, each of which is in quarantine or belongs to an unfinished new
/// database.
pub(crate) fn clear(directory: &dyn Directory) -> Result<()> {
    for file in directory.list()?.iter().filter(|file| is_ours(file)) {
        directory.remove(file)?;
    }
    if let Some(log) = directory.existing_subdirectory(LOG_FOLDER)? {
        for file in log.list()? {
            log.remove(&file)?;
        }
        log.sync()?;
    }
    Ok(directory.sync()?)
}

/// Marks the repair as done (step 4).
pub(crate) fn finish(directory: &dyn Directory) -> Result<()> {
    directory.remove(REPAIRING)?;
    Ok(directory.sync()?)
}
