//! The verdict about the files: gathering its evidence, and making its error.
//!
//! Pure functions, except that they ask the directory for its name. Opening and inspecting both use
//! them, so they refuse alike.

use super::decide::{ControlFound, FilesVerdict, HeadersFound, SegmentsFound, judge_files};
use super::survey::{Health, Survey};
use crate::control::REGION_NAME;
use crate::control::{CONTROL_NAME, ControlState};
use crate::error::OpenError;
use crate::seal::SealFault;
use crate::segment::header::name;
use katydid_device::Directory;
use katydid_device::Id;

/// Returns the error for a directory's control file that has no sound slot, or is of another
/// version.
pub(crate) fn unusable_control(directory: &dyn Directory, fault: SealFault) -> OpenError {
    let (control, found) = match fault {
        SealFault::OtherVersion(version) => (ControlFound::OtherVersion, version),
        SealFault::Blank | SealFault::Broken => (ControlFound::Corrupt, 0),
    };
    // The segments make no difference here.
    match judge_files(control, SegmentsFound::Complete, HeadersFound::Sound) {
        FilesVerdict::OtherVersion => OpenError::other_version(directory, CONTROL_NAME, found),
        _ => OpenError::CorruptControl { file: CONTROL_NAME.to_owned(), reason: "neither slot is sound" },
    }
}

/// Refuses files that are no log, or not this log. `control` is the content of the control file, if
/// there is one. `worst` is the worst segment from the start on, if it is known.
pub(crate) fn refuse(
    directory: &dyn Directory,
    control: Option<&ControlState>,
    survey: &Survey,
    worst: Option<(u64, Health)>,
) -> Result<(), OpenError> {
    let found = match control {
        None => ControlFound::Absent,
        Some(state) if state.incarnation == 0 => ControlFound::Unused,
        Some(_) => ControlFound::Used,
    };
    let (segments, missing) = match control {
        Some(state) => {
            let geometry = state.geometry();
            let (found, missing) =
                survey.completeness(geometry.index(state.start), geometry.index(state.prepared_end));
            (found, missing.map(|index| (name(index), geometry.base(index).max(state.start))))
        }
        // Without a start it is unknown which segments are missing.
        None if survey.is_empty() => (SegmentsFound::None, None),
        None => (SegmentsFound::Complete, None),
    };
    let headers = worst.map_or(HeadersFound::Sound, |(_, health)| health.found());
    let file = CONTROL_NAME.to_owned();
    match judge_files(found, segments, headers) {
        FilesVerdict::Create | FilesVerdict::FinishCreation | FilesVerdict::Read => Ok(()),
        FilesVerdict::MissingControl => {
            let segment =
                survey.segments.first().map_or_else(|| REGION_NAME.to_owned(), |&index| name(index));
            Err(OpenError::MissingControl { file, segment })
        }
        FilesVerdict::CorruptControl => {
            Err(OpenError::CorruptControl { file, reason: "neither slot is sound" })
        }
        FilesVerdict::MissingSegment => {
            let (file, from) = missing.unwrap_or_default();
            Err(OpenError::MissingSegment { file, from })
        }
        FilesVerdict::CorruptSegment | FilesVerdict::ForeignSegment | FilesVerdict::OtherVersion => {
            let log_id = control.map_or(Id::new(0), |state| state.log_id);
            worst.and_then(|(index, health)| health.refusal(directory, index, log_id)).map_or(Ok(()), Err)
        }
    }
}
