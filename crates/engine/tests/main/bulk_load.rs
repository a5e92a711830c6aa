//! Bulk loads: transactions and views see a load as a whole, in this opening and in the next; a
//! refused load leaves nothing.

use crate::common::{Rng, assert_sound, chunked, contents, key, options_for, seeds};
use katydid::{
    Change, ChangesFrom, ConflictKind, Database, EngineKind, EngineOptions, Error, Method, NewValue, Options,
    Table, Transaction,
};
use katydid_device::MemoryDirectory;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

suite! {
    what_was_loaded_is_there_in_every_opening,
    random_sets_are_loaded,
    a_table_with_keys_is_refused,
    keys_out_of_order_are_named,
    what_is_too_long_is_refused,
    an_error_of_the_source_leaves_nothing,
    nothing_at_all_can_be_loaded,
    a_view_sees_all_of_a_load_or_none,
    a_view_from_before_a_load_sees_nothing_that_came_later,
    a_load_has_the_table_to_itself,
    a_load_is_no_part_of_a_transaction,
    a_closed_database_ends_a_load,
    the_feed_returns_a_load,
    loads_and_transactions_take_turns,
    a_table_that_was_emptied_keeps_changes_after_a_load,
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn rows(count: u64) -> Rows {
    (0..count).map(|number| (key(number), vec![number as u8; number as usize % 700])).collect()
}

fn new(engine: EngineKind) -> (Database, Table) {
    let database = Database::in_memory_with(options_for(engine)).expect("open");
    let table = database.table("t").expect("table");
    (database, table)
}

fn with_page_method(mut options: Options, method: Method) -> Options {
    if let EngineOptions::Paged(paged) = &mut options.engine {
        paged.page_method = method;
    }
    options
}

fn what_was_loaded_is_there_in_every_opening(engine: EngineKind) {
    for method in [Method::Direct, Method::Buffered] {
        let directory = Arc::new(MemoryDirectory::new());
        let options = chunked(with_page_method(options_for(engine), method));
        let database = Database::open_in(directory.clone(), options.clone()).expect("open");
        let table = database.table("t").expect("table");
        assert_eq!(database.bulk_load(&table, rows(5000)).expect("load"), 5000);
        assert_eq!(contents(&database, &table), rows(5000));
        assert_sound(&database.verify(None).expect("verify"));
        database.put(&table, key(77), "changed").expect("put");
        database.delete(&table, key(4999)).expect("delete");
        let mut expected = rows(5000);
        expected.insert(key(77), b"changed".to_vec());
        expected.remove(&key(4999));
        database.close().expect("close");
        let database = Database::open_in(directory, options).expect("open");
        let table = database.open_table("t").expect("open table").expect("the table");
        assert_eq!(contents(&database, &table), expected);
        assert_eq!(database.tables().expect("tables"), ["t"]);
        assert_sound(&database.verify(None).expect("verify"));
        assert!(database.drop_table("t").expect("drop"));
        assert_sound(&database.verify(None).expect("verify"));
    }
}

fn random_sets_are_loaded(engine: EngineKind) {
    for seed in seeds(1, 6, 4) {
        let mut rng = Rng::with_seed(seed);
        let mut options = options_for(engine);
        if let EngineOptions::Paged(paged) = &mut options.engine {
            paged.page_bytes = 4096 << rng.u32(..4);
            paged.cache_bytes = paged.page_bytes * rng.usize(16..200);
        }
        let longest = [10, 500, 5000, 60_000][rng.usize(..4)];
        let mut entries = Rows::new();
        for _ in 0..rng.usize(..1500) {
            let longest_key = [8, 200, 500][rng.usize(..3)];
            let key = (0..rng.usize(..longest_key)).map(|_| rng.u8(..3)).collect();
            entries.insert(key, vec![rng.u8(..); rng.usize(..longest)]);
        }
        let database = Database::in_memory_with(options).expect("open");
        let table = database.table("t").expect("table");
        let loaded = database.bulk_load(&table, &entries).expect("load");
        assert_eq!(loaded, entries.len() as u64, "seed {seed}");
        assert_eq!(contents(&database, &table), entries, "seed {seed}");
        assert_sound(&database.verify(None).expect("verify"));
    }
}

fn a_table_with_keys_is_refused(engine: EngineKind) {
    let (database, table) = new(engine);
    database.put(&table, "a", "1").expect("put");
    let refused = database.bulk_load(&table, rows(3));
    assert!(matches!(&refused, Err(Error::TableNotEmpty { name }) if name == "t"), "{refused:?}");
    database.delete(&table, "a").expect("delete");
    database.bulk_load(&table, rows(3)).expect("an empty table");
    let refused = database.bulk_load(&table, rows(3));
    assert!(matches!(refused, Err(Error::TableNotEmpty { .. })), "{refused:?}");
    // A table whose keys were all deleted can be loaded.
    database
        .transact(|txn| rows(3).keys().try_for_each(|key| txn.delete(&table, key).map(drop)))
        .expect("delete");
    let many = database.table("many").expect("table");
    database.bulk_load(&many, rows(3000)).expect("load");
    database.transact(|txn| txn.delete_range(&many, ..).map(drop)).expect("delete");
    database.bulk_load(&many, rows(2000)).expect("load");
    assert_eq!(contents(&database, &many), rows(2000));
    assert_sound(&database.verify(None).expect("verify"));
}

fn keys_out_of_order_are_named(engine: EngineKind) {
    let (database, table) = new(engine);
    for (entries, wrong) in [(["b", "a", "c"], 2), (["a", "c", "b"], 3), (["a", "b", "b"], 3)] {
        let refused = database.bulk_load(&table, entries.map(|key| (key, "")));
        let Err(Error::Unsorted { table: name, nth, key }) = refused else { panic!("{refused:?}") };
        assert_eq!((name.as_str(), nth), ("t", wrong));
        assert_eq!(key.start(), entries[wrong as usize - 1].as_bytes());
        assert_eq!(contents(&database, &table), Rows::new());
    }
    // This load is refused late, when its pages are on the device. The pages are free again at
    // once.
    let in_use = || database.stat().expect("stat").paged().map(|paged| paged.pages - paged.pages_free);
    let before = in_use();
    let late = rows(4000).into_iter().chain([(b"a".to_vec(), Vec::new())]);
    let refused = database.bulk_load(&table, late);
    assert!(matches!(refused, Err(Error::Unsorted { nth: 4001, .. })), "{refused:?}");
    assert_eq!(in_use(), before, "pages in use");
    assert_eq!(contents(&database, &table), Rows::new());
    assert_sound(&database.verify(None).expect("verify"));
    database.bulk_load(&table, rows(4000)).expect("load");
    assert_eq!(contents(&database, &table), rows(4000));
}

fn what_is_too_long_is_refused(engine: EngineKind) {
    let (database, table) = new(engine);
    let refused = database.bulk_load(&table, [(vec![7; 1025], "")]);
    assert!(matches!(&refused, Err(Error::KeyTooLong { table, .. }) if &**table == "t"), "{refused:?}");
    let refused = database.bulk_load(&table, [("a", vec![7; (16 << 20) + 1])]);
    assert!(matches!(&refused, Err(Error::ValueTooLong { table, .. }) if &**table == "t"), "{refused:?}");
    if engine == EngineKind::Paged {
        // Small pages allow only short keys.
        let refused = database.bulk_load(&table, [(vec![7; 513], "")]);
        assert!(matches!(&refused, Err(Error::KeyTooLong { table, max: 512, .. }) if &**table == "t"));
    }
    assert_eq!(contents(&database, &table), Rows::new());
    assert_sound(&database.verify(None).expect("verify"));
}

fn an_error_of_the_source_leaves_nothing(engine: EngineKind) {
    #[derive(Debug, PartialEq)]
    enum Refusal {
        Torn,
        Store(String),
    }
    impl From<Error> for Refusal {
        fn from(error: Error) -> Self {
            Refusal::Store(error.to_string())
        }
    }
    let (database, table) = new(engine);
    let torn = rows(3000).into_iter().map(Ok).chain([Err(Refusal::Torn)]);
    assert_eq!(database.try_bulk_load(&table, torn), Err(Refusal::Torn));
    let unsorted = ["b", "a"].map(|key| Ok::<_, Refusal>((key, "")));
    let refused = database.try_bulk_load(&table, unsorted);
    assert!(matches!(&refused, Err(Refusal::Store(why)) if why.contains("entry 2")), "{refused:?}");
    assert_eq!(contents(&database, &table), Rows::new());
    assert_sound(&database.verify(None).expect("verify"));
}

fn nothing_at_all_can_be_loaded(engine: EngineKind) {
    let (database, table) = new(engine);
    assert_eq!(database.bulk_load(&table, Rows::new()).expect("load"), 0);
    assert_eq!(contents(&database, &table), Rows::new());
    database.put(&table, "a", "1").expect("put");
    assert_sound(&database.verify(None).expect("verify"));
}

fn shown(view: &Transaction, table: &Table) -> Rows {
    let up: Rows = view.range(table, ..).map(|row| row.expect("a row")).collect();
    let down: Rows = view.range(table, ..).rev().map(|row| row.expect("a row")).collect();
    assert_eq!(up, down);
    for number in (0..2000).step_by(37) {
        let found = view.get(table, key(number)).expect("get");
        assert_eq!(found.as_ref(), up.get(&key(number)));
        assert_eq!(view.contains(table, key(number)).expect("contains"), found.is_some());
    }
    up
}

fn a_view_sees_all_of_a_load_or_none(engine: EngineKind) {
    let (database, table) = new(engine);
    let before = database.begin_read_only().expect("view");
    let mut during = None;
    let entries = rows(2000).into_iter().enumerate().map(|(number, entry)| {
        if number == 1500 {
            let view = database.begin_read_only().expect("view");
            assert_eq!(shown(&view, &table), Rows::new());
            during = Some(view);
        }
        entry
    });
    database.bulk_load(&table, entries).expect("load");
    let after = database.begin_read_only().expect("view");
    assert_eq!(shown(&after, &table), rows(2000));
    for view in [&before, during.as_ref().expect("it was opened")] {
        assert_eq!(shown(view, &table), Rows::new());
    }
    // No write after the load shows in a view, whether or not the view sees the load.
    database
        .transact(|txn| {
            (0..2000).try_for_each(|number| match number % 3 {
                0 => txn.put(&table, key(number), "changed"),
                1 => txn.delete(&table, key(number)).map(drop),
                _ => Ok(()),
            })
        })
        .expect("changes");
    assert_eq!(shown(&after, &table), rows(2000));
    assert_eq!(shown(&before, &table), Rows::new());
    assert_eq!(contents(&database, &table).len(), 1333);
}

fn a_view_from_before_a_load_sees_nothing_that_came_later(engine: EngineKind) {
    let (database, table) = new(engine);
    database.put(&table, key(5), "first").expect("put");
    database.put(&table, key(9), "first").expect("put");
    let first = database.begin_read_only().expect("view");
    let of_first = Rows::from([5, 9].map(|number| (key(number), b"first".to_vec())));
    database.transact(|txn| txn.delete_range(&table, ..).map(drop)).expect("delete");
    let empty = database.begin_read_only().expect("view");
    database.bulk_load(&table, rows(500)).expect("load");
    let full = database.begin_read_only().expect("view");
    database.put(&table, key(5), "later").expect("put");
    database.transact(|txn| txn.delete_range(&table, ..).map(drop)).expect("delete");
    let empty_again = database.begin_read_only().expect("view");
    database.bulk_load(&table, rows(50)).expect("load");
    database.put(&table, key(9), "last").expect("put");
    let mut last = rows(50);
    last.insert(key(9), b"last".to_vec());
    let newest = database.begin_read_only().expect("view");
    database.transact(|txn| txn.delete_range(&table, ..).map(drop)).expect("delete");
    for (view, rows) in [
        (&first, of_first),
        (&empty, Rows::new()),
        (&full, rows(500)),
        (&empty_again, Rows::new()),
        (&newest, last),
    ] {
        assert_eq!(shown(view, &table), rows);
    }
}

fn a_load_has_the_table_to_itself(engine: EngineKind) {
    let options = Options { lock_wait: Duration::from_millis(20), ..options_for(engine) };
    let database = Database::in_memory_with(options).expect("open");
    let table = database.table("t").expect("table");
    let other = database.table("other").expect("table");
    // Another transaction uses the table when the load begins.
    let user = database.begin().expect("begin");
    user.put(&table, "a", "1").expect("put");
    let refused = database.bulk_load(&table, rows(10));
    match engine {
        EngineKind::Paged => {
            let own = std::thread::scope(|scope| {
                scope.spawn(|| database.bulk_load(&table, rows(10))).join().expect("no panic")
            });
            assert!(matches!(refused, Err(Error::WaitsForItself { .. })), "{refused:?}");
            assert!(matches!(own, Err(Error::Conflict { kind: ConflictKind::Timeout, .. })), "{own:?}");
            user.rollback().expect("rollback");
        }
        _ => {
            // The load does not see the user's writes, and the user's commit adds them to the full
            // table.
            refused.expect("load");
            user.commit().expect("commit");
            let late = database.begin().expect("begin");
            assert_eq!(late.range(&table, ..).count(), 11);
            late.rollback().expect("rollback");
            database.transact(|txn| txn.delete_range(&table, ..).map(drop)).expect("delete");
        }
    }
    // Another thread reads and writes during a load.
    let entries = rows(200).into_iter().enumerate().map(|(number, entry)| {
        if number == 100 {
            std::thread::scope(|scope| {
                let beside = scope.spawn(|| {
                    database.put(&other, "beside", "1").expect("another table");
                    match engine {
                        EngineKind::Paged => {
                            let refused = database.put(&table, "a", "1");
                            assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
                            let refused = database.bulk_load(&table, rows(10));
                            assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
                            let refused = database.drop_table("t");
                            assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
                        }
                        _ => assert_eq!(database.get(&table, "a").expect("get"), None),
                    }
                });
                beside.join().expect("no panic");
            });
        }
        entry
    });
    database.bulk_load(&table, entries).expect("load");
    assert_eq!(contents(&database, &table), rows(200));
    assert_sound(&database.verify(None).expect("verify"));
}

fn a_load_is_no_part_of_a_transaction(engine: EngineKind) {
    let (database, table) = new(engine);
    let nested = database.transact(|_| database.bulk_load(&table, rows(3)));
    assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
    let entries = rows(3).into_iter().inspect(|_| {
        let nested = database.put(&table, "a", "1");
        assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
    });
    database.bulk_load(&table, entries).expect("load");
    let elsewhere = Database::in_memory_with(options_for(engine)).expect("open");
    let refused = elsewhere.bulk_load(&table, rows(3));
    assert!(matches!(refused, Err(Error::ForeignTable { .. })), "{refused:?}");
    let gone = database.table("gone").expect("table");
    assert!(database.drop_table("gone").expect("drop"));
    let refused = database.bulk_load(&gone, rows(3));
    assert!(matches!(refused, Err(Error::TableDropped { .. })), "{refused:?}");
    assert_eq!(contents(&database, &table), rows(3));
}

fn a_closed_database_ends_a_load(engine: EngineKind) {
    let directory = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), options_for(engine)).expect("open");
    let table = database.table("t").expect("table");
    let entries = rows(3000).into_iter().enumerate().map(|(number, entry)| {
        if number == 2000 {
            database.close().expect("close");
        }
        entry
    });
    let refused = database.bulk_load(&table, entries);
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    drop((table, database));
    let report = Database::verify_in(directory.clone(), None).expect("verify");
    assert_sound(&report);
    let database = Database::open_in(directory, options_for(engine)).expect("open");
    let table = database.table("t").expect("table");
    assert_eq!(contents(&database, &table), Rows::new());
    assert_sound(&database.verify(None).expect("verify"));
    assert_eq!(database.bulk_load(&table, rows(300)).expect("load"), 300);
}

fn the_feed_returns_a_load(engine: EngineKind) {
    let (database, table) = new(engine);
    let mut changes = database.changes(&ChangesFrom::Now).expect("feed");
    database.bulk_load(&table, [("a", "1"), ("b", "2")]).expect("load");
    database.bulk_load(&database.table("u").expect("table"), Rows::new()).expect("load");
    database.put(&table, "c", "3").expect("put");
    let mut found = Vec::new();
    while found.last() != Some(&"c".to_owned()) {
        for change in changes.next().expect("a transaction").changes {
            found.push(match change {
                Change::TableLoaded { name, .. } => format!("loaded {}", name.as_deref().unwrap_or("?")),
                Change::Row { key, new: NewValue::Value(_), .. } => String::from_utf8(key).expect("text"),
                Change::TableCreated { name, .. } => format!("created {name}"),
                other => panic!("{other:?}"),
            });
        }
    }
    match engine {
        EngineKind::Paged => assert_eq!(found, ["loaded t", "created u", "c"]),
        _ => assert_eq!(found, ["a", "b", "created u", "c"]),
    }
}

/// Random loads, transactions, closings and openings, checked against a model.
fn loads_and_transactions_take_turns(engine: EngineKind) {
    for seed in seeds(100, 3, 3) {
        let mut rng = Rng::with_seed(seed);
        let directory = Arc::new(MemoryDirectory::new());
        let options = chunked(options_for(engine));
        let mut database = Database::open_in(directory.clone(), options.clone()).expect("open");
        let mut model: [Rows; 2] = Default::default();
        for round in 0..60 {
            let at = rng.usize(..2);
            let table = database.table(["t", "u"][at]).expect("table");
            let rows = &mut model[at];
            match rng.u32(..6) {
                0 | 1 => {
                    let entries: Rows = (0..rng.u64(..1500))
                        .map(|_| (key(rng.u64(..5000)), vec![round; rng.usize(..900)]))
                        .collect();
                    match database.bulk_load(&table, &entries) {
                        Ok(count) => {
                            assert!(rows.is_empty(), "seed {seed}: {count} rows into a full table");
                            *rows = entries;
                        }
                        Err(Error::TableNotEmpty { .. }) => assert!(!rows.is_empty(), "seed {seed}"),
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
                2 => {
                    database.transact(|txn| txn.delete_range(&table, ..).map(drop)).expect("delete");
                    rows.clear();
                }
                3 => {
                    let entries = [(key(3), vec![round; 40]), (key(1), vec![round; 40])];
                    let outcome = database.bulk_load(&table, entries);
                    assert!(matches!(outcome, Err(Error::Unsorted { .. } | Error::TableNotEmpty { .. })));
                }
                4 => {
                    let number = rng.u64(..5000);
                    database.put(&table, key(number), [round; 30]).expect("put");
                    rows.insert(key(number), vec![round; 30]);
                }
                _ => {
                    drop(table);
                    database.close().expect("close");
                    database = Database::open_in(directory.clone(), options.clone()).expect("open");
                }
            }
            let table = database.table(["t", "u"][at]).expect("table");
            assert_eq!(contents(&database, &table), model[at], "seed {seed}, round {round}");
        }
        assert_sound(&database.verify(None).expect("verify"));
    }
}

/// A tree that lost all keys may still have several leaves. The order of deletions below leaves
/// such a tree in the paged engine.
fn a_table_that_was_emptied_keeps_changes_after_a_load(engine: EngineKind) {
    const KEYS: u64 = 1500;
    for (low, high) in [(700, 1300), (695, 1385), (750, 1350)] {
        let mut options = options_for(engine);
        if let EngineOptions::Paged(paged) = &mut options.engine {
            paged.cache_bytes = 4 << 20;
        }
        let database = Database::in_memory_with(options).expect("open");
        let table = database.table("t").expect("table");
        for value in [vec![7_u8; 700], Vec::new()] {
            for number in 0..KEYS {
                database.put(&table, key(number), &value).expect("put");
            }
        }
        for value in ["first", "second"] {
            database.put(&table, key(0), value).expect("put");
        }
        for number in (0..low).chain(high..KEYS).chain(low..high) {
            assert!(database.delete(&table, key(number)).expect("delete"));
        }
        let mut expected: Rows = rows(50).split_off(&key(1));
        database.bulk_load(&table, expected.clone()).expect("load");
        // The thread may remember the leaf of the last key that it deleted, or of a key that it
        // deleted before.
        for number in [high - 1, low, 0] {
            database.put(&table, key(number), "after the load").expect("put");
            expected.insert(key(number), b"after the load".to_vec());
            assert_eq!(database.get(&table, key(number)).expect("get"), expected.get(&key(number)).cloned());
        }
        assert_eq!(contents(&database, &table), expected);
        assert_sound(&database.verify(None).expect("verify"));
    }
}
