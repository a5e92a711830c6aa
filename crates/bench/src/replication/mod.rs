//! Replicated databases under load: a group of replicas that runs anywhere, as a store for workloads.

mod group;

pub use group::GroupStore;
