//! Chooses the medium of a stream that is opened, checked or inspected: files, or NVRAM.
//!
//! No other module makes this choice. Recovery of the chosen medium makes the stream's
//! [`Parts`](crate::core::Parts), which the modules above use without knowing the medium.

use crate::control::{CONTROL_NAME, ControlState};
use crate::error::OpenError;
use crate::medium_options::MediumOptions;
use crate::nvram;
use crate::options::Options;
use crate::recover::inspected::{self, Inspected};
use crate::recover::scan::RecordVisitor;
use crate::recover::survey::Survey;
use crate::recover::{self, Opened, control_state, refuse};
use katydid_device::{self as device, Directory};
use std::sync::Arc;

/// Opens the log in `directory`, or makes one if there is none. `visitor` sees the records that
/// recovery finds.
///
/// # Errors
/// See [`OpenError`]. If the error is about the log's content, nothing was changed.
pub(crate) fn open(
    directory: &Arc<dyn Directory>,
    options: &Options,
    visitor: &mut dyn RecordVisitor,
) -> Result<Opened, OpenError> {
    let (survey, control) = recover::look(directory, options)?;
    match &options.medium {
        MediumOptions::Files(files) => recover::open(directory, options, files, &survey, control, visitor),
        MediumOptions::NvDirect { memory, .. }
        | MediumOptions::NvRing { memory, .. }
        | MediumOptions::NvEntries { memory, .. }
        | MediumOptions::NvLogging { memory, .. } => {
            nvram::recover::open(directory, options, memory.want, &survey, control, visitor)
        }
    }
}

/// Refuses a log that lacks files which its control file names. Reads only the control file, and
/// changes nothing.
pub(crate) fn check_complete(directory: &dyn Directory) -> Result<(), OpenError> {
    let survey = Survey::of(&directory.list()?);
    if !survey.control {
        return refuse(directory, None, &survey, None);
    }
    let state = control_state(directory)?;
    match state.log.in_nvram() {
        true => nvram::recover::check_complete(&survey, &state),
        false => recover::check_complete(directory, &survey, &state),
    }
}

/// Inspects the log in `directory` and changes nothing.
///
/// # Errors
/// If the device fails, if there is no sound control file of a known version, or if the region of a
/// log in NVRAM is missing, damaged, of another log or of another version.
pub(crate) fn inspect(directory: &dyn Directory) -> Result<(ControlState, Inspected), OpenError> {
    let survey = Survey::of(&directory.list()?);
    if !survey.control {
        refuse(directory, None, &survey, None)?;
        let missing = device::Error::new(device::Verb::Open, CONTROL_NAME, device::Cause::NotFound);
        return Err(missing.into());
    }
    let state = control_state(directory)?;
    match state.log.in_nvram() {
        true => nvram::recover::inspect(directory, &survey, &state),
        false => Ok((state, inspected::inspect(directory, &survey, &state)?)),
    }
}
