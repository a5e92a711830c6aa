//! Several clients at once. Each has keys of its own, where its transactions' order is known, and all share a few keys,
//! where each version names the one it replaced, so that the order can be read back.
//!
//! Each transaction leaves a mark. After recovery: everything acknowledged survived; of each client, transactions are lost from the
//! end (paged engine: in the memory engine a later one may survive that has read nothing of what is lost, nor anything of its own client);
//! its own keys are exactly what the survivors wrote; the versions of a shared key that survived form a chain without a missing
//! link; whatever a surviving transaction read survived, and so did whatever an acknowledged reader was shown, or one that
//! reads only what is durable was shown at all.
//!
//! Clients commit by blocking, or go on with other transactions while the earlier ones wait for a callback or a future.

use crate::common::{Rng, key};
use crate::machine::{Kind, Machine};
use katydid::testing::Background;
use katydid::{
    Access, CommitFuture, Database, Durability, EngineKind, Error, LogKind, Read, Table, Transaction,
    TransactionOptions,
};
use katydid_device::{Fault, Verb};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Client and number of its transaction; number zero: never written.
type Version = (u64, u64);

#[derive(Debug, Default)]
struct Attempt {
    own: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    read: Vec<Version>,
    replaced: Vec<(Vec<u8>, Version)>,
}

#[derive(Debug, Default)]
struct Log {
    attempts: Vec<Attempt>,
    acknowledged: BTreeSet<u64>,
    /// Attempts that were refused, and left nothing.
    refused: BTreeSet<u64>,
    /// What acknowledged read-only transactions were shown.
    shown: Vec<Version>,
}

const SHARED: u64 = 5;

fn encode((client, number): Version, length: usize) -> Vec<u8> {
    let mut value = Vec::new();
    value.extend_from_slice(&client.to_le_bytes());
    value.extend_from_slice(&number.to_le_bytes());
    value.resize(16 + length, client as u8);
    value
}

fn decode(value: Option<&[u8]>) -> Version {
    let word = |value: &[u8], at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("a word"));
    value.map_or((0, 0), |value| (word(value, 0), word(value, 8)))
}

fn shared(number: u64) -> Vec<u8> {
    format!("shared-{number}").into_bytes()
}

fn own(client: u64, number: u64) -> Vec<u8> {
    [format!("own-{client}-").into_bytes(), key(number)].concat()
}

/// What each transaction of a client begins the name of its mark with.
fn marks(client: u64) -> String {
    format!("mark-{client}-")
}

fn body(txn: &mut Transaction, table: &Table, random: &mut Rng, version: Version) -> Result<Attempt, Error> {
    let mut attempt = Attempt::default();
    for _ in 0..random.usize(1..5) {
        match random.u32(0..10) {
            0..5 => {
                let key = own(version.0, random.u64(0..30));
                if random.u32(0..3) == 0 {
                    txn.delete(table, &key)?;
                    attempt.own.push((key, None));
                } else {
                    let length =
                        if random.u32(0..20) == 0 { random.usize(0..20_000) } else { random.usize(0..300) };
                    let value = encode(version, length);
                    txn.put(table, &key, &value)?;
                    attempt.own.push((key, Some(value)));
                }
            }
            5..8 => {
                let key = shared(random.u64(0..SHARED));
                let before = decode(txn.get_for_update(table, &key)?.as_deref());
                txn.put(table, &key, encode(version, random.usize(0..100)))?;
                if before != version {
                    attempt.read.push(before);
                    attempt.replaced.push((key, before));
                }
            }
            8 => {
                let found = txn.get(table, shared(random.u64(0..SHARED)))?;
                attempt.read.push(decode(found.as_deref()));
            }
            _ => {
                let rows: Result<Vec<_>, Error> = txn.range(table, shared(0)..=shared(SHARED)).collect();
                attempt.read.extend(rows?.iter().map(|(_, value)| decode(Some(value))));
            }
        }
    }
    attempt.read.retain(|seen| *seen != version && seen.1 != 0);
    txn.put(table, format!("{}{:06}", marks(version.0), version.1), [])?;
    Ok(attempt)
}

fn reader(txn: &mut Transaction, table: &Table, random: &mut Rng) -> Result<Vec<Version>, Error> {
    let mut seen = Vec::new();
    if random.bool() {
        let mut range = txn.range(table, shared(0)..=shared(SHARED));
        while let Some((_, value)) = range.next_ref()? {
            seen.push(decode(Some(value)));
        }
    } else {
        for number in 0..SHARED {
            seen.push(decode(txn.get(table, shared(number))?.as_deref()));
        }
    }
    seen.retain(|version| version.1 != 0);
    Ok(seen)
}

/// What a client waits for while it goes on.
struct Pending<'a> {
    session: &'a katydid::Session,
    /// Transactions that were acknowledged.
    told: Arc<Mutex<BTreeSet<u64>>>,
    /// What acknowledged readers were shown.
    shown: Arc<Mutex<Vec<Version>>>,
    refused: Arc<Mutex<BTreeSet<u64>>>,
    futures: Vec<(CommitFuture, Promise, u64)>,
}

/// What the success of a commit says.
enum Promise {
    Nothing,
    Wrote(u64),
    Shown(Vec<Version>),
}

impl Pending<'_> {
    fn keep(told: &Mutex<BTreeSet<u64>>, shown: &Mutex<Vec<Version>>, promise: Promise) {
        match promise {
            Promise::Nothing => {}
            Promise::Wrote(number) => told.lock().expect("no panic").extend([number]),
            Promise::Shown(versions) => shown.lock().expect("no panic").extend(versions),
        }
    }

    /// One that is to be run again has not been.
    fn refuse(refused: &Mutex<BTreeSet<u64>>, error: &Error, number: u64) -> bool {
        let again = error.is_retryable();
        if again && number > 0 {
            refused.lock().expect("no panic").insert(number);
        }
        again
    }

    /// Commits in one of three ways. `number` is zero for one that only reads.
    fn commit(
        &mut self,
        txn: Transaction,
        promise: Promise,
        number: u64,
        random: &mut Rng,
    ) -> Result<(), Error> {
        match random.u32(0..4) {
            0 | 1 => {
                let (told, shown, refused) = (self.told.clone(), self.shown.clone(), self.refused.clone());
                txn.commit_with(self.session, move |result| match result {
                    Ok(_) => Self::keep(&told, &shown, promise),
                    Err(error) => drop(Self::refuse(&refused, &error, number)),
                });
            }
            2 => self.futures.push((txn.commit_async(), promise, number)),
            _ => match txn.commit() {
                Ok(_) => Self::keep(&self.told, &self.shown, promise),
                Err(error) if Self::refuse(&self.refused, &error, number) => {}
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }

    fn poll(&mut self) {
        self.session.poll();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Vec::new();
        for (mut future, promise, number) in self.futures.drain(..) {
            match Pin::new(&mut future).poll(&mut context) {
                Poll::Ready(Ok(_)) => Self::keep(&self.told, &self.shown, promise),
                Poll::Ready(Err(error)) => drop(Self::refuse(&self.refused, &error, number)),
                Poll::Pending => waiting.push((future, promise, number)),
            }
        }
        self.futures = waiting;
    }
}

fn client(
    database: &Database,
    table: &Table,
    seed: u64,
    (client, count): (u64, usize),
    log: &mut Log,
) -> Result<(), Error> {
    let mut random = Rng::with_seed(seed ^ client << 40);
    let session = database.session();
    let mut pending = Pending {
        session: &session,
        told: Arc::default(),
        shown: Arc::default(),
        refused: Arc::default(),
        futures: Vec::new(),
    };
    let run = |log: &mut Log, pending: &mut Pending<'_>, random: &mut Rng| -> Result<(), Error> {
        for _ in 0..count {
            pending.poll();
            if random.u32(0..5) == 0 {
                let read = if random.bool() { Read::Visible } else { Read::Durable };
                let access = if random.bool() { Access::ReadOnly } else { Access::ReadWrite };
                let mut txn =
                    database.begin_with(TransactionOptions { read, access, ..Default::default() })?;
                match reader(&mut txn, table, random) {
                    Ok(seen) if read == Read::Durable => {
                        // However it ends: it was shown nothing else.
                        log.shown.extend(seen);
                        pending.commit(txn, Promise::Nothing, 0, random)?;
                    }
                    Ok(seen) => pending.commit(txn, Promise::Shown(seen), 0, random)?,
                    Err(error) if error.is_retryable() => {}
                    Err(error) => return Err(error),
                }
                continue;
            }
            let durability = match random.u32(0..12) {
                0 => Durability::Buffered,
                1 => Durability::Written,
                _ => Durability::Durable,
            };
            let mut txn = database.begin_with(TransactionOptions { durability, ..Default::default() })?;
            let number = log.attempts.len() as u64 + 1;
            match body(&mut txn, table, random, (client, number)) {
                Ok(attempt) => {
                    if random.u32(0..10) == 0 {
                        txn.rollback()?;
                        continue;
                    }
                    log.attempts.push(attempt);
                    let durable = durability == Durability::Durable;
                    let promise = if durable { Promise::Wrote(number) } else { Promise::Nothing };
                    pending.commit(txn, promise, number, random)?;
                }
                // A small log in NVRAM may be too full for it.
                Err(Error::LogFull { .. }) => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
            }
        }
        session.drain()
    };
    let result = run(log, &mut pending, &mut random);
    pending.poll();
    log.acknowledged.append(&mut pending.told.lock().expect("no panic"));
    log.refused.append(&mut pending.refused.lock().expect("no panic"));
    log.shown.append(&mut pending.shown.lock().expect("no panic"));
    result
}

fn check(rows: &BTreeMap<Vec<u8>, Vec<u8>>, logs: &[Log], engine: EngineKind) {
    let survived: Vec<BTreeSet<u64>> = (0..logs.len() as u64)
        .map(|client| {
            let marks = marks(client);
            let keys = rows.keys().filter_map(|key| str::from_utf8(key).ok()?.strip_prefix(&marks));
            keys.map(|number| number.parse().expect("a number")).collect()
        })
        .collect();
    let has = |(client, number): Version| survived[client as usize].contains(&number);
    for (client, log) in logs.iter().enumerate() {
        let survived = &survived[client];
        let lost: Vec<_> = log.acknowledged.difference(survived).collect();
        assert!(lost.is_empty(), "client {client}: {lost:?} were acknowledged, and are lost");
        let last = survived.last().copied().unwrap_or(0);
        assert!(last <= log.attempts.len() as u64, "client {client} never tried {last}");
        assert!(log.refused.is_disjoint(survived), "client {client}: of {:?} some are there", log.refused);
        if engine == EngineKind::Paged {
            assert_eq!(survived.len() as u64, last, "client {client}: some are lost, and later ones are not");
        }
        let mut model = BTreeMap::new();
        for nth in survived {
            let attempt = &log.attempts[*nth as usize - 1];
            for (key, value) in &attempt.own {
                match value {
                    Some(value) => model.insert(key.clone(), value.clone()),
                    None => model.remove(key),
                };
            }
            for version in &attempt.read {
                assert!(
                    has(*version),
                    "client {client} read {version:?}, which is lost, and survived: {attempt:?}"
                );
            }
        }
        let prefix = format!("own-{client}-").into_bytes();
        let found: BTreeMap<_, _> = rows
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert!(found == model, "client {client}: its keys are not those after {survived:?}");
        for version in &log.shown {
            assert!(has(*version), "client {client} was shown {version:?}, which is lost");
        }
    }
    for number in 0..SHARED {
        let key = shared(number);
        let mut before: HashMap<Version, Version> = HashMap::new();
        for (client, log) in logs.iter().enumerate() {
            for nth in &survived[client] {
                let attempt = &log.attempts[*nth as usize - 1];
                if let Some((_, replaced)) = attempt.replaced.iter().find(|(changed, _)| *changed == key) {
                    before.insert((client as u64, *nth), *replaced);
                }
            }
        }
        let mut seen = BTreeSet::new();
        let mut at = decode(rows.get(&key).map(Vec::as_slice));
        while at.1 != 0 {
            assert!(seen.insert(at), "a circle of versions");
            let next = before.get(&at);
            at = *next
                .unwrap_or_else(|| panic!("shared key {number}: version {at:?} is there, its writer is not"));
        }
        assert_eq!(
            seen.len(),
            before.len(),
            "shared key {number}: writes of surviving transactions are lost"
        );
    }
}

/// Several clients until a crash at a step that the seed picks, recovery, and the check.
pub fn crash_once(engine: EngineKind, log: LogKind, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0xc0de);
    let machine = Machine::new(engine, seed, Background::Threads).with_log(log);
    let clients = random.u64(2..5);
    let prepare = |machine: &Machine, random: &mut Rng| {
        machine.crash_soon(random, 900, 3000);
    };
    crash(machine, seed, (clients, 200), &mut random, prepare);
}

/// A few transactions of several clients, and a crash at write or sync number `nth` of the log; whether it came to that.
pub fn crash_at_sync(seed: u64, kind: Kind, nth: u64) -> bool {
    let mut random = Rng::with_seed(seed ^ nth << 32 ^ 0xc0de);
    let machine = Machine::new(kind.engine, seed, Background::Threads).with_kind(kind);
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

/// Clients, each with so many transactions, until the crash that `prepare` arranges; whether there was one.
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
    let table = database.table("crowd").expect("table");
    prepare(&machine, random);
    std::thread::scope(|scope| {
        for (number, log) in logs.iter_mut().enumerate() {
            let (database, table, device) = (&database, &table, &device);
            scope.spawn(move || {
                if let Err(error) = client(database, table, seed, (number as u64, count), log) {
                    assert!(device.is_crashed(), "failed without a crash: {error}");
                }
            });
        }
    });
    let crashed = device.is_crashed();
    device.freeze();
    drop((table, database));
    let (_, database) = crate::recover(machine, random, seed);
    let table = database.open_table("crowd").expect("open table").expect("the table is there");
    let rows = crate::common::contents(&database, &table);
    check(&rows, &logs, engine);
    crate::common::assert_sound(&database.verify(None).expect("verify"));
    crashed
}
