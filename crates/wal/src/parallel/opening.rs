//! Making and opening the streams, side by side.
//!
//! In order:
//!
//! 1. The directory is locked, and one gate stands before all of it, so that a failure of one stream shuts all.
//! 2. A new log's number of streams is durable before the first of them is made; that all are made is durable before the log is
//!    handed out.
//! 3. Every stream is recovered, by itself, before anything of any of them is shown. What survives of them together then stays the same
//!    for ever (`head`).
//!
//! A crash at any point leaves streams of which some have one Restart record more, and the next opening finds the same records in all.

use super::control::{Making, StreamsState};
use super::folders::{self, stream_name};
use crate::error::OpenError;
use crate::log::Log;
use crate::options::{Background, Options, OptionsError};
use crate::recover::random_id;
use katydid_device::{Cause, Directory};
use std::sync::{Arc, Mutex, PoisonError};

/// Most streams of a log.
pub const STREAMS_MAX: u16 = 1024;

/// Refuses a number of streams that no log has.
pub(super) fn check_count(streams: u16) -> Result<(), OptionsError> {
    if (1..=STREAMS_MAX).contains(&streams) {
        return Ok(());
    }
    Err(OptionsError { option: "streams", value: streams.into(), range: "from 1 to 1024" })
}

/// How the log of one stream is opened, by its number, in its folder; called by several threads at once.
pub(super) type OpenStream<'a> =
    dyn Fn(usize, Arc<dyn Directory>, Options) -> Result<Log, OpenError> + Sync + 'a;

/// Opens all streams, or makes them where there is no log; with the log's id.
pub(super) fn open_streams(
    directory: &dyn Directory,
    streams: u16,
    options: &Options,
    open: &OpenStream<'_>,
) -> Result<(Vec<Log>, u128), OpenError> {
    let state = match StreamsState::open(directory)? {
        Some(state) if state.making == Making::Done => {
            if state.streams != streams {
                return Err(OpenError::OtherStreams { found: state.streams, asked: streams });
            }
            let folders = folders::existing(directory, &state)?;
            return Ok((open_all(&folders, &state, options, open)?, state.id));
        }
        Some(state) if state.streams == streams => state,
        Some(state) => begin(directory, StreamsState { streams, ..state })?,
        None => {
            folders::refuse_any(directory, streams)?;
            let id = options.log_id.unwrap_or_else(random_id);
            begin(directory, StreamsState { id, streams, making: Making::UnderWay })?
        }
    };
    let folders = folders::made(directory, &state)?;
    let logs = open_all(&folders, &state, options, open)?;
    StreamsState { making: Making::Done, ..state }.write(directory)?;
    Ok((logs, state.id))
}

fn begin(directory: &dyn Directory, state: StreamsState) -> Result<StreamsState, OpenError> {
    state.write(directory)?;
    Ok(state)
}

fn open_all(
    folders: &[Arc<dyn Directory>],
    state: &StreamsState,
    options: &Options,
    open: &OpenStream<'_>,
) -> Result<Vec<Log>, OpenError> {
    let open = |index: usize| {
        let options = Options { log_id: Some(state.stream_id(index)), ..options.clone() };
        open(index, folders[index].clone(), options)
    };
    let mut opened = in_parallel(folders.len(), options.background, open);
    opened.sort_by_key(|(index, _)| *index);
    let mut logs = Vec::with_capacity(folders.len());
    let mut failed: Option<OpenError> = None;
    for (index, outcome) in opened {
        match outcome {
            Ok(log) => logs.push(log),
            // That the gate was shut by another stream's failure is not the cause.
            Err(error) if failed.as_ref().is_none_or(is_refusal) => failed = Some(of_stream(index, error)),
            Err(_) => {}
        }
    }
    failed.map_or(Ok(logs), Err)
}

/// Whether it was only the gate that refused.
fn is_refusal(error: &OpenError) -> bool {
    matches!(error, OpenError::Device(error) if matches!(error.cause, Cause::Poisoned(_)))
}

/// Failures of the device judge no stream, and say themselves where they were.
pub(super) fn of_stream(index: usize, error: OpenError) -> OpenError {
    match error {
        OpenError::Device(error) => OpenError::Device(error),
        source => OpenError::Stream { directory: stream_name(index), source: Box::new(source) },
    }
}

/// Threads that apply records beside those that read them; who reads applies too.
pub(super) fn appliers(background: Background) -> usize {
    match background {
        Background::Caller => 0,
        Background::Threads => std::thread::available_parallelism().map_or(0, |count| count.get() - 1),
    }
}

/// Does `work` for `0..count` on as many threads as there are processors, or on this one in order; what each gave. After a failure
/// none is begun.
pub(super) fn in_parallel<T: Send, E: Send>(
    count: usize,
    background: Background,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Vec<(usize, Result<T, E>)> {
    let threads = match background {
        Background::Caller => 1,
        Background::Threads => std::thread::available_parallelism().map_or(1, usize::from).min(count),
    };
    // A leaf latch.
    let next = Mutex::new(0..count);
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || {
        let mut done = Vec::new();
        while let Some(index) = take() {
            let outcome = work(index);
            if outcome.is_err() {
                *next.lock().unwrap_or_else(PoisonError::into_inner) = count..count;
            }
            done.push((index, outcome));
        }
        done
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .filter_map(|_| {
                let name = "katydid-streams".to_owned();
                // What cannot be helped with is done here.
                std::thread::Builder::new().name(name).spawn_scoped(scope, some).ok()
            })
            .collect();
        let mut done = some();
        for helper in helpers {
            match helper.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}
