//! References that keep a database of the memory engine open.

use super::engine::Engine;
use super::store::Table;
use super::table::MemoryTable;
use crate::error::Result;
use crate::latch::{Mutex, RwLock};
use crate::ticket::{OpenEngine, PendingCallback, Ticket};
use katydid_kernels::txn::Timestamp;
use katydid_wal::{Completion, Completions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// The state that all handles, transactions, sessions and commit futures of a database share.
/// Dropping `Inner` closes the database.
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    /// Guards the catalog (invariant 1 of `database`). Taken before `tables`. A thread that holds
    /// this latch may wait for transactions that are committing. It never waits for a program to
    /// end a transaction, because the program may need this latch first.
    pub(super) ddl: Mutex<()>,
    pub(super) tables: RwLock<BTreeMap<String, Arc<MemoryTable>>>,
    pub(super) catalog: Arc<Table>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // No handle is left to which this could return an error; a program that wants the error
        // calls `close`. Acknowledged transactions are as durable as they asked, and recovery does
        // the rest.
        let _outcome = self.engine.opening.close(&*self.engine);
    }
}

impl OpenEngine for Inner {
    fn check_open(&self) -> Result<()> {
        self.engine.check_open()
    }

    fn completions(&self) -> Completions<(PendingCallback, Timestamp)> {
        self.engine.log.completions()
    }

    fn wait_async(&self, ticket: &Ticket) -> Completion {
        self.engine.log.wait_async(ticket.at, &ticket.dependencies, ticket.durability)
    }

    fn acknowledge(&self, seen_to: Timestamp) {
        self.engine.acknowledge(seen_to);
    }

    fn committed(&self, begun: Instant, now: Instant) {
        self.engine.opening.observed.committed(begun, now);
    }
}
