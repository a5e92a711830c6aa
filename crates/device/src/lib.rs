//! Storage for bytes: files, memory, a simulated device that crashes on demand, and the gate that
//! latches the first failure.
//!
//! Nothing here knows what a log record or a page is. Everything above stores bytes through
//! [`Directory`] and [`File`].
//!
//! | implementation | for |
//! |---|---|
//! | [`FileDirectory`] | the real thing: buffered with `fdatasync`, or direct with durable writes, through a ring of the kernel or not |
//! | [`MemoryDirectory`] | the limit in benchmarks, and quick tests |
//! | [`DelayedDirectory`] | any of them, slower: the papers' experiments |
//! | [`StripedDirectory`] | several of any of them, large files spread over all |
//! | [`OverlayDirectory`] | any of them, read only: what is written goes to memory |
//! | [`Gate`] | in front of any of them: latches the first failure |
//! | [`Watch`] | in front of any of them: reports calls that take too long |
//! | [`SimDevice`] | crashes, faults and stalls from a seed |
//!
//! Memory that keeps its bytes is apart, for it has no calls that write: see [`nvram`].
//!
//! [`Device::auto`] finds out how to use the device that a folder is on, and [`memory_limit`] how
//! much memory this process may use.

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
pub use directory::{Advice, Create, Directory, DirectoryLock, File, Method, UnknownMethod, WriteMode};
pub use error::{Cause, Error, NvramFault, Result, StripesFault, Verb};
#[cfg(unix)]
pub use file::FileDirectory;
pub use gate::Gate;
pub use id::Id;
pub use memory::MemoryDirectory;
pub use memory_limit::memory_limit;
pub use overlay::OverlayDirectory;
pub use probe::Device;
pub use sim::{Fault, SimDevice};
pub use slab::Slab;
pub use stripes::StripedDirectory;
pub use survival::Survival;
pub use watch::{HandClock, Stall, Stalls, Watch};
#[cfg(windows)]
pub use windows::FileDirectory;
