//! A simulated world: machines, a network, clients, an operator, and the faults that a seed draws.
//!
//! The simulation has one thread. Time advances in steps of 1 to 6 ms. In each step the machines
//! run one after another, in a random order, and then the clients run. Faults begin at random times
//! and end after a while. At the end of a run all faults are repaired, the clients write once more,
//! and all members must be equal. One seed determines all random choices, and so the whole run.

use super::client::{Client, Shared, caller, locked};
use super::machine::{Ending, Machine, runtime};
use super::network::{Host, Micros, Network, address};
use super::oracle::Oracle;
use crate::client_message::{ClientCall, ClientReply};
use crate::ids::ReplicaId;
use crate::status::Role;
use crate::store::{Row, View};
use fastrand::Rng;
use katydid::EngineKind;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, LocalSet};

/// Number of clients.
pub const CLIENTS: u64 = 4;
/// Maximum simulated milliseconds from the end of all faults until the clients have written and the
/// members are equal.
const REST_MS: u64 = 120_000;
/// Host of the operator. The hosts of clients have larger numbers.
const OPERATOR: Host = 100;

/// Frequency of each fault, and length of a run. A seed leaves some faults out, so that the
/// remaining faults coincide more often (swarm testing).
#[derive(Debug, Clone)]
pub struct Mix {
    /// Number of machines. Three begin as a group; the others may join.
    pub machines: u64,
    /// Length of the part with faults, in simulated milliseconds.
    pub length_ms: u64,
    /// Longest time between two faults in milliseconds.
    pub apart_ms: u64,
    /// The longest usual delay of the network.
    pub delay_max: Micros,
    /// Probability in percent that a machine whose term has grown loses power at once.
    pub cut_after_vote: u8,
    /// Weight of each fault, in the order of [`Fault`].
    pub weights: [u8; FAULTS],
}

const FAULTS: usize = 10;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    PowerCut,
    PowerCutOfAll,
    Pause,
    Isolate,
    CutOneWay,
    Slow,
    Reset,
    Disk,
    Skew,
}

const ALL: [Fault; FAULTS] = [
    Fault::Kill,
    Fault::PowerCut,
    Fault::PowerCutOfAll,
    Fault::Pause,
    Fault::Isolate,
    Fault::CutOneWay,
    Fault::Slow,
    Fault::Reset,
    Fault::Disk,
    Fault::Skew,
];

impl Mix {
    /// Draws the mix of a seed.
    pub fn of(random: &mut Rng) -> Mix {
        let mut weights = [0; FAULTS];
        weights.iter_mut().for_each(|weight| *weight = if random.bool() { random.u8(1..6) } else { 0 });
        Mix {
            machines: random.u64(3..=5),
            length_ms: random.u64(3_000..9_000),
            apart_ms: random.u64(200..1_500),
            delay_max: [500, 2_000, 10_000][random.usize(..3)],
            cut_after_vote: if random.u8(..4) == 0 { 10 } else { 0 },
            weights,
        }
    }

    /// Makes a mix with many elections, and with machines that lose power when they have voted.
    pub fn elections() -> Mix {
        let mut weights = [0; FAULTS];
        (weights[Fault::PowerCut as usize], weights[Fault::Isolate as usize]) = (2, 2);
        (weights[Fault::Pause as usize], weights[Fault::CutOneWay as usize]) = (1, 2);
        Mix { machines: 3, length_ms: 8_000, apart_ms: 800, delay_max: 20_000, cut_after_vote: 30, weights }
    }

    fn fault(&self, random: &mut Rng) -> Option<Fault> {
        let sum: u32 = self.weights.iter().map(|weight| u32::from(*weight)).sum();
        let mut at = (sum > 0).then(|| random.u32(..sum))?;
        ALL.into_iter().find(|fault| {
            let weight = u32::from(self.weights[*fault as usize]);
            let is_it = at < weight;
            at = at.wrapping_sub(weight);
            is_it
        })
    }
}

/// A simulated world: machines, a network, clients, an operator and faults.
pub struct World {
    mix: Mix,
    random: Rng,
    network: Arc<Network>,
    machines: Vec<Machine>,
    oracle: Shared,
    now_ms: u64,
    /// Ends of faults, by time in milliseconds. An entry with a host restarts or resumes the
    /// machine; an entry without one heals the network.
    mends: Vec<(u64, Option<Host>)>,
    terms: BTreeMap<Host, u64>,
    clients: Runtime,
    tasks: LocalSet,
    /// The clients' tasks and the operator's.
    handles: Vec<JoinHandle<()>>,
    /// Machines with a failing disk.
    failing: BTreeSet<Host>,
    is_over: Rc<Cell<bool>>,
    /// Hash of all events, so that two runs can be compared.
    trace: u64,
    faults: u64,
    log: Vec<String>,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    pub acknowledged: u64,
    pub refused: u64,
    pub reads: u64,
    pub leaderships: usize,
    pub faults: u64,
    /// Hash of all events. Two runs of one seed have equal hashes.
    pub trace: u64,
}

impl World {
    /// Runs a seed to its end.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn run(seed: u64, mix: Option<Mix>) -> Summary {
        // openraft, the engine and the clients' pauses draw from the thread's generator.
        fastrand::seed(seed);
        let mut random = Rng::with_seed(seed);
        let name = format!("{}-{seed}", if mix.is_some() { "elections" } else { "clusters" });
        let mix = mix.unwrap_or_else(|| Mix::of(&mut random));
        let engine = if random.bool() { EngineKind::Paged } else { EngineKind::Memory };
        let network = Network::new(random.u64(..), mix.delay_max);
        let machine = |host| Machine::new(host, engine, &network, random.u64(..));
        let machines: Vec<Machine> = (1..=mix.machines).map(machine).collect();
        let mut world = World {
            mix,
            random,
            network,
            machines,
            oracle: Arc::new(Mutex::new(Oracle::new())),
            now_ms: 0,
            mends: Vec::new(),
            terms: BTreeMap::new(),
            clients: runtime(),
            tasks: LocalSet::new(),
            handles: Vec::new(),
            failing: BTreeSet::new(),
            is_over: Rc::default(),
            trace: 0,
            faults: 0,
            log: Vec::new(),
        };
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.play()));
        locked(&world.oracle).history.store(&name);
        if let Err(panic) = played {
            world.log.iter().for_each(|line| eprintln!("{line}"));
            std::panic::resume_unwind(panic);
        }
        let oracle = locked(&world.oracle);
        Summary {
            acknowledged: oracle.acknowledged,
            refused: oracle.refused,
            reads: oracle.reads,
            leaderships: oracle.leaderships(),
            faults: world.faults,
            trace: world.trace,
        }
    }

    fn play(&mut self) {
        self.note(format!("{:?}", self.mix));
        for machine in &mut self.machines {
            machine.start().expect("an empty machine starts");
        }
        self.begin();
        let mut next = 500;
        while self.now_ms < self.mix.length_ms {
            self.step();
            if self.now_ms >= next {
                next = self.now_ms + self.random.u64(20..=self.mix.apart_ms);
                if let Some(fault) = self.mix.fault(&mut self.random) {
                    self.faults += 1;
                    self.happen(fault);
                }
            }
        }
        self.rest();
    }

    fn note(&mut self, line: String) {
        self.trace = line.bytes().fold(self.trace ^ self.now_ms, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.log.push(format!("{:6} ms  {line}", self.now_ms));
    }

    /// Makes the group, and starts clients and the operator.
    fn begin(&mut self) {
        let (network, replicas) = (self.network.clone(), self.mix.machines);
        let members: BTreeMap<ReplicaId, String> = (1..=3).map(|id| (id, address(id))).collect();
        for number in 0..CLIENTS {
            let client = Client {
                number,
                caller: caller(&network, OPERATOR + 1 + number, replicas),
                oracle: self.oracle.clone(),
                random: Rng::with_seed(self.random.u64(..)),
                is_over: self.is_over.clone(),
            };
            self.handles.push(self.tasks.spawn_local(client.run()));
        }
        let caller = caller(&network, OPERATOR, replicas);
        let (random, is_over) = (Rng::with_seed(self.random.u64(..)), self.is_over.clone());
        self.handles.push(self.tasks.spawn_local(async move {
            let wait = Duration::from_secs(2);
            let made = ClientCall::Initialize { members };
            // After a lost answer the second call fails with `Members`, because the group exists
            // already.
            while !matches!(
                caller.call_at(&address(1), &made, wait).await,
                Ok(ClientReply::Done) | Err(crate::Error::Members { .. })
            ) {}
            operate(caller, random, replicas, is_over).await;
        }));
    }

    fn step(&mut self) {
        let ms = self.random.u64(1..=6);
        self.now_ms += ms;
        self.network.advance(self.now_ms * 1_000);
        let mut order: Vec<usize> = (0..self.machines.len()).collect();
        self.random.shuffle(&mut order);
        for at in order {
            self.machines[at].run(ms);
            self.look(at);
        }
        let sleep = async { tokio::time::sleep(Duration::from_millis(ms)).await };
        self.tasks.block_on(&self.clients, sleep);
        for done in self.handles.extract_if(.., |handle| handle.is_finished()) {
            if let Err(failed) = self.tasks.block_on(&self.clients, done) {
                std::panic::resume_unwind(failed.into_panic());
            }
        }
        let due: Vec<Option<Host>> =
            self.mends.extract_if(.., |(at, _)| *at <= self.now_ms).map(|(_, host)| host).collect();
        due.into_iter().for_each(|host| self.mend(host));
    }

    /// Checks the status of a machine.
    fn look(&mut self, at: usize) {
        let Some(status) = self.machines[at].status() else { return };
        let host = self.machines[at].host;
        locked(&self.oracle).hear_term(status.term);
        if status.role == Role::Leader {
            let life = self.machines[at].lives;
            locked(&self.oracle).lead(status.term, host, life, status.last_index);
        }
        let before = self.terms.insert(host, status.term);
        if before != Some(status.term) {
            self.note(format!("replica {host} is {} of term {}", status.role, status.term));
            if before.is_some() && !self.is_over.get() && self.random.u8(..100) < self.mix.cut_after_vote {
                self.end(host, Ending::PowerCut, 30);
            }
        }
        if let Some(reason) = status.stopped {
            self.note(format!("replica {host} has stopped: {reason}"));
            assert!(self.failing.contains(&host), "replica {host} stops, and its disks are sound: {reason}");
            self.end(host, Ending::Kill, 500);
        }
    }

    fn machine(&mut self, host: Host) -> &mut Machine {
        &mut self.machines[host as usize - 1]
    }

    fn later(&mut self, ms_max: u64) -> u64 {
        self.now_ms + self.random.u64(1..=ms_max)
    }

    /// Ends a replica's life. The replica starts again within `ms_max` milliseconds.
    fn end(&mut self, host: Host, ending: Ending, ms_max: u64) {
        if !self.machine(host).runs() {
            return;
        }
        let is_silent = self.random.bool();
        self.machine(host).end(ending, is_silent);
        self.note(format!("replica {host}: {ending:?}"));
        let at = self.later(ms_max);
        self.mends.push((at, Some(host)));
    }

    fn happen(&mut self, fault: Fault) {
        let host = self.random.u64(1..=self.mix.machines);
        let other = (host + self.random.u64(0..self.mix.machines - 1)) % self.mix.machines + 1;
        match fault {
            Fault::Kill => self.end(host, Ending::Kill, 2_000),
            Fault::PowerCut => self.end(host, Ending::PowerCut, 2_000),
            Fault::PowerCutOfAll => {
                (1..=self.mix.machines).for_each(|host| self.end(host, Ending::PowerCut, 500));
            }
            Fault::Pause => {
                self.note(format!("replica {host} is paused"));
                self.machine(host).is_paused = true;
                let at = self.later(2_000);
                self.mends.push((at, Some(host)));
            }
            Fault::Isolate => {
                self.note(format!("replica {host} is cut off"));
                // Clients may still reach the replica, which then must not answer linearizable
                // reads.
                let others = 1..=self.mix.machines;
                for other in others.filter(|other| *other != host) {
                    self.network.cut(host, other);
                    self.network.cut(other, host);
                }
                let at = self.later(3_000);
                self.mends.push((at, None));
            }
            Fault::CutOneWay => {
                self.note(format!("replica {other} does not hear replica {host}"));
                self.network.cut(host, other);
                let at = self.later(3_000);
                self.mends.push((at, None));
            }
            Fault::Slow => {
                self.note(format!("from replica {host} to {other} is slow"));
                let by = self.random.u64(10_000..400_000);
                self.network.slow(host, other, by);
                let at = self.later(3_000);
                self.mends.push((at, None));
            }
            Fault::Reset => {
                let client = OPERATOR + self.random.u64(0..=CLIENTS);
                self.note(format!("connections of replica {host} are reset"));
                self.network.reset(host, other);
                self.network.reset(host, client);
            }
            Fault::Disk => {
                self.note(format!("a disk of replica {host} fails"));
                self.machine(host).fail_disk();
                self.failing.insert(host);
                let at = self.later(3_000);
                self.mends.push((at, Some(host)));
            }
            Fault::Skew => {
                let rate = [0.8, 0.95, 1.0, 1.05, 1.25][self.random.usize(..5)];
                self.note(format!("the clock of replica {host} runs {rate} times as fast"));
                self.machine(host).rate = rate;
            }
        }
    }

    fn mend(&mut self, host: Option<Host>) {
        let Some(host) = host else {
            self.note("the network is healed".to_owned());
            return self.network.heal();
        };
        self.machine(host).mend_disk();
        self.failing.remove(&host);
        self.machine(host).resume();
        if !self.machine(host).runs() {
            self.note(format!("replica {host} starts"));
            if let Err(error) = self.machine(host).start() {
                panic!("replica {host} does not start: {error}");
            }
            let (given, found) = (self.network.given_vote(host), self.machine(host).vote());
            assert!(
                given.is_none() || found >= given,
                "replica {host} gave {given:?} and remembers {found:?}"
            );
        }
    }

    /// Ends all faults, and waits until the clients have written once more and all members are
    /// equal.
    fn rest(&mut self) {
        self.note("all faults end".to_owned());
        self.mends.clear();
        self.mend(None);
        for host in 1..=self.mix.machines {
            self.mend(Some(host));
            self.machine(host).rate = 1.0;
        }
        self.is_over.set(true);
        let end = self.now_ms + REST_MS;
        loop {
            self.step();
            if self.handles.is_empty() && self.are_equal() {
                return;
            }
            if self.now_ms > end {
                for machine in &self.machines {
                    eprintln!("{:?}", machine.status());
                }
                panic!("no rest: {} tasks are not done, or members are not equal", self.handles.len());
            }
        }
    }

    /// Returns true if all members have applied the leader's last entry. Panics if their rows then
    /// differ.
    fn are_equal(&self) -> bool {
        let leader =
            self.machines.iter().filter_map(Machine::status).filter(|status| status.role == Role::Leader);
        let Some(leader) = leader.max_by_key(|status| status.term) else { return false };
        let mut states = Vec::new();
        for machine in &self.machines {
            if !leader.members.contains_key(&machine.host) {
                continue;
            }
            let Some(group) = machine.group() else { return false };
            let view = group.store.view().expect("a view");
            if view.applied.index() != leader.last_index {
                return false;
            }
            states.push((machine.host, rows_of(&view)));
        }
        let (first, state) = &states[0];
        for (host, other) in &states[1..] {
            assert!(state == other, "replicas {first} and {host} differ");
        }
        true
    }
}

/// Returns all rows of a state, without the rows `applied` and `identity`, which differ between
/// replicas.
fn rows_of(view: &View) -> BTreeMap<String, Vec<Row>> {
    let mut all = BTreeMap::new();
    for table in view.tables().expect("tables") {
        let (mut found, mut after): (Vec<Row>, Option<Vec<u8>>) = (Vec::new(), None);
        loop {
            let rows = view.rows(&table, after.as_deref(), 1 << 20).expect("rows");
            let Some(Row(last, _)) = rows.last() else { break };
            after = Some(last.clone());
            found.extend(rows);
        }
        all.insert(table, found);
    }
    all
}

/// The operator. It changes the members, transfers the leadership, and asks replicas for snapshots.
async fn operate(caller: crate::caller::Caller, mut random: Rng, replicas: u64, is_over: Rc<Cell<bool>>) {
    let wait = Duration::from_secs(2);
    while !is_over.get() {
        tokio::time::sleep(Duration::from_millis(random.u64(100..1_500))).await;
        let host = random.u64(1..=replicas);
        // Any call may fail, because the group may have no leader or another change may be under
        // way.
        let _outcome = match random.u8(..6) {
            0 | 1 => caller.repeat(ClientCall::TransferLeader { to: host }, wait).await,
            2 => caller.call_at(&address(host), &ClientCall::Snapshot, wait).await,
            3 => caller.repeat(ClientCall::AddLearner { id: host, address: address(host) }, wait).await,
            _ => {
                let mut voters: Vec<ReplicaId> = (1..=replicas).collect();
                random.shuffle(&mut voters);
                voters.truncate(3);
                let voters: BTreeSet<ReplicaId> = voters.into_iter().collect();
                caller.repeat(ClientCall::ChangeVoters { voters }, wait).await
            }
        };
    }
}
