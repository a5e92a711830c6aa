//! Reads and writes of several keys by one call. The tests compare them with single calls, over all
//! I/O methods for pages and with caches much smaller than the data. Other tests check the order of
//! the locks, how many leaves are read together, and devices on which one of the reads fails.

use crate::common::{self, Rng, options_for};
use katydid::testing::Background;
use katydid::{Access, Database, EngineKind, Error, Method, Options, Table, Transaction, TransactionOptions};
use katydid_device::{Directory, MemoryDirectory, SimDevice, Verb};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

suite! {
    batches_match_single_calls,
    batches_in_files_match_single_calls,
    the_last_of_several_values_counts,
    no_value_is_set_if_one_is_too_long,
    an_empty_batch_is_nothing_but_checked,
}

/// Options for an engine, with this method for pages and this number of pages in the cache.
fn options(engine: EngineKind, method: Method, cache_pages: usize) -> Options {
    let mut options = options_for(engine);
    if let Some(paged) = options.engine.paged_mut() {
        paged.page_method = method;
        paged.cache_bytes = cache_pages * paged.page_bytes;
    }
    options
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Makes some random calls of one transaction, whose answers must be the model's.
fn calls(txn: &Transaction, table: &Table, model: &mut Model, random: &mut Rng, writes: bool) {
    for _ in 0..random.usize(1..4) {
        let mut count = random.usize(0..200);
        if random.bool() {
            count /= 20;
        }
        let mut keys: Vec<Vec<u8>> = (0..count).map(|_| common::key(random.u64(0..700))).collect();
        if let Some(first) = keys.first().cloned() {
            keys.push(first);
        }
        if writes && random.bool() {
            let long = random.usize(0..keys.len() + 1);
            let value = |nth| vec![nth as u8; if nth == long { 9000 } else { 100 + nth }];
            let entries = keys.iter().enumerate().map(|(nth, key)| (key, value(nth)));
            txn.put_all(table, entries.clone()).unwrap();
            model.extend(entries.map(|(key, value)| (key.clone(), value)));
        }
        let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
        assert_eq!(txn.multi_get(table, &keys).unwrap(), expected);
        let one_by_one: Vec<_> = keys.iter().map(|key| txn.get(table, key).unwrap()).collect();
        assert_eq!(one_by_one, expected);
        if writes && random.u32(0..4) == 0 {
            let gone = common::key(random.u64(0..700));
            assert_eq!(txn.delete(table, &gone).unwrap(), model.remove(&gone).is_some());
        }
    }
}

fn matches_single_calls(directory: Arc<dyn Directory>, options: &Options, seed: u64) {
    println!("KATYDID_SEED={seed}, {:?}", options.engine);
    let mut random = Rng::with_seed(seed);
    let open = || Database::open_in(directory.clone(), options.clone()).unwrap();
    let mut database = open();
    let mut table = database.table("t").unwrap();
    let mut model = Model::new();
    for round in 0..40 {
        let view = database.begin_read_only().unwrap();
        let mut seen = model.clone();
        let mut next = model.clone();
        let txn = database.begin().unwrap();
        calls(&txn, &table, &mut next, &mut random, true);
        match random.u32(0..4) {
            0 => txn.rollback().unwrap(),
            _ => {
                txn.commit().unwrap();
                model = next;
            }
        }
        // A view shows the state before the transaction.
        calls(&view, &table, &mut seen, &mut random, false);
        drop(view);
        if round % 20 == 19 {
            assert_eq!(common::contents(&database, &table), model);
            common::assert_sound(&database.verify(None).unwrap());
            drop(table);
            database.close().unwrap();
            drop(database);
            database = open();
            table = database.open_table("t").unwrap().unwrap();
        }
    }
}

fn batches_match_single_calls(engine: EngineKind) {
    for seed in common::seeds(30, 1, 1) {
        for method in [Method::Buffered, Method::Direct] {
            for cache_pages in [16, 64] {
                let options = options(engine, method, cache_pages);
                matches_single_calls(Arc::new(MemoryDirectory::new()), &options, seed);
            }
        }
    }
}

fn batches_in_files_match_single_calls(engine: EngineKind) {
    for seed in common::seeds(31, 1, 0) {
        for method in Method::ALL {
            let folder = tempfile::tempdir().unwrap();
            let directory = Arc::new(katydid_device::FileDirectory::open(folder.path()).unwrap());
            matches_single_calls(directory, &options(engine, method, 64), seed);
        }
    }
}

fn the_last_of_several_values_counts(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    // The call sorts these 600 entries, and must keep the entries of one key in their order.
    let entries = || (0..600_u32).map(|nth| (common::key(u64::from(nth % 7)), nth.to_be_bytes()));
    database.transact(|txn| txn.put_all(&table, entries())).unwrap();
    let expected: Model = entries().map(|(key, value)| (key, value.to_vec())).collect();
    assert_eq!(common::contents(&database, &table), expected);
}

fn no_value_is_set_if_one_is_too_long(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, "a", "old").unwrap();
    let (long_key, long_value) = (vec![b'k'; 1 << 20], vec![b'v'; (16 << 20) + 1]);
    let refused = txn.put_all(&table, [(&b"a"[..], &b"new"[..]), (&long_key, b"new")]);
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
    let refused = txn.put_all(&table, [(&b"a"[..], &b"new"[..]), (b"b", &long_value)]);
    assert!(matches!(refused, Err(Error::ValueTooLong { .. })), "{refused:?}");
    let refused = txn.multi_get(&table, [&b"a"[..], &long_key]);
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
    assert_eq!(txn.multi_get(&table, ["a", "b"]).unwrap(), [Some(b"old".to_vec()), None], "it goes on");
    txn.commit().unwrap();
}

fn an_empty_batch_is_nothing_but_checked(engine: EngineKind) {
    let open = || Database::in_memory_with(options_for(engine)).unwrap();
    let (database, other) = (open(), open());
    let [table, foreign] = [&database, &other].map(|database| database.table("t").unwrap());
    const KEYS: [&str; 0] = [];
    const ENTRIES: [(&str, &str); 0] = [];
    let (txn, view) = (database.begin().unwrap(), database.begin_read_only().unwrap());
    assert_eq!(txn.multi_get(&table, KEYS).unwrap(), []);
    txn.put_all(&table, ENTRIES).unwrap();
    assert!(matches!(txn.multi_get(&foreign, KEYS), Err(Error::ForeignTable { .. })));
    assert!(matches!(txn.put_all(&foreign, ENTRIES), Err(Error::ForeignTable { .. })));
    assert!(matches!(view.put_all(&table, ENTRIES), Err(Error::ReadOnly)));
}

/// Another transaction holds the middle key. A batch that waits for that key has locked the lesser
/// keys only, in whatever order its keys are given.
#[test]
fn keys_are_locked_in_ascending_order() {
    let batches: [Batch; 2] = [
        |txn, table| txn.put_all(table, ["z", "m", "a"].map(|key| (key, "new"))),
        |txn, table| txn.multi_get(table, ["z", "m", "a"]).map(drop),
    ];
    for method in [Method::Buffered, Method::Direct] {
        for batch in batches {
            let options = options(EngineKind::Paged, method, 16);
            let database = Database::in_memory_with(options).unwrap();
            let table = database.table("t").unwrap();
            let (holder, waiter) = (database.begin().unwrap(), database.begin().unwrap());
            holder.put(&table, "m", "held").unwrap();
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    batch(&waiter, &table).unwrap();
                    waiter.commit().unwrap();
                });
                while database.stat().unwrap().waiting.is_empty() {
                    std::thread::yield_now();
                }
                // If the batch had locked this key, each transaction would wait for the other, and
                // one of them would be refused.
                holder.put(&table, "z", "free").unwrap();
                holder.commit().unwrap();
                waiting.join().unwrap();
            });
        }
    }
}

type Batch = fn(&Transaction, &Table) -> katydid::Result<()>;

/// Keys that are far from each other, and so lie in different leaves.
fn distant_keys() -> impl Iterator<Item = Vec<u8>> + Clone {
    (0..40).map(|nth| common::key(nth * 75))
}

/// A value that is short enough to lie in a leaf.
const VALUE: [u8; 700] = [7; 700];

/// Reads distant keys, all of which must have their first value.
fn read_distant_keys(txn: &Transaction, table: &Table) -> katydid::Result<()> {
    let values = txn.multi_get(table, distant_keys())?;
    assert!(values.iter().all(|value| value.as_deref() == Some(&VALUE)));
    Ok(())
}

fn write_distant_keys(txn: &Transaction, table: &Table) -> katydid::Result<()> {
    txn.put_all(table, distant_keys().map(|key| (key, "new")))
}

/// Fills a table far larger than the cache. Leaves whose keys are neighbours are far from each
/// other in the file, because the keys were put in random order.
fn device_with_distant_leaves(options: &Options) -> SimDevice {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options.clone()).unwrap();
    let table = database.table("t").unwrap();
    let mut numbers: Vec<u64> = (0..3000).collect();
    Rng::with_seed(1).shuffle(&mut numbers);
    for some in numbers.chunks(100) {
        let entries = || some.iter().map(|number| (common::key(*number), VALUE));
        database.transact(|txn| entries().try_for_each(|(key, value)| txn.put(&table, key, value))).unwrap();
    }
    database.close().unwrap();
    device
}

#[test]
fn leaves_that_are_not_in_memory_are_read_together_unless_pages_are_direct() {
    const CACHE_PAGES: usize = 100;
    let batches: [(&str, Access, Batch); 3] = [
        ("multi_get", Access::ReadWrite, read_distant_keys),
        ("multi_get of a view", Access::ReadOnly, read_distant_keys),
        ("put_all", Access::ReadWrite, write_distant_keys),
    ];
    for method in Method::ALL {
        let options = options(EngineKind::Paged, method, CACHE_PAGES);
        let filled = device_with_distant_leaves(&options);
        for (name, access, batch) in batches {
            let device = filled.reopen_after_kill();
            let database = Database::open_in(device.directory(), options.clone()).unwrap();
            let table = database.open_table("t").unwrap().unwrap();
            let begun = device.most_reads_together();
            let txn = database.begin_with(TransactionOptions { access, ..Default::default() }).unwrap();
            batch(&txn, &table).unwrap();
            txn.commit().unwrap();
            let most = device.most_reads_together();
            let case = format!("{name}, {method}: {most} reads together, {begun} of them before");
            assert!(begun < 2, "{case}");
            match method {
                Method::Direct => assert!(most < 2, "{case}"),
                _ => assert!(most > 10 && most <= CACHE_PAGES / 4, "{case}"),
            }
        }
    }
}

/// Runs a batch once for each read of the pages file that the batch makes, and makes that read
/// fail. If `stays`, later reads of the same bytes fail too. A failed batch names the page, and has
/// no effect; the transaction goes on when the device works again.
fn each_read_of_a_batch_fails(options: &Options, batch: Batch, stays: bool) -> usize {
    let filled = device_with_distant_leaves(options);
    let mut refused = 0;
    for nth in 0.. {
        let device = filled.reopen_after_kill();
        let database = Database::open_in(device.directory(), options.clone()).unwrap();
        let table = database.open_table("t").unwrap().unwrap();
        let txn = database.begin().unwrap();
        txn.put(&table, "before", "kept").unwrap();
        let bad: Arc<Mutex<Option<Range<u64>>>> = Arc::default();
        let (seen, mut reads) = (bad.clone(), 0);
        device.fail_reads_when(move |path, range| {
            let mut bad = seen.lock().unwrap();
            reads += usize::from(path == "katydid.pages");
            match &*bad {
                _ if path != "katydid.pages" => false,
                None if reads == nth + 1 => {
                    *bad = Some(range);
                    true
                }
                Some(bytes) => stays && bytes.start < range.end && range.start < bytes.end,
                None => false,
            }
        });
        let outcome = batch(&txn, &table);
        device.heal();
        let Some(bytes) = bad.lock().unwrap().take() else {
            outcome.unwrap();
            return refused;
        };
        if let Err(error) = &outcome {
            let Error::Device(error) = error else { panic!("read {nth}: {error}") };
            let pages = bytes.start / 4096..bytes.end.div_ceil(4096);
            let names = |page| {
                let place =
                    format!("page {page} of katydid.pages bytes {}..{}", page * 4096, page * 4096 + 4096);
                error.subject == place
            };
            assert!(error.verb == Verb::Read && pages.clone().any(names), "{error}, not of {pages:?}");
            refused += 1;
            read_distant_keys(&txn, &table).unwrap();
            batch(&txn, &table).unwrap();
        }
        assert_eq!(txn.get(&table, "before").unwrap().as_deref(), Some(&b"kept"[..]));
        txn.commit().unwrap();
        if nth % 8 == 0 {
            common::assert_sound(&database.verify(None).unwrap());
        }
        database.close().unwrap();
    }
    unreachable!("the loop has no end")
}

#[test]
fn a_read_of_a_batch_that_fails_names_its_page_and_harms_nothing() {
    for method in [Method::Buffered, Method::Direct] {
        let mut options = options(EngineKind::Paged, method, 64);
        // All calls are made on this thread, so that a number names the same read in every run.
        options.advanced.log.background = Background::Caller;
        for batch in [read_distant_keys, write_distant_keys] {
            let refused = each_read_of_a_batch_fails(&options, batch, true);
            assert!(refused > 30, "{method}: only {refused} failing reads were reported");
            let refused = each_read_of_a_batch_fails(&options, batch, false);
            // A leaf whose read ahead failed is read again when it is needed. Direct pages are not
            // read ahead.
            let is_expected = if method == Method::Direct { refused > 30 } else { refused < 10 };
            assert!(is_expected, "{method}: {refused} failing reads were reported");
        }
    }
}
