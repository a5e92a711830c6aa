//! A replicated Katydid database: several machines keep copies of one database by Raft, and a
//! majority goes on when the others fail.
//!
//! A [`Replica`] is one open member of a group. One member leads: it runs transactions
//! ([`Replica::transact`]) and accepts write sets ([`Replica::write`]). It acknowledges a write
//! when a majority of the voters, or all, have the write on their devices ([`Replicated`]). Reads
//! at the leader are linearizable ([`Replica::read`]); followers read a state of a known age
//! ([`Replica::read_stale`]).
//!
//! - A write has a [`RequestId`], and a retry with the same id is applied once. After
//!   [`Error::Unknown`], [`Replica::resolve`] decides for good whether the request has committed.
//! - [`Replica::add_learner`], [`Replica::change_voters`] and [`Replica::transfer_leader`] change
//!   the members, the voters and the leader. A member that was away gets the log that it missed, or
//!   a snapshot.
//! - Programs in other processes use the group through a [`Client`].
//! - Replicas and clients reach each other by a [`Transport`]. [`Tcp`] does not encrypt. `Tls`,
//!   with the feature `tls`, encrypts, and each side checks the other's certificate.
//! - [`client_driven`] is the replication of the paper "Efficient flushing", for reproducing its
//!   figures.
//!
//! ```
//! # fn main() -> katydid_replica::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! use katydid_replica::{Replica, ReplicaOptions, RequestId, WriteOptions};
//! use std::{collections::BTreeMap, time::Duration};
//!
//! // A group of one replica. In a larger group every machine opens its replica, and one replica's
//! // `initialize` names them all.
//! let replica = Replica::open(ReplicaOptions::new(folder.path(), *b"fruit-shop-group", 1, "127.0.0.1:0"))?;
//! replica.initialize(&BTreeMap::from([(1, replica.address().to_owned())]))?;
//! replica.wait_until(Duration::from_secs(60), |status| status.leader == Some(1))?;
//!
//! let client = replica.open_client()?;
//! let committed = replica.transact(RequestId { client, sequence: 1 }, WriteOptions::default(), |txn| {
//!     txn.insert("stock", "apples", "12")
//! })?;
//! assert_eq!(replica.read(|view| view.get("stock", "apples"))?, Some(b"12".to_vec()));
//! # let _ = committed;
//! replica.close()
//! # }
//! ```
#![forbid(unsafe_code)]

mod caller;
mod certifier;
mod client;
pub mod client_driven;
mod client_message;
mod confirmations;
mod error;
mod frame;
mod freshness;
mod fuzz;
mod group;
mod ids;
mod machine;
mod message;
mod options;
mod peer;
mod place;
mod replica;
mod runtime;
mod server;
mod sessions;
mod shared_connection;
#[cfg(test)]
mod simulation;
mod status;
mod store;
#[cfg(feature = "tls")]
mod tls;
mod transaction;
mod transport;
mod types;
mod write_set;
mod writing;

pub use caller::Rows;
pub use client::{Client, ClientOptions};
pub use client_message::ReadAt;
pub use error::{Error, NotAll, Result, UnknownReason};
pub use frame::{Frame, FrameCodec, FrameError, HEADER_BYTES, PAYLOAD_BYTES_MAX};
#[doc(hidden)]
pub use fuzz::fuzz_targets;
pub use ids::{ReplicaId, RequestId};
pub use options::{ReplicaOptions, Replicated, WriteOptions};
pub use replica::{Replica, WriteFuture};
pub use status::{Role, Status};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsFiles};
pub use transaction::{ReadView, Transaction};
pub use transport::{Connection, Listener, Tcp, Transport};
pub use write_set::{WRITE_SET_BYTES_MAX, Write, WriteSet};
pub use writing::{Committed, Outcome};
