//! The transaction benchmarks. Each is loaded once, run, and checked afterwards.
//!
//! 1. The ledger marks a run as unfinished before the run's first transaction. After the run the
//!    ledger marks the run as finished, and notes the number of rows that must then exist. The next
//!    run therefore notices that a run was killed.
//! 2. Each run has a number, which is recorded before the run's first transaction, so that keys
//!    made from this number never repeat.

pub mod sysbench;
pub mod tatp;
pub mod tpcb;
pub mod tpcc;

use super::ledger::Entry;
use super::report::{Counted, Kinds, Loaded, Measured};
use super::runner::{Runner, TIME, load_plan};
use super::setup::{Setup, THREADS};
use katydid_command::failure::{Failure, Result};
use katydid_workload::KatydidStore;
use katydid_workload::drive::{Outcome, Plan, Workload};
use katydid_workload::insert::RUNS_MAX;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Rows that are counted after a run, and conditions that must hold for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Census {
    /// Name of the rows, in the plural.
    name: &'static str,
    /// Text for the report: the conditions that [`Benchmark::count`] also checks. They hold if
    /// `count` returns a number.
    also: &'static str,
}

/// A benchmark of a certain size.
trait Benchmark {
    type Load: Workload;
    type Run: Workload;

    /// Name on the command line, and in the ledger.
    const NAME: &'static str;
    /// The rows that are counted.
    const COUNTED: Census;

    /// Title of the benchmark, with the special settings of the run.
    fn title(&self) -> String;

    /// Names of the tables, in the order in which the workload numbers them.
    fn tables(&self) -> Vec<String>;

    /// Description of the loaded contents. Different contents have different descriptions.
    fn shape(&self) -> String;

    fn load(&self, seed: u64) -> Arc<Self::Load>;

    /// Number of the loaded rows that the check counts.
    fn loaded(&self, seed: u64) -> u64;

    /// The run phase of run number `run`.
    fn start(&self, run: u64) -> Arc<Self::Run>;

    /// Expected number of counted rows after a run, if there were `before` counted rows before the
    /// run.
    fn expected(&self, before: u64, run: &Self::Run, outcome: &Outcome) -> u64;

    fn kinds(&self, run: &Self::Run, outcome: &Outcome) -> Kinds;

    /// Checks the conditions on data that was loaded with this seed. Returns the number of counted
    /// rows.
    fn count(&self, store: &KatydidStore, seed: u64) -> Result<u64>;

    /// Options of the benchmark, for the report.
    fn options(&self) -> Vec<(&'static str, Value)>;
}

/// Maximum number of runs. Later runs would repeat keys.
const RUNS: u64 = RUNS_MAX - 1;

/// Number of client threads, with the default if the command line gives none.
fn threads(setup: &Setup) -> u32 {
    setup.threads.unwrap_or(THREADS)
}

/// Runs a benchmark on every requested engine.
fn run<B: Benchmark>(setup: &Setup, benchmark: &B) -> Result<()> {
    setup.each().iter().try_for_each(|setup| on(setup, benchmark))
}

fn on<B: Benchmark>(setup: &Setup, benchmark: &B) -> Result<()> {
    let mut plan = Plan { conflict_retries: u32::MAX, ..setup.plan(threads(setup)) };
    if plan.time.is_none() && plan.transactions.is_none() {
        plan.time = Some(TIME);
    }
    let names = benchmark.tables();
    let tables: Vec<&str> = names.iter().map(String::as_str).collect();
    let runner = Runner::new(setup)?;
    let (before, load) = loaded(setup, benchmark, &runner, &tables, &plan)?;
    if before.next >= RUNS {
        let name = B::NAME;
        return Err(Failure::failed(format_args!(
            "{name:?} was run {RUNS} times: use --fresh to load it anew"
        )));
    }
    let entry = Entry { next: before.next + 1, finished: false, ..before };
    runner.ledger.write(B::NAME, &entry)?;

    let work = benchmark.start(before.next);
    let waits_before = lock_waits(&runner)?;
    let (outcome, cpu) = runner.phase("run", &tables, &work, &plan)?;
    let waits = lock_waits(&runner)?;
    let expected = benchmark.expected(entry.count, &work, &outcome);
    let counted = match setup.no_check {
        true => None,
        false => {
            let found = benchmark.count(&runner.store, entry.seed)?;
            let Census { name, also } = B::COUNTED;
            Some(Counted { what: name, found, expected, also: Some(also) })
        }
    };
    let mut options = setup.options(&plan, &runner.opened.database);
    options.splice(0..0, [("workload", B::NAME.into())].into_iter().chain(benchmark.options()));
    runner.ledger.write(B::NAME, &Entry { count: expected, finished: true, ..entry })?;
    let measured = Measured {
        workload: benchmark.title(),
        loaded: match load {
            Some((outcome, _)) => Loaded::Now(outcome.transactions, "batches", outcome.elapsed),
            None => Loaded::Before,
        },
        kinds: benchmark.kinds(&work, &outcome),
        outcome,
        cpu,
        lock_waits: waits.zip(waits_before).map(|(now, before)| (now.0 - before.0, now.1 - before.1)),
        options,
        counted,
    };
    runner.finish(setup, measured)
}

/// Numbers of lock waits and deadlocks so far, if the engine has locks.
fn lock_waits(runner: &Runner) -> Result<Option<(u64, u64)>> {
    let stat = runner.opened.database.stat()?;
    Ok(stat.paged().map(|paged| (paged.lock_waits, paged.deadlocks)))
}

/// Loads the initial data of a benchmark, unless an earlier run did.
fn loaded<B: Benchmark>(
    setup: &Setup,
    benchmark: &B,
    runner: &Runner,
    tables: &[&str],
    plan: &Plan,
) -> Result<(Entry, Option<(Outcome, Duration)>)> {
    let shape = benchmark.shape();
    if let Some(entry) = runner.earlier(setup, B::NAME, tables, &shape)? {
        return Ok((entry, None));
    }
    let seed = setup.seed;
    let tables_made = tables.iter().map(|table| (*table).to_owned()).collect();
    let count = benchmark.loaded(seed);
    let entry = Entry { shape, tables: tables_made, seed, count, ..Entry::default() };
    runner.ledger.write(B::NAME, &entry)?;
    let plan = Plan { conflict_retries: u32::MAX, ..load_plan(plan) };
    let load = runner.load(tables, &benchmark.load(seed), &plan)?;
    Ok((entry, Some(load)))
}
