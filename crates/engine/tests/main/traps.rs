//! Programs that new users wrote first, and that did not compile: each compiles now, and does what
//! its author meant.

use crate::common::options_for;
use katydid::{
    CommitFuture, Database, EngineKind, Error, MemoryDirectory, Options, Prefix, Session, Table, Transaction,
};
use std::sync::Arc;

suite! {
    a_whole_table_is_a_range,
    another_table_is_read_inside_a_range,
    an_error_of_ones_own_leaves_transact,
    any_error_leaves_transact,
    bounds_of_several_types_are_ranges,
    a_directory_in_memory_and_a_group_have_names,
}

fn fruit(engine: EngineKind) -> (Database, Table, Table) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let (a, b) = (database.table("a").unwrap(), database.table("b").unwrap());
    for key in ["a", "ab", "abc", "b"] {
        database.put(&a, key, "1").unwrap();
        database.put(&b, key, "2").unwrap();
    }
    (database, a, b)
}

fn a_whole_table_is_a_range(engine: EngineKind) {
    let (database, a, _) = fruit(engine);
    assert_eq!(database.begin().unwrap().range(&a, ..).count(), 4);
}

fn another_table_is_read_inside_a_range(engine: EngineKind) {
    let (database, a, b) = fruit(engine);
    let txn = database.begin().unwrap();
    for row in txn.range(&a, "a"..) {
        let (key, _) = row.unwrap();
        assert_eq!(txn.get(&b, key).unwrap().as_deref(), Some(&b"2"[..]));
    }
}

#[derive(Debug, PartialEq)]
enum CallerError {
    Out,
    Db,
}

impl From<Error> for CallerError {
    fn from(_: Error) -> Self {
        CallerError::Db
    }
}

fn an_error_of_ones_own_leaves_transact(engine: EngineKind) {
    let (database, a, _) = fruit(engine);
    let refused = database.try_transact(|txn| -> Result<(), CallerError> {
        txn.put(&a, "a", "9")?;
        Err(CallerError::Out)
    });
    assert_eq!(refused, Err(CallerError::Out));
    assert_eq!(database.get(&a, "a").unwrap().as_deref(), Some(&b"1"[..]));
}

fn any_error_leaves_transact(engine: EngineKind) {
    let (database, a, _) = fruit(engine);
    let put = |text: &str| {
        database.try_transact(|txn| -> Result<(), Box<dyn std::error::Error>> {
            txn.put(&a, "a", text)?;
            let _number: u32 = text.parse()?;
            Ok(())
        })
    };
    put("7").unwrap();
    let refused = put("seven").unwrap_err();
    assert!(refused.is::<std::num::ParseIntError>(), "{refused}");
    assert_eq!(database.get(&a, "a").unwrap().as_deref(), Some(&b"7"[..]));
}

fn bounds_of_several_types_are_ranges(engine: EngineKind) {
    let (database, a, _) = fruit(engine);
    let prefix: &[u8] = b"ab";
    let txn = database.begin().unwrap();
    assert_eq!(txn.range(&a, prefix..).count(), 3);
    assert_eq!(txn.range(&a, b"a"..b"b").count(), 3);
    assert_eq!(txn.range(&a, &b"a"[..]..b"abc").count(), 2);
    assert_eq!(txn.range(&a, Prefix(prefix)).count(), 2);
}

fn a_directory_in_memory_and_a_group_have_names(engine: EngineKind) {
    let directory = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    database.close().unwrap();
    let _group = katydid::Group::default();
}

/// Handles go into structs, threads and tasks, and errors into errors of other crates. The compiler
/// checks this test.
#[test]
fn handles_and_errors_go_where_programs_need_them() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn moved<T: Send + 'static>() {}
    shared::<Database>();
    shared::<Table>();
    shared::<Error>();
    moved::<Transaction>();
    moved::<Session>();
    moved::<CommitFuture>();
}

#[test]
fn an_error_of_the_device_is_matched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    match Database::open_with(file.join("x"), Options::default()) {
        Err(Error::Device(error)) => assert!(matches!(error.cause, katydid::Cause::Io(..)), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_log_is_inspected_with_the_crate_of_the_log_alone() {
    use katydid::wal;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    wal::Log::open(&path, wal::Options::default()).unwrap().close().unwrap();
    let directory = wal::FileDirectory::open(&path).unwrap();
    let _inspection: wal::Inspection = wal::inspect(&directory).unwrap();
}
