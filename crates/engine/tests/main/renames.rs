//! Tables that get another name: handles that are open, names that are taken, and crashes.

use crate::common::{contents, options_for};
use katydid::{Database, EngineKind, Error, MemoryDirectory};
use katydid_device::SimDevice;
use std::sync::Arc;

suite! {
    handles_and_open_transactions_go_on,
    a_name_that_is_taken_or_missing_changes_nothing,
    the_old_name_is_free,
    a_crash_leaves_one_of_the_two_names,
}

fn handles_and_open_transactions_go_on(engine: EngineKind) {
    let directory = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), options_for(engine)).unwrap();
    let table = database.table("old").unwrap();
    database.put(&table, "before", "1").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, "across", "2").unwrap();
    assert!(database.rename_table("old", "new").unwrap());
    txn.put(&table, "across", "3").unwrap();
    txn.commit().unwrap();
    assert_eq!(table.name(), "old", "as it was called when the handle was asked for");
    let again = database.open_table("new").unwrap().expect("it is called so");
    assert_eq!((again.name(), again.id()), ("new", table.id()));
    assert_eq!(database.get(&again, "across").unwrap().as_deref(), Some(&b"3"[..]));
    let Err(Error::KeyExists { table: name, .. }) = database.insert(&table, "before", "") else { panic!() };
    assert_eq!(&*name, "new", "as it is called now");
    // A drop does not find the table by its old name.
    assert!(!database.drop_table("old").unwrap());
    database.close().unwrap();
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    assert_eq!(database.tables().unwrap(), ["new"]);
    let table = database.open_table("new").unwrap().expect("it is there");
    assert_eq!(contents(&database, &table).len(), 2);
    assert!(database.rename_table("new", "newer").unwrap());
    assert!(database.drop_table("newer").unwrap());
    assert!(matches!(database.get(&table, "before"), Err(Error::TableDropped { .. })));
}

fn a_name_that_is_taken_or_missing_changes_nothing(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    for name in ["one", "two"] {
        let table = database.table(name).unwrap();
        database.put(&table, "k", name).unwrap();
    }
    for to in ["two", "one"] {
        let Err(Error::TableExists { name }) = database.rename_table("one", to) else { panic!("{to}") };
        assert_eq!(name, to);
    }
    assert!(!database.rename_table("three", "four").unwrap());
    for long in ["", &"x".repeat(256)] {
        assert!(matches!(database.rename_table("one", long), Err(Error::TableName { .. })));
        assert!(matches!(database.rename_table(long, "five"), Err(Error::TableName { .. })));
    }
    assert_eq!(database.tables().unwrap(), ["one", "two"]);
    let one = database.open_table("one").unwrap().unwrap();
    assert_eq!(database.get(&one, "k").unwrap().as_deref(), Some(&b"one"[..]));
}

fn the_old_name_is_free(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let (a, b) = (database.table("a").unwrap(), database.table("b").unwrap());
    database.put(&a, "k", "a").unwrap();
    database.put(&b, "k", "b").unwrap();
    for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
        assert!(database.rename_table(from, to).unwrap());
    }
    let (now_a, now_b) = (database.table("a").unwrap(), database.table("b").unwrap());
    assert_eq!((now_a.id(), now_b.id()), (b.id(), a.id()), "they have changed places");
    let new = database.table("c").unwrap();
    assert!(database.begin().unwrap().is_empty(&new).unwrap());
    assert_eq!(database.get(&now_b, "k").unwrap().as_deref(), Some(&b"a"[..]));
}

fn a_crash_leaves_one_of_the_two_names(engine: EngineKind) {
    let (mut old, mut new) = (0, 0);
    for step in 0.. {
        let device = SimDevice::new(step);
        let database = Database::open_in(device.directory(), options_for(engine)).unwrap();
        let table = database.table("old").unwrap();
        database.put(&table, "k", "v").unwrap();
        let before = device.steps();
        device.crash_at(before + step);
        let outcome = database.rename_table("old", "new");
        let is_over = device.steps() < before + step;
        device.freeze();
        drop((table, database));
        let device = device.reopen_after_crash(step);
        let database = Database::open_in(device.directory(), options_for(engine)).unwrap();
        let names = database.tables().unwrap();
        let table = database.open_table(&names[0]).unwrap().unwrap();
        assert_eq!(database.get(&table, "k").unwrap().as_deref(), Some(&b"v"[..]), "step {step}");
        match (&*names, outcome) {
            ([name], Ok(true)) if name == "new" => new += 1,
            ([name], Err(_)) if name == "new" || name == "old" => old += 1,
            (names, outcome) => panic!("step {step}: {names:?} after {outcome:?}"),
        }
        if is_over {
            break;
        }
    }
    assert!(old > 0 && new > 0, "{old} crashes took it back, {new} left it");
}
