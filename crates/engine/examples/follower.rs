//! A copy that follows its source database: a second database, in a folder of its own, to which
//! each committed transaction of the source is applied as one transaction. Both databases may crash
//! and be opened again at any time; the copy misses no transaction, and none takes effect twice.
//!
//! The copy begins as a backup. The copy's position in the feed is a row of the copy. The
//! transaction that applies a transaction of the source also changes this row. A named consumer
//! keeps the source's log for the copy.
//!
//! Run: `cargo run --example follower -- FOLDER`, which makes `FOLDER/source` and `FOLDER/copy`.

use katydid::{
    Change, ChangeConsumer, ChangesFrom, CommittedTransaction, Database, Error, NewValue, Result, Table,
};
use std::path::Path;

/// Maximum bytes of log that the source keeps for a copy that is behind.
const BEHIND_MAX: u64 = 1 << 30;

fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(folder) => run(Path::new(&folder)),
        None => {
            println!("give a folder");
            Ok(())
        }
    }
}

/// The copy, and its position in the feed.
struct Follower {
    copy: Database,
    consumer: ChangeConsumer,
    /// Table of the copy with the stamp of the last transaction that was applied.
    place: Table,
    applied: u64,
}

impl Follower {
    /// Opens the copy in `folder`, or makes it from a backup of `source`.
    fn open(source: &Database, folder: &Path) -> Result<Follower> {
        // The consumer is made before the backup, so each transaction is in the backup or reaches
        // the consumer. A transaction that is in the backup and reaches the consumer is applied
        // again, which changes nothing.
        let consumer = source.consumer("copy", BEHIND_MAX, &ChangesFrom::Now)?;
        if matches!(Database::engine_at(folder), Err(Error::NotFound { .. })) {
            source.backup(folder)?;
        }
        let copy = Database::open(folder)?;
        let place = copy.table("follower's place")?;
        let applied = match copy.get(&place, "stamp")?.as_deref().map(<[u8; 8]>::try_from) {
            Some(Ok(stamp)) => u64::from_be_bytes(stamp),
            _ => 0,
        };
        Ok(Follower { copy, consumer, place, applied })
    }

    /// Applies the transactions that are durable in the source and not in the copy yet. To wait for
    /// more, use `next` in place of `try_next`, or `next_async` in an executor. An acknowledgement
    /// costs a durable write, so the caller acknowledges only now and then.
    fn catch_up(&mut self) -> Result<()> {
        while let Some(transaction) = self.consumer.try_next()? {
            // If the stamp is at most `applied`, the follower has applied this transaction before,
            // and crashed before the acknowledgement.
            if transaction.stamp.get() > self.applied {
                self.apply(&transaction)?;
                self.applied = transaction.stamp.get();
            }
        }
        Ok(())
    }

    fn apply(&self, transaction: &CommittedTransaction) -> Result<()> {
        let mut rows = Vec::new();
        for change in &transaction.changes {
            match change {
                // Rows whose table has no name are skipped, because a later transaction drops the
                // table.
                Change::Row { name: Some(name), key, new, .. } => {
                    rows.extend(self.copy.open_table(name)?.map(|table| (table, key, new)));
                }
                Change::TableCreated { name, .. } => drop(self.copy.table(name)?),
                Change::TableDropped { name, .. } => _ = self.copy.drop_table(name)?,
                Change::TableRenamed { from, to, .. } if self.copy.open_table(to)?.is_none() => {
                    self.copy.rename_table(from, to)?;
                }
                _ => {}
            }
        }
        self.copy.transact(|txn| {
            for (table, key, new) in &rows {
                match new {
                    NewValue::Value(value) => txn.put(table, key, value)?,
                    NewValue::Deleted => _ = txn.delete(table, key)?,
                    other => unreachable!("a database with a consumer logs whole values, not {other:?}"),
                }
            }
            txn.put(&self.place, "stamp", transaction.stamp.get().to_be_bytes())
        })
    }
}

/// Opens both databases three times, and checks that the copy has the rows of the source.
pub fn run(folder: &Path) -> Result<()> {
    for life in 0..3_u32 {
        let source = Database::open(folder.join("source"))?;
        let mut follower = Follower::open(&source, &folder.join("copy"))?;
        let fruit = source.table("fruit")?;
        for number in 0..200 {
            source.put(&fruit, format!("{number:03}"), format!("in life {life}"))?;
        }
        follower.catch_up()?;
        follower.consumer.acknowledge()?;
        source.transact(|txn| txn.delete_range(&fruit, "050".."060"))?;
        source.rename_table("fruit", "old fruit")?;
        source.rename_table("old fruit", "fruit")?;
        drop(source.table(&format!("of life {life}"))?);
        follower.catch_up()?;
        if life == 1 {
            // Both databases end here: the copy has not acknowledged its last transactions, and
            // lacks this one.
            source.put(&fruit, "100", "last")?;
            continue;
        }
        follower.consumer.acknowledge()?;
        let rows = |db: &Database| -> Result<Vec<_>> {
            let table = db.table("fruit")?;
            db.begin_read_only()?.range(&table, ..).collect()
        };
        assert_eq!(rows(&source)?, rows(&follower.copy)?);
        assert!(follower.copy.open_table(&format!("of life {life}"))?.is_some());
        println!("life {life}: the copy has applied transactions to {}", follower.applied);
    }
    Ok(())
}
