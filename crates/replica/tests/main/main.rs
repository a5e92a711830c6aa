//! Groups of replicas in one process, over loopback. All tests are one program, because each
//! further program would be linked separately.

mod cluster;
mod commits;
mod failures;
mod histories;
mod members;
mod snapshots;
#[cfg(feature = "tls")]
mod tls;
