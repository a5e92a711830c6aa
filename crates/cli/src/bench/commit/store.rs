//! Runs a case on the store, through the workload crate's driver.
//!
//! 1. One database for all cases, opened anew for each with the case's options. What is only read or updated is loaded once, by whoever
//!    needs it first, without delay; what a run inserts goes into a table of its own, which is dropped after it, so that cases do not
//!    slow each other down.
//! 2. What a run reads is in memory when it begins.
//! 3. After every run of TPC-B everything must add up, and there must be as many notes as transfers were acknowledged.

use super::case::{Case, Run, Work};
use super::raw::Raw;
use super::stage::Stage;
use super::usage;
use crate::bench::split::Split;
use crate::failure::{Failure, Result};
use crate::place;
use crate::sweep::case;
use katydid::{Database, LockRelease, Options};
use katydid_wal::{Durability, SyncKind};
use katydid_workload::drive::{Outcome, Plan, Workload, drive};
use katydid_workload::insert::{Inserts, KeyOrder};
use katydid_workload::properties::Properties;
use katydid_workload::tpcb::{self, Totals, TpcbLoad, TpcbRun};
use katydid_workload::ycsb::{Settings, YcsbLoad, YcsbRun};
use katydid_workload::{Client, Intent, KatydidStore, Keys, Store, Transaction};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Everything is in memory, as in the papers.
pub const CACHE_BYTES: usize = 1 << 30;
/// So much log that no checkpoint falls into a run.
pub const CHECKPOINT_BYTES: u64 = 2 << 30;
/// Transactions in flight of each thread that loads.
const LOAD_IN_FLIGHT: usize = 256;

/// How much is loaded, and what is random.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub branches: u64,
    pub accounts_of_branch: u64,
    /// Keys of the table that is updated and searched.
    pub keys: u64,
    pub seed: u64,
}

impl Scale {
    fn bank(&self, skew: f64) -> tpcb::Settings {
        tpcb::Settings { branches: self.branches, accounts_of_branch: self.accounts_of_branch, skew }
    }

    /// Keys of 20 bytes and a field of 100, all alike.
    fn records(&self) -> Result<Settings> {
        self.table("readproportion=0.5\nupdateproportion=0.5")
    }

    /// The same, to be updated only.
    pub fn updates(&self) -> Result<Settings> {
        self.table("readproportion=0\nupdateproportion=1")
    }

    fn table(&self, proportions: &str) -> Result<Settings> {
        let text = format!(
            "recordcount={}\nfieldcount=1\nfieldlength=100\ninsertorder=ordered\nzeropadding=16\nrequestdistribution=uniform\n\
             {proportions}\nwriteallfields=true\ntable=records",
            self.keys
        );
        let properties = Properties::parse(&text).map_err(Failure::failed)?;
        Settings::from_properties(&properties).map_err(Failure::failed)
    }
}

/// The database that all cases share.
#[derive(Debug)]
pub struct Shop {
    scale: Scale,
    bank: bool,
    records: bool,
    /// What the histories that are dropped added up to.
    carried: i64,
    /// Runs so far.
    runs: u64,
}

impl Shop {
    pub fn new(scale: Scale) -> Shop {
        Shop { scale, bank: false, records: false, carried: 0, runs: 0 }
    }

    /// Runs a case.
    pub fn measure(&mut self, case: &Case, stage: &Stage, raw: Raw, time: Duration) -> Result<Run> {
        self.load(case, stage)?;
        let store = open(case, stage)?;
        self.runs += 1;
        let own = format!("own_{}", self.runs);
        let plan = Plan {
            threads: case.threads,
            in_flight: case.in_flight,
            time: Some(time),
            seed: self.scale.seed.wrapping_add(self.runs),
            ..Plan::default()
        };
        let measured = match case.work {
            Work::Tpcb { skew } => {
                let (bank, tables) = (TpcbRun::new(&self.scale.bank(skew), 0), tpcb::tables(&own));
                let measured = watched(&store, &tables, &bank, &plan, raw)?;
                let checked = Some(self.add_up(&store, &tables, measured.commits)?);
                Run { checked, ..measured }
            }
            Work::UpdateSearch => {
                let records = self.scale.records()?;
                let run = YcsbRun::new(&records, self.scale.keys, 0);
                watched(&store, &[&records.table], &run, &plan, raw)?
            }
            Work::Inserts { value } => {
                watched(&store, &[&own], &Inserts::new(20, value, KeyOrder::Ascending, 0), &plan, raw)?
            }
            Work::Log { .. } | Work::Tuples { .. } | Work::Readers { .. } | Work::Updates | Work::Pair => {
                return Err(Failure::failed("this work has no table here"));
            }
        };
        store.database().drop_table(&own)?;
        store.database().close()?;
        Ok(measured)
    }

    fn load(&mut self, case: &Case, stage: &Stage) -> Result<()> {
        let needs_bank = matches!(case.work, Work::Tpcb { .. }) && !self.bank;
        let needs_records = case.work == Work::UpdateSearch && !self.records;
        if !needs_bank && !needs_records {
            return Ok(());
        }
        let quick = Case {
            sync: SyncKind::default(),
            durability: Durability::Durable,
            release: LockRelease::Early,
            delay: Duration::ZERO,
            io_unit: None,
            group: None,
            ..case.clone()
        };
        let store = open(&quick, stage)?;
        let plan = Plan { threads: 2, in_flight: LOAD_IN_FLIGHT, ..Plan::default() };
        if needs_bank {
            let bank = TpcbLoad::new(&self.scale.bank(0.0));
            // The tables alone: without a history there is nothing to drop.
            run(&store, &tpcb::tables("own_0"), &bank, &plan)?;
            self.bank = true;
        }
        if needs_records {
            let records = self.scale.records()?;
            run(&store, &[&records.table], &YcsbLoad::new(&records), &plan)?;
            self.records = true;
        }
        store.database().close()?;
        Ok(())
    }

    /// How many transfers there are.
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

fn open(case: &Case, stage: &Stage) -> Result<KatydidStore> {
    let name = stage.name_of("store", case);
    let files = stage.files().subdirectory(&name)?;
    let directory = Arc::new(Split::new(files, stage.for_log(&name, case)?));
    let options = Options {
        cache_bytes: CACHE_BYTES,
        lock_release: case.release,
        durability: case.durability,
        checkpoint_bytes: CHECKPOINT_BYTES,
        log_soft_bytes: 2 * CHECKPOINT_BYTES,
        log: stage.options(case),
        ..Options::default()
    };
    let database = place::open_showing(options, Some(case.log), |options| {
        Database::open_in(directory.clone(), options)
    })?;
    Ok(KatydidStore::new(database))
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

/// Makes the tables that are not there, and reads the others: a run must not wait for pages.
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

/// Runs something and takes down what was used and logged meanwhile.
pub fn counted(store: &KatydidStore, raw: Raw, run: impl FnOnce() -> Result<Outcome>) -> Result<Run> {
    let before = store.database().stat()?;
    let used = usage::so_far();
    let outcome = run()?;
    let usage = usage::since(&used);
    let after = store.database().stat()?;
    let mut times = case::times()?;
    // Where nobody writes, reading is what is timed.
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
