//! Where a log is kept while it is measured, and how its bytes travel, as words of the command
//! line.

use clap::ValueEnum;
use katydid_device::Method;

/// Where the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// In files, beside the pages
    File,
    /// In memory: the limit of what a faster log device could give; nothing is kept
    Memory,
}

/// How the log's bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// Past the page cache, durable write by write
    Direct,
    /// As direct, through a ring of the kernel; as direct where it has none
    IoUring,
    /// Through the page cache, durable by fdatasync
    Buffered,
}

impl Device {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Device::File => "file",
            Device::Memory => "memory",
        }
    }
}

impl MethodName {
    /// The raw method.
    pub fn method(self) -> Method {
        match self {
            MethodName::Direct => Method::Direct,
            MethodName::IoUring => Method::Uring,
            MethodName::Buffered => Method::Buffered,
        }
    }
}
