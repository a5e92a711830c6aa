//! The replication of Efficient flushing (Son, Yeom and Han, section 3.2). The client library sends
//! each transaction to all replicas at once. Each replica commits the transaction in its own log
//! with its own sync. The client library acknowledges the transaction when all replicas have
//! answered.
//!
//! This module serves to reproduce the paper's Figures 7 and 8 and Tables 2 and 3. This replication
//! does not tolerate failures: one failed replica stops all clients. For availability use the Raft
//! group of this crate.
//!
//! # What it guarantees, and what it does not
//!
//! Decisions where the paper is silent (decision 62 in `docs/adr`):
//!
//! | question | answer |
//! |---|---|
//! | acknowledgement | a [`Committed`] transaction is durable at every replica |
//! | order of conflicting writes | sessions of one [`Cluster`] lock the keys that they write until all replicas have answered. Sessions of two clusters are not ordered, and their conflicting writes may leave the replicas different |
//! | refused at all replicas | [`Error::Refused`]: no replica has the transaction |
//! | committed at one replica, and no answer or a retryable refusal at another | [`Error::Unknown`] with the transaction's id. The transaction is never undone; [`Session::resolve`] sends it again, until all replicas have it |
//! | committed at one replica and refused for good at another | [`Error::Diverged`] |
//! | retries | a transaction has the same id in every retry; a replica that has committed it answers from its table and does not run it again, also after a restart ([`AnswerTable::Durable`]) |
//! | crash of the client between answers | the client's last transaction may be at some replicas only. Nothing completes or undoes it; [`compare`] finds the difference |
//! | restarted replica | sessions connect again and resolve their last transaction. A session does not accept a replica that lost an acknowledged transaction ([`Error::ReplicaBehind`]) |
//! | new or damaged replica | it starts from a copy of another replica's closed database, while no client runs |
//! | reads | within a transaction: equal at all replicas, or [`Error::Diverged`]. [`Session::read`]: at one replica, perhaps of a write that is not acknowledged yet |
//! | membership | fixed: the list of addresses that every client has |
//!
//! After a run, [`compare`] checks that all replicas have the same rows, and names the first key
//! that differs.
//!
//! ```
//! use katydid::Database;
//! use katydid_replica::client_driven::{Action, Cluster, ClusterOptions, Operation, Server, ServerOptions, compare};
//! use std::net::TcpListener;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let start = || -> Result<Server, Box<dyn std::error::Error>> {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     Ok(Server::start(Database::in_memory()?, listener, ServerOptions::default())?)
//! };
//! let replicas = [start()?, start()?, start()?];
//!
//! let cluster = Cluster::new(ClusterOptions::new(replicas.iter().map(Server::address).collect()))?;
//! let mut session = cluster.session()?;
//! let insert = Operation { table: "fruit".into(), key: b"apple".to_vec(), action: Action::Insert(b"red".to_vec()) };
//! session.transact(vec![insert])?;
//! assert_eq!(session.read("fruit", b"apple")?, Some(b"red".to_vec()));
//!
//! let equal = compare(&mut session)?;
//! assert_eq!((equal[0].table.as_str(), equal[0].rows), ("fruit", 1));
//! session.end()?;
//! for replica in replicas {
//!     replica.stop()?;
//! }
//! # Ok(())
//! # }
//! ```

mod answers;
mod apply;
mod cluster;
mod contents;
mod design;
mod divergence;
mod error;
pub mod frame;
mod fuzz;
mod link;
mod message;
mod order;
mod serve;
mod server;
mod session;
mod tally;
mod verdict;

pub use answers::AnswerTable;
pub use cluster::{ClientTimes, Cluster, ClusterOptions};
pub use design::paper_options;
pub use divergence::{Divergence, compare};
pub use error::{Error, Result};
#[doc(hidden)]
pub use fuzz::fuzz_targets;
pub use message::{
    Action, Answer, ClientId, Operation, Outcome, Refusal, ReplicaStat, Reply, Request, Row, TableContents,
    TransactionId,
};
pub use server::{Server, ServerError, ServerOptions};
pub use session::{Committed, Draft, Session};
pub use verdict::ReplicaAnswer;
