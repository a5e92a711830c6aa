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
use crate::error::{AppendError, Error, Result};
use crate::insert::{Admission, Image};
use crate::lsn::Lsn;
use crate::nvram::apart::Apart;
use crate::nvram::entries::ENTRY;
use crate::nvram::store::NvStore;
use crate::options::Durability;
use crate::sync_shim::rest;

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

    /// Does, or waits for, what keeps a record of `bytes` from being admitted that lies apart.
    pub(super) fn make_room_apart(
        &self,
        apart: &Apart,
        bytes: u64,
        admission: Admission,
        step: u32,
    ) -> std::result::Result<(), AppendError> {
        let Image { frontiers, limiter, .. } = &self.image;
        self.refresh();
        let reserved = frontiers.reserved().get();
        if limiter.ran_ahead(reserved, frontiers.filled()) {
            rest(step);
            return Ok(());
        }
        let has_entry = limiter.fits_prepared(reserved, ENTRY, self.store.prepared_end(), admission);
        if has_entry && apart.has_place(bytes, admission, limiter.reserve()) {
            return Ok(());
        }
        Err(AppendError::NoSpace)
    }

    /// Whether there is room for so many bytes of records that lie apart.
    pub(super) fn make_sure_of(
        &self,
        apart: &Apart,
        bytes: u64,
        admission: Admission,
    ) -> std::result::Result<(), AppendError> {
        let Image { frontiers, limiter, .. } = &self.image;
        self.refresh();
        // As many as there are if each is as long as it may be; shorter ones are not cut.
        let entries = bytes.div_ceil(self.piece_bytes_max as u64) * ENTRY;
        let reserved = frontiers.reserved().get();
        if limiter.fits_prepared(reserved, entries, self.store.prepared_end(), admission)
            && apart.has_chunks(bytes, admission, limiter.reserve())
        {
            return Ok(());
        }
        Err(AppendError::NoSpace)
    }
}
