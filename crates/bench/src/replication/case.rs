//! Cases of the measurements of replication.
//!
//! Pure functions.

use katydid_command::failure::Failure;
use katydid_wal::SyncKind;
use std::fmt;
use std::str::FromStr;

/// The transactions of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Inserts of keys of 20 bytes and values of 100 bytes. Each insert is a transaction.
    Insert,
    /// sysbench's `oltp_write_only`.
    Sysbench,
}

impl Work {
    /// The workload's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Work::Insert => "insert",
            Work::Sysbench => "sysbench-write",
        }
    }
}

/// The path of a commit to the replicas, and the condition on which the commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// The paper's replication (3.2): the client sends to all replicas, and each replica syncs with
    /// this protocol.
    ClientDriven(SyncKind),
    /// A Raft group that acknowledges when a majority has the entry.
    RaftQuorum,
    /// A Raft group that acknowledges when every voter has the entry.
    RaftAll,
}

impl Scheme {
    /// The paper's existing scheme, its proposed scheme, our default protocol, and Raft.
    pub const ALL: [Scheme; 5] = [
        Scheme::ClientDriven(SyncKind::Slotted),
        Scheme::ClientDriven(SyncKind::Aggregated),
        Scheme::ClientDriven(SyncKind::Adaptive),
        Scheme::RaftQuorum,
        Scheme::RaftAll,
    ];

    /// The schemes that use the paper's replication.
    pub const CLIENT_DRIVEN: [Scheme; 3] = [Scheme::ALL[0], Scheme::ALL[1], Scheme::ALL[2]];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::ClientDriven(sync) => sync.fmt(f),
            Scheme::RaftQuorum => f.pad("raft-quorum"),
            Scheme::RaftAll => f.pad("raft-all"),
        }
    }
}

impl FromStr for Scheme {
    type Err = Failure;

    fn from_str(word: &str) -> Result<Scheme, Failure> {
        match word {
            "raft-quorum" => Ok(Scheme::RaftQuorum),
            "raft-all" => Ok(Scheme::RaftAll),
            sync => sync.parse().map(Scheme::ClientDriven).map_err(|_| {
                let known: Vec<String> = SyncKind::ALL.iter().map(ToString::to_string).collect();
                let known = known.join(", ");
                Failure::usage(format_args!(
                    "no scheme {word:?}; there are {known}, raft-quorum and raft-all"
                ))
            }),
        }
    }
}

/// One case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub work: Work,
    /// Number of replicas: the paper's replication factor.
    pub replicas: usize,
    pub scheme: Scheme,
    /// Number of clients, each of which blocks in every commit.
    pub threads: usize,
}

impl Case {
    /// The case in a few words, for the progress line.
    pub fn words(&self) -> String {
        let Case { work, replicas, scheme, threads } = self;
        format!("{}, {replicas} replicas, {scheme}, {threads} clients", work.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_read_as_they_are_written() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.to_string().parse::<Scheme>().unwrap(), scheme);
        }
        assert!("raft".parse::<Scheme>().is_err());
    }
}
