//! Transactions of several reads and blind writes of small tuples, chosen uniformly: the workload
//! of section IV of the paper on Cicada with parallel write-ahead logs (P-WAL). The paper does not
//! state the size of keys; here keys have 8 bytes.

use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::store::{Result, Shown, StoreError, Transaction};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of tuples in a transaction of the load phase.
const BATCH: u64 = 100;

/// Size of the table and number of operations in a transaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Number of tuples in the table, at least 1.
    pub tuples: u64,
    /// Bytes of a tuple.
    pub value_bytes: usize,
    /// Number of reads and writes in a transaction.
    pub operations: usize,
    /// Percentage of operations that are reads.
    pub reads_percent: u8,
}

/// Writes every tuple once, many in a transaction.
#[derive(Debug)]
pub struct TupleLoad {
    settings: Settings,
    next: AtomicU64,
}

impl TupleLoad {
    /// The load phase of a table that does not exist yet.
    pub fn new(settings: Settings) -> Arc<Self> {
        Arc::new(TupleLoad { settings, next: AtomicU64::new(0) })
    }
}

impl Workload for TupleLoad {
    type Source = TupleLoadSource;

    fn source(self: &Arc<Self>, _thread: usize, _rng: Rng) -> TupleLoadSource {
        TupleLoadSource { load: Arc::clone(self), from: 0 }
    }

    fn transactions(&self) -> Option<u64> {
        Some(self.settings.tuples.div_ceil(BATCH))
    }
}

/// Source of one thread's load.
#[derive(Debug)]
pub struct TupleLoadSource {
    load: Arc<TupleLoad>,
    from: u64,
}

impl Source for TupleLoadSource {
    fn plan(&mut self) -> Option<Planned> {
        let from = self.load.next.fetch_add(BATCH, Ordering::Relaxed);
        (from < self.load.settings.tuples).then(|| self.again(from))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        self.from = ticket;
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        let settings = &self.load.settings;
        let value = vec![0; settings.value_bytes];
        let to = (self.from + BATCH).min(settings.tuples);
        (self.from..to).try_for_each(|number| transaction.put(&number.to_be_bytes(), &value))?;
        Ok(Ending::Commit)
    }
}

/// Endless transactions; the driver's limits end the run.
#[derive(Debug)]
pub struct TupleRun {
    settings: Settings,
}

impl TupleRun {
    /// Transactions on a loaded table.
    pub fn new(settings: Settings) -> Arc<Self> {
        Arc::new(TupleRun { settings })
    }
}

impl Workload for TupleRun {
    type Source = TupleSource;

    fn source(self: &Arc<Self>, _thread: usize, rng: Rng) -> TupleSource {
        let value = vec![1; self.settings.value_bytes];
        TupleSource { run: Arc::clone(self), rng, operations: Vec::new(), value }
    }
}

#[derive(Debug, Clone, Copy)]
struct Operation {
    key: [u8; 8],
    reads: bool,
}

/// Source of one thread's transactions.
#[derive(Debug)]
pub struct TupleSource {
    run: Arc<TupleRun>,
    rng: Rng,
    operations: Vec<Operation>,
    value: Vec<u8>,
}

impl Source for TupleSource {
    fn plan(&mut self) -> Option<Planned> {
        let settings = &self.run.settings;
        self.operations.clear();
        for _ in 0..settings.operations {
            let key = self.rng.u64(..settings.tuples).to_be_bytes();
            let reads = self.rng.u8(..100) < settings.reads_percent;
            self.operations.push(Operation { key, reads });
        }
        let reads_only = self.operations.iter().all(|operation| operation.reads);
        Some(Planned { class: if reads_only { Class::Read } else { Class::Write }, ticket: None })
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        for Operation { key, reads } in &self.operations {
            if !reads {
                transaction.put(key, &self.value)?;
            } else if transaction.get(key)?.is_none() {
                return Err(StoreError::Inconsistent(format!("tuple {} is missing", Shown(key))));
            }
        }
        Ok(Ending::Commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Plan, drive};
    use crate::memory_store::MemoryStore;
    use std::sync::atomic::AtomicBool;

    fn run<W: Workload>(store: &MemoryStore, workload: &Arc<W>, plan: &Plan) -> crate::drive::Outcome {
        drive(store, &["t"], workload, plan, &AtomicBool::new(false), &mut |_| ()).unwrap()
    }

    #[test]
    fn all_tuples_are_loaded_and_transactions_mix_as_set() {
        for (in_flight, reads_percent) in [(1, 0), (20, 0), (1, 80), (20, 100)] {
            let settings = Settings { tuples: 1050, value_bytes: 8, operations: 4, reads_percent };
            let store = MemoryStore { conflict_every: 5, refuse_every: 3, ..Default::default() };
            let plan = Plan { threads: 2, in_flight, ..Default::default() };
            run(&store, &TupleLoad::new(settings), &plan);
            assert_eq!(store.len(), 1050);
            let plan = Plan { transactions: Some(500), ..plan };
            let outcome = run(&store, &TupleRun::new(settings), &plan);
            assert_eq!((outcome.transactions, store.len()), (500, 1050));
            let reads = outcome.latencies.reads.len();
            match reads_percent {
                0 => assert_eq!(reads, 0),
                100 => assert_eq!(reads, 500),
                // One in 2.4 transactions only reads.
                _ => assert!((100..350).contains(&reads), "{reads} of 500 only read"),
            }
        }
    }
}
