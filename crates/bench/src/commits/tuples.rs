//! Runs a case of Cicada's evaluation on the memory engine. Each run loads a database in its own
//! folder on the log's device.
//!
//! 1. All loaded rows are durable in the log before the run begins, so that nothing of the load is
//!    written during the run.
//! 2. Log, control file and checkpoints are on the same device. No checkpoint begins during a run.

use super::case::{Case, Work};
use super::run::Run;
use super::stage::Stage;
use super::store::{counted, run};
use crate::host::raw::Raw;
use katydid::{AdvancedOptions, CommitDependencies, Database, MemoryOptions, Options};
use katydid_command::failure::{Failure, Result};
use katydid_workload::KatydidStore;
use katydid_workload::drive::{Outcome, Plan, drive};
use katydid_workload::tuples::{Settings, TupleLoad, TupleRun};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TABLE: &str = "tuples";
const FOLDER: &str = "tuples";
/// Bytes of log between checkpoints: large enough that no checkpoint begins during a run.
const CHECKPOINT_BYTES: u64 = 4 << 30;
/// Bytes that are divided among the streams. A stream's share, but at least [`STREAM_BYTES_MIN`],
/// limits the size of the stream's ring and of each of its segments.
const LOG_BYTES: u64 = 256 << 20;
const STREAM_BYTES_MIN: u64 = 4 << 20;
/// Maximum number of prepared segments of each stream. The number is small, because there may be
/// many streams.
const SPARE_MAX: usize = 2;
/// Number of gets in a read-only transaction.
const GETS: usize = 10;

/// Size of the table, and workload.
#[derive(Debug, Clone, Copy)]
pub struct Tuples {
    pub settings: Settings,
    pub dependences: CommitDependencies,
    pub seed: u64,
}

impl Tuples {
    /// Runs a case.
    pub fn measure(&self, case: &Case, stage: &Stage, raw: Raw, time: Duration) -> Result<Run> {
        let database = Database::open_in(stage.anew(FOLDER, case)?, self.options(case, stage))?;
        let store = KatydidStore::new(database);
        let measured = self.on(&store, case, raw, time);
        // Close the database even after a failure, so that the folder's lock is free.
        let closed = store.database().close();
        let measured = measured?;
        closed?;
        Ok(measured)
    }

    fn options(&self, case: &Case, stage: &Stage) -> Options {
        let streams = case.streams.unwrap_or(1);
        let of_stream = (LOG_BYTES / u64::from(streams)).max(STREAM_BYTES_MIN).next_power_of_two();
        let mut log = stage.options(case);
        if let Some(files) = log.medium.files_mut() {
            files.segment_bytes = files.segment_bytes.min(of_stream);
            files.ring_bytes = files.ring_bytes.min(usize::try_from(of_stream).unwrap_or(usize::MAX));
            files.spare_segments = files.spare_segments.min(SPARE_MAX);
            log.run_ahead_bytes = files.ring_bytes / 4;
        }
        log.reserve_bytes = 0;
        Options {
            engine: MemoryOptions { memory_bytes: u64::MAX, streams, commit_dependencies: self.dependences }
                .into(),
            durability: case.durability,
            advanced: AdvancedOptions {
                lock_release: case.release,
                contention: case.contention,
                old_versions: case.old_versions,
                checkpoint_bytes: CHECKPOINT_BYTES,
                log_soft_bytes: 2 * CHECKPOINT_BYTES,
                log_hard_bytes: u64::MAX,
                log,
                ..AdvancedOptions::default()
            },
            ..Options::default()
        }
    }

    fn on(&self, store: &KatydidStore, case: &Case, raw: Raw, time: Duration) -> Result<Run> {
        let plan = Plan { threads: 2, in_flight: 64, ..Plan::default() };
        run(store, &[TABLE], &TupleLoad::new(self.settings), &plan)?;
        store.database().sync()?;
        let plan = Plan {
            threads: case.threads,
            in_flight: case.in_flight,
            time: Some(time),
            seed: self.seed,
            conflict_retries: u32::MAX,
            ..Plan::default()
        };
        match case.work {
            Work::Tuples { reads_percent } => {
                let tuples = TupleRun::new(Settings { reads_percent, ..self.settings });
                counted(store, raw, || run(store, &[TABLE], &tuples, &plan))
            }
            Work::Readers { writers } => {
                let measured = counted(store, raw, || self.readers(store, writers, &plan))?;
                match measured.conflicts {
                    0 => Ok(measured),
                    conflicts => Err(Failure::failed(format_args!(
                        "{conflicts} read-only transactions met a conflict: this is a bug"
                    ))),
                }
            }
            _ => Err(Failure::failed("this work is not of tuples")),
        }
    }

    /// Result of the readers while `writers` threads write.
    fn readers(&self, store: &KatydidStore, writers: usize, plan: &Plan) -> Result<Outcome> {
        let reads = TupleRun::new(Settings { reads_percent: 100, operations: GETS, ..self.settings });
        if writers == 0 {
            return run(store, &[TABLE], &reads, plan);
        }
        let writes = TupleRun::new(Settings { reads_percent: 0, ..self.settings });
        let writing = Plan {
            threads: writers,
            in_flight: 1,
            time: None,
            seed: plan.seed.wrapping_add(1),
            ..plan.clone()
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                drive(store, &[TABLE], &writes, &writing, &done, &mut |_| ()).map_err(Failure::failed)
            });
            let read = run(store, &[TABLE], &reads, plan);
            done.store(true, Ordering::Relaxed);
            let wrote = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            match wrote.transactions {
                0 => Err(Failure::failed("nothing was written beside the readers: use a longer time")),
                _ => read,
            }
        })
    }
}
