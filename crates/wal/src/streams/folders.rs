//! The streams' folders: finding those of a complete log, and making those of a log that is being
//! made. A log of one stream lies in the log's own folder.
//!
//! One thread runs this code, when a log is opened. This code changes no existing file.

use super::control::{CreationState, STREAMS_NAME, StreamsState};
use super::opening::of_stream;
use crate::control::{CONTROL_NAME, read as read_control};
use crate::error::OpenError;
use crate::medium::check_complete;
use crate::recover::survey::Survey;
use katydid_device::{self as device, Directory};
use std::sync::Arc;

/// Returns the name of the folder of a stream.
pub(crate) fn stream_name(index: usize) -> String {
    format!("stream-{index:03}")
}

/// Returns the folders of a complete log, each of which holds the stream that belongs there.
pub(crate) fn existing(
    directory: &dyn Directory,
    state: &StreamsState,
) -> Result<Vec<Arc<dyn Directory>>, OpenError> {
    let mut folders = Vec::with_capacity(state.streams.into());
    for index in 0..state.streams.into() {
        let Some(folder) = with_log(directory, index)? else {
            return Err(OpenError::MissingStream { directory: stream_name(index) });
        };
        check_owner(folder.as_ref(), state, index)?;
        // Opening a stream changes it, so a missing file of any stream must be noticed before the
        // first stream is opened.
        check_complete(folder.as_ref()).map_err(|error| of_stream(index, error))?;
        folders.push(folder);
    }
    Ok(folders)
}

/// Returns the folders of a log that is being made.
pub(crate) fn made(
    directory: &dyn Directory,
    state: &StreamsState,
) -> Result<Vec<Arc<dyn Directory>>, OpenError> {
    debug_assert_eq!(state.making, CreationState::UnderWay);
    let mut folders = Vec::with_capacity(state.streams.into());
    for index in 0..state.streams.into() {
        let folder = directory.subdirectory(&stream_name(index))?;
        check_owner(folder.as_ref(), state, index)?;
        folders.push(folder);
    }
    Ok(folders)
}

/// Refuses a directory that has folders of streams, but no file that counts them.
pub(crate) fn refuse_any(directory: &dyn Directory, streams: u16) -> Result<(), OpenError> {
    for index in 0..streams.into() {
        if with_log(directory, index)?.is_some() {
            return Err(OpenError::MissingControl {
                file: STREAMS_NAME.to_owned(),
                segment: stream_name(index),
            });
        }
    }
    Ok(())
}

/// Returns whether the directory itself holds files of a stream, as the folder of a log of one
/// stream does.
pub(crate) fn has_only_stream(directory: &dyn Directory) -> device::Result<bool> {
    let survey = Survey::of(&directory.list()?);
    Ok(survey.control || !survey.is_empty())
}

/// Returns a stream's folder, if any file of a log is in it.
fn with_log(directory: &dyn Directory, index: usize) -> device::Result<Option<Arc<dyn Directory>>> {
    let Some(folder) = directory.existing_subdirectory(&stream_name(index))? else { return Ok(None) };
    Ok(has_only_stream(folder.as_ref())?.then_some(folder))
}

/// Refuses a folder whose log is not this stream. A log whose control file cannot be read is judged
/// when it is opened.
fn check_owner(folder: &dyn Directory, state: &StreamsState, index: usize) -> Result<(), OpenError> {
    if !Survey::of(&folder.list()?).control {
        return Ok(());
    }
    let control = read_control(folder.open_read_only(CONTROL_NAME)?.as_ref())?;
    match control {
        Ok(control) if control.log_id != state.stream_id(index) => Err(OpenError::ForeignStream {
            directory: stream_name(index),
            expected: state.stream_id(index),
            found: control.log_id,
        }),
        _ => Ok(()),
    }
}
