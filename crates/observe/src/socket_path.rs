//! Path of the socket, which is a file in the folder of the database.
//!
//! A socket's name has at most 107 bytes, and the folder's path may be longer. In that case, on
//! Linux, the address names the folder through `/proc/self/fd`.

use rustix::fs::{Mode, OFlags};
use rustix::net::SocketAddrUnix;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Name of the socket in the database's folder.
pub const SOCKET_NAME: &str = "katydid.socket";

/// The open folder, and the address of the socket. The address may name the folder by its
/// descriptor, so the folder must stay open until the address has been used.
pub(crate) struct SocketPath {
    pub(crate) folder: OwnedFd,
    pub(crate) address: SocketAddrUnix,
}

impl SocketPath {
    /// Returns the path of the socket of the database in folder `path`.
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
