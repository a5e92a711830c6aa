//! Storage for bytes: files, memory, a simulated device that crashes on demand, and the gate that
//! refuses calls after the first failure.
//!
//! Nothing here knows what a log record or a page is. Everything above stores bytes through
//! [`Directory`] and [`File`].
//!
//! | implementation | for |
//! |---|---|
//! | [`FileDirectory`] | files of the system: buffered with `fdatasync`, or direct with durable writes, with or without io_uring |
//! | [`MemoryDirectory`] | files in memory: the upper limit in benchmarks, and quick tests |
//! | [`DelayedDirectory`] | any directory with an added delay, for the papers' experiments |
//! | [`StripedDirectory`] | several directories used as one, with large files spread over all |
//! | [`OverlayDirectory`] | any directory, left unchanged: writes go to memory |
//! | [`Gate`] | stands in front of any directory: refuses calls after the first failed write or sync |
//! | [`Watch`] | stands in front of any directory: reports calls that take too long |
//! | [`SimDevice`] | crashes, faults and stalls from a seed |
//!
//! Non-volatile memory is not a [`File`], because a program stores to it without a call: see
//! [`nvram`].
//!
//! [`Device::auto`] chooses the I/O method for the device that a folder is on. [`memory_limit`]
//! returns how much memory this process may use, and [`memory_groups`] the control groups that may
//! limit it.

mod aligned;
mod caught;
mod chunk;
mod delayed;
mod directory;
mod error;
#[cfg(unix)]
mod file;
mod gate;
mod id;
#[cfg(unix)]
mod lock;
mod memory;
mod memory_limit;
mod name;
pub mod nvram;
mod os;
mod overlay;
pub mod probe;
mod sim;
mod slab;
mod stripes;
mod sum;
mod survival;
pub mod testing;
mod watch;
#[cfg(windows)]
#[expect(clippy::disallowed_methods, reason = "this is where they are called from")]
mod windows;

pub use aligned::{ALIGNMENT, AlignedBuffer};
pub use delayed::{DelayedDirectory, Waiting};
pub use directory::{
    Advice, Create, Directory, DirectoryLock, File, ManyRead, Method, UnknownMethod, WriteMode,
};
pub use error::{Cause, Error, NvramFault, Result, StripesFault, Verb};
#[cfg(unix)]
pub use file::FileDirectory;
pub use gate::Gate;
pub use id::Id;
pub use memory::MemoryDirectory;
pub use memory_limit::{GroupVersion, MemoryGroup, memory_groups, memory_limit};
pub use overlay::OverlayDirectory;
pub use probe::Device;
pub use sim::{Fault, SimDevice};
pub use slab::Slab;
pub use stripes::StripedDirectory;
pub use survival::Survival;
pub use watch::{HandClock, Stall, Stalls, Watch};
#[cfg(windows)]
pub use windows::FileDirectory;
