//! Clients of the simulated group. A client writes its own register, reads all registers, and
//! reports the answers to the oracle.
//!
//! This code runs in tasks of one runtime. A client has one write in flight at a time, as a
//! blocking thread has. If the outcome of a write is unknown, the client resolves the write or
//! sends it again.

use super::machine::CLUSTER;
use super::network::{Host, Network, Port, address};
use super::oracle::{Number, Oracle};
use crate::caller::{Caller, range, rows};
use crate::client_message::ReadAt;
use crate::error::Error;
use crate::ids::RequestId;
use crate::options::{Replicated, WriteOptions};
use crate::write_set::WriteSet;
use crate::writing::Outcome;
use fastrand::Rng;
use std::cell::Cell;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Table of the registers. Each register has two rows, which a write sets together.
const TABLE: &str = "registers";
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

fn key(client: Number, half: u8) -> Vec<u8> {
    [&client.to_be_bytes()[..], &[half]].concat()
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().expect("a number")))
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
                6..8 => self.read_one().await,
                8 => self.read_all(ReadAt::Leader).await,
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
        let durability = if self.random.u8(..8) == 0 { Replicated::All } else { Replicated::Quorum };
        locked(&self.oracle).begin(self.number, id.sequence);
        let mut is_unknown = false;
        loop {
            let options = WriteOptions { durability, wait: WAIT };
            match self.caller.write(id, set.clone(), options).await {
                Ok(committed) => {
                    return locked(&self.oracle).acknowledge_at(self.number, id.sequence, committed.index);
                }
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
                Err(_) => return locked(&self.oracle).refuse(self.number, id.sequence),
            }
        }
    }

    /// Resolves a request, and repeats that until its outcome is known.
    async fn resolve(&mut self, id: RequestId) {
        loop {
            match self.caller.resolve(id, WAIT).await {
                Ok(Outcome::Committed) => return locked(&self.oracle).acknowledge(self.number, id.sequence),
                Ok(Outcome::NotCommitted) => return locked(&self.oracle).refuse(self.number, id.sequence),
                Err(error @ (Error::UnknownClient { .. } | Error::TooOld { .. })) => {
                    panic!("client {}, request {id}: {error}", self.number)
                }
                Err(_) => {}
            }
        }
    }

    /// Reads one row of a random client's register.
    async fn read_one(&mut self) {
        let of = self.random.u64(..4);
        let floors = locked(&self.oracle).floors();
        let found = self.caller.get(TABLE, &key(of, self.random.u8(..2)), ReadAt::Leader, WAIT).await;
        if let Ok(value) = found {
            locked(&self.oracle).read(of, number(value), &floors);
        }
    }

    /// Reads all registers in one state.
    async fn read_all(&mut self, at: ReadAt) {
        let floors = locked(&self.oracle).floors();
        let call = range(TABLE, Bound::Unbounded, Bound::Unbounded, 1_000, at);
        let Ok(reply) = self.caller.repeat(call, WAIT).await else { return };
        let found = rows(reply).expect("rows").rows;
        let mut oracle = locked(&self.oracle);
        for pair in found.chunks(2) {
            let [(key, one), (_, other)] = pair else { panic!("half of a write is there: {pair:?}") };
            assert!(one == other, "half of a write is there: {key:?}");
            let client = u64::from_be_bytes(key[..8].try_into().expect("a key"));
            let number = number(Some(one.clone()));
            match at {
                ReadAt::Leader => oracle.read(client, number, &floors),
                _ => oracle.sight(client, number),
            }
        }
    }
}
