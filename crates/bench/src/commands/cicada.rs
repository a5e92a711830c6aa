//! The command `lab cicada`.

use crate::commits::figures::cicada::{Choice, CicadaFigure, GROUP};
use crate::commits::flags::Common;
use crate::commits::session::Session;
use crate::commits::study::Study;
use crate::commits::tuples::Tuples;
use crate::grid::flags as lists;
use clap::Args;
use katydid::{CommitDependencies, Contention, OldVersions};
use katydid_command::failure::Result;
use katydid_command::flags::delay;
use katydid_command::flags::word;
use katydid_wal::Group;
use katydid_workload::tuples::Settings;
use std::time::Duration;

/// Repeat the figures of Cicada over P-WAL on this machine, with the memory engine
///
/// The command compares serial and parallel logs, early and late lock release, single and group
/// commit, and no logging, with transactions that write and read small tuples. It also measures
/// read-only transactions beside writers. Each round runs all variants. Clients block in each
/// commit, or use callbacks. Each run loads a database of its own.
#[derive(Debug, Args)]
#[command(after_help = "\
What the paper saw: early lock release with group commit is best, also with 80 % reads; one serial log falls behind; on a device with
a latency of 15 us, early release with group commit is hardly slower than no logging.

Examples:
  katydid lab cicada --figure 4 --threads 1,2 --csv cicada.csv --svg charts
  katydid lab cicada --figure 6 --delay 15us --threads 2 --rounds 5
  katydid lab cicada --figure all --quick")]
pub struct Cicada {
    /// Figures: 3, 4, 5, 6, readers, or `all`
    #[arg(long, value_name = "NAMES", default_value = "4", value_delimiter = ',')]
    figure: Vec<String>,
    /// Numbers of client threads
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,64",
        value_parser = lists::threads
    )]
    threads: Vec<usize>,
    /// Time added to each durable write, such as 0, 15us or 1ms [default: 50us; 15us in figure 6]
    #[arg(long, value_name = "TIME", value_parser = delay)]
    delay: Option<Duration>,
    /// Transactions in flight of each client that uses callbacks
    #[arg(long, value_name = "N", default_value = "64", value_parser = lists::in_flight)]
    in_flight: usize,
    /// Number of tuples in the table, whose keys have 8 bytes
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    tuples: u64,
    /// Bytes of a tuple's value
    #[arg(long, value_name = "BYTES", default_value = "8", value_parser = lists::payload)]
    value_bytes: usize,
    /// Number of reads and writes in a transaction
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    operations: u16,
    /// Records that a commit waits for besides its own: tracked or all
    ///
    /// tracked: the records of the transactions whose versions the committing transaction has read.
    /// all: every record that any stream holds at the commit.
    #[arg(long, value_name = "RULE", default_value = "tracked", value_parser = word::<CommitDependencies>)]
    dependences: CommitDependencies,
    /// Rule by which transactions check their reads and pause: at-validation or early [default:
    /// early in the paper's systems, at-validation in ours]
    ///
    /// at-validation: a transaction checks once, after it has installed its versions, and pauses if
    /// the check fails. early: a transaction also checks before it installs its versions, and
    /// pauses after every conflict.
    #[arg(long, value_name = "RULE", value_parser = word::<Contention>)]
    contention: Option<Contention>,
    /// Rule by which replaced versions are kept: until-unread or until-durable [default:
    /// until-durable in the paper's systems with group commit, until-unread in all others]
    ///
    /// until-unread: until no transaction can read the version. until-durable: also until all log
    /// records with earlier timestamps than the replacement are durable.
    #[arg(long, value_name = "RULE", value_parser = word::<OldVersions>)]
    old_versions: Option<OldVersions>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

impl Cicada {
    pub fn run(self) -> Result<()> {
        let figures = self.figures()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, 64) as u16;
        let is_given = self.common.group != Group::default();
        let choice = Choice {
            threads: self.threads.clone(),
            delay: self.delay,
            in_flight: self.in_flight,
            processors,
            group: if is_given { self.common.group } else { GROUP },
            contention: self.contention,
            old_versions: self.old_versions,
        };
        let settings = Settings {
            tuples: self.tuples,
            value_bytes: self.value_bytes,
            operations: usize::from(self.operations),
            reads_percent: 0,
        };
        let options = format!(
            "{} engine=memory tuples={} value_bytes={} operations={} dependences={} seed={}",
            self.common.options(),
            self.tuples,
            self.value_bytes,
            self.operations,
            self.dependences,
            self.seed
        );
        let tuples = Tuples { settings, dependences: self.dependences, seed: self.seed };
        let what = "the memory engine over its parallel log";
        let mut session = Session::new(&self.common, None, what, &options)?.with_tuples(tuples);
        let run = |figure: CicadaFigure| {
            let spec = figure.spec();
            let (time, rounds) = self.common.length(spec.seconds, spec.rounds);
            session.run(Study::Cicada(figure), figure.cases(&choice), spec.method, time, rounds)
        };
        let done = figures.into_iter().try_for_each(run);
        session.end(done)
    }

    /// The requested figures, each once, in the order of the paper.
    fn figures(&self) -> Result<Vec<CicadaFigure>> {
        let known = CicadaFigure::ALL.map(CicadaFigure::word);
        lists::chosen(&self.figure, &known, "figure").map(|chosen| {
            CicadaFigure::ALL.into_iter().filter(|figure| chosen.contains(&figure.word())).collect()
        })
    }
}
