//! Quantities of a row or a run that columns show.
//!
//! Pure functions.

use super::case::{Case, Work};
use super::run::{Row, Run};
use crate::grid::columns::places;
use crate::grid::row::Round;
use katydid_wal::{Counters, Form, Group, SyncKind};

pub fn group(group: Group) -> String {
    format!("{},{},{}", group.commits, group.bytes, group.microseconds)
}

pub fn is_store(case: &Case) -> bool {
    !matches!(case.work, Work::Log { .. })
}

pub fn counted(row: &Row, of: fn(&Counters) -> u64) -> String {
    places::<0>(row.median(|run| run.counted(of) as f64))
}

/// Number of checked transfers or transactions in all rounds together; `None` if a round was not
/// checked.
pub fn checked(row: &Row) -> Option<u64> {
    row.rounds.iter().map(|run| run.checked).sum()
}

/// Mean time of a transaction from its beginning to its acknowledgement: the number of transactions
/// in flight divided by their rate.
pub fn whole_us(run: &Run, case: &Case) -> f64 {
    (case.threads * case.in_flight) as f64 / run.per_second().max(1e-9) * 1e6
}

/// Form of a log's NVRAM.
pub fn form(row: &Row) -> Option<Form> {
    row.rounds.iter().find_map(|run| run.nvram)
}

/// Name of the protocol; a log in NVRAM has none.
pub fn sync(case: &Case) -> String {
    if case.log.in_nvram() { "-".to_owned() } else { case.sync.to_string() }
}

pub fn p50_to_raw(run: &Run) -> f64 {
    run.at(0.5) / run.raw.write_us.max(1e-3)
}

pub fn p99_to_raw(run: &Run) -> f64 {
    run.at(0.99) / run.raw.write_us.max(1e-3)
}

pub fn bandwidth_to_raw(run: &Run) -> f64 {
    run.megabytes_per_second() / run.raw.best_megabytes.max(1e-9)
}

pub fn cpu_us(run: &Run) -> f64 {
    run.per_commit(run.usage.cpu().as_secs_f64() * 1e6)
}

pub fn cores(run: &Run) -> f64 {
    run.usage.cpu().as_secs_f64() / run.seconds.max(1e-9)
}

/// Processor time of all processors together, in seconds.
fn capacity(run: &Run) -> f64 {
    (run.seconds * run.usage.processors.max(1) as f64).max(1e-9)
}

/// Share of the processors' time that the process spent in user mode.
pub fn user_share(run: &Run) -> f64 {
    run.usage.user.as_secs_f64() / capacity(run)
}

/// Share of the processors' time that the process spent in the kernel.
pub fn system_share(run: &Run) -> f64 {
    run.usage.system.as_secs_f64() / capacity(run)
}

/// Share of the processors' time that the process did not use. The time of other processes counts
/// as idle.
pub fn idle_share(run: &Run) -> f64 {
    (1.0 - user_share(run) - system_share(run)).max(0.0)
}

/// Share of the clients' time in which they waited for the log: for the sync lock, for another
/// thread's sync, and, if committing threads sync, for their own sync. Waiting threads mostly
/// sleep.
pub fn log_wait_share(run: &Run, case: &Case) -> f64 {
    let waited =
        run.counted(|counters| counters.sync_lock_ns) + run.counted(|counters| counters.completion_ns);
    let own = match case.sync {
        SyncKind::Pipelined => 0,
        _ => run.counted(|counters| counters.sync_ns),
    };
    let clients = (case.threads as f64 * run.seconds).max(1e-9);
    ((waited + own) as f64 / 1e9 / clients).min(1.0)
}

pub fn switches(run: &Run) -> f64 {
    run.usage.switches() as f64 / run.seconds.max(1e-9)
}

pub fn commits_per_sync(run: &Run) -> f64 {
    run.per_sync(run.commits as f64)
}

pub fn bytes_per_sync(run: &Run) -> f64 {
    run.per_sync(run.counted(|counters| counters.bytes_synced) as f64)
}

pub fn released_per_sync(run: &Run) -> f64 {
    run.per_sync(run.counted(|counters| counters.released) as f64)
}

pub fn lock_us(run: &Run) -> f64 {
    run.per_commit(run.counted(|counters| counters.sync_lock_ns) as f64 / 1e3)
}

pub fn sync_us(run: &Run) -> f64 {
    run.per_commit(run.counted(|counters| counters.sync_ns) as f64 / 1e3)
}

pub fn completion_us(run: &Run) -> f64 {
    run.per_commit(run.counted(|counters| counters.completion_ns) as f64 / 1e3)
}

pub fn slot_wait_us(run: &Run) -> f64 {
    run.per_commit(run.counted(|counters| counters.slot_wait_ns) as f64 / 1e3)
}

/// Mean number of threads in a slot; 0 if no threads met.
pub fn threads_per_slot(run: &Run) -> f64 {
    let slots = run.counted(|counters| counters.slots).max(1);
    run.counted(|counters| counters.slot_threads) as f64 / slots as f64
}

/// Mean number of requests in a queue; 0 if the protocol has no queues.
pub fn requests_per_queue(run: &Run) -> f64 {
    let queues = run.counted(|counters| counters.sync_queues).max(1);
    run.counted(|counters| counters.sync_queued) as f64 / queues as f64
}

/// Mean time in microseconds from the reservation of a byte of the log to its durability.
pub fn byte_us(run: &Run) -> f64 {
    let bytes = run.counted(|counters| counters.bytes_synced).max(1);
    run.counted(|counters| counters.byte_ns) as f64 / bytes as f64 / 1e3
}
