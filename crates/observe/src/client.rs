//! The client side of a connection.

use crate::frame::{self, FrameError, REPLY_BYTES_MAX};
use crate::protocol::{Refusal, Reply, Request};
use crate::socket_path::SocketPath;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum time until a reply begins. This time is long, because the process that has the database
/// open may wait for locks.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time between two progress messages of a copy, or between the last one and the reply.
/// This time is long, because the whole copy is synced at once at its end.
const COPY_PATIENCE: Duration = Duration::from_secs(15 * 60);

/// A connection to the socket of a database. A process ends a connection on which it gets no
/// request for a minute; [`Client::reconnect`] makes a new one.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// Folder of the database.
    path: PathBuf,
}

/// The reason why a socket cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no socket, or no process listens at it.
    #[error("no process answers at its socket")]
    NoSocket,
    /// An error of the operating system.
    #[error("cannot connect to the socket of the database: {0}")]
    Io(#[source] io::Error),
}

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The process refused the request.
    #[error("{0}")]
    Refused(#[source] Refusal),
    /// The process has closed its socket, or has died.
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
    /// [`ConnectError::NoSocket`] if no process listens at the database's socket;
    /// [`ConnectError::Io`] for any other error of the operating system.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, ConnectError> {
        let socket_path = SocketPath::of(path.as_ref()).map_err(ConnectError::Io)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| ConnectError::Io(errno.into()))?;
        let path = path.as_ref().to_owned();
        match connect(&socket, &socket_path.address) {
            Ok(()) => Ok(Client { stream: UnixStream::from(socket), path }),
            // A refused connection means that a crash has left the socket.
            Err(Errno::NOENT | Errno::CONNREFUSED) => Err(ConnectError::NoSocket),
            Err(errno) => Err(ConnectError::Io(errno.into())),
        }
    }

    /// Replaces the connection by a new one to the process that has the database open now, which
    /// may be another process than before. A feed of the old connection is lost. After an error
    /// this client is unchanged.
    ///
    /// # Errors
    /// Those of [`Client::connect`].
    pub fn reconnect(&mut self) -> Result<(), ConnectError> {
        *self = Client::connect(&self.path)?;
        Ok(())
    }

    /// Sends a request, and waits for the reply. A refusal is returned as an error.
    ///
    /// # Errors
    /// [`AskError::Refused`] if the process refuses the request; [`AskError::Ended`] if it has
    /// ended the connection; [`AskError::Io`] if the connection fails or no reply comes in time.
    /// After `Ended` and `Io` the connection cannot be used any more.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, AskError> {
        self.ask_with_progress(request, |_, _| {})
    }

    /// Sends a request, and waits for the reply like [`Client::ask`]. Before the reply the call
    /// passes the numbers of each [`Reply::Copying`] to `on_progress`.
    ///
    /// # Errors
    /// Those of [`Client::ask`].
    pub fn ask_with_progress(
        &mut self,
        request: &Request,
        mut on_progress: impl FnMut(u64, u64),
    ) -> Result<Reply, AskError> {
        // A process with too many clients sends a refusal before it reads a request, and ends the
        // connection. So an error of writing is reported only if there is no reply.
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
    /// The error of the operating system if it cannot open one more file.
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
    /// Announces to the process that has the database open that the client sends no more requests.
    /// A request that waits or copies is then refused, or the connection is ended.
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
