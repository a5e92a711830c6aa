//! The command `lab replicas`.

use crate::grid::flags as lists;
use crate::grid::turns::{in_turn, signal_check};
use crate::host::device::Device;
use crate::host::folder;
use crate::host::machine::Machine;
use crate::replication::measure::ServerSetup;
use crate::replication::targets::{Case, PARTS, Row, Targets, cases, csv, table, verdict_table, verdicts};
use clap::Args;
use katydid_command::built::{COMMIT, VERSION};
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::{delay, seconds};
use katydid_command::output::say;
use katydid_command::table::{csv as comma_separated, lined_up, wrapped};
use std::path::PathBuf;
use std::time::Duration;

/// Measure a Raft group of three replicas against the project's targets
///
/// Each replica is a process of this machine with its own folder, and all share the machine's
/// processors and disk. Clients insert rows whose key and value have 120 bytes in all, and each
/// client waits for the acknowledgement of each insert. After each run every replica must have
/// exactly the rows that were acknowledged.
#[derive(Debug, Args)]
#[command(after_help = "\
Parts:
  commits   inserts by each number of clients, acknowledged by a majority (quorum) and by every replica (all)
  slow      inserts by 32 clients, with one replica whose syncs take longer
  failover  the leader is killed under load (kill -9); time until a commit that was begun afterwards is acknowledged
  rejoin    a follower is killed under load, misses commits, and is started again; the clients' rates before, while it is away, and while it rejoins

Examples:
  katydid lab replicas --dir /mnt/disk/replicas --csv replicas.csv
  katydid lab replicas --part commits --clients 32 --seconds 2 --rounds 5
  katydid lab replicas --part rejoin --missed 1000000 --rounds 1")]
pub struct Replicas {
    /// Parts: commits, slow, failover, rejoin, or `all`
    #[arg(long, value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    part: Vec<String>,
    /// Numbers of clients of the part `commits`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8,32,128,512", value_parser = lists::threads)]
    clients: Vec<usize>,
    /// Time added to each sync of every replica
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = delay)]
    delay: Duration,
    /// Time added to each sync of the slow replica
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = delay)]
    slow: Duration,
    /// Number of kills of a leader in each round
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    kills: u16,
    /// Number of commits that the absent replica misses; the target is for about 1,000,000
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    missed: u64,
    /// Seconds of each run of a case
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    seconds: f64,
    /// Runs of each case. Each round runs all cases once
    #[arg(long, value_name = "N", default_value = "3", value_parser = lists::rounds)]
    rounds: usize,
    /// Run one round of 0.1 seconds with one kill and 100 missed commits, to test that everything
    /// works
    #[arg(long, conflicts_with_all = ["seconds", "rounds", "kills", "missed"])]
    quick: bool,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Folder to work in, which must be new or empty; the command removes what it writes there
    #[arg(long, value_name = "DIR", default_value = "katydid-replicas")]
    dir: PathBuf,
    /// Write a line for each round of each case to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Length of the runs, and numbers of rounds, kills and missed commits, with `--quick` taken into
/// account.
struct Size {
    time: Duration,
    rounds: usize,
    kills: usize,
    missed: u64,
}

const LEGEND: &str = "Figures are medians over the rounds; slowest and fastest are rounds; percentiles are of all rounds. entries/sync: entries of \
    the Raft log for each durable write or sync of the leader's log. gap: from the kill of the leader to the first acknowledgement of a commit \
    that was begun after the kill. absent/s: commits a second while a replica is away; rejoin/s: from its start until it has all entries that it \
    missed, which takes rejoin s, and at least for the time of a run. The prototype ran in one process, so its replicas had no sockets and no engine";

impl Replicas {
    pub fn run(self) -> Result<()> {
        let parts = lists::chosen(&self.part, &PARTS, "part")?;
        folder::within(&self.dir, || self.report(&self.measure(&parts)?))
    }

    fn measure(&self, parts: &[&str]) -> Result<Vec<Row>> {
        let go_on = signal_check()?;
        let setup = ServerSetup {
            folder: self.dir.clone(),
            device: Device::File.name(),
            delay: self.delay,
            network: Duration::ZERO,
        };
        let Size { time, rounds, kills, missed } = self.size();
        let mut targets = Targets { setup, time, slow: self.slow, kills, missed, seed: self.seed, runs: 0 };
        say(format!(
            "katydid {VERSION}: a group of three replicas, with servers as processes of this machine"
        ))?;
        say(format!("machine    {}", Machine::read(&self.dir).line()))?;
        say(format!(
            "options    seconds={} rounds={rounds} delay={:?} slow={:?} kills={kills} missed={missed} seed={}",
            time.as_secs_f64(),
            self.delay,
            self.slow,
            self.seed
        ))?;
        let one = |case: &Case, _round: usize| targets.measure(case);
        in_turn("replicas", rounds, cases(parts, &self.clients), &go_on, Case::words, one)
    }

    fn size(&self) -> Size {
        match self.quick {
            true => Size { time: Duration::from_millis(100), rounds: 1, kills: 1, missed: 100 },
            false => Size {
                time: Duration::from_secs_f64(self.seconds),
                rounds: self.rounds,
                kills: self.kills.into(),
                missed: self.missed,
            },
        }
    }

    fn report(&self, rows: &[Row]) -> Result<()> {
        for line in lined_up(&table(rows)).into_iter().chain(wrapped(LEGEND)) {
            say(line)?;
        }
        for line in lined_up(&verdict_table(&verdicts(rows))) {
            say(line)?;
        }
        if let Some(path) = &self.csv {
            let Size { time, missed, .. } = self.size();
            let setting = [
                ("machine", Machine::read(&self.dir).line()),
                ("commit", COMMIT.unwrap_or_default().to_owned()),
                ("seconds", time.as_secs_f64().to_string()),
                ("delay_us", self.delay.as_micros().to_string()),
                ("slow_us", self.slow.as_micros().to_string()),
                ("missed", missed.to_string()),
            ];
            std::fs::write(path, comma_separated(&csv(rows, &setting)))
                .map_err(|error| Failure::failed(format_args!("cannot write {}: {error}", path.display())))?;
        }
        Ok(())
    }
}
