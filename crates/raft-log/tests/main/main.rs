//! Tests of the Raft log through openraft's own interface. All tests are one program, because each
//! further program would be linked separately.

#![allow(missing_docs, reason = "openraft's macro declares types without any")]

mod crashes;
mod machine;
mod opening;
mod suite;

openraft::declare_raft_types!(
    /// Entries are strings.
    pub Types: D = String, R = String
);
