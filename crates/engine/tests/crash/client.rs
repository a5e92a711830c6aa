//! One client with a seeded workload: transactions of all kinds, savepoints, tables made and
//! dropped, checkpoints, closing and opening. Without background threads, the client does their
//! work at moments that the seed picks.

use crate::common::{Rng, key};
use crate::history::{History, Unit};
use crate::machine::Machine;
use katydid::testing::run_background;
use katydid::{Database, Durability, Error, Session, Table, TransactionOptions};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

pub struct Client<'a> {
    machine: &'a Machine,
    seed: u64,
    random: Rng,
    pub history: &'a mut History,
    // The highest unit acknowledged by a callback.
    acknowledged: Arc<AtomicUsize>,
    // True if a callback got a failure. A unit that was begun later may still succeed, which says
    // nothing about the failed unit.
    failed: Arc<AtomicBool>,
    keys: u64,
}

impl<'a> Client<'a> {
    pub fn new(machine: &'a Machine, seed: u64, history: &'a mut History) -> Self {
        let mut random = Rng::with_seed(seed);
        let keys = [8, 40, 200][random.usize(0..3)];
        Client { machine, seed, random, history, acknowledged: Arc::default(), failed: Arc::default(), keys }
    }

    /// Runs until the device crashes or `count` units are done.
    pub fn run(&mut self, count: usize) -> Result<(), Error> {
        let mut done = 0;
        while done < count {
            let database = self.machine.open(self.seed)?;
            let session = database.session();
            let until = done + self.random.usize(5..40);
            let result = self.run_open(&database, &session, &mut done, until.min(count));
            session.poll();
            self.history.acknowledge(self.acknowledged.load(Ordering::Relaxed));
            result?;
            match self.random.u32(0..3) {
                0 => drop((session, database)),
                _ => {
                    session.drain()?;
                    self.history.acknowledge(self.acknowledged.load(Ordering::Relaxed));
                    database.close()?;
                }
            }
        }
        Ok(())
    }

    /// Notes that everything up to this unit is durable, unless a callback got a failure.
    fn acknowledge(&mut self, session: &Session, unit: usize) -> Result<(), Error> {
        session.poll();
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        self.history.acknowledge(unit);
        Ok(())
    }

    fn run_open(
        &mut self,
        database: &Database,
        session: &Session,
        done: &mut usize,
        until: usize,
    ) -> Result<(), Error> {
        while *done < until {
            if self.machine.has_crashed_silently() {
                return Err(Error::Closed);
            }
            if self.random.u32(0..3) == 0 {
                run_background(database);
            }
            session.poll();
            self.history.acknowledge(self.acknowledged.load(Ordering::Relaxed));
            match self.random.u32(0..60) {
                0 => {
                    database.checkpoint()?;
                }
                1 => {
                    let name = self.table_name();
                    if self.history.state().contains_key(&name) {
                        let unit = self.history.attempt(Unit::Drop(name.clone()));
                        session.drain()?;
                        assert!(database.drop_table(&name)?);
                        self.acknowledge(session, unit)?;
                    }
                }
                2 => {
                    let end = self.history.attempt(Unit::Commit(Vec::new()));
                    database.sync()?;
                    self.acknowledge(session, end)?;
                }
                _ => match self.transaction(database, session) {
                    // The transaction was too large for a small log in NVRAM, and is rolled back.
                    Err(Error::LogFull { .. }) => {}
                    outcome => outcome?,
                },
            }
            *done += 1;
        }
        Ok(())
    }

    fn table_name(&mut self) -> String {
        ["a", "b", "c"][self.random.usize(0..3)].to_owned()
    }

    fn table(&mut self, database: &Database, session: &Session) -> Result<(String, Table), Error> {
        let name = self.table_name();
        if !self.history.state().contains_key(&name) {
            let unit = self.history.attempt(Unit::Create(name.clone()));
            let table = database.table(&name)?;
            self.acknowledge(session, unit)?;
            return Ok((name, table));
        }
        let table = database.open_table(&name)?.expect("a table that was created");
        Ok((name, table))
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.u32(0..24) {
            0 => self.random.usize(0..40_000),
            1..5 => self.random.usize(0..2500),
            _ => self.random.usize(0..120),
        };
        let byte = self.random.u8(..);
        (0..length).map(|at| byte.wrapping_add((at / 64) as u8)).collect()
    }

    fn transaction(&mut self, database: &Database, session: &Session) -> Result<(), Error> {
        let (name, table) = self.table(database, session)?;
        let durability = match self.random.u32(0..8) {
            0 => Durability::Buffered,
            1 => Durability::Written,
            _ => Durability::Durable,
        };
        let txn = database.begin_with(TransactionOptions { durability, ..TransactionOptions::default() })?;
        let mut writes: Vec<(String, Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        let mut savepoint = None;
        let count = if self.random.u32(0..15) == 0 { 60 } else { self.random.usize(1..7) };
        for _ in 0..count {
            let key = key(self.random.u64(0..self.keys));
            match self.random.u32(0..12) {
                0..7 => {
                    let value = self.value();
                    txn.put(&table, &key, &value)?;
                    writes.push((name.clone(), key, Some(value)));
                }
                7..10 => {
                    txn.delete(&table, &key)?;
                    writes.push((name.clone(), key, None));
                }
                10 => savepoint = Some((txn.savepoint(), writes.len())),
                _ => {
                    if let Some((savepoint, length)) = &savepoint {
                        txn.rollback_to(savepoint)?;
                        writes.truncate(*length);
                    }
                }
            }
        }
        // Each transaction changes at least this row: a transaction that changes nothing has no
        // record in the log, so its success says nothing about earlier transactions.
        let serial = self.history.next().to_string().into_bytes();
        txn.put(&table, "serial", &serial)?;
        writes.push((name, b"serial".to_vec(), Some(serial)));
        match self.random.u32(0..12) {
            0 => txn.rollback()?,
            1 => drop(txn),
            2..6 => {
                let unit = self.history.attempt(Unit::Commit(writes));
                let acknowledged = (durability == Durability::Durable).then(|| self.acknowledged.clone());
                let (device, failed) = (self.machine.device.clone(), self.failed.clone());
                txn.commit_with(session, move |result| match (result, acknowledged) {
                    (Ok(_), Some(acknowledged)) if !failed.load(Ordering::Relaxed) => {
                        acknowledged.fetch_max(unit, Ordering::Relaxed);
                    }
                    (Ok(_), _) => {}
                    // It is not known whether the commit is durable.
                    (Err(Error::SessionDropped), _) => {}
                    (Err(error), _) => {
                        assert!(device.is_crashed(), "failed without a crash: {error}");
                        failed.store(true, Ordering::Relaxed);
                    }
                });
            }
            6 => {
                let unit = self.history.attempt(Unit::Commit(writes));
                let mut future = txn.commit_async();
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(Err(error)) = Pin::new(&mut future).poll(&mut context) {
                    return Err(error);
                }
                if self.random.bool() {
                    // Without background threads only this call makes the future ready.
                    run_background(database);
                    crate::common::block_on(future)?;
                    if durability == Durability::Durable {
                        self.acknowledge(session, unit)?;
                    }
                }
            }
            _ => {
                let unit = self.history.attempt(Unit::Commit(writes));
                txn.commit()?;
                if durability == Durability::Durable {
                    self.acknowledge(session, unit)?;
                }
            }
        }
        Ok(())
    }
}
