//! Path of the socket: a file in the folder of the database.
//!
//! A socket's name has at most 107 bytes, and paths of folders may be longer. Then the folder is
//! named through `/proc/self/fd`, on Linux.

use rustix::fs::{Mode, OFlags};
use rustix::net::SocketAddrUnix;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Name of the socket in the database's folder.
pub const SOCKET_NAME: &str = "katydid.socket";

/// The folder, which the address may name by its number: it has to stay open until the address was
/// used.
pub(crate) struct SocketPath {
    pub(crate) folder: OwnedFd,
    pub(crate) address: SocketAddrUnix,
}

impl SocketPath {
    /// The socket of the database in `path`.
    pub(crate) fn of(path: &Path) -> io::Result<SocketPath> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        let address = match SocketAddrUnix::new(path.join(SOCKET_NAME)) {
            Ok(address) => address,
            Err(_) if cfg!(target_os = "linux") => {
                SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET_NAME}", folder.as_raw_fd()))?
            }
            Err(errno) => return Err(errno.into()),
        };
        Ok(SocketPath { folder, address })
    }
}
