//! The load phase inserts all rows, many rows of one table in a transaction. The seed and the
//! ticket determine the rows of a transaction.

use super::{Settings, Table, rows};
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of rows in a transaction.
const BATCH: u64 = 100;

/// Inserts the rows.
#[derive(Debug)]
pub struct SysbenchLoad {
    settings: Settings,
    seed: u64,
    next: AtomicU64,
}

impl SysbenchLoad {
    /// The load phase of tables that do not exist yet.
    pub fn new(settings: &Settings, seed: u64) -> Arc<Self> {
        Arc::new(SysbenchLoad { settings: *settings, seed, next: AtomicU64::new(0) })
    }
}

impl SysbenchLoad {
    fn batches(&self) -> u64 {
        u64::from(self.settings.tables) * self.settings.rows.div_ceil(BATCH)
    }

    /// The table and the rows of batch `number`. Batches are numbered over all tables.
    fn batch(&self, number: u64) -> (Table, Range<u64>) {
        let of_table = self.settings.rows.div_ceil(BATCH);
        let from = number % of_table * BATCH;
        // The cast loses nothing, because the number of tables is a `u32`.
        (Table((number / of_table) as u32), from..(from + BATCH).min(self.settings.rows))
    }
}

impl Workload for SysbenchLoad {
    type Source = SysbenchLoadSource;

    fn source(self: &Arc<Self>, _thread: usize, _rng: Rng) -> SysbenchLoadSource {
        SysbenchLoadSource { load: Arc::clone(self), batch: 0 }
    }

    fn transactions(&self) -> Option<u64> {
        Some(self.batches())
    }
}

/// The inserts of one thread.
#[derive(Debug)]
pub struct SysbenchLoadSource {
    load: Arc<SysbenchLoad>,
    batch: u64,
}

impl Source for SysbenchLoadSource {
    fn plan(&mut self) -> Option<Planned> {
        let number = self.load.next.fetch_add(1, Ordering::Relaxed);
        (number < self.load.batches()).then(|| self.again(number))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        self.batch = ticket;
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        let SysbenchLoad { settings, seed, .. } = &*self.load;
        let mut rng = Rng::with_seed(seed ^ self.batch.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (table, numbers) = self.load.batch(self.batch);
        for number in numbers {
            let k = draw_k(&mut rng, settings);
            transaction.on(table.rows()).insert(&rows::key(number), &rows::row(k, &mut rng))?;
            transaction.on(table.by_k()).insert(&rows::index_key(k, number), &[])?;
        }
        Ok(Ending::Commit)
    }
}

/// Draws `k` of a new row: a number less than the number of rows in the table.
pub(super) fn draw_k(rng: &mut Rng, settings: &Settings) -> u32 {
    rng.u64(..settings.rows.min(1 << 31)) as u32
}
