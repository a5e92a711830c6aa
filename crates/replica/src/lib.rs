//! A replicated Katydid database: several machines keep one database by Raft, and go on when some
//! of them fail.
//!
//! A [`Replica`] is a member of a group that is open. One member leads: it runs transactions
//! ([`Replica::transact`]) and takes write sets ([`Replica::write`]), and acknowledges them when a
//! majority, or all, have them on their devices ([`Replicated`]). Reads at the leader are
//! linearizable ([`Replica::read`]); followers read a state of a known age
//! ([`Replica::read_stale`]).
//!
//! - A write has a [`RequestId`], and a retry with the same id is applied once. After
//!   [`Error::Unknown`], [`Replica::resolve`] says, for good, whether the request committed.
//! - [`Replica::add_learner`], [`Replica::change_voters`] and [`Replica::transfer_leader`] change
//!   who takes part. A member that was away gets the log it missed, or a snapshot.
//! - Programs in other processes use the group through a [`Client`].
//! - Replicas and clients reach each other by a [`Transport`]. [`Tcp`] does not encrypt; `Tls`, of
//!   the feature `tls`, does, and both sides show certificates.
//! - [`client_driven`] is another replication, that of Efficient flushing, for reproducing its
//!   figures.
//!
//! ```
//! # fn main() -> katydid_replica::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! use katydid_replica::{Replica, ReplicaOptions, RequestId, WriteOptions};
//! use std::{collections::BTreeMap, time::Duration};
//!
//! // A group of one; others open their replicas, and all are named here.
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
pub use error::{Error, Result, UnknownReason};
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
