//! Chooses the medium of a stream that is opened: files, or NVRAM.
//!
//! The only place that does. Recovery of the chosen medium makes the stream's [`Parts`](crate::core::Parts); nothing above asks what they are.

use crate::error::OpenError;
use crate::medium_options::MediumOptions;
use crate::nvram;
use crate::options::Options;
use crate::recover::scan::RecordVisitor;
use crate::recover::{self, Opened};
use katydid_device::Directory;
use std::sync::Arc;

/// Opens the log in `directory`, or makes one where there is none. `visitor` sees the records that are found.
///
/// # Errors
/// See [`OpenError`]; nothing was changed by those that judge the log's content.
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
        | MediumOptions::NvLogging { memory, .. } => {
            nvram::recover::open(directory, options, memory.want, &survey, control, visitor)
        }
    }
}
