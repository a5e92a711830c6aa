//! References that keep an open paged database open.

use crate::error::Result;
use crate::latch::{Mutex, RwLock};
use crate::paged::engine::Engine;
use crate::paged::table::PagedTable;
use crate::ticket::{OpenEngine, PendingCallback, Ticket};
use katydid_kernels::txn::Timestamp;
use katydid_wal::{Completion, Completions};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// State that all handles of a database share; transactions, sessions and commit futures are
/// handles, too. Dropping `Inner` closes the database.
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    /// Guards the catalog (invariant 1 of `database`). Taken before `tables`.
    pub(super) ddl: Mutex<()>,
    pub(super) tables: RwLock<HashMap<String, Arc<PagedTable>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // No handle is left that could return an error; a program that wants the error calls
        // `close`. Acknowledged commits are as durable as they asked, and the next opening recovers
        // the database.
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
        self.engine.log.wait_async(ticket.at.end, ticket.durability)
    }

    /// Does nothing, because pages have no versions.
    fn acknowledge(&self, _seen_to: Timestamp) {}

    fn committed(&self, begun: Instant, now: Instant) {
        self.engine.opening.observed.committed(begun, now);
    }
}
