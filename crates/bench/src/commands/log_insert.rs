//! The command `lab log-insert`.

use crate::grid::columns::Setting;
use crate::grid::flags;
use crate::grid::results::Results;
use crate::host::device::MethodName;
use crate::host::machine::Machine;
use crate::inserts::case::{Case, Row};
use crate::inserts::flags::{Sweeps, World};
use crate::inserts::real::Rounds;
use crate::inserts::rows::legend;
use crate::inserts::sweep::Sweep;
use crate::inserts::txn::LogFolder;
use clap::Args;
use katydid_command::built::{COMMIT, VERSION};
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::word;
use katydid_command::flags::{name_of, seconds};
use katydid_command::signals;
use katydid_command::stderr::warn;
use katydid_wal::SyncKind;
use katydid_wal::testing::rate::turns_in_a_microsecond;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Measure inserts into the log buffer by real threads, with every inserter
///
/// Only sweep txn writes to a device; in all other sweeps the threads only insert. Without flags
/// the command sweeps the number of threads, in less than a minute; `--sweep all` takes about ten
/// minutes. `katydid lab manycore run` runs these sweeps on simulated cores.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid lab log-insert
  katydid lab log-insert --sweep limits --rounds 9 --csv limits.csv
  katydid lab log-insert --sweep size,outlier --inserter hybrid,delegated,marks --threads 2 --svg charts
  katydid lab log-insert --sweep txn --inserter marks --threads 2 --dir /mnt/log --in-flight 100")]
pub struct LogInsert {
    #[command(flatten)]
    sweeps: Sweeps,
    /// Seconds of each run of a case
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = seconds)]
    seconds: f64,
    /// Number of rounds, each of which runs every case once
    #[arg(long, value_name = "N", default_value = "3", value_parser = flags::rounds)]
    rounds: usize,
    /// Folder for the files of sweep txn, which must be new or empty; the command removes what it
    /// writes there
    #[arg(long, value_name = "DIR", default_value = "katydid-log-insert")]
    dir: PathBuf,
    /// Folders on different devices, over which the log's files are striped in units of 512 KiB
    /// (ELEDA), in sweep txn
    ///
    /// The folders must be new or empty; the command removes what it writes there.
    #[arg(long, value_name = "DIR,DIR", value_delimiter = ',')]
    stripe: Vec<PathBuf>,
    /// Transactions in flight of each thread, in sweep txn
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    in_flight: u32,
    /// Sync protocol, which makes the log durable, in sweep txn: adaptive, pipelined, aggregated,
    /// grouped, slotted, per-commit or inline
    #[arg(long, value_name = "KIND", default_value = "adaptive", value_parser = word::<SyncKind>)]
    sync: SyncKind,
    /// Maximum bytes of one write of the log, in sweep txn [default: 1MiB]
    ///
    /// With this flag and pipelined, a write begins when this number of bytes is filled, or after 1
    /// ms.
    #[arg(long, value_name = "BYTES", value_parser = flags::io_unit)]
    io_unit: Option<usize>,
    /// I/O method of the log, in sweep txn
    #[arg(long, value_enum, default_value = "direct")]
    method: MethodName,
}

impl LogInsert {
    pub fn run(self) -> Result<()> {
        let sweeps = self.sweeps.sweeps(World::Real)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cases = sweeps
            .iter()
            .map(|&sweep| Ok((sweep, self.sweeps.cases(sweep, cores)?)))
            .collect::<Result<Vec<_>>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        signals::on_stop(move || {
            asked.store(true, Ordering::Relaxed);
            warn(format_args!("katydid: the run under way is finished first; another signal ends at once"));
        })?;
        let go_on = || match stop.load(Ordering::Relaxed) {
            true => {
                Err(Failure::failed("stopped by a signal: nothing is written of sweeps that are not done"))
            }
            false => Ok(()),
        };
        let transactions = sweeps.contains(&Sweep::Txn);
        let stage = match transactions {
            true => Some(LogFolder::new(
                self.dir.clone(),
                &self.stripe,
                self.in_flight as usize,
                (self.sync, self.io_unit),
                self.method,
            )?),
            false => None,
        };
        let machine = Machine::read(if transactions { &self.dir } else { Path::new(".") }).line();
        let setting = Setting {
            commit: COMMIT,
            title: machine.clone(),
            machine,
            millis: self.seconds * 1e3,
            in_flight: self.in_flight as usize,
            ..Setting::default()
        };
        let rounds = Rounds {
            rounds: self.rounds,
            time: Duration::from_secs_f64(self.seconds),
            turns: turns_in_a_microsecond() / 1e3,
            stage,
            go_on: &go_on,
        };
        let done = self.sweep(&rounds, &setting, cases);
        // The files of the sweeps are removed even if a sweep has failed. So all folders are as
        // they were before.
        let removed = rounds.stage.map_or(Ok(()), LogFolder::remove);
        done.and(removed)
    }

    fn sweep(&self, rounds: &Rounds<'_>, setting: &Setting, all: Vec<(Sweep, Vec<Case>)>) -> Result<()> {
        let works = all.iter().flat_map(|(_, cases)| cases).any(|case| case.work_ns > 0.0);
        let mut results = Results::new(self.sweeps.files(), &self.head(setting, rounds, works))?;
        for (sweep, cases) in all {
            results.add(sweep, rounds.run(sweep, cases)?, setting.clone())?;
        }
        let rows: Vec<&Row> = results.rows().collect();
        let legend = legend(setting, &rows);
        results.end(&legend)
    }

    fn head(&self, setting: &Setting, rounds: &Rounds<'_>, works: bool) -> Vec<String> {
        let mut options = format!("options    seconds={} rounds={}", self.seconds, self.rounds);
        let durability = match &rounds.stage {
            Some(stage) => {
                options += &format!(
                    " in_flight={} sync={} method={}",
                    stage.in_flight,
                    stage.sync,
                    name_of(stage.method)
                );
                "none but in sweep txn: durable"
            }
            None => "none: nothing leaves memory",
        };
        let mut lines = vec![
            format!("katydid {VERSION}: inserts by real threads"),
            format!("machine    {}", setting.machine),
            options,
            format!("durability {durability}"),
        ];
        if works {
            lines.push(format!("work       {:.2} turns of arithmetic in a nanosecond", rounds.turns));
        }
        lines
    }
}
