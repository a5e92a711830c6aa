//! `Read::Durable`: no call shows a state that a crash can still take back, such as the absence of
//! a row.
//!
//! The simulated device keeps only synced bytes. Each case deletes or writes with
//! `Durability::Buffered`, reads with `Read::Durable`, crashes the device, and compares what was
//! read with the rows after the crash.

use super::common::options_for;
use katydid::{
    Access, Database, Durability, EngineKind, Error, Read, Result, Table, Transaction, TransactionOptions,
};
use katydid_device::{SimDevice, Survival};

/// A read of the table, which returns whether it has shown a certain row.
type Look = fn(&Transaction, &Table) -> Result<bool>;

fn with(durability: Durability, read: Read, access: Access) -> TransactionOptions {
    TransactionOptions { durability, read, access }
}

/// Makes rows `a`, `b` and `c`; a commit that is not durable deletes those that `deleted` names.
/// Asserts that `look` returns the same in a durable reader as after a crash.
fn deleted_without_being_durable(deleted: &[&str], access: Access, look: Look) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options_for(EngineKind::Memory)).unwrap();
    let table = database.table("t").unwrap();
    ["a", "b", "c"].iter().for_each(|key| database.put(&table, key, "durable").unwrap());
    let writer = database.begin_with(with(Durability::Buffered, Read::Visible, Access::ReadWrite)).unwrap();
    deleted.iter().for_each(|key| assert!(writer.delete(&table, key).unwrap()));
    writer.commit().unwrap();
    let reader = database.begin_with(with(Durability::Durable, Read::Durable, access)).unwrap();
    let shown = look(&reader, &table).unwrap();
    device.freeze();
    drop(reader);
    let device = device.reopen_with(1, Survival::DropAll);
    let database = Database::open_in(device.directory(), options_for(EngineKind::Memory)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    let kept = look(&database.begin().unwrap(), &table).unwrap();
    assert_eq!(shown, kept, "a durable read has shown what a crash took back");
}

fn both(deleted: &[&str], look: Look) {
    deleted_without_being_durable(deleted, Access::ReadWrite, look);
    deleted_without_being_durable(deleted, Access::ReadOnly, look);
}

#[test]
fn a_durable_range_over_a_table_emptied_by_a_buffered_commit_waits_for_it() {
    both(&["a", "b", "c"], |txn, table| Ok(txn.range(table, ..).next().transpose()?.is_some()));
    both(&["a", "b", "c"], |txn, table| Ok(txn.range(table, ..).next_back().transpose()?.is_some()));
    both(&["a", "b", "c"], |txn, table| Ok(txn.range(table, "a"..="b").next_ref()?.is_some()));
}

#[test]
fn the_end_of_a_durable_range_waits_for_the_deletions_before_it() {
    // The last rows are deleted: the range shows the first row at once, and its end only when the
    // deletion is durable.
    both(&["b", "c"], |txn, table| {
        let mut range = txn.range(table, ..);
        assert!(range.next_ref()?.is_some());
        Ok(range.next_ref()?.is_some())
    });
    both(&["a", "b"], |txn, table| {
        let mut range = txn.range(table, ..);
        assert!(range.next_back_ref()?.is_some());
        Ok(range.next_back_ref()?.is_some())
    });
    // The deleted row lies between two present rows.
    both(&["b"], |txn, table| {
        let mut range = txn.range(table, ..);
        range.next_ref()?;
        Ok(range.next_ref()?.is_some_and(|(key, _)| key == b"b"))
    });
}

#[test]
fn a_durable_get_of_a_key_that_a_buffered_commit_has_deleted_waits_for_it() {
    both(&["b"], |txn, table| Ok(txn.get(table, "b")?.is_some()));
}

#[test]
fn what_a_write_shows_to_a_durable_reader_is_durable() {
    deleted_without_being_durable(&["b"], Access::ReadWrite, |txn, table| txn.delete(table, "b"));
    deleted_without_being_durable(&["b"], Access::ReadWrite, |txn, table| {
        match txn.insert(table, "b", "new") {
            Ok(()) => Ok(false),
            Err(Error::KeyExists { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    });
}

#[test]
fn a_durable_insert_that_finds_the_key_there_waits_for_the_commit_that_put_it_there() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options_for(EngineKind::Memory)).unwrap();
    let table = database.table("t").unwrap();
    let writer = database.begin_with(with(Durability::Buffered, Read::Visible, Access::ReadWrite)).unwrap();
    writer.put(&table, "k", "buffered").unwrap();
    writer.commit().unwrap();
    let reader = database.begin_with(with(Durability::Durable, Read::Durable, Access::ReadWrite)).unwrap();
    assert!(matches!(reader.insert(&table, "k", "mine"), Err(Error::KeyExists { .. })));
    device.freeze();
    drop(reader);
    let device = device.reopen_with(1, Survival::DropAll);
    let database = Database::open_in(device.directory(), options_for(EngineKind::Memory)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert!(database.get(&table, "k").unwrap().is_some(), "the key that was said to exist is gone");
}
