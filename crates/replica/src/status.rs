//! Status of a replica and of its group.
//!
//! Any thread may use these types.

use crate::ids::ReplicaId;
use crate::types::{LogId, Types};
use openraft::{RaftMetrics, ServerState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Role of a replica in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Role {
    /// The replica that orders the writes of the group.
    Leader,
    /// A voter that follows a leader, or waits for one.
    Follower,
    /// A voter that stands for election.
    Candidate,
    /// A member that does not vote, or a replica that belongs to no group yet.
    Learner,
    /// The replica has stopped.
    Stopped,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Learner => "learner",
            Role::Stopped => "stopped",
        })
    }
}

/// State of a replica and of its group, as the replica knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// Number of the replica.
    pub id: ReplicaId,
    /// Role of the replica.
    pub role: Role,
    /// Term of the replica.
    pub term: u64,
    /// The leader, if known.
    pub leader: Option<ReplicaId>,
    /// Index of the last entry in the replica's Raft log.
    pub last_index: u64,
    /// Index of the last entry that the replica knows to be committed.
    pub committed: u64,
    /// Index of the last entry that the replica has applied.
    pub applied: u64,
    /// Index of the last entry that is purged from the replica's Raft log.
    pub purged: u64,
    /// Voters of the group.
    pub voters: BTreeSet<ReplicaId>,
    /// All members and their addresses.
    pub members: BTreeMap<ReplicaId, String>,
    /// At the leader: the index up to which each member has the log on its device.
    pub matched: BTreeMap<ReplicaId, u64>,
    /// The failure that stopped the replica.
    pub stopped: Option<String>,
}

impl Status {
    pub(crate) fn of(metrics: &RaftMetrics<Types>) -> Status {
        let index = |id: Option<LogId>| id.map_or(0, |id| id.index);
        let membership = metrics.membership_config.membership();
        let matched = metrics.replication.iter().flatten().map(|(id, matched)| (*id, index(*matched)));
        let stopped = metrics.running_state.as_ref().err().map(ToString::to_string);
        // A replica is reported as leader only once its vote is on its device, because it refuses
        // writes before that.
        let is_vote_kept = metrics.vote.committed;
        let leads_soon = metrics.current_leader == Some(metrics.id) && !is_vote_kept;
        Status {
            id: metrics.id,
            role: match metrics.state {
                _ if stopped.is_some() => Role::Stopped,
                ServerState::Leader if leads_soon => Role::Candidate,
                ServerState::Leader => Role::Leader,
                ServerState::Follower => Role::Follower,
                ServerState::Candidate => Role::Candidate,
                ServerState::Learner => Role::Learner,
                ServerState::Shutdown => Role::Stopped,
            },
            term: metrics.current_term,
            leader: metrics.current_leader.filter(|_| !leads_soon),
            last_index: metrics.last_log_index.unwrap_or(0),
            committed: index(metrics.local_committed),
            applied: index(metrics.last_applied),
            purged: index(metrics.purged),
            voters: membership.voter_ids().collect(),
            members: membership.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
            matched: matched.collect(),
            stopped,
        }
    }

    /// Returns, at the leader, the number of entries of its log that each member does not have on
    /// its device yet.
    pub fn lags(&self) -> BTreeMap<ReplicaId, u64> {
        self.matched.iter().map(|(id, matched)| (*id, self.last_index.saturating_sub(*matched))).collect()
    }
}
