//! The two traits everything above stores bytes through: a flat directory of files, and a file.
//!
//! Rules for every implementation:
//!
//! 1. Bytes written with [`WriteMode::Written`] survive a crash of this process, and may be lost,
//!    torn at 512 bytes or reordered by a crash of the machine until a later `sync` of the same
//!    file returned.
//! 2. Bytes written with [`WriteMode::Durable`] survive a crash of the machine once the call
//!    returned. The call promises nothing for bytes written earlier.
//! 3. A created, renamed or removed name survives a crash of the machine once `Directory::sync`
//!    returned.
//! 4. `write_at` writes all or fails; a short write of the operating system is continued, never
//!    reported as success.
//! 5. `read_at` is short only at the end of the file.
//! 6. No call panics on any content of a device.

use crate::error::{Error, Result, Verb};
use crate::nvram::{NvRegion, Persistence};
use std::fmt::{self, Debug};
use std::io::{self, IoSlice};
use std::str::FromStr;
use std::sync::Arc;

/// I/O method of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Method {
    /// Through the page cache; durable by `fdatasync`.
    Buffered,
    /// Past the page cache (`O_DIRECT`), durable per write (`O_DSYNC` semantics). Falls back to
    /// `Buffered` where the file system refuses; [`File::method`] says which is in use.
    #[default]
    Direct,
    /// `Direct` through a ring of the kernel (io_uring), which takes several pieces of a large
    /// write at once. Falls back to `Direct`, and then possibly to `Buffered`, where the kernel has
    /// no rings or refuses them.
    Uring,
}

impl Method {
    /// Every method.
    pub const ALL: [Method; 3] = [Method::Buffered, Method::Direct, Method::Uring];

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Buffered => "buffered",
            Method::Direct => "direct",
            Method::Uring => "io-uring",
        }
    }

    /// Returns whether a durable write past the page cache is the cheap way to make bytes durable:
    /// the write is durable by itself and waits for no other bytes. Otherwise write, then
    /// [`File::sync`].
    pub fn durable_writes(self) -> bool {
        match self {
            Method::Buffered => false,
            Method::Direct | Method::Uring => true,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no [`Method`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMethod(pub String);

impl fmt::Display for UnknownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not one of buffered, direct, io-uring", self.0)
    }
}

impl std::error::Error for UnknownMethod {}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(word: &str) -> std::result::Result<Self, UnknownMethod> {
        let found = Method::ALL.into_iter().find(|method| method.name() == word);
        found.ok_or_else(|| UnknownMethod(word.to_owned()))
    }
}

/// Permission to create the file when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Create {
    /// The file must exist.
    Never,
    /// Created empty if missing.
    IfMissing,
    /// Created; an existing file is an error.
    New,
}

/// Promise of a write that has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteMode {
    /// Handed to the operating system.
    Written,
    /// On the device.
    Durable,
}

/// A caller's advice about the reads that it is going to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Reads come in no order, so reading ahead by the system's own guess is of no use.
    Random,
    /// These bytes will be read soon.
    Soon {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// Held for as long as the directory is in use; dropping it releases the lock.
pub trait DirectoryLock: Send + Sync + Debug {}

/// A flat directory of files.
pub trait Directory: Send + Sync + Debug {
    /// Opens a file for reading and writing.
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>>;
    /// Opens a file for reading only; nothing about it is changed.
    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>>;
    /// The names of all plain files, sorted.
    fn list(&self) -> Result<Vec<String>>;
    /// Renames a file, replacing any file of the new name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes created, renamed and removed names durable.
    fn sync(&self) -> Result<()>;
    /// Takes the directory for this process; `Cause::Locked` if another has it, or reads it under
    /// [`Directory::lock_to_read`].
    fn lock(&self) -> Result<Box<dyn DirectoryLock>>;
    /// Keeps every process from taking the directory while it is only read; `Cause::Locked` if one
    /// has it. A directory of files is not changed, and several may read it; one that never had a
    /// lock is not guarded. Other directories take their ordinary lock.
    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        self.lock()
    }
    /// A directory inside this one, created (and its entry synced) if missing.
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>>;
    /// A directory inside this one if it exists; creates nothing.
    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>>;
    /// Opens the region of non-volatile memory of this name. Makes it, of `bytes` zeros, if there
    /// is none; durably, all or nothing. It is listed like a file. As long as a handle of it
    /// exists, a second opening fails with `Cause::Locked`.
    ///
    /// A region fails no store, so nothing stands before it: no gate, no watch, no added delay, no
    /// stripes.
    fn nvram(&self, name: &str, _bytes: u64, _want: Persistence) -> Result<Arc<NvRegion>> {
        Err(Error::from_io(Verb::Map, name, io::ErrorKind::Unsupported.into()))
    }
    /// One line for reports: path and kind of device.
    fn describe(&self) -> String;
}

/// One file. All methods take `&self` and may be called from several threads.
pub trait File: Send + Sync + Debug {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file. `buffer`
    /// needs no alignment.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes all of `parts`, one after the other, at `offset`. With [`Method::Direct`] and
    /// [`Method::Uring`], parts whose address or length is no multiple of [`File::alignment`] are
    /// copied through an aligned buffer, and a write whose `offset` or total length is none goes
    /// through the page cache: both are correct, neither is quick.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()>;
    /// Makes all bytes written so far durable (`fdatasync`).
    fn sync(&self) -> Result<()>;
    /// Length in bytes.
    fn len(&self) -> Result<u64>;
    /// Returns whether the file is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `[from, to)` with zeros by writing them, growing the file as needed, and makes that
    /// durable. If the device has no room the error is `Cause::NoSpace` with `Verb::Prepare`: the
    /// gate stays open, the growth is given back, and the file stays usable, but old bytes from
    /// `from` on may be zeros. Meanwhile no thread may write at or after `from`.
    fn prepare(&self, from: u64, to: u64) -> Result<()>;
    /// Cuts the file to `length` bytes, durably once a later `sync` returned. A file shorter than
    /// that is an error.
    fn truncate(&self, length: u64) -> Result<()>;
    /// Forgets cached clean bytes so that the next read comes from the device. Call after `sync`,
    /// at open.
    fn drop_cache(&self) -> Result<()>;
    /// Tells the system of coming reads. It starts to read what is needed soon into the page cache,
    /// and does not wait for it. Changes no result, and does nothing for files past the page cache
    /// and where the system takes no advice.
    fn advise(&self, _advice: Advice) {}
    /// The method in use.
    fn method(&self) -> Method;
    /// Alignment in bytes for writes that need no copy: 4,096 for direct files, 1 otherwise.
    fn alignment(&self) -> usize;
}
