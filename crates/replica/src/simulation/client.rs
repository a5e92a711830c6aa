//! Clients of the simulated group. A client writes its own register and registers that it shares
//! with others, reads all registers, and reports the answers to the oracle.
//!
//! This code runs in tasks of one runtime. A client has one write in flight at a time, as a
//! blocking thread has. If the outcome of a write is unknown, the client resolves the write or
//! sends it again.

use super::machine::CLUSTER;
use super::network::{Host, Network, Port, address};
use super::oracle::{Floors, Number, Oracle};
use super::world::CLIENTS;
use crate::caller::{Caller, range, rows};
use crate::client_message::ReadAt;
use crate::error::Error;
use crate::ids::RequestId;
use crate::options::{Replicated, WriteOptions};
use crate::write_set::WriteSet;
use crate::writing::Outcome;
use fastrand::Rng;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Table of the registers. Each register has two rows, which a write sets together.
const TABLE: &str = "registers";
/// Table of the registers that all clients write.
const SHARED: &str = "shared";
/// Number of shared registers.
const SHARED_COUNT: u8 = 2;
/// Table whose only purpose is to make snapshots and logs longer.
const FILLER: &str = "filler";
/// Time after which a call fails.
const WAIT: Duration = Duration::from_secs(3);

/// The oracle, shared by tasks.
pub type Shared = Arc<Mutex<Oracle>>;

pub fn locked(oracle: &Shared) -> MutexGuard<'_, Oracle> {
    // Only a failed invariant panics under the latch, which ends the simulation.
    oracle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a caller that reaches the group from one host.
pub fn caller(network: &Arc<Network>, host: Host, replicas: u64) -> Caller {
    let transport = Arc::new(Port { network: network.clone(), host });
    let addresses = (1..=replicas).map(address).collect();
    Caller::new(addresses, Some(CLUSTER), transport, Duration::from_millis(600))
}

/// A client of the simulated group.
pub struct Client {
    pub number: Number,
    pub caller: Caller,
    pub oracle: Shared,
    pub random: Rng,
    /// Set when the clients must end after their current call.
    pub is_over: Rc<Cell<bool>>,
}

/// The outcome of a write set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Committed, in the entry with this index.
    CommittedAt(u64),
    /// Committed, in an entry whose index the client does not know.
    Committed,
    NotCommitted,
}

fn key(client: Number, half: u8) -> Vec<u8> {
    [&client.to_be_bytes()[..], &[half]].concat()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("a number"))
}

/// Name of a row of a client's register in the history.
fn name(client: Number, half: u8) -> String {
    format!("{client}/{half}")
}

/// Name of a shared register in the history.
fn shared_name(register: u8) -> String {
    format!("shared/{register}")
}

impl Client {
    pub async fn run(mut self) {
        let session = loop {
            match self.caller.open_client(WAIT).await {
                Ok(session) => break session,
                Err(_) if self.is_over.get() => return,
                Err(_) => {}
            }
        };
        let mut id = RequestId { client: session, sequence: 0 };
        while !self.is_over.get() {
            match self.random.u8(..10) {
                0..6 => {
                    id.sequence += 1;
                    self.write(id).await;
                }
                6 => self.read_one().await,
                7 => self.read_shared().await,
                8 => {
                    let at = self.leader();
                    self.read_all(at).await;
                }
                _ => self.read_all(ReadAt::Stale(Duration::from_secs(1))).await,
            }
            tokio::time::sleep(Duration::from_millis(self.random.u64(..40))).await;
        }
        // All faults have ended, so the group must soon have a leader that acknowledges a write.
        while locked(&self.oracle).floors().get(&self.number).is_none_or(|floor| *floor != id.sequence) {
            id.sequence += 1;
            self.write(id).await;
        }
    }

    async fn write(&mut self, id: RequestId) {
        let value = [&id.sequence.to_le_bytes()[..], &vec![7; self.random.usize(..200)]].concat();
        let mut set = WriteSet::default();
        for half in [0, 1] {
            set = set.put(TABLE, key(self.number, half), &value);
        }
        if self.random.u8(..4) == 0 {
            let bytes = vec![self.random.u8(..); self.random.usize(..2_000)];
            set = set.put(FILLER, self.random.u16(..300).to_be_bytes(), bytes);
        }
        let text = id.sequence.to_string();
        let mut values: Vec<_> = [0, 1].map(|half| (name(self.number, half), text.clone())).into();
        if self.random.bool() {
            // Numbers of different clients differ.
            let (register, unique) = (self.random.u8(..SHARED_COUNT), id.sequence * 1_000 + self.number);
            set = set.put(SHARED, [register], unique.to_le_bytes());
            values.push((shared_name(register), unique.to_string()));
        }
        let durability = if self.random.u8(..8) == 0 { Replicated::All } else { Replicated::Quorum };
        {
            let mut oracle = locked(&self.oracle);
            oracle.begin(self.number, id.sequence);
            oracle.history.begin(self.number, values);
        }
        let ended = self.commit(id, set, durability).await;
        let mut oracle = locked(&self.oracle);
        oracle.history.end(self.number, ended != Ended::NotCommitted);
        match ended {
            Ended::CommittedAt(index) => oracle.acknowledge_at(self.number, id.sequence, index),
            Ended::Committed => oracle.acknowledge(self.number, id.sequence),
            Ended::NotCommitted => oracle.refuse(self.number, id.sequence),
        }
    }

    /// Sends a write set until its outcome is known.
    async fn commit(&mut self, id: RequestId, set: WriteSet, durability: Replicated) -> Ended {
        let mut is_unknown = false;
        loop {
            let options = WriteOptions { durability, wait: WAIT };
            match self.caller.write(id, set.clone(), options).await {
                Ok(committed) => return Ended::CommittedAt(committed.index),
                Err(Error::Unknown { .. }) if self.random.bool() => return self.resolve(id).await,
                Err(Error::Unknown { .. }) => is_unknown = true,
                // None of these errors can occur, because only these clients use the cluster, their
                // sets are small, and their sessions are few.
                Err(
                    error @ (Error::UnknownClient { .. }
                    | Error::TooOld { .. }
                    | Error::Inadmissible { .. }
                    | Error::Cancelled { .. }),
                ) => panic!("client {}, request {id}: {error}", self.number),
                // An earlier try may still commit.
                Err(_) if is_unknown => {}
                Err(_) => return Ended::NotCommitted,
            }
        }
    }

    /// Resolves a request, and repeats that until its outcome is known.
    async fn resolve(&mut self, id: RequestId) -> Ended {
        loop {
            match self.caller.resolve(id, WAIT).await {
                Ok(Outcome::Committed) => return Ended::Committed,
                Ok(Outcome::NotCommitted) => return Ended::NotCommitted,
                Err(error @ (Error::UnknownClient { .. } | Error::TooOld { .. })) => {
                    panic!("client {}, request {id}: {error}", self.number)
                }
                Err(_) => {}
            }
        }
    }

    /// Draws how the leader confirms a read.
    fn leader(&mut self) -> ReadAt {
        if self.random.bool() { ReadAt::Leader } else { ReadAt::Lease }
    }

    /// Reads one row of a random client's register.
    async fn read_one(&mut self) {
        let (of, half) = (self.random.u64(..4), self.random.u8(..2));
        let (floors, call) = self.begin_read();
        let at = self.leader();
        let found = self.caller.get(TABLE, &key(of, half), at, WAIT).await;
        if let Ok(value) = found {
            let value = value.as_deref().map(number);
            let mut oracle = locked(&self.oracle);
            oracle.history.read(self.number, call, [(name(of, half), value)]);
            oracle.read(of, value.unwrap_or(0), &floors);
        }
    }

    /// Reads a shared register.
    async fn read_shared(&mut self) {
        let register = self.random.u8(..SHARED_COUNT);
        let (_, call) = self.begin_read();
        let at = self.leader();
        if let Ok(value) = self.caller.get(SHARED, &[register], at, WAIT).await {
            let found = (shared_name(register), value.as_deref().map(number));
            locked(&self.oracle).history.read(self.number, call, [found]);
        }
    }

    /// Returns the floors at the beginning of a read, and the time of its call.
    fn begin_read(&self) -> (Floors, u64) {
        let mut oracle = locked(&self.oracle);
        (oracle.floors(), oracle.history.call())
    }

    /// Reads all registers in one state.
    async fn read_all(&mut self, at: ReadAt) {
        let (floors, call) = self.begin_read();
        let range = range(TABLE, Bound::Unbounded, Bound::Unbounded, 1_000, at);
        let Ok(reply) = self.caller.repeat(range, WAIT).await else { return };
        let found = rows(reply).expect("rows").rows;
        let mut oracle = locked(&self.oracle);
        let mut values = BTreeMap::new();
        for pair in found.chunks(2) {
            let [(key, one), (_, other)] = pair else { panic!("half of a write is there: {pair:?}") };
            assert!(one == other, "half of a write is there: {key:?}");
            let client = u64::from_be_bytes(key[..8].try_into().expect("a key"));
            values.insert(client, number(one));
        }
        if let ReadAt::Leader | ReadAt::Lease = at {
            let both = |client| [0, 1].map(|half| (name(client, half), values.get(&client).copied()));
            oracle.history.read(self.number, call, (0..CLIENTS).flat_map(both));
        }
        for (client, number) in values {
            match at {
                ReadAt::Leader | ReadAt::Lease => oracle.read(client, number, &floors),
                _ => oracle.sight(client, number),
            }
        }
    }
}
