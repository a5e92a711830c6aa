//! The steps of a benchmark on an open database: loading the data, running the workload, counting
//! the keys, and writing the report.

use super::hlog;
use super::ledger::{self, Entry, Ledger};
use super::report::{Counted, Measured, Report};
use super::setup::{Opened, Setup};
use katydid_command::bytes::grouped;
use katydid_command::failure::{Failure, Result};
use katydid_command::progress::Progress;
use katydid_command::signals;
use katydid_workload::drive::{self, DriveError, Outcome, Plan, Workload};
use katydid_workload::{KatydidStore, Store};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Maximum number of keys in a table whose keys are counted after a run.
pub const COUNTED_MAX: u64 = 5_000_000;

/// Time after which a run ends if neither a time nor a number of transactions was given.
pub const TIME: Duration = Duration::from_secs(10);

/// Minimum transactions in flight per thread while loading.
const LOAD_IN_FLIGHT: usize = 256;

/// Returns the plan for loading the data of a run with the plan `run`.
pub fn load_plan(run: &Plan) -> Plan {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Plan {
        threads: run.threads.min(2 * cores),
        in_flight: run.in_flight.max(LOAD_IN_FLIGHT),
        seed: run.seed.wrapping_add(1),
        ..Plan::default()
    }
}

/// An open database on which workloads run.
pub struct Runner {
    pub opened: Opened,
    pub store: KatydidStore,
    pub ledger: Ledger,
    stop: Arc<AtomicBool>,
}

impl Runner {
    /// Opens the database. The first signal stops the running phase.
    pub fn new(setup: &Setup) -> Result<Runner> {
        let stop = stop_flag()?;
        let opened = setup.open()?;
        let ledger = Ledger::open(&opened.database)?;
        Ok(Runner { store: KatydidStore::new(opened.database.clone()), ledger, opened, stop })
    }

    /// Runs one phase. Returns the phase's outcome, and the processor time of this process during
    /// the phase.
    pub fn phase<W: Workload>(
        &self,
        name: &str,
        tables: &[&str],
        workload: &Arc<W>,
        plan: &Plan,
    ) -> Result<(Outcome, Duration)> {
        phase(&self.store, name, tables, workload, plan, &self.stop)
    }

    /// Returns the entry `name` of an earlier run whose data can be used, or `None` if the data has
    /// to be loaded. `shape` describes the wanted contents. The tables are dropped first if the
    /// user asks for fresh data.
    pub fn earlier(&self, setup: &Setup, name: &str, tables: &[&str], shape: &str) -> Result<Option<Entry>> {
        if setup.fresh {
            self.ledger.forget(name, tables)?;
        }
        let advice = format!("use --fresh to load it anew, or another --dir than {}", setup.dir.display());
        let is_there =
            |table: &str| -> Result<bool> { Ok(self.opened.database.open_table(table)?.is_some()) };
        usable(self.ledger.read(name)?, name, tables, shape, &advice, is_there)
    }

    /// Loads to the end. A signal before the end is an error.
    pub fn load<W: Workload>(
        &self,
        tables: &[&str],
        workload: &Arc<W>,
        plan: &Plan,
    ) -> Result<(Outcome, Duration)> {
        load(&self.store, tables, workload, plan, &self.stop)
    }

    /// Counts the keys of a table, unless more than [`COUNTED_MAX`] are expected.
    pub fn count(&self, setup: &Setup, table: &str, expected: u64) -> Result<Option<Counted>> {
        if setup.no_check || expected > COUNTED_MAX {
            return Ok(None);
        }
        let found = ledger::count(&self.opened.database, table)?;
        Ok(Some(Counted { what: "keys", found, expected, also: None }))
    }

    /// Closes the database, writes and prints the report. Fails if [`conclude`] fails.
    pub fn finish(self, setup: &Setup, measured: Measured) -> Result<()> {
        let Runner { opened, store, ledger, .. } = self;
        drop((store, ledger));
        let (limit, machine, nvram) = (opened.limit.clone(), opened.machine.clone(), opened.nvram);
        let data = opened.close(setup)?;
        conclude(setup, &Report { measured, nvram, limit, machine, data })
    }
}

/// A flag that the first signal sets.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    signals::on_stop(move || asked.store(true, std::sync::atomic::Ordering::Relaxed))?;
    Ok(stop)
}

/// Runs one phase on a store, until its end or until `stop` is set. Returns the phase's outcome,
/// and the processor time of this process during the phase.
pub fn phase<S: Store, W: Workload>(
    store: &S,
    name: &str,
    tables: &[&str],
    workload: &Arc<W>,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<(Outcome, Duration)> {
    let mut progress = Progress::new(name);
    let mut last = (Duration::ZERO, 0);
    let mut rate = 0.0;
    let before = processor_time();
    let outcome = drive::drive(store, tables, workload, plan, stop, &mut |now| {
        let time = (now.elapsed.saturating_sub(last.0)).as_secs_f64();
        if time > 0.1 {
            rate = (now.transactions - last.1) as f64 / time;
            last = (now.elapsed, now.transactions);
        }
        progress.show(Some(now.fraction()), || {
            format!("{} transactions, {} a second", grouped(now.transactions), grouped(rate as u64))
        });
    });
    let cpu = processor_time().saturating_sub(before);
    match outcome {
        Ok(outcome) => Ok((outcome, cpu)),
        Err(error @ DriveError::Plan(_)) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::failed(error)),
    }
}

/// Loads a store to the end. A signal before the end is an error.
pub fn load<S: Store, W: Workload>(
    store: &S,
    tables: &[&str],
    workload: &Arc<W>,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<(Outcome, Duration)> {
    let loaded = phase(store, "load", tables, workload, plan, stop)?;
    if loaded.0.stopped {
        let all = workload.transactions().map_or(String::new(), |all| format!(" of {all}"));
        let done = loaded.0.transactions;
        return Err(Failure::failed(format_args!(
            "stopped by a signal after {done}{all} transactions that load"
        )));
    }
    Ok(loaded)
}

/// The entry of an earlier run that can be used again; `None` if there was no run and no table. All
/// other states are errors, whose messages end with `advice`.
pub fn usable(
    entry: Option<Entry>,
    name: &str,
    tables: &[&str],
    shape: &str,
    advice: &str,
    is_there: impl Fn(&str) -> Result<bool>,
) -> Result<Option<Entry>> {
    let refuse = |why: std::fmt::Arguments<'_>| Err(Failure::failed(format_args!("{why}; {advice}")));
    match entry {
        Some(entry) if !entry.finished => {
            return refuse(format_args!("an earlier run on {name:?} did not finish"));
        }
        Some(entry) if entry.shape != shape => {
            return refuse(format_args!("{name:?} was loaded for other records ({})", entry.shape));
        }
        Some(entry) => return Ok(Some(entry)),
        None => {}
    }
    for table in tables {
        if is_there(table)? {
            return refuse(format_args!("table {table:?} was not made by this bench"));
        }
    }
    Ok(None)
}

/// Writes and prints a report. Fails if the number of counted rows differs from the expected
/// number, or if a signal ended the run.
pub fn conclude(setup: &Setup, report: &Report) -> Result<()> {
    let measured = &report.measured;
    if let Some(file) = &setup.json {
        report.write_json(file)?;
    }
    if let Some(file) = &setup.hdr {
        let head = report.nvram.map_or(String::new(), |form| format!(" on {form}"));
        hlog::write(file, &(measured.workload.clone() + &head), &measured.outcome)?;
    }
    report.print()?;
    match measured.counted {
        Some(Counted { what, found, expected, .. }) if found != expected => Err(Failure::failed(
            format_args!("there are {found} {what}, but {expected} were acknowledged: this is a bug"),
        )),
        _ if measured.outcome.stopped => Err(Failure::failed("stopped by a signal")),
        _ => Ok(()),
    }
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
