//! The command `lab commit`.

use crate::commits::figures::Figure;
use crate::commits::figures::spec::Lists;
use crate::commits::flags::{self, Common};
use crate::commits::session::Session;
use crate::commits::store::Scale;
use crate::commits::study::Study;
use crate::commits::tpcc::{TpccDatabases, TpccFlags, shown};
use crate::grid::flags as lists;
use clap::Args;
use katydid_command::failure::Result;
use katydid_command::flags::{delay, word};
use katydid_wal::{InserterKind, LogKind};
use std::time::Duration;

/// Repeat the figures of the papers about commits on this machine
///
/// The figures vary sync protocols, lock release, flush pipelining, sizes and I/O units, with
/// TPC-B, TPC-C, sysbench and key-value workloads, in the store or in the log alone. Each figure
/// takes about a minute. A flag with a list replaces the list that a figure varies. Every round
/// also measures the raw device.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct Commit {
    /// Figures: aether2, aether3, aether4, aether5, aether9, flushing5, flushing6, flushing-table1,
    /// eleda8, eleda10, eleda12, eleda13, eleda14, eleda18, eleda19, or `all`
    #[arg(long, alias = "sweep", value_name = "NAMES", default_value = "aether3", value_delimiter = ',')]
    figure: Vec<String>,
    /// Numbers of client threads [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = lists::threads)]
    threads: Vec<usize>,
    /// Sync protocols, which make the log durable: adaptive, pipelined, aggregated, grouped,
    /// slotted, per-commit, inline, or `all` [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sync: Vec<String>,
    /// Skews of the choice of tellers and accounts: exponents of a zipfian distribution, from 0 to
    /// 10 [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = lists::skew)]
    skew: Vec<f64>,
    /// Times added to each durable write of the log, such as 0, 15us, 100us, 1ms [default: the
    /// figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = delay)]
    delay: Vec<Duration>,
    /// Bytes that a commit writes [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = lists::payload)]
    payload: Vec<usize>,
    /// Maximum bytes of one write of the log [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = lists::io_unit)]
    io_unit: Vec<usize>,
    /// Transactions in flight of each client that uses callbacks [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = lists::in_flight)]
    in_flight: Vec<usize>,
    /// Inserter, which puts records into the log: mutex, consolidated, decoupled, hybrid,
    /// delegated, grasshopper, bitmap, chunked or marks [default: the figure's own, else marks]
    ///
    /// In the figures that compare systems (aether2, aether9, eleda8 to eleda14, eleda19), only our
    /// system uses this inserter. The figures of efficient flushing use 16 slots, whatever --slots
    /// says.
    #[arg(long, value_name = "KIND", value_parser = word::<InserterKind>)]
    inserter: Option<InserterKind>,
    /// Kind of the log: disk, or nv_direct, nv_ring, nv_entries or nv_logging in NVRAM
    ///
    /// A log in NVRAM has no sync protocol, but may have a delay.
    #[arg(long, value_name = "KIND", default_value = "disk", value_parser = word::<LogKind>)]
    log: LogKind,
    /// Branches of TPC-B, with 10 tellers each
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    branches: u64,
    /// Accounts of each branch of TPC-B
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    accounts: u64,
    /// Number of keys of the key-value workloads, and of rows of sysbench's table
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    keys: u64,
    #[command(flatten)]
    tpcc: TpccFlags,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

const AFTER: &str = "\
What the papers saw:
  aether2          with 60 clients the processors idle for 75 % of the time, with early release for 20 %, with flush pipelining never
  aether3          early lock release on TPC-B over skew: nothing gained without contention, 2 times at 100 us and up to
                   35 times at 10 ms with a skew around 1, less beyond
  aether4          without flush pipelining context switches grow with the clients while processors idle; with it
                   they stay nearly constant and all processors are used
  aether5          flush pipelining is as fast as asynchronous commit, which is unsafe: up to 22 % above the baseline
  aether9          flush pipelining gains most, 68 % over the baseline; a scalable log buffer another 7 %
  flushing5        aggregated over slotted, inserts: 3.9, 5.5, 1.83, 1.72, 1.3 times at 8, 16, 32, 64, 128 threads
  flushing6        aggregated over slotted, sysbench's writing transactions: 6.4, 3.3, 2.3, 1.7, 1.4 times
  flushing-table1  slotted spends 82 % of an insert waiting for the lock at 8 threads; at 8 threads aggregated takes
                   a quarter of the locks and syncs
  eleda8, 10       vanilla, ELEDA and ours on YCSB A and sysbench: ELEDA has 71 and 32 times vanilla's rate at 32 threads,
                   but acknowledges later
  eleda12          TPC-C grows with the threads and does not collapse
  eleda13          vanilla, ELEDA and ours in a multi-version engine
  eleda14          throughput falls as payloads grow from 512 bytes to 5 KiB, bandwidth grows to the devices' limit
  eleda18          with I/O units of 64 KiB commits are acknowledged ten times sooner, with 512 KiB twice the bytes are moved
  eleda19          hiding the latency gains nearly all with few threads, GRASSHOPPER the rest with many

Examples:
  katydid lab commit --figure aether3 --csv aether3.csv --svg charts
  katydid lab commit --figure aether3 --delay 1ms --skew 0.85 --threads 16,64,128
  katydid lab commit --figure flushing5,flushing-table1 --sync all --dir /mnt/log
  katydid lab commit --figure all --quick";

impl Commit {
    pub fn run(self) -> Result<()> {
        let lists = self.lists()?;
        let figures = self.figures()?;
        let cases = figures.iter().map(|figure| figure.cases(&lists)).collect::<Result<Vec<_>>>()?;
        let scale = Scale {
            branches: self.branches,
            accounts_of_branch: self.accounts,
            keys: self.keys,
            seed: self.seed,
        };
        let tpcc = self.tpcc.settings(32);
        let options = format!(
            "{} branches={} accounts={} keys={} {} seed={}",
            self.common.options(),
            self.branches,
            self.accounts,
            self.keys,
            shown(&tpcc),
            self.seed
        );
        let mut session =
            Session::new(&self.common, Some(scale), "commits of the store and of the log", &options)?
                .with_tpcc(TpccDatabases::new(tpcc, scale));
        let mut done = Ok(());
        for (figure, cases) in figures.into_iter().zip(cases) {
            let spec = figure.spec();
            let (time, rounds) = self.common.length(spec.seconds, spec.rounds);
            done = session.run(Study::Figure(figure), cases, spec.method, time, rounds);
            if done.is_err() {
                break;
            }
        }
        session.end(done)
    }

    fn lists(&self) -> Result<Lists> {
        Ok(Lists {
            threads: self.threads.clone(),
            syncs: flags::syncs(&self.sync)?,
            skews: self.skew.clone(),
            delays: self.delay.clone(),
            payloads: self.payload.clone(),
            io_units: self.io_unit.clone(),
            in_flight: self.in_flight.clone(),
            inserter: self.inserter,
            log: self.log,
        })
    }

    /// The requested figures, each once, in the order of `Figure::ALL`.
    fn figures(&self) -> Result<Vec<Figure>> {
        let chosen = lists::chosen(&self.figure, &Figure::ALL.map(Figure::name), "figure")?;
        Ok(Figure::ALL.into_iter().filter(|figure| chosen.contains(&figure.name())).collect())
    }
}
