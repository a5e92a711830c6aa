//! The two traits through which all other crates store bytes: a flat directory of files, and a
//! file.
//!
//! Rules for every implementation. Files in memory are an exception from rules 1 to 3: they end
//! with the process.
//!
//! 1. Bytes written with [`WriteMode::Written`] survive a crash of this process, but a crash of the
//!    machine may lose them, tear them at multiples of 512 bytes, or reorder them until a later
//!    `sync` of the same file has returned.
//! 2. Bytes written with [`WriteMode::Durable`] survive a crash of the machine once the call has
//!    returned. The call promises nothing for bytes written earlier.
//! 3. A created, renamed or removed name survives a crash of the machine once `Directory::sync` has
//!    returned.
//! 4. `write_at` writes all or fails; a short write of the operating system is continued, never
//!    reported as success.
//! 5. `read_at` reads fewer bytes than asked for only at the end of the file.
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
    /// Writes through the page cache, which `fdatasync` makes durable.
    Buffered,
    /// Writes past the page cache (`O_DIRECT`); a write can be durable by itself (`O_DSYNC`
    /// semantics). Falls back to `Buffered` where the file system refuses direct I/O;
    /// [`File::method`] returns the method in use.
    #[default]
    Direct,
    /// Like `Direct`, through a ring of the kernel (io_uring), which takes several pieces of a
    /// large write at once, and several reads ([`File::read_many`]). Falls back to `Direct`, and
    /// then possibly to `Buffered`, where the kernel has no rings or refuses them.
    Uring,
}

impl Method {
    /// Every method.
    pub const ALL: [Method; 3] = [Method::Buffered, Method::Direct, Method::Uring];

    /// Returns the name of the method in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Buffered => "buffered",
            Method::Direct => "direct",
            Method::Uring => "io-uring",
        }
    }

    /// Returns whether a durable write ([`WriteMode::Durable`]) is the cheap way to make bytes
    /// durable. This holds for methods that bypass the page cache: their durable writes wait for no
    /// other bytes. With other methods, write and then call [`File::sync`].
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

/// A word that is not the name of a [`Method`].
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
    /// Opens an existing file.
    Never,
    /// Opens the file, and creates it empty if it is missing.
    IfMissing,
    /// Creates the file, and fails if it exists.
    New,
}

/// Promise of a write that has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteMode {
    /// The bytes are handed to the operating system.
    Written,
    /// The bytes are on the device.
    Durable,
}

/// A caller's advice about the reads that it is going to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Reads come in random order, so that reading ahead is of no use.
    Random,
    /// These bytes will be read soon.
    Soon {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// One of the reads of [`File::read_many`].
#[derive(Debug)]
pub struct ManyRead<'b> {
    /// Position in the file of the first byte to read.
    pub offset: u64,
    /// Memory for the bytes.
    pub buffer: &'b mut [u8],
    /// Outcome of this read, like that of [`File::read_at`].
    pub outcome: Result<usize>,
}

impl<'b> ManyRead<'b> {
    /// Makes a read that has read nothing yet.
    pub fn new(offset: u64, buffer: &'b mut [u8]) -> Self {
        ManyRead { offset, buffer, outcome: Ok(0) }
    }
}

/// A lock of a directory, held while the directory is in use. Dropping it releases the lock.
pub trait DirectoryLock: Send + Sync + Debug {}

/// A flat directory of files.
pub trait Directory: Send + Sync + Debug {
    /// Opens a file for reading and writing.
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>>;
    /// Opens a file for reading only, without changing it.
    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>>;
    /// Returns the names of all plain files, sorted.
    fn list(&self) -> Result<Vec<String>>;
    /// Renames a file, replacing any file of the new name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes created, renamed and removed names durable.
    fn sync(&self) -> Result<()>;
    /// Locks the directory. Fails with `Cause::Locked` if this process or another one holds the
    /// lock, or reads the directory under [`Directory::lock_to_read`].
    fn lock(&self) -> Result<Box<dyn DirectoryLock>>;
    /// Locks the directory for reading: no process can take [`Directory::lock`] meanwhile. Fails
    /// with `Cause::Locked` if a process holds that lock. In a directory of files this call writes
    /// nothing, and several processes may lock for reading at once; a directory that no process
    /// ever locked has no lock file, so it stays unguarded. Other kinds of directories take their
    /// ordinary lock.
    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        self.lock()
    }
    /// Returns a directory inside this one. A missing directory is created, and its entry synced.
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>>;
    /// Returns a directory inside this one if it exists. Creates nothing.
    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>>;
    /// Opens the region of non-volatile memory of this name. If there is none, makes one of `bytes`
    /// zeros, durably and all or nothing. A region is listed like a file. While a handle of it
    /// exists, a second opening fails with `Cause::Locked`.
    ///
    /// A store to a region is no call, and cannot fail. So gates, watches and added delays do not
    /// apply to stores, and a region is never striped.
    fn nvram(&self, name: &str, _bytes: u64, _want: Persistence) -> Result<Arc<NvRegion>> {
        Err(Error::from_io(Verb::Map, name, io::ErrorKind::Unsupported.into()))
    }
    /// Returns one line for reports, with path and kind of the device.
    fn describe(&self) -> String;
}

/// One file. All methods take `&self` and may be called from several threads at once.
pub trait File: Send + Sync + Debug {
    /// Reads up to `buffer.len()` bytes at `offset`, and fewer only at the end of the file.
    /// `buffer` needs no alignment.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// Makes several reads, in any order, and sets the outcome of each to what [`File::read_at`]
    /// would return. Returns when all have ended. If [`File::overlaps_reads`] returns true, the
    /// device gets the reads together; otherwise each read starts when the previous one has ended.
    fn read_many(&self, reads: &mut [ManyRead<'_>]) {
        if reads.len() > 1 && self.overlaps_reads() {
            for read in &*reads {
                self.advise(Advice::Soon { offset: read.offset, bytes: read.buffer.len() as u64 });
            }
        }
        for read in reads {
            read.outcome = self.read_at(read.buffer, read.offset);
        }
    }
    /// Returns whether several reads that the caller knows beforehand can be under way together:
    /// those of one [`File::read_many`], or those announced by [`File::advise`]. If not, reading
    /// ahead gains nothing. The answer may change from true to false.
    fn overlaps_reads(&self) -> bool {
        self.method() == Method::Buffered
    }
    /// Writes all of `parts`, one after the other, at `offset`. With [`Method::Direct`] and
    /// [`Method::Uring`] two cases are correct, but slow. A part whose address or length is not a
    /// multiple of [`File::alignment`] is copied through an aligned buffer. A write whose `offset`
    /// or total length is not such a multiple goes through the page cache.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()>;
    /// Makes all bytes written so far durable (`fdatasync`).
    fn sync(&self) -> Result<()>;
    /// Returns the length in bytes.
    fn len(&self) -> Result<u64>;
    /// Returns whether the file is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `[from, to)` with zeros by writing them, growing the file as needed, and makes zeros
    /// and length durable. If the device has no room the error is `Cause::NoSpace` with
    /// `Verb::Prepare`. After this error the gate stays open, the file has its former length and
    /// stays usable, but old bytes from `from` on may be zeros. No thread may write at or after
    /// `from` during the call.
    fn prepare(&self, from: u64, to: u64) -> Result<()>;
    /// Cuts the file to `length` bytes. The cut is durable once a later `sync` has returned. Fails
    /// if the file is shorter than that.
    fn truncate(&self, length: u64) -> Result<()>;
    /// Drops cached clean bytes, so that the next read comes from the device. To be called after
    /// `sync`, when a file is opened.
    fn drop_cache(&self) -> Result<()>;
    /// Advises the system of coming reads. After [`Advice::Soon`], the system begins to read these
    /// bytes into the page cache; the call does not wait until they are read. The advice changes no
    /// result. It has no effect on files that bypass the page cache, and on systems that take no
    /// advice.
    fn advise(&self, _advice: Advice) {}
    /// Returns the method in use.
    fn method(&self) -> Method;
    /// Returns the alignment in bytes for writes that need no copy: 4,096 for direct files, 1
    /// otherwise.
    fn alignment(&self) -> usize;
}
