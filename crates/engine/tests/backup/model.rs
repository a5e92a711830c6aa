//! Writers that remember their transactions, and the check of a copy against these.
//!
//! Each writer counts its transactions in a row of its own, so each transaction depends on the
//! writer's previous one. A copy therefore has a prefix of each writer's transactions. Writers also
//! read rows of other writers, so that with several streams transactions depend on transactions in
//! other streams.

use crate::common::{Rng, assert_sound, options_for};
use katydid::{BackupReport, CommitStamp, Database, EngineKind, Options, Table};
use katydid_device::Directory;
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A transaction that was acknowledged.
#[derive(Debug, Clone)]
pub struct Done {
    writer: usize,
    /// Number of the transaction among those of its writer, from 1.
    number: u64,
    stamp: CommitStamp,
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn counter(writer: usize) -> Vec<u8> {
    format!("writer-{writer}").into_bytes()
}

/// A client that writes.
pub struct Writer {
    pub number: usize,
    pub rng: Rng,
    /// Number of rows that all writers share.
    pub rows: u64,
    pub done: Vec<Done>,
}

impl Writer {
    pub fn new(number: usize, seed: u64, rows: u64) -> Writer {
        Writer { number, rng: Rng::with_seed(seed ^ (number as u64) << 32), rows, done: Vec::new() }
    }

    /// Returns the number of the writer's acknowledged transactions.
    pub fn count(&self) -> u64 {
        self.done.len() as u64
    }

    /// Runs one transaction, and runs it again after a conflict.
    pub fn write(&mut self, database: &Database, table: &Table) {
        let number = self.done.len() as u64 + 1;
        loop {
            let (stamp, writes) = match self.attempt(database, table, number) {
                Ok(done) => done,
                Err(error) if error.is_retryable() => continue,
                Err(error) => panic!("writer {}: {error}", self.number),
            };
            self.done.push(Done { writer: self.number, number, stamp, writes });
            return;
        }
    }

    #[allow(clippy::type_complexity)]
    fn attempt(
        &mut self,
        database: &Database,
        table: &Table,
        number: u64,
    ) -> katydid::Result<(CommitStamp, Vec<(Vec<u8>, Option<Vec<u8>>)>)> {
        let txn = database.begin()?;
        let mut writes = vec![(counter(self.number), Some(number.to_le_bytes().to_vec()))];
        for _ in 0..self.rng.usize(1..4) {
            let (read, write) = (self.rng.u64(..self.rows), self.rng.u64(..self.rows));
            let seen = txn.get(table, crate::common::key(read))?.map_or(0, |value| value.len() as u64);
            let value = match self.rng.u8(..10) {
                0 => None,
                // A value that does not fit a page.
                1 => Some(vec![number as u8; 5_000 + self.rng.usize(..5_000)]),
                _ => Some(vec![seen as u8 ^ number as u8; self.rng.usize(..600)]),
            };
            writes.push((crate::common::key(write), value));
        }
        for (key, value) in &writes {
            match value {
                Some(value) => txn.put(table, key, value)?,
                None => drop(txn.delete(table, key)?),
            }
        }
        Ok((txn.commit()?, writes))
    }
}

/// Asserts that the copy in `directory` has a prefix of each writer's transactions and nothing
/// else, and at least `before` of each writer's. In the paged engine these must be exactly the
/// transactions up to the copy's stamp. Verifies the copy before opening it.
pub fn check(
    directory: &Arc<dyn Directory>,
    engine: EngineKind,
    report: &BackupReport,
    history: &[Done],
    before: &[u64],
) {
    assert_sound(&Database::verify_in(directory.clone(), None).expect("verify"));
    let database = Database::open_in(directory.clone(), Options { create: false, ..options_for(engine) });
    let database = database.expect("the copy opens");
    let table = database.open_table("rows").expect("open table").expect("it has the table");
    let found = crate::common::contents(&database, &table);
    let count = |writer: usize| {
        let raw =
            found.get(&counter(writer)).map_or([0; 8], |raw| raw.as_slice().try_into().expect("a number"));
        u64::from_le_bytes(raw)
    };
    let counts: Vec<u64> = (0..before.len()).map(count).collect();
    for (writer, (count, before)) in counts.iter().zip(before).enumerate() {
        assert!(count >= before, "writer {writer}: {count} of {before} that were durable before");
    }
    let mut kept: Vec<&Done> = history.iter().filter(|done| done.number <= counts[done.writer]).collect();
    kept.sort_by_key(|done| done.stamp);
    let mut model = Rows::new();
    for done in &kept {
        for (key, value) in &done.writes {
            match value {
                Some(value) => drop(model.insert(key.clone(), value.clone())),
                None => drop(model.remove(key)),
            }
        }
    }
    assert!(found == model, "the rows are not those of the {} transactions that are in it", kept.len());
    for done in history {
        let is_in = done.number <= counts[done.writer];
        let by_stamp = done.stamp <= report.stamp;
        assert!(!is_in || by_stamp, "{:?} is in it, the stamp is {}", done.stamp, report.stamp);
        if engine == EngineKind::Paged {
            assert_eq!(is_in, by_stamp, "{:?}, the stamp is {}", done.stamp, report.stamp);
        }
    }
    assert_sound(&database.verify(None).expect("verify"));
    // The copy can be written to like any database.
    database.put(&table, "afterwards", "written").expect("put");
    database.close().expect("close");
}
