//! A bug found in the middle of a change, after its record got into the log: the database must shut itself off.

use crate::paged::page::Value;
use crate::{Database, Error, Options, Result, Table};
use katydid_device::SimDevice;

static LONG: [u8; 20_000] = [7; 20_000];

fn open(device: &SimDevice) -> Database {
    let mut options = Options { page_bytes: 4096, ..Options::default() };
    options.log.segment_bytes = 256 << 10;
    options.log.reserve_bytes = 256 << 10;
    Database::open_in(device.directory(), options).expect("open")
}

/// Makes the next freeing of the long value of `key` fail when it is logged and its pages are changed: the map of free
/// pages in memory already has one of them.
fn plant(database: &Database, table: &Table, key: &str) {
    let engine = database.paged().engine();
    let head = table.paged().tree.get(&engine.pool, key.as_bytes(), |value| match value {
        Value::Overflow { head, .. } => head,
        Value::Inline(_) => panic!("a value of {} bytes in its leaf", LONG.len()),
    });
    assert!(engine.space.freed(head.expect("read").expect("the key is there")));
}

fn assert_shut<T: std::fmt::Debug>(outcome: Result<T>) {
    let error = outcome.expect_err("nothing may succeed any more");
    assert!(error.is_poisoned(), "{error}");
    assert!(error.to_string().contains("a page that was freed was free"), "{error}");
}

#[test]
fn a_change_that_is_logged_and_cannot_be_made_shuts_the_database_off() {
    let device = SimDevice::new(1);
    let database = open(&device);
    let table = database.table("t").expect("table");
    database.put(&table, "long", LONG).expect("put");
    database.put(&table, "other", "before").expect("put");
    let mut began_before = database.begin().expect("begin");
    began_before.put(&table, "third", "lost").expect("put");

    plant(&database, &table, "long");
    let mut txn = database.begin().expect("begin");
    txn.put(&table, "long", "short").expect("put");
    assert_shut(txn.commit());

    assert_shut(began_before.commit());
    assert_shut(database.get(&table, "other"));
    assert_shut(database.put(&table, "other", "after"));
    assert_shut(database.delete(&table, "long"));
    assert_shut(database.checkpoint());
    assert_shut(database.sync());
    assert_shut(database.close());
    assert!(matches!(database.get(&table, "other"), Err(Error::Closed)));

    let database = open(&device);
    let table = database.table("t").expect("table");
    let long = database.get(&table, "long").expect("get").expect("the key is there");
    assert!(long == LONG || long == b"short", "neither before nor after the commit: {} bytes", long.len());
    assert_eq!(database.get(&table, "other").expect("get").as_deref(), Some(&b"before"[..]));
    assert_eq!(database.get(&table, "third").expect("get"), None);
    let report = database.verify(None).expect("verify");
    assert!(report.is_sound(), "{:#?}", report.faults);
}
