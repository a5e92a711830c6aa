//! The watching thread ends the run at its limits, reports progress, and collects what the workers
//! recorded.
//!
//! The watching thread sleeps until its next step is due or a worker ends. Only this thread checks
//! the time limit; workers look only at the stop flag. The time limit ends the run only after one
//! transaction has ended: on a busy machine the time may be over before a worker gets a processor,
//! and a run without a transaction has no result.

use super::worker::Sink;
use super::{Interval, Plan, Progress, Shared, Workload, transactions};
use crate::measure::Latencies;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

/// Time between two looks for the first transaction, after the deadline.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// The watching thread's own state.
pub(super) struct Watch<'p> {
    plan: &'p Plan,
    of_transactions: Option<u64>,
    pub(super) started: Instant,
    pub(super) started_at: SystemTime,
    pub(super) ended: Instant,
    pub(super) latencies: Latencies,
    pub(super) intervals: Vec<Interval>,
    interval_start: Instant,
    pub(super) stopped: bool,
}

impl<'p> Watch<'p> {
    pub(super) fn new(plan: &'p Plan, of_workload: Option<u64>, started: Instant) -> Self {
        let of_transactions = match (plan.transactions, of_workload) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Watch {
            plan,
            of_transactions,
            started,
            started_at: SystemTime::now(),
            ended: started,
            latencies: Latencies::default(),
            intervals: Vec::new(),
            interval_start: started,
            stopped: false,
        }
    }

    pub(super) fn run<W: Workload>(
        &mut self,
        shared: &Shared,
        sinks: &[Arc<Sink<W>>],
        stop: &AtomicBool,
        ends: &mpsc::Receiver<Instant>,
        progress: &mut dyn FnMut(&Progress),
    ) {
        let deadline = self.plan.time.map(|time| self.started + time);
        let mut next_progress = self.started + self.plan.progress_every;
        loop {
            let mut wake = next_progress;
            wake = deadline.map_or(wake, |deadline| wake.min(deadline));
            if let Some(every) = self.plan.intervals {
                wake = wake.min(self.interval_start + every);
            }
            // Past the deadline, the watching thread waits for the first transaction, and then only
            // for the workers' ends.
            let now = Instant::now();
            let wait = match wake > now {
                true => wake - now,
                false if !shared.stop.load(Ordering::Relaxed) => FIRST_LOOK.min(self.plan.progress_every),
                false => self.plan.progress_every,
            };
            match ends.recv_timeout(wait) {
                Ok(end) => self.ended = self.ended.max(end),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if stop.load(Ordering::Relaxed) && !shared.stop.swap(true, Ordering::Relaxed) {
                self.stopped = true;
            }
            if deadline.is_some_and(|deadline| now >= deadline)
                && sinks.iter().any(|sink| sink.has_ended_one())
            {
                shared.stop.store(true, Ordering::Relaxed);
            }
            if self.plan.intervals.is_some_and(|every| now >= self.interval_start + every) {
                self.collect(sinks, false);
            }
            if now >= next_progress {
                next_progress = now + self.plan.progress_every;
                progress(&self.progress(transactions(sinks)));
            }
        }
        progress(&self.progress(transactions(sinks)));
    }

    fn progress(&self, transactions: u64) -> Progress {
        Progress {
            elapsed: self.started.elapsed(),
            transactions,
            of_transactions: self.of_transactions,
            of_time: self.plan.time,
        }
    }

    /// Takes the latencies that the workers have recorded, and ends the current interval. `last` is
    /// true at the end of the run.
    pub(super) fn collect<W: Workload>(&mut self, sinks: &[Arc<Sink<W>>], last: bool) {
        let mut taken = Latencies::default();
        sinks.iter().for_each(|sink| sink.take_latencies(&mut taken));
        self.latencies.add(&taken);
        let now = if last { self.ended.max(self.interval_start) } else { Instant::now() };
        if self.plan.intervals.is_some() && (!last || taken.count() > 0) {
            self.intervals.push(Interval {
                start: self.interval_start - self.started,
                length: now - self.interval_start,
                latencies: taken,
            });
        }
        self.interval_start = now;
    }
}
