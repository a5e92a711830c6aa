//! Replicated databases under load: the replication of Efficient flushing beside a Raft group, with
//! servers as processes of this machine; and a group that runs anywhere, as a store for workloads.
//!
//! Cases and figures are data. `measure` runs a case on servers that `processes` starts and
//! `server` is; `drafts` and `group` let workloads run on them; `rows` shows what was measured.

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
