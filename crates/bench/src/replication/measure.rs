//! Runs a case on servers.
//!
//! 1. Inserts run on servers that are started for the run, so every case begins with empty tables.
//!    sysbench's rows are loaded once for each number of replicas and scheme, and the servers with
//!    these rows keep running.
//! 2. After every run of inserts each replica must have exactly one row for each acknowledged
//!    insert. The paper's replicas must also have equal rows; Raft's rows are only counted. After
//!    every run of sysbench the replicas must have equal rows, and the index must have exactly one
//!    entry for each row.

use super::case::{Case, Scheme, Work};
use super::drafts::ClientDrivenStore;
pub use super::processes::ServerSetup;
use super::processes::Servers;
use super::raft::RaftGroup;
use super::run::Run;
use katydid_command::failure::{Failure, Result};
use katydid_replica::Replicated;
use katydid_replica::client_driven::{Cluster, ClusterOptions, ReplicaStat, Session, compare};
use katydid_workload::Store;
use katydid_workload::drive::{Outcome, Plan, Workload, drive};
use katydid_workload::insert::{Inserts, KeyOrder};
use katydid_workload::sysbench::{self, Script, SysbenchLoad, SysbenchRun};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Table of the inserts.
const TABLE: &str = "inserts";
/// Number of clients that load.
const LOADERS: usize = 16;

/// Runs cases on servers, as the head of this file describes.
pub struct Measure {
    setup: ServerSetup,
    /// Number of sysbench's rows.
    keys: u64,
    seed: u64,
    runs: u64,
    /// Servers with sysbench's rows, by number of replicas and scheme.
    loaded: HashMap<(usize, Scheme), Servers>,
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error)
}

/// Drives a workload on a store, and returns the outcome.
pub fn run<S: Store, W: Workload>(
    store: &S,
    tables: &[&str],
    workload: &Arc<W>,
    plan: &Plan,
) -> Result<Outcome> {
    drive(store, tables, workload, plan, &AtomicBool::new(false), &mut |_| {}).map_err(Failure::failed)
}

impl Measure {
    pub fn new(setup: ServerSetup, keys: u64, seed: u64) -> Measure {
        Measure { setup, keys, seed, runs: 0, loaded: HashMap::new() }
    }

    /// Runs a case for the given time.
    pub fn measure(&mut self, case: &Case, time: Duration) -> Result<Run> {
        self.runs += 1;
        let plan = Plan {
            threads: case.threads,
            time: Some(time),
            seed: self.seed.wrapping_add(self.runs),
            conflict_retries: u32::MAX,
            ..Plan::default()
        };
        match (case.work, case.scheme) {
            (Work::Insert, Scheme::ClientDriven(_)) => self.inserts(case, &plan),
            (Work::Insert, Scheme::RaftQuorum | Scheme::RaftAll) => self.raft_inserts(case, &plan),
            (Work::Sysbench, Scheme::ClientDriven(_)) => self.sysbench(case, &plan),
            (Work::Sysbench, Scheme::RaftQuorum | Scheme::RaftAll) => Err(Failure::usage(
                "sysbench's transactions read: with Raft they run in the process of the leader only",
            )),
        }
    }

    fn start(&self, case: &Case) -> Result<Servers> {
        let name = format!("{}-{}-{}", self.runs, case.scheme, case.replicas);
        Servers::start(&self.setup, &name, case.scheme, case.replicas)
    }

    fn inserts(&self, case: &Case, plan: &Plan) -> Result<Run> {
        let servers = self.start(case)?;
        let inserts = Inserts::new(20, 100, KeyOrder::Ascending, 0);
        let measured = Watched::new(&servers)?.run(&[TABLE], &inserts, plan)?;
        if measured.checked != measured.commits {
            return Err(Failure::failed(format_args!(
                "{} rows are at the replicas, but {} inserts were acknowledged: this is a bug",
                measured.checked, measured.commits
            )));
        }
        servers.stop()?;
        Ok(measured)
    }

    fn sysbench(&mut self, case: &Case, plan: &Plan) -> Result<Run> {
        let settings = sysbench::Settings { tables: 1, rows: self.keys, skew: 0.0 };
        let names = settings.table_names();
        let tables: Vec<&str> = names.iter().map(String::as_str).collect();
        if !self.loaded.contains_key(&(case.replicas, case.scheme)) {
            let servers = self.start(case)?;
            let loading = Plan { threads: LOADERS, conflict_retries: u32::MAX, ..Plan::default() };
            let cluster = Watched::new(&servers)?.cluster;
            run(
                &ClientDrivenStore::new(cluster),
                &tables,
                &SysbenchLoad::new(&settings, self.seed),
                &loading,
            )?;
            self.loaded.insert((case.replicas, case.scheme), servers);
        }
        let servers = &self.loaded[&(case.replicas, case.scheme)];
        let mut watched = Watched::new(servers)?;
        let measured = watched.run(&tables, &SysbenchRun::new(&settings, Script::WriteOnly), plan)?;
        let store = ClientDrivenStore::new(watched.cluster);
        sysbench::State::read(&store, &settings).map_err(failed)?.check(&settings).map_err(failed)?;
        Ok(measured)
    }

    fn raft_inserts(&self, case: &Case, plan: &Plan) -> Result<Run> {
        let all = case.scheme == Scheme::RaftAll;
        let durability = if all { Replicated::All } else { Replicated::Quorum };
        let group = RaftGroup::of(self.start(case)?)?;
        let inserts = Inserts::new(20, 100, KeyOrder::Ascending, 0);
        let outcome = run(&group.store(durability), &[TABLE], &inserts, plan)?;
        group.check(TABLE, outcome.transactions)?;
        group.stop()?;
        Ok(Run {
            commits: outcome.transactions,
            seconds: outcome.elapsed.as_secs_f64(),
            checked: outcome.transactions,
            conflicts: outcome.conflicts,
            times: outcome.latencies.commits,
            client: None,
            servers: Vec::new(),
        })
    }

    /// Stops the servers that were kept between runs.
    pub fn end(self) -> Result<()> {
        self.loaded.into_values().try_for_each(Servers::stop)
    }
}

/// Servers of the paper's replication, and a session that reads their counters.
struct Watched {
    cluster: Cluster,
    session: Session,
}

impl Watched {
    fn new(servers: &Servers) -> Result<Watched> {
        let parsed = |address: &str| address.parse::<SocketAddr>().map_err(failed);
        let addresses = servers.addresses().map(parsed).collect::<Result<Vec<_>>>()?;
        let cluster = Cluster::new(ClusterOptions::new(addresses)).map_err(failed)?;
        let session = cluster.session().map_err(failed)?;
        Ok(Watched { cluster, session })
    }

    fn stats(&mut self) -> Result<Vec<ReplicaStat>> {
        (0..self.session.replicas()).map(|replica| self.session.stat(replica).map_err(failed)).collect()
    }

    /// Drives a workload, and compares the replicas afterwards.
    fn run<W: Workload>(&mut self, tables: &[&str], workload: &Arc<W>, plan: &Plan) -> Result<Run> {
        let (before, times) = (self.stats()?, self.cluster.times());
        let outcome = run(&ClientDrivenStore::new(self.cluster.clone()), tables, workload, plan)?;
        let after = self.stats()?;
        let equal = compare(&mut self.session).map_err(failed)?;
        let of_work = equal.iter().filter(|contents| tables.contains(&contents.table.as_str()));
        Ok(Run {
            commits: outcome.transactions,
            seconds: outcome.elapsed.as_secs_f64(),
            client: Some(self.cluster.times().since(&times)),
            servers: after.iter().zip(&before).map(|(after, before)| after.since(before)).collect(),
            conflicts: outcome.conflicts,
            checked: of_work.map(|contents| contents.rows).sum(),
            times: outcome.latencies.commits,
        })
    }
}
