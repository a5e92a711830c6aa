//! Access to a running database from other processes.
//!
//! One process has a database open. That process can open a [`Socket`], which answers requests of
//! other processes on the same machine: the names of tables, the value of a key, the entries of a
//! range and their number, [`Stat`](katydid::Stat) as JSON, and committed transactions as they
//! become durable. The socket also copies the database into a folder. Requests cannot change the
//! database, except for the positions of consumers of the feed and of archivers of the log
//! ([`katydid::LogArchiver`]). The database never waits for a consumer or an archiver.
//!
//! ```
//! use katydid_observe::{Client, Reply, Request, Socket};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("db");
//! let database = katydid::Database::open(&path)?;
//! let socket = Socket::open(&database, &path)?;
//!
//! // In another process:
//! let mut client = Client::connect(&path)?;
//! assert_eq!(client.ask(&Request::Tables)?, Reply::Tables(vec![]));
//! # drop(client);
//!
//! // Before the database is closed:
//! drop(socket);
//! database.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! The command line (`katydid get`, `scan`, `count`, `tables`, `stat`, `top`, `changes`, `backup`,
//! `archive`) asks the socket when a process has the database open.
#![forbid(unsafe_code)]

mod answer;
mod bytes;
mod client;
mod committed;
mod connection;
mod copying;
mod feed;
mod frame;
mod presence;
mod protocol;
mod server;
mod socket_path;
mod stat;

pub use answer::answer;
pub use bytes::Bytes;
pub use client::{AskError, Client, ClientStopper, ConnectError};
pub use committed::{Committed, CommittedChange, CommittedValue};
pub use protocol::{ChangesBegin, ConsumerName, PROTOCOL, Refusal, Reply, Request};
pub use server::{OpenError, Socket};
pub use socket_path::SOCKET_NAME;
