//! The command `lab manycore reads`.

use super::designs::{Files, Rates, Words};
use super::run::machine;
use crate::grid::flags;
use clap::{Args, ValueEnum};
use katydid_command::built::VERSION;
use katydid_command::bytes::grouped;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::table;
use katydid_manycore::{KeyChoice, READ_DESIGNS, ReadDesign, ReadEngine, ReadPlan, run_reads};

/// Measure point reads by virtual threads on a simulated machine, with and without shared words
///
/// Every transaction reads rows that are in memory, and no transaction writes. The results show the
/// shared words that limit the reads of many cores: latches, reference counts, the registry of read
/// views, the slots of transactions. The simulation runs the memory engine's real clock and slots.
/// All other words of the read paths are modelled (docs/manycore.md), and the rest of a read is
/// constant work. Equal flags give equal results, byte for byte.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid lab manycore reads --reads 100 --svg reads.svg
  katydid lab manycore reads --keys zipfian --design paged,memory --threads 1,64,128 --csv reads.csv")]
pub struct Reads {
    /// Name of a machine, or a .toml file that describes one; `manycore run --help` lists the names
    #[arg(long, value_name = "NAME|FILE", default_value = "modern")]
    machine: String,
    /// Designs, or all
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "all")]
    design: Vec<String>,
    /// Numbers of virtual threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = flags::threads)]
    threads: Vec<usize>,
    /// Distribution of the rows that are read
    #[arg(long, value_enum, default_value = "uniform")]
    keys: Keys,
    /// Number of reads in each transaction
    #[arg(long, value_name = "N", default_value = "1")]
    reads: usize,
    /// Number of rows of the table
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: usize,
    /// Number of rows of a leaf of the paged engine
    #[arg(long, value_name = "N", default_value = "60")]
    rows_per_leaf: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value = "100")]
    value: usize,
    /// Nanoseconds of constant work in each read of the paged engine
    #[arg(long, value_name = "NS", default_value = "1090", value_parser = flags::work)]
    paged_work: f64,
    /// Nanoseconds of constant work in each transaction of the paged engine
    #[arg(long, value_name = "NS", default_value = "20", value_parser = flags::work)]
    paged_begin: f64,
    /// Nanoseconds of constant work in each read of the memory engine
    #[arg(long, value_name = "NS", default_value = "400", value_parser = flags::work)]
    memory_work: f64,
    /// Nanoseconds of constant work in each transaction of the memory engine
    #[arg(long, value_name = "NS", default_value = "80", value_parser = flags::work)]
    memory_begin: f64,
    /// Simulated milliseconds of each run
    #[arg(long, value_name = "N", default_value = "2")]
    millis: f64,
    /// Seed of the rows that are read, and of the choices that on a real machine are left to chance
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Number of rounds, each of which runs every case once, with a seed of its own; the rows are
    /// medians
    #[arg(long, value_name = "N", default_value = "1", value_parser = flags::rounds)]
    rounds: usize,
    #[command(flatten)]
    files: Files,
}

/// Distribution of the rows that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Keys {
    /// Every row is equally likely
    Uniform,
    /// Some rows are read often, as in YCSB (skew 0.99)
    Zipfian,
}

impl Reads {
    pub fn run(self) -> Result<()> {
        let described = machine(&self.machine)?;
        let designs = self.designs()?;
        let subtitle = format!("{}, simulated: {}", self.machine, described.summary);
        let names = designs.iter().map(|design| design.name).collect();
        let measure = |at: usize, threads: usize, round: u64| {
            let outcome = run_reads(&described, &self.plan(designs[at], threads, round));
            outcome.map(|outcome| outcome.per_second)
        };
        let rates = Rates::measure("manycore reads", names, &self.threads, self.rounds, measure)?;
        let mut out = Output::new();
        out.line(format!("katydid {VERSION}: point reads of virtual threads"))?;
        out.line(format!(
            "simulated: {}; {} cores, keys={} reads={} rows={} rows_per_leaf={} value={} paged_work_ns={} \
             paged_begin_ns={} memory_work_ns={} memory_begin_ns={} millis={} seed={} rounds={}; \
             a model of the read paths",
            described.summary,
            described.cores,
            self.keys_name(),
            self.reads,
            self.rows,
            self.rows_per_leaf,
            self.value,
            self.paged_work,
            self.paged_begin,
            self.memory_work,
            self.memory_begin,
            self.millis,
            self.seed,
            self.rounds
        ))?;
        let mut print = |lines: Vec<Vec<String>>, what: &str| -> Result<()> {
            out.line("")?;
            out.line(what)?;
            table::lined_up(&lines).into_iter().try_for_each(|line| out.line(line))
        };
        print(rates.table(|rate| grouped(rate as u64)), "reads a second")?;
        if let Some(ratios) = rates.ratios() {
            print(ratios, "to one thread")?;
        }
        out.line("")?;
        for design in &designs {
            out.line(format!("{}: {}", design.name, design.about))?;
        }
        let title = "point reads of cached rows";
        rates.write(&self.files, Words { title, subtitle, rate: "reads/s" })?;
        out.flush()
    }

    fn keys_name(&self) -> String {
        self.keys.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn designs(&self) -> Result<Vec<ReadDesign>> {
        let known = READ_DESIGNS.map(|design| design.name).join(", ");
        let mut all = Vec::new();
        for name in &self.design {
            let before = all.len();
            all.extend(READ_DESIGNS.iter().filter(|design| name == "all" || name == design.name).copied());
            if all.len() == before {
                return Err(Failure::usage(format_args!("no design {name:?}; there are {known}, or all")));
            }
        }
        Ok(all)
    }

    fn plan(&self, design: ReadDesign, threads: usize, round: u64) -> ReadPlan {
        let (begin_ns, work_ns) = match design.engine() {
            ReadEngine::Paged => (self.paged_begin, self.paged_work),
            ReadEngine::Memory => (self.memory_begin, self.memory_work),
        };
        ReadPlan {
            design,
            threads,
            keys: match self.keys {
                Keys::Uniform => KeyChoice::Uniform,
                Keys::Zipfian => KeyChoice::Zipfian,
            },
            rows: self.rows,
            rows_per_leaf: self.rows_per_leaf,
            value_bytes: self.value,
            reads: self.reads,
            begin_ns,
            work_ns,
            millis: self.millis,
            seed: self.seed.wrapping_add(round),
        }
    }
}
