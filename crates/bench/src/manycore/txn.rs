//! `manycore txn`.

use super::run::machine;
use crate::grid::chart::{Line, Picture, Scale, draw};
use crate::grid::flags;
use clap::Args;
use katydid_command::built::VERSION;
use katydid_command::bytes::grouped;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::progress::Progress;
use katydid_command::table;
use katydid_command::whole_file;
use katydid_manycore::{RunError, TXN_DESIGNS, TxnDesign, TxnOutcome, TxnPlan, run_txns};
use std::path::PathBuf;

/// Commit with virtual threads on a simulated machine: timestamps and a record, through shared words and without
///
/// Every transaction takes a timestamp, puts a record into a log and is acknowledged; nobody waits for a device. So the figures say what
/// shared words cost on many cores: one counter for timestamps, one place where logs end, against the memory engine's own timestamps and
/// a log for each thread, whose real code runs here. The same options give the same figures, to the byte.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid lab manycore txn --machine modern --svg txn.svg
  katydid lab manycore txn --machine eleda --work 0 --record 120 --csv txn.csv")]
pub struct Txn {
    /// A machine's name, or a file that describes one; see `manycore run`
    #[arg(long, value_name = "NAME|FILE", default_value = "modern")]
    machine: String,
    /// Numbers of virtual threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = flags::threads)]
    threads: Vec<usize>,
    /// Bytes of a transaction's record, its 48-byte header included
    #[arg(long, value_name = "BYTES", default_value = "400", value_parser = record)]
    record: usize,
    /// All else that a transaction does, in nanoseconds
    #[arg(long, value_name = "NS", default_value = "1000", value_parser = flags::work)]
    work: f64,
    /// Simulated milliseconds of each run
    #[arg(long, value_name = "N", default_value = "2")]
    millis: f64,
    /// Decides what chance does elsewhere
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Write all rows there, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw transactions a second over threads there
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn record(text: &str) -> std::result::Result<usize, String> {
    match flags::record(text)? {
        record @ ..=0x4000 => Ok(record),
        _ => Err("must be at most 16384 bytes".to_owned()),
    }
}

/// One number of threads, and the outcome of each design.
struct Row {
    threads: usize,
    outcomes: Vec<TxnOutcome>,
}

impl Txn {
    pub fn run(self) -> Result<()> {
        let described = machine(&self.machine)?;
        let title = format!("{}, simulated: {}", self.machine, described.summary);
        let mut progress = Progress::new("manycore txn");
        let (mut rows, total) = (Vec::new(), self.threads.len() * TXN_DESIGNS.len());
        for &threads in &self.threads {
            let mut outcomes = Vec::new();
            for design in TXN_DESIGNS {
                let done = rows.len() * TXN_DESIGNS.len() + outcomes.len();
                let what = || format!("{}, {threads} threads", design.name);
                progress.show(Some(done as f64 / total as f64), what);
                outcomes.push(run_txns(&described, &self.plan(design, threads)).map_err(failed)?);
            }
            rows.push(Row { threads, outcomes });
        }
        drop(progress);
        let mut out = Output::new();
        out.line(format!("katydid {VERSION}: transactions of virtual threads"))?;
        out.line(format!(
            "simulated: {}; {} cores, record={} work_ns={} millis={} seed={}; no device, no durability",
            described.summary, described.cores, self.record, self.work, self.millis, self.seed
        ))?;
        out.line("")?;
        for line in table::lined_up(&self.lines(&rows, |outcome| grouped(outcome.per_second as u64))) {
            out.line(line)?;
        }
        out.line("")?;
        out.line("transactions a second")?;
        for design in TXN_DESIGNS {
            out.line(format!("{}: {}", design.name, design.about))?;
        }
        if let Some(file) = &self.csv {
            let lines = self.lines(&rows, |outcome| format!("{:.0}", outcome.per_second));
            whole_file::write(file, table::csv(&lines).as_bytes())?;
        }
        if let Some(file) = &self.svg {
            whole_file::create_parent(file)?;
            whole_file::write(file, draw(&picture(&rows, title)).as_bytes())?;
        }
        out.flush()
    }

    fn plan(&self, design: TxnDesign, threads: usize) -> TxnPlan {
        TxnPlan {
            design,
            threads,
            record: self.record,
            work_ns: self.work,
            millis: self.millis,
            seed: self.seed,
        }
    }

    fn lines(&self, rows: &[Row], shown: impl Fn(&TxnOutcome) -> String) -> Vec<Vec<String>> {
        let names = TXN_DESIGNS.iter().map(|design| design.name.to_owned());
        let mut lines = vec![std::iter::once("threads".to_owned()).chain(names).collect::<Vec<_>>()];
        lines.extend(rows.iter().map(|row| {
            std::iter::once(row.threads.to_string()).chain(row.outcomes.iter().map(&shown)).collect()
        }));
        lines
    }
}

fn picture(rows: &[Row], title: String) -> Picture {
    let line = |(at, design): (usize, &TxnDesign)| Line {
        name: design.name.to_owned(),
        points: rows.iter().map(|row| (row.threads as f64, row.outcomes[at].per_second)).collect(),
    };
    Picture {
        title,
        subtitle: "transactions that write: a timestamp and a record".to_owned(),
        x_name: "threads".to_owned(),
        y_name: "transactions/s".to_owned(),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Logarithmic,
        lines: TXN_DESIGNS.iter().enumerate().map(line).collect(),
    }
}

fn failed(error: RunError) -> Failure {
    match error {
        RunError::Design { .. } | RunError::Range { .. } => Failure::usage(error),
        _ => Failure::failed(error),
    }
}
