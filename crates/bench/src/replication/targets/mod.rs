//! Measures a Raft group of three replicas against the project's targets.
//!
//! Each case runs on servers of its own. The servers are processes of this machine and share its
//! processors and its disk. After each run every replica must have exactly the rows that were
//! acknowledged. `verdicts` compares the results with the targets, and `table` shows them.

mod table;
mod verdicts;

use super::case::Scheme;
use super::load::Load;
use super::measure::{ServerSetup, run};
use super::processes::Servers;
use super::raft::{PATIENCE, RaftGroup, wait_for};
use crate::grid::row::{self, Round};
use hdrhistogram::Histogram;
use katydid_command::failure::{Failure, Result};
use katydid_replica::{ReplicaId, Replicated, WriteOptions};
use katydid_workload::drive::Plan;
use katydid_workload::insert::{Inserts, KeyOrder};
use std::time::{Duration, Instant};
pub use table::{csv, table};
pub use verdicts::{verdict_table, verdicts};

/// Number of replicas.
const REPLICAS: usize = 3;
/// The replica that is slow in the cases with a slow replica.
const SLOW: ReplicaId = 3;
/// Table of the inserts.
const TABLE: &str = "inserts";
/// Number of clients of the cases in which a replica is slow, killed or started.
const CLIENTS: usize = 32;

/// One case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Inserts of 120 bytes, acknowledged on this condition.
    Commits { durability: Replicated, clients: usize },
    /// Inserts while the syncs of one replica, which does not lead, take longer.
    SlowReplica { durability: Replicated },
    /// The leader is killed while clients insert.
    FailOver,
    /// A follower is killed and started again while clients insert.
    Rejoin,
}

impl Case {
    /// Name of the part of the targets to which the case belongs.
    pub fn part(&self) -> &'static str {
        match self {
            Case::Commits { .. } => "commits",
            Case::SlowReplica { .. } => "slow",
            Case::FailOver => "failover",
            Case::Rejoin => "rejoin",
        }
    }

    fn durability(&self) -> Replicated {
        match self {
            Case::Commits { durability, .. } | Case::SlowReplica { durability } => *durability,
            Case::FailOver | Case::Rejoin => Replicated::Quorum,
        }
    }

    fn clients(&self) -> usize {
        if let Case::Commits { clients, .. } = self { *clients } else { CLIENTS }
    }

    /// The condition of acknowledgement in a word.
    fn word(&self) -> &'static str {
        if self.durability() == Replicated::All { "all" } else { "quorum" }
    }

    /// The case in a few words, for the progress line.
    pub fn words(&self) -> String {
        format!("{}, {}, {} clients", self.part(), self.word(), self.clients())
    }
}

/// Names of the parts.
pub const PARTS: [&str; 4] = ["commits", "slow", "failover", "rejoin"];

/// The cases of these parts, with these numbers of clients.
pub fn cases(parts: &[&str], clients: &[usize]) -> Vec<Case> {
    let mut cases = Vec::new();
    let both = [Replicated::Quorum, Replicated::All];
    // A case with a slow replica is compared with a case without a slow replica.
    let mut of_commits = if parts.contains(&"commits") { clients.to_vec() } else { Vec::new() };
    if parts.contains(&"slow") && !of_commits.contains(&CLIENTS) {
        of_commits.push(CLIENTS);
    }
    for clients in of_commits {
        cases.extend(both.map(|durability| Case::Commits { durability, clients }));
    }
    if parts.contains(&"slow") {
        cases.extend(both.map(|durability| Case::SlowReplica { durability }));
    }
    cases.extend(parts.contains(&"failover").then_some(Case::FailOver));
    cases.extend(parts.contains(&"rejoin").then_some(Case::Rejoin));
    cases
}

/// Result of one run of a case.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Acknowledged commits per second; with a kill, those before the kill.
    pub per_second: f64,
    /// Nanoseconds of each commit; `None` with a kill.
    pub times: Option<Histogram<u64>>,
    /// Entries for each durable write of the leader's log.
    pub entries_per_sync: Option<f64>,
    /// Milliseconds from each kill of the leader to the first acknowledgement of a commit that was
    /// begun after the kill.
    pub gaps_ms: Vec<f64>,
    pub rejoin: Option<Rejoined>,
}

/// Rates of the clients around the absence of a replica, in commits per second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rejoined {
    /// Rate while the replica is away.
    pub absent: f64,
    /// Rate from the start of the replica until it has all entries that it missed, and at least for
    /// the time of a run.
    pub during: f64,
    /// Seconds from the start of the replica until it has all entries that it missed.
    pub seconds: f64,
}

impl Sample {
    /// Median of the times after the kills of this run, if there were kills.
    fn gap_ms(&self) -> Option<f64> {
        median(self.gaps_ms.iter().copied())
    }
}

/// The median of some values, if there are any. For an even number of values it is the lower of the
/// middle two.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

impl Round for Sample {
    fn per_second(&self) -> f64 {
        self.per_second
    }

    fn times(&self) -> Option<&Histogram<u64>> {
        self.times.as_ref()
    }
}

/// A case with its rounds.
pub type Row = row::Row<Case, Sample>;

/// Set-up of the measurement.
#[derive(Debug)]
pub struct Targets {
    pub setup: ServerSetup,
    pub time: Duration,
    /// Time added to each sync of the slow replica.
    pub slow: Duration,
    /// Number of kills of a leader in each run.
    pub kills: usize,
    /// Number of commits that the absent replica misses.
    pub missed: u64,
    pub seed: u64,
    /// Number of runs so far.
    pub runs: u64,
}

impl Targets {
    /// Runs a case.
    pub fn measure(&mut self, case: &Case) -> Result<Sample> {
        self.runs += 1;
        match case {
            Case::Commits { durability, clients } => {
                self.commits(*durability, *clients, self.group(self.setup.delay)?)
            }
            Case::SlowReplica { durability } => {
                let group = self.group(self.slow)?;
                if group.leader()?.id == SLOW {
                    group.client.transfer_leader(1).map_err(Failure::failed)?;
                }
                wait_for(PATIENCE, "the slow replica leads on", || {
                    group.leader().ok().filter(|status| status.id != SLOW)
                })?;
                self.commits(*durability, CLIENTS, group)
            }
            Case::FailOver => self.fail_over(),
            Case::Rejoin => self.rejoin(),
        }
    }

    /// Makes a group. `last` is the delay of each sync of the last replica.
    fn group(&self, last: Duration) -> Result<RaftGroup> {
        let mut delays = [self.setup.delay; REPLICAS];
        delays[REPLICAS - 1] = last;
        let name = format!("{}-replica", self.runs);
        RaftGroup::of(Servers::start_each(&self.setup, &name, Scheme::RaftQuorum, &delays)?)
    }

    fn commits(&self, durability: Replicated, clients: usize, mut group: RaftGroup) -> Result<Sample> {
        let plan = Plan {
            threads: clients,
            time: Some(self.time),
            seed: self.seed.wrapping_add(self.runs),
            ..Plan::default()
        };
        let leader = group.leader()?;
        let syncs = group.servers.syncs(leader.id)?;
        let inserts = Inserts::new(20, 100, KeyOrder::Ascending, 0);
        let outcome = run(&group.store(durability), &[TABLE], &inserts, &plan)?;
        let after = group.leader()?;
        let syncs = group.servers.syncs(leader.id)?.saturating_sub(syncs);
        // If the leader changed, the entries went through two leaders' logs, but the syncs are
        // those of the first leader's log.
        let is_same = (after.id, after.term) == (leader.id, leader.term);
        let entries = after.last_index.saturating_sub(leader.last_index);
        group.check(TABLE, outcome.transactions)?;
        group.stop()?;
        Ok(Sample {
            per_second: outcome.transactions as f64 / outcome.elapsed.as_secs_f64(),
            times: Some(outcome.latencies.commits),
            entries_per_sync: is_same.then(|| entries as f64 / syncs.max(1) as f64),
            ..Sample::default()
        })
    }

    fn load(group: &RaftGroup) -> Result<Load> {
        let options = WriteOptions { durability: Replicated::Quorum, wait: PATIENCE };
        Load::start(&group.client, TABLE, CLIENTS, options)
    }

    fn fail_over(&self) -> Result<Sample> {
        let mut group = self.group(self.setup.delay)?;
        let load = Self::load(&group)?;
        let per_second = load.rate(self.time, || Ok(()))?;
        let mut gaps_ms = Vec::new();
        for _ in 0..self.kills {
            let leader = group.leader()?.id;
            let gap = load.gap_after(|| group.servers.kill(leader))?;
            gaps_ms.push(gap.as_secs_f64() * 1e3);
            group.servers.again(leader)?;
            group.wait_until_applied(leader, group.leader()?.last_index)?;
        }
        group.check(TABLE, load.end()?)?;
        group.stop()?;
        Ok(Sample { per_second, gaps_ms, ..Sample::default() })
    }

    fn rejoin(&self) -> Result<Sample> {
        let mut group = self.group(self.setup.delay)?;
        let load = Self::load(&group)?;
        let per_second = load.rate(self.time, || Ok(()))?;
        let leader = group.leader()?.id;
        let away = (1..).find(|id| *id != leader).unwrap_or(1);
        group.servers.kill(away)?;
        let enough = load.acknowledged() + self.missed;
        let absent = load.rate(self.time, || load.wait_until(enough))?;
        let missed = group.leader()?.last_index;
        let begin = Instant::now();
        let mut seconds = 0.0;
        group.servers.again(away)?;
        let during = load.rate(self.time, || {
            let caught_up = group.wait_until_applied(away, missed);
            seconds = begin.elapsed().as_secs_f64();
            caught_up
        })?;
        group.check(TABLE, load.end()?)?;
        group.stop()?;
        let rejoin = Some(Rejoined { absent, during, seconds });
        Ok(Sample { per_second, rejoin, ..Sample::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_replica_has_an_undisturbed_case_beside_it() {
        let cases = cases(&["slow"], &[1, 8]);
        assert!(cases.contains(&Case::Commits { durability: Replicated::Quorum, clients: CLIENTS }));
        assert_eq!(cases.len(), 4);
        assert_eq!(super::cases(&PARTS, &[1, 32]).len(), 8);
    }
}
