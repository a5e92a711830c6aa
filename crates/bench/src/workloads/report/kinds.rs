//! Numbers of transactions of each kind. All functions except `print` are pure.

use katydid_command::bytes::grouped;
use katydid_command::failure::Result;
use katydid_command::output::Output;
use katydid_workload::drive::Outcome;
use serde_json::{Map, Value, json};

/// The transactions of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Name in the benchmark.
    pub name: &'static str,
    /// Number of acknowledged transactions.
    pub acknowledged: u64,
    /// Number of transactions that rolled back on purpose, or that failed by the benchmark's rules.
    pub rolled_back: u64,
}

/// Score of a run, by the benchmark's own definition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Name of the score.
    pub name: &'static str,
    /// Meaning of the score.
    pub what: &'static str,
    pub value: f64,
}

impl Score {
    pub(super) fn json(self) -> Value {
        json!({ "name": self.name, "value": self.value })
    }
}

/// Counts of all kinds; empty if the workload does not count by kinds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kinds {
    pub all: Vec<Kind>,
    pub score: Option<Score>,
}

fn per_second(many: u64, outcome: &Outcome) -> f64 {
    many as f64 / outcome.elapsed.as_secs_f64().max(1e-9)
}

impl Kinds {
    /// Prints a table, an empty line, and the score if there is one. Prints nothing if there are no
    /// kinds.
    pub(super) fn print(&self, outcome: &Outcome, out: &mut Output) -> Result<()> {
        if self.all.is_empty() {
            return Ok(());
        }
        out.line(format!(
            "{:<24}{:>14}{:>12}{:>12}",
            "transactions", "acknowledged", "rolled back", "a second"
        ))?;
        for Kind { name, acknowledged, rolled_back } in &self.all {
            let rate = per_second(*acknowledged, outcome);
            out.line(format!(
                "{name:<24}{:>14}{:>12}{rate:>12.1}",
                grouped(*acknowledged),
                grouped(*rolled_back)
            ))?;
        }
        out.line("")?;
        match self.score {
            Some(Score { name, what, value }) => {
                out.line(format!("{name:<10}{}: {what}", grouped(value as u64)))
            }
            None => Ok(()),
        }
    }

    pub(super) fn json(&self, outcome: &Outcome) -> Map<String, Value> {
        let one = |kind: &Kind| {
            let counts = json!({
                "transactions": kind.acknowledged,
                "rolled_back": kind.rolled_back,
                "transactions_per_second": per_second(kind.acknowledged, outcome),
            });
            (kind.name.replace(' ', "_"), counts)
        };
        self.all.iter().map(one).collect()
    }
}
