//! What a log in NVRAM does instead of writing: it finds out what is filled, for that is persisted.
//!
//! Any thread; there is no leader. Invariants:
//!
//! 1. A record is filled only after it was persisted (`nvram/ring.rs`), so `written` and `durable` are what a scan found, as `filled` is.
//! 2. The frontiers move by `fetch_max`, the later ones first: whoever reads the smaller first finds them in order.
//! 3. Of `nv_direct`, if records lie in the order of their appends, who waits for what has been appended need not wait: each append persisted its own record, and so did those of
//!    the records it depends on, before they ended. Opening finds them all, whatever holes lie below. With `chunked` everybody waits for
//!    the holes: who is told that a record is durable need not name it as what a later one depends on, which must not lie below it then.
//! 4. A simulated memory that has crashed is asked after the scan, and before anybody is told: what was persisted too late is not
//!    acknowledged.
//!
//! A crash leaves what opening is described to find (`nvram/recover.rs`).

use super::{Core, Store};
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::nvram::store::NvStore;
use crate::options::Durability;

impl Core {
    /// Finds out how far the log is filled, if it is in NVRAM, where only this moves the frontiers.
    #[inline]
    pub(crate) fn look(&self) {
        if let Store::Nvram(store) = &self.store {
            self.look_in(store);
        }
    }

    pub(super) fn look_in(&self, store: &NvStore) {
        let filled = Lsn::new(self.inserter.scan(&self.image).filled);
        if self.has_crashed(store) || filled <= self.image.frontiers.durable() {
            return;
        }
        // Before: whoever has waited for it reads it.
        store.let_read(filled);
        self.image.frontiers.advance_persisted(filled);
    }

    /// Fails the log if its memory is simulated and has crashed (invariant 4).
    fn has_crashed(&self, store: &NvStore) -> bool {
        match store.crash() {
            None => false,
            Some(crash) => {
                self.fail(crash);
                true
            }
        }
    }

    /// See [`Core::poll`].
    pub(super) fn poll_in(&self, store: &NvStore, end: Lsn, level: Durability) -> Option<Result<()>> {
        // Invariant 3.
        if self.in_order
            && store.is_direct()
            && end <= self.image.frontiers.reserved()
            && !self.has_crashed(store)
        {
            return Some(Ok(()));
        }
        self.look_in(store);
        if self.image.frontiers.reached(end, level) {
            return Some(Ok(()));
        }
        self.is_over().then(|| Err(self.failure().map_or(Error::Closed, |cause| Error::Poisoned { cause })))
    }

    /// Waits, in NVRAM, until there is no hole below `end`: also where committers do not.
    pub(crate) fn settle(&self, end: Lsn) {
        if self.store.nvram().is_some() && end <= self.image.frontiers.reserved() {
            self.protocol.wait(self, end, Durability::Durable);
        }
    }
}
