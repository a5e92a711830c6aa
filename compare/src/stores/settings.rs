//! The command line of `stores`.

use super::known;
use super::work::Work;
use crate::Result;
use crate::adapters::{ALL, Commits, Known};
use crate::flags;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub const HELP: &str = "\
Measure transactions of Katydid and of other stores, in turn within each round

Usage: katydid-compare stores [FLAGS]

  --workload NAME  insert: one new key of 20 bytes with a value of 100 in each transaction
                   ycsb-a to ycsb-f: YCSB's, records of 10 fields of 100 bytes
                   tpcb: transfers between accounts, see --branches
                   tpcc: orders, payments and deliveries, see --warehouses
                   tatp, tatp-update-location: a register of subscribers, see --subscribers
                   sysbench-read-write, sysbench-write-only, sysbench-update-index: sysbench's OLTP scripts, see --records
                   [default: insert]
  --stores NAMES   Stores to measure, of katydid, katydid-memory, surrealkv, rocksdb, rocksdb-optimistic, fjall, fjall-optimistic, lmdb, redb,
                   sqlite, wiredtiger [default: all of this build]
  --threads LIST   Numbers of threads that block in each commit, or `none` [default: 1,8,32,64]
  --callbacks LIST Threads with callbacks, and the commits in flight of each, such as 2x256, or `none` [default: none]
  --seconds S      Seconds of each run, without loading [default: 1]
  --rounds N       Number of rounds, each of which runs every case once [default: 3]
  --records N      Number of records that YCSB loads, or of rows of sysbench's table [default: 50000]
  --branches N     Branches of the bank, with 1,000 accounts each [default: 64]
  --warehouses N   Warehouses of TPC-C, with a tenth of its items and customers [default: 4]
  --subscribers N  Subscribers of TATP [default: 20000]
  --cache MIB      Memory for a store's pages or blocks, in MiB [default: 256]
  --dir DIR        Folder to work in, on the disk to measure, which must be new or empty [default: katydid-compare]
  --unsafe         Acknowledge commits before they are durable, in each store's fastest mode
  --csv FILE       Write the rows of each round to this file, as CSV
  --json FILE      Write all results to this file, as JSON

The command opens and loads every store anew for each run. A row has the rates of the median, the slowest and the fastest round;
the ratio of the first store's rate with the same threads to the row's rate (the median of all rounds' ratios);
the latencies of all rounds in microseconds, from beginning to acknowledgement, of writing and of read-only transactions;
the transactions for each durable write of the log, if the store counts these writes; and the conflicts in 1,000 transactions.";

/// Number of threads, and the number of each thread's transactions in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub threads: usize,
    pub in_flight: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_flight {
            1 => f.pad(&self.threads.to_string()),
            many => f.pad(&format!("{}x{many}", self.threads)),
        }
    }
}

pub struct Settings {
    pub work: Work,
    pub stores: Vec<Known>,
    pub cases: Vec<Case>,
    pub time: Duration,
    pub rounds: usize,
    pub records: u64,
    pub branches: u64,
    pub warehouses: u32,
    pub subscribers: u32,
    pub cache_bytes: u64,
    pub dir: PathBuf,
    pub commits: Commits,
    pub csv: Option<PathBuf>,
    pub json: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            work: Work::Insert,
            stores: ALL.into_iter().filter(|store| store.built).collect(),
            cases: Vec::new(),
            time: Duration::from_secs(1),
            rounds: 3,
            records: 50_000,
            branches: 64,
            warehouses: 4,
            subscribers: 20_000,
            cache_bytes: 256 << 20,
            dir: "katydid-compare".into(),
            commits: Commits::Durable,
            csv: None,
            json: None,
        }
    }
}

impl Settings {
    /// `None` if the arguments ask for help.
    pub fn read(arguments: Vec<String>) -> Result<Option<Settings>> {
        let Some(pairs) = flags::pairs(arguments)? else { return Ok(None) };
        let mut settings = Settings::default();
        let (mut threads, mut callbacks) = (vec![1, 8, 32, 64], Vec::new());
        for (flag, value) in &pairs {
            match flag.as_str() {
                "--workload" => settings.work = flags::value(flag, value)?,
                "--stores" => settings.stores = flags::list(flag, value, known)?,
                "--threads" if value.as_deref() == Some("none") => threads.clear(),
                "--threads" => threads = flags::list(flag, value, flags::many)?,
                "--callbacks" => callbacks = flags::list(flag, value, case)?,
                "--seconds" => settings.time = Duration::try_from_secs_f64(flags::value(flag, value)?)?,
                "--rounds" => settings.rounds = flags::value(flag, value)?,
                "--records" => settings.records = flags::value(flag, value)?,
                "--branches" => settings.branches = flags::value(flag, value)?,
                "--warehouses" => settings.warehouses = flags::value(flag, value)?,
                "--subscribers" => settings.subscribers = flags::value(flag, value)?,
                "--cache" => settings.cache_bytes = flags::value::<u64>(flag, value)?.saturating_mul(1 << 20),
                "--dir" => settings.dir = flags::value(flag, value)?,
                "--unsafe" if value.is_none() => settings.commits = Commits::Unsafe,
                "--csv" => settings.csv = Some(flags::value(flag, value)?),
                "--json" => settings.json = Some(flags::value(flag, value)?),
                _ => {
                    return Err(
                        format!("unknown: {flag} {}; see --help", value.as_deref().unwrap_or("")).into()
                    );
                }
            }
        }
        let blocking = threads.into_iter().map(|threads| Case { threads, in_flight: 1 });
        settings.cases = blocking.chain(callbacks).collect();
        let Settings { rounds, records, branches, warehouses, subscribers, ref cases, .. } = settings;
        let many =
            [rounds as u64, records, branches, warehouses.into(), subscribers.into(), cases.len() as u64];
        if many.contains(&0) {
            return Err(
                "there must be at least one round, record, branch, warehouse, subscriber and number of threads".into()
            );
        }
        Ok(Some(settings))
    }
}

fn case(text: &str) -> Result<Case> {
    let (threads, in_flight) = text.split_once('x').ok_or_else(|| format!("{text} is not like 2x256"))?;
    Ok(Case { threads: flags::many(threads)?, in_flight: flags::many(in_flight)? })
}
