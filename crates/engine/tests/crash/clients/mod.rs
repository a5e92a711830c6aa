//! Several clients at once, and a crash. Each client has keys of its own, on which the order of its
//! transactions is known. All clients also share a few keys. The versions of a shared key name
//! their writers, and each writer remembers the version that it replaced, so the order of the
//! writers can be read back.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | what transactions do, and the clients |
//! | `pending` | commits in their three forms; the errors that each may get |
//! | `check` | what must hold of the rows after recovery |
//!
//! Transactions write, delete, take savepoints and go back to them, read keys and ranges, commit or
//! roll back. A rollback to a savepoint takes writes back; earlier reads still count. Clients
//! commit by blocking, or go on with other transactions while the earlier ones wait for a callback
//! or a future.
//!
//! A delete of a shared key leaves no version under the key. The deleter therefore writes its
//! version into a second row. A reader of the second row depends on the deleter because of that
//! row, which would hide a missing dependency through the absent key. So half of the readers in the
//! paged engine learn the deleter from `Deleters` instead, which the database does not know.

mod check;
mod pending;

use crate::common::{Rng, key};
use crate::machine::{Kind, Machine};
use katydid::testing::Background;
use katydid::{
    Access, Database, Durability, EngineKind, Error, LogKind, Read, Savepoint, Table, Transaction,
    TransactionOptions,
};
use katydid_device::{Fault, Verb};
use pending::{Judge, Pending, Promise};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// A version of a shared key: the client that wrote it, and the number of the client's transaction.
/// Number 0 means that the key was never written.
type Version = (u64, u64);

/// A write of a shared key.
#[derive(Debug, Clone)]
struct Change {
    number: u64,
    replaced: Version,
    is_delete: bool,
}

/// Work of one transaction, without what it rolled back.
#[derive(Debug, Default, Clone)]
struct Attempt {
    own: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    read: Vec<Version>,
    /// Changes of shared keys, at most one for each key.
    shared: Vec<Change>,
    /// True if the transaction has seen that another one changed what it had read (memory engine).
    /// Such a transaction must not commit.
    is_doomed: bool,
}

/// Knowledge of one client after the crash.
#[derive(Debug, Default)]
struct Log {
    attempts: Vec<Attempt>,
    acknowledged: BTreeSet<u64>,
    /// Attempts that were refused, and left nothing.
    refused: BTreeSet<u64>,
    /// Versions that acknowledged read-only transactions have seen.
    shown: Vec<Version>,
}

/// Number of shared keys.
const SHARED: u64 = 5;

/// For each shared key, the last transaction that deleted it. An entry is written and read under
/// the key's lock, and is right whenever the key is absent. After a rollback of the delete the key
/// is present, because no transaction deletes its own version.
///
/// A view has no lock: the key may have been written and deleted again since the view opened. So a
/// reader with a view uses an entry only if it is the same as before the view opened.
type Deleters = [Mutex<Version>; SHARED as usize];

/// The content of `Deleters` before a view opened.
type DeletersBefore = [Version; SHARED as usize];

fn encode((client, number): Version, length: usize) -> Vec<u8> {
    let mut value = Vec::new();
    value.extend_from_slice(&client.to_le_bytes());
    value.extend_from_slice(&number.to_le_bytes());
    value.resize(16 + length, client as u8);
    value
}

fn decode(value: &[u8]) -> Version {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("a word"));
    (word(0), word(8))
}

fn shared(number: u64) -> Vec<u8> {
    format!("shared-{number}").into_bytes()
}

/// Returns the key of the row that names the last deleter of a shared key.
fn gone(number: u64) -> Vec<u8> {
    format!("gone-{number}").into_bytes()
}

fn own(client: u64, number: u64) -> Vec<u8> {
    [format!("own-{client}-").into_bytes(), key(number)].concat()
}

/// Returns the prefix of the marks of a client's transactions.
fn marks(client: u64) -> String {
    format!("mark-{client}-")
}

/// Everything that the clients share.
struct Scene<'a> {
    database: &'a Database,
    table: &'a Table,
    engine: EngineKind,
    deleters: &'a Deleters,
    judge: Judge,
}

impl Scene<'_> {
    /// Returns the version of a shared key that `txn` has seen. `found` is the value that `txn` has
    /// read. If the key is absent, the version is that of the key's deleter. `before` is given if
    /// `txn` is a view.
    fn version(
        &self,
        (txn, before): (&Transaction, Option<&DeletersBefore>),
        random: &mut Rng,
        number: u64,
        found: Option<&[u8]>,
    ) -> Result<Version, Error> {
        if let Some(value) = found {
            return Ok(decode(value));
        }
        // `Deleters` is right only under the locks of keys, which the memory engine does not have.
        if self.engine == EngineKind::Paged && random.bool() {
            let deleter = self.deleter(number);
            if before.is_none_or(|before| before[number as usize] == deleter) {
                return Ok(deleter);
            }
        }
        Ok(txn.get(self.table, gone(number))?.map_or((0, 0), |value| decode(&value)))
    }

    fn deleter(&self, number: u64) -> Version {
        *self.deleters[number as usize].lock().expect("no panic")
    }

    /// Reads the versions of all shared keys, by a range.
    fn scan(
        &self,
        (txn, before): (&Transaction, Option<&DeletersBefore>),
        random: &mut Rng,
    ) -> Result<Vec<Version>, Error> {
        let mut found = vec![None; SHARED as usize];
        let mut range = txn.range(self.table, shared(0)..=shared(SHARED));
        while let Some((key, value)) = range.next_ref()? {
            let number = (0..SHARED).find(|number| shared(*number) == key).expect("a shared key");
            found[number as usize] = Some(value.to_vec());
        }
        drop(range);
        let found = (0..).zip(found);
        found.map(|(number, found)| self.version((txn, before), random, number, found.as_deref())).collect()
    }

    /// Runs a transaction that writes.
    fn body(&self, txn: &Transaction, random: &mut Rng, version: Version) -> Result<Attempt, Error> {
        let mut attempt = Attempt::default();
        let mut savepoints: Vec<(Savepoint, Attempt)> = Vec::new();
        for _ in 0..random.usize(1..6) {
            match random.u32(0..13) {
                0..5 => self.write_own(txn, random, version, &mut attempt)?,
                5..8 => self.write_shared(txn, random, version, &mut attempt)?,
                8 => {
                    let number = random.u64(0..SHARED);
                    let found = txn.get(self.table, shared(number))?;
                    attempt.read.push(self.version((txn, None), random, number, found.as_deref())?);
                }
                9 => attempt.read.extend(self.scan((txn, None), random)?),
                10 | 11 => savepoints.push((txn.savepoint(), attempt.clone())),
                _ if savepoints.is_empty() => {}
                _ => {
                    savepoints.truncate(random.usize(0..savepoints.len()) + 1);
                    let (savepoint, before) = savepoints.last().expect("not empty");
                    txn.rollback_to(savepoint)?;
                    let Attempt { read, is_doomed, .. } = attempt;
                    attempt = Attempt { read, is_doomed, ..before.clone() };
                }
            }
        }
        attempt.read.retain(|seen| *seen != version && seen.1 != 0);
        txn.put(self.table, format!("{}{:06}", marks(version.0), version.1), [])?;
        Ok(attempt)
    }

    fn write_own(
        &self,
        txn: &Transaction,
        random: &mut Rng,
        version: Version,
        attempt: &mut Attempt,
    ) -> Result<(), Error> {
        let key = own(version.0, random.u64(0..30));
        if random.u32(0..3) == 0 {
            txn.delete(self.table, &key)?;
            attempt.own.push((key, None));
        } else {
            let length = if random.u32(0..20) == 0 { random.usize(0..20_000) } else { random.usize(0..300) };
            let value = encode(version, length);
            txn.put(self.table, &key, &value)?;
            attempt.own.push((key, Some(value)));
        }
        Ok(())
    }

    fn write_shared(
        &self,
        txn: &Transaction,
        random: &mut Rng,
        version: Version,
        attempt: &mut Attempt,
    ) -> Result<(), Error> {
        let number = random.u64(0..SHARED);
        let found = txn.get_for_update(self.table, shared(number))?;
        let before = self.version((txn, None), random, number, found.as_deref())?;
        let is_delete = found.is_some() && before != version && random.u32(0..3) == 0;
        if is_delete {
            let was_there = txn.delete(self.table, shared(number))?;
            assert!(was_there || self.engine == EngineKind::Memory, "it is locked, and was there");
            attempt.is_doomed |= !was_there;
            *self.deleters[number as usize].lock().expect("no panic") = version;
            txn.put(self.table, gone(number), encode(version, 0))?;
        } else {
            txn.put(self.table, shared(number), encode(version, random.usize(0..100)))?;
        }
        match attempt.shared.iter_mut().find(|change| change.number == number) {
            Some(change) => change.is_delete = is_delete,
            None => {
                attempt.read.push(before);
                attempt.shared.push(Change { number, replaced: before, is_delete });
            }
        }
        Ok(())
    }

    /// Runs a transaction that only reads.
    fn reader(
        &self,
        (txn, before): (&Transaction, Option<&DeletersBefore>),
        random: &mut Rng,
    ) -> Result<Vec<Version>, Error> {
        let mut seen = Vec::new();
        if random.bool() {
            seen = self.scan((txn, before), random)?;
        } else {
            for number in 0..SHARED {
                let found = txn.get(self.table, shared(number))?;
                seen.push(self.version((txn, before), random, number, found.as_deref())?);
            }
        }
        seen.retain(|version| version.1 != 0);
        Ok(seen)
    }

    /// Runs a client with `count` transactions, or until the first error that says that the device
    /// has crashed.
    fn client(&self, seed: u64, (client, count): (u64, usize), log: &mut Log) {
        let mut random = Rng::with_seed(seed ^ client << 40);
        let session = self.database.session();
        let mut pending = Pending::new(&session, &self.judge);
        for _ in 0..count {
            pending.poll();
            let outcome = if random.u32(0..5) == 0 {
                self.read_only(&mut pending, &mut random, log)
            } else {
                self.transaction(&mut pending, &mut random, client, log)
            };
            if let Err(error) = outcome
                && !self.judge.goes_on_after(&error)
            {
                break;
            }
        }
        pending.finish(log);
    }

    fn read_only(&self, pending: &mut Pending<'_>, random: &mut Rng, log: &mut Log) -> Result<(), Error> {
        let read = if random.bool() { Read::Visible } else { Read::Durable };
        let access = if random.bool() { Access::ReadOnly } else { Access::ReadWrite };
        let before =
            (access == Access::ReadOnly).then(|| std::array::from_fn(|number| self.deleter(number as u64)));
        let txn = self.database.begin_with(TransactionOptions { read, access, ..Default::default() })?;
        let seen = self.reader((&txn, before.as_ref()), random)?;
        if read == Read::Durable {
            // All versions that this reader was shown are durable, however its transaction ends.
            log.shown.extend(seen);
            return pending.commit(txn, Promise::Nothing, 0, random);
        }
        pending.commit(txn, Promise::Shown(seen), 0, random)
    }

    fn transaction(
        &self,
        pending: &mut Pending<'_>,
        random: &mut Rng,
        client: u64,
        log: &mut Log,
    ) -> Result<(), Error> {
        let durability = match random.u32(0..12) {
            0 => Durability::Buffered,
            1 => Durability::Written,
            _ => Durability::Durable,
        };
        let txn = self.database.begin_with(TransactionOptions { durability, ..Default::default() })?;
        let number = log.attempts.len() as u64 + 1;
        let attempt = self.body(&txn, random, (client, number))?;
        if random.u32(0..10) == 0 {
            return txn.rollback();
        }
        let promise = match durability {
            _ if attempt.is_doomed => Promise::Refused,
            Durability::Durable => Promise::Wrote(number),
            _ => Promise::Nothing,
        };
        log.attempts.push(attempt);
        pending.commit(txn, promise, number, random)
    }
}

/// Runs several clients until a crash at a step that the seed picks, recovers, and checks.
pub fn crash_once(engine: EngineKind, log: LogKind, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0xc0de);
    let machine = Machine::new(engine, seed, Background::Threads).with_log(log).perhaps_high(seed);
    let clients = random.u64(2..5);
    let prepare = |machine: &Machine, random: &mut Rng| {
        machine.crash_soon(random, 900, 3000);
    };
    crash(machine, seed, (clients, 200), &mut random, prepare);
}

/// Runs a few transactions of several clients, with a crash at write or sync number `nth` of the
/// log. Returns whether there was such a call.
pub fn crash_at_sync(seed: u64, kind: Kind, nth: u64) -> bool {
    let mut random = Rng::with_seed(seed ^ nth << 32 ^ 0xc0de);
    let machine =
        Machine::new(kind.engine, seed, Background::Threads).with_kind(kind).perhaps_high(seed ^ nth);
    let prepare = |machine: &Machine, _: &mut Rng| {
        let mut calls = 0;
        machine.device.fail_when(move |verb, path, _| {
            let syncs = matches!(verb, Verb::Write | Verb::Sync)
                && path.starts_with("log/")
                && path.contains("/log.0");
            calls += u64::from(syncs);
            (syncs && calls == nth + 1).then_some(Fault::Crash)
        });
    };
    crash(machine, seed.wrapping_add(nth), (3, 14), &mut random, prepare)
}

/// Runs `clients` clients, each with `count` transactions, until the crash that `prepare` arranges.
/// Returns whether there was a crash.
fn crash(
    machine: Machine,
    seed: u64,
    (clients, count): (u64, usize),
    random: &mut Rng,
    prepare: impl Fn(&Machine, &mut Rng),
) -> bool {
    let (device, engine) = (machine.device.clone(), machine.engine());
    let mut logs: Vec<Log> = (0..clients).map(|_| Log::default()).collect();
    let database = machine.open(seed).expect("open");
    let table = database.table("items").expect("table");
    let deleters = Deleters::default();
    let in_nvram = database.stat().expect("stat").log.kind.in_nvram();
    let judge = Judge { device: device.clone(), engine, in_nvram };
    let scene = Scene { database: &database, table: &table, engine, deleters: &deleters, judge };
    prepare(&machine, random);
    std::thread::scope(|scope| {
        for (number, log) in (0..).zip(&mut logs) {
            let scene = &scene;
            scope.spawn(move || scene.client(seed, (number, count), log));
        }
    });
    drop(scene);
    let crashed = device.is_crashed();
    device.freeze();
    drop((table, database));
    let (_, database) = crate::recover(machine, random, seed);
    let table = database.open_table("items").expect("open table").expect("the table is there");
    let rows = crate::common::contents(&database, &table);
    check::check(&rows, &logs, engine);
    crate::common::assert_sound(&database.verify(None).expect("verify"));
    crashed
}
