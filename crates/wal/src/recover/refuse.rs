//! The verdict about the files, with its evidence gathered and its error made.
//!
//! Pure, but for asking the directory how it is called. Used by opening and by inspecting, which
//! therefore refuse alike.

use super::decide::{ControlFound, FilesVerdict, HeadersFound, SegmentsFound, judge_files};
use super::survey::{Health, Survey};
use crate::control::REGION_NAME;
use crate::control::{CONTROL_NAME, ControlState};
use crate::error::OpenError;
use crate::seal::SealFault;
use crate::segment::header::name;
use katydid_device::Directory;
use katydid_device::Id;

/// The error for the directory's control file if it has no sound slot, or is of another version.
pub(crate) fn unusable_control(directory: &dyn Directory, fault: SealFault) -> OpenError {
    let (control, found) = match fault {
        SealFault::OtherVersion(version) => (ControlFound::OtherVersion, version),
        SealFault::Blank | SealFault::Broken => (ControlFound::Corrupt, 0),
    };
    // Whatever the segments are.
    match judge_files(control, SegmentsFound::Complete, HeadersFound::Sound) {
        FilesVerdict::OtherVersion => OpenError::other_version(directory, CONTROL_NAME, found),
        _ => OpenError::CorruptControl { file: CONTROL_NAME.to_owned(), reason: "neither slot is sound" },
    }
}

/// Refuses files that are no log, or no log of ours. `control` is what the control file says, if
/// there is one; `worst` the worst of the segments from the start on, as far as it is known.
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
        // Without a start, nothing tells which segments are missing.
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
