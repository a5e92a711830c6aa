//! Runs of inserters: virtual threads insert records for a given simulated time.

use katydid_kernels_simulated::insert::{
    BufferSizes, InserterDesign, InserterKind, InserterSettings, OutOfRange,
};
use katydid_kernels_simulated::record::HEADER_BYTES;
use katydid_kernels_simulated::rig::Rig;
use katydid_kernels_simulated::sizes::Sizes;
use katydid_virtual_machine::Machine;
use katydid_virtual_machine::vm::{self, Body, SimulationError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of threads of a run.
const THREADS_MAX: usize = 1024;
/// Bytes that only critical records may use, as in a log with default options. The value has no
/// effect, because the simulated device always has space.
const RESERVE_BYTES: u64 = 16 << 20;
/// Maximum bytes of a record.
const RECORD_MAX: usize = 16 << 20;

/// Plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The name of a design, one of [`designs`].
    pub inserter: String,
    /// Virtual threads, from 1 to 1,024.
    pub threads: usize,
    /// Sizes of records.
    pub sizes: Sizes,
    /// Number of slots in which groups form, in the designs that have slots.
    pub slots: usize,
    /// The range that `grasshopper` hops over, in bytes.
    pub hop_bytes: u64,
    /// Maximum bytes that `chunked` reserves at a time for one session.
    pub chunk_bytes: usize,
    /// Bytes of the ring; see [`ring_bytes`]. The run-ahead limit is a quarter of the ring.
    pub ring_bytes: usize,
    /// Duration of the run in simulated milliseconds.
    pub millis: f64,
    /// Duration of a thread's other work between two inserts, in nanoseconds.
    pub work_ns: f64,
    /// Seed of two kinds of random times: the start of each thread, and the moment within a pause
    /// at which a waiting thread sees a change.
    pub seed: u64,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Number of inserted records.
    pub records: u64,
    /// Bytes of the inserted records, headers included.
    pub bytes: u64,
    /// Inserted records of all threads per second.
    pub records_per_second: f64,
    /// Inserted bytes per second, in millions.
    pub megabytes_per_second: f64,
    /// The smallest and the largest number of records of one thread.
    pub of_one_thread: (u64, u64),
    /// Bytes by which crawling and hopping have advanced the filled frontier. Both numbers are 0 in
    /// designs other than `grasshopper`.
    pub travelled: (u64, u64),
    /// Number of events of the simulation.
    pub events: u64,
}

/// Reason why a run has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no design of the requested name.
    #[error("no inserter {name:?}; there are {known}")]
    Design {
        /// Requested name.
        name: String,
        /// Known names.
        known: String,
    },
    /// A value of the plan is out of range.
    #[error("{field} is {value}; it must be {range}")]
    Range {
        /// The name of the value.
        field: &'static str,
        /// Given value.
        value: f64,
        /// Range of legal values.
        range: &'static str,
    },
    /// The simulation could not start, or its threads would never end.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// The names of all designs.
pub fn designs() -> Vec<String> {
    InserterKind::ALL.iter().map(ToString::to_string).collect()
}

/// Returns the bytes of the ring on a machine of `cores` cores, for `threads` threads and records
/// of at most `largest` bytes. The result is the log's default for that number of cores, or a power
/// of two with room for four records of each thread if that is more. It is at most 1 GiB.
pub fn ring_bytes(cores: usize, threads: usize, largest: usize) -> usize {
    (threads * largest * 4).next_power_of_two().clamp(BufferSizes::ring_bytes_for(cores), 1 << 30)
}

/// Runs a plan.
///
/// # Errors
/// A [`RunError`] if a value of the plan is out of range or unknown, the design hangs, or the
/// simulation cannot start.
pub fn run(machine: &Machine, plan: &Plan) -> Result<Outcome, RunError> {
    let design = design(plan)?;
    let rig = Arc::new(Rig::new(&design, &buffer_sizes(plan.ring_bytes), plan.threads));
    let deadline = (plan.millis * 1e9) as u64;
    let work = (plan.work_ns * 1e3) as u64;
    let tallies = Rc::new(RefCell::new(vec![(0_u64, 0_u64); plan.threads]));
    let (running, end) = (Rc::new(Cell::new(plan.threads)), Rc::new(Cell::new(0)));
    let mut bodies = Vec::with_capacity(plan.threads + 1);
    bodies.extend((0..plan.threads).map(|session| -> Body {
        let (rig, tallies, sizes) = (Arc::clone(&rig), Rc::clone(&tallies), plan.sizes);
        let (running, end) = (Rc::clone(&running), Rc::clone(&end));
        Box::new(move || {
            let payload = vec![session as u8; sizes.largest() - HEADER_BYTES];
            // Threads begin with different numbers, so their large records come at different times.
            let mut number = session as u64 * 7;
            let (mut records, mut bytes) = (0, 0);
            let mut inserts = rig.session(session);
            while vm::now() < deadline {
                let size = sizes.of(number);
                vm::insert();
                inserts.insert(&payload[..size - HEADER_BYTES]);
                vm::work(work);
                number += 1;
                records += 1;
                bytes += size as u64;
            }
            tallies.borrow_mut()[session] = (records, bytes);
            end.set(end.get().max(vm::now()));
            running.set(running.get() - 1);
            if running.get() == 0 {
                rig.stop_tracking();
            }
        })
    }));
    if rig.tracks() {
        // The tracker runs on the next core, or shares a core if each core has a thread.
        let rig = Arc::clone(&rig);
        bodies.push(Box::new(move || rig.track()));
    }
    let report = vm::simulate(machine, plan.seed, bodies)?;
    let tallies = tallies.borrow();
    let (records, bytes) = tallies.iter().fold((0, 0), |sum, thread| (sum.0 + thread.0, sum.1 + thread.1));
    let seconds = end.get() as f64 / 1e12;
    let counts = tallies.iter().map(|thread| thread.0);
    Ok(Outcome {
        records,
        bytes,
        records_per_second: records as f64 / seconds,
        megabytes_per_second: bytes as f64 / seconds / 1e6,
        of_one_thread: (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)),
        travelled: rig.travelled(),
        events: report.events,
    })
}

pub(crate) fn in_range(
    good: bool,
    field: &'static str,
    value: f64,
    range: &'static str,
) -> Result<(), RunError> {
    if good { Ok(()) } else { Err(RunError::Range { field, value, range }) }
}

/// Returns the sizes of a log buffer with the run-ahead limit of simulated runs.
pub(crate) fn buffer_sizes(ring_bytes: usize) -> BufferSizes {
    BufferSizes {
        ring_bytes,
        run_ahead_bytes: ring_bytes / 4,
        reserve_bytes: RESERVE_BYTES,
        sessions: THREADS_MAX,
    }
}

/// Returns the design that the plan names. Refuses values of the plan that are out of range.
fn design(plan: &Plan) -> Result<InserterDesign, RunError> {
    let inserter = plan
        .inserter
        .parse::<InserterKind>()
        .map_err(|_| RunError::Design { name: plan.inserter.clone(), known: designs().join(", ") })?;
    let Plan { threads, sizes, slots, hop_bytes, chunk_bytes, ring_bytes, millis, work_ns, .. } = *plan;
    in_range((1..=THREADS_MAX).contains(&threads), "threads", threads as f64, "from 1 to 1024")?;
    let (smallest, largest) = (sizes.smallest(), sizes.largest());
    let range = "from 48 (the header) to 16777216 bytes";
    in_range(smallest >= HEADER_BYTES, "record", smallest as f64, range)?;
    in_range(largest <= RECORD_MAX, "record", largest as f64, range)?;
    in_range(millis > 0.0 && millis <= 60_000.0, "millis", millis, "above 0, up to 60000")?;
    in_range((0.0..=1e9).contains(&work_ns), "work", work_ns, "from 0 to 1e9 ns")?;
    let fits = ring_bytes.is_power_of_two() && (64 << 10..=1 << 30).contains(&ring_bytes);
    in_range(fits, "ring", ring_bytes as f64, "a power of two from 65536 to 1073741824 bytes")?;
    let settings =
        InserterSettings { consolidation_slots: slots, hop_bytes, chunk_bytes, ..Default::default() };
    // Check the settings of all designs, even of those that the plan does not name.
    for kind in InserterKind::ALL {
        settings.design(kind).validate().map_err(|OutOfRange { option, value, range }| RunError::Range {
            field: option,
            value: value as f64,
            range,
        })?;
    }
    Ok(settings.design(inserter))
}
