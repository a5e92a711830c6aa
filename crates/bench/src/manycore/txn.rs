//! The command `lab manycore txn`.

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
use katydid_manycore::{RunError, TXN_DESIGNS, TxnDesign, TxnPlan, run_txns};
use std::path::PathBuf;

/// Measure commits by virtual threads on a simulated machine, with and without shared words
///
/// Every transaction takes a timestamp, appends a record to a log, and is acknowledged without
/// waiting for a device. The results therefore show the cost of shared words on many cores. The
/// command compares one counter for timestamps and one end of the log with the memory engine's
/// design, in which each thread has its own timestamps and its own log. The simulation runs the
/// engine's real clock and the log's real inserters. Equal flags give equal results, byte for byte.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid lab manycore txn --machine modern --svg txn.svg
  katydid lab manycore txn --machine eleda --work 0 --record 120 --csv txn.csv")]
pub struct Txn {
    /// Name of a machine, or a .toml file that describes one; `manycore run --help` lists the names
    #[arg(long, value_name = "NAME|FILE", default_value = "modern")]
    machine: String,
    /// Numbers of virtual threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = flags::threads)]
    threads: Vec<usize>,
    /// Bytes of a transaction's record, including its 48-byte header
    #[arg(long, value_name = "BYTES", default_value = "400", value_parser = record)]
    record: usize,
    /// Nanoseconds of other work in each transaction
    #[arg(long, value_name = "NS", default_value = "1000", value_parser = flags::work)]
    work: f64,
    /// Simulated milliseconds of each run
    #[arg(long, value_name = "N", default_value = "2")]
    millis: f64,
    /// Seed of the choices that on a real machine are left to chance
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Number of rounds, each of which runs every case once, with a seed of its own; the rows are
    /// medians
    #[arg(long, value_name = "N", default_value = "1", value_parser = flags::rounds)]
    rounds: usize,
    /// Write all rows to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the rows of each round separately to this file, as CSV
    #[arg(long, value_name = "FILE")]
    rounds_csv: Option<PathBuf>,
    /// Draw transactions per second over threads into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn record(text: &str) -> std::result::Result<usize, String> {
    match flags::record(text)? {
        record @ ..=0x4000 => Ok(record),
        _ => Err("must be at most 16384 bytes".to_owned()),
    }
}

/// A number of threads, with the transactions per second of each design.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    threads: usize,
    rates: Vec<f64>,
}

impl Txn {
    pub fn run(self) -> Result<()> {
        let described = machine(&self.machine)?;
        let title = format!("{}, simulated: {}", self.machine, described.summary);
        let mut progress = Progress::new("manycore txn");
        let (mut rounds, mut done) = (Vec::new(), 0);
        let total = self.rounds * self.threads.len() * TXN_DESIGNS.len();
        for round in 0..self.rounds as u64 {
            let mut rows = Vec::new();
            for &threads in &self.threads {
                let mut rates = Vec::new();
                for design in TXN_DESIGNS {
                    let what = || format!("{}, {threads} threads", design.name);
                    progress.show(Some(f64::from(done) / total as f64), what);
                    let outcome = run_txns(&described, &self.plan(design, threads, round)).map_err(failed)?;
                    rates.push(outcome.per_second);
                    done += 1;
                }
                rows.push(Row { threads, rates });
            }
            rounds.push(rows);
        }
        drop(progress);
        let rows = medians(&rounds);
        let mut out = Output::new();
        out.line(format!("katydid {VERSION}: transactions of virtual threads"))?;
        out.line(format!(
            "simulated: {}; {} cores, record={} work_ns={} millis={} seed={} rounds={}; no device, no durability",
            described.summary, described.cores, self.record, self.work, self.millis, self.seed, self.rounds
        ))?;
        out.line("")?;
        for line in table::lined_up(&lines(&rows, |rate| grouped(rate as u64))) {
            out.line(line)?;
        }
        out.line("")?;
        out.line("transactions a second")?;
        for design in TXN_DESIGNS {
            out.line(format!("{}: {}", design.name, design.about))?;
        }
        if let Some(file) = &self.csv {
            whole_file::write(file, table::csv(&lines(&rows, |rate| format!("{rate:.0}"))).as_bytes())?;
        }
        if let Some(file) = &self.rounds_csv {
            whole_file::write(file, table::csv(&lines_of_rounds(&rounds)).as_bytes())?;
        }
        if let Some(file) = &self.svg {
            whole_file::create_parent(file)?;
            whole_file::write(file, draw(&picture(&rows, title)).as_bytes())?;
        }
        out.flush()
    }

    fn plan(&self, design: TxnDesign, threads: usize, round: u64) -> TxnPlan {
        TxnPlan {
            design,
            threads,
            record: self.record,
            work_ns: self.work,
            millis: self.millis,
            seed: self.seed.wrapping_add(round),
        }
    }
}

fn lines(rows: &[Row], shown: impl Fn(f64) -> String) -> Vec<Vec<String>> {
    let names = TXN_DESIGNS.iter().map(|design| design.name.to_owned());
    let mut lines = vec![std::iter::once("threads".to_owned()).chain(names).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| {
        std::iter::once(row.threads.to_string()).chain(row.rates.iter().map(|rate| shown(*rate))).collect()
    }));
    lines
}

/// The rows of each round. The first column is the number of the round, from 1.
fn lines_of_rounds(rounds: &[Vec<Row>]) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for (at, rows) in rounds.iter().enumerate() {
        let names_and_rows = lines(rows, |rate| format!("{rate:.0}")).into_iter().enumerate();
        let of_round = names_and_rows.skip(usize::from(at > 0)).map(|(line, fields)| {
            let first = if line == 0 { "round".to_owned() } else { (at + 1).to_string() };
            std::iter::once(first).chain(fields).collect()
        });
        all.extend::<Vec<Vec<String>>>(of_round.collect());
    }
    all
}

/// The median of each rate over the rounds. For an even number of rounds it is the lower of the
/// middle two.
fn medians(rounds: &[Vec<Row>]) -> Vec<Row> {
    let median = |at: usize, design: usize| {
        let mut rates: Vec<f64> = rounds.iter().map(|rows| rows[at].rates[design]).collect();
        rates.sort_by(f64::total_cmp);
        rates[(rates.len() - 1) / 2]
    };
    let rows = rounds.first().map_or(&[][..], Vec::as_slice);
    let row = |(at, row): (usize, &Row)| Row {
        threads: row.threads,
        rates: (0..row.rates.len()).map(|design| median(at, design)).collect(),
    };
    rows.iter().enumerate().map(row).collect()
}

fn picture(rows: &[Row], machine: String) -> Picture {
    let line = |(at, design): (usize, &TxnDesign)| Line {
        name: design.name.to_owned(),
        points: rows.iter().map(|row| (row.threads as f64, row.rates[at])).collect(),
    };
    Picture {
        title: "transactions that write: a timestamp and a record".to_owned(),
        subtitle: machine,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_medians_and_each_round_keeps_its_number() {
        let round = |rate: f64| vec![Row { threads: 8, rates: vec![rate; TXN_DESIGNS.len()] }];
        let rounds = [round(3.0), round(1.0), round(2.0)];
        assert_eq!(medians(&rounds), round(2.0));
        let lines = lines_of_rounds(&rounds);
        let column = |at: usize| lines.iter().map(|line| line[at].as_str()).collect::<Vec<_>>();
        assert_eq!(column(0), ["round", "1", "2", "3"]);
        assert_eq!(
            (column(1), column(2)[1..].to_vec()),
            (vec!["threads", "8", "8", "8"], vec!["3", "1", "2"])
        );
    }
}
