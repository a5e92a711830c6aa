//! Runs a workload on a store from several threads, for a time or a number of transactions, and
//! measures it.
//!
//! The calling thread watches: it ends the run, reports progress and collects the latencies. Each
//! worker thread has a client of the store and a source of requests. With one transaction in flight
//! per thread, a worker blocks in each commit. With more, the worker passes a callback with each
//! commit, and blocks only when the maximum number of its commits is unacknowledged. Rules:
//!
//! 1. When `drive` returns without an error, every transaction that was begun has been acknowledged
//!    or rolled back.
//! 2. A latency is recorded once for each acknowledged transaction, and for nothing else.
//! 3. A request that meets a conflict or reads something inconsistent is run again. The run fails
//!    if a request needs more than [`Plan::conflict_retries`] repetitions, or reads something
//!    inconsistent more than 100 times. Conflicts that a callback reports do not count towards
//!    these limits, and a request without a ticket is then replaced by a new one.

mod pacing;
mod watch;
mod worker;

use crate::measure::Latencies;
use crate::store::{Counters, Store, StoreError, Transaction};
use fastrand::Rng;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::time::{Duration, Instant};
use watch::Watch;
use worker::{Sink, Worker};

/// Class of a transaction: it counts among the reads or among the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The transaction only reads.
    Read,
    /// The transaction writes.
    Write,
}

/// Next transaction of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Class of the transaction, which says how the driver begins the transaction and where it
    /// counts the latency.
    pub class: Class,
    /// Number that [`Workload::acknowledged`] receives when the transaction is acknowledged. If the
    /// commit of a request with a ticket meets a conflict, the request is made again until it is
    /// acknowledged. If a callback reports a conflict of a request without a ticket, a new request
    /// takes its place.
    pub ticket: Option<u64>,
}

/// End of a transaction that met no failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The transaction commits.
    Commit,
    /// The transaction rolls back on purpose.
    RollBack,
}

/// Work of a run, shared by all threads.
pub trait Workload: Send + Sync + 'static {
    /// Source of one thread's requests.
    type Source: Source;

    /// Returns the source of requests of thread number `thread`, with a random generator of its
    /// own.
    fn source(self: &Arc<Self>, thread: usize, rng: Rng) -> Self::Source;

    /// Called once for each acknowledged transaction that has a ticket.
    fn acknowledged(&self, ticket: u64) {
        let _ = ticket;
    }

    /// Number of transactions in all, if it is known.
    fn transactions(&self) -> Option<u64> {
        None
    }

    /// Maximum number of transactions that all threads together may have in flight.
    fn in_flight_max(&self) -> usize {
        usize::MAX
    }
}

/// Source of one thread's requests, one after the other.
pub trait Source {
    /// Chooses the next request. `None` ends the thread's work.
    fn plan(&mut self) -> Option<Planned>;

    /// Plans a request with this ticket again, because the commit of such a request met a conflict
    /// after later requests had been planned. Called only if requests have tickets.
    fn again(&mut self, ticket: u64) -> Planned {
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    /// Runs the request that was planned last, without its commit, and says how the transaction
    /// ends. The driver may call this function again after a conflict.
    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending, StoreError>;
}

/// Time from which latencies are measured when a rate is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyFrom {
    /// The time at which the request should have started, so that waiting behind a slow request
    /// counts.
    Intended,
    /// The time that counts if no rate is given: the beginning of a transaction that only reads, or
    /// the time that [`CommitsFrom`] names for a transaction that writes.
    Actual,
}

/// Time from which the latency of a writing transaction is measured if no rate is given, or with
/// [`LatencyFrom::Actual`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CommitsFrom {
    /// The call of commit: measures what durability costs.
    #[default]
    Commit,
    /// The beginning of the transaction's first attempt, as for a transaction that only reads:
    /// measures the time that a user waits. Only this choice is fair in a comparison with stores
    /// that admit one writer at a time or find conflicts late.
    Begin,
}

/// Plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Worker threads.
    pub threads: usize,
    /// Maximum transactions in flight per thread; with 1 the thread blocks in each commit.
    pub in_flight: usize,
    /// Number of transactions, if limited.
    pub transactions: Option<u64>,
    /// Time, if limited. A run goes on until one transaction has ended, even if the time is over.
    pub time: Option<Duration>,
    /// Transactions per second of all threads together, if limited.
    pub target: Option<f64>,
    /// Time from which latencies are measured when there is a target.
    pub latency_from: LatencyFrom,
    /// Time from which latencies of transactions that write are measured when there is no target,
    /// or when `latency_from` is [`LatencyFrom::Actual`].
    pub commits_from: CommitsFrom,
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of times that a request is run again after conflicts.
    pub conflict_retries: u32,
    /// Maximum number of times that a request is run again after other failures, and the wait
    /// before each repetition.
    pub failure_retries: (u32, Duration),
    /// Interval between two reports of progress.
    pub progress_every: Duration,
    /// Length of the intervals whose latencies are collected separately, if any.
    pub intervals: Option<Duration>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            threads: 1,
            in_flight: 1,
            transactions: None,
            time: None,
            target: None,
            latency_from: LatencyFrom::Intended,
            commits_from: CommitsFrom::Commit,
            seed: 1,
            conflict_retries: 1000,
            failure_retries: (0, Duration::ZERO),
            progress_every: Duration::from_millis(200),
            intervals: None,
        }
    }
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Time since the first request.
    pub elapsed: Duration,
    /// Number of transactions acknowledged.
    pub transactions: u64,
    /// Number of transactions in all, if it is known.
    pub of_transactions: Option<u64>,
    /// Time limit of the run, if it has one.
    pub of_time: Option<Duration>,
}

impl Progress {
    /// Share of the run that is done, from 0 to 1. With two limits, it is the greater of the two
    /// shares.
    pub fn fraction(&self) -> f64 {
        let counted = self.of_transactions.map_or(0.0, |of| self.transactions as f64 / of.max(1) as f64);
        let timed = self.of_time.map_or(0.0, |of| self.elapsed.as_secs_f64() / of.as_secs_f64().max(1e-9));
        counted.max(timed).min(1.0)
    }
}

/// Latencies of one interval of a run.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Time from the beginning of the run to the beginning of the interval.
    pub start: Duration,
    /// Length of the interval.
    pub length: Duration,
    /// Latencies of the transactions that were acknowledged in the interval.
    pub latencies: Latencies,
}

/// Result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Time at which the run began.
    pub started_at: std::time::SystemTime,
    /// Time from the first request to the last acknowledgement.
    pub elapsed: Duration,
    /// Number of transactions acknowledged.
    pub transactions: u64,
    /// Transactions that rolled back on purpose. These transactions are not acknowledged, but count
    /// towards a limited number of transactions.
    pub rolled_back: u64,
    /// Number of times that a request met a conflict, or read something inconsistent, and was run
    /// again.
    pub conflicts: u64,
    /// Processor time of all worker threads together, without the store's own threads.
    pub cpu: Duration,
    /// All latencies.
    pub latencies: Latencies,
    /// Latencies of intervals, if the plan asks for them.
    pub intervals: Vec<Interval>,
    /// Counters of the store during the run.
    pub counters: Counters,
    /// True if the run was stopped before its limits.
    pub stopped: bool,
}

impl Outcome {
    /// Acknowledged transactions per second.
    pub fn transactions_per_second(&self) -> f64 {
        self.transactions as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// A run that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// A plan that cannot be run.
    #[error("{0}")]
    Plan(String),
    /// The store failed after some acknowledged transactions.
    #[error("after {transactions} acknowledged transactions: {cause}")]
    Store {
        /// Number of transactions acknowledged before the failure.
        transactions: u64,
        /// The first failure.
        #[source]
        cause: StoreError,
    },
}

impl DriveError {
    fn at_start(cause: StoreError) -> Self {
        DriveError::Store { transactions: 0, cause }
    }
}

/// State that the threads of a run share.
struct Shared {
    /// Set by the watching thread, or by a worker that fails or whose commit fails. Every worker
    /// reads it before each request.
    stop: Arc<AtomicBool>,
    /// Transactions that may still be begun; `u64::MAX` if there is no limit.
    remaining: AtomicU64,
    begin: Barrier,
    started: OnceLock<Instant>,
}

impl Shared {
    /// Returns the time at which the run began: when the first of its threads went on after the
    /// barrier. The watching thread may go on long after the workers have begun.
    fn started(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }
}

/// Runs `workload` on `tables` of `store` as `plan` says, until a limit is reached, the sources end
/// or `stop` is set. `tables` are in the order in which the workload numbers them.
///
/// # Errors
/// [`DriveError::Plan`] if the plan cannot be run; [`DriveError::Store`] with the first failure of
/// the store.
pub fn drive<S: Store, W: Workload>(
    store: &S,
    tables: &[&str],
    workload: &Arc<W>,
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, DriveError> {
    check(plan, workload.in_flight_max())?;
    let shared = Shared {
        stop: Arc::default(),
        remaining: AtomicU64::new(plan.transactions.unwrap_or(u64::MAX)),
        begin: Barrier::new(plan.threads + 1),
        started: OnceLock::new(),
    };
    let sinks: Vec<Arc<Sink<W>>> = (0..plan.threads).map(|_| Sink::new(workload, &shared.stop)).collect();
    let before = store.counters().map_err(DriveError::at_start)?;
    let mut seeds = Rng::with_seed(plan.seed);

    let mut watch = std::thread::scope(|scope| {
        let (finished, ends) = mpsc::channel::<Instant>();
        for (thread, sink) in sinks.iter().enumerate() {
            let (shared, finished) = (&shared, finished.clone());
            let rng = seeds.fork();
            let name = format!("worker-{thread}");
            let body = move || {
                // This guard is dropped last, also when the thread panics. The watching thread
                // waits until all such guards are dropped.
                let _finished = Finished(finished);
                worker_main(store, tables, workload, plan, shared, thread, rng, sink);
            };
            std::thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, body)
                .expect("a thread can be started");
        }
        drop(finished);
        shared.begin.wait();
        let mut watch = Watch::new(plan, workload.transactions(), shared.started());
        watch.run(&shared, &sinks, stop, &ends, progress);
        watch
    });

    watch.collect(&sinks, true);
    let transactions = transactions(&sinks);
    if let Some(cause) = sinks.iter().find_map(|sink| sink.take_failure()) {
        return Err(DriveError::Store { transactions, cause });
    }
    let after = store.counters().map_err(|cause| DriveError::Store { transactions, cause })?;
    Ok(Outcome {
        started_at: watch.started_at,
        elapsed: watch.ended.duration_since(watch.started),
        transactions,
        rolled_back: sinks.iter().map(|sink| sink.rolled_back()).sum(),
        conflicts: sinks.iter().map(|sink| sink.conflicts()).sum(),
        cpu: sinks.iter().map(|sink| sink.cpu()).sum(),
        latencies: watch.latencies,
        intervals: watch.intervals,
        counters: after.since(&before),
        stopped: watch.stopped,
    })
}

fn check(plan: &Plan, in_flight_max: usize) -> Result<(), DriveError> {
    let refuse = |why: fmt::Arguments<'_>| Err(DriveError::Plan(why.to_string()));
    if plan.threads == 0 || plan.threads > 4096 {
        return refuse(format_args!("the number of threads must be from 1 to 4096, not {}", plan.threads));
    }
    if plan.in_flight == 0 {
        return refuse(format_args!("at least one transaction must be in flight"));
    }
    match plan.threads.checked_mul(plan.in_flight) {
        Some(all) if all <= in_flight_max => Ok(()),
        _ => refuse(format_args!(
            "{} threads with {} transactions in flight each are more than the {in_flight_max} this workload allows",
            plan.threads, plan.in_flight
        )),
    }
}

#[allow(clippy::too_many_arguments, reason = "called in one place; a struct would only repeat the names")]
fn worker_main<S: Store, W: Workload>(
    store: &S,
    tables: &[&str],
    workload: &Arc<W>,
    plan: &Plan,
    shared: &Shared,
    thread: usize,
    rng: Rng,
    sink: &Arc<Sink<W>>,
) {
    let client = store.client(tables);
    let source = workload.source(thread, rng);
    shared.begin.wait();
    shared.started();
    let begun = cpu_of_thread();
    let result = client.and_then(|client| Worker::new(client, source, plan, shared, thread, sink).run());
    sink.used(cpu_of_thread().saturating_sub(begun));
    if let Err(error) = result {
        sink.fail(error);
    }
}

/// Processor time that this thread has used so far.
fn cpu_of_thread() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

struct Finished(mpsc::Sender<Instant>);

impl Drop for Finished {
    fn drop(&mut self) {
        // The receiver is gone only if the watching thread is gone, and then no thread needs the
        // message.
        let _nobody_listens = self.0.send(Instant::now());
    }
}

fn transactions<W: Workload>(sinks: &[Arc<Sink<W>>]) -> u64 {
    sinks.iter().map(|sink| sink.transactions()).sum()
}

#[cfg(test)]
mod tests;
