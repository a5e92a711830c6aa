//! The side that asks.

use crate::frame::{self, FrameError, REPLY_BYTES_MAX};
use crate::protocol::{Refusal, Reply, Request};
use crate::socket_path::SocketPath;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A reply begins within this time: the process that has the database may wait for locks as long as
/// its options say.
const PATIENCE: Duration = Duration::from_secs(60);
/// A copy tells how far it is, or ends, within this time: at its end all of it is synced at once.
const COPY_PATIENCE: Duration = Duration::from_secs(15 * 60);

/// A connection to the socket of a database.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

/// The reason why a socket cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no socket, or no process listens at it any more.
    #[error("no process answers at its socket")]
    NoSocket,
    /// An error of the operating system.
    #[error("cannot connect to the socket of the database: {0}")]
    Io(#[source] io::Error),
}

/// The reason why there is no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The process refused the request.
    #[error("{0}")]
    Refused(#[source] Refusal),
    /// The connection was ended: the process has closed its socket, or has died.
    #[error("the process that has the database open has ended the connection")]
    Ended,
    /// The connection broke, or no reply came in time.
    #[error("the process that has the database open does not answer: {0}")]
    Io(String),
}

impl Client {
    /// Connects to the process that has the database in folder `path` open.
    ///
    /// # Errors
    /// [`ConnectError::NoSocket`] if no process answers there.
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

    /// Sends a request, and waits for the reply. A refusal is returned as an error.
    ///
    /// # Errors
    /// [`AskError::Refused`] with the refusal. After other errors the connection cannot be used any
    /// more.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, AskError> {
        self.ask_with_progress(request, |_, _| {})
    }

    /// Sends a request, and waits for the reply like [`Client::ask`]. Meanwhile it calls
    /// `on_progress` with the numbers of each [`Reply::Copying`].
    ///
    /// # Errors
    /// Those of [`Client::ask`].
    pub fn ask_with_progress(
        &mut self,
        request: &Request,
        mut on_progress: impl FnMut(u64, u64),
    ) -> Result<Reply, AskError> {
        // A process that refuses all clients says so before it is asked, and ends the connection:
        // then writing may fail.
        let written = frame::write(&mut self.stream, request);
        let patience = if matches!(request, Request::Backup { .. }) { COPY_PATIENCE } else { PATIENCE };
        loop {
            return match frame::read(&mut self.stream, REPLY_BYTES_MAX, patience) {
                Ok(Reply::Copying { done, of }) => {
                    on_progress(done, of);
                    continue;
                }
                Ok(Reply::Refused(refusal)) => Err(AskError::Refused(refusal)),
                Ok(reply) => Ok(reply),
                Err(FrameError::Protocol(protocol)) => Err(AskError::Refused(Refusal::Protocol(protocol))),
                Err(error) => {
                    written.map_err(broken)?;
                    Err(broken(error))
                }
            };
        }
    }

    /// Returns a handle that ends the requests of this client from another thread.
    ///
    /// # Errors
    /// If the operating system cannot open one more file.
    pub fn stopper(&self) -> io::Result<ClientStopper> {
        Ok(ClientStopper { stream: self.stream.try_clone()? })
    }
}

/// A handle that ends the requests of a [`Client`] from another thread.
#[derive(Debug)]
pub struct ClientStopper {
    stream: UnixStream,
}

impl ClientStopper {
    /// Tells the process that has the database open that the client sends no more requests. A
    /// request that waits or copies ends: it is refused, or the connection is ended.
    pub fn stop(&self) {
        let _may_have_ended = self.stream.shutdown(Shutdown::Write);
    }
}

fn broken(error: FrameError) -> AskError {
    match error {
        FrameError::Ended => AskError::Ended,
        FrameError::Io(error) if is_end(&error) => AskError::Ended,
        error => AskError::Io(error.to_string()),
    }
}

/// Returns whether the error says that the other side has ended the connection.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
