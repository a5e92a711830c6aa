//! One worker thread plans, runs and commits requests, and records the latencies of their
//! acknowledgements.
//!
//! Callbacks of commits write into the thread's [`Sink`]. It depends on the store whether the
//! callbacks run on this thread or on other threads. The watching thread takes the latencies out of
//! the sink from time to time, so a latch protects them. The latch is rarely contended.

use super::LatencyFrom;
use super::pacing::Pacing;
use super::{Class, CommitsFrom, Ending, Plan, Planned, Shared, Source, Workload};
use crate::measure::{self, Latencies};
use crate::store::{Client, Intent, StoreError, Transaction};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of times that a request may read something inconsistent before the run fails.
const DOUBTS_MAX: u32 = 100;

/// Receiver of the acknowledgements of one worker.
#[derive(Debug)]
pub(super) struct Sink<W> {
    workload: Arc<W>,
    latencies: Mutex<Latencies>,
    /// Number of acknowledged transactions. The worker and its callbacks write it, and the watching
    /// thread reads it for progress. The accesses are relaxed, because only the number itself
    /// matters.
    transactions: AtomicU64,
    conflicts: AtomicU64,
    rolled_back: AtomicU64,
    /// Nanoseconds of processor time, set when the worker has ended.
    cpu: AtomicU64,
    /// Requests whose commits met a conflict after later requests had begun. Each is made again or
    /// replaced.
    refused: Mutex<Vec<Planned>>,
    failure: Mutex<Option<StoreError>>,
    /// The run's stop flag. A failure sets it.
    stop: Arc<AtomicBool>,
}

impl<W: Workload> Sink<W> {
    pub(super) fn new(workload: &Arc<W>, stop: &Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Sink {
            workload: Arc::clone(workload),
            latencies: Mutex::default(),
            transactions: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            rolled_back: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            refused: Mutex::default(),
            failure: Mutex::new(None),
            stop: Arc::clone(stop),
        })
    }

    pub(super) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    pub(super) fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    pub(super) fn rolled_back(&self) -> u64 {
        self.rolled_back.load(Ordering::Relaxed)
    }

    /// Returns whether a transaction has ended: it was acknowledged, or rolled back on purpose.
    pub(super) fn has_ended_one(&self) -> bool {
        self.transactions() + self.rolled_back() > 0
    }

    pub(super) fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu.load(Ordering::Relaxed))
    }

    /// Records the processor time that the worker has used.
    pub(super) fn used(&self, cpu: Duration) {
        self.cpu.store(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Keeps the first failure, and ends the run.
    pub(super) fn fail(&self, error: StoreError) {
        self.stop.store(true, Ordering::Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn refuse(&self, planned: Planned) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(planned);
    }

    fn take_refused(&self) -> Option<Planned> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(super) fn take_failure(&self) -> Option<StoreError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn take_latencies(&self, into: &mut Latencies) {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        if latencies.count() > 0 {
            into.add(&latencies);
            latencies.reset();
        }
    }

    pub(super) fn acknowledge(&self, planned: Planned, from: Instant) {
        let latency = from.elapsed();
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = match planned.class {
            Class::Read => &mut latencies.reads,
            Class::Write => &mut latencies.commits,
        };
        measure::record(histogram, latency);
        drop(latencies);
        self.transactions.fetch_add(1, Ordering::Relaxed);
        if let Some(ticket) = planned.ticket {
            self.workload.acknowledged(ticket);
        }
    }
}

/// A worker's share of the transactions that a run may still begin. Workers claim transactions in
/// pieces, so that they rarely write the shared count.
#[derive(Debug)]
struct Budget {
    left: u64,
    piece: u64,
}

impl Budget {
    fn new(plan: &Plan) -> Self {
        let piece = plan.transactions.map_or(u64::MAX, |all| (all / plan.threads as u64 / 64).clamp(1, 256));
        Budget { left: 0, piece }
    }

    fn take(&mut self, shared: &Shared) -> bool {
        if self.piece == u64::MAX {
            return true;
        }
        if self.left == 0 {
            let piece = self.piece;
            let claimed = shared.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                (left > 0).then(|| left.saturating_sub(piece))
            });
            match claimed {
                Ok(before) => self.left = before.min(piece),
                Err(_) => return false,
            }
        }
        self.left -= 1;
        true
    }
}

pub(super) struct Worker<'r, C, S, W> {
    client: C,
    source: S,
    plan: &'r Plan,
    shared: &'r Shared,
    sink: &'r Arc<Sink<W>>,
    pacing: Option<Pacing>,
}

impl<'r, C: Client, S: Source, W: Workload> Worker<'r, C, S, W> {
    pub(super) fn new(
        client: C,
        source: S,
        plan: &'r Plan,
        shared: &'r Shared,
        thread: usize,
        sink: &'r Arc<Sink<W>>,
    ) -> Self {
        let pacing = plan.target.map(|target| Pacing::new(target, plan.threads, thread, Instant::now()));
        Worker { client, source, plan, shared, sink, pacing }
    }

    pub(super) fn run(mut self) -> Result<(), StoreError> {
        let result = self.requests();
        // The worker also waits after a failure, so that the callbacks of successful commits are
        // counted and no callback remains pending.
        let drained = self.client.wait_below(1);
        result.and(drained)?;
        self.those_with_tickets()
    }

    /// Repeats the refused requests that have tickets, because the workload may need an
    /// acknowledgement of each ticket.
    fn those_with_tickets(&mut self) -> Result<(), StoreError> {
        while let Some(refused) = self.sink.take_refused() {
            if let Some(ticket) = refused.ticket {
                let planned = self.source.again(ticket);
                self.request(planned, None)?;
                self.client.wait_below(1)?;
            }
        }
        Ok(())
    }

    /// The next request: a refused request again, a replacement of a refused request, or a new
    /// request.
    fn next(&mut self, budget: &mut Budget) -> Result<Option<Planned>, StoreError> {
        let refused = match self.sink.take_refused() {
            None if budget.take(self.shared) => return Ok(self.source.plan()),
            None => {
                // Commits that are still in flight may be refused.
                self.client.wait_below(1)?;
                self.sink.take_refused()
            }
            some => some,
        };
        Ok(match refused.map(|planned| planned.ticket) {
            Some(Some(ticket)) => Some(self.source.again(ticket)),
            Some(None) => self.source.plan(),
            None => None,
        })
    }

    fn requests(&mut self) -> Result<(), StoreError> {
        let mut budget = Budget::new(self.plan);
        while !self.shared.stop.load(Ordering::Relaxed) {
            let intended = match self.pacing.as_mut().map(Pacing::next) {
                Some(at) if self.wait_until(at)? => Some(at),
                Some(_) => break,
                None => None,
            };
            let Some(planned) = self.next(&mut budget)? else { break };
            let measured_from = match self.plan.latency_from {
                LatencyFrom::Intended => intended,
                LatencyFrom::Actual => None,
            };
            self.request(planned, measured_from)?;
            if self.plan.in_flight > 1 {
                // The call is made even if fewer commits are in flight than allowed. In some
                // protocols the committing threads write the log, and they write it in this call.
                self.client.wait_below(self.plan.in_flight)?;
            }
        }
        Ok(())
    }

    /// Waits until `at` and runs the callbacks that become due. Returns `false` if the run was
    /// stopped in the meantime.
    fn wait_until(&mut self, at: Instant) -> Result<bool, StoreError> {
        /// Maximum time that a worker sleeps before it looks at the stop flag again.
        const NAP: Duration = Duration::from_millis(50);
        loop {
            let wait = at.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(true);
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match self.client.pending() {
                0 => std::thread::sleep(wait.min(NAP)),
                pending => self.client.wait_below(pending)?,
            }
        }
    }

    fn request(&mut self, planned: Planned, measured_from: Option<Instant>) -> Result<(), StoreError> {
        let from_begin = planned.class == Class::Read || self.plan.commits_from == CommitsFrom::Begin;
        let from = if from_begin { Some(measured_from.unwrap_or_else(Instant::now)) } else { measured_from };
        let (mut conflicts, mut doubts, mut failures) = (0, 0, 0);
        loop {
            match self.attempt(planned, from) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retryable() || error.is_doubtful() => {
                    self.sink.conflicts.fetch_add(1, Ordering::Relaxed);
                    conflicts += 1;
                    doubts += u32::from(error.is_doubtful());
                    if conflicts > self.plan.conflict_retries || doubts > DOUBTS_MAX {
                        return Err(error);
                    }
                    self.client.poll();
                    std::thread::yield_now();
                }
                Err(error) => {
                    failures += 1;
                    let (limit, wait) = self.plan.failure_retries;
                    if failures > limit || self.shared.stop.load(Ordering::Relaxed) {
                        return Err(error);
                    }
                    std::thread::sleep(wait);
                }
            }
        }
    }

    fn attempt(&mut self, planned: Planned, from: Option<Instant>) -> Result<(), StoreError> {
        let intent = match planned.class {
            Class::Read => Intent::ReadOnly,
            Class::Write => Intent::ReadWrite,
        };
        let mut transaction = self.client.begin(intent)?;
        match self.source.run(&mut transaction)? {
            Ending::Commit => {}
            Ending::RollBack => {
                drop(transaction);
                self.sink.rolled_back.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
        }
        let from = from.unwrap_or_else(Instant::now);
        if self.plan.in_flight == 1 {
            transaction.commit()?;
            self.sink.acknowledge(planned, from);
        } else {
            let sink = Arc::clone(self.sink);
            transaction.commit_with(move |result| match result {
                Ok(()) => sink.acknowledge(planned, from),
                // Later requests have been planned by now. This transaction did not happen and is
                // not counted.
                Err(error) if error.is_retryable() => sink.refuse(planned),
                Err(error) => sink.fail(error),
            });
        }
        Ok(())
    }
}
