//! Runs a workload in the paged engine with its files in memory, and counts the dependencies that
//! would cross logs if the records were distributed over several logs. A distributed log would have
//! to make the older record of each such dependency durable first.
//!
//! 1. Only records of the run are counted. The records of the load lie below the position at which
//!    the run began.
//! 2. No checkpoint trims the log during the run. The log is read when all clients have ended and
//!    all records are durable.

use super::count::{Assignment, Counted, Counter};
use super::rows::{Bank, Case, DistributedRound, Workload};
use crate::commits::store::run;
use katydid::{AdvancedOptions, Database, LogEntry, LogField, MemoryDirectory, Options, dump_log_in};
use katydid_command::failure::{Failure, Result};
use katydid_workload::KatydidStore;
use katydid_workload::drive::Plan;
use katydid_workload::tpcb::{self, TpcbLoad, TpcbRun};
use katydid_workload::tpcc::{Mix, Settings, TABLES, TpccLoad, TpccRun};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of log between checkpoints, more than a run writes.
const CHECKPOINT_BYTES: u64 = 8 << 30;

/// Runs the workload of a case, and counts the dependencies for the case's assignment of records.
pub fn measure(
    case: &Case,
    (company, bank): (&Settings, &Bank),
    time: Duration,
    seed: u64,
) -> Result<DistributedRound> {
    let directory = Arc::new(MemoryDirectory::new());
    let options = Options {
        advanced: AdvancedOptions {
            checkpoint_bytes: CHECKPOINT_BYTES,
            log_soft_bytes: 2 * CHECKPOINT_BYTES,
            log_hard_bytes: 4 * CHECKPOINT_BYTES,
            ..AdvancedOptions::default()
        },
        ..Options::default()
    };
    let store = KatydidStore::new(Database::open_in(directory.clone(), options)?);
    let load = Plan { threads: 2, in_flight: 16, ..Plan::default() };
    let plan =
        Plan { threads: case.threads, time: Some(time), seed, conflict_retries: u32::MAX, ..Plan::default() };
    let tables = tpcb::tables("history");
    match case.workload {
        Workload::Tpcc => run(&store, &TABLES, &TpccLoad::new(company, seed), &load)?,
        Workload::Tpcb => run(&store, &tables, &TpcbLoad::new(&bank.0), &load)?,
    };
    // Take a checkpoint, so that the log of the load is no longer needed.
    store.database().checkpoint()?;
    let from = store.database().stat()?.log.streams[0].reserved;
    let begun = Instant::now();
    let outcome = match case.workload {
        Workload::Tpcc => run(&store, &TABLES, &TpccRun::new(company, Mix::Standard, 1), &plan)?,
        Workload::Tpcb => run(&store, &tables, &TpcbRun::new(&bank.0, 0), &plan)?,
    };
    let seconds = begun.elapsed().as_secs_f64();
    store.database().sync()?;
    let bytes = store.database().stat()?.log.streams[0].reserved.since(from);
    let mut counter = Counter::new(case.assignment, case.logs);
    dump_log_in(directory.as_ref(), |entry| {
        if entry.lsn >= from {
            note(entry, &mut counter);
        }
        ControlFlow::Continue(())
    })?;
    store.database().close()?;
    let counted = counter.counted();
    check(case, counted, outcome.transactions)?;
    Ok(DistributedRound { counted, bytes, seconds })
}

/// Checks that enough commits were found in the log: for TPC-B one for each acknowledged
/// transaction, for TPC-C at least half as many. If transactions are assigned to logs, also checks
/// that there are at least as many records as commits. If commits or records are missing, the
/// counts are wrong.
fn check(case: &Case, counted: Counted, acknowledged: u64) -> Result<()> {
    let is_read = match case.workload {
        // Three kinds of transactions may write nothing: OrderStatus, StockLevel, and a Delivery
        // that finds no order. Together these kinds are 12 % of the transactions, so more than half
        // of all transactions must have logged a commit.
        Workload::Tpcc => counted.commits >= acknowledged / 2,
        Workload::Tpcb => counted.commits >= acknowledged,
    };
    if is_read && (case.assignment == Assignment::Page || counted.records >= counted.commits) {
        return Ok(());
    }
    Err(Failure::failed(format_args!(
        "{} commits were found in the log, but {acknowledged} were acknowledged: this is a bug",
        counted.commits
    )))
}

/// Counts one record.
fn note(entry: &LogEntry, counter: &mut Counter) {
    let txn = entry.txn.get();
    match entry.kind {
        "commit" => counter.commit(txn),
        "end" => counter.abort(txn),
        _ => counter.change(txn, &pages_of(entry)),
    }
}

/// The pages that a record changes; none for a record of a checkpoint.
fn pages_of(entry: &LogEntry) -> Vec<u64> {
    if entry.kind.starts_with("checkpoint") {
        return Vec::new();
    }
    let mut pages = Vec::new();
    for (name, field) in &entry.fields {
        match (*name, field) {
            ("page" | "head", LogField::Number(page)) => pages.push(*page),
            ("pages", LogField::Numbers(numbers)) => pages.extend(numbers),
            _ => {}
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(workload: Workload, assignment: Assignment) -> DistributedRound {
        let company = Settings { warehouses: 2, items: 100, customers_of_district: 10 };
        let bank = Bank(tpcb::Settings { branches: 2, accounts_of_branch: 100, skew: 0.0 });
        let case = Case { workload, assignment, threads: 2, logs: 8 };
        measure(&case, (&company, &bank), Duration::from_millis(50), 1).expect("it runs")
    }

    /// With two branches, all transfers change the same page.
    #[test]
    fn transfers_of_few_branches_depend_on_each_other_tightly() {
        let DistributedRound { counted, bytes, .. } = small(Workload::Tpcb, Assignment::Transaction);
        assert!(counted.commits > 20, "{counted:?}");
        assert!(bytes > counted.records * 48, "{counted:?} in {bytes} bytes");
        assert!(counted.records >= 4 * counted.commits, "four rows a transfer: {counted:?}");
        assert!(counted.spanning * 10 > counted.commits * 9, "{counted:?}");
        assert!(counted.tight <= counted.crossing && counted.crossing <= counted.records);
    }

    #[test]
    fn pages_that_stay_in_a_log_make_transactions_span_logs() {
        let DistributedRound { counted, .. } = small(Workload::Tpcc, Assignment::Page);
        assert!(counted.commits > 10 && counted.spanning * 2 > counted.commits, "{counted:?}");
        let of_transactions = small(Workload::Tpcc, Assignment::Transaction).counted;
        assert!(of_transactions.of_records(of_transactions.crossing) > 0.1, "{of_transactions:?}");
    }
}
