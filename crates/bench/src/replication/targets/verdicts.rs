//! The targets for a group of three replicas, and whether measured rows meet them. Pure functions.

use super::{CLIENTS, Case, Row, Sample, median};
use crate::grid::row::Round;
use katydid_replica::Replicated;

/// Numbers of clients, each with the commits per second of a prototype with `Quorum`. This
/// prototype led to the choice of openraft. All its replicas ran in one process.
const PROTOTYPE: [(usize, f64); 5] =
    [(1, 4_800.0), (8, 23_403.0), (32, 55_158.0), (128, 114_133.0), (512, 232_541.0)];

/// A target, with the value that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub about: String,
    pub measured: f64,
    pub wanted: f64,
    /// True if the value must be at most `wanted`; false if it must be at least `wanted`.
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
                let gaps = || row.rounds.iter().flat_map(|run| run.gaps_ms.iter().copied());
                if let Some(median) = median(gaps()) {
                    let about = format!(
                        "ms until a commit is acknowledged after the leader is killed; median of {} kills",
                        gaps().count()
                    );
                    all.push(at_most(about, median, 1_000.0));
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

/// The targets as a table.
pub fn verdict_table(verdicts: &[Verdict]) -> Vec<Vec<String>> {
    let mut lines = vec![["target", "measured", "wanted", "verdict"].map(str::to_owned).to_vec()];
    lines.extend(verdicts.iter().map(|verdict| {
        let sign = if verdict.is_maximum { "<=" } else { ">=" };
        let outcome = if verdict.is_met() { "met" } else { "missed" };
        vec![
            verdict.about.clone(),
            format!("{:.2}", verdict.measured),
            format!("{sign} {}", verdict.wanted),
            outcome.to_owned(),
        ]
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::targets::Rejoined;

    fn row(case: Case, samples: Vec<Sample>) -> Row {
        Row { case, rounds: samples }
    }

    fn rate(per_second: f64) -> Sample {
        Sample { per_second, ..Sample::default() }
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
        let found: Vec<(f64, bool)> = verdicts(&rows)
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
        assert_eq!(found, expected);
    }
}
