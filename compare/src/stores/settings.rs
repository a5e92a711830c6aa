//! The command line of `stores`.

use super::known;
use super::work::Work;
use crate::Result;
use crate::adapters::{ALL, Commits, Known};
use crate::flags;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub const HELP: &str = "\
Measure transactions of Katydid and of other stores, in turn within each round

Usage: katydid-compare stores [FLAGS]

  --workload LIST  insert: one new key of 20 bytes with a value of 100 in each transaction
                   load: records that YCSB loads, in the order of a hash, 100 in each transaction
                   ycsb-a to ycsb-f: YCSB's, records of 10 fields of 100 bytes
                   load-sorted: records of 1 KiB in the order of their keys, by the call that a store has for this
                   tpcb: transfers between accounts, see --branches
                   tpcc: orders, payments and deliveries, see --warehouses
                   tatp, tatp-update-location: a register of subscribers, see --subscribers
                   sysbench-read-write, sysbench-write-only, sysbench-update-index: sysbench's OLTP scripts, see --records
                   Several of load (first) and ycsb-*, separated by commas, run one after the other on one loaded store. [default: insert]
  --stores NAMES   Stores to measure, of katydid, katydid-memory, surrealkv, rocksdb, rocksdb-optimistic, fjall, fjall-optimistic, lmdb, redb,
                   sqlite, wiredtiger [default: all of this build]
  --threads LIST   Numbers of threads that block in each commit, or `none` [default: 1,8,32,64]
  --callbacks LIST Threads with callbacks, and the commits in flight of each, such as 2x256, or `none` [default: none]
  --seconds S      Seconds of each run, without loading [default: 1]
  --rounds N       Number of rounds, each of which runs every case once [default: 3]
  --records N      Number of records that YCSB loads, or of rows of sysbench's table [default: 50000]
  --fields N       Fields of YCSB's records [default: 10]
  --field-bytes N  Bytes of each field [default: 100]
  --lent           YCSB's reads borrow values from the stores that can lend them, instead of copying them
  --branches N     Branches of the bank, with 1,000 accounts each [default: 64]
  --warehouses N   Warehouses of TPC-C, with a tenth of its items and customers [default: 4]
  --subscribers N  Subscribers of TATP [default: 20000]
  --cache MIB      Memory for a store's pages or blocks, in MiB [default: 256]
  --memory MIB     Memory of the process of a store and of the files' pages that it uses, by a control group [default: not limited]
  --dir DIR        Folder to work in, on the disk to measure, which must be new or empty [default: katydid-compare]
  --unsafe         Acknowledge commits before they are durable, in each store's fastest mode
  --csv FILE       Write the rows of each round to this file, as CSV
  --json FILE      Write all results to this file, as JSON

The command opens and loads every store anew for each run, in a process of its own. A row has the rates of the median, the slowest and the fastest round;
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

impl FromStr for Case {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Result<Case> {
        let (threads, in_flight) = text.split_once('x').unwrap_or((text, "1"));
        Ok(Case { threads: flags::many(threads)?, in_flight: flags::many(in_flight)? })
    }
}

pub struct Settings {
    /// Workloads that run one after the other on one store.
    pub works: Vec<Work>,
    pub stores: Vec<Known>,
    pub cases: Vec<Case>,
    pub time: Duration,
    pub rounds: usize,
    pub records: u64,
    pub fields: u32,
    pub field_bytes: u32,
    /// True if reads borrow values where the store can lend them.
    pub lent: bool,
    pub branches: u64,
    pub warehouses: u32,
    pub subscribers: u32,
    pub cache_bytes: u64,
    /// Limit of memory, by a control group.
    pub memory_bytes: Option<u64>,
    pub dir: PathBuf,
    pub commits: Commits,
    pub csv: Option<PathBuf>,
    pub json: Option<PathBuf>,
    /// Flags from which these settings were read. The process of a turn reads them again.
    pub flags: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            works: vec![Work::Insert],
            stores: ALL.into_iter().filter(|store| store.built).collect(),
            cases: Vec::new(),
            time: Duration::from_secs(1),
            rounds: 3,
            records: 50_000,
            fields: 10,
            field_bytes: 100,
            lent: false,
            branches: 64,
            warehouses: 4,
            subscribers: 20_000,
            cache_bytes: 256 << 20,
            memory_bytes: None,
            dir: "katydid-compare".into(),
            commits: Commits::Durable,
            csv: None,
            json: None,
            flags: Vec::new(),
        }
    }
}

impl Settings {
    /// `None` if the arguments ask for help.
    pub fn read(arguments: Vec<String>) -> Result<Option<Settings>> {
        let mut settings = Settings { flags: arguments.clone(), ..Settings::default() };
        let Some(pairs) = flags::pairs(arguments)? else { return Ok(None) };
        let (mut threads, mut callbacks) = (vec![1, 8, 32, 64], Vec::new());
        for (flag, value) in &pairs {
            match flag.as_str() {
                "--workload" => settings.works = flags::list(flag, value, |name| Ok(name.parse()?))?,
                "--stores" => settings.stores = flags::list(flag, value, known)?,
                "--threads" if value.as_deref() == Some("none") => threads.clear(),
                "--threads" => threads = flags::list(flag, value, flags::many)?,
                "--callbacks" => callbacks = flags::list(flag, value, callbacks_of)?,
                "--seconds" => settings.time = Duration::try_from_secs_f64(flags::value(flag, value)?)?,
                "--rounds" => settings.rounds = flags::value(flag, value)?,
                "--records" => settings.records = flags::value(flag, value)?,
                "--fields" => settings.fields = flags::value(flag, value)?,
                "--field-bytes" => settings.field_bytes = flags::value(flag, value)?,
                "--lent" if value.is_none() => settings.lent = true,
                "--branches" => settings.branches = flags::value(flag, value)?,
                "--warehouses" => settings.warehouses = flags::value(flag, value)?,
                "--subscribers" => settings.subscribers = flags::value(flag, value)?,
                "--cache" => settings.cache_bytes = mebibytes(flag, value)?,
                "--memory" => settings.memory_bytes = Some(mebibytes(flag, value)?),
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
        settings.check_works()?;
        Ok(Some(settings))
    }

    /// Checks the list of workloads: several workloads must share one table, and only the first may
    /// load it.
    fn check_works(&self) -> Result<()> {
        if self.works.len() > 1 && !self.works.iter().all(|work| work.is_ycsb()) {
            return Err("--workload: only load and ycsb-* can run one after the other on one store".into());
        }
        if self.works.iter().skip(1).any(|work| *work == Work::Load) {
            return Err("--workload: load must come first, because a store is loaded once".into());
        }
        for (nth, work) in self.works.iter().enumerate() {
            if self.works[..nth].contains(work) {
                return Err(format!("--workload: {work} is given twice").into());
            }
        }
        Ok(())
    }

    /// Names of the workloads, as in the flag.
    pub fn work_names(&self) -> String {
        self.works.iter().map(Work::to_string).collect::<Vec<_>>().join(",")
    }
}

fn callbacks_of(text: &str) -> Result<Case> {
    match text.contains('x') {
        true => text.parse(),
        false => Err(format!("{text} is not like 2x256").into()),
    }
}

/// A number of bytes that the flag has in MiB.
fn mebibytes(flag: &str, value: &Option<String>) -> Result<u64> {
    Ok(flags::value::<u64>(flag, value)?.saturating_mul(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &str) -> Result<Settings> {
        let settings = Settings::read(flags.split_whitespace().map(str::to_owned).collect())?;
        Ok(settings.expect("no help is asked for"))
    }

    #[test]
    fn workloads_on_one_store_share_its_table() {
        let settings = read("--workload load,ycsb-c,ycsb-e,ycsb-a --memory 700").unwrap();
        assert_eq!(settings.work_names(), "load,ycsb-c,ycsb-e,ycsb-a");
        assert_eq!(settings.memory_bytes, Some(700 << 20));
        for (flags, why) in [
            ("--workload ycsb-c,tpcb", "only load and ycsb-*"),
            ("--workload load,load-sorted", "only load and ycsb-*"),
            ("--workload ycsb-c,load", "must come first"),
            ("--workload ycsb-c,ycsb-c", "twice"),
            ("--workload ycsb-z", "no such workload"),
        ] {
            let error = read(flags).err().map_or(String::new(), |error| error.to_string());
            assert!(error.contains(why), "{flags}: {error}");
        }
    }

    #[test]
    fn a_case_is_read_as_it_is_written() {
        for case in [Case { threads: 8, in_flight: 1 }, Case { threads: 2, in_flight: 256 }] {
            assert_eq!(case.to_string().parse::<Case>().unwrap(), case);
        }
        for text in ["", "0", "2x", "x2", "2x0", "2x3x4"] {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
        assert!(read("--callbacks 8").is_err());
        assert_eq!(read("--threads none --callbacks 8x1").unwrap().cases, ["8".parse::<Case>().unwrap()]);
    }
}
