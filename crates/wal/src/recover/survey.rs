//! The files of a log, and whether their headers belong to it.
//!
//! One thread runs this code, which only reads. Opening and inspecting use it.

use super::decide::{HeadersFound, SegmentsFound};
use crate::control::REGION_NAME;
use crate::control::{CONTROL_NAME, CONTROL_NEW_NAME};
use crate::error::OpenError;
use crate::geometry::Geometry;
use crate::seal::{SEALED_BYTES, SealFault};
use crate::segment::header::{SegmentHeader, UNFINISHED_NAME, index_of_name, name};
use katydid_device::{self as device, Directory, File, Id};

/// The files of a log by their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Survey {
    /// True if there is a control file.
    pub control: bool,
    /// Indexes of all segments, ascending.
    pub segments: Vec<u64>,
    /// True if there is a region of NVRAM.
    pub region: bool,
    /// Names of files that a crash left half made.
    pub unfinished: Vec<&'static str>,
}

impl Survey {
    /// Makes the survey of these names of files. Leaves out files that are not the log's.
    pub(crate) fn of(names: &[String]) -> Self {
        let mut survey = Survey::default();
        for file in names {
            match file.as_str() {
                CONTROL_NAME => survey.control = true,
                REGION_NAME => survey.region = true,
                CONTROL_NEW_NAME => survey.unfinished.push(CONTROL_NEW_NAME),
                UNFINISHED_NAME => survey.unfinished.push(UNFINISHED_NAME),
                other => survey.segments.extend(index_of_name(other)),
            }
        }
        survey.segments.sort_unstable();
        survey
    }

    /// Returns whether there is no file that holds records.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && !self.region
    }

    /// Returns the indexes of the segments below the segment that holds the start. These segments
    /// are trimmed, and kept for reuse.
    pub(crate) fn trimmed(&self, first: u64) -> &[u64] {
        &self.segments[..self.segments.partition_point(|&index| index < first)]
    }

    /// Returns the indexes of the segments from `first` on.
    pub(crate) fn live(&self, first: u64) -> &[u64] {
        &self.segments[self.segments.partition_point(|&index| index < first)..]
    }

    /// Returns the state of the segments from `first` on, and the first missing one. The segments
    /// below `known` must exist.
    pub(crate) fn completeness(&self, first: u64, known: u64) -> (SegmentsFound, Option<u64>) {
        let live = self.live(first);
        if live.is_empty() {
            return (SegmentsFound::None, Some(first));
        }
        let missing = live.iter().zip(first..).find(|(found, expected)| **found != *expected);
        match missing {
            None => match first + live.len() as u64 {
                next if next < known => (SegmentsFound::Cut, Some(next)),
                _ => (SegmentsFound::Complete, None),
            },
            Some((_, expected)) if expected == first => (SegmentsFound::StartMissing, Some(first)),
            Some((_, expected)) => (SegmentsFound::Gap, Some(expected)),
        }
    }
}

/// Judgement of a segment's header and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Sound(SegmentHeader),
    Corrupt(&'static str),
    Foreign(Id),
    OtherVersion(u32),
}

impl Health {
    pub(crate) fn found(self) -> HeadersFound {
        match self {
            Health::Sound(_) => HeadersFound::Sound,
            Health::Corrupt(_) => HeadersFound::Corrupt,
            Health::Foreign(_) => HeadersFound::Foreign,
            Health::OtherVersion(_) => HeadersFound::OtherVersion,
        }
    }

    /// Returns the precedence of this fault: of several segments' faults, opening reports the one
    /// with the greatest precedence.
    fn weight(self) -> u8 {
        match self {
            Health::Sound(_) => 0,
            Health::Corrupt(_) => 1,
            Health::Foreign(_) => 2,
            Health::OtherVersion(_) => 3,
        }
    }

    /// Returns whether this fault has a greater precedence than the other.
    pub(crate) fn is_worse_than(self, other: Health) -> bool {
        self.weight() > other.weight()
    }

    /// Returns the error that opening reports for the segment of this index; `None` if it is sound.
    pub(crate) fn refusal(self, directory: &dyn Directory, index: u64, log_id: Id) -> Option<OpenError> {
        let file = name(index);
        match self {
            Health::Sound(_) => None,
            Health::Corrupt(reason) => Some(OpenError::CorruptSegment { file, reason }),
            Health::Foreign(found) => Some(OpenError::ForeignSegment { file, expected: log_id, found }),
            Health::OtherVersion(found) => Some(OpenError::other_version(directory, &file, found)),
        }
    }
}

/// Reads and judges a segment's header. A failing read is an error of the device, never a
/// judgement.
pub(crate) fn examine(file: &dyn File, index: u64, geometry: Geometry, log_id: Id) -> device::Result<Health> {
    let mut block = Box::new([0; SEALED_BYTES]);
    let got = file.read_at(&mut block[..], 0)?;
    let length = file.len()?;
    Ok(match SegmentHeader::decode(&block) {
        _ if got < SEALED_BYTES => Health::Corrupt("it is too short for a header"),
        Err(SealFault::OtherVersion(version)) => Health::OtherVersion(version),
        Err(SealFault::Blank | SealFault::Broken) => Health::Corrupt("its header is damaged"),
        Ok(header) if header.log_id != log_id => Health::Foreign(header.log_id),
        Ok(header) if header.segment_bytes != geometry.segment_bytes(index) => {
            Health::Corrupt("its header names another size than a segment of its index has")
        }
        Ok(header) if header.index != index => Health::Corrupt("its header names another segment"),
        Ok(header) if header.base != geometry.base(index) || header.previous_end != header.base => {
            Health::Corrupt("its header names another base")
        }
        Ok(_) if length < geometry.segment_bytes(index) => Health::Corrupt("it is cut short"),
        Ok(header) => Health::Sound(header),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(names: &[&str]) -> Survey {
        Survey::of(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn files_are_sorted_by_their_names() {
        let segments: Vec<String> = [3, 4, 9].map(name).to_vec();
        let found =
            survey(&["lock", "log.control", "log.prepare", &segments[2], &segments[0], &segments[1], "x.db"]);
        assert!(found.control);
        assert_eq!(found.unfinished, ["log.prepare"]);
        assert_eq!(found.segments, [3, 4, 9]);
        assert_eq!(found.trimmed(4), [3]);
        assert_eq!(found.live(4), [4, 9]);
        assert_eq!(found.completeness(10, 10), (SegmentsFound::None, Some(10)));
        assert_eq!(found.completeness(5, 9), (SegmentsFound::StartMissing, Some(5)));
        assert_eq!(found.completeness(3, 5), (SegmentsFound::Gap, Some(5)));
        assert_eq!(found.completeness(9, 9), (SegmentsFound::Complete, None));
        assert_eq!(found.completeness(9, 10), (SegmentsFound::Complete, None));
        assert_eq!(found.completeness(9, 11), (SegmentsFound::Cut, Some(10)));
        assert!(!survey(&["log.control.new"]).control);
    }
}
