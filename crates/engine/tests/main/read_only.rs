//! Databases opened to read only: they show what recovery makes of the files, and change none of
//! them.

use crate::common::{self, options_for};
use katydid::testing::Background;
use katydid::{Access, Database, EngineKind, Error, KeyRange, Options};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

suite! {
    a_crashed_database_is_read_as_it_will_be_recovered_and_stays_as_it_is,
    nothing_can_be_changed,
    readers_share_a_database_and_keep_writers_out,
    what_is_not_there_is_not_made,
}

/// Bytes and time of the last change of every file and folder.
type Seen = BTreeMap<PathBuf, (Vec<u8>, SystemTime)>;

fn seen(folder: &Path) -> Seen {
    let mut seen = Seen::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(path) = left.pop() {
        let metadata = fs::metadata(&path).unwrap();
        let bytes = match metadata.is_dir() {
            true => {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            false => fs::read(&path).unwrap(),
        };
        seen.insert(path, (bytes, metadata.modified().unwrap()));
    }
    seen
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn to_read(engine: EngineKind) -> Options {
    Options { access: Access::ReadOnly, ..options_for(engine) }
}

/// Makes a database as a killed process leaves it: with commits that are only in the log, and a
/// transaction that has not ended.
fn crashed(engine: EngineKind, place: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let lives = place.with_extension("lives");
    // The database has no threads of its own, which would change files while they are copied.
    let mut options = options_for(engine);
    options.advanced.log.background = Background::Caller;
    let database = Database::open_with(&lives, options).unwrap();
    let table = database.table("t").unwrap();
    let mut model = BTreeMap::new();
    for number in 0..300u64 {
        if number == 100 {
            database.checkpoint().unwrap();
        }
        let value = vec![number as u8; 700];
        database.put(&table, common::key(number), &value).unwrap();
        model.insert(common::key(number), value);
    }
    let open = database.begin().unwrap();
    open.put(&table, "not committed", "x").unwrap();
    database.sync().unwrap();
    copy(&lives, place);
    drop(open);
    database.close().unwrap();
    model
}

fn rows(database: &Database, keys: impl KeyRange) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let table = database.open_table("t").unwrap().expect("it was made");
    let txn = database.begin().unwrap();
    txn.range(&table, keys).collect::<Result<_, _>>().unwrap()
}

fn a_crashed_database_is_read_as_it_will_be_recovered_and_stays_as_it_is(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("db");
    let model = crashed(engine, &place);
    let before = seen(&place);
    for _ in 0..2 {
        let database = Database::open_read_only(&place).unwrap();
        assert_eq!(rows(&database, ..), model);
        assert_eq!(database.tables().unwrap(), ["t"]);
        common::assert_sound(&database.verify(None).unwrap());
        database.sync().unwrap();
        database.stat().unwrap();
        database.close().unwrap();
        assert!(seen(&place) == before, "something was changed");
        // This database is dropped without being closed.
        drop(Database::open_with(&place, to_read(engine)).unwrap());
        assert!(seen(&place) == before, "something was changed");
    }
    let database = Database::open_with(&place, options_for(engine)).unwrap();
    assert_eq!(rows(&database, ..), model);
}

fn nothing_can_be_changed(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("db");
    let model = crashed(engine, &place);
    let before = seen(&place);
    let database = Database::open_with(&place, to_read(engine)).unwrap();
    let table = database.table("t").unwrap();
    let refused = |result: Result<(), Error>| assert!(matches!(result, Err(Error::ReadOnly)), "{result:?}");
    refused(database.put(&table, "k", "v"));
    refused(database.delete(&table, common::key(1)).map(drop));
    refused(database.transact(|txn| txn.insert(&table, "k", "v")));
    // Writes are refused even in a transaction that asks to write.
    let txn = database.begin_with(Default::default()).unwrap();
    refused(txn.put(&table, "k", "v"));
    refused(txn.get_for_update(&table, "k").map(drop));
    txn.commit().unwrap();
    refused(database.table("new").map(drop));
    refused(database.rename_table("t", "u").map(drop));
    refused(database.drop_table("t").map(drop));
    refused(database.checkpoint());
    assert_eq!(rows(&database, ..), model);
    database.close().unwrap();
    assert!(seen(&place) == before, "something was changed");
}

fn readers_share_a_database_and_keep_writers_out(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let writer = Database::open_with(folder.path(), options_for(engine)).unwrap();
    writer.table("t").unwrap();
    let read = || Database::open_with(folder.path(), to_read(engine));
    assert!(matches!(read(), Err(Error::Locked { .. })));
    writer.close().unwrap();
    let (one, other) = (read().unwrap(), read().unwrap());
    let write = || Database::open_with(folder.path(), options_for(engine));
    assert!(matches!(write(), Err(Error::Locked { .. })));
    one.close().unwrap();
    assert!(matches!(write(), Err(Error::Locked { .. })));
    drop(other);
    write().unwrap();
}

fn what_is_not_there_is_not_made(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("db");
    assert!(matches!(Database::open_read_only(&place), Err(Error::NotFound { .. })));
    assert!(matches!(Database::open_with(&place, to_read(engine)), Err(Error::NotFound { .. })));
    assert!(!place.exists());
    fs::create_dir(&place).unwrap();
    assert!(matches!(Database::open_with(&place, to_read(engine)), Err(Error::NotFound { .. })));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}
