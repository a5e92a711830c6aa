//! Rows of the measurement as a table and as CSV. Pure functions.

use super::{Row, Sample};
use crate::grid::row::Round;
use katydid_command::bytes::grouped;
use katydid_workload::measure::Summary;

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
            shown(median(&Sample::gap_ms), 0),
            shown(median(&|run| run.rejoin.map(|of| of.absent)), 0),
            shown(median(&|run| run.rejoin.map(|of| of.during)), 0),
            shown(median(&|run| run.rejoin.map(|of| of.seconds)), 1),
        ]);
    }
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
            let times = run.times.as_ref().map(Summary::of);
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
