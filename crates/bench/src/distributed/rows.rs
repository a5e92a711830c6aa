//! Cases and rounds of the count of dependencies, as a table, as CSV and as a chart.
//!
//! Pure functions.

use super::count::{Assignment, Counted};
use crate::grid::axis::{Axis, lines};
use crate::grid::chart::{Drawing, Picture, Scale};
use crate::grid::columns::{Chart, Column, Grid, Rows, optional};
use crate::grid::row::{self, Round};
use hdrhistogram::Histogram;
use katydid_command::table::wrapped;
use katydid_workload::tpcb;
use std::fmt;
use std::str::FromStr;

/// Workload whose log records are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Tpcc,
    Tpcb,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Workload::Tpcc => "tpcc",
            Workload::Tpcb => "tpcb",
        })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tpcc" => Ok(Workload::Tpcc),
            "tpcb" => Ok(Workload::Tpcb),
            _ => Err(format!("must be tpcc or tpcb, not {text:?}")),
        }
    }
}

/// The bank of TPC-B.
#[derive(Debug, Clone, Copy)]
pub struct Bank(pub tpcb::Settings);

/// A workload with its assignment of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub workload: Workload,
    pub assignment: Assignment,
    /// Number of clients, which block in each commit.
    pub threads: usize,
    /// Number of logs to which records are assigned.
    pub logs: usize,
}

impl Case {
    /// The case in a few words, for the progress bar.
    pub fn words(&self) -> String {
        format!("{}, {} clients, dealt by {}", self.workload, self.threads, self.assignment)
    }
}

/// Result of one run.
#[derive(Debug, Clone)]
pub struct DistributedRound {
    pub counted: Counted,
    /// Bytes by which the log grew.
    pub bytes: u64,
    pub seconds: f64,
}

impl Round for DistributedRound {
    fn per_second(&self) -> f64 {
        self.counted.commits as f64 / self.seconds.max(1e-9)
    }

    fn times(&self) -> Option<&Histogram<u64>> {
        None
    }
}

/// A case with its rounds.
pub type Row = row::Row<Case, DistributedRound>;

/// The counts as a grid.
#[derive(Debug, Clone, Copy)]
pub struct Dependences;

fn share(row: &Row, of: impl Fn(&Counted) -> f64) -> String {
    format!("{:.4}", row.median(|round| of(&round.counted)))
}

fn crossing(row: &Row) -> String {
    share(row, |counted| counted.of_records(counted.crossing))
}

fn tight(row: &Row) -> String {
    share(row, |counted| counted.of_records(counted.tight))
}

fn spanning(row: &Row) -> String {
    share(row, Counted::spanning_share)
}

/// Dependencies between logs in 100 kB of the log, about the amount of log that the paper's figure
/// shows.
fn in_100_kb(row: &Row) -> String {
    format!("{:.0}", row.median(|round| round.counted.crossing as f64 / (round.bytes.max(1) as f64 / 100e3)))
}

const NAMES: &[Column<Dependences>] = &[
    ("workload", |_, row| row.case.workload.to_string()),
    ("dealt_by", |_, row| row.case.assignment.to_string()),
    ("threads", |_, row| row.case.threads.to_string()),
    ("logs", |_, row| row.case.logs.to_string()),
];

const SHARES: &[Column<Dependences>] = &[
    ("crossing", |_, row| crossing(row)),
    ("tight", |_, row| tight(row)),
    ("spanning", |_, row| spanning(row)),
    ("in_100_kb", |_, row| in_100_kb(row)),
];

impl Grid for Dependences {
    type Case = Case;
    type Round = DistributedRound;

    const CSV: &'static [Column<Self>] = &[
        ("commit", |of, _| optional(of.setting.commit)),
        ("machine", |of, _| of.setting.machine.clone()),
        ("workload", |_, row| row.case.workload.to_string()),
        ("dealt_by", |_, row| row.case.assignment.to_string()),
        ("threads", |_, row| row.case.threads.to_string()),
        ("logs", |_, row| row.case.logs.to_string()),
        ("millis", |of, _| of.setting.millis.to_string()),
        ("rounds", |_, row| row.rounds.len().to_string()),
        ("commits", |_, row| format!("{:.0}", row.median(|round| round.counted.commits as f64))),
        ("records", |_, row| format!("{:.0}", row.median(|round| round.counted.records as f64))),
        ("log_bytes", |_, row| format!("{:.0}", row.median(|round| round.bytes as f64))),
        ("crossing", |_, row| crossing(row)),
        ("tight", |_, row| tight(row)),
        ("spanning", |_, row| spanning(row)),
        ("in_100_kb", |_, row| in_100_kb(row)),
    ];
    const VARYING: &'static [Column<Self>] = &[];
    const CONSTANT: &'static [Column<Self>] = &[("logs", |_, row| row.case.logs.to_string())];
    const SILENT: &'static [&'static str] = &[];

    fn rate(self) -> &'static str {
        "commits/s"
    }

    fn first(self) -> &'static [Column<Self>] {
        NAMES
    }

    fn measured(self) -> &'static [Column<Self>] {
        SHARES
    }

    fn head(rows: &Rows<'_, Self>) -> Vec<String> {
        let mut lines = vec!["dependences between logs, had the log been distributed".to_owned()];
        lines.push(format!("  the same in all: {}", rows.constants()));
        lines
    }

    fn charts(rows: &Rows<'_, Self>) -> Vec<Chart> {
        const THREADS: Axis<Case> = Axis::of_numbers(
            "client threads",
            Scale::Logarithmic,
            |case| format!("{} threads", case.threads),
            |case| Some(case.threads as f64),
        );
        const WORKLOAD: Axis<Case> = Axis::of_words("workload", |case| case.workload.to_string());
        const DEALT: Axis<Case> = Axis::of_words("dealt by", |case| format!("dealt by {}", case.assignment));
        let height = |row: &Row| Some(100.0 * row.median(|round| round.counted.spanning_share()));
        let picture = Picture {
            title: "Commits that would have to flush more than one log".to_owned(),
            subtitle: rows.setting.title.clone(),
            x_name: THREADS.name.to_owned(),
            y_name: "% of commits".to_owned(),
            x_scale: Scale::Logarithmic,
            y_scale: Scale::Linear,
            lines: lines(rows.rows, &THREADS, &[&WORKLOAD, &DEALT], height),
        };
        vec![Chart { name: "dependences".to_owned(), drawing: Drawing::Lines(picture) }]
    }
}

/// Meanings of the columns.
pub fn legend() -> Vec<String> {
    wrapped(
        "crossing: the share of records that change a page which a record in another log changed last. tight: the share of records for \
         which that record is among the five most recent of its log. spanning: the share of commits that need more than one durable log: \
         the logs of their records, and the logs on which these depend tightly. in_100_kb: crossing records in 100 kB of log, about the amount \
         that the paper's figure shows",
    )
}
