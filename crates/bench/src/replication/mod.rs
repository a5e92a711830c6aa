//! Replicated databases under load. The replication of Efficient flushing is compared with a Raft
//! group, with servers as processes of this machine. Any Raft group can also be the store of a
//! workload.
//!
//! Cases and figures are data. `measure` runs a case on servers; `processes` starts the servers,
//! and `server` is their program. `drafts` and `group` let workloads run on the servers; `rows`
//! shows the results. `targets` measures a Raft group of three replicas (`raft`) with its clients
//! (`load`) against the project's targets.

mod case;
mod drafts;
pub mod figures;
mod group;
mod load;
pub mod measure;
mod processes;
mod raft;
mod rows;
mod run;
pub mod server;
pub mod targets;

pub use case::Case;
pub use group::GroupStore;
pub use rows::{LEGEND, setting_of};
