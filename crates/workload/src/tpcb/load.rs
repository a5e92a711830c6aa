//! The load phase inserts every branch, teller and account with balance 0, many rows in a
//! transaction.

use super::{ACCOUNTS, BRANCHES, Settings, TELLERS, TELLERS_OF_BRANCH, rows};
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of rows in a transaction.
const BATCH: u64 = 100;

/// Inserts the rows of a bank.
#[derive(Debug)]
pub struct TpcbLoad {
    settings: Settings,
    next: AtomicU64,
}

impl TpcbLoad {
    /// The load phase of a bank that does not exist yet.
    pub fn new(settings: &Settings) -> Arc<Self> {
        Arc::new(TpcbLoad { settings: *settings, next: AtomicU64::new(0) })
    }

    /// The table of a row, and the row's number in it. Rows are numbered over all tables.
    fn place(&self, row: u64) -> (usize, u64) {
        let branches = self.settings.branches;
        let tellers = branches * TELLERS_OF_BRANCH;
        match row {
            row if row < branches => (BRANCHES, row),
            row if row < branches + tellers => (TELLERS, row - branches),
            row => (ACCOUNTS, row - branches - tellers),
        }
    }
}

impl Workload for TpcbLoad {
    type Source = TpcbLoadSource;

    fn source(self: &Arc<Self>, _thread: usize, _rng: Rng) -> TpcbLoadSource {
        TpcbLoadSource { load: Arc::clone(self), from: 0 }
    }

    fn transactions(&self) -> Option<u64> {
        Some(self.settings.rows().div_ceil(BATCH))
    }
}

/// The inserts of one thread.
#[derive(Debug)]
pub struct TpcbLoadSource {
    load: Arc<TpcbLoad>,
    from: u64,
}

impl Source for TpcbLoadSource {
    fn plan(&mut self) -> Option<Planned> {
        self.from = self.load.next.fetch_add(BATCH, Ordering::Relaxed);
        (self.from < self.load.settings.rows()).then(|| self.again(self.from))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        self.from = ticket;
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        let row = rows::empty_row();
        for number in self.from..(self.from + BATCH).min(self.load.settings.rows()) {
            let (table, number) = self.load.place(number);
            transaction.on(table).insert(&rows::key(number), &row)?;
        }
        Ok(Ending::Commit)
    }
}
