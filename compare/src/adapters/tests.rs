//! Tests of the properties that the workloads need, run on every store of this build.

use super::{ALL, Commits, Options, Rival, Visit, with};
use crate::stores::load;
use fastrand::Rng;
use katydid_workload::drive::{Plan, drive};
use katydid_workload::tpcb::{self, Totals, TpcbLoad, TpcbRun};
use katydid_workload::{Client, Intent, Keys, Result, Store, StoreError, Transaction};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs `visit` on each store of this build, in a folder of its own, and then `after` on the store
/// when it is opened again.
fn every<V: Visit + Clone, A: Visit>(commits: &[Commits], visit: V, after: impl Fn(V::Output) -> A) {
    for known in ALL.into_iter().filter(|known| known.built) {
        for commits in commits {
            let folder = tempfile::tempdir().unwrap();
            let options = Options { commits: *commits, cache_bytes: 8 << 20, clients: 8 };
            let failed = |error: StoreError| -> ! { panic!("{}, {commits:?}: {error}", known.name) };
            let first = with(known.name, folder.path(), &options, visit.clone())
                .unwrap_or_else(|error| failed(error));
            let again = with(known.name, folder.path(), &options, after(first));
            again.unwrap_or_else(|error| failed(error));
        }
    }
}

const BOTH: [Commits; 2] = [Commits::Durable, Commits::Unsafe];
/// Durability after which a reopened store must have all commits.
const DURABLE: [Commits; 1] = [Commits::Durable];

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(StoreError::Inconsistent(what())) }
}

/// Contents of all tables, read with this intent.
fn contents<S: Store>(store: &S, tables: &[&str], intent: Intent) -> Result<Vec<Model>> {
    let mut client = store.client(tables)?;
    let mut transaction = client.begin(intent)?;
    let mut all = Vec::new();
    for table in 0..tables.len() {
        let mut model = Model::new();
        let seen = transaction.on(table).range(Keys::ALL, usize::MAX, &mut |key, value| {
            model.insert(key.to_vec(), value.to_vec());
        })?;
        ensure(seen == model.len(), || format!("a range of {seen} with {} keys", model.len()))?;
        all.push(model);
    }
    transaction.commit()?;
    Ok(all)
}

const TABLES: [&str; 2] = ["one", "two"];

/// Runs random transactions on the store and on a model; some transactions are dropped.
#[derive(Clone)]
struct LikeAModel {
    seed: u64,
}

impl LikeAModel {
    fn key(rng: &mut Rng) -> Vec<u8> {
        let mut key = vec![b'k'; rng.usize(1..4)];
        key[0] = rng.u8(..);
        key.push(rng.u8(..8));
        key
    }

    /// Makes one call on the store and on the model.
    fn step<T: Transaction>(rng: &mut Rng, transaction: &mut T, models: &mut [Model]) -> Result<()> {
        let table = rng.usize(..models.len());
        let (transaction, model) = (transaction.on(table), &mut models[table]);
        let key = LikeAModel::key(rng);
        let value: Vec<u8> = (0..rng.usize(..300)).map(|_| rng.u8(..)).collect();
        let wrong = |what: &str| format!("{what} of {key:?} in table {table}");
        match rng.u8(..8) {
            7 => {
                let mut lent = None;
                let there = transaction.get_with(&key, &mut |value| lent = Some(value.to_vec()))?;
                ensure(there == lent.is_some() && lent == model.get(&key).cloned(), || wrong("lent get"))
            }
            0 => ensure(transaction.get(&key)? == model.get(&key).cloned(), || wrong("get")),
            1 => ensure(transaction.get_for_update(&key)? == model.get(&key).cloned(), || {
                wrong("get for update")
            }),
            2 => {
                transaction.put(&key, &value)?;
                model.insert(key, value);
                Ok(())
            }
            3 => match transaction.insert(&key, &value) {
                Ok(()) => ensure(model.insert(key.clone(), value).is_none(), || wrong("insert")),
                Err(StoreError::KeyExists(_)) => ensure(model.contains_key(&key), || wrong("refused insert")),
                Err(error) => Err(error),
            },
            4 => ensure(transaction.delete(&key)? == model.remove(&key).is_some(), || wrong("delete")),
            5 => {
                let there = transaction.read_modify_write(&key, &mut |value| value.push(7))?;
                let expected = model.get_mut(&key).map(|value| value.push(7)).is_some();
                ensure(there == expected, || wrong("change"))
            }
            _ => {
                let (limit, mut found) = (rng.usize(..20), Vec::new());
                let other = LikeAModel::key(rng);
                let (from, to) = (key.clone().min(other.clone()), key.clone().max(other));
                let (keys, end) = match rng.bool() {
                    true => (Keys::from(&from), Bound::Unbounded),
                    false => (Keys::between(&from, &to), Bound::Excluded(&to)),
                };
                let seen = transaction
                    .range(keys, limit, &mut |key, value| found.push((key.to_vec(), value.to_vec())))?;
                let expected = model.range::<Vec<u8>, _>((Bound::Included(&from), end)).take(limit);
                let same = expected.eq(found.iter().map(|(key, value)| (key, value)));
                ensure(same && seen == found.len(), || wrong("range"))
            }
        }
    }
}

impl Visit for LikeAModel {
    type Output = Vec<Model>;

    fn visit<S: Rival>(self, store: &S) -> Result<Vec<Model>> {
        let mut rng = Rng::with_seed(self.seed);
        let mut models = vec![Model::new(); TABLES.len()];
        let mut client = store.client(&TABLES)?;
        for _ in 0..150 {
            let mut changed = models.clone();
            let mut transaction = client.begin(Intent::ReadWrite)?;
            for _ in 0..rng.usize(..12) {
                LikeAModel::step(&mut rng, &mut transaction, &mut changed)?;
            }
            if rng.u8(..4) > 0 {
                transaction.commit()?;
                models = changed;
            }
        }
        drop(client);
        for intent in [Intent::ReadOnly, Intent::ReadWrite] {
            ensure(contents(store, &TABLES, intent)? == models, || {
                "the store is not as its model".to_owned()
            })?;
        }
        Ok(models)
    }
}

/// Checks that the store contains exactly these models.
struct Holds(Vec<Model>);

impl Visit for Holds {
    type Output = ();

    fn visit<S: Rival>(self, store: &S) -> Result<()> {
        let found = contents(store, &TABLES, Intent::ReadOnly)?;
        ensure(found == self.0, || "what was committed is not what was found".to_owned())
    }
}

#[test]
fn behaves_as_a_model_and_is_found_again() {
    let seed = Rng::new().u64(..);
    eprintln!("seed {seed}");
    every(&DURABLE, LikeAModel { seed }, Holds);
}

/// A visit that does nothing.
struct Nothing;

impl Visit for Nothing {
    type Output = ();

    fn visit<S: Rival>(self, _store: &S) -> Result<()> {
        Ok(())
    }
}

/// Threads that increment one counter. A transaction that meets a conflict runs again.
#[derive(Clone)]
struct Counting;

const THREADS: u64 = 4;
const TIMES: u64 = 50;

impl Counting {
    fn count<C: Client>(client: &mut C) -> Result<()> {
        let mut transaction = client.begin(Intent::ReadWrite)?;
        let value = transaction.get_for_update(b"counter")?.unwrap_or_default();
        let number = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        transaction.put(b"counter", &(number + 1).to_le_bytes())?;
        transaction.commit()
    }
}

impl Visit for Counting {
    type Output = ();

    fn visit<S: Rival>(self, store: &S) -> Result<()> {
        drop(store.client(&TABLES)?);
        std::thread::scope(|scope| {
            let work = || {
                let mut client = store.client(&TABLES)?;
                let mut left = TIMES;
                while left > 0 {
                    match Counting::count(&mut client) {
                        Ok(()) => left -= 1,
                        Err(error) if error.is_retryable() => std::thread::yield_now(),
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
        })?;
        let found = contents(store, &TABLES, Intent::ReadOnly)?;
        let expected = (THREADS * TIMES).to_le_bytes().to_vec();
        ensure(found[0].get(&b"counter"[..]) == Some(&expected), || "an increment was lost".to_owned())
    }
}

#[test]
fn no_increment_is_lost() {
    every(&BOTH, Counting, |()| Nothing);
}

/// Commits with callbacks. Each callback must run once, before the client's wait returns.
#[derive(Clone)]
struct Callbacks;

impl Visit for Callbacks {
    type Output = Vec<Model>;

    fn visit<S: Rival>(self, store: &S) -> Result<Vec<Model>> {
        let mut client = store.client(&TABLES)?;
        let (done, mut model) = (Arc::new(AtomicUsize::new(0)), Model::new());
        for number in 0..100_u8 {
            let mut transaction = client.begin(Intent::ReadWrite)?;
            transaction.put(&[number], b"value")?;
            model.insert(vec![number], b"value".to_vec());
            let acknowledged = Arc::clone(&done);
            transaction.commit_with(move |result| {
                if result.is_ok() {
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
            client.wait_below(10)?;
            ensure(client.pending() < 10, || "there are more commits under way than allowed".to_owned())?;
        }
        client.wait_below(1)?;
        let acknowledged = done.load(Ordering::SeqCst);
        ensure(acknowledged == 100, || format!("of 100 commits {acknowledged} were acknowledged"))?;
        Ok(vec![model, Model::new()])
    }
}

#[test]
fn every_callback_runs_and_acknowledged_rows_are_found_again() {
    every(&DURABLE, Callbacks, Holds);
}

/// A bank with more clients than branches. The sums of its tables must agree.
#[derive(Clone)]
struct Bank;

impl Visit for Bank {
    type Output = ();

    fn visit<S: Rival>(self, store: &S) -> Result<()> {
        let settings = tpcb::Settings { branches: 2, accounts_of_branch: 50, skew: 0.0 };
        let tables = tpcb::tables("history");
        load(store, &tables, &TpcbLoad::new(&settings))?;
        let mut transfers = 0;
        for (run, in_flight) in [(0, 1), (1, 10)] {
            let plan = Plan {
                threads: 4,
                in_flight,
                transactions: Some(100),
                conflict_retries: 1_000_000,
                ..Plan::default()
            };
            let run = TpcbRun::new(&settings, run);
            let outcome = drive(store, &tables, &run, &plan, &AtomicBool::new(false), &mut |_| ());
            transfers += outcome.map_err(|error| StoreError::Failed(error.into()))?.transactions;
        }
        let totals = Totals::read(store, &tables)?;
        totals.check(0)?;
        ensure(totals.transfers == transfers, || {
            format!("{} notes of {transfers} transfers", totals.transfers)
        })
    }
}

#[test]
fn transfers_add_up() {
    every(&BOTH, Bank, |()| Nothing);
}
