//! Opening a log in NVRAM: which records survive.
//!
//! One thread runs this code; its caller holds the directory's lock and has judged the control
//! file. The steps of an opening:
//!
//! 1. The region is opened, or made if the control file says that the log was never used. Its
//!    header must be the log's.
//! 2. The records are walked and judged like those of a log on disk. In `nv_direct`, opening then
//!    looks for all records beyond the first hole, and fills the holes with padding.
//! 3. Every record that was found is persisted, because after a kill it may be in the processor's
//!    caches only. Entries beyond the end are reset (`reopen`).
//! 4. The new incarnation (the number of this opening) is made durable in the control file, and
//!    then the Restart record is persisted, as on disk.
//!
//! A crash at any point leaves a log that the next opening judges the same. Opening puts padding
//! only where there was no whole record of the last incarnation, and a crash leaves a padding
//! record whole or not at all. The Restart record is above all records that were found.
//!
//! Why a record beyond a hole is valid (`nv_direct`): there were no holes below the last Restart
//! record when that record was persisted, so the walk reaches that record, and learns its
//! incarnation. A record of that incarnation that lies at its own position was put there after that
//! Restart record: each position is reserved once in an incarnation, and an earlier lap of the ring
//! had other positions. Bytes inside the payload of a torn record could look like a whole record of
//! this incarnation at the position where they lie. Recovery would take these bytes for a record.
//! To write such a payload, a program would have to predict position and incarnation.

use super::apart::Apart;
use super::entries::Entries;
use super::header::{REGION_VERSION, RegionHeader};
use super::medium;
use super::reopen::reopen;
use super::ring::{NvRing, PersistPoint, RING_AT};
use super::store::{Memory, NvStore};
use crate::control::REGION_NAME;
use crate::control::{Control, ControlState};
use crate::error::OpenError;
use crate::medium_options::LogKind;
use crate::options::Options;
use crate::recover::inspected::Inspected;
use crate::recover::scan::{NoVisitor, RecordVisitor, next_valid};
use crate::recover::survey::Survey;
use crate::recover::{Finding, Judgement, Opened, Outcome, RecoveryReport, judge};
use crate::seal::{SEALED_BYTES, SealFault};
use crate::segment::Source;
use crate::segment::window::Window;
use katydid_device::nvram::{NvRegion, Persistence};
use katydid_device::{self as device, Cause, Directory, Verb};
use katydid_kernels::insert::PhysicalRecord;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::nvram::arena::Full;
use katydid_kernels::record::{
    Chain, HEADER_BYTES, HeaderFields, Kind, Layout, PHYSICAL_BYTES_MAX, Part, prepare_header,
};
use std::sync::Arc;

/// The memory of a log that no program has open: every position from the start on can be read.
#[derive(Debug)]
struct RegionLog {
    memory: FoundMemory,
    start: Lsn,
    /// The control file's state, corrected by head and tail of `nv_logging`.
    state: ControlState,
}

#[derive(Debug)]
enum FoundMemory {
    Ring(NvRing),
    Apart(Entries),
}

impl RegionLog {
    fn region(&self) -> &NvRegion {
        match &self.memory {
            FoundMemory::Ring(ring) => ring.region(),
            FoundMemory::Apart(entries) => entries.region(),
        }
    }

    /// Persists everything between the start and `end`, and resets the entries beyond `end`, if the
    /// log has entries. `slots` appenders will use the memory.
    fn settle(self, end: Lsn, slots: usize) -> Memory {
        match self.memory {
            FoundMemory::Ring(ring) => {
                ring.persist(self.start, end);
                Memory::Ring(ring)
            }
            FoundMemory::Apart(entries) => {
                let arenas = reopen(&entries, self.start, end, slots);
                Memory::Apart(Arc::new(Apart { entries, arenas }))
            }
        }
    }
}

impl Source for RegionLog {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        let ring = match &self.memory {
            FoundMemory::Ring(ring) => ring,
            FoundMemory::Apart(_) if at < self.start || at >= self.prepared_end() => return Ok(0),
            // SAFETY: a thread that opens or inspects the log has the region alone, and writes
            // nothing while it reads.
            FoundMemory::Apart(entries) => return Ok(unsafe { entries.read(at, buffer) }),
        };
        let count = (self.prepared_end().since(at) as usize).min(buffer.len());
        // Bytes below the start belong to other positions.
        let skipped = (self.start.since(at) as usize).min(count);
        buffer[..skipped].fill(0);
        // SAFETY: the thread has the region alone, and writes nothing while it reads.
        unsafe { ring.copy_out(at.plus(skipped as u64), &mut buffer[skipped..count]) };
        Ok(count)
    }

    fn prepared_end(&self) -> Lsn {
        let positions = match &self.memory {
            FoundMemory::Ring(ring) => ring.bytes(),
            FoundMemory::Apart(entries) => entries.bytes(),
        };
        self.start.plus(positions).min(Lsn::LIMIT)
    }

    fn file_name(&self, _: Lsn) -> String {
        REGION_NAME.to_owned()
    }

    fn layout(&self) -> Layout {
        match &self.memory {
            FoundMemory::Ring(_) => Layout::InMemory,
            FoundMemory::Apart(_) => Layout::Apart,
        }
    }
}

/// Opens the log that the control file names; `want` is the memory to ask for.
pub(crate) fn open(
    directory: &Arc<dyn Directory>,
    options: &Options,
    want: Persistence,
    survey: &Survey,
    mut control: Control,
    visitor: &mut dyn RecordVisitor,
) -> Result<Opened, OpenError> {
    let found = region(directory.as_ref(), survey, control.state(), want)?;
    let state = found.state;
    if state.incarnation == 0 {
        begin(&found, &state);
    }
    let judgement = judge(&found, &state, &mut NoVisitor)?;
    let Outcome { mut finding, incarnation } = judgement.outcome.clone()?;
    let holes = if state.log == LogKind::NvDirect { holes(&found, &judgement)? } else { Vec::new() };
    if let (Some((at, _)), FoundMemory::Ring(ring)) = (holes.first(), &found.memory) {
        finding = Finding::Holes { at: *at, holes: holes.len() as u64 };
        let incarnation = judgement.walk.incarnation;
        for (from, to) in &holes {
            fill(ring, *from, *to, incarnation)?;
        }
    }
    // The second walk shows the visitor a log without holes. The log is persisted before the
    // control file names the new incarnation.
    let before = judgement.scanned_bytes;
    let Judgement { walk, scanned_bytes, .. } = judge(&found, &state, visitor)?;
    let scanned_bytes = before + scanned_bytes;
    let end = walk.end.plus(found.layout().positions(HEADER_BYTES as u64));
    if end > found.prepared_end() {
        return Err(no_room(Full));
    }
    // One slot more than there are sessions, for the log's own records.
    let memory = found.settle(walk.end, options.sessions_max + 1);
    control.update(ControlState { incarnation, durable: walk.end, ..state })?;
    write(&memory, walk.end, incarnation, Kind::RESTART, walk.end, &[]).map_err(no_room)?;
    let report = RecoveryReport {
        log_id: state.log_id,
        start: state.start,
        end: walk.end,
        incarnation,
        finding,
        records: walk.records,
        scanned_bytes,
        segment_bytes: state.segment_bytes,
    };
    let parts = medium::parts(options, NvStore::new(memory, control, end), incarnation, end);
    Ok(Opened { parts, report, incarnations: walk.incarnations, incarnation, end, truncated: walk.truncated })
}

/// Refuses a log that was used and whose region is not there.
pub(crate) fn check_complete(survey: &Survey, state: &ControlState) -> Result<(), OpenError> {
    match state.incarnation > 0 && !survey.region {
        true => Err(OpenError::MissingSegment { file: REGION_NAME.to_owned(), from: state.start }),
        false => Ok(()),
    }
}

/// Inspects the log, and changes nothing. In `nv_logging`, head and tail correct the state.
pub(crate) fn inspect(
    directory: &dyn Directory,
    survey: &Survey,
    state: &ControlState,
) -> Result<(ControlState, Inspected), OpenError> {
    let source = match survey.region || state.incarnation > 0 {
        true => region(directory, survey, state, Persistence::Auto)?,
        false => unmade(state),
    };
    let state = source.state;
    let judgement = judge(&source, &state, &mut NoVisitor)?;
    Ok((state, Inspected { source: Arc::new(source), judgement, segments: Vec::new(), refused: Ok(()) }))
}

/// Returns an empty log in a small region of this process. It stands for a log whose region was
/// never made, because a crash interrupted the log's creation.
fn unmade(state: &ControlState) -> RegionLog {
    let (bytes, entries) = (16 << 10, 64);
    let region = Arc::new(NvRegion::memory(region_bytes(state.log, bytes, entries)));
    RegionLog { memory: memory(state.log, region, bytes, entries), start: state.start, state: *state }
}

/// Returns the number of bytes of the region of a log of this kind.
fn region_bytes(kind: LogKind, bytes: u64, entries: u64) -> u64 {
    match kind {
        LogKind::NvEntries | LogKind::NvLogging => Entries::region_bytes(kind, entries, bytes),
        LogKind::Disk | LogKind::NvDirect | LogKind::NvRing => RING_AT + bytes,
    }
}

fn memory(kind: LogKind, region: Arc<NvRegion>, bytes: u64, entries: u64) -> FoundMemory {
    let ring = |region, when| FoundMemory::Ring(NvRing::new(region, bytes, when));
    match kind {
        LogKind::NvEntries | LogKind::NvLogging => {
            FoundMemory::Apart(Entries::new(kind, region, entries, bytes))
        }
        LogKind::NvDirect => ring(region, PersistPoint::Appended),
        LogKind::Disk | LogKind::NvRing => ring(region, PersistPoint::Committed),
    }
}

/// Opens the log's region, and makes it if the log was never used; refuses the region of another
/// log.
fn region(
    directory: &dyn Directory,
    survey: &Survey,
    state: &ControlState,
    want: Persistence,
) -> Result<RegionLog, OpenError> {
    check_complete(survey, state)?;
    let file = || REGION_NAME.to_owned();
    let used = state.incarnation > 0;
    let ControlState { segment_bytes: bytes, entries, .. } = *state;
    let region = directory.nvram(REGION_NAME, region_bytes(state.log, bytes, entries), want)?;
    let mut block = Box::new([0; SEALED_BYTES]);
    // SAFETY: the caller has the region alone.
    block.copy_from_slice(unsafe { region.slice(0, SEALED_BYTES as u64) });
    match RegionHeader::decode(&block) {
        Err(SealFault::OtherVersion(found)) => {
            let (directory, file, supported) = (directory.describe(), file(), REGION_VERSION);
            return Err(OpenError::OtherVersion { directory, file, found, supported });
        }
        Ok(header) if header.log_id != state.log_id => {
            let (expected, found) = (state.log_id, header.log_id);
            return Err(OpenError::ForeignSegment { file: file(), expected, found });
        }
        Ok(header) if (header.ring_bytes, header.entries) != (bytes, entries) => {
            let reason = "its header names another size than the control file";
            return Err(OpenError::CorruptSegment { file: file(), reason });
        }
        Err(SealFault::Blank | SealFault::Broken) if used => {
            let reason = "its header is damaged";
            return Err(OpenError::CorruptSegment { file: file(), reason });
        }
        // Nothing was ever appended: a crash may have torn the header.
        Ok(_) | Err(SealFault::Blank | SealFault::Broken) => {}
    }
    let memory = memory(state.log, region, bytes, entries);
    let state = match &memory {
        FoundMemory::Apart(entries) if used => {
            entries.pointers().map_or(*state, |pointers| pointers.correct(state))
        }
        FoundMemory::Apart(_) | FoundMemory::Ring(_) => *state,
    };
    Ok(RegionLog { memory, start: state.start, state })
}

/// Persists the header of a new log's region.
fn begin(found: &RegionLog, state: &ControlState) {
    let ControlState { log_id, segment_bytes: ring_bytes, entries, .. } = *state;
    let header = RegionHeader { log_id, ring_bytes, entries }.encode();
    if let FoundMemory::Apart(entries) = &found.memory
        && let Some(pointers) = entries.pointers()
    {
        pointers.clear();
    }
    let region = found.region();
    // SAFETY: the caller has the region alone.
    unsafe { region.write(0, &header[..]) };
    region.persist(0, header.len() as u64);
}

/// Returns the holes below records of the last incarnation.
fn holes(found: &RegionLog, judgement: &Judgement) -> Result<Vec<(Lsn, Lsn)>, OpenError> {
    let (mut window, mut holes) = (Window::new(), Vec::new());
    let (mut at, last) = (judgement.walk.end, judgement.walk.incarnation);
    while let Some(header) = next_valid(found, &mut window, at, |header| header.incarnation == last)? {
        if header.lsn > at {
            holes.push((at, header.lsn));
        }
        at = header.end();
    }
    Ok(holes)
}

/// Fills a hole with padding, and persists it.
fn fill(ring: &NvRing, from: Lsn, to: Lsn, incarnation: u32) -> Result<(), OpenError> {
    const LEAST: usize = HEADER_BYTES;
    let memory = Memory::Ring(ring.clone());
    let mut at = from;
    while at < to {
        let left = to.since(at) as usize;
        if left < LEAST {
            // No record is that short, so no append can have left a hole that short.
            let reason = "it has a hole shorter than any record";
            return Err(OpenError::CorruptSegment { file: REGION_NAME.to_owned(), reason });
        }
        // The rest is empty, or long enough for a record.
        let bytes = if left <= PHYSICAL_BYTES_MAX { left } else { PHYSICAL_BYTES_MAX - LEAST };
        let zeros = vec![0; bytes - HEADER_BYTES];
        write(&memory, at, incarnation, Kind::PADDING, Lsn::ZERO, &zeros).map_err(no_room)?;
        at = at.plus(bytes as u64);
    }
    Ok(())
}

/// Returns the error for a log in which even the space kept for openings is used. One trim frees
/// that space.
fn no_room(_: Full) -> OpenError {
    device::Error::new(Verb::Prepare, REGION_NAME, Cause::NoSpace).into()
}

/// Puts one of the log's own records at `at`, and persists it.
fn write(
    memory: &Memory,
    at: Lsn,
    incarnation: u32,
    kind: Kind,
    durable: Lsn,
    body: &[u8],
) -> Result<(), Full> {
    let fields =
        HeaderFields { incarnation, kind, txn: 0, chain: Chain::NONE, durable, layout: memory.layout() };
    let prepared = prepare_header(&fields, Part::Whole, None, std::iter::once(body));
    let record = PhysicalRecord { prepared: &prepared, payload: &[body], after: Lsn::ZERO };
    // SAFETY: the caller has the region alone; no valid record is there.
    unsafe { memory.put_own(at, &record) }
}
