//! Where bytes are kept: files, memory, a simulated device that crashes on demand, and the one gate that latches failure.
//!
//! Nothing here knows what a log record or a page is. Everything above stores bytes through [`Directory`] and [`File`].

mod directory;
mod error;

pub use directory::{Create, Directory, DirectoryLock, File, Method, WriteMode};
pub use error::{Cause, Error, Result, Verb};
