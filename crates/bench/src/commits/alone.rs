//! Runs a case on the log alone. Each commit is one record, and is acknowledged when the record is
//! durable.
//!
//! Clients block in each commit, or go on while several of their commits wait. Every blocking
//! commit on disk is timed. Of all other commits, one in [`TIMED`] is timed, because reading the
//! clock takes as long as an append. Latency is measured from before the append until the client
//! knows that the record is durable.

use super::case::Case;
use super::run::Run;
use super::stage::Stage;
use crate::grid::row;
use crate::host::raw::Raw;
use crate::host::usage;
use crate::inserts::txn;
use hdrhistogram::Histogram;
use katydid_command::failure::{Failure, Result};
use katydid_wal::{AppendError, Dependencies, Durability, Error, Log, Lsn, Options, Session};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One in this number of commits with callbacks, and of commits in NVRAM, is timed. The number is
/// prime, so that timed commits fall on every position of a batch.
const TIMED: u64 = 61;
/// Number of appends after which a client polls for durable commits.
const BATCH: usize = 16;
/// Bytes of live log after which the log is trimmed, as a checkpoint would do, so that segments are
/// used again.
const LIVE_BYTES_MAX: u64 = 64 << 20;
/// Fullness of a log in NVRAM, per mille, after which the log is trimmed.
const FULLNESS_MAX: u32 = 125;
/// Interval between two checks of the log's size.
const TICK: Duration = Duration::from_millis(5);

/// Runs a case that commits `payload` bytes at a time.
pub fn measure(case: &Case, payload: usize, stage: &Stage, raw: Raw, time: Duration) -> Result<Run> {
    let options = Options { reserve_bytes: 0, ..stage.options(case) };
    let files = options.medium.files();
    let name = stage.name_of("log", case);
    let log = Log::open_in(stage.for_log(&name, case)?, options).map_err(Failure::failed)?;
    if let Some(files) = files {
        txn::settle(&log, files.spare_segments as u64 * files.segment_bytes);
    }
    let before = (log.first().reserved(), log.counters());
    let used = usage::so_far();
    let done = threads(&log, case, payload, time);
    let usage = usage::since(&used);
    let (log_bytes, counters) = (log.first().reserved().since(before.0), (before.1, log.counters()));
    // Close the log even after a failure, so that the folder's lock is free.
    let trimmed = log.first().trim(log.first().durable());
    let closed = log.close();
    let done = done?;
    trimmed.and(closed).map_err(Failure::failed)?;
    let first = done.iter().map(|client| client.begin).min();
    let last = done.iter().map(|client| client.end).max();
    let mut times = row::times()?;
    done.iter().for_each(|client| times += &client.times);
    Ok(Run {
        commits: done.iter().map(|client| client.commits).sum(),
        seconds: first.zip(last).map_or(0.0, |(first, last)| last.duration_since(first).as_secs_f64()),
        clients_cpu: None,
        times,
        usage,
        counters,
        log_bytes,
        nvram: log.first().nvram(),
        checkpoints: 0,
        conflicts: 0,
        refused: done.iter().map(|client| client.refused).sum(),
        checked: None,
        raw,
    })
}

fn threads(log: &Log, case: &Case, payload: usize, time: Duration) -> Result<Vec<Done>> {
    let (ready, stop) = (Barrier::new(case.threads + 1), AtomicBool::new(false));
    let client = || -> Result<Client> {
        Ok(Client {
            session: log.session().map_err(Failure::failed)?,
            payload: vec![7; payload],
            every: if case.log.in_nvram() { TIMED } else { 1 },
            times: row::times()?,
            refused: 0,
            commits: 0,
        })
    };
    let clients = (0..case.threads).map(|_| client()).collect::<Result<Vec<_>>>()?;
    let outcomes: Vec<Result<Done>> = std::thread::scope(|scope| {
        let (ready, stop) = (&ready, &stop);
        let run = |client: Client| {
            scope.spawn(move || {
                ready.wait();
                client.run(case.in_flight, stop)
            })
        };
        let workers: Vec<_> = clients.into_iter().map(run).collect();
        ready.wait();
        let since = Instant::now();
        // Trim the log even when the time is over, because a client that waits for room in the log
        // notices the end only when it gets room.
        while !workers.iter().all(|worker| worker.is_finished()) {
            let left = time.saturating_sub(since.elapsed());
            if left.is_zero() {
                stop.store(true, Ordering::Relaxed);
            }
            let full =
                log.first().fullness().map_or(log.space().live > LIVE_BYTES_MAX, |full| full > FULLNESS_MAX);
            if full && log.first().trim(log.first().durable()).is_err() {
                break;
            }
            std::thread::park_timeout(if left.is_zero() { TICK / 5 } else { left.min(TICK) });
        }
        stop.store(true, Ordering::Relaxed);
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect()
}

/// Result of one client.
struct Done {
    commits: u64,
    refused: u64,
    times: Histogram<u64>,
    begin: Instant,
    end: Instant,
}

struct Client {
    session: Session,
    payload: Vec<u8>,
    /// One in this number of blocking commits is timed.
    every: u64,
    times: Histogram<u64>,
    refused: u64,
    commits: u64,
}

impl Client {
    fn run(mut self, in_flight: usize, stop: &AtomicBool) -> Result<Done> {
        let begin = Instant::now();
        match in_flight {
            1 => self.blocking(stop)?,
            many => self.with_callbacks(many, stop)?,
        }
        let Client { times, refused, commits, .. } = self;
        Ok(Done { commits, refused, times, begin, end: Instant::now() })
    }

    fn append(&mut self) -> std::result::Result<Lsn, AppendError> {
        let Client { session, payload, refused, .. } = self;
        txn::append(session, 0, Lsn::ZERO, &[payload.as_slice()], refused).map(|(_, end)| end)
    }

    /// Commits at least once, however late the client begins.
    fn blocking(&mut self, stop: &AtomicBool) -> Result<()> {
        loop {
            let since = self.commits.is_multiple_of(self.every).then(Instant::now);
            let end = self.append().map_err(Failure::failed)?;
            self.session.stream().wait(end, Durability::Durable).map_err(Failure::failed)?;
            if let Some(since) = since {
                record(&mut self.times, since);
            }
            self.commits += 1;
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn with_callbacks(&mut self, in_flight: usize, stop: &AtomicBool) -> Result<()> {
        let mut completions = self.session.stream().completions();
        let batch = BATCH.min(in_flight);
        let (mut number, mut failed) = (0_u64, None::<Error>);
        while failed.is_none() && (number == 0 || !stop.load(Ordering::Relaxed)) {
            for _ in 0..batch {
                let since = number.is_multiple_of(TIMED).then(Instant::now);
                number += 1;
                let end = self.append().map_err(Failure::failed)?;
                let at = self.session.stream().at(end);
                completions.push(at, &Dependencies::default(), Durability::Durable, since);
            }
            completions.wait_below_with(in_flight - batch + 1, |since, outcome| {
                self.count(since, outcome.err(), &mut failed);
            });
        }
        completions.drain_with(|since, outcome| self.count(since, outcome.err(), &mut failed));
        failed.map_or(Ok(()), |error| Err(Failure::failed(error)))
    }

    #[inline]
    fn count(&mut self, since: Option<Instant>, error: Option<Error>, failed: &mut Option<Error>) {
        match error {
            None => {
                self.commits += 1;
                if let Some(since) = since {
                    record(&mut self.times, since);
                }
            }
            Some(error) => *failed = failed.take().or(Some(error)),
        }
    }
}

fn record(times: &mut Histogram<u64>, since: Instant) {
    let time = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    times.saturating_record(time.max(1));
}
