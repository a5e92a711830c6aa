//! Opening a log: judge its files and records, then begin a new incarnation. An incarnation is the
//! number of an opening.
//!
//! One thread runs this code, before any other thread has the log; its caller holds the directory's
//! lock. The decisions are in [`decide`], the walk over the records in [`scan`], the examination of
//! the files in [`survey`]; this file has the order of the steps:
//!
//! 1. Directory and live files are synced, and their cached bytes dropped, before anything is
//!    judged. Opening therefore judges what a crash of the machine would leave. Otherwise a second
//!    crash could lose bytes on which this opening has relied.
//! 2. Nothing is changed before the verdict. A refused log stays as it was. A failing read is an
//!    error of the device, and says nothing about the log.
//! 3. The new incarnation is durable in the control file before anything is written with it, so no
//!    two openings ever write with the same incarnation.
//! 4. The Restart record is durable at the end of the log before the open log is returned. From
//!    then on no byte that an older incarnation left beyond the end can become valid again, and the
//!    records that readers have seen stay valid.
//!
//! A crash at any point leaves a log that the next opening judges the same. Until step 4 the
//! records are untouched: only bytes from the end on are written, and they are no valid record
//! until the Restart record is complete. The next opening removes or finishes files that were being
//! made.

pub(crate) mod decide;
mod incarnations;
pub(crate) mod inspected;
mod judge;
mod refuse;
mod report;
pub(crate) mod scan;
pub(crate) mod survey;
#[cfg(test)]
mod tests;

pub(crate) use incarnations::IncarnationHistory;
pub(crate) use judge::{Judgement, Outcome, judge};
pub(crate) use refuse::{refuse, unusable_control};
pub use report::{Finding, RecoveryReport};

use crate::control::{CONTROL_NAME, Control, ControlState, read as read_control};
use crate::core::Parts;
use crate::error::OpenError;
use crate::files;
use crate::geometry::Geometry;
use crate::medium_options::FileOptions;
use crate::options::Options;
use crate::segment::ahead::ReadAhead;
use crate::segment::files::SegmentFiles;
use crate::segment::header::name;
use crate::segment::{SegmentStore, Source};
use crate::truncated::Ranges;
use katydid_device::{self as device, AlignedBuffer, Cause, Create, Directory, Id, Method, WriteMode};
use katydid_kernels::lsn::{BLOCK_BYTES, Lsn};
use katydid_kernels::record::{self, Chain, HeaderFields, Kind, Layout, Part};
use scan::RecordVisitor;
use std::io::IoSlice;
use std::sync::Arc;
use survey::{Health, Survey};

/// A log ready to be appended to.
#[derive(Debug)]
pub(crate) struct Opened {
    pub parts: Parts,
    pub report: RecoveryReport,
    /// The incarnations of the records that were there before this opening.
    pub incarnations: IncarnationHistory,
    pub incarnation: u32,
    /// The position of the next record: the end of the Restart record, which is written already.
    /// Everything below is durable.
    pub end: Lsn,
    /// The ranges whose records were truncated.
    pub truncated: Ranges,
}

/// A log in files, from which [`Opened`] is made.
#[derive(Debug)]
struct Segments {
    store: Arc<SegmentStore>,
    report: RecoveryReport,
    incarnations: IncarnationHistory,
    incarnation: u32,
    end: Lsn,
    truncated: Ranges,
    /// The bytes `[end rounded down to 4 KiB, end)`. On the device the rest of that block is zeros.
    tail: Vec<u8>,
}

/// Opens the log in files to which this control file belongs. `visitor` sees the records that
/// recovery finds.
///
/// # Errors
/// See [`OpenError`]. If the error is about the log's content, nothing was changed.
pub(crate) fn open(
    directory: &Arc<dyn Directory>,
    options: &Options,
    settings: &FileOptions,
    survey: &Survey,
    control: Control,
    visitor: &mut dyn RecordVisitor,
) -> Result<Opened, OpenError> {
    let Segments { store, report, incarnations, incarnation, end, truncated, tail } =
        open_files(directory, options, settings, survey, control, visitor)?;
    let parts = files::parts(options, settings, store, incarnation, end, &tail);
    Ok(Opened { parts, report, incarnations, incarnation, end, truncated })
}

/// Makes the directory's names durable and lists them, and opens the control file, which must be of
/// a log of the kind asked for.
pub(crate) fn look(
    directory: &Arc<dyn Directory>,
    options: &Options,
) -> Result<(Survey, Control), OpenError> {
    options.validate()?;
    directory.sync()?;
    let survey = Survey::of(&directory.list()?);
    let control = open_control(directory, options, &survey)?;
    let (found, asked) = (control.state().log, options.medium.kind());
    if found != asked {
        return Err(OpenError::OtherKind { found, asked });
    }
    Ok((survey, control))
}

/// The part of [`open`] that does not depend on how the log is appended to.
fn open_files(
    directory: &Arc<dyn Directory>,
    options: &Options,
    settings: &FileOptions,
    survey: &Survey,
    control: Control,
    visitor: &mut dyn RecordVisitor,
) -> Result<Segments, OpenError> {
    let state = *control.state();
    let (geometry, method) = (state.geometry(), options.method);
    let files = open_segments(directory, method, survey, &state)?;
    let ahead = ReadAhead::new(Arc::new(files.clone()), state.start, files.prepared_end());
    let Judgement { walk, scanned_bytes, outcome, .. } = judge(&ahead, &state, visitor)?;
    drop(ahead);
    let Outcome { finding, incarnation } = outcome?;
    let recyclable =
        clear_leftovers(directory, method, settings.spare_segments, survey, geometry.index(state.start))?;
    let store =
        SegmentStore::new(directory.clone(), control, method, settings.spare_segments, files, recyclable);
    // The segments are prepared before the incarnation begins, because incarnation 0 says that
    // segments may be missing.
    let restart_end = walk.end.plus(record::HEADER_BYTES as u64);
    let reach = match state.incarnation == 0 && options.streams == 1 {
        // A new log of one stream is prepared the usual distance ahead, but at most half a segment
        // of full size.
        true => files::first_ahead(options, settings, walk.end).min(walk.end.plus(state.segment_bytes / 2)),
        false => restart_end,
    };
    prepare_up_to(&store, reach.max(restart_end))?;
    store.begin_incarnation(incarnation, walk.end)?;
    let (end, tail) = write_restart(&store, walk.end, incarnation)?;
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
    let (incarnations, truncated) = (walk.incarnations, walk.truncated);
    Ok(Segments { store: Arc::new(store), report, incarnations, incarnation, end, truncated, tail })
}

/// Returns the contents of the control file of a log. Reads only that file, and changes nothing.
pub(crate) fn control_state(directory: &dyn Directory) -> Result<ControlState, OpenError> {
    let control = read_control(directory.open_read_only(CONTROL_NAME)?.as_ref())?;
    control.map_err(|fault| unusable_control(directory, fault))
}

/// Refuses a log in files that lacks a file which its control file names. Changes nothing.
pub(crate) fn check_complete(
    directory: &dyn Directory,
    survey: &Survey,
    state: &ControlState,
) -> Result<(), OpenError> {
    refuse(directory, Some(state), survey, None)?;
    // A file of a striped directory may have lost its part in one of the directories.
    for &index in survey.live(state.geometry().index(state.start)) {
        directory.open_read_only(&name(index))?;
    }
    Ok(())
}

/// Opens the control file, or makes one if there is nothing of a log.
fn open_control(
    directory: &Arc<dyn Directory>,
    options: &Options,
    survey: &Survey,
) -> Result<Control, OpenError> {
    if survey.control {
        let control = Control::open(directory.as_ref())?;
        return control.map_err(|fault| unusable_control(directory.as_ref(), fault));
    }
    refuse(directory.as_ref(), None, survey, None)?;
    let (bytes, entries) = options.medium.created_with();
    let log_id = options.log_id.unwrap_or_else(Id::random);
    let state = match options.medium.files() {
        Some(files) => {
            ControlState::in_files(log_id, Geometry::growing(files.first_segment_bytes, files.segment_bytes))
        }
        None => ControlState { entries, ..ControlState::new(log_id, options.medium.kind(), bytes) },
    };
    Ok(Control::create(directory.as_ref(), state)?)
}

/// Opens, syncs and examines the segments from the start on.
fn open_segments(
    directory: &Arc<dyn Directory>,
    method: Method,
    survey: &Survey,
    state: &ControlState,
) -> Result<SegmentFiles, OpenError> {
    let geometry = state.geometry();
    let first = geometry.index(state.start);
    let mut files = SegmentFiles::new(geometry, first);
    let mut worst: Option<(u64, Health)> = None;
    for &index in survey.live(first) {
        let file = directory.open(&name(index), Create::Never, method)?;
        file.sync()?;
        file.drop_cache()?;
        let health = survey::examine(file.as_ref(), index, geometry, state.log_id)?;
        if worst.is_none_or(|(_, other)| health.is_worse_than(other)) {
            worst = Some((index, health));
        }
        files.push(file);
    }
    refuse(directory.as_ref(), Some(state), survey, worst)?;
    Ok(files)
}

/// Removes half-made files, trimmed segments that cannot be opened, and trimmed segments beyond
/// `spare_segments`. Returns the indexes of the segments kept for reuse. A trimmed segment holds
/// nothing that the log needs. A segment of another striped set, or one that lacks a part, must be
/// found here: a thread that found it while preparing the log would fail the log.
fn clear_leftovers(
    directory: &Arc<dyn Directory>,
    method: Method,
    spare_segments: usize,
    survey: &Survey,
    first: u64,
) -> Result<Vec<u64>, OpenError> {
    let (mut recyclable, mut excess) = (Vec::new(), Vec::new());
    for &index in survey.trimmed(first) {
        let is_kept = recyclable.len() < spare_segments
            && match directory.open(&name(index), Create::Never, method) {
                Ok(_) => true,
                Err(error) if matches!(error.cause, Cause::Stripes(_) | Cause::NotFound) => false,
                Err(error) => return Err(error.into()),
            };
        if is_kept { &mut recyclable } else { &mut excess }.push(index);
    }
    let mut removed = false;
    for file in survey.unfinished.iter().map(|&file| file.to_owned()).chain(excess.into_iter().map(name)) {
        match directory.remove(&file) {
            Ok(()) => removed = true,
            // If this opening has just made the control file, the half-made file was renamed to it.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if removed {
        directory.sync()?;
    }
    Ok(recyclable)
}

/// Prepares segments until the log can grow up to `end`.
fn prepare_up_to(store: &SegmentStore, end: Lsn) -> device::Result<()> {
    while store.prepared_end() < end {
        store.prepare_next()?;
    }
    Ok(())
}

/// Writes the Restart record at `at`, durably, with zeros up to the end of its last block. Returns
/// the position of the next record, and the bytes before that position in its block.
fn write_restart(store: &SegmentStore, at: Lsn, incarnation: u32) -> Result<(Lsn, Vec<u8>), OpenError> {
    let fields = HeaderFields {
        incarnation,
        kind: Kind::RESTART,
        txn: 0,
        chain: Chain::NONE,
        durable: at,
        layout: Layout::InLine,
    };
    let restart = record::prepare_header(&fields, Part::Whole, None, std::iter::empty());
    let end = at.plus(restart.padded() as u64);
    let from = at.floor_block();
    let mut blocks = AlignedBuffer::new_zeroed(end.ceil_block().since(from) as usize);
    let prefix = at.since(from) as usize;
    let got = store.read(from, &mut blocks[..prefix])?;
    debug_assert_eq!(got, prefix, "the walk read these bytes");
    blocks[prefix..prefix + restart.len()].copy_from_slice(&restart.head(at));
    store.write(from, &[IoSlice::new(&blocks)], WriteMode::Durable)?;
    let tail_from = end.floor_block().since(from) as usize;
    let tail = blocks[tail_from..tail_from + (end.get() % BLOCK_BYTES) as usize].to_vec();
    Ok((end, tail))
}
