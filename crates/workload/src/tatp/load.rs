//! The load phase: each transaction inserts all rows of ten subscribers.

use super::population::{Facility, SubscriberRows};
use super::rows;
use super::settings::Settings;
use super::tables::SUBSCRIBER_BY_NUMBER;
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::row::add;
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of subscribers in a transaction; each has about eleven rows.
const BATCH: u64 = 10;

/// Inserts the initial rows.
#[derive(Debug)]
pub struct TatpLoad {
    settings: Settings,
    seed: u64,
    next: AtomicU64,
}

impl TatpLoad {
    /// The load phase of tables that do not exist yet.
    pub fn new(settings: &Settings, seed: u64) -> Arc<Self> {
        Arc::new(TatpLoad { settings: *settings, seed, next: AtomicU64::new(0) })
    }
}

impl Workload for TatpLoad {
    type Source = TatpLoadSource;

    fn source(self: &Arc<Self>, _thread: usize, _rng: Rng) -> TatpLoadSource {
        TatpLoadSource { load: Arc::clone(self), from: 0 }
    }

    fn transactions(&self) -> Option<u64> {
        Some(u64::from(self.settings.subscribers).div_ceil(BATCH))
    }
}

/// The inserts of one thread.
#[derive(Debug)]
pub struct TatpLoadSource {
    load: Arc<TatpLoad>,
    /// Number of subscribers before those that the transaction loads.
    from: u64,
}

impl Source for TatpLoadSource {
    fn plan(&mut self) -> Option<Planned> {
        let from = self.load.next.fetch_add(BATCH, Ordering::Relaxed);
        (from < self.load.settings.subscribers.into()).then(|| self.again(from))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        self.from = ticket;
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        // The number of subscribers is a `u32`, so the casts lose nothing.
        let to = (self.from + BATCH).min(self.load.settings.subscribers.into());
        for subscriber in self.from as u32 + 1..=to as u32 {
            insert(transaction, subscriber, &SubscriberRows::new(self.load.seed, subscriber))?;
        }
        Ok(Ending::Commit)
    }
}

fn insert<T: Transaction>(transaction: &mut T, subscriber: u32, all: &SubscriberRows) -> Result<()> {
    let key = rows::subscriber(subscriber);
    add(transaction, &key, &all.subscriber)?;
    transaction.on(SUBSCRIBER_BY_NUMBER).insert(&all.subscriber.number, &key)?;
    for (kind, row) in &all.access {
        add(transaction, &rows::of_subscriber(subscriber, *kind), row)?;
    }
    for Facility { kind, row, forwardings } in &all.facilities {
        add(transaction, &rows::of_subscriber(subscriber, *kind), row)?;
        for (start, row) in forwardings {
            add(transaction, &rows::forwarding(subscriber, *kind, *start), row)?;
        }
    }
    Ok(())
}
