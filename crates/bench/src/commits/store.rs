//! Runs a case on the store, with the driver of the workload crate.
//!
//! 1. One database serves all cases with the same engine and the same kind and device of log. It is
//!    opened anew for each case with the case's options. Inserts, and the history of TPC-B, go into
//!    a table of the run's own. This table is dropped after the run, so that cases do not slow each
//!    other down. All other rows are loaded once, without added delay, before the first case that
//!    needs them.
//! 2. All data that a run reads is in memory when the run begins.
//! 3. After every run of TPC-B all sums must agree, and the history must have one note for each
//!    acknowledged transfer. After every run of sysbench all rows must exist, and the index must
//!    have exactly one entry for each row.
//! 4. A database of the memory engine takes a checkpoint before it is closed, because otherwise the
//!    next opening would read all of its log.

use super::case::{Case, Work};
use super::run::Run;
use super::stage::Stage;
use crate::grid::row;
use crate::host::raw::Raw;
use crate::host::split::Split;
use crate::host::usage;
use katydid::{AdvancedOptions, Database, MemoryOptions, Options, PagedOptions};
use katydid_command::database;
use katydid_command::failure::{Failure, Result};
use katydid_workload::drive::{Outcome, Plan, Workload, drive};
use katydid_workload::insert::{Inserts, KeyOrder};
use katydid_workload::properties::Properties;
use katydid_workload::sysbench::{self, Script, SysbenchLoad, SysbenchRun};
use katydid_workload::tpcb::{self, Totals, TpcbLoad, TpcbRun};
use katydid_workload::ycsb::{Settings, YcsbLoad, YcsbRun};
use katydid_workload::{Client, Intent, KatydidStore, Keys, Store, Transaction};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Cache size with which all data is in memory, as in the papers.
pub const CACHE_BYTES: usize = 1 << 30;
/// Bytes of log between checkpoints: large enough that no checkpoint begins during a run.
pub const CHECKPOINT_BYTES: u64 = 2 << 30;
/// Number of transactions in flight of each loading thread.
const LOAD_IN_FLIGHT: usize = 256;

/// Sizes of the tables, and the seed.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub branches: u64,
    pub accounts_of_branch: u64,
    /// Number of keys in the table that is updated and searched.
    pub keys: u64,
    pub seed: u64,
}

impl Scale {
    fn bank(&self, skew: f64) -> tpcb::Settings {
        tpcb::Settings { branches: self.branches, accounts_of_branch: self.accounts_of_branch, skew }
    }

    fn sysbench(&self) -> sysbench::Settings {
        sysbench::Settings { tables: 1, rows: self.keys, skew: 0.0 }
    }

    /// Settings of a table with keys of 20 bytes and one field of `value` bytes. Requests choose
    /// keys uniformly; half of them read, and half update.
    fn records(&self, value: usize) -> Result<Settings> {
        self.table(value, "readproportion=0.5\nupdateproportion=0.5")
    }

    /// Settings of a table with keys of 20 bytes and one field of 100 bytes. All requests update.
    pub fn updates(&self) -> Result<Settings> {
        self.table(100, "readproportion=0\nupdateproportion=1")
    }

    fn table(&self, value: usize, proportions: &str) -> Result<Settings> {
        let text = format!(
            "recordcount={}\nfieldcount=1\nfieldlength={value}\ninsertorder=ordered\nzeropadding=16\nrequestdistribution=uniform\n\
             {proportions}\nwriteallfields=true\ntable=records_{value}",
            self.keys
        );
        let properties = Properties::parse(&text).map_err(Failure::failed)?;
        Settings::from_properties(&properties).map_err(Failure::failed)
    }
}

/// The databases that cases share.
#[derive(Debug)]
pub struct StoreDatabases {
    scale: Scale,
    /// Databases by the name of the folder.
    known: HashMap<String, Loaded>,
    /// Number of runs so far.
    runs: u64,
}

/// Contents of one database.
#[derive(Debug, Default)]
struct Loaded {
    bank: bool,
    /// Sum of the amounts in the dropped histories.
    carried: i64,
    sysbench: bool,
    /// Names of the loaded tables of keys.
    records: Vec<String>,
}

impl StoreDatabases {
    pub fn new(scale: Scale) -> StoreDatabases {
        StoreDatabases { scale, known: HashMap::new(), runs: 0 }
    }

    /// Runs a case.
    pub fn measure(&mut self, case: &Case, stage: &Stage, raw: Raw, time: Duration) -> Result<Run> {
        let name = name(case, stage);
        let loaded = self.known.entry(name.clone()).or_default();
        loaded.load(&self.scale, &name, case, stage)?;
        let store = open(case, &name, stage)?;
        self.runs += 1;
        let own = format!("own_{}", self.runs);
        let plan = Plan {
            threads: case.threads,
            in_flight: case.in_flight,
            time: Some(time),
            seed: self.scale.seed.wrapping_add(self.runs),
            conflict_retries: u32::MAX,
            ..Plan::default()
        };
        let measured = match case.work {
            Work::Tpcb { skew } => {
                let (bank, tables) = (TpcbRun::new(&self.scale.bank(skew), 0), tpcb::tables(&own));
                let measured = watched(&store, &tables, &bank, &plan, raw)?;
                let checked = Some(loaded.add_up(&store, &tables, measured.commits)?);
                store.database().drop_table(&own)?;
                Run { checked, ..measured }
            }
            Work::UpdateSearch { .. } | Work::Updates => {
                let records = records(case.work, &self.scale)?;
                let run = YcsbRun::new(&records, self.scale.keys, 0);
                watched(&store, &[&records.table], &run, &plan, raw)?
            }
            Work::Inserts { value } => {
                let inserts = Inserts::new(20, value, KeyOrder::Ascending, 0);
                let measured = watched(&store, &[&own], &inserts, &plan, raw)?;
                store.database().drop_table(&own)?;
                measured
            }
            Work::Sysbench => {
                let settings = self.scale.sysbench();
                let names = settings.table_names();
                let tables: Vec<&str> = names.iter().map(String::as_str).collect();
                let run = SysbenchRun::new(&settings, Script::WriteOnly);
                let measured = watched(&store, &tables, &run, &plan, raw)?;
                sysbench::State::read(&store, &settings)?.check(&settings).map_err(Failure::failed)?;
                measured
            }
            Work::Log { .. } | Work::Tuples { .. } | Work::Readers { .. } | Work::Pair => {
                return Err(Failure::failed("this work has no table here"));
            }
        };
        close(case, &store)?;
        Ok(measured)
    }
}

impl Loaded {
    fn load(&mut self, scale: &Scale, name: &str, case: &Case, stage: &Stage) -> Result<()> {
        let records = match case.work {
            Work::UpdateSearch { .. } | Work::Updates => Some(records(case.work, scale)?),
            _ => None,
        };
        let records = records.filter(|records| !self.records.contains(&records.table));
        let bank = matches!(case.work, Work::Tpcb { .. }) && !self.bank;
        let sysbench = case.work == Work::Sysbench && !self.sysbench;
        if records.is_none() && !bank && !sysbench {
            return Ok(());
        }
        let quick =
            Case { device: case.device, streams: case.streams, log: case.log, ..Case::new(case.work) };
        let store = open(&quick, name, stage)?;
        let plan = Plan { threads: 2, in_flight: LOAD_IN_FLIGHT, ..Plan::default() };
        if bank {
            // The load puts no rows into the history, so any name of a history serves here.
            run(&store, &tpcb::tables("own_0"), &TpcbLoad::new(&scale.bank(0.0)), &plan)?;
            self.bank = true;
        }
        if let Some(records) = records {
            run(&store, &[&records.table], &YcsbLoad::new(&records), &plan)?;
            self.records.push(records.table);
        }
        if sysbench {
            let settings = scale.sysbench();
            let names = settings.table_names();
            let tables: Vec<&str> = names.iter().map(String::as_str).collect();
            run(&store, &tables, &SysbenchLoad::new(&settings, scale.seed), &plan)?;
            self.sysbench = true;
        }
        close(case, &store)
    }

    /// Checks the sums of the transfers. Returns the number of transfers.
    fn add_up(&mut self, store: &KatydidStore, tables: &[&str; 4], acknowledged: u64) -> Result<u64> {
        let sums = Totals::read(store, tables)?;
        sums.check(self.carried)?;
        if sums.transfers != acknowledged {
            return Err(Failure::failed(format_args!(
                "the history holds {} transfers, but {acknowledged} were acknowledged: this is a bug",
                sums.transfers
            )));
        }
        self.carried = self.carried.wrapping_add(sums.history);
        Ok(sums.transfers)
    }
}

/// Settings of the table of keys, for a workload that has one.
fn records(work: Work, scale: &Scale) -> Result<Settings> {
    match work {
        Work::UpdateSearch { value } => scale.records(value),
        _ => scale.updates(),
    }
}

/// Name of the folder that is shared by all cases with the same engine, and the same kind, size and
/// device of log.
fn name(case: &Case, stage: &Stage) -> String {
    stage.name_of(if case.streams.is_some() { "memory-engine" } else { "store" }, case)
}

fn open(case: &Case, name: &str, stage: &Stage) -> Result<KatydidStore> {
    let files = stage.files().subdirectory(name)?;
    let directory = Arc::new(Split::new(files, stage.for_log(name, case)?));
    let options = Options {
        engine: match case.streams {
            None => PagedOptions { cache_bytes: CACHE_BYTES, ..PagedOptions::default() }.into(),
            Some(streams) => {
                MemoryOptions { streams, memory_bytes: u64::MAX, ..MemoryOptions::default() }.into()
            }
        },
        durability: case.durability,
        advanced: AdvancedOptions {
            lock_release: case.release,
            checkpoint_bytes: CHECKPOINT_BYTES,
            log_soft_bytes: 2 * CHECKPOINT_BYTES,
            log: stage.options(case),
            ..AdvancedOptions::default()
        },
        ..Options::default()
    };
    let database =
        database::open_showing(options, None, |options| Database::open_in(directory.clone(), options))?;
    Ok(KatydidStore::new(database))
}

fn close(case: &Case, store: &KatydidStore) -> Result<()> {
    if case.streams.is_some() {
        store.database().checkpoint()?;
    }
    Ok(store.database().close()?)
}

pub fn run<W: Workload>(
    store: &KatydidStore,
    tables: &[&str],
    workload: &Arc<W>,
    plan: &Plan,
) -> Result<Outcome> {
    let never = AtomicBool::new(false);
    drive(store, tables, workload, plan, &never, &mut |_| ()).map_err(Failure::failed)
}

/// Creates the tables that are missing and reads all of `tables`, so that a run does not wait for
/// pages.
pub fn warm(store: &KatydidStore, tables: &[&str]) -> Result<()> {
    let mut client = store.client(tables)?;
    let mut transaction = client.begin(Intent::ReadOnly)?;
    for table in 0..tables.len() {
        transaction.on(table).range(Keys::ALL, usize::MAX, &mut |_, _| ())?;
    }
    Ok(transaction.commit()?)
}

fn watched<W: Workload>(
    store: &KatydidStore,
    tables: &[&str],
    workload: &Arc<W>,
    plan: &Plan,
    raw: Raw,
) -> Result<Run> {
    warm(store, tables)?;
    counted(store, raw, || run(store, tables, workload, plan))
}

/// Runs `run`, and measures usage and log counters during the run.
pub fn counted(store: &KatydidStore, raw: Raw, run: impl FnOnce() -> Result<Outcome>) -> Result<Run> {
    let before = store.database().stat()?;
    let used = usage::so_far();
    let outcome = run()?;
    let usage = usage::since(&used);
    let after = store.database().stat()?;
    let mut times = row::times()?;
    // If the run committed no writes, report the times of its reads.
    let timed = match outcome.latencies.commits.is_empty() {
        true => &outcome.latencies.reads,
        false => &outcome.latencies.commits,
    };
    timed.iter_recorded().for_each(|at| {
        times.saturating_record_n(at.value_iterated_to(), at.count_at_value());
    });
    Ok(Run {
        commits: outcome.transactions,
        seconds: outcome.elapsed.as_secs_f64(),
        clients_cpu: Some(outcome.cpu),
        times,
        usage,
        counters: (before.log.counters, after.log.counters),
        log_bytes: after.log.appended() - before.log.appended(),
        nvram: after.log.nvram,
        checkpoints: after.checkpoints - before.checkpoints,
        conflicts: outcome.conflicts,
        refused: 0,
        checked: None,
        raw,
    })
}
