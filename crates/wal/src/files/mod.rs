//! The medium of a log in files: segments that are prepared ahead, written by a leader, synced, and
//! removed or used again.
//!
//! - [`writer`]: what a leader does
//! - this file: [`Files`], which implements [`Medium`], and how appends wait for space
//!
//! Any thread may call this code. The maintenance thread prepares segments (`maintenance.rs`). An
//! append that needs space waits for that thread before it reserves a position, so it leaves no
//! hole in the log while it waits.
//!
//! A crash keeps every whole block below the durable frontier. Above it, each block that was
//! written or was being written may be whole, torn or missing. Recovery keeps the records that are
//! valid and contiguous.

mod writer;

use crate::core::{Core, Medium, Parts, Use};
use crate::error::{AppendError, Result};
use crate::geometry::Geometry;
use crate::maintenance::Refusal;
use crate::medium_options::{FileOptions, LogKind};
use crate::options::Options;
use crate::segment::{SegmentStore, Source};
use katydid_device::nvram::Form;
use katydid_device::{self as device, Method};
use katydid_kernels::durability::Durability;
use katydid_kernels::insert::{Admission, AppendClass, LogBuffer, young_bytes};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::HEADER_BYTES;
use katydid_kernels::ring::{RecordMemory, Ring};
use katydid_kernels::sync::{Ask, Plan, Planned};
use katydid_kernels::sync_shim::rest;
use std::sync::Arc;
use writer::Writer;

/// See the head of this file.
#[derive(Debug)]
struct Files {
    segments: Arc<SegmentStore>,
    writer: Writer,
    /// Number of segments that are kept prepared ahead of the reserved frontier.
    spare_segments: u64,
    /// True in a log of several streams, some of which may never be used: nothing is prepared ahead
    /// until the stream has left its first segment.
    waits_for_use: bool,
}

/// Returns the parts of a log in these segments. The log is durable up to `end`, and continues in
/// this incarnation. `tail` has the bytes of the block that holds `end`, up to `end`.
pub(crate) fn parts(
    options: &Options,
    settings: &FileOptions,
    segments: Arc<SegmentStore>,
    incarnation: u32,
    end: Lsn,
    tail: &[u8],
) -> Parts {
    let ring = Ring::new(settings.ring_bytes);
    // SAFETY: no other thread has the ring yet.
    unsafe { ring.fill(end.floor_block(), &[tail], 0) };
    let sizes = options.buffer_sizes(settings.ring_bytes);
    // A write has at most half of the ring, so that appends can fill the other half meanwhile.
    let write_bytes_max = (settings.write_bytes_max as u64).min(settings.ring_bytes as u64 / 2);
    let writer = Writer::new(segments.clone(), ring.clone(), end, write_bytes_max);
    Parts {
        medium: Box::new(Files {
            segments,
            writer,
            spare_segments: settings.spare_segments as u64,
            waits_for_use: options.streams > 1,
        }),
        memory: RecordMemory::Ring(ring),
        admission: Admission::growing(&sizes),
        inserter: settings.inserter.inserter(&sizes, incarnation, end),
        protocol: options.background.arrange(options.background.limit(settings.sync).protocol()),
        in_order: settings.inserter.keeps_order(),
        physical_bytes_max: sizes.physical_bytes_max(),
    }
}

/// Returns the position up to which to prepare a log that ends at `reserved`. The prepared space
/// then has room for the reserve, and besides for as many bytes as the log has, or as the ring has
/// if that is more. This room is at most a segment of the full size (or the ring), and in a log
/// smaller than the ring at most `young_bytes`. So the preparation of a segment begins long before
/// appends need it, and a small log takes little of the disk.
fn ahead(admission: &Admission, ring_bytes: u64, segment_bytes: u64, reserved: Lsn) -> Lsn {
    let at = reserved.get();
    let room = at.min(segment_bytes).max(ring_bytes).min(young_bytes(at));
    reserved.plus(admission.reserve_at(at) + admission.slack() + room)
}

/// Returns the position up to which to prepare a new log that ends at `end`, so that its first
/// appends wait for no preparation.
pub(crate) fn first_ahead(options: &Options, settings: &FileOptions, end: Lsn) -> Lsn {
    let sizes = options.buffer_sizes(settings.ring_bytes);
    ahead(&Admission::growing(&sizes), settings.ring_bytes as u64, settings.segment_bytes, end)
}

impl Files {
    /// Returns the position up to which segments should be prepared now.
    fn wanted_end(&self, core: &Core) -> Lsn {
        let LogBuffer { frontiers, admission, .. } = &core.buffer;
        let reserved = frontiers.reserved();
        if self.waits_for_use && self.segments.is_in_first(reserved) {
            return Lsn::ZERO;
        }
        let spare = self.segments.spare_end(reserved, self.spare_segments);
        let full = self.segments.geometry().segment_bytes(u64::MAX);
        Lsn::new(spare).max(ahead(admission, self.writer.ring().size(), full, reserved))
    }
}

impl Medium for Files {
    fn kind(&self) -> LogKind {
        LogKind::Disk
    }

    fn form(&self) -> Option<Form> {
        None
    }

    fn method(&self, at: Lsn) -> Option<Method> {
        Some(self.segments.method(at))
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(self.segments.geometry())
    }

    fn source(&self) -> Arc<dyn Source> {
        self.segments.clone()
    }

    fn start(&self) -> Lsn {
        self.segments.start()
    }

    fn prepared_end(&self) -> Lsn {
        self.segments.prepared_end()
    }

    fn bytes(&self) -> u64 {
        self.segments.bytes_on_disk()
    }

    fn space(&self, reserved: Lsn) -> Use {
        Use { live: reserved.since(self.start()), prepared: self.prepared_end().since(reserved) }
    }

    fn capacity(&self, _: u64) -> Option<u64> {
        None
    }

    fn record_bytes_max(&self, _: &Admission, _: AppendClass) -> u64 {
        Lsn::LIMIT.get()
    }

    fn raise_bytes_max(&self, _: &Admission) -> u64 {
        Lsn::LIMIT.get()
    }

    fn fullness(&self, _: &Core) -> Option<u32> {
        None
    }

    fn trim(&self, core: &Core, to: Lsn) -> Result<()> {
        self.segments.trim(to, core.frontiers().durable())
    }

    fn note_durable(&self, durable: Lsn) -> device::Result<()> {
        self.segments.note_durable(durable)
    }

    fn is_truncatable(&self) -> bool {
        true
    }

    fn truncates(&self) -> bool {
        self.segments.truncates()
    }

    fn allow_truncations(&self) -> device::Result<()> {
        self.segments.allow_truncations()
    }

    fn make_room(
        &self,
        core: &Core,
        bytes: u64,
        class: AppendClass,
        step: u32,
    ) -> std::result::Result<(), AppendError> {
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
        let fits = || admission.fits_prepared(frontiers.reserved().get(), bytes, self.prepared_end(), class);
        while !fits() {
            let end = frontiers.reserved().get().saturating_add(bytes);
            let reach = end.saturating_add(admission.slack()).saturating_add(admission.reserve_at(end));
            if reach > Lsn::LIMIT.get() {
                return Err(AppendError::NoSpace);
            }
            let ticket = core.maintenance.ask(reach);
            core.maintain_here();
            let asked = core.maintenance.wait(ticket, fits);
            core.refresh();
            match asked {
                Ok(()) => core.check_appendable()?,
                Err(Refusal::NoSpace) => return Err(AppendError::NoSpace),
                Err(Refusal::Over) => {
                    core.check_appendable()?;
                    return Err(AppendError::Closed);
                }
            }
        }
        Ok(())
    }

    fn is_prepared_ahead(&self) -> bool {
        true
    }

    fn prepare(&self, core: &Core, reach: u64) -> device::Result<bool> {
        if self.prepared_end() >= self.wanted_end(core).max(Lsn::new(reach)) {
            return Ok(false);
        }
        self.segments.prepare_next()?;
        core.refresh();
        Ok(true)
    }

    fn nudge_maintenance(&self, core: &Core) {
        if self.prepared_end() < self.wanted_end(core) {
            core.maintenance.nudge();
        }
    }

    fn is_unused(&self, core: &Core) -> bool {
        let LogBuffer { frontiers, admission, .. } = &core.buffer;
        let reserved = frontiers.reserved();
        let fits = || {
            let bytes = HEADER_BYTES as u64;
            admission.fits_prepared(reserved.get(), bytes, self.prepared_end(), AppendClass::Critical)
        };
        self.waits_for_use && self.segments.is_in_first(reserved) && !fits()
    }

    fn look(&self, _: &Core) {}

    fn is_settled(&self, _: &Core, _: Lsn, _: Durability) -> bool {
        false
    }

    fn try_here(&self, _: &Core, _: Lsn, _: Durability) -> bool {
        false
    }

    fn settle(&self, _: &Core, _: Lsn) {}

    fn plan(&self, core: &Core, ask: Ask) -> Plan {
        self.writer.plan(core, ask)
    }

    fn perform(&self, core: &Core, write: &Planned) {
        self.writer.perform(core, write);
    }

    fn abandon(&self, core: &Core, write: &Planned) {
        // Does nothing if the write was taken off the list before.
        self.writer.end_flight(core, write);
    }

    fn sync(&self, core: &Core, again: bool) {
        self.writer.sync(core, again);
    }

    fn is_durable(&self, _: &Core, to: Lsn) -> bool {
        self.writer.is_durable(to)
    }

    fn readable(&self, _: &Core) -> Lsn {
        self.writer.readable()
    }

    fn wait_for_writes(&self) {
        self.writer.wait_for_writes();
    }
}
