//! The run phase: requests of the given kinds in the given proportions, each in a transaction of
//! its own.
//!
//! An update reads and locks the record, changes one field and writes the record back in one
//! transaction. With `writeallfields`, an update writes a new record without reading. A
//! read-modify-write always reads. Rules:
//!
//! 1. A request asks for a record only after the record's insert was acknowledged. A missing record
//!    is therefore an error.
//! 2. Running a planned request again (after a conflict) repeats the same operations.

use super::record;
use super::settings::{Operation, ScanLength, Settings};
use super::values::Values;
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::generate::{AcknowledgedCounter, KeyChooser, ZIPFIAN_CONSTANT, Zipfian};
use crate::store::{Keys, Result, Shown, StoreError, Transaction};
use fastrand::Rng;
use std::sync::Arc;

/// The requests of a workload on a loaded table.
#[derive(Debug)]
pub struct YcsbRun {
    settings: Settings,
    inserted: AcknowledgedCounter,
    chooser: KeyChooser,
}

impl YcsbRun {
    /// The run phase of a workload on a table with the records from `insert_start` up to but not
    /// including `next`, which is the number of the first new record. `expected` is the expected
    /// number of requests.
    pub fn new(settings: &Settings, next: u64, expected: u64) -> Arc<Self> {
        let first = settings.insert_start;
        let inserts = (expected as f64 * settings.share(Operation::Insert) * 2.0) as u64;
        Arc::new(YcsbRun {
            chooser: KeyChooser::new(settings.distribution, first, next.saturating_sub(first), inserts),
            inserted: AcknowledgedCounter::new(next),
            settings: settings.clone(),
        })
    }

    /// The number after the last inserted record.
    pub fn next_record(&self) -> u64 {
        self.inserted.issued()
    }
}

impl Workload for YcsbRun {
    type Source = RunSource;

    fn source(self: &Arc<Self>, _thread: usize, mut rng: Rng) -> RunSource {
        let scan = match self.settings.scan_length {
            ScanLength::Uniform(min, max) => ScanDrawing::Uniform(min, max),
            ScanLength::Zipfian(min, max) => {
                ScanDrawing::Zipfian(min, Zipfian::new(u64::from(max - min) + 1, ZIPFIAN_CONSTANT))
            }
        };
        RunSource {
            values: Values::new(&self.settings, &mut rng),
            chooser: self.chooser.clone(),
            run: Arc::clone(self),
            rng,
            scan,
            operation: Operation::Read,
            key: Vec::new(),
            value: Vec::new(),
            field: None,
            scan_length: 0,
        }
    }

    fn acknowledged(&self, ticket: u64) {
        self.inserted.acknowledge(ticket);
    }

    fn in_flight_max(&self) -> usize {
        AcknowledgedCounter::WINDOW / 2
    }
}

#[derive(Debug)]
enum ScanDrawing {
    Uniform(u32, u32),
    Zipfian(u32, Zipfian),
}

/// Source of one thread's requests.
#[derive(Debug)]
pub struct RunSource {
    run: Arc<YcsbRun>,
    rng: Rng,
    values: Values,
    chooser: KeyChooser,
    scan: ScanDrawing,
    operation: Operation,
    key: Vec<u8>,
    /// The value to write: the contents of one field, or a record.
    value: Vec<u8>,
    /// The field to read or write; `None` for all fields.
    field: Option<usize>,
    scan_length: usize,
}

impl RunSource {
    fn choose_operation(&mut self) -> Operation {
        let proportions = &self.run.settings.proportions;
        let mut at = self.rng.f64();
        for (operation, share) in proportions {
            if at < *share {
                return *operation;
            }
            at -= share;
        }
        proportions.last().map_or(Operation::Read, |(operation, _)| *operation)
    }

    fn missing(&self) -> StoreError {
        StoreError::Inconsistent(format!("record {} was acknowledged and is missing", Shown(&self.key)))
    }

    fn wrong(&self, what: &str) -> StoreError {
        StoreError::Inconsistent(format!("the value of {} {what}", Shown(&self.key)))
    }

    fn read<T: Transaction>(&mut self, transaction: &mut T) -> Result<()> {
        let (values, key, field) = (&mut self.values, &self.key, self.field);
        let mut checked = None;
        let mut check = |value: &[u8]| checked = Some(values.check(key, value, field));
        if self.run.settings.borrows_values {
            transaction.get_with(key, &mut check)?;
        } else if let Some(value) = transaction.get(key)? {
            check(&value);
        }
        checked.ok_or_else(|| self.missing())?.map_err(|what| self.wrong(what))
    }

    fn scan<T: Transaction>(&mut self, transaction: &mut T) -> Result<()> {
        let (values, field) = (&mut self.values, self.field);
        let mut fault = None;
        let mut first = true;
        let key = &self.key;
        let seen = transaction.range(Keys::from(key), self.scan_length, &mut |found, value| {
            if std::mem::take(&mut first) && found != key.as_slice() {
                fault = Some(StoreError::Inconsistent(format!(
                    "record {} is not where its scan began",
                    Shown(key)
                )));
            } else if let Err(what) = values.check(found, value, field) {
                fault = Some(StoreError::Inconsistent(format!("the value of {} {what}", Shown(found))));
            }
        })?;
        match fault {
            Some(fault) => Err(fault),
            None if seen == 0 => Err(self.missing()),
            None => Ok(()),
        }
    }

    fn modify<T: Transaction>(&mut self, transaction: &mut T) -> Result<()> {
        let mut value = transaction.get_for_update(&self.key)?.ok_or_else(|| self.missing())?;
        if self.operation == Operation::ReadModifyWrite {
            self.values.check(&self.key, &value, None).map_err(|what| self.wrong(what))?;
        }
        match self.field {
            Some(field) if record::replace(&mut value, field, &self.value) => {
                transaction.put(&self.key, &value)
            }
            Some(_) => Err(self.wrong("has no such field")),
            None => transaction.put(&self.key, &self.value),
        }
    }
}

impl Source for RunSource {
    fn plan(&mut self) -> Option<Planned> {
        let run = Arc::clone(&self.run);
        let settings = &run.settings;
        self.operation = self.choose_operation();
        if self.operation == Operation::Insert {
            return Some(self.again(run.inserted.next()));
        }
        let number = self.chooser.next(&mut self.rng, run.inserted.acknowledged());
        settings.key(number, &mut self.key);
        let writes = matches!(self.operation, Operation::Update | Operation::ReadModifyWrite);
        let all = if writes { settings.write_all_fields } else { settings.read_all_fields };
        self.field = (!all).then(|| self.values.choose_field(&mut self.rng));
        match (writes, self.field) {
            (true, Some(field)) => self.values.field(&self.key, field, &mut self.rng, &mut self.value),
            (true, None) => self.values.record(&self.key, &mut self.rng, &mut self.value),
            (false, _) => {}
        }
        if self.operation == Operation::Scan {
            self.scan_length = match &self.scan {
                ScanDrawing::Uniform(min, max) => self.rng.u32(*min..=*max) as usize,
                ScanDrawing::Zipfian(min, zipfian) => *min as usize + zipfian.next(&mut self.rng) as usize,
            };
        }
        Some(Planned { class: if writes { Class::Write } else { Class::Read }, ticket: None })
    }

    fn again(&mut self, ticket: u64) -> Planned {
        self.operation = Operation::Insert;
        self.run.settings.key(ticket, &mut self.key);
        self.values.record(&self.key, &mut self.rng, &mut self.value);
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        match self.operation {
            Operation::Read => self.read(transaction)?,
            Operation::Scan => self.scan(transaction)?,
            Operation::Insert => transaction.insert(&self.key, &self.value)?,
            Operation::Update if self.field.is_none() => transaction.put(&self.key, &self.value)?,
            Operation::Update | Operation::ReadModifyWrite => self.modify(transaction)?,
        }
        Ok(Ending::Commit)
    }
}
