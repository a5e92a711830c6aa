//! Opening a log in NVRAM: which records survive.
//!
//! One thread; the caller holds the directory's lock and has judged the control file. In this order:
//!
//! 1. The region is opened, or made if the control file says that the log was never used. Its header must be the log's.
//! 2. The records are walked and judged as those of a log on disk are. Of `nv_direct`, all records are then looked for that lie beyond the
//!    first hole, and the holes are filled with padding.
//! 3. Everything believed is persisted: after a kill it may be in the processor's caches only.
//! 4. The new incarnation is durable in the control file, and then the Restart record is persisted, as on disk.
//!
//! A crash at any point leaves a log that the next opening judges the same: padding lies where no whole record of the last incarnation
//! was, and is one itself or is not there; the Restart record is behind all that was found.
//!
//! Why a record beyond a hole is one (`nv_direct`): all below the last Restart record was without holes when it was persisted, so the walk
//! passes it, and has its incarnation. A record of that incarnation at its own position was put there since, for each position
//! is reserved once in an incarnation, and an earlier lap of the ring had other positions. Bytes of a torn record that happen to be a whole
//! record of this very position and incarnation cannot be told apart; a payload would have to foretell both.

use super::REGION_NAME;
use super::header::RegionHeader;
use super::ring::{NvRing, RING_AT};
use super::store::NvStore;
use crate::checksum::{SEALED_BYTES, SealFault};
use crate::control::{Control, ControlState, FORMAT_VERSION};
use crate::core::Store;
use crate::error::OpenError;
use crate::insert::Piece;
use crate::lsn::Lsn;
use crate::options::{LogKind, Options};
use crate::record::{Draft, HEADER_BYTES, Kind, PIECE_BYTES_MAX, Part, prepare_header};
use crate::recover::scan::{Nobody, Onlooker, next_valid};
use crate::recover::survey::Survey;
use crate::recover::{Finding, Judgement, Opened, Outcome, RecoveryReport, judge};
use crate::ring::Ring;
use crate::segment::Source;
use crate::segment::window::Window;
use katydid_device::nvram::Persistence;
use katydid_device::{self as device, Cause, Directory, Verb};
use std::sync::Arc;

/// The ring of a log that nobody has open: every position from the start on can be read.
#[derive(Debug)]
pub(crate) struct Found {
    ring: NvRing,
    start: Lsn,
}

impl Source for Found {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        let count = (self.prepared_end().since(at) as usize).min(buffer.len());
        // Below the start are bytes of other positions.
        let skipped = (self.start.since(at) as usize).min(count);
        buffer[..skipped].fill(0);
        // SAFETY: whoever opens or inspects the log has the region alone, and writes nothing while it reads.
        unsafe { self.ring.copy_out(at.plus(skipped as u64), &mut buffer[skipped..count]) };
        Ok(count)
    }

    fn prepared_end(&self) -> Lsn {
        self.start.plus(self.ring.bytes())
    }

    fn file_name(&self, _: Lsn) -> String {
        REGION_NAME.to_owned()
    }
}

/// Opens the log that the control file names.
pub(crate) fn open(
    directory: &Arc<dyn Directory>,
    options: &Options,
    survey: &Survey,
    mut control: Control,
    onlooker: &mut dyn Onlooker,
) -> Result<Opened, OpenError> {
    let state = *control.state();
    let found = region(directory.as_ref(), survey, &state, options.nvram.want)?;
    if state.incarnation == 0 {
        begin(&found, &state);
    }
    let ring = Ring::in_nvram(found.ring.clone());
    let judgement = judge(&found, &state, &mut Nobody)?;
    let Outcome { mut finding, incarnation } = judgement.outcome.clone()?;
    let holes = if state.log == LogKind::NvDirect { holes(&found, &judgement)? } else { Vec::new() };
    if let Some((at, _)) = holes.first() {
        finding = Finding::Holes { at: *at, holes: holes.len() as u64 };
        let incarnation = judgement.walk.incarnation;
        for (from, to) in &holes {
            fill(&ring, *from, *to, incarnation)?;
        }
    }
    // Once more, for the onlooker, who is shown a log without holes. It is persisted before anything of this counts.
    let before = judgement.scanned_bytes;
    let Judgement { walk, scanned_bytes, .. } = judge(&found, &state, onlooker)?;
    let scanned_bytes = before + scanned_bytes;
    let end = walk.end.plus(HEADER_BYTES as u64);
    if end > found.prepared_end() {
        // Only openings use this room, and one trim gives all of it back.
        return Err(device::Error::new(Verb::Prepare, REGION_NAME, Cause::NoSpace).into());
    }
    found.ring.persist(state.start, walk.end);
    control.update(ControlState { incarnation, durable: walk.end, ..state })?;
    write(&ring, walk.end, incarnation, Kind::RESTART, walk.end, &[]);
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
    let store = Store::Nvram(Arc::new(NvStore::new(found.ring, control, end)));
    Ok(Opened { store, report, eras: walk.eras, incarnation, end, tail: Vec::new() })
}

/// Opens the log's region, and makes it if the log was never used; refuses another's.
pub(crate) fn region(
    directory: &dyn Directory,
    survey: &Survey,
    state: &ControlState,
    want: Persistence,
) -> Result<Found, OpenError> {
    let file = || REGION_NAME.to_owned();
    let used = state.incarnation > 0;
    if used && !survey.region {
        return Err(OpenError::MissingSegment { file: file(), from: state.start });
    }
    let region = directory.nvram(REGION_NAME, RING_AT + state.segment_bytes, want)?;
    let mut block = Box::new([0; SEALED_BYTES]);
    // SAFETY: nobody else has the region.
    block.copy_from_slice(unsafe { region.slice(0, SEALED_BYTES as u64) });
    match RegionHeader::decode(&block) {
        Err(SealFault::Newer(found)) => {
            return Err(OpenError::NewerVersion { file: file(), found, supported: FORMAT_VERSION });
        }
        Ok(header) if header.log_id != state.log_id => {
            let (expected, found) = (state.log_id, header.log_id);
            return Err(OpenError::ForeignSegment { file: file(), expected, found });
        }
        Ok(header) if header.ring_bytes != state.segment_bytes => {
            let reason = "its header names another size than the control file";
            return Err(OpenError::CorruptSegment { file: file(), reason });
        }
        Err(SealFault::Blank | SealFault::Broken) if used => {
            let reason = "its header is damaged";
            return Err(OpenError::CorruptSegment { file: file(), reason });
        }
        // Nothing was ever appended: the header may have been cut by a crash.
        Ok(_) | Err(SealFault::Blank | SealFault::Broken) => {}
    }
    Ok(Found { ring: NvRing::new(region, state.segment_bytes), start: state.start })
}

/// Persists the header of a new log's region.
fn begin(found: &Found, state: &ControlState) {
    let header = RegionHeader { log_id: state.log_id, ring_bytes: state.segment_bytes }.encode();
    let region = found.ring.region();
    // SAFETY: nobody else has the region.
    unsafe { region.write(0, &header[..]) };
    region.persist(0, header.len() as u64);
}

/// The holes before records of the last incarnation.
fn holes(found: &Found, judgement: &Judgement) -> Result<Vec<(Lsn, Lsn)>, OpenError> {
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

/// Fills a hole with padding, persisted.
fn fill(ring: &Ring, from: Lsn, to: Lsn, incarnation: u32) -> Result<(), OpenError> {
    const LEAST: usize = HEADER_BYTES;
    let mut at = from;
    while at < to {
        let left = to.since(at) as usize;
        if left < LEAST {
            // No record is so short, so no hole is.
            let reason = "it has a hole that no record leaves";
            return Err(OpenError::CorruptSegment { file: REGION_NAME.to_owned(), reason });
        }
        // What remains is nothing, or long enough.
        let bytes = if left <= PIECE_BYTES_MAX { left } else { PIECE_BYTES_MAX - LEAST };
        write(ring, at, incarnation, Kind::PADDING, Lsn::ZERO, &vec![0; bytes - HEADER_BYTES]);
        at = at.plus(bytes as u64);
    }
    Ok(())
}

/// Puts one of the log's own records at `at`, persisted.
fn write(ring: &Ring, at: Lsn, incarnation: u32, kind: Kind, durable: Lsn, body: &[u8]) {
    let draft = Draft { incarnation, kind, txn: 0, prev: Lsn::ZERO, durable };
    let prepared = prepare_header(&draft, Part::Whole, None, std::iter::once(body));
    let piece = Piece { prepared: &prepared, payload: &[body], after: Lsn::ZERO };
    // SAFETY: nobody else has the region; no record that counts is there.
    unsafe { piece.copy_to(ring, at) };
}
