//! Logs that begin at a high position, without the bytes that would lie below it.
//!
//! One thread calls this code, while no thread has the log open. [`begin_at`] leaves an interrupted
//! creation: a control file of incarnation 0, which names another start than 0, and no segments.
//! The next opening finishes the creation from that start. The crate's own code for control files
//! writes such a log; no option makes one.

use crate::control::{CONTROL_NAME, Control, ControlState, read};
use crate::error::OpenError;
use crate::recover::unusable_control;
use crate::segment::header::index_of_name;
use katydid_device::Directory;
use katydid_kernels::lsn::Lsn;

/// Makes the log in `directory` begin at `start` when it is opened next. The log loses its records,
/// and keeps its id.
///
/// # Errors
/// [`OpenError::Device`], and the errors for a damaged control file.
///
/// # Panics
/// If `start` is no multiple of 8, or above [`Lsn::LIMIT`].
pub fn begin_at(directory: &dyn Directory, start: Lsn) -> Result<(), OpenError> {
    assert!(start.get().is_multiple_of(8) && start <= Lsn::LIMIT, "a log cannot begin at {start}");
    let before = read(directory.open_read_only(CONTROL_NAME)?.as_ref())?
        .map_err(|fault| unusable_control(directory, fault))?;
    for name in directory.list()? {
        if index_of_name(&name).is_some() {
            directory.remove(&name)?;
        }
    }
    let new = ControlState::new(before.log_id, before.log, before.segment_bytes);
    let ControlState { entries, first_segment_bytes, .. } = before;
    Control::create(directory, ControlState { start, durable: start, entries, first_segment_bytes, ..new })?;
    Ok(())
}
