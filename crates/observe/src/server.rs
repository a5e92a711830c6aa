//! The side of the process that has the database open.
//!
//! Two kinds of threads: one waits for clients, and each client has one of its own, at most
//! [`CLIENTS_MAX`]. The first sleeps until a client comes or the socket is closed; it has no timer.
//! Invariants:
//!
//! 1. No client can make the owner of the database wait, by any bytes or by none: threads that
//!    serve clients hold nothing between two requests, each request is one short transaction that
//!    only reads, frames have limits of length and time.
//! 2. The socket is reachable by the user who made it only (0600), from before it listens.
//! 3. The process that has the database open has its directory's lock. A socket without a listener
//!    is left from a crash, and replaced; a socket with a listener is this process's, and is left
//!    alone.
//! 4. When [`Socket`] is dropped, no thread of it runs, it has no handle of the database, and the
//!    file is gone, unless another one has been put in its place.
//!
//! A crash leaves the file. Nothing is trusted because of it: a process that looks finds the
//! directory's lock free, and does not ask.

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

/// Clients that are served at a time.
const CLIENTS_MAX: usize = 8;
/// Clients that may wait for the thread that takes them in.
const BACKLOG: i32 = 16;

/// The reason why a socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This process has a socket there already.
    #[error("{} has a socket already", .0.display())]
    InUse(PathBuf),
    /// An error of the operating system.
    #[error("cannot open a socket in {}: {source}", .path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket at which other processes can ask about a database, until it is dropped. See the head of
/// this crate.
pub struct Socket {
    socket_path: SocketPath,
    /// Device and number of the file that was made.
    file: (u64, u64),
    clients: Arc<Clients>,
    accepting: Option<JoinHandle<()>>,
    /// Ended to end the thread that waits for clients.
    stop: Option<UnixStream>,
}

/// The clients that are being served.
#[derive(Default)]
struct Clients {
    served: Mutex<BTreeMap<u64, Served>>,
}

struct Served {
    stream: UnixStream,
    /// None until the thread is started.
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
    /// Drop the socket before closing the database: it has a handle of the database. Dropping it
    /// waits for requests that are being answered, at most `Options::lock_wait` for each.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if the database has a socket.
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

/// A socket that listens at `socket_path`.
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
    // No client can connect before it listens.
    chmodat(&socket_path.folder, SOCKET_NAME, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Waits for clients until `stopped` is readable.
fn accept(listener: &UnixListener, stopped: &UnixStream, database: &Database, clients: &Arc<Clients>) {
    // A client that goes away before it is taken in must not make this thread wait for the next
    // one.
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
            // The process has as many files open as it may. The client stays in the queue.
            Err(_) => {
                let mut ready = [PollFd::new(stopped, PollFlags::IN)];
                if poll(&mut ready, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })) != Ok(0) {
                    return;
                }
            }
        }
    }
}

/// Returns whether the server goes on after this error and takes the next client.
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
    // The other platforms hand the listener's mode on.
    let Ok(other) = stream.set_nonblocking(false).and_then(|()| stream.try_clone()) else { return };
    served.insert(number, Served { stream: other, thread: None });
    let (database, theirs) = (database.clone(), clients.clone());
    let serve = move || {
        // Also after a panic, and last: a thread that finds no client here concludes that no client
        // has a handle any more.
        let _leaving = Leaving { number, clients: theirs };
        let (database, mut stream) = (database, stream);
        connection::serve(&database, &mut stream);
    };
    match thread::Builder::new().name("katydid-client".to_owned()).spawn(serve) {
        // It may be about to leave, and waits for the latch that is held here.
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
        // The listener still holds its file's number: no other file has got it.
        #[allow(clippy::unnecessary_cast)]
        let is_ours = found.is_ok_and(|found| (found.st_dev as u64, found.st_ino as u64) == self.file);
        if is_ours {
            // A folder in which files cannot be removed keeps a file without a listener.
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
