//! The device and I/O method of a measured log, as words of the command line.

use clap::ValueEnum;
use katydid_device::Method;

/// Device of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// Files in the command's folder
    File,
    /// Memory, which shows the rates that no device can exceed; the log is lost at the end
    Memory,
}

/// I/O method of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// Writes bypass the page cache, and each write is durable
    Direct,
    /// Writes as with direct, through an io_uring ring; direct if the kernel has no io_uring
    IoUring,
    /// Writes go through the page cache, and fdatasync makes them durable
    Buffered,
}

impl Device {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Device::File => "file",
            Device::Memory => "memory",
        }
    }
}

impl MethodName {
    /// The device layer's method.
    pub fn method(self) -> Method {
        match self {
            MethodName::Direct => Method::Direct,
            MethodName::IoUring => Method::Uring,
            MethodName::Buffered => Method::Buffered,
        }
    }
}
