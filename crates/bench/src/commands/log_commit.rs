//! The command `lab log-commit`.

use crate::commits::case::{Case, Work};
use crate::commits::flags::{self, Common};
use crate::commits::session::Session;
use crate::commits::study::Study;
use crate::grid::flags as lists;
use crate::host::device::MethodName;
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::delay;
use katydid_command::flags::word;
use katydid_wal::{Heuristic, InserterKind, SyncKind};
use std::time::Duration;

/// Measure durable commits to the log alone with every sync protocol, and the raw device
///
/// Each round runs all protocols. Clients block in each commit (--threads), or have many commits in
/// flight and use callbacks (--callbacks). Without flags the command takes about a minute.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid lab log-commit
  katydid lab log-commit --threads 1,2,4,8,16,32,64,128 --callbacks 2x1000,2x10000 --sync all --rounds 5 --csv out.csv
  katydid lab log-commit --device memory --delay 0,15us,50us,100us,1ms,10ms --svg charts
  katydid lab log-commit --log all --sync adaptive --delay 0,400ns,2us --threads 1,2
  katydid lab log-commit --sync adaptive --payload 120,4096 --callbacks 2x1000 --threads none")]
pub struct LogCommit {
    /// Numbers of client threads that block in each commit, or `none`
    #[arg(long, value_name = "LIST", default_value = "1,8,64", value_delimiter = ',')]
    threads: Vec<String>,
    /// Client threads with callbacks, and the commits in flight of each, such as 2x1000, or `none`
    #[arg(long, value_name = "LIST", default_value = "2x1000", value_delimiter = ',')]
    callbacks: Vec<String>,
    /// Bytes of a record without its 48-byte header
    #[arg(long, value_name = "LIST", default_value = "120", value_delimiter = ',', value_parser = lists::payload)]
    payload: Vec<usize>,
    /// Sync protocols, which make the log durable: adaptive, pipelined, aggregated, grouped,
    /// slotted, per-commit, inline, or `all`
    #[arg(long, value_name = "LIST", default_value = "all", value_delimiter = ',')]
    sync: Vec<String>,
    /// Kinds of the log: disk; in NVRAM nv_direct, nv_ring, nv_entries and nv_logging; or `all`
    ///
    /// A log in NVRAM has no sync protocol.
    #[arg(long, value_name = "LIST", default_value = "disk", value_delimiter = ',')]
    log: Vec<String>,
    /// Inserters, which put records into the log: mutex, consolidated, decoupled, hybrid,
    /// delegated, grasshopper, bitmap, chunked, marks
    #[arg(long, value_name = "LIST", default_value = "marks", value_delimiter = ',', value_parser = word::<InserterKind>)]
    inserter: Vec<InserterKind>,
    /// Times added to each durable write or persist, such as 0, 400ns, 15us, 100us, 1ms
    #[arg(long, value_name = "LIST", default_value = "0", value_delimiter = ',', value_parser = delay)]
    delay: Vec<Duration>,
    /// Maximum bytes of one write of the log [default: 1MiB]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = lists::io_unit)]
    io_unit: Vec<usize>,
    /// Ablation: measure each protocol also without each of these heuristics, one at a time; `all`
    /// for all
    ///
    /// The heuristics are delay, serving-delay, backoff, yield, many-committers and slow-hand-over.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    without: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Seconds of each run, if the command line does not give them.
const SECONDS: f64 = 0.7;
/// Number of rounds, if the command line does not give it.
const ROUNDS: usize = 3;

impl LogCommit {
    pub fn run(self) -> Result<()> {
        let cases = self.cases()?;
        let (time, rounds) = self.common.length(SECONDS, ROUNDS);
        let what = "durable commits to the log alone";
        let mut session = Session::new(&self.common, None, what, &self.common.options())?;
        let done = session.run(Study::LogCommit, cases, MethodName::Direct, time, rounds);
        session.end(done)
    }

    fn cases(&self) -> Result<Vec<Case>> {
        let (syncs, logs) = (flags::syncs(&self.sync)?, flags::logs(&self.log)?);
        let clients = self.clients()?;
        let units: Vec<Option<usize>> = match self.io_unit.is_empty() {
            true => vec![None],
            false => self.io_unit.iter().copied().map(Some).collect(),
        };
        let off = flags::heuristics(&self.without)?;
        let mut cases = Vec::new();
        for &delay in &self.delay {
            for &payload in &self.payload {
                for &inserter in &self.inserter {
                    for &io_unit in &units {
                        for &(threads, in_flight) in &clients {
                            let case = |log, sync| Case {
                                log,
                                sync,
                                inserter,
                                threads,
                                in_flight,
                                delay,
                                io_unit,
                                ..Case::new(Work::Log { payload })
                            };
                            for &log in &logs {
                                // A log in NVRAM has no sync protocol: a record is durable when it
                                // is appended.
                                let syncs = if log.in_nvram() { &[SyncKind::default()][..] } else { &syncs };
                                cases.extend(
                                    syncs.iter().flat_map(|&sync| with_ablations(case(log, sync), &off)),
                                );
                            }
                        }
                    }
                }
            }
        }
        Ok(cases)
    }

    fn clients(&self) -> Result<Vec<(usize, usize)>> {
        let given = |list: &[String]| if list == ["none"] { Vec::new() } else { list.to_vec() };
        let wrong =
            |flag: &str, text: &str, why: String| Failure::usage(format_args!("{flag} {text}: {why}"));
        let mut clients = Vec::new();
        for text in given(&self.threads) {
            let threads = lists::threads(&text).map_err(|why| wrong("--threads", &text, why))?;
            clients.push((threads, 1));
        }
        for text in given(&self.callbacks) {
            clients.push(lists::callbacks(&text).map_err(|why| wrong("--callbacks", &text, why))?);
        }
        match clients.is_empty() {
            true => Err(Failure::usage("no clients: --threads and --callbacks are both none")),
            false => Ok(clients),
        }
    }
}

/// The case, and for each of these heuristics that the case's protocol uses, a copy of the case
/// without the heuristic.
fn with_ablations(case: Case, off: &[Heuristic]) -> Vec<Case> {
    let used = if case.log.in_nvram() { &[] } else { case.sync.heuristics() };
    let used = off.iter().filter(|heuristic| used.contains(heuristic));
    let without = used.map(|&heuristic| Case { without: Some(heuristic), ..case.clone() });
    std::iter::once(case.clone()).chain(without).collect()
}
