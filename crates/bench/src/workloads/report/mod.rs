//! Results of `bench` as a table and as a JSON object.

mod kinds;

use crate::host::limit::{Limit, Writes, method_name};
use crate::host::machine::Machine;
use katydid_command::built::{self, VERSION};
use katydid_command::bytes::grouped;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::whole_file;
use katydid_wal::Form;
use katydid_workload::drive::Outcome;
use katydid_workload::measure::Summary;
pub use kinds::{Kind, Kinds, Score};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// State of the data before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    /// The workload needs no data.
    NotNeeded,
    /// An earlier run has loaded the data.
    Before,
    /// This run has loaded the data. The fields are the number of things loaded, their name in the
    /// plural (such as `records` or `batches`), and the time.
    Now(u64, &'static str, Duration),
}

/// Counts after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Name of what was counted, in the plural.
    pub what: &'static str,
    /// Number of rows found.
    pub found: u64,
    /// Expected number of rows.
    pub expected: u64,
    /// Text for the report: further conditions, which hold. They were checked when the rows were
    /// counted. `None` if only the number was checked.
    pub also: Option<&'static str>,
}

impl Counted {
    fn line(&self) -> String {
        let Counted { what, found, expected, also } = *self;
        let also = also.map_or(String::new(), |also| format!("; {also}"));
        match found == expected {
            true => format!("{} {what}, as many as were acknowledged{also}", grouped(found)),
            false => format!("{} {what}, but {} were acknowledged{also}", grouped(found), grouped(expected)),
        }
    }

    fn json(self) -> Value {
        json!({ self.what.replace(' ', "_"): self.found, "expected": self.expected })
    }
}

/// Result of one run of `bench`.
#[derive(Debug)]
pub struct Measured {
    /// Description of the workload.
    pub workload: String,
    /// State of the data before the run.
    pub loaded: Loaded,
    /// Result of the driver.
    pub outcome: Outcome,
    /// Processor time of the whole process during the run.
    pub cpu: Duration,
    /// Counts of each kind of transaction, if the workload counts by kinds.
    pub kinds: Kinds,
    /// Numbers of lock waits, and of those that a deadlock ended, if the engine has locks and the
    /// workload reports them.
    pub lock_waits: Option<(u64, u64)>,
    /// All options, in the order in which they are shown.
    pub options: Vec<(&'static str, Value)>,
    /// Counts after the run; `None` if nothing was counted.
    pub counted: Option<Counted>,
}

/// Version of the report's JSON object. It grows when a field is removed or changes its meaning,
/// not when a field is added.
const SCHEMA: u32 = 1;

/// The whole report.
#[derive(Debug)]
pub struct Report {
    /// Result of the run.
    pub measured: Measured,
    /// Form of a log's NVRAM.
    pub nvram: Option<Form>,
    /// Rates of the raw device.
    pub limit: Option<Limit>,
    /// The machine.
    pub machine: Machine,
    /// Description of the place of the data.
    pub data: String,
}

impl Report {
    /// Prints the table.
    pub fn print(&self) -> Result<()> {
        let mut out = Output::new();
        out.line(format!("katydid {VERSION}: {}", self.measured.workload))?;
        if let Some(form) = &self.nvram {
            out.line(format!("the log is in {form}"))?;
        }
        match self.measured.loaded {
            Loaded::NotNeeded => {}
            Loaded::Before => out.line("the records were loaded by an earlier run")?,
            Loaded::Now(many, what, time) => {
                let rate = many as f64 / time.as_secs_f64().max(1e-9);
                let (seconds, rate) = (time.as_secs_f64(), grouped(rate as u64));
                out.line(format!("loaded {} {what} in {seconds:.2} s, {rate} a second", grouped(many)))?;
            }
        }
        let outcome = &self.measured.outcome;
        out.line(format!(
            "ran {:.2} s: {} transactions, {} a second, {} conflicts{}",
            outcome.elapsed.as_secs_f64(),
            grouped(outcome.transactions),
            grouped(outcome.transactions_per_second() as u64),
            grouped(outcome.conflicts),
            if outcome.stopped { "; stopped by a signal" } else { "" },
        ))?;
        out.line("")?;
        out.line(format!(
            "{:<16}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>11}",
            "latency in us", "count", "mean", "p50", "p95", "p99", "p99.9", "max"
        ))?;
        let (reads, commits) = self.summaries();
        for (name, of) in [("reads", &reads), ("durable commits", &commits)] {
            let name = if name == "reads" { name } else { self.commits_name() };
            out.line(format!(
                "{name:<16}{:>12}{:>10.1}{:>10.1}{:>10.1}{:>10.1}{:>10.1}{:>11.1}",
                grouped(of.count),
                of.mean_us,
                of.p50_us,
                of.p95_us,
                of.p99_us,
                of.p999_us,
                of.max_us,
            ))?;
        }
        out.line("")?;
        self.measured.kinds.print(outcome, &mut out)?;
        for (name, text) in self.lines(&commits) {
            out.line(format!("{name:<10}{text}"))?;
        }
        out.flush()
    }

    fn commits_name(&self) -> &'static str {
        match self
            .measured
            .options
            .iter()
            .find(|(name, _)| *name == "durability")
            .and_then(|(_, value)| value.as_str())
        {
            Some("buffered") => "commits, weak",
            Some("written") => "commits, written",
            _ => "durable commits",
        }
    }

    fn lines(&self, commits: &Summary) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let (Some(syncs), Some(bytes)) =
            (self.measured.outcome.counters.syncs, self.measured.outcome.counters.bytes_synced)
        {
            lines.push((
                "log",
                format!(
                    "{} syncs, {} bytes a sync, {:.1} commits a sync, {:.1} MB synced",
                    grouped(syncs),
                    grouped(ratio(bytes, syncs) as u64),
                    ratio(commits.count, syncs),
                    bytes as f64 / 1e6,
                ),
            ));
        }
        let per_transaction =
            self.measured.cpu.as_secs_f64() * 1e6 / self.measured.outcome.transactions.max(1) as f64;
        lines.push((
            "cpu",
            format!("{:.2} s, {per_transaction:.2} us a transaction", self.measured.cpu.as_secs_f64()),
        ));
        if let Some((waits, deadlocks)) = self.measured.lock_waits {
            let of = ratio(waits, self.measured.outcome.transactions);
            lines.push((
                "locks",
                format!("{} waits, {of:.2} a transaction; {} deadlocks", grouped(waits), grouped(deadlocks)),
            ));
        }
        if let Some(limit) = &self.limit {
            lines.push((
                "device",
                format!(
                    "raw 4 KiB durable write, {}: p50 {:.1} us, {} a second; {} a second with {} in flight",
                    method_name(limit.method),
                    limit.alone.us(0.5),
                    grouped(limit.alone.per_second as u64),
                    grouped(limit.many.per_second as u64),
                    Limit::MANY,
                ),
            ));
            if commits.count > 0 {
                let times = commits.p50_us / limit.alone.us(0.5).max(1e-3);
                lines.push(("", format!("the median commit took {times:.2} times the median raw write")));
            }
        }
        if let Some(counted) = self.measured.counted {
            lines.push(("check", counted.line()));
        }
        lines.push(("machine", self.machine.line()));
        let options: Vec<String> = self
            .measured
            .options
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| match value {
                Value::String(text) => format!("{name}={text}"),
                other => format!("{name}={other}"),
            })
            .collect();
        lines.push(("options", options.join(" ")));
        lines.push(("data", self.data.clone()));
        lines
    }

    fn summaries(&self) -> (Summary, Summary) {
        (
            Summary::of(&self.measured.outcome.latencies.reads),
            Summary::of(&self.measured.outcome.latencies.commits),
        )
    }

    /// The report as a JSON object.
    pub fn json(&self) -> Value {
        let (reads, commits) = self.summaries();
        let outcome = &self.measured.outcome;
        let (syncs, bytes_synced) = (outcome.counters.syncs, outcome.counters.bytes_synced);
        let seed =
            self.measured.options.iter().find(|(name, _)| *name == "seed").map(|(_, seed)| seed.clone());
        json!({
            "schema": SCHEMA,
            "workload": self.measured.workload,
            "version": env!("CARGO_PKG_VERSION"),
            "commit": built::COMMIT,
            "dirty": built::dirty(),
            "rustc": built::RUSTC,
            "profile": built::PROFILE,
            "seed": seed,
            "nvram": self.nvram.map(|form| form.to_string()),
            "load": match self.measured.loaded {
                Loaded::Now(many, what, time) => json!({
                    what: many,
                    "seconds": time.as_secs_f64(),
                    format!("{what}_per_second"): many as f64 / time.as_secs_f64().max(1e-9),
                }),
                Loaded::Before | Loaded::NotNeeded => Value::Null,
            },
            "seconds": outcome.elapsed.as_secs_f64(),
            "transactions": outcome.transactions,
            "transactions_per_second": outcome.transactions_per_second(),
            "conflicts": outcome.conflicts,
            "rolled_back": outcome.rolled_back,
            "kinds": self.measured.kinds.json(outcome),
            "score": self.measured.kinds.score.map(Score::json),
            "stopped": outcome.stopped,
            "reads": summary_json(&reads),
            "commits": summary_json(&commits),
            "syncs": syncs,
            "bytes_synced": bytes_synced,
            "bytes_per_sync": syncs.zip(bytes_synced).map(|(syncs, bytes)| ratio(bytes, syncs)),
            "commits_per_sync": syncs.map(|syncs| ratio(commits.count, syncs)),
            "lock_waits": self.measured.lock_waits.map(|(waits, _)| waits),
            "deadlocks": self.measured.lock_waits.map(|(_, deadlocks)| deadlocks),
            "cpu_seconds": self.measured.cpu.as_secs_f64(),
            "device_limit": self.limit.as_ref().map(limit_json),
            "check": self.measured.counted.map(Counted::json),
            "options": self.measured.options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>(),
            "machine": self.machine.json(),
        })
    }

    /// Writes the JSON object to a file.
    pub fn write_json(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.json()).map_err(Failure::failed)?;
        whole_file::write(file, (text + "\n").as_bytes())
    }
}

fn summary_json(of: &Summary) -> Value {
    json!({
        "count": of.count,
        "latency_us": {
            "mean": of.mean_us,
            "p50": of.p50_us,
            "p95": of.p95_us,
            "p99": of.p99_us,
            "p999": of.p999_us,
            "max": of.max_us,
        },
    })
}

fn limit_json(limit: &Limit) -> Value {
    let writes = |of: &Writes, in_flight: usize| {
        json!({
            "in_flight": in_flight,
            "writes_per_second": of.per_second,
            "latency_us": { "p50": of.us(0.5), "p99": of.us(0.99) },
        })
    };
    json!({
        "block_bytes": crate::host::limit::BLOCK,
        "method": method_name(limit.method),
        "alone": writes(&limit.alone, 1),
        "many": writes(&limit.many, Limit::MANY),
    })
}

fn ratio(of: u64, to: u64) -> f64 {
    if to == 0 { 0.0 } else { of as f64 / to as f64 }
}
