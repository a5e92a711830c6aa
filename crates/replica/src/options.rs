//! Options for opening a replica.

use crate::error::{Error, Result};
use crate::ids::ReplicaId;
use crate::transport::{Tcp, Transport};
use katydid::{EngineOptions, KEY_BYTES_MAX};
use katydid_raft_log::wal;
use katydid_raft_log::wal::device::Directory;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options for opening a replica. Take [`ReplicaOptions::new`] and change what you need.
#[derive(Clone)]
pub struct ReplicaOptions {
    /// Folder of the replica, with its Raft log in `log` and its state in `state`. The folder is
    /// created if it is missing, and belongs to this replica for good.
    pub folder: PathBuf,
    /// Id of the cluster, equal at all its replicas. Replicas of other clusters are refused.
    pub cluster: [u8; 16],
    /// Number of this replica, unique in the cluster.
    pub id: ReplicaId,
    /// Address at which this replica accepts connections of replicas and clients, such as
    /// `127.0.0.1:7100`. With port 0 the system chooses a port.
    pub address: String,
    /// Options of the engine. `durability` is not used, because commits wait for the Raft log. The
    /// paged engine must have pages of at least 8,192 bytes, because smaller ones do not take the
    /// longest keys. Default: the paged engine with its defaults.
    pub engine: katydid::Options,
    /// Options of the Raft log, which is one stream in files. Default: `wal::Options::default()`.
    pub log: wal::Options,
    /// Directory of the Raft log, for example on another device, or one with an artificial delay
    /// for measurements. Default: none, which means `log` in [`ReplicaOptions::folder`].
    pub log_directory: Option<Arc<dyn Directory>>,
    /// Transport of connections to and from other replicas and clients. Default: [`Tcp`], without
    /// encryption.
    pub transport: Arc<dyn Transport>,
    /// Time between two heartbeats of a leader; at least 10 ms. Default: 100 ms.
    pub heartbeat: Duration,
    /// Base of the election time-out. A voter that hears no leader stands for election after a
    /// random time between 1.4 and 2 times this value. At least three times `heartbeat`, at most 1
    /// h. Reads by lease are right only if all replicas have the same value. Default: 500 ms.
    pub election: Duration,
    /// Number of entries of the Raft log between two snapshots. A snapshot syncs the engine once,
    /// and lets the log be purged. At least 1. Default: 50,000.
    pub snapshot_entries: u64,
    /// Number of entries that the log retains below a snapshot, for replicas that lag. A replica
    /// that lags more gets the snapshot. Default: 50,000.
    pub kept_entries: u64,
    /// Time that another replica may take to install a snapshot after the snapshot's last byte was
    /// sent. Also the maximum time between two parts of a snapshot. Default: 10 min.
    pub install_wait: Duration,
    /// Maximum number of writes in flight at this replica, from 1 to 1,048,576; further writes
    /// wait. Default: 4,096.
    pub in_flight_max: usize,
    /// Number of threads of the replica's runtime, from 2 to 256. Default: 2.
    pub threads: usize,
}

impl ReplicaOptions {
    /// Makes the default options for a replica.
    pub fn new(
        folder: impl Into<PathBuf>,
        cluster: [u8; 16],
        id: ReplicaId,
        address: impl Into<String>,
    ) -> Self {
        ReplicaOptions {
            folder: folder.into(),
            cluster,
            id,
            address: address.into(),
            engine: katydid::Options::default(),
            log: wal::Options::default(),
            log_directory: None,
            transport: Arc::new(Tcp),
            heartbeat: Duration::from_millis(100),
            election: Duration::from_millis(500),
            snapshot_entries: 50_000,
            kept_entries: 50_000,
            install_wait: Duration::from_secs(600),
            in_flight_max: 4096,
            threads: 2,
        }
    }

    /// Checks that all values are in range.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub fn validate(&self) -> Result<()> {
        let check = |good: bool, option, reason: &str| {
            if good { Ok(()) } else { Err(Error::Option { option, reason: reason.to_owned() }) }
        };
        check(self.heartbeat >= Duration::from_millis(10), "heartbeat", "must be at least 10 ms")?;
        let least = self.heartbeat.saturating_mul(3);
        check(self.election >= least, "election", "must be at least three times the heartbeat")?;
        check(self.election <= Duration::from_secs(3600), "election", "must be at most an hour")?;
        check(self.snapshot_entries >= 1, "snapshot_entries", "must be at least 1")?;
        check((1..=1 << 20).contains(&self.in_flight_max), "in_flight_max", "must be from 1 to 1,048,576")?;
        check((2..=256).contains(&self.threads), "threads", "must be from 2 to 256")?;
        self.engine.validate()?;
        // An entry with a key that the engine does not take would stop the replica, and stop it
        // again each time it is opened.
        let takes_keys = match self.engine.engine {
            EngineOptions::Paged(paged) => paged.page_bytes >= 8 * KEY_BYTES_MAX,
            EngineOptions::Memory(_) => true,
        };
        check(takes_keys, "engine", "must have pages of at least 8,192 bytes, which take the longest keys")
    }

    /// Maximum age of a majority's confirmation by which a leader answers [`ReadAt::Lease`].
    /// openraft may count a confirmation as a tenth of `election` younger than it is
    /// (`confirmations`). So a lease ends within half of the time in which a voter that has
    /// confirmed the leader votes for no other replica, and a leader's clock may run half as fast
    /// as a voter's.
    ///
    /// [`ReadAt::Lease`]: crate::ReadAt::Lease
    pub(crate) fn lease(&self) -> Duration {
        self.voters_refuse() * 2 / 5
    }

    /// Time in which a voter that has confirmed a leader votes for no other replica: `election` in
    /// whole milliseconds, as openraft gets it.
    pub(crate) fn voters_refuse(&self) -> Duration {
        Duration::from_millis(ms(self.election))
    }

    pub(crate) fn group(&self) -> Result<openraft::Config> {
        let config = openraft::Config {
            cluster_name: format!("{:032x}", u128::from_be_bytes(self.cluster)),
            heartbeat_interval: ms(self.heartbeat),
            // Before it stands for election, a follower waits for the leader's lease, which is as
            // long as the longest time-out, and then for a random time-out. The sum of the two is
            // 1.4 to 2 times `election`. openraft gives up waiting for an answer to a vote after
            // the shortest time-out, which must exceed a heartbeat.
            election_timeout_min: ms(self.election) * 2 / 5,
            election_timeout_max: ms(self.election),
            install_snapshot_timeout: ms(self.install_wait),
            max_payload_entries: 1024,
            replication_lag_threshold: u64::MAX,
            snapshot_policy: openraft::SnapshotPolicy::LogsSinceLast(self.snapshot_entries),
            max_in_snapshot_log_to_keep: self.kept_entries,
            enable_pre_vote: Some(true),
            // A leader sends entries before it syncs them. After a restart it may have lost such
            // entries, and its committed index. If it continued to lead under its old vote, it
            // would write other entries at the indices of the lost ones, and answer reads from a
            // state that is too old.
            enable_leader_restore: Some(false),
            ..openraft::Config::default()
        };
        let wrong =
            |error: openraft::ConfigError| Error::Option { option: "election", reason: error.to_string() };
        config.validate().map_err(wrong)
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for ReplicaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaOptions")
            .field("folder", &self.folder)
            .field("id", &self.id)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The condition for acknowledging a write: the replicas that must have the write's entry durable
/// in their Raft logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Replicated {
    /// A majority of the voters. The write survives the loss of any minority.
    #[default]
    Quorum,
    /// Every voter. If voters take longer than [`WriteOptions::wait`], a write that has committed
    /// is acknowledged all the same, and [`Committed::unconfirmed`] names them.
    ///
    /// [`Committed::unconfirmed`]: crate::Committed::unconfirmed
    All,
}

/// Options of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Condition for acknowledging the write. Default: [`Replicated::Quorum`].
    pub durability: Replicated,
    /// Maximum time to wait for the condition `durability`. After a time-out the outcome is
    /// unknown, except that a write with [`Replicated::All`] is acknowledged if it has committed.
    /// Default: 10 s.
    pub wait: Duration,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions { durability: Replicated::Quorum, wait: Duration::from_secs(10) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid::PagedOptions;

    #[test]
    fn an_engine_that_does_not_take_the_longest_keys_is_refused() {
        let mut options = ReplicaOptions::new("unused", [1; 16], 1, "127.0.0.1:0");
        options.validate().expect("the defaults are in range");
        for (page_bytes, option) in [(4096, "engine"), (5000, "page_bytes")] {
            options.engine.engine = PagedOptions { page_bytes, ..PagedOptions::default() }.into();
            let refused = options.validate().expect_err("refused");
            assert!(refused.to_string().contains(option), "{refused}");
        }
    }
}
