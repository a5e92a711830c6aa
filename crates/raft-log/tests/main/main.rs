//! The Raft log through openraft's own interface. One program, because each further one is linked
//! by itself.

#![allow(missing_docs, reason = "openraft's macro declares types without any")]

mod crashes;
mod machine;
mod opening;
mod suite;

openraft::declare_raft_types!(
    /// Entries are strings.
    pub Types: D = String, R = String
);
