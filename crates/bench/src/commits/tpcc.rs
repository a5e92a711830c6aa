//! Runs a case on the paged engine over a log of any kind: TPC-C's NewOrder and Payment, half each
//! ([`Work::Pair`]), or updates of single keys ([`Work::Updates`]).
//!
//! 1. There is one database for each device of a log in files. For logs in NVRAM there is one
//!    database for each kind of log and each number of entries. The first case that needs a
//!    database loads it. When runs have added more than [`GROWN_MAX`] orders, the next case loads
//!    the database anew. Each run opens the database anew, with the case's delay. The database's
//!    files are on the folder's device; its log is on the device or NVRAM of the case.
//! 2. A checkpoint before each run makes room in a log in NVRAM. The log must be large enough for
//!    one run.
//! 3. After every run of TPC-C the standard's conditions must hold, and there must be as many
//!    orders as were loaded and acknowledged.

use super::case::{Case, Work};
use super::run::Run;
use super::stage::Stage;
use super::store::{CACHE_BYTES, CHECKPOINT_BYTES, Scale, counted, run, warm};
use crate::host::raw::Raw;
use crate::host::split::Split;
use clap::Args;
use katydid::{AdvancedOptions, Database, Options, PagedOptions};
use katydid_command::database;
use katydid_command::failure::{Failure, Result};
use katydid_workload::KatydidStore;
use katydid_workload::drive::Plan;
use katydid_workload::tpcc::{Kind, Mix, Settings, State, TABLES, TpccLoad, TpccRun};
use katydid_workload::ycsb::{YcsbLoad, YcsbRun};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Number of added orders above which the next run loads the database anew. Reading and checking
/// more orders would take longer than a run.
const GROWN_MAX: u64 = 40_000;
/// Number of transactions in flight of each loading thread.
const LOAD_IN_FLIGHT: usize = 16;

/// Sizes of a database of TPC-C.
#[derive(Debug, Args)]
pub struct TpccFlags {
    /// Warehouses of TPC-C, with 10 districts each [default: 4 in `lab nvram`, 32 in `lab commit`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    warehouses: Option<u32>,
    /// Items of TPC-C; the standard has 100000
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    items: u32,
    /// Customers of each district of TPC-C; the standard has 3000
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    customers: u32,
}

impl TpccFlags {
    /// Settings with this number of warehouses, unless the command line gives one.
    pub fn settings(&self, warehouses: u32) -> Settings {
        let warehouses = self.warehouses.unwrap_or(warehouses);
        Settings { warehouses, items: self.items, customers_of_district: self.customers }
    }
}

/// The sizes in the format of the table's head.
pub fn shown(settings: &Settings) -> String {
    let Settings { warehouses, items, customers_of_district: customers } = settings;
    format!("warehouses={warehouses} items={items} customers={customers}")
}

/// The databases of TPC-C, as the head of this file describes.
#[derive(Debug)]
pub struct TpccDatabases {
    pub settings: Settings,
    /// Size of the table of single keys.
    pub records: Scale,
    /// True if each run loads a database of its own.
    pub anew: bool,
    /// Databases by the name of the folder.
    known: HashMap<String, TpccDatabase>,
}

/// Contents of one database.
#[derive(Debug, Default)]
struct TpccDatabase {
    /// Number of orders loaded and acknowledged; `None` before TPC-C is loaded.
    orders: Option<u64>,
    records: bool,
    /// Number of runs so far. It makes the payment numbers of each run of TPC-C differ from those
    /// of all other runs.
    runs: u64,
}

impl TpccDatabases {
    pub fn new(settings: Settings, records: Scale) -> TpccDatabases {
        TpccDatabases { settings, records, anew: false, known: HashMap::new() }
    }

    /// Runs a case.
    pub fn measure(&mut self, case: &Case, stage: &Stage, raw: Raw, time: Duration) -> Result<Run> {
        let name = stage.name_of("tpcc", case);
        let mut tpcc = self.known.remove(&name).unwrap_or_default();
        if self.anew || tpcc.orders.is_some_and(|orders| orders > self.settings.orders() + GROWN_MAX) {
            stage.forget(&name)?;
            tpcc = TpccDatabase::default();
        }
        let store = open(case, &name, stage)?;
        let measured = self.on(&mut tpcc, &store, case, raw, time);
        // Close the database even after a failure, so that the folder's lock is free.
        let closed = store.database().close();
        drop(store);
        let measured = measured?;
        closed?;
        if self.anew {
            stage.forget(&name)?;
        } else {
            self.known.insert(name, tpcc);
        }
        Ok(measured)
    }

    fn on(
        &self,
        tpcc: &mut TpccDatabase,
        store: &KatydidStore,
        case: &Case,
        raw: Raw,
        time: Duration,
    ) -> Result<Run> {
        self.load(tpcc, store, case.work)?;
        tpcc.runs += 1;
        let plan = Plan {
            threads: case.threads,
            in_flight: case.in_flight,
            time: Some(time),
            seed: self.records.seed.wrapping_add(tpcc.runs),
            conflict_retries: u32::MAX,
            ..Plan::default()
        };
        match (case.work, tpcc.orders) {
            (Work::Pair, Some(orders)) => {
                warm(store, &TABLES)?;
                store.database().checkpoint()?;
                let pair = TpccRun::new(&self.settings, Mix::Pair, tpcc.runs);
                let measured = counted(store, raw, || run(store, &TABLES, &pair, &plan))?;
                let checked = pair.acknowledged(Kind::NewOrder);
                tpcc.orders = Some(orders + checked);
                self.check(store, orders + checked)?;
                Ok(Run { checked: Some(measured.commits), ..measured })
            }
            (Work::Updates, _) => {
                let records = self.records.updates()?;
                warm(store, &[&records.table])?;
                store.database().checkpoint()?;
                let updates = YcsbRun::new(&records, self.records.keys, 0);
                counted(store, raw, || run(store, &[&records.table], &updates, &plan))
            }
            _ => Err(Failure::failed("this work has no table here")),
        }
    }

    fn load(&self, tpcc: &mut TpccDatabase, store: &KatydidStore, work: Work) -> Result<()> {
        let plan = Plan { threads: 2, in_flight: LOAD_IN_FLIGHT, ..Plan::default() };
        match work {
            Work::Pair if tpcc.orders.is_none() => {
                run(store, &TABLES, &TpccLoad::new(&self.settings, self.records.seed), &plan)?;
                tpcc.orders = Some(self.settings.orders());
            }
            Work::Updates if !tpcc.records => {
                let records = self.records.updates()?;
                run(store, &[&records.table], &YcsbLoad::new(&records), &plan)?;
                tpcc.records = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self, store: &KatydidStore, orders: u64) -> Result<()> {
        let state = State::read(store)?;
        state.check(&self.settings).map_err(Failure::failed)?;
        match state.orders() {
            found if found == orders => Ok(()),
            found => Err(Failure::failed(format_args!(
                "there are {found} orders, but {orders} were loaded and acknowledged: this is a bug"
            ))),
        }
    }
}

fn open(case: &Case, name: &str, stage: &Stage) -> Result<KatydidStore> {
    let files = stage.files().subdirectory(name)?;
    let directory = Arc::new(Split::new(files, stage.for_log(name, case)?));
    let options = Options {
        engine: PagedOptions { cache_bytes: CACHE_BYTES, ..PagedOptions::default() }.into(),
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

#[cfg(test)]
mod tests {
    use super::super::stage::Tuned;
    use super::*;
    use crate::host::device::Device;
    use katydid_device::Waiting;
    use katydid_wal::{FileOptions, Group, InserterSettings, NvramOptions};

    #[test]
    fn a_database_that_is_loaded_anew_has_nothing_of_its_old_log() {
        let dir = tempfile::tempdir().unwrap();
        let own = FileOptions::default();
        let inserter = InserterSettings::default();
        let tuned = Tuned {
            ring_bytes: own.ring_bytes,
            segment_bytes: 1 << 20,
            spare_segments: 1,
            slots: inserter.consolidation_slots,
            hop_bytes: inserter.hop_bytes,
            chunk_bytes: inserter.chunk_bytes,
            depth: 1,
            group: Group::default(),
            nvram: NvramOptions::default(),
            waiting: Waiting::default(),
        };
        let nvram = dir.path().join("nvram");
        let stage = Stage::new(dir.path().join("files"), nvram, &[], Device::File, tuned).unwrap();
        let settings = Settings { warehouses: 1, items: 10, customers_of_district: 3 };
        let records = Scale { branches: 1, accounts_of_branch: 1, keys: 1, seed: 1 };
        let mut databases = TpccDatabases { anew: true, ..TpccDatabases::new(settings, records) };
        for device in [Device::Memory, Device::File] {
            let case = Case { device: Some(device), ..Case::new(Work::Pair) };
            for _ in 0..2 {
                let run = databases.measure(&case, &stage, Raw::default(), Duration::from_millis(5)).unwrap();
                assert_eq!(run.checked, Some(run.commits));
            }
        }
    }
}
