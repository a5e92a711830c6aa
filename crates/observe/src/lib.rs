//! Looking into a running database.
//!
//! A database belongs to one process. A [`Socket`], opened by that process, answers others on the
//! same machine: which tables there are, what a key has, the entries of a range, how many there
//! are, and [`Stat`](katydid::Stat) as JSON; committed transactions as they become durable; and it
//! copies the database into a folder. Nothing in the database can be changed through it but the
//! places of consumers of the feed and of archivers of the log ([`katydid::LogArchiver`]), which
//! its owner never waits for.
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
