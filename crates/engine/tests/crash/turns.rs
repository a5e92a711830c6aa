//! Several clients, each on a thread and with a log session of its own, that take turns as the seed
//! says. So in every run the same records lie below older ones, and a crash at a step always leaves
//! the same bytes, although the clients' transactions are open at the same time.
//!
//! No client ever has to wait for a lock, because each step picks keys that the other clients have
//! not locked. After recovery the marks show which transactions survived; each client has its own
//! table of marks, so that marks cause no order between transactions of different clients. Every
//! acknowledged transaction must have survived. If a transaction survived, every transaction whose
//! writes it read or replaced must have survived. The store must be what the survivors wrote, in
//! the order of their commits.
//!
//! In the memory engine a transaction that writes without reading depends on no other transaction,
//! and a transaction that reads sees the rows that were committed when it began. So the steps of a
//! transaction also avoid rows that were committed after it began, unless a step writes the row
//! without reading it. A commit's stamp is its timestamp.
//!
//! A rollback to a savepoint undoes writes, but releases no locks and forgets no reads. The
//! transaction still needs the attempts that wrote what it has read and, if writes are ordered,
//! what it had replaced. A reader that rolls back was still shown the rows that it had read, so
//! these rows must survive if it is acknowledged.

use crate::common::{Rng, key};
use crate::history::{Model, Unit, apply};
use crate::machine::{Machine, Point, Steps};
use crate::worker::Worker;
use katydid::testing::{Background, run_background};
use katydid::{
    Access, CommitFuture, CommitStamp, Database, Durability, EngineKind, Error, InserterKind, LockRelease,
    LogKind, Savepoint, Transaction, TransactionOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

const CLIENTS: usize = 3;
/// Tables, and so pages, that all clients use.
const SHARED: [&str; 4] = ["s0", "s1", "s2", "s3"];
/// Number of keys of each table.
const KEYS: u64 = 6;
/// A table that the clients create and drop.
const BRIEF: &str = "brief";

/// The name of a table, and a key.
type Cell = (String, Vec<u8>);
/// A unit that survives a crash as a whole or not at all.
#[derive(Debug)]
struct Attempt {
    /// The client; none for a table created or dropped.
    client: Option<usize>,
    mark: Vec<u8>,
    unit: Unit,
    /// Attempts that must have survived if this attempt has.
    needs: BTreeSet<usize>,
    acknowledged: bool,
    /// True if the commit ended with an error: recovery may bring the attempt back or not.
    failed: bool,
    /// Stamp of the commit, if it is known.
    stamp: Option<CommitStamp>,
}

/// A transaction under way.
struct Open {
    txn: Transaction,
    durability: Durability,
    /// Number of the transaction's mark, which is the first key that it wrote.
    mark: u64,
    writes: Vec<(String, Vec<u8>, Option<Vec<u8>>)>,
    /// Savepoints of the transaction, each with the number of writes before the savepoint.
    savepoints: Vec<(Savepoint, usize)>,
    /// Cells that the transaction wrote, and whose writes it took back.
    taken_back: BTreeSet<Cell>,
    needs: BTreeSet<usize>,
    read: BTreeSet<Cell>,
    /// Number of attempts that were made before this transaction began.
    begun: usize,
}

impl Open {
    fn wrote(&self, cell: &Cell) -> bool {
        self.writes.iter().any(|(table, key, _)| (table, key) == (&cell.0, &cell.1))
    }

    /// Returns whether the transaction has locked the cell to write it: a rollback to a savepoint
    /// keeps the lock.
    fn holds(&self, cell: &Cell) -> bool {
        self.wrote(cell) || self.taken_back.contains(cell)
    }

    /// Returns whether the transaction has locked a cell of the table to write it.
    fn holds_any_of(&self, table: &str) -> bool {
        let mut cells =
            self.writes.iter().map(|(name, ..)| name).chain(self.taken_back.iter().map(|(name, _)| name));
        cells.any(|name| name == table)
    }

    fn entered(&self, table: &str) -> bool {
        self.holds_any_of(table) || self.read.iter().any(|(name, _)| name == table)
    }

    /// Rolls back to one of the transaction's savepoints, after which the later ones are not valid.
    fn take_back(&mut self, nth: usize) -> Result<(), Error> {
        self.savepoints.truncate(nth + 1);
        let (savepoint, length) = &self.savepoints[nth];
        self.txn.rollback_to(savepoint)?;
        self.taken_back.extend(self.writes.drain(length..).map(|(table, key, _)| (table, key)));
        Ok(())
    }
}

pub struct Turns<'a> {
    machine: &'a Machine,
    workers: &'a [Worker],
    seed: u64,
    random: Rng,
    base: Model,
    attempts: Vec<Attempt>,
    /// Attempts that acknowledged readers need.
    shown: BTreeSet<usize>,
    /// For each cell, the attempt that wrote it last.
    writers: BTreeMap<Cell, usize>,
    open: Vec<Option<Open>>,
    pending: Vec<(usize, CommitFuture)>,
    marks: u64,
}

fn own(client: usize) -> String {
    format!("own-{client}")
}

fn mark(number: u64) -> Vec<u8> {
    format!("mark-{number:08}").into_bytes()
}

impl<'a> Turns<'a> {
    fn new(machine: &'a Machine, workers: &'a [Worker], seed: u64, base: Model, marks: u64) -> Self {
        Turns {
            machine,
            workers,
            seed,
            random: Rng::with_seed(seed ^ marks),
            base,
            attempts: Vec::new(),
            shown: BTreeSet::new(),
            writers: BTreeMap::new(),
            open: (0..CLIENTS).map(|_| None).collect(),
            pending: Vec::new(),
            marks,
        }
    }

    /// Takes `steps` steps. With `crash_in_sync` the device then crashes in a sync, a checkpoint,
    /// or the creation or drop of a table, if it has not crashed before. The database ends with
    /// transactions under way.
    fn run(&mut self, steps: usize, crash_in_sync: bool) -> Result<(), Error> {
        let database = self.machine.open(self.seed)?;
        let mut result = self.run_open(&database, steps);
        if crash_in_sync && result.is_ok() && self.random.u32(0..3) == 0 {
            // The crash in the sync below must not lose the rows that this reader is shown.
            self.settle();
            let client = self.random.usize(..CLIENTS);
            result = self.show(&database, client);
        }
        if crash_in_sync && result.is_ok() {
            let device = &self.machine.device;
            // The device usually crashes at the write of the log, sometimes at a sync.
            device.crash_at(device.steps() + self.random.u64(0..3) / 2);
            let client = self.random.usize(..CLIENTS);
            result = match self.random.u32(0..4) {
                0 => self.come_or_go(&database, client),
                1 => {
                    let database = database.clone();
                    self.workers[client].run(move || database.checkpoint()).map(|_| ())
                }
                _ => database.sync().map(|_| ()),
            };
        }
        self.settle();
        // If no crash has ended the database, one ends it now, with transactions under way.
        self.machine.device.freeze();
        self.open.iter_mut().for_each(|open| drop(open.take()));
        self.pending.clear();
        result
    }

    fn run_open(&mut self, database: &Database, steps: usize) -> Result<(), Error> {
        let tables = SHARED.map(str::to_owned).into_iter().chain((0..CLIENTS).map(own));
        for name in tables.collect::<Vec<_>>() {
            self.create(database, &name)?;
        }
        for _ in 0..steps {
            self.settle();
            if self.machine.has_crashed_silently() {
                return Err(Error::Closed);
            }
            let client = self.random.usize(..CLIENTS);
            match self.random.u32(0..200) {
                0..3 => {
                    let database = database.clone();
                    self.workers[client].run(move || database.checkpoint())?;
                }
                3 => run_background(database),
                4..7 => self.come_or_go(database, client)?,
                7..13 => self.show(database, client)?,
                _ => self.step(database, client)?,
            }
        }
        Ok(())
    }

    /// Finds out which commits have become durable.
    fn settle(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let (attempts, device) = (&mut self.attempts, &self.machine.device);
        self.pending.retain_mut(|(number, future)| match Pin::new(future).poll(&mut context) {
            Poll::Ready(outcome) => {
                if let Err(error) = &outcome {
                    assert!(!error.is_retryable(), "no two are in each other's way: {error}");
                    assert!(device.is_crashed(), "a commit failed without a crash: {error}");
                }
                attempts[*number].acknowledged |= outcome.is_ok();
                attempts[*number].failed = outcome.is_err();
                attempts[*number].stamp = outcome.ok();
                false
            }
            Poll::Pending => true,
        });
    }

    fn state(&self) -> Model {
        self.replay(|_| true)
    }

    fn replay(&self, survived: impl Fn(usize) -> bool) -> Model {
        let mut model = self.base.clone();
        for (number, attempt) in self.attempts.iter().enumerate().filter(|(number, _)| survived(*number)) {
            let Unit::Commit(writes) = &attempt.unit else {
                apply(&mut model, &attempt.unit);
                continue;
            };
            for (table, ..) in writes {
                assert!(model.contains_key(table), "attempt {number} survived, its table {table} did not");
            }
            apply(&mut model, &attempt.unit);
        }
        model
    }

    fn attempt(&mut self, client: Option<usize>, unit: Unit, needs: BTreeSet<usize>) -> usize {
        self.attempts.push(Attempt {
            client,
            mark: Vec::new(),
            unit,
            needs,
            acknowledged: false,
            failed: false,
            stamp: None,
        });
        self.attempts.len() - 1
    }

    fn create(&mut self, database: &Database, name: &str) -> Result<(), Error> {
        if !self.state().contains_key(name) {
            let number = self.attempt(None, Unit::Create(name.to_owned()), BTreeSet::new());
            database.table(name)?;
            self.attempts[number].acknowledged = true;
        }
        Ok(())
    }

    /// Creates [`BRIEF`], or drops it if no client uses it.
    fn come_or_go(&mut self, database: &Database, client: usize) -> Result<(), Error> {
        if !self.state().contains_key(BRIEF) {
            return self.create(database, BRIEF);
        }
        if self.open.iter().flatten().any(|open| open.entered(BRIEF)) {
            return Ok(());
        }
        let users = self.writers.iter().filter(|((table, _), _)| table == BRIEF).map(|(_, number)| *number);
        let needs = if self.machine.orders_writes() { users.collect() } else { BTreeSet::new() };
        let number = self.attempt(None, Unit::Drop(BRIEF.to_owned()), needs);
        let database = database.clone();
        self.workers[client].run(move || database.drop_table(BRIEF))?;
        self.attempts[number].acknowledged = true;
        self.writers.retain(|(table, _), _| table != BRIEF);
        Ok(())
    }

    /// Runs a transaction that reads a shared table, or deletes a key of the table and rolls the
    /// deletion back. If the commit succeeds, everything that the transaction was shown is durable,
    /// even rows that it read after a savepoint to which it rolled back.
    fn show(&mut self, database: &Database, client: usize) -> Result<(), Error> {
        let shared = SHARED[self.random.usize(..SHARED.len())];
        if self.open.iter().flatten().any(|open| open.holds_any_of(shared)) {
            return Ok(());
        }
        let access = if self.random.bool() { Access::ReadOnly } else { Access::ReadWrite };
        let is_seen = |number: usize| access == Access::ReadWrite || !self.is_hidden(number);
        let expected = self.replay(is_seen)[shared].clone();
        let mut authors = self.authors(shared, is_seen);
        let options = TransactionOptions { access, ..TransactionOptions::default() };
        let goes_back = self.random.bool();
        let is_read = self.open.iter().flatten().any(|open| open.entered(shared));
        let deletes = goes_back && access == Access::ReadWrite && !is_read && self.random.bool();
        let key = key(self.random.u64(0..KEYS));
        // In the memory engine a view need not show commits that are not acknowledged yet, so it
        // may show an older state.
        let may_be_older = access == Access::ReadOnly && !self.machine.orders_writes();
        authors.retain(|author, _| match deletes {
            true => *author == key,
            // If the key is absent, nothing says which of several deletions the reader has seen.
            false => !may_be_older || expected.contains_key(author),
        });
        let database = database.clone();
        let is_current = self.workers[client].run(move || -> Result<bool, Error> {
            let table = database.open_table(shared)?.expect("a table that was created");
            let txn = database.begin_with(options)?;
            let savepoint = goes_back.then(|| txn.savepoint());
            let is_current = if deletes {
                txn.delete(&table, &key)? == expected.contains_key(&key)
            } else {
                let rows: Result<BTreeMap<_, _>, Error> = txn.range(&table, ..).collect();
                rows? == expected
            };
            if let Some(savepoint) = savepoint {
                txn.rollback_to(&savepoint)?;
            }
            txn.commit()?;
            Ok(is_current)
        })?;
        assert!(is_current || may_be_older, "a reader was shown something else than was committed");
        self.shown.extend(authors.into_values().filter(|_| is_current));
        Ok(())
    }

    /// Returns whether the attempt is hidden: no view sees it, and no transaction sees the keys
    /// that it locked. With `LockRelease::AfterDurable` a commit that fails is never shown, and
    /// keeps its locks.
    fn is_hidden(&self, number: usize) -> bool {
        self.attempts[number].failed
            && self.machine.engine() == EngineKind::Paged
            && self.machine.lock_release(self.seed) == LockRelease::AfterDurable
    }

    /// Returns, for each key of the table, the last attempt that changed the key, among the
    /// attempts for which `is_seen` holds. The deletion of an absent key is no change, because no
    /// transaction can see it.
    fn authors(&self, table: &str, is_seen: impl Fn(usize) -> bool) -> BTreeMap<Vec<u8>, usize> {
        let mut there: BTreeSet<_> = self.base.get(table).into_iter().flat_map(BTreeMap::keys).collect();
        let mut authors = BTreeMap::new();
        for (number, attempt) in self.attempts.iter().enumerate().filter(|(number, _)| is_seen(*number)) {
            let Unit::Commit(writes) = &attempt.unit else { continue };
            for (_, key, value) in writes.iter().filter(|(name, ..)| name == table) {
                let was_there = there.remove(key);
                there.extend(value.is_some().then_some(key));
                if was_there || value.is_some() {
                    authors.insert(key.clone(), number);
                }
            }
        }
        authors
    }

    fn step(&mut self, database: &Database, client: usize) -> Result<(), Error> {
        let Some(mut open) = self.open[client].take() else {
            let durability = match self.random.u32(0..4) {
                0 if self.random.bool() => Durability::Written,
                0 => Durability::Buffered,
                _ => Durability::Durable,
            };
            let options = TransactionOptions { durability, ..TransactionOptions::default() };
            let handle = database.open_table(&own(client))?.expect("a table that was created");
            self.marks += 1;
            let mark = mark(self.marks);
            let writes = vec![(own(client), mark.clone(), Some(Vec::new()))];
            let txn = database.begin_with(options)?;
            let txn = self.workers[client].run(move || txn.put(&handle, mark, []).map(|()| txn))?;
            let (savepoints, taken_back, needs, read) = Default::default();
            let (mark, begun) = (self.marks, self.attempts.len());
            self.open[client] =
                Some(Open { txn, durability, mark, writes, savepoints, taken_back, needs, read, begun });
            return Ok(());
        };
        // A transaction may go over to another thread, and another session of the log, for one
        // step.
        let moves = self.random.u32(0..16) == 0;
        let worker = &self.workers[if moves { self.random.usize(..CLIENTS) } else { client }];
        match self.random.u32(0..28) {
            0..5 => return self.commit(client, open),
            5 => return worker.run(move || open.txn.rollback()),
            6..8 => {
                open.savepoints.push((open.txn.savepoint(), open.writes.len()));
                self.open[client] = Some(open);
                return Ok(());
            }
            8..10 if !open.savepoints.is_empty() => {
                let nth = self.random.usize(..open.savepoints.len());
                self.open[client] = Some(worker.run(move || open.take_back(nth).map(|()| open))?);
                return Ok(());
            }
            _ => {}
        }
        let table = match self.random.u32(0..8) {
            0..3 => own(client),
            3 if self.state().contains_key(BRIEF) => BRIEF.to_owned(),
            _ => SHARED[self.random.usize(..SHARED.len())].to_owned(),
        };
        let cell = (table, key(self.random.u64(0..KEYS)));
        let mut others = self.open.iter().flatten();
        let writes = self.random.u32(0..3) != 0 || cell.0 == own(client);
        let puts = writes && self.random.u32(0..4) != 0;
        let ordered = self.machine.orders_writes();
        let is_newer = self.writers.get(&cell).is_some_and(|writer| *writer >= open.begun);
        if !ordered && !puts && is_newer && !open.wrote(&cell) {
            self.open[client] = Some(open);
            return Ok(());
        }
        if others.any(|other| other.holds(&cell) || writes && other.read.contains(&cell)) {
            self.open[client] = Some(open);
            return Ok(());
        }
        if ordered || !puts && !open.wrote(&cell) {
            open.needs.extend(self.writers.get(&cell));
        }
        let (name, key) = cell.clone();
        let handle = database.open_table(&name)?.expect("a table that was created");
        if writes {
            let length = match self.random.u32(0..30) {
                0 => self.random.usize(0..20_000),
                1 | 2 => self.random.usize(0..1500),
                _ => self.random.usize(0..120),
            };
            let value = puts.then(|| vec![self.random.u8(..); length]);
            let write = (name, key.clone(), value.clone());
            let is_there;
            (open, is_there) = worker.run(move || -> Result<(Open, bool), Error> {
                let is_there = match value {
                    Some(value) => open.txn.put(&handle, &key, value).map(|()| true)?,
                    None => open.txn.delete(&handle, &key)?,
                };
                Ok((open, is_there))
            })?;
            if ordered || is_there {
                open.writes.push(write);
            } else {
                // The deletion found nothing: the transaction has only seen that the key is absent.
                open.read.insert(cell);
            }
        } else {
            let own = open.writes.iter().rev().find(|(table, k, _)| (table, k) == (&name, &key));
            let expected = match own {
                Some((.., value)) => value.clone(),
                None => self.state()[&name].get(&key).cloned(),
            };
            open.read.insert(cell);
            let found;
            (open, found) = worker.run(move || {
                let found = open.txn.get(&handle, &key);
                (open, found)
            });
            assert!(found? == expected, "a read of something else than was committed");
        }
        self.open[client] = Some(open);
        Ok(())
    }

    fn commit(&mut self, client: usize, open: Open) -> Result<(), Error> {
        let unit = Unit::Commit(open.writes.clone());
        let number = self.attempt(Some(client), unit, open.needs);
        self.attempts[number].mark = mark(open.mark);
        for (table, key, _) in open.writes {
            self.writers.insert((table, key), number);
        }
        let durable = open.durability == Durability::Durable;
        let blocks = !durable || self.random.u32(0..8) == 0;
        let here = self.random.u32(0..4) == 0;
        let pre_committed = self.workers[client].run(move || -> Result<_, Error> {
            if blocks {
                return Ok(Err(open.txn.commit()?));
            }
            // A transaction may go over to another thread, and another session of the log.
            Ok(Ok(if here { Err(open.txn) } else { Ok(open.txn.commit_async()) }))
        })?;
        match pre_committed {
            Err(stamp) => {
                self.attempts[number].acknowledged = durable;
                self.attempts[number].stamp = Some(stamp);
            }
            Ok(Ok(future)) => self.pending.push((number, future)),
            Ok(Err(txn)) => self.pending.push((number, txn.commit_async())),
        }
        Ok(())
    }

    /// Checks what recovery left.
    fn check(&self, found: &Model) {
        for attempt in &self.attempts {
            let below =
                |needed: &usize| attempt.stamp.is_none() || self.attempts[*needed].stamp <= attempt.stamp;
            assert!(attempt.needs.iter().all(below), "{attempt:?} lies below what it depends on");
        }
        let marked =
            |client: usize, mark: &[u8]| found.get(&own(client)).is_some_and(|rows| rows.contains_key(mark));
        let last = self.attempts.len().saturating_sub(1);
        let survived: Vec<bool> = self
            .attempts
            .iter()
            .enumerate()
            .map(|(number, attempt)| match (&attempt.unit, attempt.client) {
                (Unit::Commit(_), Some(client)) => marked(client, &attempt.mark),
                // A crash can have interrupted a creation or drop only if this was the last
                // attempt.
                (Unit::Create(name), _) if number == last => found.contains_key(name),
                (Unit::Drop(name), _) if number == last => !found.contains_key(name),
                _ => true,
            })
            .collect();
        for (number, attempt) in self.attempts.iter().enumerate() {
            if !survived[number] {
                assert!(!attempt.acknowledged, "attempt {number} was acknowledged and is lost");
                assert!(!self.shown.contains(&number), "attempt {number} was shown and is lost");
                continue;
            }
            for needed in &attempt.needs {
                assert!(
                    survived[*needed],
                    "attempt {number} is there, {needed}, which it depends on, is not"
                );
            }
        }
        let expected = self.replay(|number| survived[number]);
        for (name, rows) in &expected {
            for (key, value) in rows {
                let there = found.get(name).and_then(|rows| rows.get(key));
                let text = String::from_utf8_lossy(key);
                assert!(there == Some(value), "{name}: {text} is not what the survivors wrote");
            }
        }
        assert!(*found == expected, "there is more than the survivors wrote");
    }
}

/// Starts the threads that take turns.
pub fn workers() -> Vec<Worker> {
    (0..CLIENTS).map(|_| Worker::start()).collect()
}

/// Returns the steps that a workload takes without a crash.
pub fn steps(
    (engine, log): (EngineKind, LogKind),
    seed: u64,
    inserter: InserterKind,
    units: usize,
    workers: &[Worker],
) -> Steps {
    let machine = Machine::new(engine, seed, Background::Caller)
        .with_inserter(inserter)
        .with_log(log)
        .perhaps_high(seed);
    let mut turns = Turns::new(&machine, workers, seed, Model::new(), 0);
    turns.run(units, false).expect("a run without a crash");
    machine.steps()
}

/// Runs a workload up to a crash at a step, or in the sync at the end if the sync comes first, and
/// recovers. Then does all of this a second time on the recovered store.
pub fn crash_at(
    (engine, log): (EngineKind, LogKind),
    seed: u64,
    inserter: InserterKind,
    units: usize,
    point: Point,
    workers: &[Worker],
) {
    let (Point::Device(step) | Point::Memory(_, step)) = point;
    let mut random = Rng::with_seed(seed ^ (step << 32) ^ 0x7a11);
    let mut machine = Machine::new(engine, seed, Background::Caller)
        .with_inserter(inserter)
        .with_log(log)
        .perhaps_high(seed);
    machine.crash_at(point);
    let (mut base, mut marks) = (Model::new(), 0);
    for _ in 0..2 {
        let mut turns = Turns::new(&machine, workers, seed, base, marks);
        let units = random.usize(units / 8..=units);
        crate::expect_crash(turns.run(units, true), &machine);
        marks = turns.marks + 1;
        let restarted =
            if random.bool() { machine.restart_cut(&mut random) } else { machine.restart(&mut random) };
        let (recovered, database) = crate::recover_restarted(restarted, &mut random, seed);
        let found = crate::everything(&database);
        turns.check(&found);
        crate::common::assert_sound(&database.verify(None).expect("verify"));
        drop(database);
        let again = recovered.open(seed).expect("open again");
        assert!(crate::everything(&again) == found, "opening again changed the store");
        drop(again);
        base = found;
        machine = recovered;
        machine.crash_soon(&mut random, 1000, 1000);
    }
}
