//! Measures a Raft group of three replicas against the project's targets.
//!
//! Each case runs on servers of its own, which are processes of this machine: they share its
//! processors and its disk. After each run every replica must have exactly the rows that were
//! acknowledged.

use super::case::Scheme;
use super::load::Load;
use super::measure::{ServerSetup, run};
use super::processes::Servers;
use super::raft::{PATIENCE, RaftGroup, wait_for};
use crate::grid::row::{self, Round};
use hdrhistogram::Histogram;
use katydid_command::bytes::grouped;
use katydid_command::failure::{Failure, Result};
use katydid_replica::{ReplicaId, Replicated, WriteOptions};
use katydid_workload::drive::Plan;
use katydid_workload::insert::{Inserts, KeyOrder};
use std::time::{Duration, Instant};

/// Number of replicas.
const REPLICAS: usize = 3;
/// The replica that is slow in the cases with a slow replica.
const SLOW: ReplicaId = 3;
/// Table of the inserts.
const TABLE: &str = "inserts";
/// Number of clients of the cases in which something happens to a replica.
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
    // The case with a slow replica is compared with one without.
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
    /// Rate from the start of the replica until it has all entries that it missed.
    pub during: f64,
    /// Seconds from the start of the replica until it has all entries that it missed.
    pub seconds: f64,
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
                wait_for("the slow replica leads on", || {
                    group.leader().ok().filter(|status| status.id != SLOW)
                })?;
                self.commits(*durability, CLIENTS, group)
            }
            Case::FailOver => self.fail_over(),
            Case::Rejoin => self.rejoin(),
        }
    }

    /// Makes a group, with a delay of the syncs of the last replica.
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
        // Another leader has a log with other syncs.
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

/// Commits per second of the prototype with which openraft was chosen: one process, a log of 120
/// lines. By the number of clients, with `Quorum`.
const PROTOTYPE: [(usize, f64); 5] =
    [(1, 4_800.0), (8, 23_403.0), (32, 55_158.0), (128, 114_133.0), (512, 232_541.0)];

/// A target, with the value that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub about: String,
    pub measured: f64,
    pub wanted: f64,
    /// True if the value must not be greater than `wanted`; false if not less.
    pub is_maximum: bool,
}

impl Verdict {
    pub fn is_met(&self) -> bool {
        if self.is_maximum { self.measured <= self.wanted } else { self.measured >= self.wanted }
    }
}

/// The targets about these rows.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut all = Vec::new();
    let find = |case: Case| rows.iter().find(|row| row.case == case);
    let (quorum, every) = (Replicated::Quorum, Replicated::All);
    let at_least = |about: String, measured, wanted| Verdict { about, measured, wanted, is_maximum: false };
    let at_most = |about: String, measured, wanted| Verdict { about, measured, wanted, is_maximum: true };
    for row in rows {
        match row.case {
            Case::Commits { durability, clients } if durability == quorum => {
                let rate = row.median(Sample::per_second);
                if let Some((_, prototype)) = PROTOTYPE.iter().find(|(of, _)| *of == clients) {
                    let about = format!("quorum at {clients} clients, as a multiple of the prototype's rate");
                    all.push(at_least(about, rate / prototype, 1.3));
                }
                if let Some(to_all) = find(Case::Commits { durability: every, clients }) {
                    let about = format!("all over quorum at {clients} clients");
                    all.push(at_least(about, to_all.ratio(row, Sample::per_second), 0.8));
                }
                if clients == 128 && row.rounds.iter().all(|run| run.entries_per_sync.is_some()) {
                    let entries = row.median(|run| run.entries_per_sync.unwrap_or(0.0));
                    all.push(at_least(
                        "entries a sync of the leader at 128 clients".to_owned(),
                        entries,
                        20.0,
                    ));
                }
                if let Some(times) = row.summary().filter(|_| clients == 32) {
                    let ratio = times.p99_us / times.p50_us.max(1e-9);
                    all.push(at_most("p99 over p50 at 32 clients, quorum".to_owned(), ratio, 4.0));
                }
            }
            Case::SlowReplica { durability } if durability == quorum => {
                if let Some(even) = find(Case::Commits { durability, clients: CLIENTS }) {
                    let about = "quorum with one slow replica, as a multiple of the rate without".to_owned();
                    all.push(at_least(about, row.ratio(even, Sample::per_second), 0.9));
                }
            }
            Case::FailOver => {
                let mut gaps: Vec<f64> = row.rounds.iter().flat_map(|run| run.gaps_ms.clone()).collect();
                gaps.sort_by(f64::total_cmp);
                if let Some(median) = gaps.get(gaps.len().saturating_sub(1) / 2) {
                    let about = format!(
                        "ms until a commit is acknowledged after the leader is killed; median of {} kills",
                        gaps.len()
                    );
                    all.push(at_most(about, *median, 1_000.0));
                }
            }
            Case::Rejoin => {
                let ratio = |run: &Sample| run.rejoin.map_or(0.0, |of| of.during / run.per_second.max(1e-9));
                let about =
                    "rate while a replica rejoins, as a multiple of the rate before it left".to_owned();
                all.push(at_least(about, row.median(ratio), 0.7));
            }
            Case::Commits { .. } | Case::SlowReplica { .. } => {}
        }
    }
    all
}

fn shown(value: Option<f64>, places: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.places$}"))
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> Vec<Vec<String>> {
    let names = [
        "case",
        "acknowledged by",
        "clients",
        "commits/s",
        "slowest",
        "fastest",
        "p50 us",
        "p99 us",
        "entries/sync",
        "gap ms",
        "absent/s",
        "rejoin/s",
        "rejoin s",
    ];
    let mut lines = vec![names.map(str::to_owned).to_vec()];
    for row in rows {
        let (slowest, fastest) = row.spread();
        let times = row.summary();
        let median = |value: &dyn Fn(&Sample) -> Option<f64>| {
            let all = row.rounds.iter().all(|run| value(run).is_some());
            all.then(|| row.median(|run| value(run).unwrap_or(0.0)))
        };
        let gap = |run: &Sample| {
            let mut gaps = run.gaps_ms.clone();
            gaps.sort_by(f64::total_cmp);
            gaps.get(gaps.len().saturating_sub(1) / 2).copied()
        };
        lines.push(vec![
            row.case.part().to_owned(),
            row.case.word().to_owned(),
            row.case.clients().to_string(),
            grouped(row.median(Sample::per_second) as u64),
            grouped(slowest as u64),
            grouped(fastest as u64),
            shown(times.map(|times| times.p50_us), 0),
            shown(times.map(|times| times.p99_us), 0),
            shown(median(&|run| run.entries_per_sync), 1),
            shown(median(&gap), 0),
            shown(median(&|run| run.rejoin.map(|of| of.absent)), 0),
            shown(median(&|run| run.rejoin.map(|of| of.during)), 0),
            shown(median(&|run| run.rejoin.map(|of| of.seconds)), 1),
        ]);
    }
    lines
}

/// The targets as a table.
pub fn verdict_table(verdicts: &[Verdict]) -> Vec<Vec<String>> {
    let mut lines = vec![["target", "measured", "wanted", "verdict"].map(str::to_owned).to_vec()];
    lines.extend(verdicts.iter().map(|verdict| {
        let sign = if verdict.is_maximum { "<=" } else { ">=" };
        let told = if verdict.is_met() { "met" } else { "missed" };
        vec![
            verdict.about.clone(),
            format!("{:.2}", verdict.measured),
            format!("{sign} {}", verdict.wanted),
            told.to_owned(),
        ]
    }));
    lines
}

/// A line for each round of each row, for programs.
pub fn csv(rows: &[Row], setting: &[(&str, String)]) -> Vec<Vec<String>> {
    let names = [
        "case",
        "durability",
        "clients",
        "round",
        "commits_per_second",
        "p50_us",
        "p99_us",
        "entries_per_sync",
        "gaps_ms",
        "absent_per_second",
        "rejoin_per_second",
        "rejoin_seconds",
    ];
    let names = setting.iter().map(|(name, _)| *name).chain(names);
    let mut lines = vec![names.map(str::to_owned).collect::<Vec<_>>()];
    for row in rows {
        for (round, run) in (1..).zip(&row.rounds) {
            let times = run.times.as_ref().map(katydid_workload::measure::Summary::of);
            let gaps: Vec<String> = run.gaps_ms.iter().map(|gap| format!("{gap:.1}")).collect();
            let mut line: Vec<String> = setting.iter().map(|(_, value)| value.clone()).collect();
            line.extend([
                row.case.part().to_owned(),
                row.case.word().to_owned(),
                row.case.clients().to_string(),
                format!("{round}"),
                format!("{:.0}", run.per_second),
                shown(times.map(|times| times.p50_us), 1),
                shown(times.map(|times| times.p99_us), 1),
                shown(run.entries_per_sync, 2),
                gaps.join(" "),
                shown(run.rejoin.map(|of| of.absent), 0),
                shown(run.rejoin.map(|of| of.during), 0),
                shown(run.rejoin.map(|of| of.seconds), 2),
            ]);
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: Case, samples: Vec<Sample>) -> Row {
        Row { case, rounds: samples }
    }

    fn rate(per_second: f64) -> Sample {
        Sample { per_second, ..Sample::default() }
    }

    #[test]
    fn a_slow_replica_has_an_undisturbed_case_beside_it() {
        let cases = cases(&["slow"], &[1, 8]);
        assert!(cases.contains(&Case::Commits { durability: Replicated::Quorum, clients: CLIENTS }));
        assert_eq!(cases.len(), 4);
        assert_eq!(super::cases(&PARTS, &[1, 32]).len(), 8);
    }

    #[test]
    fn verdicts_compare_with_the_prototype_and_within_rounds() {
        let at = |durability, clients| Case::Commits { durability, clients };
        let rows = [
            row(
                at(Replicated::Quorum, 128),
                vec![
                    Sample { entries_per_sync: Some(19.0), ..rate(150_000.0) },
                    Sample { entries_per_sync: Some(30.0), ..rate(160_000.0) },
                    Sample { entries_per_sync: Some(21.0), ..rate(100_000.0) },
                ],
            ),
            row(at(Replicated::All, 128), vec![rate(120_000.0), rate(160_000.0), rate(50_000.0)]),
            row(at(Replicated::Quorum, CLIENTS), vec![rate(1_000.0)]),
            row(Case::SlowReplica { durability: Replicated::Quorum }, vec![rate(890.0)]),
            row(Case::FailOver, vec![Sample { gaps_ms: vec![900.0, 1_100.0, 950.0], ..rate(1.0) }]),
            row(
                Case::Rejoin,
                vec![Sample {
                    rejoin: Some(Rejoined { absent: 120.0, during: 69.0, seconds: 1.0 }),
                    ..rate(100.0)
                }],
            ),
        ];
        let told: Vec<(f64, bool)> = verdicts(&rows)
            .iter()
            .map(|verdict| ((verdict.measured * 100.0).round() / 100.0, verdict.is_met()))
            .collect();
        let expected = [
            (1.31, true),
            (0.8, true),
            (21.0, true),
            (0.02, false),
            (0.89, false),
            (950.0, true),
            (0.69, false),
        ];
        assert_eq!(told, expected);
    }
}
