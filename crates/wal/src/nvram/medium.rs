//! The medium of a log in NVRAM: it finds the filled bytes and persists them. Nothing is written to
//! a device.
//!
//! Any thread may call this code; there is no leader. `filled` is the position up to which records
//! are copied. `written` and `durable` are both the position up to which records are persisted.
//! Invariants:
//!
//! 1. With `nv_direct` a record is filled only after it was persisted (`nvram/ring.rs`), so a scan
//!    that finds `filled` also finds the other two frontiers. With the other kinds a thread that
//!    waits for durability, or requests it, persists what is filled (`nvram::commit` of the
//!    kernels), or waits for the thread that is persisting. A thread that only reads the frontiers
//!    finds what other threads have persisted.
//! 2. `filled` moves before `written`, and `written` before `durable`. So a thread that reads the
//!    smaller frontiers first finds the frontiers in order. Several threads may move the frontiers
//!    of `nv_direct`, so an atomic maximum (`raise`) moves them.
//! 3. With `nv_direct` and an inserter that keeps the order of appends, a record is durable when
//!    its append has returned. The append has persisted the record, and the appends of the records
//!    that it depends on have persisted those records before. Opening finds all of them, whatever
//!    holes lie below. With `chunked` a later record may be put into a hole. Clients need not name
//!    durable records as dependencies. So the record in the hole may depend on a durable record
//!    above the hole. With `chunked` a waiter therefore waits until there are no holes below its
//!    own record.
//! 4. After the scan or the last fence, and before it acknowledges anything, the medium asks a
//!    simulated memory whether the memory has crashed. Bytes that the memory was to persist after
//!    its crash are therefore not acknowledged.
//! 5. A thread that requests durability without waiting persists the records itself. While another
//!    thread is persisting, or copying below the requested position, the requesting thread tries
//!    again, at most 16 times in all. Then it leaves the request to the syncer, because the threads
//!    that it has met may end without making its record durable.
//!
//! `nvram/recover.rs` describes what a crash leaves.

use super::apart::{Apart, ApartInserter};
use super::entries::ENTRY;
use super::store::NvStore;
use crate::core::{Core, Medium, Parts, Use};
use crate::error::{AppendError, Error, Result};
use crate::geometry::Geometry;
use crate::medium_options::LogKind;
use crate::options::{Background, Options};
use crate::segment::Source;
use katydid_device::nvram::Form;
use katydid_device::{self as device, Method};
use katydid_kernels::durability::Durability;
use katydid_kernels::insert::{Admission, AppendClass, Inserter, LogBuffer};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::nvram::commit::Committer;
use katydid_kernels::sync::{Ask, Plan, Planned, persisted};
use katydid_kernels::sync_shim::{pause, rest};
use std::sync::Arc;

/// Attempts of a thread that does not block; the thread keeps the processor meanwhile.
const TRIES: u32 = 16;

/// See the head of this file.
#[derive(Debug)]
struct Nvram {
    store: Arc<NvStore>,
    committer: Committer,
}

/// Returns the parts of a log in this memory. The log is durable up to `end`, and continues in this
/// incarnation.
pub(super) fn parts(options: &Options, store: NvStore, incarnation: u32, end: Lsn) -> Parts {
    let (sizes, memory) = store.memory().arrange(options);
    let (admission, inserter, physical_bytes_max) = match store.apart() {
        None => {
            let design = options.medium.inserter().unwrap_or_default();
            let inserter = design.inserter(&sizes, incarnation, end);
            (Admission::new(&sizes), inserter, sizes.physical_bytes_max())
        }
        Some(apart) => {
            // One slot more than there are sessions, for the log's own records.
            let inserter: Box<dyn Inserter> =
                Box::new(ApartInserter::new(options.sessions_max + 1, apart.clone()));
            (Admission::of_entries(&sizes), inserter, apart.entries.physical_bytes_max())
        }
    };
    Parts {
        medium: Box::new(Nvram { store: Arc::new(store), committer: Committer::new() }),
        memory,
        admission,
        inserter,
        protocol: options.background.arrange(persisted()),
        in_order: options.medium.keeps_order(),
        physical_bytes_max,
    }
}

impl Nvram {
    /// Fails the log if its memory is simulated and has crashed (invariant 4).
    fn has_crashed(&self, core: &Core) -> bool {
        match self.store.crash() {
            None => false,
            Some(crash) => {
                core.fail(crash);
                true
            }
        }
    }

    /// Waits briefly until `own` is filled: copies below are about to end, and one pass then
    /// persists all of them.
    fn wait_a_moment(&self, core: &Core, own: Lsn) {
        let mut step = 0;
        while core.inserter.scan(&core.buffer).filled < own.get() && step < TRIES {
            pause(step);
            step += 1;
        }
    }

    /// Persists what is filled, unless another thread is persisting.
    fn commit(&self, core: &Core) {
        let mut moved = false;
        self.committer.pass(&core.buffer.frontiers, |from, to| {
            let persisted = self.store.memory().persist(from, to);
            moved = !self.has_crashed(core) && persisted;
            moved
        });
        if moved {
            core.after_progress();
        }
    }

    /// Waits until a record of `bytes` that lies apart can be admitted. Returns an error if there
    /// is no room.
    fn make_room_apart(
        &self,
        core: &Core,
        apart: &Apart,
        bytes: u64,
        class: AppendClass,
        step: u32,
    ) -> std::result::Result<(), AppendError> {
        let LogBuffer { frontiers, admission, .. } = &core.buffer;
        core.refresh();
        let reserved = frontiers.reserved().get();
        if admission.ran_ahead(reserved, frontiers.filled()) {
            rest(step);
            return Ok(());
        }
        let has_entry = admission.fits_prepared(reserved, ENTRY, self.prepared_end(), class);
        if has_entry && apart.has_place(bytes, class, admission.reserve()) {
            return Ok(());
        }
        Err(AppendError::NoSpace)
    }

    /// Returns whether there is room for `bytes` of records that lie apart.
    fn has_room_apart(&self, core: &Core, apart: &Apart, bytes: u64, class: AppendClass) -> bool {
        let LogBuffer { frontiers, admission, .. } = &core.buffer;
        core.refresh();
        // Each fragment takes one entry. A record longer than `physical_bytes_max` is split into
        // fragments of that size, and only its last fragment is shorter.
        let entries = bytes.div_ceil(core.physical_bytes_max as u64) * ENTRY;
        let reserved = frontiers.reserved().get();
        admission.fits_prepared(reserved, entries, self.prepared_end(), class)
            && apart.has_chunks(bytes, class, admission.reserve())
    }
}

const NOTHING: Plan = Plan::Nothing { all: true, under_way: false, needs_sync: false };

impl Medium for Nvram {
    fn kind(&self) -> LogKind {
        self.store.kind()
    }

    fn form(&self) -> Option<Form> {
        Some(self.store.form())
    }

    fn method(&self, _: Lsn) -> Option<Method> {
        None
    }

    fn geometry(&self) -> Option<Geometry> {
        None
    }

    fn source(&self) -> Arc<dyn Source> {
        self.store.clone()
    }

    fn start(&self) -> Lsn {
        self.store.start()
    }

    fn prepared_end(&self) -> Lsn {
        self.store.prepared_end()
    }

    fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    fn space(&self, reserved: Lsn) -> Use {
        self.store.space(reserved)
    }

    fn capacity(&self, slack: u64) -> Option<u64> {
        Some(self.store.capacity(slack, 0))
    }

    fn record_bytes_max(&self, admission: &Admission, class: AppendClass) -> u64 {
        let reserve = match class {
            AppendClass::Normal => admission.standing(),
            AppendClass::Critical => 0,
        };
        self.store.capacity(admission.slack().saturating_add(admission.kept(reserve)), reserve)
    }

    fn raise_bytes_max(&self, admission: &Admission) -> u64 {
        self.store.reserve_bytes_max(admission.slack()).saturating_sub(admission.standing())
    }

    fn fullness(&self, core: &Core) -> Option<u32> {
        let LogBuffer { frontiers, admission, .. } = &core.buffer;
        // The start is read first, because it never passes the reserved frontier.
        let start = self.start();
        let live = frontiers.reserved().since(start);
        let lost = admission.slack().saturating_add(admission.reserve_positions());
        Some(self.store.fullness(live, lost, admission.reserve()))
    }

    fn trim(&self, core: &Core, to: Lsn) -> Result<()> {
        self.settle(core, to);
        let trimmed = self.store.trim(to, core.frontiers().durable());
        if let Err(Error::Device(error) | Error::Poisoned { cause: error }) = &trimmed {
            // The log must fail here: appends make no device calls, so no append would notice that
            // the gate is shut.
            core.fail(error.clone());
        }
        trimmed
    }

    fn note_durable(&self, durable: Lsn) -> device::Result<()> {
        self.store.note_durable(durable)
    }

    fn make_room(
        &self,
        core: &Core,
        bytes: u64,
        class: AppendClass,
        step: u32,
    ) -> std::result::Result<(), AppendError> {
        self.look(core);
        if let Some(apart) = self.store.apart() {
            return self.make_room_apart(core, apart, bytes, class, step);
        }
        let LogBuffer { frontiers, admission, .. } = &core.buffer;
        let reserved = frontiers.reserved().get();
        let needed = admission.written_needed(reserved, bytes);
        if frontiers.written() < needed {
            core.protocol.wait(core, needed, Durability::Written);
        } else if admission.ran_ahead(reserved, Lsn::new(core.inserter.scan(&core.buffer).filled)) {
            rest(step);
        } else {
            self.make_prepared(core, bytes, class)?;
        }
        core.refresh();
        Ok(())
    }

    fn make_prepared(
        &self,
        core: &Core,
        bytes: u64,
        class: AppendClass,
    ) -> std::result::Result<(), AppendError> {
        let LogBuffer { frontiers, admission, .. } = &core.buffer;
        let fits = match self.store.apart() {
            Some(apart) => self.has_room_apart(core, apart, bytes, class),
            None => {
                let reserved = frontiers.reserved().get();
                admission.fits_prepared(reserved, bytes, self.prepared_end(), class)
            }
        };
        if fits {
            return Ok(());
        }
        core.refresh();
        Err(AppendError::NoSpace)
    }

    fn is_prepared_ahead(&self) -> bool {
        false
    }

    fn prepare(&self, _: &Core, _: u64) -> device::Result<bool> {
        Ok(false)
    }

    fn nudge_maintenance(&self, _: &Core) {}

    fn look(&self, core: &Core) {
        let filled = Lsn::new(core.inserter.scan(&core.buffer).filled);
        if self.has_crashed(core) || !self.store.is_direct() || filled <= core.buffer.frontiers.durable() {
            return;
        }
        core.buffer.frontiers.advance_persisted(filled);
        core.after_progress();
    }

    fn is_settled(&self, core: &Core, end: Lsn, level: Durability) -> bool {
        let frontiers = &core.buffer.frontiers;
        if !self.store.is_direct() {
            // The answer is not needed; the call fails the log if its memory has crashed.
            self.has_crashed(core);
            return frontiers.reached(end, level);
        }
        // The append of a record that ends at `end` has persisted the record, whatever holes lie
        // below (invariant 3).
        if core.in_order && end <= frontiers.reserved() && !self.has_crashed(core) {
            return true;
        }
        self.look(core);
        frontiers.reached(end, level)
    }

    fn try_here(&self, core: &Core, end: Lsn, level: Durability) -> bool {
        if self.store.is_direct() && core.in_order {
            return true;
        }
        if core.background == Background::Caller {
            return false;
        }
        for step in 0..TRIES {
            if let Plan::Write(write) = self.plan(core, Ask { level, own: end, only_own: false, depth: 1 }) {
                self.perform(core, &write);
            }
            if core.buffer.frontiers.reached(end, level) || core.is_over() {
                return true;
            }
            pause(step);
        }
        false
    }

    fn settle(&self, core: &Core, end: Lsn) {
        if end <= core.buffer.frontiers.reserved() {
            core.protocol.wait(core, end, Durability::Durable);
        }
    }

    fn plan(&self, core: &Core, ask: Ask) -> Plan {
        if self.committer.is_taken() {
            return NOTHING;
        }
        self.wait_a_moment(core, ask.own);
        if self.store.is_direct() {
            self.look(core);
            return NOTHING;
        }
        let frontiers = &core.buffer.frontiers;
        // `durable` is read first, because it never passes `filled`.
        let (from, to) = (frontiers.durable(), frontiers.filled());
        if from >= to {
            return NOTHING;
        }
        Plan::Write(Planned { from, to, filled: to, all: true, durable: true, parallel: false })
    }

    fn perform(&self, core: &Core, _: &Planned) {
        // Bytes that were filled since the plan are persisted as well.
        self.commit(core);
    }

    fn abandon(&self, _: &Core, _: &Planned) {}

    fn sync(&self, _: &Core, _: bool) {}

    fn is_durable(&self, core: &Core, to: Lsn) -> bool {
        core.buffer.frontiers.durable() >= to
    }

    fn readable(&self, core: &Core) -> Lsn {
        self.look(core);
        let written = core.buffer.frontiers.written();
        // The caller may read up to this position.
        self.store.let_read(written);
        written
    }

    fn wait_for_writes(&self) {}
}
