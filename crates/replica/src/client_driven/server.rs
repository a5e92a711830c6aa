//! The server library: a replica that serves one database over TCP.
//!
//! One thread accepts connections. Each connection has a thread that reads a request, runs it,
//! waits until its commit is durable, and answers. The connection's thread calls the database
//! itself, so commits of several connections share writes and syncs of the log, as commits of local
//! threads do. Invariants:
//!
//! 1. An answer `Committed` is sent only after the commit has the durability that the database was
//!    opened with.
//! 2. [`Server::stop`] ends connections between two requests: a request that was read is run and
//!    answered first. Then the database is closed.
//! 3. A connection that sends a damaged frame is ended. Its committed transactions stay.
//! 4. The operating system probes idle connections, so a client that has lost its power or its
//!    network keeps no connection and no thread.
//!
//! After a crash the database recovers; with [`AnswerTable::Durable`] the answers are part of it.
//!
//! | lock | guards | rank |
//! |---|---|---|
//! | `connections` | the open sockets and the threads that serve them | none: no other lock is held when it is taken |

use super::answers::{AnswerTable, Answers};
use super::message::ReplicaStat;
use super::serve::Connection;
use super::tally::Tally;
use katydid::{Database, Error};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Options of a replica's server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Storage of the last answer of each session. Default: [`AnswerTable::Durable`].
    pub answers: AnswerTable,
    /// Maximum number of sessions that the server remembers. Default: 4096. A further session is
    /// refused.
    pub sessions_max: usize,
    /// Maximum number of connections, each with a thread. Default: 4096. A further connection is
    /// ended at once.
    pub connections_max: usize,
    /// Maximum time for sending one answer, more than zero. Default: 10 s. After a time-out the
    /// connection is ended.
    pub send_timeout: Duration,
    /// Delay added to each request, half of it before the request runs and half before the answer
    /// is sent. Default: none. The delay stands for the round trip of a network if replicas and
    /// clients share a machine. The server's times do not include the delay.
    pub network_delay: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            answers: AnswerTable::default(),
            sessions_max: 4096,
            connections_max: 4096,
            send_timeout: Duration::from_secs(10),
            network_delay: Duration::ZERO,
        }
    }
}

/// Reason why a server was not started or not stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A socket or thread could not be created.
    #[error("cannot {what}: {source}")]
    Io {
        /// The action.
        what: &'static str,
        /// Cause of the failure.
        source: io::Error,
    },
    /// [`ServerOptions::send_timeout`] is zero: no answer could be sent.
    #[error("option send_timeout must be more than zero")]
    SendTimeout,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] Error),
}

/// State that all threads of a server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub database: Database,
    pub answers: Answers,
    pub tally: Tally,
    pub options: ServerOptions,
    /// `stop` writes this flag, and every thread reads it between two requests. The accesses are
    /// sequentially consistent, because they are rare.
    stopping: AtomicBool,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: HashMap<u64, TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Shared {
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// A running replica. Dropping it stops it as [`Server::stop`] does.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a database at a listener until the server is stopped. The server owns the database.
    ///
    /// # Errors
    /// [`ServerError::SendTimeout`]; [`ServerError::Database`] if the table of answers cannot be
    /// opened or read; [`ServerError::Io`] if the listener's address is not known, or the accepting
    /// thread cannot be started.
    pub fn start(
        database: Database,
        listener: TcpListener,
        options: ServerOptions,
    ) -> Result<Server, ServerError> {
        if options.send_timeout.is_zero() {
            return Err(ServerError::SendTimeout);
        }
        let io = |what| move |source| ServerError::Io { what, source };
        let address = listener.local_addr().map_err(io("find the listener's address"))?;
        let answers = Answers::open(&database, options.answers, options.sessions_max)?;
        let shared = Arc::new(Shared {
            database,
            answers,
            tally: Tally::default(),
            options,
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let of = Arc::clone(&shared);
        let accepting = std::thread::Builder::new()
            .name("katydid-accept".to_owned())
            .spawn(move || accept(&of, &listener))
            .map_err(io("start a thread"))?;
        Ok(Server { shared, address, accepting: Some(accepting) })
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters since the start.
    ///
    /// # Errors
    /// Those of the database.
    pub fn stat(&self) -> Result<ReplicaStat, ServerError> {
        Ok(self.shared.tally.stat(&self.shared.database)?)
    }

    /// Ends each connection after the request that it runs, and closes the database.
    ///
    /// # Errors
    /// Those of closing the database.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServerError> {
        let Some(accepting) = self.accepting.take() else { return Ok(()) };
        self.shared.stopping.store(true, Ordering::SeqCst);
        // The accepting thread reads the flag after each connection, so this thread makes a
        // connection.
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(if own.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        let woken = TcpStream::connect_timeout(&own, Duration::from_secs(10));
        if woken.is_ok() {
            // A panic of the thread has been printed already.
            let _panicked = accepting.join();
        }
        let threads = {
            let mut connections = self.shared.connections.lock();
            for socket in connections.open.values() {
                // The client may have ended the connection already.
                let _ended = socket.shutdown(Shutdown::Read);
            }
            std::mem::take(&mut connections.threads)
        };
        for thread in threads {
            let _panicked = thread.join();
        }
        Ok(self.shared.database.close()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A caller that needs the error calls `stop`.
        let _unheard = self.end();
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    /// Pause after an error such as too many open files, because the next `accept` would fail at
    /// once.
    const AFTER_ERROR: Duration = Duration::from_millis(20);
    loop {
        let accepted = listener.accept();
        if shared.is_stopping() {
            return;
        }
        match accepted {
            Ok((socket, _)) => admit(shared, socket),
            Err(_) => std::thread::sleep(AFTER_ERROR),
        }
    }
}

/// Starts the thread of a connection. If that fails, the socket is closed, which the client sees.
fn admit(shared: &Arc<Shared>, socket: TcpStream) {
    let Ok(kept) = socket.try_clone() else { return };
    let mut connections = shared.connections.lock();
    connections.threads.retain(|thread| !thread.is_finished());
    if connections.open.len() >= shared.options.connections_max {
        return;
    }
    let number = connections.next;
    connections.next += 1;
    let of = Arc::clone(shared);
    let started = std::thread::Builder::new().name("katydid-serve".to_owned()).spawn(move || {
        let _closed = Closed { shared: &of, number };
        // The client sees the end of the connection. No other thread waits for it.
        let _ended = Connection::new(&of, socket).and_then(Connection::serve);
    });
    if let Ok(thread) = started {
        connections.open.insert(number, kept);
        connections.threads.push(thread);
    }
}

/// Removes a connection from the list when its thread ends, even by a panic.
struct Closed<'s> {
    shared: &'s Shared,
    number: u64,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if let Some(socket) = self.shared.connections.lock().open.remove(&self.number) {
            // The other side may be gone.
            let _gone = socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_driven::{Cluster, ClusterOptions};
    use socket2::SockRef;

    #[test]
    fn idle_connections_are_probed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let database = Database::in_memory().expect("open");
        let server = Server::start(database, listener, ServerOptions::default()).expect("start");
        let cluster = Cluster::new(ClusterOptions::new(vec![server.address()])).expect("a replica");
        let session = cluster.session().expect("a session");
        let connections = server.shared.connections.lock();
        assert_eq!(connections.open.len(), 1);
        for socket in connections.open.values() {
            assert!(SockRef::from(socket).keepalive().expect("an option"));
        }
        drop(connections);
        session.end().expect("the session ends");
        server.stop().expect("stop");
    }

    #[test]
    fn a_server_that_could_send_no_answer_is_not_started() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let options = ServerOptions { send_timeout: Duration::ZERO, ..ServerOptions::default() };
        let refused = Server::start(Database::in_memory().expect("open"), listener, options);
        assert!(matches!(refused, Err(ServerError::SendTimeout)), "{refused:?}");
    }
}
