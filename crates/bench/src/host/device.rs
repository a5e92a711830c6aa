//! Device of a log while it is measured, and its I/O method, as words of the command line.

use clap::ValueEnum;
use katydid_device::Method;

/// Device of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// In files, beside the pages
    File,
    /// In memory: the limit of what a faster log device could give; nothing is kept
    Memory,
}

/// I/O method of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// Past the page cache, durable write by write
    Direct,
    /// Like direct, through a ring of the kernel; direct where it has none
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
