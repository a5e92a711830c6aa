//! The load phase inserts every record in a transaction of its own.

use super::settings::Settings;
use super::values::Values;
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Inserts the records of a workload.
#[derive(Debug)]
pub struct YcsbLoad {
    settings: Settings,
    next: AtomicU64,
}

impl YcsbLoad {
    /// The load phase of a workload.
    pub fn new(settings: &Settings) -> Arc<Self> {
        Arc::new(YcsbLoad { settings: settings.clone(), next: AtomicU64::new(settings.insert_start) })
    }
}

impl Workload for YcsbLoad {
    type Source = LoadSource;

    fn source(self: &Arc<Self>, _thread: usize, mut rng: Rng) -> LoadSource {
        LoadSource {
            values: Values::new(&self.settings, &mut rng),
            load: Arc::clone(self),
            rng,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    fn transactions(&self) -> Option<u64> {
        Some(self.settings.insert_count)
    }
}

/// Source of one thread's inserts.
#[derive(Debug)]
pub struct LoadSource {
    load: Arc<YcsbLoad>,
    rng: Rng,
    values: Values,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Source for LoadSource {
    fn plan(&mut self) -> Option<Planned> {
        let settings = &self.load.settings;
        let number = self.load.next.fetch_add(1, Ordering::Relaxed);
        if number >= settings.insert_start + settings.insert_count {
            return None;
        }
        Some(self.again(number))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        self.load.settings.key(ticket, &mut self.key);
        self.values.record(&self.key, &mut self.rng, &mut self.value);
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        transaction.insert(&self.key, &self.value)?;
        Ok(Ending::Commit)
    }
}
