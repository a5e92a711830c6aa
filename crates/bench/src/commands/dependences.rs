//! The command `lab dependences`.

use crate::distributed::count::{Assignment, LOGS_MAX};
use crate::distributed::measure::measure;
use crate::distributed::rows::{Bank, Case, Dependences as Counts, Workload, legend};
use crate::grid::columns::Setting;
use crate::grid::flags as lists;
use crate::grid::results::{Files, Results};
use crate::grid::turns::{in_turn, signal_check};
use crate::host::machine::Machine;
use clap::Args;
use katydid_command::built::{COMMIT, VERSION};
use katydid_command::failure::Result;
use katydid_command::flags::{seconds, word};
use katydid_workload::tpcb;
use katydid_workload::tpcc::Settings;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Count the dependencies between the logs of a distributed log
///
/// The command runs TPC-C's standard mix and TPC-B's transfers in the paged engine with everything
/// in memory, and assigns the records of the resulting log to several logs in two ways, measured
/// separately: by transaction, and by page. It counts the records that change a page whose last
/// change is in another log, and the commits that would have to flush more than one log (Aether,
/// A.5, Figure 13).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid lab dependences
  katydid lab dependences --workload tpcb --logs 2 --threads 2,8 --csv dependences.csv --svg charts")]
pub struct Dependences {
    /// Workloads: tpcc, tpcb
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tpcc,tpcb", value_parser = word::<Workload>)]
    workload: Vec<Workload>,
    /// Number of logs to which records are assigned
    #[arg(long, value_name = "N", default_value = "8", value_parser = logs)]
    logs: usize,
    /// Numbers of client threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8", value_parser = lists::threads)]
    threads: Vec<usize>,
    /// Seconds of each run of a case
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = seconds)]
    seconds: f64,
    /// Number of rounds, each of which runs every case once
    #[arg(long, value_name = "N", default_value = "3", value_parser = lists::rounds)]
    rounds: usize,
    /// Warehouses of TPC-C, with 10 districts each
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    warehouses: u32,
    /// Branches of TPC-B, with 10 tellers each
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    branches: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
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

impl Dependences {
    pub fn run(self) -> Result<()> {
        let go_on = signal_check()?;
        let company = Settings { warehouses: self.warehouses, items: 2000, customers_of_district: 60 };
        let bank = Bank(tpcb::Settings { branches: self.branches, accounts_of_branch: 1000, skew: 0.0 });
        let machine = Machine::read(Path::new(".")).line();
        let files =
            Files { csv: self.csv.clone(), rounds_csv: self.rounds_csv.clone(), svg: self.svg.clone() };
        let head = [
            format!("katydid {VERSION}: dependences of a distributed log"),
            format!("machine    {machine}"),
            format!(
                "options    engine=paged seconds={} rounds={} warehouses={} branches={} seed={}",
                self.seconds, self.rounds, self.warehouses, self.branches, self.seed
            ),
            "durability durable; everything is in memory".to_owned(),
        ];
        let mut results = Results::new(files, &head)?;
        let time = Duration::from_secs_f64(self.seconds);
        let one = |case: &Case, round: usize| {
            measure(case, (&company, &bank), time, self.seed.wrapping_add(round as u64))
        };
        let rows = in_turn("dependences", self.rounds, self.cases(), &go_on, Case::words, one)?;
        let setting = Setting {
            commit: COMMIT,
            title: machine.clone(),
            machine,
            millis: self.seconds * 1e3,
            ..Setting::default()
        };
        results.add(Counts, rows, setting)?;
        results.end(&legend())
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &workload in &self.workload {
            for assignment in Assignment::ALL {
                cases.extend(self.threads.iter().map(|&threads| Case {
                    workload,
                    assignment,
                    threads,
                    logs: self.logs,
                }));
            }
        }
        cases
    }
}

fn logs(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(logs) if (2..=LOGS_MAX).contains(&logs) => Ok(logs),
        _ => Err(format!("must be from 2 to {LOGS_MAX}")),
    }
}
