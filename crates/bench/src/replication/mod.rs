//! Replicated databases under load: the replication of Efficient flushing compared with a Raft
//! group, with servers as processes of this machine; and any Raft group, as a store for workloads.
//!
//! Cases and figures are data. `measure` runs a case on servers; `processes` starts them and
//! `server` is their program. `drafts` and `group` let workloads run on them; `rows` shows the
//! results.

mod case;
mod drafts;
pub mod figures;
mod group;
pub mod measure;
mod processes;
mod rows;
mod run;
pub mod server;

pub use case::Case;
pub use group::GroupStore;
pub use rows::{LEGEND, setting_of};
