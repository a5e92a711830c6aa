//! Judging a log in files without changing anything.
//!
//! One thread runs this code, and opens files for reading only. A log that opening would refuse is
//! judged as far as it can be read.

use super::decide::HeadersFound;
use super::scan::NoVisitor;
use super::survey::{Health, Survey, examine};
use super::{Judgement, judge, refuse};
use crate::control::ControlState;
use crate::error::OpenError;
use crate::segment::Source;
use crate::segment::files::SegmentFiles;
use crate::segment::header::name;
use katydid_device::{Directory, Id};
use katydid_kernels::lsn::Lsn;
use std::sync::Arc;

/// State of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentState {
    /// The file holds part of the log.
    Live,
    /// The file is prepared for later records, and holds none.
    Prepared,
    /// The file lies below the log's start, and is kept for reuse.
    Trimmed,
    /// The file is damaged, for this reason.
    Corrupt(&'static str),
    /// The file belongs to another log, with this id.
    Foreign(Id),
    /// The file has a version of the format that this program does not read.
    OtherVersion(u32),
}

/// The report of one segment file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentReport {
    /// File name.
    pub file: String,
    /// The first position that the file holds, according to its name.
    pub base: Lsn,
    /// The incarnation (number of the opening) that prepared the file, if the header could be read.
    pub incarnation: Option<u32>,
    /// State of the file.
    pub state: SegmentState,
}

/// The findings of a medium about a log.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub source: Arc<dyn Source>,
    pub judgement: Judgement,
    /// All segment files, by position; none for a log in NVRAM.
    pub segments: Vec<SegmentReport>,
    /// The error that opening would return before it reads a record.
    pub refused: Result<(), OpenError>,
}

/// Inspects a log in files, whose control file says `state`.
pub(crate) fn inspect(
    directory: &dyn Directory,
    survey: &Survey,
    state: &ControlState,
) -> Result<Inspected, OpenError> {
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
        // Only the records below the first segment that is faulty or missing are judged.
        broken |= health.found() != HeadersFound::Sound || index != files.next_index();
        if !broken {
            files.push(file);
        }
    }
    let refused = refuse(directory, Some(state), survey, worst);
    let judgement = judge(&files, state, &mut NoVisitor)?;
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
    Ok(Inspected { source: Arc::new(files), judgement, segments, refused })
}
