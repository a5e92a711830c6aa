//! Reads at a leader that is cut off, while the other replicas elect a new leader as soon as they
//! can.
//!
//! A test may do what the faults of `world` do only by a rare coincidence: for example, a voter
//! restarts while the old leader's lease lasts, or an answer to an append comes late. The leader's
//! clock is slow and the others' clocks are fast, by less than the factor of two that
//! [`ReadAt::Lease`] admits. In each millisecond a client reads at the old leader, by lease or, in
//! one test, by a majority. A read that begins after the new leader has acknowledged a write must
//! not return the value before that write.

use super::machine::{Ending, Machine};
use super::network::{Network, address};
use crate::client_message::{ClientCall, ClientReply, Key, ReadAt};
use crate::ids::{ReplicaId, RequestId};
use crate::status::{Role, Status};
use crate::write_set::WriteSet;
use katydid::EngineKind;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Milliseconds after which a state that must come is missing.
const LONG_MS: u64 = 20_000;
/// Runs of each scenario, with different delays and election time-outs.
const SEEDS: u64 = 20;
/// Rates of the clocks of the old leader and of the other replicas.
const RATES: [f64; 2] = [0.6, 1.15];

/// A group of three machines.
struct Trio {
    network: Arc<Network>,
    machines: Vec<Machine>,
    now_ms: u64,
    /// Session of the client.
    client: u64,
}

impl Trio {
    /// Starts a group, and writes the value 1.
    fn new(seed: u64) -> Trio {
        fastrand::seed(seed);
        let engine = if seed.is_multiple_of(2) { EngineKind::Paged } else { EngineKind::Memory };
        let network = Network::new(seed, 500);
        let machines: Vec<_> =
            (1..=3).map(|host| Machine::new(host, engine, &network, seed + host)).collect();
        let mut trio = Trio { network, machines, now_ms: 0, client: 0 };
        trio.machines.iter_mut().for_each(|machine| machine.start().expect("an empty machine starts"));
        let members = (1..=3).map(|id| (id, address(id))).collect();
        assert_eq!(trio.ended(1, ClientCall::Initialize { members }), ClientReply::Done);
        trio.until(|trio| trio.machines.iter().any(|machine| trio.leads(machine.host)));
        let leader = trio.leader();
        let ClientReply::Client(client) = trio.ended(leader, ClientCall::OpenClient) else {
            panic!("no session")
        };
        trio.client = client;
        let call = trio.write("x", 1);
        assert!(matches!(trio.ended(leader, call), ClientReply::Committed { .. }));
        trio
    }

    fn machine(&mut self, host: ReplicaId) -> &mut Machine {
        &mut self.machines[host as usize - 1]
    }

    fn status(&self, host: ReplicaId) -> Status {
        self.machines[host as usize - 1].status().expect("the machine runs")
    }

    fn leads(&self, host: ReplicaId) -> bool {
        self.status(host).role == Role::Leader
    }

    fn leader(&self) -> ReplicaId {
        (1..=3).find(|host| self.leads(*host)).expect("a leader")
    }

    /// Lets one millisecond pass.
    fn step(&mut self) {
        self.now_ms += 1;
        self.network.advance(self.now_ms * 1_000);
        self.machines.iter_mut().for_each(|machine| machine.run(1));
    }

    fn until(&mut self, is_so: impl Fn(&Trio) -> bool) {
        let end = self.now_ms + LONG_MS;
        while !is_so(self) {
            assert!(self.now_ms < end, "the state does not come");
            self.step();
        }
    }

    /// Lets time pass until a call has ended, and returns the reply.
    fn ended(&mut self, host: ReplicaId, call: ClientCall) -> ClientReply {
        let mut call = self.machine(host).call(call);
        let end = self.now_ms + LONG_MS;
        loop {
            if let Some(reply) = self.machine(host).reply(&mut call) {
                return reply;
            }
            assert!(self.now_ms < end, "the call does not end");
            self.step();
        }
    }

    /// Cuts the messages from each of `from` to each of `to`.
    fn cut(&self, from: &[ReplicaId], to: &[ReplicaId]) {
        for (from, to) in from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to))) {
            self.network.cut(from, to);
        }
    }

    fn restart(&mut self, host: ReplicaId) {
        self.machine(host).end(Ending::Kill, false);
        self.machine(host).start().expect("the machine starts");
    }

    fn skew(&mut self, old: ReplicaId) {
        for machine in &mut self.machines {
            machine.rate = RATES[usize::from(machine.host != old)];
        }
    }

    fn write(&self, key: &str, value: u8) -> ClientCall {
        let id = RequestId { client: self.client, sequence: value.into() };
        ClientCall::Write { id, set: WriteSet::default().put("t", key, [value]), all: false, wait_ms: 10_000 }
    }

    /// Writes the value 2 at the first replica besides `old` that leads, and meanwhile reads by
    /// lease at `old`. Returns the number of reads that returned the value 1.
    fn race(&mut self, old: ReplicaId, at: ReadAt) -> u64 {
        let read = ClientCall::Get { table: "t".into(), key: Key(b"x".into()), at };
        let (mut reads, mut count) = (Vec::<(bool, JoinHandle<ClientReply>)>::new(), 0);
        let mut written: Option<(ReplicaId, JoinHandle<ClientReply>)> = None;
        let (mut is_acknowledged, end) = (false, self.now_ms + LONG_MS);
        let mut left = 1_000;
        while left > 0 {
            assert!(self.now_ms < end, "no other replica acknowledges the write");
            left -= u64::from(is_acknowledged);
            reads.push((is_acknowledged, self.machine(old).call(read.clone())));
            self.step();
            for (is_late, mut call) in std::mem::take(&mut reads) {
                match self.machine(old).reply(&mut call) {
                    None => reads.push((is_late, call)),
                    Some(ClientReply::Value(Some(value))) if value[..] == [1] => {
                        assert!(!is_late, "a read by lease misses a write that was acknowledged before");
                        count += 1;
                    }
                    Some(_) => {}
                }
            }
            match &mut written {
                None => {
                    let leader = (1..=3).find(|host| *host != old && self.leads(*host));
                    let call = self.write("x", 2);
                    written = leader.map(|host| (host, self.machine(host).call(call)));
                }
                Some((host, call)) if !is_acknowledged => {
                    let host = *host;
                    match self.machines[host as usize - 1].reply(call) {
                        None => {}
                        Some(ClientReply::Committed { .. }) => is_acknowledged = true,
                        Some(_) => written = None,
                    }
                }
                Some(_) => {}
            }
        }
        count
    }
}

/// Runs a scenario with several seeds. The scenario gets the old leader and the other replicas.
/// When it has ended, another replica may lead without the old leader knowing. Returns the number
/// of reads that returned the value 1.
fn scenario(at: ReadAt, cut_off: impl Fn(&mut Trio, ReplicaId, [ReplicaId; 2])) -> u64 {
    let mut count = 0;
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let mut trio = Trio::new(seed);
        let old = trio.leader();
        let mut others = (1..=3).filter(|host| *host != old);
        let others = [others.next().expect("a replica"), others.next().expect("a replica")];
        trio.skew(old);
        cut_off(&mut trio, old, others);
        count += trio.race(old, at);
    }
    count
}

#[test]
fn a_lease_holds_while_the_other_replicas_restart() {
    let reads = scenario(ReadAt::Lease, |trio, old, others| {
        trio.cut(&[old], &others);
        trio.cut(&others, &[old]);
        others.into_iter().for_each(|host| trio.restart(host));
    });
    assert!(reads > SEEDS, "the old leader answers by lease: {reads}");
}

#[test]
fn a_lease_holds_while_the_voter_that_confirmed_it_restarts() {
    let reads = scenario(ReadAt::Lease, |trio, old, [one, other]| {
        // From here on only one voter confirms the leader, and the other voter would stand for
        // election if that one voted for it.
        trio.cut(&[old], &[other]);
        trio.cut(&[other], &[old]);
        let end = trio.now_ms + 1_000;
        trio.until(|trio| trio.now_ms >= end);
        trio.cut(&[old], &[one]);
        trio.cut(&[one], &[old]);
        trio.restart(one);
    });
    assert!(reads > SEEDS, "the old leader answers by lease: {reads}");
}

#[test]
fn a_late_answer_renews_no_lease() {
    let reads = scenario(ReadAt::Lease, |trio, old, [one, other]| {
        // The leader sends an entry, and its later messages are lost. The first answer commits the
        // entry, so the leader sends the other voter a message that this voter never gets. The
        // answer of the other voter follows, and openraft takes it for the answer to that message.
        trio.network.slow(one, old, 200_000);
        trio.network.slow(other, old, 210_000);
        let call = trio.write("y", 3);
        drop(trio.machine(old).call(call));
        (0..3).for_each(|_| trio.step());
        trio.cut(&[old], &[one, other]);
    });
    assert!(reads > SEEDS, "the old leader answers by lease at first: {reads}");
}

#[test]
fn an_answer_that_is_too_late_confirms_no_read() {
    // The answers come when the others may have elected a new leader. A read that asks a majority
    // waits for them.
    scenario(ReadAt::Leader, |trio, old, [one, other]| {
        let late = if fastrand::bool() { 290_000 } else { 320_000 };
        trio.network.slow(one, old, late);
        trio.network.slow(other, old, late + 10_000);
        let call = trio.write("y", 3);
        drop(trio.machine(old).call(call));
        (0..3).for_each(|_| trio.step());
        trio.cut(&[old], &[one, other]);
    });
}

#[test]
fn a_leader_that_leaves_the_voters_has_no_lease() {
    scenario(ReadAt::Lease, |trio, old, [one, other]| {
        let change = ClientCall::ChangeVoters { voters: [one].into() };
        drop(trio.machine(old).call(change));
        trio.until(|trio| trio.status(one).voters.len() == 1);
        trio.cut(&[old], &[one, other]);
        trio.cut(&[one, other], &[old]);
    });
}

#[test]
fn a_lease_ends_when_the_leadership_is_transferred() {
    let reads = scenario(ReadAt::Lease, |trio, old, others| {
        // The old leader hears of the new one late, and its lease lasts meanwhile.
        others.into_iter().for_each(|host| trio.network.slow(host, old, 40_000));
        assert_eq!(trio.ended(old, ClientCall::TransferLeader { to: others[0] }), ClientReply::Done);
    });
    assert_eq!(reads, 0, "a leader that has asked another replica to lead answers no read");
}
