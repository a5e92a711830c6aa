//! The load phase: all rows, many in a transaction. What one loads follows from the seed and its ticket.

use super::{BY_K, ROWS, Settings, rows};
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows in a transaction.
const BATCH: u64 = 100;

/// Inserts the rows.
#[derive(Debug)]
pub struct SysbenchLoad {
    settings: Settings,
    seed: u64,
    next: AtomicU64,
}

impl SysbenchLoad {
    /// The load phase of a table that is not there yet.
    pub fn new(settings: &Settings, seed: u64) -> Arc<Self> {
        Arc::new(SysbenchLoad { settings: *settings, seed, next: AtomicU64::new(0) })
    }
}

impl Workload for SysbenchLoad {
    type Source = SysbenchLoadSource;

    fn source(self: &Arc<Self>, _thread: usize, _rng: Rng) -> SysbenchLoadSource {
        SysbenchLoadSource { load: Arc::clone(self), from: 0 }
    }

    fn transactions(&self) -> Option<u64> {
        Some(self.settings.rows.div_ceil(BATCH))
    }
}

/// The inserts of one thread.
#[derive(Debug)]
pub struct SysbenchLoadSource {
    load: Arc<SysbenchLoad>,
    from: u64,
}

impl Source for SysbenchLoadSource {
    fn plan(&mut self) -> Option<Planned> {
        let from = self.load.next.fetch_add(BATCH, Ordering::Relaxed);
        (from < self.load.settings.rows).then(|| self.again(from))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        self.from = ticket;
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        let SysbenchLoad { settings, seed, .. } = &*self.load;
        let mut rng = Rng::with_seed(seed ^ self.from.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for number in self.from..(self.from + BATCH).min(settings.rows) {
            let k = draw_k(&mut rng, settings);
            transaction.on(ROWS).insert(&rows::key(number), &rows::row(k, &mut rng))?;
            transaction.on(BY_K).insert(&rows::index_key(k, number), &[])?;
        }
        Ok(Ending::Commit)
    }
}

/// `k` of a row that is new: there are as many as rows.
pub(super) fn draw_k(rng: &mut Rng, settings: &Settings) -> u32 {
    rng.u64(..settings.rows.min(1 << 31)) as u32
}
