//! Runs of transactions that only write. Each transaction takes a timestamp and inserts a record
//! (except in design `none`, which has no log), by the memory engine's design or by another one.
//!
//! A run measures what the papers call the log's scalability: whether a shared word, for timestamps
//! or for positions in a log, limits the throughput of many cores (Cicada over P-WAL, section I).
//! One constant, `work_ns`, stands for reading, validating and waiting for a device.

use crate::run::{RunError, buffer_sizes, in_range};
use crossbeam_utils::CachePadded;
use katydid_kernels_simulated::insert::InserterDesign;
use katydid_kernels_simulated::record::HEADER_BYTES;
use katydid_kernels_simulated::rig::{Rig, RigSession};
use katydid_kernels_simulated::txn::{Clock, Slots, Source, Waits};
use katydid_virtual_machine::Machine;
use katydid_virtual_machine::sync_shim::{AtomicU64, Ordering};
use katydid_virtual_machine::vm::{self, Body};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A design by which transactions get their timestamps and put their records into a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnDesign {
    /// Name of the design.
    pub name: &'static str,
    /// Description of the design in words.
    pub about: &'static str,
    clock: Times,
    log: Logs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    /// All transactions take timestamps from one counter.
    Counter,
    /// Each transaction makes its own timestamp: Cicada's multi-clock, as in the memory engine.
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logs {
    None,
    One(InserterDesign),
    /// Each thread has a log (P-WAL).
    Each,
}

/// All designs.
pub const TXN_DESIGNS: [TxnDesign; 6] = [
    TxnDesign { name: "none", about: "no log, own timestamps", clock: Times::Own, log: Logs::None },
    TxnDesign {
        name: "parallel",
        about: "a log for each thread, own timestamps: the memory engine's",
        clock: Times::Own,
        log: Logs::Each,
    },
    TxnDesign {
        name: "parallel-counter",
        about: "a log for each thread, timestamps from one counter",
        clock: Times::Counter,
        log: Logs::Each,
    },
    TxnDesign {
        name: "central",
        about: "one log with inserter marks, own timestamps",
        clock: Times::Own,
        log: Logs::One(InserterDesign::Marks),
    },
    TxnDesign {
        name: "central-counter",
        about: "one log with inserter marks, timestamps from one counter",
        clock: Times::Counter,
        log: Logs::One(InserterDesign::Marks),
    },
    TxnDesign {
        name: "serial",
        about: "one log with inserter mutex, timestamps from one counter",
        clock: Times::Counter,
        log: Logs::One(InserterDesign::Mutex),
    },
];

/// Plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TxnPlan {
    /// The design that runs.
    pub design: TxnDesign,
    /// Virtual threads, from 1 to 1,024.
    pub threads: usize,
    /// Bytes of a transaction's record, its header included.
    pub record: usize,
    /// Duration of all other work of a transaction, in nanoseconds.
    pub work_ns: f64,
    /// Duration of the run in simulated milliseconds.
    pub millis: f64,
    /// Seed of two kinds of random times: the start of each thread, and the moment within a pause
    /// at which a waiting thread sees a change.
    pub seed: u64,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TxnOutcome {
    /// Number of transactions of all threads.
    pub transactions: u64,
    /// Transactions per second.
    pub per_second: f64,
    /// Number of events of the simulation.
    pub events: u64,
}

/// Waits of threads whose log has no device. No record is left to a group, so there is nothing to
/// do before a wait.
pub(crate) struct NoWaits;

impl Waits for NoWaits {
    fn before_wait(&self) {}
}

#[derive(Debug)]
struct Store {
    counter: CachePadded<AtomicU64>,
    clock: Clock,
    slots: Slots,
    logs: Vec<Rig>,
}

impl Store {
    fn new(design: TxnDesign, threads: usize, record: usize) -> Store {
        let inserter = match design.log {
            Logs::One(inserter) => inserter,
            Logs::None | Logs::Each => InserterDesign::Marks,
        };
        let (logs, sessions) = match design.log {
            Logs::None => (0, 0),
            Logs::One(_) => (1, threads),
            Logs::Each => (threads, 1),
        };
        let ring_bytes = crate::ring_bytes(sessions, sessions, record);
        let sizes = buffer_sizes(ring_bytes);
        Store {
            counter: CachePadded::new(AtomicU64::new(1)),
            clock: Clock::new(Source::monotonic()),
            slots: Slots::new(threads),
            logs: (0..logs).map(|_| Rig::new(&inserter, &sizes, sessions)).collect(),
        }
    }

    /// Returns the session of this thread's log; `None` in a design without a log.
    fn session(&self, design: TxnDesign, thread: usize) -> Option<RigSession<'_>> {
        match design.log {
            Logs::None => None,
            Logs::One(_) => Some(self.logs[0].session(thread)),
            Logs::Each => Some(self.logs[thread].session(0)),
        }
    }

    fn commit(&self, design: TxnDesign, session: &mut Option<RigSession<'_>>, slot: usize, payload: &[u8]) {
        let mut insert = || {
            if let Some(session) = session {
                session.insert(payload);
            }
        };
        match design.clock {
            Times::Counter => {
                self.counter.fetch_add(1, Ordering::SeqCst);
                insert();
            }
            Times::Own => {
                let timestamp = self.slots.begin_write(slot, &self.clock);
                assert!(self.slots.may_install(timestamp), "nobody reads");
                self.slots.installed(timestamp);
                insert();
                self.slots.acknowledge(timestamp);
                self.slots.read_all(slot);
            }
        }
    }
}

/// Runs a plan.
///
/// # Errors
/// A [`RunError`] if a value of the plan is out of range, the design hangs, or the simulation
/// cannot start.
pub fn run_txns(machine: &Machine, plan: &TxnPlan) -> Result<TxnOutcome, RunError> {
    let TxnPlan { design, threads, record, work_ns, millis, seed } = *plan;
    in_range((1..=1024).contains(&threads), "threads", threads as f64, "from 1 to 1024")?;
    let range = "from 48 (the header) to 16384 bytes";
    in_range((HEADER_BYTES..=16 << 10).contains(&record), "record", record as f64, range)?;
    in_range(millis > 0.0 && millis <= 60_000.0, "millis", millis, "above 0, up to 60000")?;
    in_range((0.0..=1e9).contains(&work_ns), "work", work_ns, "from 0 to 1e9 ns")?;
    let store = Arc::new(Store::new(design, threads, record));
    let slots: Vec<usize> = (0..threads).filter_map(|_| store.slots.take(Duration::ZERO, &NoWaits)).collect();
    let (deadline, work) = ((millis * 1e9) as u64, (work_ns * 1e3) as u64);
    // The number of transactions, and the time at which the last one ended.
    let done = Rc::new(RefCell::new((0_u64, 0_u64)));
    let bodies = slots
        .into_iter()
        .enumerate()
        .map(|(thread, slot)| -> Body {
            let (store, done) = (Arc::clone(&store), Rc::clone(&done));
            Box::new(move || {
                let payload = vec![thread as u8; record - HEADER_BYTES];
                let mut transactions = 0;
                let mut session = store.session(design, thread);
                while vm::now() < deadline {
                    vm::work(work);
                    vm::insert();
                    store.commit(design, &mut session, slot, &payload);
                    transactions += 1;
                }
                let mut done = done.borrow_mut();
                *done = (done.0 + transactions, done.1.max(vm::now()));
            })
        })
        .collect();
    let report = vm::simulate(machine, seed, bodies)?;
    let (transactions, end) = *done.borrow();
    Ok(TxnOutcome {
        transactions,
        per_second: transactions as f64 / (end as f64 / 1e12),
        events: report.events,
    })
}
