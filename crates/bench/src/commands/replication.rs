//! The command `lab replication`.

use crate::grid::flags as lists;
use crate::grid::results::{Files, Results};
use crate::grid::turns::{in_turn, signal_check};
use crate::host::device::Device;
use crate::host::folder;
use crate::host::machine::Machine;
use crate::replication::figures::{Figure, Lists};
use crate::replication::measure::{Measure, ServerSetup};
use crate::replication::{Case, LEGEND, setting_of};
use clap::Args;
use katydid_command::built::{COMMIT, VERSION};
use katydid_command::failure::Result;
use katydid_command::flags::{delay, seconds};
use katydid_command::table::wrapped;
use std::path::PathBuf;
use std::time::Duration;

/// Repeat Efficient flushing's figures about replication, with servers on this machine
///
/// Each server is a process with a log on its own device. The client sends each transaction to all
/// replicas at once, and acknowledges it when all have answered. Each replica syncs its log by
/// itself. All replicas of a run use the same sync protocol: the paper's existing scheme (slotted),
/// its proposed scheme (aggregated) or another. For comparison, a Raft group acknowledges by a
/// majority or by all. After each run the command compares all replicas.
#[derive(Debug, Args)]
#[command(after_help = "\
What the paper saw, aggregated over slotted at 8, 16, 32, 64 and 128 threads:
  flushing7        inserts: 1.3, 2.5, 1.93, 1.5, 1.45 times at one replica; 4.6, 8.1, 9.7, 5.15, 2.26 at three
  flushing8        sysbench: 1.25, 2.1, 1.92, 1.38, 1.3 times at one; 1.06, 1.01, 8.19, 4.52, 1.65 at three
  flushing-table2  times of an insert and counts at one replica; flushing-table3 at three replicas

Examples:
  katydid lab replication --figure flushing7 --csv seven.csv --svg charts
  katydid lab replication --figure flushing7 --device file --delay 0 --network 0 --replicas 3
  katydid lab replication --figure all --quick")]
pub struct Replication {
    /// Figures: flushing7, flushing8, flushing-table2, flushing-table3, or `all`
    #[arg(long, value_name = "NAMES", default_value = "flushing7", value_delimiter = ',')]
    figure: Vec<String>,
    /// Numbers of client threads [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = lists::threads)]
    threads: Vec<usize>,
    /// Numbers of replicas, from 1 to 9 [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = replicas)]
    replicas: Vec<usize>,
    /// Sync protocols of the paper's replication (adaptive, pipelined, aggregated, grouped,
    /// slotted, per-commit, inline), or raft-quorum or raft-all [default: the figure's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sync: Vec<String>,
    /// Device of the servers' logs
    #[arg(long, value_enum, default_value = "memory")]
    device: Device,
    /// Time added to each sync of a server, such as 0, 115us or 1ms
    #[arg(long, value_name = "TIME", default_value = "115us", value_parser = delay)]
    delay: Duration,
    /// Time added to each request of the paper's replication, as the round trip of a network
    #[arg(long, value_name = "TIME", default_value = "60us", value_parser = delay)]
    network: Duration,
    /// Rows of sysbench's table
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    keys: u64,
    /// Seconds of each run of a case
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = seconds)]
    seconds: f64,
    /// Number of rounds, each of which runs every case once
    #[arg(long, value_name = "N", default_value = "2", value_parser = lists::rounds)]
    rounds: usize,
    /// Run one round with 0.05 seconds for each case, to test that everything works
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    quick: bool,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Folder to work in, which must be new or empty; the command removes what it writes there
    #[arg(long, value_name = "DIR", default_value = "katydid-replication")]
    dir: PathBuf,
    /// Write all rows to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the rows of each round separately to this file, as CSV
    #[arg(long, value_name = "FILE")]
    rounds_csv: Option<PathBuf>,
    /// Draw charts into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

fn replicas(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=9) => Ok(count),
        _ => Err("must be from 1 to 9".to_owned()),
    }
}

impl Replication {
    pub fn run(self) -> Result<()> {
        let figures = lists::chosen(&self.figure, &Figure::ALL.map(Figure::name), "figure")?;
        let figures: Vec<Figure> =
            Figure::ALL.into_iter().filter(|figure| figures.contains(&figure.name())).collect();
        let given = Lists {
            threads: self.threads.clone(),
            replicas: self.replicas.clone(),
            schemes: self.sync.iter().map(|word| word.parse()).collect::<Result<_>>()?,
        };
        folder::within(&self.dir, || self.measure(&figures, &given))
    }

    fn measure(&self, figures: &[Figure], given: &Lists) -> Result<()> {
        let go_on = signal_check()?;
        let (time, rounds) = match self.quick {
            true => (Duration::from_millis(50), 1),
            false => (Duration::from_secs_f64(self.seconds), self.rounds),
        };
        let servers = format!("delay={:?} network={:?}", self.delay, self.network);
        let machine = Machine::read(&self.dir).line();
        let mut results = Results::new(
            Files { csv: self.csv.clone(), rounds_csv: self.rounds_csv.clone(), svg: self.svg.clone() },
            &[
                format!("katydid {VERSION}: replication, with servers as processes of this machine"),
                format!("machine    {machine}"),
                format!("options    {servers} keys={} seed={}", self.keys, self.seed),
            ],
        )?;
        let setup = ServerSetup {
            folder: self.dir.clone(),
            device: self.device.name(),
            delay: self.delay,
            network: self.network,
        };
        let mut measure = Measure::new(setup, self.keys, self.seed);
        for &figure in figures {
            let one = |case: &Case, _round: usize| measure.measure(case, time);
            let rows = in_turn(figure.name(), rounds, figure.cases(given), &go_on, Case::words, one)?;
            let mut setting = setting_of(machine.clone(), self.device.name(), servers.clone(), COMMIT);
            setting.millis = time.as_secs_f64() * 1e3;
            results.add(figure, rows, setting)?;
        }
        measure.end()?;
        results.end(&wrapped(LEGEND))
    }
}
