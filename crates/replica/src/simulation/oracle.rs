//! The oracle: stores the answers that clients got, and checks which values a read may return.
//!
//! The simulation has one thread. Each client writes its own register, one write at a time, with
//! increasing numbers. A read must return at least the largest number that was acknowledged or read
//! before the read began, and at most the largest number whose write has begun. It must not return
//! a number whose write was reported as not committed. For registers with one writer each these
//! checks amount to linearizability. Several clients write the shared registers, which only a
//! checker outside of this project checks (`history`).

use super::history::History;
use crate::ids::ReplicaId;
use std::collections::{BTreeMap, BTreeSet};

/// A client of the simulation.
pub type Number = u64;

/// The register of a client.
#[derive(Debug, Default)]
struct Register {
    /// The largest number that was acknowledged or read.
    floor: u64,
    /// The largest number whose write has begun.
    begun: u64,
    /// Numbers whose writes never commit.
    refused: BTreeSet<u64>,
}

/// The answers that clients got, and the checks of later answers.
#[derive(Debug, Default)]
pub struct Oracle {
    registers: BTreeMap<Number, Register>,
    /// For each leadership, named by term and replica, the life of the replica that won it.
    leaders: BTreeMap<(u64, ReplicaId), u64>,
    /// The largest term of any replica so far.
    term: u64,
    /// The largest index of an acknowledged write, by the largest term at the time of the
    /// acknowledgement.
    acknowledged_at: BTreeMap<u64, u64>,
    /// The history, for a checker outside of this project.
    pub history: History,
    pub acknowledged: u64,
    pub refused: u64,
    pub reads: u64,
}

/// The smallest number that a read which begins now may return, by client.
pub type Floors = BTreeMap<Number, u64>;

impl Oracle {
    pub fn new() -> Self {
        Oracle { history: History::new(), ..Oracle::default() }
    }

    pub fn begin(&mut self, client: Number, number: u64) {
        self.registers.entry(client).or_default().begun = number;
    }

    /// Notes that a write was acknowledged with the index of its entry.
    pub fn acknowledge_at(&mut self, client: Number, number: u64, index: u64) {
        let at = self.acknowledged_at.entry(self.term).or_default();
        *at = index.max(*at);
        self.acknowledge(client, number);
    }

    pub fn acknowledge(&mut self, client: Number, number: u64) {
        let register = self.registers.entry(client).or_default();
        assert!(!register.refused.contains(&number), "client {client}: {number} was refused before");
        register.floor = register.floor.max(number);
        self.acknowledged += 1;
    }

    /// Notes that a write has not committed and never will.
    pub fn refuse(&mut self, client: Number, number: u64) {
        let register = self.registers.entry(client).or_default();
        assert!(register.floor < number, "client {client}: {number} was acknowledged or read before");
        register.refused.insert(number);
        self.refused += 1;
    }

    pub fn floors(&self) -> Floors {
        self.registers.iter().map(|(client, register)| (*client, register.floor)).collect()
    }

    /// Checks a number that a read found in a register. `floors` are the floors at the beginning of
    /// the read.
    pub fn read(&mut self, client: Number, number: u64, floors: &Floors) {
        let floor = floors.get(&client).copied().unwrap_or(0);
        assert!(
            number >= floor,
            "client {client}: read {number}, and {floor} was acknowledged or read before"
        );
        self.sight(client, number);
        let register = self.registers.entry(client).or_default();
        register.floor = register.floor.max(number);
        self.reads += 1;
    }

    /// Checks a number that was found in a register in a state of any age.
    pub fn sight(&mut self, client: Number, number: u64) {
        let register = self.registers.entry(client).or_default();
        assert!(number <= register.begun, "client {client}: {number} is there, and was never written");
        assert!(!register.refused.contains(&number), "client {client}: {number} is there, and was refused");
    }

    /// Notes the term of a replica.
    pub fn hear_term(&mut self, term: u64) {
        self.term = self.term.max(term);
    }

    /// Notes that a replica claims to lead, in its life number `life` and with a log up to
    /// `last_index`. Checks the claim.
    pub fn lead(&mut self, term: u64, replica: ReplicaId, life: u64, last_index: u64) {
        let led = self.leaders.get(&(term, replica)).copied();
        if let Some(led) = led {
            assert_eq!(led, life, "replica {replica} leads in term {term} again after a restart");
            return;
        }
        self.leaders.insert((term, replica), life);
        // An acknowledged entry was committed in a term that some replica had at that time.
        let needed = self.acknowledged_at.range(..term).map(|(_, index)| *index).max();
        assert!(
            needed.is_none_or(|index| index <= last_index),
            "replica {replica} leads in term {term} with a log up to {last_index}, and {needed:?} was acknowledged before"
        );
    }

    /// Returns the number of leaderships.
    pub fn leaderships(&self) -> usize {
        self.leaders.len()
    }
}
