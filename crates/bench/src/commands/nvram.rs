//! The command `lab nvram`.

use crate::commits::figures::nvram::{Choice, NvramFigure};
use crate::commits::flags::{self, Common};
use crate::commits::session::Session;
use crate::commits::store::Scale;
use crate::commits::study::Study;
use crate::commits::tpcc::{TpccDatabases, TpccFlags, shown};
use crate::grid::flags as lists;
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::delay;
use katydid_command::flags::word;
use katydid_wal::{InserterKind, LogKind};
use std::time::Duration;

/// Repeat the figures of NV-Logging and ELEDA about logs in NVRAM on this machine
///
/// The command runs NewOrders and Payments of TPC-C, and updates of single keys, in the paged
/// engine. Each round runs them over every kind of log in NVRAM and over the disk log. On a machine
/// without NVRAM, files in memory emulate it, with latency added to each persist; every table and
/// file says so.
#[derive(Debug, Args)]
#[command(after_help = "\
What the papers saw:
  nvlogging6       1.05 to 1.34 times the throughput of a central log on a memory disk, from 0 to 10 us
  nvlogging7, 8    throughput does not fall beyond 20 clients, and latency grows less than the central log's
  nvlogging9       fewer checkpoints with more entries
  eleda15          a disk log whose clients use callbacks is as fast as a log in NVRAM

Examples:
  katydid lab nvram --csv nvram.csv --svg charts
  katydid lab nvram --figure nvlogging7,nvlogging8 --threads 1,10,50 --delay 1us
  katydid lab nvram --figure nvlogging9 --entries 65536,262144 --log nv_ring
  katydid lab nvram --figure all --quick")]
pub struct Nvram {
    /// Figures: nvlogging6, nvlogging7, nvlogging8, nvlogging9, eleda15, append, or `all`
    #[arg(long, value_name = "NAMES", default_value = "nvlogging6", value_delimiter = ',')]
    figure: Vec<String>,
    /// Kinds of the log: nv_direct, nv_ring, nv_entries, nv_logging, or `all`
    #[arg(long, value_name = "LIST", default_value = "all", value_delimiter = ',')]
    log: Vec<String>,
    /// Numbers of client threads [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = lists::threads)]
    threads: Vec<usize>,
    /// Times added to each persist, and to each durable write of the disk log, such as 0, 400ns,
    /// 2us [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = delay)]
    delay: Vec<Duration>,
    /// Numbers of entries of the log, powers of two, in nvlogging9; an entry takes 128 bytes
    /// [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = entries)]
    entries: Vec<u64>,
    /// Transactions in flight of each client of the disk log that uses callbacks, in eleda15
    #[arg(long, value_name = "N", default_value = "100", value_parser = lists::in_flight)]
    in_flight: usize,
    /// Inserter, which puts records into the log: mutex, consolidated, decoupled, hybrid,
    /// delegated, grasshopper, bitmap, chunked or marks
    ///
    /// The central log on disk, which is the baseline, uses mutex.
    #[arg(long, value_name = "KIND", default_value = "marks", value_parser = word::<InserterKind>)]
    inserter: InserterKind,
    #[command(flatten)]
    tpcc: TpccFlags,
    /// Number of keys in the table that is updated
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

fn entries(text: &str) -> std::result::Result<u64, String> {
    match text.parse() {
        Ok(entries @ 8192..=0x400_0000_u64) if entries.is_power_of_two() => Ok(entries),
        _ => Err("must be a power of two from 8192 to 67108864".to_owned()),
    }
}

impl Nvram {
    pub fn run(self) -> Result<()> {
        let figures = self.figures()?;
        let choice = Choice {
            threads: self.threads.clone(),
            delays: self.delay.clone(),
            entries: self.entries.clone(),
            kinds: self.kinds()?,
            in_flight: self.in_flight,
            inserter: self.inserter,
            quick: self.common.quick,
        };
        let settings = self.tpcc.settings(4);
        let options = format!(
            "{} engine=paged {} keys={} seed={}",
            self.common.options(),
            shown(&settings),
            self.keys,
            self.seed
        );
        let records = Scale { branches: 0, accounts_of_branch: 0, keys: self.keys, seed: self.seed };
        let mut session = Session::new(&self.common, None, "stores over logs in NVRAM", &options)?
            .with_tpcc(TpccDatabases::new(settings, records));
        let mut run = |figure: NvramFigure| {
            let spec = figure.spec();
            let (time, rounds) = self.common.length(spec.seconds, spec.rounds);
            session.run(Study::Nvram(figure), figure.cases(&choice), spec.method, time, rounds)
        };
        let done = figures.into_iter().try_for_each(&mut run);
        session.end(done)
    }

    /// The requested figures, each once, in the order of `NvramFigure::ALL`.
    fn figures(&self) -> Result<Vec<NvramFigure>> {
        let known: Vec<&str> = NvramFigure::ALL.iter().flat_map(|figure| figure.words()).copied().collect();
        let chosen = lists::chosen(&self.figure, &known, "figure")?;
        let asked = |figure: &NvramFigure| figure.words().iter().any(|word| chosen.contains(word));
        Ok(NvramFigure::ALL.into_iter().filter(asked).collect())
    }

    fn kinds(&self) -> Result<Vec<LogKind>> {
        let kinds = flags::logs(&self.log)?;
        match kinds.iter().find(|kind| !kind.in_nvram()) {
            Some(_) if self.log == ["all"] => Ok(kinds.into_iter().filter(|kind| kind.in_nvram()).collect()),
            Some(kind) => {
                Err(Failure::usage(format_args!("--log {kind}: it is not in NVRAM; it is the baseline")))
            }
            None => Ok(kinds),
        }
    }
}
