//! The side that asks.

use crate::frame::{self, FrameError, REPLY_BYTES_MAX};
use crate::protocol::{Refusal, Reply, Request};
use crate::socket_path::SocketPath;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A reply begins within this time: the process that has the database may wait for locks as long as its options say.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to the socket of a database.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

/// Why a socket cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no socket, or no process listens to it any more.
    #[error("no process answers at its socket")]
    NoSocket,
    /// The operating system refuses.
    #[error("cannot connect to the socket of the database: {0}")]
    Io(#[source] io::Error),
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The process has refused.
    #[error("{0}")]
    Refused(#[source] Refusal),
    /// The connection broke or was ended, or no reply came in time.
    #[error("the process that has the database open does not answer: {0}")]
    Io(String),
}

impl Client {
    /// Connects to the process that has the database in folder `path` open.
    ///
    /// # Errors
    /// [`ConnectError::NoSocket`] if none is there.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, ConnectError> {
        let socket_path = SocketPath::of(path.as_ref()).map_err(ConnectError::Io)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| ConnectError::Io(errno.into()))?;
        match connect(&socket, &socket_path.address) {
            Ok(()) => Ok(Client { stream: UnixStream::from(socket) }),
            // A socket that a crash has left.
            Err(Errno::NOENT | Errno::CONNREFUSED) => Err(ConnectError::NoSocket),
            Err(errno) => Err(ConnectError::Io(errno.into())),
        }
    }

    /// Asks, and waits for the reply, which is none of the refusals.
    ///
    /// # Errors
    /// [`AskError::Refused`] with the refusal; after [`AskError::Io`] the connection is of no use any more.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, AskError> {
        let broken = |error: FrameError| AskError::Io(error.to_string());
        // A process that refuses everybody says so before it is asked, and ends the connection: then writing may fail.
        let written = frame::write(&mut self.stream, request);
        match frame::read(&mut self.stream, REPLY_BYTES_MAX, PATIENCE) {
            Ok(Reply::Refused(refusal)) => Err(AskError::Refused(refusal)),
            Ok(reply) => Ok(reply),
            Err(FrameError::Protocol(protocol)) => Err(AskError::Refused(Refusal::Protocol(protocol))),
            Err(error) => {
                written.map_err(broken)?;
                Err(broken(error))
            }
        }
    }
}
