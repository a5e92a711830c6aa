//! What a log in NVRAM does instead of writing: it finds out what is filled, and persists that.
//!
//! Any thread; there is no leader. `filled` says what was copied. `written` and `durable` say the same: what is persisted. Invariants:
//!
//! 1. With `nv_direct` a record is filled only after it was persisted (`nvram/ring.rs`), so a scan finds both frontiers as it finds `filled`.
//!    With the other kinds a thread that waits or asks for more persists what is filled (`nvram::commit` of the kernels), or waits for the
//!    thread that is persisting. A thread that only looks finds what was persisted.
//! 2. The later frontiers move first, so a thread that reads the earlier ones first finds them in order. Those of `nv_direct` move by
//!    `fetch_max`.
//! 3. Of `nv_direct`, if records lie in the order of their appends, who waits for what has been appended need not wait: each append persisted its own record, and so did those of
//!    the records it depends on, before they ended. Opening finds them all, whatever holes lie below. With `chunked` everybody waits for
//!    the holes: who is told that a record is durable need not name it as what a later one depends on, which must not lie below it then.
//! 4. A simulated memory that has crashed is asked after the scan or the last fence, and before anybody is told: what was persisted too
//!    late is not acknowledged.
//! 5. Who asks and does not wait persists on the spot, if nobody is at it and nobody copies below. Otherwise it tries a moment and leaves it to
//!    the syncer, for those who copy persist nothing, and nobody else may come.
//!
//! A crash leaves what opening is described to find (`nvram/recover.rs`).

use super::{Core, Store};
use crate::error::{AppendError, Error, Result};
use crate::nvram::apart::Apart;
use crate::nvram::entries::ENTRY;
use crate::nvram::store::NvStore;
use crate::options::Background;
use katydid_kernels::durability::Durability;
use katydid_kernels::insert::{AppendClass, LogBuffer};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::sync_shim::{pause, rest};

/// How often whoever does not wait looks again; it does not give up the processor meanwhile.
const TRIES: u32 = 16;

impl Core {
    /// Finds out how far the log is filled, if it is in NVRAM, where only this moves the frontiers.
    #[inline]
    pub(crate) fn look(&self) {
        if let Store::Nvram(store) = &self.store {
            self.look_in(store);
        }
    }

    /// Where appends persist, moves the other frontiers too.
    pub(super) fn look_in(&self, store: &NvStore) {
        let filled = Lsn::new(self.inserter.scan(&self.buffer).filled);
        if self.has_crashed(store) || !store.is_direct() || filled <= self.buffer.frontiers.durable() {
            return;
        }
        self.buffer.frontiers.advance_persisted(filled);
    }

    /// One step towards `own` being durable.
    pub(super) fn commit_in(&self, store: &NvStore, own: Lsn) {
        if self.committer.is_taken() {
            return;
        }
        let mut step = 0;
        // Copies below are about to end: then one pass is enough.
        while self.inserter.scan(&self.buffer).filled < own.get() && step < TRIES {
            pause(step);
            step += 1;
        }
        if store.is_direct() {
            return self.look_in(store);
        }
        self.committer.pass(&self.buffer.frontiers, |from, to| {
            store.memory().persist(from, to);
            !self.has_crashed(store)
        });
    }

    /// Whether what is requested was done here and now (invariant 5), or needs nobody.
    pub(super) fn met_here(&self, end: Lsn, level: Durability) -> bool {
        let Store::Nvram(store) = &self.store else { return false };
        if store.is_direct() {
            return true;
        }
        if self.background == Background::Caller {
            return false;
        }
        for step in 0..TRIES {
            self.commit_in(store, end);
            if self.buffer.frontiers.reached(end, level) || self.is_over() {
                return true;
            }
            pause(step);
        }
        false
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
            && end <= self.buffer.frontiers.reserved()
            && !self.has_crashed(store)
        {
            return Some(Ok(()));
        }
        if store.is_direct() {
            self.look_in(store);
        } else {
            // There is nothing to find out but this.
            self.has_crashed(store);
        }
        if self.buffer.frontiers.reached(end, level) {
            return Some(Ok(()));
        }
        self.is_over().then(|| Err(self.failure().map_or(Error::Closed, |cause| Error::Poisoned { cause })))
    }

    /// Waits, in NVRAM, until there is no hole below `end`: also where committers do not.
    pub(crate) fn settle(&self, end: Lsn) {
        if self.store.nvram().is_some() && end <= self.buffer.frontiers.reserved() {
            self.protocol.wait(self, end, Durability::Durable);
        }
    }

    /// Does, or waits for, what keeps a record of `bytes` from being admitted that lies apart.
    pub(super) fn make_room_apart(
        &self,
        apart: &Apart,
        bytes: u64,
        class: AppendClass,
        step: u32,
    ) -> std::result::Result<(), AppendError> {
        let LogBuffer { frontiers, admission, .. } = &self.buffer;
        self.refresh();
        let reserved = frontiers.reserved().get();
        if admission.ran_ahead(reserved, frontiers.filled()) {
            rest(step);
            return Ok(());
        }
        let has_entry = admission.fits_prepared(reserved, ENTRY, self.store.prepared_end(), class);
        if has_entry && apart.has_place(bytes, class, admission.reserve()) {
            return Ok(());
        }
        Err(AppendError::NoSpace)
    }

    /// Whether there is room for so many bytes of records that lie apart.
    pub(super) fn make_sure_of(
        &self,
        apart: &Apart,
        bytes: u64,
        class: AppendClass,
    ) -> std::result::Result<(), AppendError> {
        let LogBuffer { frontiers, admission, .. } = &self.buffer;
        self.refresh();
        // As many as there are if each is as long as it may be; shorter ones are not cut.
        let entries = bytes.div_ceil(self.physical_bytes_max as u64) * ENTRY;
        let reserved = frontiers.reserved().get();
        if admission.fits_prepared(reserved, entries, self.store.prepared_end(), class)
            && apart.has_chunks(bytes, class, admission.reserve())
        {
            return Ok(());
        }
        Err(AppendError::NoSpace)
    }
}
