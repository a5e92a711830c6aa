//! The server side, in the process that has the database open.
//!
//! One thread waits for clients, and each of at most [`CLIENTS_MAX`] clients has a thread of its
//! own. The waiting thread sleeps without a timer until a client comes or the socket is closed.
//! Invariants:
//!
//! 1. A client that sends any bytes, or none, cannot make the other threads of the process wait.
//!    Threads that serve clients hold no locks between two requests, rows are read in short
//!    read-only transactions, and frames have limits of length and time.
//! 2. Only the user who made the socket can reach it. Its mode is set to 0600 before it listens.
//! 3. The process that has the database open holds the lock of the database's directory. So a
//!    socket without a listener is left from a crash, and is replaced. A socket with a listener
//!    belongs to this process, and is not touched.
//! 4. After a [`Socket`] is dropped, no thread of the socket runs and holds a handle of the
//!    database. The socket's file is removed, unless another file has replaced it.
//!
//! A crash leaves the file, which has no effect: another process finds the directory's lock free,
//! and does not connect.

use crate::connection;
use crate::socket_path::{SOCKET_NAME, SocketPath};
use katydid::Database;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, chmodat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Maximum number of clients at a time.
const CLIENTS_MAX: usize = 8;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// The reason why a socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This process already has a socket in the folder.
    #[error("{} has a socket already", .0.display())]
    InUse(PathBuf),
    /// An error of the operating system.
    #[error("cannot open a socket in {}: {source}", .path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

/// A socket at which other processes can ask about a database, until it is dropped. See the head of
/// this crate.
pub struct Socket {
    socket_path: SocketPath,
    /// Device number and inode of the socket's file.
    file: (u64, u64),
    clients: Arc<Clients>,
    accepting: Option<JoinHandle<()>>,
    /// Dropped to end the thread that waits for clients.
    stop: Option<UnixStream>,
}

/// The clients that are being served.
#[derive(Default)]
struct Clients {
    served: Mutex<BTreeMap<u64, Served>>,
}

struct Served {
    stream: UnixStream,
    /// `None` until the thread is started.
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    fn served(&self) -> MutexGuard<'_, BTreeMap<u64, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Socket {
    /// Opens the socket of `database`, which was opened in folder `path`, and starts the thread
    /// that waits for clients.
    ///
    /// Drop the socket before closing the database, because the socket has a handle of the
    /// database. Dropping it waits for the requests that are being answered, each at most
    /// `Options::lock_wait`.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if the database already has a socket; [`OpenError::Io`] for an error of
    /// the operating system.
    pub fn open(database: &Database, path: impl AsRef<Path>) -> Result<Socket, OpenError> {
        let path = path.as_ref();
        let fail = |source: io::Error| OpenError::Io { path: path.to_owned(), source };
        let socket_path = SocketPath::of(path).map_err(fail)?;
        let listener = listening(&socket_path).map_err(|errno| match errno {
            Errno::ADDRINUSE => OpenError::InUse(path.to_owned()),
            errno => fail(errno.into()),
        })?;
        let found = statat(&socket_path.folder, SOCKET_NAME, AtFlags::SYMLINK_NOFOLLOW);
        let found = found.map_err(|errno| fail(errno.into()))?;
        let (stop, stopped) = UnixStream::pair().map_err(fail)?;
        let clients = Arc::<Clients>::default();
        let (database, serving) = (database.clone(), clients.clone());
        let accepting = move || accept(&UnixListener::from(listener), &stopped, &database, &serving);
        let accepting =
            thread::Builder::new().name("katydid-socket".to_owned()).spawn(accepting).map_err(fail)?;
        // Field types differ between platforms.
        #[allow(clippy::unnecessary_cast)]
        let file = (found.st_dev as u64, found.st_ino as u64);
        Ok(Socket { socket_path, file, clients, accepting: Some(accepting), stop: Some(stop) })
    }
}

/// Makes a socket that listens at `socket_path`.
fn listening(socket_path: &SocketPath) -> Result<OwnedFd, Errno> {
    let new = || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let mut socket = new()?;
    match bind(&socket, &socket_path.address) {
        Err(Errno::ADDRINUSE) => {
            match connect(new()?, &socket_path.address) {
                Ok(()) => return Err(Errno::ADDRINUSE),
                Err(Errno::CONNREFUSED | Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            unlinkat(&socket_path.folder, SOCKET_NAME, AtFlags::empty())?;
            socket = new()?;
            bind(&socket, &socket_path.address)?;
        }
        bound => bound?,
    }
    // No client can connect before the socket listens, so set its mode first.
    chmodat(&socket_path.folder, SOCKET_NAME, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Waits for clients until `stopped` is readable.
fn accept(listener: &UnixListener, stopped: &UnixStream, database: &Database, clients: &Arc<Clients>) {
    // Accepting must not block: a client may disconnect between `poll` and `accept`.
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    for number in 0.. {
        let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) if !ready[1].revents().is_empty() => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        match listener.accept() {
            Ok((stream, _)) => take_in(number, stream, database, clients),
            Err(error) if is_passing(&error) => {}
            // The process has too many open files. The client stays in the queue.
            Err(_) => {
                let mut ready = [PollFd::new(stopped, PollFlags::IN)];
                if poll(&mut ready, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })) != Ok(0) {
                    return;
                }
            }
        }
    }
}

/// Returns whether the server can go on with the next client at once after this error.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock | ConnectionAborted | ConnectionReset)
}

fn take_in(number: u64, stream: UnixStream, database: &Database, clients: &Arc<Clients>) {
    let mut served = clients.served();
    if served.len() >= CLIENTS_MAX {
        drop(served);
        return connection::refuse(stream, CLIENTS_MAX);
    }
    // On some platforms a connection inherits the listener's non-blocking mode.
    let Ok(other) = stream.set_nonblocking(false).and_then(|()| stream.try_clone()) else { return };
    served.insert(number, Served { stream: other, thread: None });
    let (database, theirs) = (database.clone(), clients.clone());
    let serve = move || {
        // `_leaving` is dropped last, even after a panic, and removes the client from the list. So
        // the thread of a client that has left the list holds no handle of the database.
        let _leaving = Leaving { number, clients: theirs };
        let (database, mut stream) = (database, stream);
        connection::serve(&database, &mut stream);
    };
    match thread::Builder::new().name("katydid-client".to_owned()).spawn(serve) {
        // The thread may already be ending; then it waits for the latch, and removes the entry
        // later.
        Ok(thread) => {
            if let Some(served) = served.get_mut(&number) {
                served.thread = Some(thread);
            }
        }
        Err(_) => drop(served.remove(&number)),
    }
}

struct Leaving {
    number: u64,
    clients: Arc<Clients>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.clients.served().remove(&self.number);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let found = statat(&self.socket_path.folder, SOCKET_NAME, AtFlags::SYMLINK_NOFOLLOW);
        // The listener still holds the inode, so no other file can have its number.
        #[allow(clippy::unnecessary_cast)]
        let is_ours = found.is_ok_and(|found| (found.st_dev as u64, found.st_ino as u64) == self.file);
        if is_ours {
            // If the file cannot be removed, a socket without a listener stays.
            let _may_be_refused = unlinkat(&self.socket_path.folder, SOCKET_NAME, AtFlags::empty());
        }
        drop(self.stop.take());
        if let Some(accepting) = self.accepting.take() {
            let _panicked = accepting.join();
        }
        let served = std::mem::take(&mut *self.clients.served());
        for Served { stream, .. } in served.values() {
            let _may_be_gone = stream.shutdown(Shutdown::Both);
        }
        for thread in served.into_values().filter_map(|served| served.thread) {
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Socket({:?})", self.socket_path.address)
    }
}
