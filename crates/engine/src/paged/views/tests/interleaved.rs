//! Tests of views beside transactions that transfer amounts between keys. A seed picks the order of
//! the steps. The amounts that a view shows must have the right sum. A view must show the same
//! amounts twice, whether it reads by points or by ranges from either end.

use crate::interleaved_tests::open_with_places;
use crate::pause::scheduler::{Task, for_seeds, run};
use crate::{
    Access, AdvancedOptions, Database, Durability, Error, LockRelease, Options, PagedOptions, Read, Result,
    Table, TransactionOptions,
};
use fastrand::Rng;
use katydid_device::{SimDevice, Survival};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const KEYS: u8 = 6;
const EACH: u64 = 3;

fn open(device: &SimDevice, lock_release: LockRelease) -> Database {
    let pages = PagedOptions { page_bytes: 4096, cache_bytes: 16 * 4096, ..PagedOptions::default() };
    open_with_places(
        device,
        Options {
            engine: pages.into(),
            advanced: AdvancedOptions { lock_release, ..AdvancedOptions::default() },
            ..Options::default()
        },
    )
}

/// Returns a value with this amount. Some of the values take several pages.
fn value(amount: u64, random: &mut Rng) -> Vec<u8> {
    let length = if random.u8(..3) == 0 { random.usize(2000..9000) } else { random.usize(..900) };
    let mut value = amount.to_le_bytes().to_vec();
    value.resize(8 + length, 7);
    value
}

fn amount(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().expect("eight bytes")))
}

/// Runs one transaction, which transfers an amount from one key to another one by two writes.
/// Between them, the transaction may make two more writes and undo them. A key without an amount is
/// deleted.
fn transfer(database: &Database, table: &Table, random: &mut Rng) -> Result<()> {
    let durability = if random.bool() { Durability::Buffered } else { Durability::Durable };
    let txn = database.begin_with(TransactionOptions { durability, ..TransactionOptions::default() })?;
    let (from, to) = (random.u8(..KEYS), random.u8(..KEYS));
    if from == to {
        return txn.rollback();
    }
    let write = |key: u8, amount: u64, random: &mut Rng| match amount {
        0 => txn.delete(table, [key]).map(drop),
        amount => txn.put(table, [key], value(amount, random)),
    };
    let has = amount(txn.get_for_update(table, [from])?.as_deref());
    if has == 0 {
        return txn.rollback();
    }
    let moved = random.u64(1..=has);
    write(from, has - moved, random)?;
    let savepoint = txn.savepoint();
    if random.u8(..3) == 0 {
        // The rollback to the savepoint undoes these writes.
        write(from, 77, random)?;
        write(to, 77, random)?;
        txn.rollback_to(&savepoint)?;
    }
    let has = amount(txn.get_for_update(table, [to])?.as_deref());
    write(to, has + moved, random)?;
    if random.u8(..4) == 0 { txn.rollback() } else { txn.commit().map(drop) }
}

/// Returns the amounts of all keys as a view shows them, once for each way to read: by an ascending
/// range, by points, and by a descending range.
fn look(database: &Database, table: &Table, read: Read) -> Vec<Vec<u64>> {
    let options = TransactionOptions { access: Access::ReadOnly, read, ..TransactionOptions::default() };
    let txn = database.begin_with(options).expect("begin");
    let mut all = Vec::new();
    for way in 0..3 {
        let mut amounts = vec![0; KEYS.into()];
        if way == 1 {
            for key in 0..KEYS {
                amounts[usize::from(key)] =
                    amount(txn.get(table, [key]).expect("a view waits for nobody").as_deref());
                let is_there = txn.contains(table, [key]).expect("a view waits for nobody");
                assert_eq!(is_there, amounts[usize::from(key)] > 0);
            }
        } else {
            let rows = txn.range(table, ..);
            let rows: Result<Vec<_>> = if way == 0 { rows.collect() } else { rows.rev().collect() };
            for (key, value) in rows.expect("a view waits for nobody") {
                amounts[usize::from(key[0])] = amount(Some(&value));
            }
        }
        all.push(amounts);
    }
    txn.commit().expect("commit");
    all
}

#[test]
fn a_view_shows_whole_transactions_and_does_not_change() {
    for_seeds(150, |seed| {
        let device = SimDevice::new(seed);
        let mut random = Rng::with_seed(seed);
        let lock_release = if random.bool() { LockRelease::Early } else { LockRelease::AfterDurable };
        let database = open(&device, lock_release);
        let table = database.table("t").expect("table");
        database
            .transact(|txn| (0..KEYS).try_for_each(|key| txn.put(&table, [key], value(EACH, &mut random))))
            .expect("fill");
        let writer = |number: u64| {
            let (database, table) = (&database, &table);
            move || {
                let mut random = Rng::with_seed(seed ^ number << 40);
                for _ in 0..3 {
                    let outcome = transfer(database, table, &mut random);
                    assert!(
                        outcome.is_ok() || outcome.as_ref().is_err_and(|error| error.is_retryable()),
                        "{outcome:?}"
                    );
                }
            }
        };
        let reader = |read: Read| {
            let (database, table) = (&database, &table);
            move || {
                for _ in 0..2 {
                    let all = look(database, table, read);
                    assert_eq!(all[0].iter().sum::<u64>(), u64::from(KEYS) * EACH, "{all:?}");
                    assert!(all.iter().all(|amounts| *amounts == all[0]), "{all:?}");
                }
            }
        };
        let checkpoint = || {
            database.checkpoint().expect("checkpoint");
        };
        let mut tasks: Vec<Task<'_>> =
            vec![Box::new(writer(1)), Box::new(writer(2)), Box::new(reader(Read::Visible))];
        match random.u8(..3) {
            0 => tasks.push(Box::new(reader(Read::Durable))),
            1 => tasks.push(Box::new(checkpoint)),
            _ => {}
        }
        run(seed, tasks);
        let stat = database.stat().expect("stat");
        let paged = stat.paged().expect("a paged database");
        assert_eq!((paged.views, paged.view_bytes), (0, 0), "what nobody needs is not kept");
        assert_eq!(table.paged().versions.images(), 0);
        assert!(database.verify(None).expect("verify").is_sound());
    });
}

/// A view reads while a commit with `Durability::Buffered` releases its locks. Once the view has
/// committed, what it has shown must survive a crash that leaves only what is durable.
#[test]
fn a_view_beside_a_commit_depends_on_it() {
    for_seeds(150, |seed| {
        let device = SimDevice::new(seed);
        let database = open(&device, LockRelease::Early);
        let table = database.table("t").expect("table");
        database.put(&table, "k", "old").expect("put");
        database.put(&table, "gone", "old").expect("put");
        let writer = || {
            let buffered =
                TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
            let txn = database.begin_with(buffered).expect("begin");
            txn.put(&table, "k", "new").expect("put");
            txn.delete(&table, "gone").expect("delete");
            txn.commit().expect("commit");
        };
        let by_range = seed % 2 == 0;
        let shown = Mutex::new(None);
        let reader = || {
            let view = database.begin_read_only().expect("begin");
            let is_new = if by_range {
                view.range(&table, ..).count() == 1
            } else {
                !view.contains(&table, "gone").expect("contains")
            };
            view.commit().expect("commit");
            device.freeze();
            *shown.lock() = Some(is_new);
        };
        let order = run(seed, vec![Box::new(reader), Box::new(writer)]);
        let device = device.reopen_with(1, Survival::DropAll);
        let database = open(&device, LockRelease::Early);
        let table = database.open_table("t").expect("open table").expect("the table");
        let is_there = !database.contains(&table, "gone").expect("contains");
        assert!(is_there || shown.into_inner() == Some(false), "seed {seed}: {order:?}");
    });
}

/// A view reads a table with a long value while the table is dropped and its pages are used for
/// another table. Each read of the view must return the dropped table's rows, or the error of a
/// dropped table.
#[test]
fn a_view_beside_a_drop_reads_the_truth_or_gets_an_error() {
    let met_drops = AtomicUsize::new(0);
    for_seeds(100, |seed| {
        let device = SimDevice::new(seed);
        let database = open(&device, LockRelease::Early);
        let table = database.table("t").expect("table");
        let value = |key: u8| vec![key; if key == 2 { 9000 } else { 700 }];
        database
            .transact(|txn| (0..16).try_for_each(|key| txn.put(&table, [key], value(key))))
            .expect("fill");
        let dropper = || {
            assert!(database.drop_table("t").expect("drop"));
            let other = database.table("other").expect("table");
            database
                .transact(|txn| (0..16).try_for_each(|key| txn.put(&other, [key], vec![99; 800])))
                .expect("fill");
        };
        let dropped = AtomicUsize::new(0);
        let reader = || {
            let view = database.begin_read_only().expect("begin");
            for _ in 0..2 {
                let rows: Result<Vec<_>> = view.range(&table, ..).collect();
                match rows {
                    Ok(rows) => {
                        assert!(rows.into_iter().eq((0..16).map(|key| (vec![key], value(key)))));
                    }
                    Err(Error::TableDropped { .. }) => drop(dropped.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => panic!("{error}"),
                }
            }
        };
        run(seed, vec![Box::new(reader), Box::new(dropper)]);
        met_drops.fetch_add(dropped.into_inner(), Ordering::Relaxed);
    });
    assert!(met_drops.into_inner() > 0, "no view met a drop");
}
