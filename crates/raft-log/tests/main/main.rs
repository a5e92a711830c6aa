//! Tests of the Raft log through openraft's own interface. All tests are one program, because each
//! further program would be linked separately.

#![allow(missing_docs, reason = "openraft's macro declares types without any")]

mod crashes;
mod machine;
mod opening;
mod reading;
mod suite;

openraft::declare_raft_types!(
    /// Entries are strings.
    pub Types: D = String, R = String
);

openraft::declare_raft_types!(
    /// Entries are payloads that are counted while they are in memory.
    pub Counting: D = reading::Counted, R = String
);
