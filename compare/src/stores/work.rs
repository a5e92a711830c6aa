//! The workloads: loading, measuring and checking.
//!
//! 1. Loading is not measured. One thread loads many records in a transaction, with the durability
//!    of the run.
//! 2. Between loading and measuring every store has the same time for its background work.
//! 3. After a run the store contains exactly the acknowledged changes. After several workloads on
//!    one store the run checks this once: after the last workload, before it reports the result of
//!    this workload.

use super::Run;
use super::settings::{Case, Settings};
use crate::adapters::{Rival, Visit};
use katydid_workload::drive::{CommitsFrom, Outcome, Plan, Source, Workload, drive};
use katydid_workload::insert::{Inserts, KeyOrder};
use katydid_workload::measure::Latencies;
use katydid_workload::properties::Properties;
use katydid_workload::sysbench::{self, Script, SysbenchLoad, SysbenchRun};
use katydid_workload::tatp::{self, Counts, TatpLoad, TatpRun};
use katydid_workload::tpcb::{self, Totals, TpcbLoad, TpcbRun};
use katydid_workload::tpcc::{self, Kind, Mix, State, TpccLoad, TpccRun};
use katydid_workload::ycsb::{self, YcsbLoad, YcsbRun};
use katydid_workload::{Client, Intent, Keys, Result, Store, StoreError, Transaction};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Time between loading and measuring a store.
const SETTLE: Duration = Duration::from_millis(300);

/// Maximum number of repetitions of a transaction that conflicts; never reached.
const RETRIES: u32 = 1_000_000;

/// Bytes of a value of the sorted load. A key has `SORTED_KEY_BYTES`.
const SORTED_VALUE_BYTES: usize = 1024;
const SORTED_KEY_BYTES: usize = 24;

/// Number of random bytes from which the sorted load takes its values.
const SORTED_POOL: usize = 256 << 10;

/// Number of planned units, such as records, in a transaction of the load phase.
const BATCH: usize = 100;

/// Number of accounts of a branch; TPC-B has 100,000.
const ACCOUNTS_OF_BRANCH: u64 = 1000;

/// Number of items; TPC-C has 100,000. `CUSTOMERS_OF_DISTRICT` is the number of customers of a
/// district; TPC-C has 3,000.
const ITEMS: u32 = 10_000;
const CUSTOMERS_OF_DISTRICT: u32 = 300;

/// Assumed rate in requests per second. This rate gives the expected number of requests of a run,
/// and so the number of future records over which zipfian keys are spread.
const ASSUMED_RATE: f64 = 50_000.0;

/// Seed of the loaded rows of TATP, sysbench and TPC-C.
const SEED: u64 = 1;

/// TATP's mixes.
const TATP: [(&str, tatp::Mix); 2] =
    [("tatp", tatp::Mix::Standard), ("tatp-update-location", tatp::Mix::UpdateLocation)];

/// Sysbench's scripts.
const SYSBENCH: [(&str, Script); 3] = [
    ("sysbench-read-write", Script::ReadWrite),
    ("sysbench-write-only", Script::WriteOnly),
    ("sysbench-update-index", Script::UpdateIndex),
];

/// YCSB's workloads by their letters.
const YCSB: [(&str, &str); 6] = [
    ("ycsb-a", include_str!("../../../workloads/ycsb/workloada")),
    ("ycsb-b", include_str!("../../../workloads/ycsb/workloadb")),
    ("ycsb-c", include_str!("../../../workloads/ycsb/workloadc")),
    ("ycsb-d", include_str!("../../../workloads/ycsb/workloadd")),
    ("ycsb-e", include_str!("../../../workloads/ycsb/workloade")),
    ("ycsb-f", include_str!("../../../workloads/ycsb/workloadf")),
];

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Insert,
    /// The records that YCSB loads, in the order of a hash.
    Load,
    /// Records in the order of their keys.
    LoadSorted,
    /// A YCSB workload: its name and its properties.
    Ycsb(&'static str, &'static str),
    Tpcb,
    Tpcc,
    Tatp(&'static str, tatp::Mix),
    Sysbench(&'static str, Script),
}

/// Entry of this name in a list, if there is one.
fn named<T: Copy>(list: &[(&'static str, T)], name: &str) -> Option<(&'static str, T)> {
    list.iter().find(|(known, _)| *known == name).copied()
}

impl Work {
    /// Returns whether the workload uses YCSB's table, so that it can share a store with others.
    pub fn is_ycsb(self) -> bool {
        matches!(self, Work::Load | Work::Ycsb(..))
    }

    /// Returns whether only a store with a call for sorted entries can run the workload.
    pub fn is_sorted_load(self) -> bool {
        self == Work::LoadSorted
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "insert" => Ok(Work::Insert),
            "load" => Ok(Work::Load),
            "load-sorted" => Ok(Work::LoadSorted),
            "tpcb" => Ok(Work::Tpcb),
            "tpcc" => Ok(Work::Tpcc),
            text => {
                let ycsb = || named(&YCSB, text).map(|(name, properties)| Work::Ycsb(name, properties));
                let tatp = || named(&TATP, text).map(|(name, mix)| Work::Tatp(name, mix));
                let sysbench = || named(&SYSBENCH, text).map(|(name, script)| Work::Sysbench(name, script));
                let known = ycsb().or_else(tatp).or_else(sysbench);
                known.ok_or_else(|| "no such workload; see --help".to_owned())
            }
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Work::Insert => "insert",
            Work::Load => "load",
            Work::LoadSorted => "load-sorted",
            Work::Ycsb(name, _) | Work::Tatp(name, _) | Work::Sysbench(name, _) => name,
            Work::Tpcb => "tpcb",
            Work::Tpcc => "tpcc",
        })
    }
}

/// The runs of a turn on one store.
pub struct StoreRun<'a> {
    pub settings: &'a Settings,
    pub case: Case,
    pub round: usize,
    /// Called with the result of each workload when the workload has ended.
    pub report: &'a mut dyn FnMut(Work, Run),
}

impl Visit for StoreRun<'_> {
    type Output = ();

    fn visit<S: Rival>(self, store: &S) -> Result<()> {
        let Some(&work) = self.settings.works.first() else { return Ok(()) };
        let outcome = match work {
            Work::Load | Work::Ycsb(..) => return self.ycsb(store),
            Work::LoadSorted => {
                let run = self.sorted_load(store)?;
                (self.report)(work, run);
                return Ok(());
            }
            Work::Insert => self.inserts(store),
            Work::Tpcb => self.tpcb(store),
            Work::Tpcc => self.tpcc(store),
            Work::Tatp(_, mix) => self.tatp(store, mix),
            Work::Sysbench(_, script) => self.sysbench(store, script),
        }?;
        (self.report)(work, run_of(outcome, store));
        Ok(())
    }
}

fn run_of<S: Store>(outcome: Outcome, store: &S) -> Run {
    Run {
        per_second: outcome.transactions_per_second(),
        transactions: outcome.transactions,
        conflicts: outcome.conflicts,
        latencies: outcome.latencies,
        syncs: outcome.counters.syncs,
        version: store.describe(),
    }
}

/// The run of a load of `records` records since `begun`. It has no latencies.
fn loaded<S: Store>(records: u64, begun: Instant, store: &S) -> Run {
    Run {
        per_second: records as f64 / begun.elapsed().as_secs_f64().max(1e-9),
        transactions: records,
        conflicts: 0,
        latencies: Latencies::default(),
        syncs: None,
        version: store.describe(),
    }
}

impl StoreRun<'_> {
    fn inserts<S: Store>(&self, store: &S) -> Result<Outcome> {
        const TABLE: [&str; 1] = ["inserts"];
        // The table is created here, so that not all clients create it at once.
        drop(store.client(&TABLE)?);
        let outcome = self.measure(store, &TABLE, &Inserts::new(20, 100, KeyOrder::Ascending, 0))?;
        check_count(store, TABLE[0], outcome.transactions)?;
        Ok(outcome)
    }

    /// Loads a store, and runs the workloads on it one after the other. A workload that inserts
    /// leaves its records to the next one.
    fn ycsb<S: Store>(self, store: &S) -> Result<()> {
        let settings = self.settings;
        let expected = settings.time.as_secs_f64() * ASSUMED_RATE;
        // All of YCSB's workloads load the same records.
        let first = ycsb_settings(settings, YCSB[0].1)?;
        let table = [first.table.as_str()];
        let begun = Instant::now();
        load(store, &table, &YcsbLoad::new(&first))?;
        let mut last = (Work::Load, loaded(settings.records, begun, store));
        let mut next = settings.records;
        for &work in &settings.works {
            let Work::Ycsb(_, properties) = work else { continue };
            let run = YcsbRun::new(&ycsb_settings(settings, properties)?, next, expected as u64);
            let outcome = self.measure(store, &table, &run)?;
            next = run.next_record();
            let ended = std::mem::replace(&mut last, (work, run_of(outcome, store)));
            if settings.works.contains(&ended.0) {
                (self.report)(ended.0, ended.1);
            }
        }
        check_count(store, table[0], next)?;
        (self.report)(last.0, last.1);
        Ok(())
    }

    fn sorted_load<S: Rival>(&self, store: &S) -> Result<Run> {
        const TABLE: &str = "sorted";
        let mut pool = vec![0; SORTED_POOL + SORTED_VALUE_BYTES];
        fastrand::Rng::with_seed(SEED).fill(&mut pool);
        let entries = (0..self.settings.records).map(|number| {
            let at = number as usize * SORTED_KEY_BYTES % SORTED_POOL;
            (format!("user{number:0width$}", width = SORTED_KEY_BYTES - 4), &pool[at..][..SORTED_VALUE_BYTES])
        });
        let begun = Instant::now();
        store.load_sorted(TABLE, entries)?;
        let run = loaded(self.settings.records, begun, store);
        check_count(store, TABLE, self.settings.records)?;
        Ok(run)
    }

    fn tpcb<S: Store>(&self, store: &S) -> Result<Outcome> {
        let settings = tpcb::Settings {
            branches: self.settings.branches,
            accounts_of_branch: ACCOUNTS_OF_BRANCH,
            skew: 0.0,
        };
        let tables = tpcb::tables("history");
        load(store, &tables, &TpcbLoad::new(&settings))?;
        let outcome = self.measure(store, &tables, &TpcbRun::new(&settings, 0))?;
        let totals = Totals::read(store, &tables)?;
        totals.check(0)?;
        check(outcome.transactions, totals.transfers, "notes of transfers")?;
        Ok(outcome)
    }

    fn tpcc<S: Store>(&self, store: &S) -> Result<Outcome> {
        let settings = tpcc::Settings {
            warehouses: self.settings.warehouses,
            items: ITEMS,
            customers_of_district: CUSTOMERS_OF_DISTRICT,
        };
        load(store, &tpcc::TABLES, &TpccLoad::new(&settings, SEED))?;
        let run = TpccRun::new(&settings, Mix::Standard, 0);
        let outcome = self.measure(store, &tpcc::TABLES, &run)?;
        let state = State::read(store)?;
        state.check(&settings)?;
        check(settings.orders() + run.acknowledged(Kind::NewOrder), state.orders(), "orders")?;
        Ok(outcome)
    }

    fn tatp<S: Store>(&self, store: &S, mix: tatp::Mix) -> Result<Outcome> {
        let settings = tatp::Settings { subscribers: self.settings.subscribers };
        load(store, &tatp::TABLES, &TatpLoad::new(&settings, SEED))?;
        let run = TatpRun::new(&settings, mix);
        let outcome = self.measure(store, &tatp::TABLES, &run)?;
        let loaded = Counts::loaded(&settings, SEED);
        let expected = Counts { call_forwardings: run.call_forwardings(loaded.call_forwardings), ..loaded };
        tatp::State::read(store, &settings)?.check(&expected)?;
        Ok(outcome)
    }

    fn sysbench<S: Store>(&self, store: &S, script: Script) -> Result<Outcome> {
        let settings = sysbench::Settings { tables: 1, rows: self.settings.records, skew: 0.0 };
        let names = settings.table_names();
        let tables: Vec<&str> = names.iter().map(String::as_str).collect();
        load(store, &tables, &SysbenchLoad::new(&settings, SEED))?;
        let before = sysbench::State::read(store, &settings)?.sum();
        let outcome = self.measure(store, &tables, &SysbenchRun::new(&settings, script))?;
        let state = sysbench::State::read(store, &settings)?;
        state.check(&settings)?;
        if script == Script::UpdateIndex {
            check(outcome.transactions, state.sum().saturating_sub(before), "updates")?;
        }
        Ok(outcome)
    }

    fn measure<S: Store, W: Workload>(&self, store: &S, tables: &[&str], work: &Arc<W>) -> Result<Outcome> {
        std::thread::sleep(SETTLE);
        let plan = Plan {
            threads: self.case.threads,
            in_flight: self.case.in_flight,
            time: Some(self.settings.time),
            seed: self.round as u64 + 1,
            conflict_retries: RETRIES,
            commits_from: CommitsFrom::Begin,
            ..Plan::default()
        };
        drive(store, tables, work, &plan, &AtomicBool::new(false), &mut |_| ()).map_err(failed)
    }
}

fn ycsb_settings(settings: &Settings, properties: &str) -> Result<ycsb::Settings> {
    let mut properties = Properties::parse(properties).map_err(failed)?;
    properties.set("recordcount", settings.records.to_string());
    properties.set("fieldcount", settings.fields.to_string());
    properties.set("fieldlength", settings.field_bytes.to_string());
    let ycsb = ycsb::Settings::from_properties(&properties).map_err(failed)?;
    Ok(ycsb::Settings { borrows_values: settings.lent, ..ycsb })
}

/// Loads all rows of a workload from one thread, so that nothing conflicts.
pub fn load<S: Store, W: Workload>(store: &S, tables: &[&str], work: &Arc<W>) -> Result<()> {
    let mut client = store.client(tables)?;
    let mut source = work.source(0, fastrand::Rng::with_seed(1));
    loop {
        let mut transaction = client.begin(Intent::ReadWrite)?;
        let mut done = 0;
        while done < BATCH && source.plan().is_some() {
            source.run(&mut transaction)?;
            done += 1;
        }
        transaction.commit()?;
        if done < BATCH {
            return Ok(());
        }
    }
}

fn check_count<S: Store>(store: &S, table: &str, expected: u64) -> Result<()> {
    let mut client = store.client(&[table])?;
    let mut transaction = client.begin(Intent::ReadOnly)?;
    let found = transaction.range(Keys::ALL, usize::MAX, &mut |_, _| ())?;
    transaction.commit()?;
    check(expected, found as u64, "keys")
}

fn check(expected: u64, found: u64, of: &str) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(StoreError::Inconsistent(format!("there are {found} {of}, but {expected} were acknowledged")))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Failed(Box::new(error))
}
