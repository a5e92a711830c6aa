//! Bulk loads: one transaction that finds its table empty and inserts all keys.
//!
//! Every transaction of this engine keeps its changes in memory until it commits, so a load needs
//! no special mechanism. Like any transaction it commits whole or leaves nothing, and its commit
//! fails with a conflict if another transaction has put a key into the table.

use super::database::MemoryDatabase;
use super::table::MemoryTable;
use super::transaction::MemoryTransaction;
use crate::Durability;
use crate::direction::Direction;
use crate::engine::{Engine, EngineLoad, EngineRange, EngineTransaction, Purpose};
use crate::error::{Error, Result};
use crate::opening::Call;
use crate::options::TransactionOptions;
use std::ops::Bound;
use std::sync::Arc;

/// A load under way, which is rolled back if it is dropped.
pub(crate) struct MemoryLoad {
    txn: MemoryTransaction,
    table: Arc<MemoryTable>,
}

impl MemoryLoad {
    pub(super) fn begin(database: &MemoryDatabase, table: &Arc<MemoryTable>) -> Result<MemoryLoad> {
        let options = TransactionOptions { durability: Durability::Durable, ..TransactionOptions::default() };
        let mut txn = database.begin(options)?;
        let mut all = MemoryTransaction::range(table, Bound::Unbounded, Bound::Unbounded, Purpose::Read);
        if all.step(&mut txn, Direction::Up, Some(1))?.is_some() {
            return Err(Error::TableNotEmpty { name: table.rows.name().to_string() });
        }
        Ok(MemoryLoad { txn, table: table.clone() })
    }
}

impl EngineLoad for MemoryLoad {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.insert(&self.table, key, value)
    }

    fn finish(mut self) -> Result<()> {
        let mut call = Call::enter(&mut self.txn)?;
        call.commit().map(|_| ())
    }
}
