//! Looking at a stream without changing anything, whatever state it is in.
//!
//! One thread. Files are opened for reading only; nothing is created, synced or removed, and no incarnation begins, so a
//! log that cannot be opened can be looked at, and one that is in use too (then the end is wherever it happened to be).

use crate::control::{CONTROL_NAME, ControlState, FORMAT_VERSION, read as read_control};
use crate::error::{OpenError, ReadError};
use crate::medium_options::LogKind;
use crate::nvram;
use crate::reader::{FixedExtent, Reader, RecordFilter};
use crate::recover::decide::HeadersFound;
use crate::recover::scan::NoVisitor;
use crate::recover::survey::{Health, Survey, examine};
use crate::recover::{Finding, IncarnationHistory, Judgement, judge, refuse, unusable_control};
use crate::segment::Source;
use crate::segment::files::SegmentFiles;
use crate::segment::header::name;
use katydid_device::nvram::Persistence;
use katydid_device::{self as device, Directory, Id};
use katydid_kernels::lsn::Lsn;
use std::sync::Arc;

/// What a segment file is to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentState {
    /// Holds part of the log.
    Live,
    /// Ready for what comes next; nothing of the log is in it.
    Prepared,
    /// Below the log's start, kept for reuse.
    Trimmed,
    /// Damaged: why.
    Corrupt(&'static str),
    /// Of another log, with this id.
    Foreign(Id),
    /// Of this version of the format, which the program does not read.
    OtherVersion(u32),
}

/// One segment file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentReport {
    /// File name.
    pub file: String,
    /// First position it holds by its name.
    pub base: Lsn,
    /// Incarnation of the log when it was prepared, if the header could be read.
    pub incarnation: Option<u32>,
    /// What it is.
    pub state: SegmentState,
}

/// The findings about one stream.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamInspection {
    /// The log's id.
    pub log_id: Id,
    /// Version of the format this program reads.
    pub version: u32,
    /// Number of times the log was opened for writing.
    pub incarnation: u32,
    /// Everything below was trimmed.
    pub start: Lsn,
    /// Where the valid records end.
    pub end: Lsn,
    /// The log is known to have been durable at least up to here.
    pub durable: Lsn,
    /// What the log is kept in. One in NVRAM has no segments; of one of kind `NvDirect` only what lies below the first hole is shown, until
    /// it has been opened.
    pub kind: LogKind,
    /// Size of each segment file, or of the ring in NVRAM, in bytes.
    pub segment_bytes: u64,
    /// All segment files, by position.
    pub segments: Vec<SegmentReport>,
    /// How the log ends, or the error that opening it would give.
    pub finding: Result<Finding, OpenError>,
    /// Which incarnation wrote what of it.
    pub(crate) incarnations: IncarnationHistory,
    source: Arc<dyn Source>,
}

impl StreamInspection {
    /// All valid records from the start on, the log's own ones included.
    ///
    /// # Errors
    /// None as of now; the reader itself meets those of reading.
    pub fn records(&self) -> Result<Reader, ReadError> {
        self.reader(self.start, RecordFilter::All)
    }

    pub(crate) fn reader(&self, from: Lsn, filter: RecordFilter) -> Result<Reader, ReadError> {
        let found = FixedExtent { start: self.start, end: self.end };
        Reader::new(self.source.clone(), Arc::new(found), from, filter)
    }
}

/// Looks at the stream in a directory and changes nothing.
///
/// # Errors
/// Where nothing can be said at all: the device fails, or there is no sound control file of a known version. Everything
/// else that is wrong is reported in [`StreamInspection::finding`] and [`StreamInspection::segments`].
pub(crate) fn inspect_stream(directory: &dyn Directory) -> Result<StreamInspection, OpenError> {
    let survey = Survey::of(&directory.list()?);
    if !survey.control {
        refuse(directory, None, &survey, None)?;
        let missing = device::Error::new(device::Verb::Open, CONTROL_NAME, device::Cause::NotFound);
        return Err(missing.into());
    }
    let control = read_control(directory.open_read_only(CONTROL_NAME)?.as_ref())?;
    let state = control.map_err(|fault| unusable_control(directory, fault))?;
    if state.log.in_nvram() {
        let found = nvram::recover::region(directory, &survey, &state, Persistence::Auto)?;
        let judgement = judge(&found, &state, &mut NoVisitor)?;
        return Ok(inspected(state, Arc::new(found), judgement, Vec::new(), Ok(())));
    }
    let geometry = state.geometry();
    let first = geometry.index(state.start);
    let mut files = SegmentFiles::new(geometry, first);
    let mut worst: Option<(u64, Health)> = None;
    let mut healths = Vec::new();
    let mut broken = false;
    for &index in &survey.segments {
        let file = directory.open_read_only(&name(index))?;
        let health = examine(file.as_ref(), index, geometry, state.log_id)?;
        healths.push((index, health));
        if index < first {
            continue;
        }
        if worst.is_none_or(|(_, other)| health.is_worse_than(other)) {
            worst = Some((index, health));
        }
        // Records are looked at up to the first segment that cannot be trusted.
        broken |= health.found() != HeadersFound::Sound || index != files.next_index();
        if !broken {
            files.push(file);
        }
    }
    let refused = refuse(directory, Some(&state), &survey, worst);
    let judgement = judge(&files, &state, &mut NoVisitor)?;
    let end = judgement.walk.end;
    let segments = healths
        .into_iter()
        .map(|(index, health)| SegmentReport {
            file: name(index),
            base: geometry.base(index),
            incarnation: if let Health::Sound(header) = health { Some(header.incarnation) } else { None },
            state: match health {
                _ if index < first => SegmentState::Trimmed,
                Health::Sound(_) if geometry.base(index) >= end => SegmentState::Prepared,
                Health::Sound(_) => SegmentState::Live,
                Health::Corrupt(reason) => SegmentState::Corrupt(reason),
                Health::Foreign(id) => SegmentState::Foreign(id),
                Health::OtherVersion(version) => SegmentState::OtherVersion(version),
            },
        })
        .collect();
    Ok(inspected(state, Arc::new(files), judgement, segments, refused))
}

fn inspected(
    state: ControlState,
    source: Arc<dyn Source>,
    judgement: Judgement,
    segments: Vec<SegmentReport>,
    refused: Result<(), OpenError>,
) -> StreamInspection {
    let Judgement { walk, durable, outcome, .. } = judgement;
    let finding = refused.and_then(|()| outcome.map(|outcome| outcome.finding));
    StreamInspection {
        log_id: state.log_id,
        version: FORMAT_VERSION,
        incarnation: state.incarnation,
        start: state.start,
        end: walk.end,
        durable,
        kind: state.log,
        segment_bytes: state.segment_bytes,
        segments,
        finding,
        incarnations: walk.incarnations,
        source,
    }
}
