//! Sweep `txn` (ELEDA, 6.5.1): each transaction appends three records and then a commit record, and
//! a callback runs when the commit is durable. The sweep measures an open log, and not an inserter
//! alone.
//!
//! The sweep uses real threads. As in ELEDA, a thread begins the next transaction while its earlier
//! commits are not durable, until the maximum number is in flight. Latency is the time from just
//! before the append of the commit record until the callback runs. The callback runs on the
//! committing thread.
//!
//! The log lives in memory, or in a folder that must be new or empty and is restored afterwards.
//! All cases use the segments of this log again, so that only the first case pays for filling
//! segments with zeros.

use super::case::{Case, Inserted};
use crate::commits::figures::spec::fill;
use crate::grid::row;
use crate::host::device::{Device, MethodName};
use crate::host::folder::{self, FolderState};
use crate::host::stripes::Stripes;
use hdrhistogram::Histogram;
use katydid_command::failure::{Failure, Result};
use katydid_device::{Directory, FileDirectory, MemoryDirectory};
use katydid_wal::{
    Append, AppendError, Durability, Error, FileOptions, HEADER_BYTES, InserterKind, Kind, Log, Lsn, Options,
    Session, SyncDesign, SyncKind,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

const RECORDS: usize = 3;
const SEGMENT_BYTES: u64 = 16 << 20;
/// Number of spare segments, more than by default: with more threads than cores, the thread that
/// prepares segments may wait for a core.
const SPARE_SEGMENTS: usize = 4;
/// Bytes of live log after which the log is trimmed.
const LIVE_BYTES_MAX: u64 = 64 << 20;
/// Interval between two checks of the log's size.
const TICK: Duration = Duration::from_millis(5);

/// Folder of logs during the sweep, and options of the logs.
#[derive(Debug)]
pub struct LogFolder {
    memory: Arc<dyn Directory>,
    files: Arc<dyn Directory>,
    path: PathBuf,
    before: FolderState,
    pub in_flight: usize,
    pub sync: SyncKind,
    /// Maximum bytes of a write. With `pipelined`, a write also begins as soon as this many bytes
    /// wait to be written. `None` for the log's own choice.
    pub io_unit: Option<usize>,
    pub method: MethodName,
    /// Folders over which the log's files are striped; `None` if the files lie in the folder.
    stripes: Option<Stripes>,
}

impl LogFolder {
    /// Makes a folder of logs in `path`. All given folders must be new or empty. The folders of
    /// stripes may lie inside `path`.
    pub fn new(
        path: PathBuf,
        stripes: &[PathBuf],
        in_flight: usize,
        (sync, io_unit): (SyncKind, Option<usize>),
        method: MethodName,
    ) -> Result<LogFolder> {
        let before = folder::new_or_empty(&path, "--dir")?;
        let files: Arc<dyn Directory> = Arc::new(FileDirectory::open(&path)?);
        let stripes = Stripes::take(stripes, &path)?;
        Ok(LogFolder {
            memory: Arc::new(MemoryDirectory::new()),
            files,
            path,
            before,
            in_flight,
            sync,
            io_unit,
            method,
            stripes,
        })
    }

    /// Restores all folders to their state before the sweep.
    pub fn remove(self) -> Result<()> {
        let LogFolder { path, before, stripes, .. } = &self;
        stripes.as_ref().map_or(Ok(()), Stripes::remove).and(folder::remove(path, *before))
    }
}

/// Result of one thread.
#[derive(Debug)]
struct Done {
    transactions: u64,
    refused: u64,
    times: Histogram<u64>,
    begin: Instant,
    end: Instant,
}

/// Runs a case.
pub fn measure(case: &Case, inserter: InserterKind, time: Duration, stage: &LogFolder) -> Result<Inserted> {
    let directory = match case.device {
        Some(Device::File) => stage.stripes.as_ref().map_or(&stage.files, Stripes::directory),
        _ => &stage.memory,
    };
    let options = Options {
        reserve_bytes: 0,
        // With an I/O unit, the run-ahead limit is half of the ring instead of a quarter.
        // GRASSHOPPER's tracker hops over whole ranges of `hop_bytes` bytes, and the higher limit
        // leaves room for more of these ranges between the filled and the reserved frontier. In a
        // ring of 32 MiB the limit is then 16 MiB: four ranges of the default `hop_bytes` (4 MiB).
        // With an I/O unit and `pipelined`, the syncer writes when the unit is full or the time of
        // `fill` is over, as ELEDA's flusher does.
        run_ahead_bytes: case.ring_bytes / if stage.io_unit.is_some() { 2 } else { 4 },
        method: stage.method.method(),
        ..case.options(inserter).map_files(|files| FileOptions {
            segment_bytes: SEGMENT_BYTES,
            first_segment_bytes: SEGMENT_BYTES,
            spare_segments: SPARE_SEGMENTS,
            sync: match (stage.sync, stage.io_unit) {
                (SyncKind::Pipelined, Some(unit)) => SyncDesign::pipelined(fill(unit)),
                (sync, _) => sync.into(),
            },
            write_bytes_max: stage.io_unit.unwrap_or(files.write_bytes_max),
            ..files
        })
    };
    let log = Log::open_in(directory.subdirectory("log")?, options).map_err(Failure::failed)?;
    settle(&log, SPARE_SEGMENTS as u64 * SEGMENT_BYTES);
    let before = log.first().reserved();
    let done = threads(&log, case, time, stage.in_flight);
    let bytes = log.first().reserved().since(before);
    // Close the log even after a failure, so that the folder's lock is free.
    let trimmed = log.first().trim(log.first().durable());
    let closed = log.close();
    let done = done?;
    trimmed.and(closed).map_err(Failure::failed)?;
    let first = done.iter().map(|thread| thread.begin).min();
    let last = done.iter().map(|thread| thread.end).max();
    let seconds =
        first.zip(last).map_or(0.0, |(first, last)| last.duration_since(first).as_secs_f64()).max(1e-9);
    let counts = done.iter().map(|thread| thread.transactions);
    let records: u64 = counts.clone().sum();
    let mut times = row::times()?;
    done.iter().for_each(|thread| times += &thread.times);
    Ok(Inserted {
        records,
        records_per_second: records as f64 / seconds,
        megabytes_per_second: bytes as f64 / seconds / 1e6,
        of_one_thread: (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)),
        travelled: (0, 0),
        times: Some(times),
        look_us: None,
        refused: Some(done.iter().map(|thread| thread.refused).sum()),
        events: None,
    })
}

/// Waits until the log has prepared `bytes` bytes, but at most about 2 seconds, so that filling
/// with zeros is not measured.
pub fn settle(log: &Log, bytes: u64) {
    for _ in 0..400 {
        if log.space().prepared >= bytes {
            return;
        }
        std::thread::park_timeout(TICK);
    }
}

fn threads(log: &Log, case: &Case, time: Duration, in_flight: usize) -> Result<Vec<Done>> {
    let (ready, stop) = (Barrier::new(case.threads + 1), AtomicBool::new(false));
    let mut clients = Vec::new();
    for number in 0..case.threads {
        let session = log.session().map_err(Failure::failed)?;
        let payload = vec![number as u8; case.record - HEADER_BYTES];
        let times = Arc::new(Mutex::new(row::times()?));
        clients.push(Client {
            session,
            payload,
            times,
            failed: Arc::default(),
            next: number as u64,
            refused: 0,
        });
    }
    let outcomes: Vec<Result<Done>> = std::thread::scope(|scope| {
        let (ready, stop) = (&ready, &stop);
        let run = |client: Client| {
            scope.spawn(move || {
                ready.wait();
                client.run(in_flight, stop)
            })
        };
        let workers: Vec<_> = clients.into_iter().map(run).collect();
        ready.wait();
        let since = Instant::now();
        while let Some(left) = time.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            if log.space().live > LIVE_BYTES_MAX && log.first().trim(log.first().durable()).is_err() {
                break;
            }
            std::thread::park_timeout(left.min(TICK));
        }
        stop.store(true, Ordering::Relaxed);
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect()
}

/// State of one client thread.
struct Client {
    session: Session,
    payload: Vec<u8>,
    /// `times` and `failed` are shared, because callbacks must own the values to which they write.
    /// Callbacks run on the client's thread, so no thread ever waits for these two mutexes.
    times: Arc<Mutex<Histogram<u64>>>,
    failed: Arc<Mutex<Option<Error>>>,
    next: u64,
    refused: u64,
}

impl Client {
    fn run(mut self, in_flight: usize, stop: &AtomicBool) -> Result<Done> {
        let begin = Instant::now();
        let mut transactions = 0;
        // Commits at least once, however late the client begins.
        loop {
            for _ in 0..8 {
                self.transaction().map_err(Failure::failed)?;
                transactions += 1;
                self.session.wait_below(in_flight);
            }
            if stop.load(Ordering::Relaxed) || lock(&self.failed).is_some() {
                break;
            }
        }
        self.session.drain();
        let end = Instant::now();
        if let Some(error) = lock(&self.failed).take() {
            return Err(Failure::failed(error));
        }
        let times = lock(&self.times).clone();
        Ok(Done { transactions, refused: self.refused, times, begin, end })
    }

    fn transaction(&mut self) -> std::result::Result<(), AppendError> {
        self.next += 1;
        let mut last = Lsn::ZERO;
        for _ in 0..RECORDS {
            last = append(&mut self.session, self.next, last, &[&self.payload], &mut self.refused)?.0;
        }
        let since = Instant::now();
        let (_, end) = append(&mut self.session, self.next, last, &[], &mut self.refused)?;
        let (times, failed) = (Arc::clone(&self.times), Arc::clone(&self.failed));
        self.session.on_complete(end, Durability::Durable, move |outcome| match outcome {
            Ok(()) => {
                let time = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
                lock(&times).saturating_record(time.max(1));
            }
            Err(error) => {
                lock(&failed).get_or_insert(error);
            }
        });
        Ok(())
    }
}

/// Appends a record, and waits while segments are being prepared. Returns the record's LSN and its
/// end.
pub fn append(
    session: &mut Session,
    txn: u64,
    prev: Lsn,
    payload: &[&[u8]],
    refused: &mut u64,
) -> std::result::Result<(Lsn, Lsn), AppendError> {
    let record = Append::new(Kind::USER, payload).txn(txn).prev(prev);
    loop {
        match session.append(&record) {
            Ok(appended) => return Ok((appended.lsn, appended.end)),
            // Wait until segments are prepared.
            Err(AppendError::NoSpace) => {
                *refused += 1;
                session.poll();
                std::thread::park_timeout(Duration::from_micros(100));
            }
            Err(error) => return Err(error),
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
