//! The command `lab manycore txn`.

use super::designs::{Files, Rates, Words};
use super::run::machine;
use crate::grid::flags;
use clap::Args;
use katydid_command::built::VERSION;
use katydid_command::bytes::grouped;
use katydid_command::failure::Result;
use katydid_command::output::Output;
use katydid_command::table;
use katydid_manycore::{TXN_DESIGNS, TxnDesign, TxnPlan, run_txns};

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
    #[command(flatten)]
    files: Files,
}

fn record(text: &str) -> std::result::Result<usize, String> {
    match flags::record(text)? {
        record @ ..=0x4000 => Ok(record),
        _ => Err("must be at most 16384 bytes".to_owned()),
    }
}

impl Txn {
    pub fn run(self) -> Result<()> {
        let described = machine(&self.machine)?;
        let subtitle = format!("{}, simulated: {}", self.machine, described.summary);
        let names = TXN_DESIGNS.iter().map(|design| design.name).collect();
        let measure = |at: usize, threads: usize, round: u64| {
            let outcome = run_txns(&described, &self.plan(TXN_DESIGNS[at], threads, round));
            outcome.map(|outcome| outcome.per_second)
        };
        let rates = Rates::measure("manycore txn", names, &self.threads, self.rounds, measure)?;
        let mut out = Output::new();
        out.line(format!("katydid {VERSION}: transactions of virtual threads"))?;
        out.line(format!(
            "simulated: {}; {} cores, record={} work_ns={} millis={} seed={} rounds={}; no device, no durability",
            described.summary, described.cores, self.record, self.work, self.millis, self.seed, self.rounds
        ))?;
        out.line("")?;
        for line in table::lined_up(&rates.table(|rate| grouped(rate as u64))) {
            out.line(line)?;
        }
        out.line("")?;
        out.line("transactions a second")?;
        for design in TXN_DESIGNS {
            out.line(format!("{}: {}", design.name, design.about))?;
        }
        let title = "transactions that write: a timestamp and a record";
        rates.write(&self.files, Words { title, subtitle, rate: "transactions/s" })?;
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
