//! Lives with faults. Several processes use one store, one after the other. Any call of the device
//! may fail with a small probability, even while the store is being opened with transactions to
//! undo. A process ends by closing the store, by being killed, or by a crash of the machine; the
//! next process builds on what it finds. Every acknowledged transaction must be there, and no
//! transaction in part.
//!
//! A failed sync leaves bytes in the page cache that will never reach the device (`Fault::SyncIo`).
//! A killed process leaves these bytes to the next process, which must not build on them. A later
//! crash of the machine shows whether the next process has built on them.
//!
//! After a failed sync of a directory the machine crashes before the store is opened again. An
//! opening without a crash would have to trust cached names, because no call drops them. File
//! systems with a journal stop after such a failure (docs/recovery.md).
//!
//! All work is done on the test's thread and each fault is tied to the number of its call, so a
//! seed names one life. Whether a read fails depends on its offset in the file and not on its
//! number, because recovery reads ahead on other threads. At each such offset only the first read
//! fails.

use crate::common::{Rng, assert_sound, key};
use crate::everything;
use crate::history::{History, Unit};
use crate::machine::{Kind, options};
use katydid::testing::{Background, run_background};
use katydid::{Database, Durability, EngineKind, Error, Options, TransactionOptions};
use katydid_device::{Directory, Fault, SimDevice, StripedDirectory, Survival, Verb};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Files to which faults may be limited, so that several faults in a row happen to one file. The
/// last entry means all files.
const TARGETS: [&str; 7] =
    ["katydid.control", "katydid.pages", "doublewrite", "log.control", "log.0", "checkpoints/", ""];

/// Number of processes in one life.
const GENERATIONS: usize = 8;
/// Number of attempts to open the store with faults. The attempt after them has a sound device.
const OPENINGS: usize = 4;

/// One life under way.
struct Life {
    device: SimDevice,
    options: Options,
    is_striped: bool,
    random: Rng,
    history: History,
    /// True if the device is frozen because the process has ended, although the machine has not
    /// crashed.
    is_frozen: bool,
    /// Events, for a failure's message.
    events: Vec<String>,
}

/// Counts of the faults and crashes of a life, so that a test can check that there were some.
#[derive(Debug, Default)]
pub struct LifeEvents {
    pub faults: u64,
    pub failed_openings: u64,
    pub kills: u64,
    pub crashes: u64,
}

/// Returns a number that looks random and depends only on `parts`.
fn hash(parts: &[u64]) -> u64 {
    Rng::with_seed(parts.iter().fold(0x11fe, |sum, part| (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .u64(..)
}

fn fault(verb: Verb, number: u64) -> Fault {
    match verb {
        Verb::Write => match number % 8 {
            0..4 => Fault::SyncIo,
            4 => Fault::Io,
            5 => Fault::NoSpace,
            _ => Fault::ShortWrite(number / 8 % 20),
        },
        Verb::Sync => Fault::SyncIo,
        Verb::Prepare => [Fault::NoSpace, Fault::Io, Fault::SyncIo][number as usize % 3],
        _ => [Fault::NoSpace, Fault::Io][number as usize % 2],
    }
}

impl Life {
    fn say(&mut self, what: impl Into<String>) {
        self.events.push(what.into());
    }

    /// From now on one in `one_in` calls that change the device fails. Often only the changes of
    /// one kind of file fail instead, one in three of them. Of `4 * one_in` blocks that are read,
    /// one fails at its first read. If `one_in` is 0, nothing fails.
    fn strike(&mut self, one_in: u64) {
        self.device.heal();
        if one_in == 0 {
            return;
        }
        let target = TARGETS[self.random.usize(..TARGETS.len() * 2).min(TARGETS.len() - 1)];
        self.say(format!("one fault in {one_in}, of files called {target:?}"));
        let often = if target.is_empty() { one_in } else { 3 };
        let seed = self.random.u64(..);
        self.device.fail_when(move |verb, path, step| {
            let number = hash(&[seed, step]);
            let fails = path.contains(target) && number.is_multiple_of(often);
            fails.then(|| fault(verb, number / often))
        });
        let mut failed = HashSet::new();
        self.device.fail_reads_when(move |path, range| {
            let name =
                path.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
            let is_bad = hash(&[seed, name, range.start / 4096]).is_multiple_of(one_in * 4);
            is_bad && failed.insert((name, range.start / 4096))
        });
    }

    fn directory(&self) -> Result<Arc<dyn Directory>, Error> {
        if !self.is_striped {
            return Ok(self.device.directory());
        }
        let inside = |nth: usize| self.device.directory().subdirectory(&nth.to_string());
        let directories = (0..2).map(inside).collect::<Result<_, _>>()?;
        Ok(Arc::new(StripedDirectory::open(directories, 8 << 10)?))
    }

    fn open(&self) -> Result<Database, Error> {
        Database::open_in(self.directory()?, self.options.clone())
    }

    /// Sometimes lets the machine crash at one of the next steps.
    fn crash_soon(&mut self, steps: u64) {
        if self.random.u32(0..4) == 0 {
            let step = self.device.steps() + self.random.u64(..steps);
            self.device.crash_at(step);
        }
    }

    /// Ends the process by a kill or by a crash of the machine. It is a crash if the machine has
    /// crashed already, or if the sync of a directory has failed.
    fn die(&mut self, database: Option<Database>, met: &mut LifeEvents) {
        let machine = self.device.is_crashed() && !std::mem::take(&mut self.is_frozen);
        // The device is frozen first, so that the drop writes nothing.
        self.device.freeze();
        drop(database);
        if !machine && !self.device.has_lost_names() && self.random.u32(0..5) < 3 {
            met.kills += 1;
            self.say("the process is killed");
            self.device = self.device.reopen_after_kill();
            return;
        }
        self.crash(met);
    }

    fn crash(&mut self, met: &mut LifeEvents) {
        met.crashes += 1;
        let survival = match self.random.u32(0..6) {
            0..2 => Survival::DropAll,
            2 | 3 => Survival::Prefix,
            _ => Survival::Random,
        };
        self.say(format!("the machine crashes, {survival:?}"));
        self.device = self.device.reopen_with(self.random.u64(..), survival);
    }

    /// Opens the store, again after each failure and crash, and checks its contents.
    fn recover(&mut self, met: &mut LifeEvents) -> Database {
        for attempt in 0.. {
            let one_in = if attempt < OPENINGS { [0, 150, 40, 12][self.random.usize(..4)] } else { 0 };
            self.strike(one_in);
            let steps = [16, 80][self.random.usize(..2)];
            self.crash_soon(steps);
            let outcome = self.open();
            self.device.heal();
            match outcome {
                Ok(database) if self.device.is_crashed() => self.die(Some(database), met),
                Ok(database) => {
                    self.device.crash_at(u64::MAX);
                    let found = everything(&database);
                    let survivors = self.history.survivors(&found);
                    self.say(format!("opened, with one fault in {one_in}: {survivors} units"));
                    if self.random.u32(0..4) == 0 {
                        assert_sound(&database.verify(None).expect("verify"));
                    }
                    self.history.settle(found);
                    return database;
                }
                Err(error) => {
                    self.say(format!("not opened, with one fault in {one_in}: {error}"));
                    if !self.device.is_crashed() {
                        assert!(one_in > 0, "no fault, and it does not open: {error}");
                        may_fail_so(&error);
                    }
                    met.failed_openings += 1;
                    self.die(None, met);
                }
            }
        }
        unreachable!("without a fault it opens, or fails the test")
    }

    /// Runs `count` units. Returns the first error of a unit, after which the process ends.
    fn work(&mut self, database: &Database, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            if self.random.bool() {
                run_background(database);
            }
            match self.random.u32(0..24) {
                0 | 1 => {
                    let outcome = database.checkpoint();
                    self.say(format!("checkpoint: {outcome:?}"));
                }
                2 => drop(database.sync()?),
                3 => {
                    let name = self.name();
                    if self.history.state().contains_key(&name) {
                        let unit = self.history.attempt(Unit::Drop(name.clone()));
                        self.say(format!("unit {unit}: drop {name}"));
                        assert!(database.drop_table(&name)?, "the table is there");
                        self.history.acknowledge(unit);
                    }
                }
                _ => self.transaction(database)?,
            }
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        ["a", "b"][self.random.usize(..2)].to_owned()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.u32(0..16) {
            0 => self.random.usize(0..20_000),
            1..4 => self.random.usize(0..2500),
            _ => self.random.usize(0..200),
        };
        vec![self.random.u8(..); length]
    }

    fn transaction(&mut self, database: &Database) -> Result<(), Error> {
        let name = self.name();
        if !self.history.state().contains_key(&name) {
            let unit = self.history.attempt(Unit::Create(name.clone()));
            self.say(format!("unit {unit}: create {name}"));
            database.table(&name)?;
            self.history.acknowledge(unit);
            return Ok(());
        }
        let table = database.open_table(&name)?.expect("a table that was created");
        let durability = if self.random.u32(0..8) == 0 { Durability::Buffered } else { Durability::Durable };
        let txn = database.begin_with(TransactionOptions { durability, ..TransactionOptions::default() })?;
        let mut writes = Vec::new();
        for _ in 0..self.random.usize(1..6) {
            let key = key(self.random.u64(0..60));
            let value = (self.random.u32(0..5) > 0).then(|| self.value());
            match &value {
                Some(value) => txn.put(&table, &key, value)?,
                None => drop(txn.delete(&table, &key)?),
            }
            writes.push((name.clone(), key, value));
        }
        // Each transaction changes at least this row: a transaction that changes nothing has no
        // record in the log, so its success says nothing about earlier transactions.
        let serial = self.history.next().to_string().into_bytes();
        txn.put(&table, "serial", &serial)?;
        writes.push((name, b"serial".to_vec(), Some(serial)));
        if self.random.u32(0..10) == 0 {
            return txn.rollback();
        }
        let unit = self.history.attempt(Unit::Commit(writes));
        self.say(format!("unit {unit}: commit, {durability:?}"));
        txn.commit()?;
        if durability == Durability::Durable {
            self.history.acknowledge(unit);
        }
        Ok(())
    }

    /// Leaves a transaction that is open when the process ends, and whose changes may be durable.
    fn leave_open(&mut self, database: &Database) -> Result<(), Error> {
        let name = self.name();
        let Some(table) = database.open_table(&name)? else { return Ok(()) };
        let txn = database.begin()?;
        for _ in 0..self.random.usize(1..12) {
            let (key, value) = (key(self.random.u64(0..60)), self.value());
            txn.put(&table, key, value)?;
        }
        // No other transaction can wait for this transaction's locks, because the process ends.
        if self.random.bool() {
            database.sync()?;
        }
        if self.random.bool() {
            database.checkpoint()?;
        }
        if !self.device.is_crashed() {
            self.is_frozen = true;
            self.device.freeze();
        }
        drop(txn);
        Ok(())
    }

    fn live(&mut self, met: &mut LifeEvents) {
        let mut database = self.recover(met);
        for _ in 0..GENERATIONS {
            let one_in = [0, 1000, 200, 60, 20][self.random.usize(..5)];
            self.strike(one_in);
            self.crash_soon(400);
            let count = self.random.usize(2..25);
            let mut outcome = self.work(&database, count);
            if outcome.is_ok() && self.random.bool() {
                outcome = self.leave_open(&database);
            } else if outcome.is_ok() && self.random.u32(0..3) == 0 {
                outcome = database.close();
                self.say("closed");
            }
            if let Err(error) = outcome {
                self.say(format!("ended by: {error}"));
                if !self.device.is_crashed() {
                    met.faults += 1;
                    assert!(one_in > 0, "no fault, and a call fails: {error}");
                    may_fail_so(&error);
                }
            }
            self.die(Some(database), met);
            database = self.recover(met);
        }
        // At last the store is used on a sound device, and only synced bytes survive.
        self.strike(0);
        let count = self.random.usize(1..10);
        self.work(&database, count).expect("work on a sound device");
        if self.random.bool() {
            database.checkpoint().expect("checkpoint on a sound device");
        }
        self.device.freeze();
        drop(database);
        self.say("the machine crashes, DropAll");
        self.device = self.device.reopen_with(0, Survival::DropAll);
        let database = self.recover(met);
        assert_sound(&database.verify(None).expect("verify"));
    }
}

/// Asserts that a call has not taken a failing device for a damaged store, or for a mistake in the
/// program.
fn may_fail_so(error: &Error) {
    let is_of_device = match error {
        Error::MustRollBack { cause } => return may_fail_so(cause),
        // A transaction that could not be undone keeps its locks until the next opening.
        Error::Conflict { .. } => true,
        Error::Device(_) | Error::NoSpace { .. } | Error::Closed => true,
        error => error.is_poisoned(),
    };
    assert!(is_of_device, "a failing device is taken for {error:?}");
}

/// Runs the life of a seed.
pub fn live(engine: EngineKind, seed: u64, met: &mut LifeEvents) {
    let mut random = Rng::with_seed(seed);
    let mut options = options(seed, Kind::of(engine, random.u64(0..1000)), Background::Caller);
    options.lock_wait = Duration::from_millis(20);
    let mut life = Life {
        device: SimDevice::new(seed),
        options,
        is_striped: random.u32(0..8) == 0,
        random,
        history: History::default(),
        is_frozen: false,
        events: Vec::new(),
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life.live(met)));
    if let Err(panic) = outcome {
        life.events.iter().for_each(|line| println!("{line}"));
        println!("{}", life.device.dump());
        println!("KATYDID_ENGINE={engine} KATYDID_SEED={seed} cargo test -p katydid --test crash one_life");
        std::panic::resume_unwind(panic);
    }
}
