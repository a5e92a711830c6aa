//! Groups of replicas in one process, over loopback. One program, because each further one is
//! linked by itself.

mod cluster;
mod commits;
mod failures;
mod members;
mod snapshots;
#[cfg(feature = "tls")]
mod tls;
