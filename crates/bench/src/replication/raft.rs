//! A Raft group whose members are processes of this machine.

use super::group::GroupStore;
use super::processes::Servers;
use katydid_command::failure::{Failure, Result};
use katydid_replica::{Client, ClientOptions, ReadAt, ReplicaId, Replicated, Role, Status, WriteOptions};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

/// Time in which a group must elect a leader, and a commit must get its outcome.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// A replica must apply all entries of the log within [`PATIENCE`] plus this time for each entry.
const PER_ENTRY: Duration = Duration::from_millis(1);
/// Pause between two checks for an expected state.
const PAUSE: Duration = Duration::from_millis(2);
/// Number of rows that one request asks for.
const ROWS: u32 = 10_000;

/// A group, and a client of it.
#[derive(Debug)]
pub struct RaftGroup {
    pub servers: Servers,
    pub client: Client,
    addresses: BTreeMap<ReplicaId, String>,
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error)
}

/// Calls `look` until it returns a value. Fails with the message `else_` after `limit`.
pub fn wait_for<T>(limit: Duration, else_: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(found) = look() {
            return Ok(found);
        }
        std::thread::sleep(PAUSE);
    }
    Err(Failure::failed(else_))
}

impl RaftGroup {
    /// Makes a group of new servers, and waits for its leader.
    pub fn of(servers: Servers) -> Result<RaftGroup> {
        let addresses: BTreeMap<ReplicaId, String> =
            (1..).zip(servers.addresses().map(str::to_owned)).collect();
        let client = Client::new(ClientOptions::new(addresses.values().cloned())).map_err(failed)?;
        client.initialize(&addresses[&1], &addresses).map_err(failed)?;
        let group = RaftGroup { servers, client, addresses };
        group.leader()?;
        Ok(group)
    }

    /// The status of a member, if it answers.
    pub fn status(&self, id: ReplicaId) -> Option<Status> {
        self.client.status(self.addresses.get(&id)?).ok()
    }

    /// Waits for a leader, and returns its status.
    pub fn leader(&self) -> Result<Status> {
        let leads = |status: &Status| status.role == Role::Leader;
        wait_for(PATIENCE, "the servers elect no leader", || {
            self.addresses.keys().find_map(|id| self.status(*id).filter(leads))
        })
    }

    /// Makes a store of this group. A commit of the store is acknowledged when it is replicated as
    /// `durability` says.
    pub fn store(&self, durability: Replicated) -> GroupStore {
        GroupStore::new(self.client.clone(), WriteOptions { durability, wait: PATIENCE }, ReadAt::Leader)
    }

    /// Waits until every member has applied the leader's last entry. Checks that `table` has
    /// `acknowledged` rows at every member: one for each acknowledged insert.
    pub fn check(&self, table: &str, acknowledged: u64) -> Result<()> {
        let last = self.leader()?.last_index;
        for (id, address) in &self.addresses {
            self.wait_until_applied(*id, last)?;
            let rows = self.count(address, table)?;
            if rows != acknowledged {
                return Err(Failure::failed(format_args!(
                    "{rows} rows are at the server at {address}, but {acknowledged} inserts were acknowledged: this is a bug"
                )));
            }
        }
        Ok(())
    }

    /// Waits until a member has applied this entry.
    pub fn wait_until_applied(&self, id: ReplicaId, index: u64) -> Result<()> {
        let limit = PATIENCE + PER_ENTRY * u32::try_from(index).unwrap_or(u32::MAX);
        wait_for(limit, &format!("server {id} does not catch up"), || {
            self.status(id).filter(|status| status.applied >= index)
        })?;
        Ok(())
    }

    /// Number of rows of a table that a member has applied.
    fn count(&self, address: &str, table: &str) -> Result<u64> {
        let (mut low, mut count) = (Bound::Unbounded, 0);
        loop {
            let bounds = (low, Bound::Unbounded);
            let found =
                self.client.range_at(address, table, bounds, ROWS, ReadAt::Applied).map_err(failed)?;
            count += found.rows.len() as u64;
            match found.rows.last() {
                Some((last, _)) if !found.is_whole => low = Bound::Excluded(last.clone()),
                _ => return Ok(count),
            }
        }
    }

    /// Stops the group.
    pub fn stop(self) -> Result<()> {
        drop(self.client);
        self.servers.stop()
    }
}
