//! An open database under a driver: loads, runs, counts, reports.

use super::hlog;
use super::ledger::{self, Entry, Ledger};
use super::report::{Counted, Measured, Report};
use super::setup::{Opened, Setup};
use katydid_command::bytes::grouped;
use katydid_command::failure::{Failure, Result};
use katydid_command::progress::Progress;
use katydid_command::signals;
use katydid_workload::KatydidStore;
use katydid_workload::drive::{self, DriveError, Outcome, Plan, Workload};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Tables with more keys than this are not counted afterwards.
const COUNTED_MAX: u64 = 5_000_000;

/// Time of a run if nothing else is said.
pub const TIME: Duration = Duration::from_secs(10);

/// Transactions in flight per thread while loading, at least.
const LOAD_IN_FLIGHT: usize = 256;

/// Plan for loading, where a run is planned like this.
pub fn load_plan(run: &Plan) -> Plan {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Plan {
        threads: run.threads.min(2 * cores),
        in_flight: run.in_flight.max(LOAD_IN_FLIGHT),
        seed: run.seed.wrapping_add(1),
        ..Plan::default()
    }
}

/// An open database under a driver.
pub struct Runner {
    pub opened: Opened,
    pub store: KatydidStore,
    pub ledger: Ledger,
    stop: Arc<AtomicBool>,
}

impl Runner {
    /// Opens the database. The first signal stops the phase under way.
    pub fn new(setup: &Setup) -> Result<Runner> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        signals::on_stop(move || asked.store(true, std::sync::atomic::Ordering::Relaxed))?;
        let opened = setup.open()?;
        let ledger = Ledger::open(&opened.database)?;
        Ok(Runner { store: KatydidStore::new(opened.database.clone()), ledger, opened, stop })
    }

    /// Runs one phase. Returns its result and the processor time it took.
    pub fn phase<W: Workload>(
        &self,
        name: &str,
        tables: &[&str],
        workload: &Arc<W>,
        plan: &Plan,
    ) -> Result<(Outcome, Duration)> {
        let mut progress = Progress::new(name);
        let mut last = (Duration::ZERO, 0);
        let mut rate = 0.0;
        let before = processor_time();
        let outcome = drive::drive(&self.store, tables, workload, plan, &self.stop, &mut |now| {
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

    /// The record of an earlier run under `name`, to go on with, or `None` if the data has to be
    /// loaded. `shape` says what is wanted in these tables; they are dropped first if something new
    /// is asked for.
    pub fn earlier(&self, setup: &Setup, name: &str, tables: &[&str], shape: &str) -> Result<Option<Entry>> {
        if setup.fresh {
            self.ledger.forget(name, tables)?;
        }
        let advice = format!("use --fresh to load it anew, or another --dir than {}", setup.dir.display());
        let refuse = |why: std::fmt::Arguments<'_>| Err(Failure::failed(format_args!("{why}; {advice}")));
        match self.ledger.read(name)? {
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
            if self.opened.database.open_table(table)?.is_some() {
                return refuse(format_args!("table {table:?} was not made by this bench"));
            }
        }
        Ok(None)
    }

    /// Loads to the end, or says that it was stopped.
    pub fn load<W: Workload>(
        &self,
        tables: &[&str],
        workload: &Arc<W>,
        plan: &Plan,
    ) -> Result<(Outcome, Duration)> {
        let loaded = self.phase("load", tables, workload, plan)?;
        if loaded.0.stopped {
            let all = workload.transactions().map_or(String::new(), |all| format!(" of {all}"));
            let done = loaded.0.transactions;
            return Err(Failure::failed(format_args!(
                "stopped by a signal after {done}{all} transactions that load"
            )));
        }
        Ok(loaded)
    }

    /// Counts the keys of a table, unless there are very many.
    pub fn count(&self, setup: &Setup, table: &str, expected: u64) -> Result<Option<Counted>> {
        if setup.no_check || expected > COUNTED_MAX {
            return Ok(None);
        }
        let found = ledger::count(&self.opened.database, table)?;
        Ok(Some(Counted { what: "keys", found, expected, also: None }))
    }

    /// Closes the database, writes and prints the report; fails if what was counted is not what was
    /// acknowledged.
    pub fn finish(self, setup: &Setup, measured: Measured) -> Result<()> {
        let Runner { opened, store, ledger, .. } = self;
        drop((store, ledger));
        let (limit, machine, nvram) = (opened.limit.clone(), opened.machine.clone(), opened.nvram);
        let data = opened.close(setup)?;
        let report = Report { measured, nvram, limit, machine, data };
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
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
