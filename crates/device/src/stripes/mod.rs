//! One directory made of several, whose large files are spread over them unit by unit (ELEDA,
//! section 6.1: 512 KiB over two devices), so that one large write goes to several devices at once.
//!
//! Any thread may call this code. Only the first directory has the names of files. A file lies
//! there until it grows beyond one unit. Then it gets parts in the other directories, under a
//! number that its first block holds ([`label`]). No other file has this number. So creating,
//! renaming and removing a file is atomic, as in one directory, and a file's parts are found by any
//! of its names.
//!
//! Invariants:
//!
//! 1. A file's header that names parts is durable only after the parts exist durably in every other
//!    directory. Bytes are written to a part only once the file's header names it durably.
//! 2. A part is removed only after a sync of the first directory has made durable that no file
//!    names the part. The opening that removed the last name removes the part, or a later opening
//!    does before it makes its first part. If an opening makes no parts, it also removes no part
//!    that it finds unnamed. So a file whose header was lost can be put back.
//! 3. The labels of a set are made in this order: the first directory's (making), the other
//!    directories', and again the first one's (complete). Each is durable before the next is begun,
//!    and the last before the set is used. A directory that is not empty gets no label.
//! 4. A call that promises durability returns only when its bytes and names are durable in every
//!    directory that it touches.
//! 5. A set can be open more than once, in one process and in several. Only an opening that has the
//!    lock of the directory makes and removes parts. An opening without the lock takes it for as
//!    long as it makes the parts of one file, or fails with `Cause::Locked` if another opening has
//!    it. After an opening has taken the lock anew, it collects garbage and looks for the next
//!    number before it makes parts ([`owner`]).
//! 6. A file that is opened to be changed has parts only if its header names them durably: the
//!    header is synced, its cached bytes are dropped, and it is read again. A process may have died
//!    after it wrote the header and before the header was durable, or the header's sync may have
//!    failed. Then the page cache shows a header that never reaches the device. Bytes written to
//!    the parts would be lost with that header. A header that another handle writes later is not
//!    checked again: if that write fails, the gate of that handle's opening is shut.
//! 7. A file whose header names no parts is at most one unit long. If such a file is found longer,
//!    its header was lost, and its parts stay.
//!
//! | crash while | leaves |
//! |---|---|
//! | a set is made | some labels; the next opening goes on where it stopped |
//! | a file gets parts | parts that no header names: garbage, removed before a later opening makes its first part |
//! | a file is removed, or replaced by renaming | the file with all parts; or no file, and its parts are garbage |
//! | bytes are written, zeros prepared | un-synced bytes as in any directory: each directory keeps its own choice of them |
//! | a file is cut | the old length with zeros instead of some of the cut bytes; or the new length |
//!
//! Latches: `known` of the [`owner`] guards the making of parts and the next number. A thread holds
//! `known` across device calls, so `known` is taken before the latches of the directories beneath,
//! and after the file's turn in the gate above. `inside` is a leaf.

mod file;
mod helpers;
mod label;
mod layout;
mod owner;
mod set;

use crate::directory::{Create, Directory, DirectoryLock, File, Method};
use crate::error::{Cause, Error, Result, Verb};
use crate::name;
use crate::nvram::{NvRegion, Persistence};
use file::StripedFile;
use helpers::HelperPool;
use owner::Owner;
use set::{LABEL_NAME, LABEL_NEW_NAME, Set};
use std::io;
use std::sync::Arc;

/// Maximum number of directories of a set.
const COUNT_MAX: usize = 64;

fn is_count(count: usize) -> bool {
    (1..=COUNT_MAX).contains(&count)
}

fn is_unit(unit: u64) -> bool {
    unit.is_power_of_two() && (4096..=1 << 30).contains(&unit)
}

fn refused(reason: &str) -> Error {
    Error::from_io(Verb::Open, "stripes", io::Error::new(io::ErrorKind::InvalidInput, reason))
}

/// Several directories used as one, with large files spread over them unit by unit (ELEDA, section
/// 6.1).
///
/// A set may be open more than once, in one process and in several. The first write or preparation
/// beyond one unit gives a file parts in the other directories. That call fails with
/// `Cause::Locked` while another opening holds the lock of the directory ([`Directory::lock`]), or
/// is giving parts to a file in the directory. The call never fails with that cause if the caller
/// holds that lock.
///
/// ```
/// use katydid_device::{Directory, MemoryDirectory, StripedDirectory};
/// use std::sync::Arc;
///
/// // A real set has its directories on different devices.
/// let directories: Vec<Arc<dyn Directory>> =
///     vec![Arc::new(MemoryDirectory::new()), Arc::new(MemoryDirectory::new())];
/// let log = StripedDirectory::open(directories, StripedDirectory::UNIT_BYTES)?;
/// # Ok::<(), katydid_device::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StripedDirectory {
    set: Arc<Set>,
}

impl StripedDirectory {
    /// The unit in ELEDA, in bytes.
    pub const UNIT_BYTES: u64 = 512 << 10;

    /// Opens a set of directories, given in their order, or makes one of empty directories.
    /// `unit_bytes` is the unit of a new set (a power of two from 4 KiB to 1 GiB); an existing set
    /// keeps its own.
    ///
    /// # Errors
    /// `Cause::Stripes` names a directory that is missing from the set, belongs to another set or
    /// index, or is not empty. `Cause::Locked` if the set has to be made, and another opening has
    /// the lock of the first directory. `Cause::Io` of kind `InvalidInput` if there are not 1 to 64
    /// directories, or the unit is out of range. Other failures of the directories.
    pub fn open(directories: Vec<Arc<dyn Directory>>, unit_bytes: u64) -> Result<StripedDirectory> {
        if !is_unit(unit_bytes) {
            return Err(refused("a unit is a power of two from 4096 to 1073741824 bytes"));
        }
        if !is_count(directories.len()) {
            return Err(refused("from 1 to 64 directories can be striped"));
        }
        Self::made(directories, unit_bytes, Arc::default(), Arc::default())
    }

    /// Opens an existing set, and writes nothing.
    ///
    /// # Errors
    /// Those of [`StripedDirectory::open`]; `Cause::NotFound` if the making of the set was not
    /// finished.
    pub fn open_existing(directories: Vec<Arc<dyn Directory>>) -> Result<StripedDirectory> {
        if !is_count(directories.len()) {
            return Err(refused("from 1 to 64 directories can be striped"));
        }
        let set = Set::existing(directories, Arc::default(), Arc::default())?;
        let set = set.ok_or_else(|| Error::new(Verb::Open, "stripes", Cause::NotFound))?;
        Ok(StripedDirectory { set: Arc::new(set) })
    }

    /// Returns the unit in bytes.
    pub fn unit_bytes(&self) -> u64 {
        self.set.layout.unit
    }

    fn made(
        directories: Vec<Arc<dyn Directory>>,
        unit: u64,
        helpers: Arc<HelperPool>,
        owner: Arc<Owner>,
    ) -> Result<StripedDirectory> {
        let set = match Set::existing(directories.clone(), helpers.clone(), owner.clone())? {
            Some(set) => {
                // A label that is seen need not be durable: the process that wrote the last label
                // may have been killed before that label was durable.
                set.first().sync()?;
                set
            }
            None => {
                Set::make(&directories, unit)?;
                Set::existing(directories, helpers, owner)?.ok_or_else(|| refused("the set was not made"))?
            }
        };
        Ok(StripedDirectory { set: Arc::new(set) })
    }

    fn first(&self) -> &dyn Directory {
        self.set.first()
    }

    fn check(verb: Verb, name: &str) -> Result<()> {
        if name == LABEL_NAME || name == LABEL_NEW_NAME {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "this name is the striped set's own");
            return Err(Error::from_io(verb, name, error));
        }
        name::check(verb, name)
    }
}

impl Directory for StripedDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        Self::check(Verb::Open, name)?;
        let first = self.first().open(name, create, method)?;
        Ok(Arc::new(StripedFile::new(self.set.clone(), first, Some(method))?))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        Self::check(Verb::Open, name)?;
        let first = self.first().open_read_only(name)?;
        Ok(Arc::new(StripedFile::new(self.set.clone(), first, None)?))
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names = self.first().list()?;
        names.retain(|name| name != LABEL_NAME && name != LABEL_NEW_NAME);
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Self::check(Verb::Rename, from)?;
        Self::check(Verb::Rename, to)?;
        let replaced = if from == to { None } else { self.set.id_of(to)? };
        self.first().rename(from, to)?;
        self.set.owner.known().doom(replaced);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        Self::check(Verb::Remove, name)?;
        let removed = self.set.id_of(name)?;
        self.first().remove(name)?;
        self.set.owner.known().doom(removed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.set.sync()
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.set.owner.lock(&self.set.directories)
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        let locks = self.set.directories.iter().map(|directory| directory.lock_to_read());
        Ok(Box::new(ReadLock { _locks: locks.collect::<Result<_>>()? }))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        Self::check(Verb::Open, name)?;
        let inner = self.set.directories.iter().map(|directory| directory.subdirectory(name));
        let inner = inner.collect::<Result<Vec<_>>>()?;
        let (helpers, owner) = (self.set.helpers.clone(), self.set.owner.inside(name));
        Ok(Arc::new(Self::made(inner, self.set.layout.unit, helpers, owner)?))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Self::check(Verb::Open, name)?;
        let mut inner = Vec::new();
        for directory in &self.set.directories {
            match directory.existing_subdirectory(name)? {
                Some(found) => inner.push(found),
                // The directories inside are made in order. So if one is missing, the making of
                // this set was not finished, unless the label of the first one says `complete`.
                None if inner
                    .first()
                    .is_some_and(|first: &Arc<dyn Directory>| set::is_complete(&**first)) =>
                {
                    let fault = Cause::Stripes(crate::error::StripesFault::Missing);
                    return Err(Error::new(Verb::Open, format!("{name} in {}", directory.describe()), fault));
                }
                None => return Ok(None),
            }
        }
        let set = Set::existing(inner, self.set.helpers.clone(), self.set.owner.inside(name))?;
        Ok(set.map(|set| Arc::new(StripedDirectory { set: Arc::new(set) }) as Arc<dyn Directory>))
    }

    /// Opens the region in the first directory.
    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        Self::check(Verb::Map, name)?;
        self.first().nvram(name, bytes, want)
    }

    fn describe(&self) -> String {
        let places: Vec<String> = self.set.directories.iter().map(|directory| directory.describe()).collect();
        format!("{} in stripes of {} KiB", places.join(" + "), self.unit_bytes() >> 10)
    }
}

#[derive(Debug)]
struct ReadLock {
    _locks: Vec<Box<dyn DirectoryLock>>,
}

impl DirectoryLock for ReadLock {}
