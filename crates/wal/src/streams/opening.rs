//! Opening or making a log: which streams there are, and opening them in parallel.
//!
//! If a log has one stream, the stream lies in the log's own folder. A log of several streams has a
//! file that counts the streams, and a folder for each. Older versions made logs of one stream with
//! such a file and a folder for the stream; these logs are opened too.
//!
//! In order:
//!
//! 1. The directory is locked, behind one gate for all streams, so that a failure of one stream
//!    shuts all.
//! 2. If a new log has several streams, their number is durable before the first of them is made.
//!    Before the log is returned, the file durably says that all streams are made.
//! 3. Every stream is recovered separately. No record of any stream counts before all streams are
//!    recovered. From then on the set of the surviving records of all streams never changes
//!    (`head`).
//!
//! A crash at any point may leave one more Restart record in some streams. Apart from these, the
//! next opening finds the same records.

use super::control::{CreationState, StreamsState};
use super::folders::{self, stream_name};
use crate::closing::Closing;
use crate::consumers::Consumers;
use crate::core::{Core, Start};
use crate::error::OpenError;
use crate::open_log::{Guards, OpenLog, OpenStream};
use crate::options::{Background, Options};
use crate::recover::scan::{NoVisitor, RecordVisitor};
use crate::retention::Retention;
use katydid_device::{self as device, Cause, Directory, DirectoryLock, Gate, Id, Verb};
use katydid_kernels::dependencies::StreamId;
use katydid_kernels::sync_shim::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

/// Opens one stream, by its number, in its folder; called by several threads at once.
pub(crate) type OpenOne<'a> =
    dyn Fn(StreamId, &Arc<dyn Directory>, &Options, &Gate) -> Result<OpenStream, OpenError> + Sync + 'a;

/// An open stream, and the lock of its folder, if the folder has its own lock. The stream is
/// dropped first, so it has ended when the lock is released.
type Opened = (OpenStream, Option<Box<dyn DirectoryLock>>);

/// The locks of a log's directory and of its streams' folders.
#[derive(Debug)]
struct Locks {
    _all: Vec<Box<dyn DirectoryLock>>,
}

impl DirectoryLock for Locks {}

/// Opens the log in `directory`, whose calls pass the guards, or makes one if there is none.
pub(crate) fn open_log(
    directory: &Arc<dyn Directory>,
    options: &Options,
    guards: Guards,
    one: &OpenOne<'_>,
) -> Result<OpenLog, OpenError> {
    options.validate()?;
    let mut locks = vec![directory.lock()?];
    let (opened, id) = open_streams(directory, options, &guards.gate, one)?;
    let (streams, own): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    locks.extend(own.into_iter().flatten());
    let starts = streams.iter().map(|stream| stream.core.medium.start()).collect();
    let retention = Retention::new(starts);
    let id = id.unwrap_or(streams[0].report.log_id);
    let consumers = Consumers::open(directory, id, streams.len(), &retention)?;
    let incarnations = streams.iter().map(|stream| stream.incarnations.clone()).collect();
    Ok(OpenLog {
        id,
        streams: streams.into_boxed_slice(),
        incarnations,
        directory: directory.describe(),
        background: options.background,
        guards,
        retention,
        consumers,
        closing: Closing::new(Box::new(Locks { _all: locks })),
        turn: AtomicUsize::new(0),
    })
}

/// Opens a stream without a visitor for its records.
pub(crate) fn open_one(
    stream: StreamId,
    folder: &Arc<dyn Directory>,
    options: &Options,
    gate: &Gate,
) -> Result<OpenStream, OpenError> {
    open_recovering(stream, folder, options, gate, &mut NoVisitor)
}

/// Opens a stream; `visitor` sees the records that recovery finds.
pub(crate) fn open_recovering(
    stream: StreamId,
    folder: &Arc<dyn Directory>,
    options: &Options,
    gate: &Gate,
    visitor: &mut dyn RecordVisitor,
) -> Result<OpenStream, OpenError> {
    let opened = crate::medium::open(folder, options, visitor)?;
    let (incarnation, end, truncated) = (opened.incarnation, opened.end, opened.truncated);
    let start = Start { stream, parts: opened.parts, incarnation, end, truncated };
    let method = start.parts.medium.method(start.end).unwrap_or(options.method);
    let core = Core::new(options, start);
    let spawned = core.start_threads();
    // From here on dropping the stream ends the threads that were started.
    let open = OpenStream::new(core, opened.report, opened.incarnations, method, gate.clone());
    spawned.map_err(|error| device::Error::from_io(Verb::Open, "the log's background threads", error))?;
    open.core.nudge_maintenance();
    Ok(open)
}

/// Opens all streams, or makes them if there is no log. Returns the streams, and the log's id.
/// Returns no id if the log's id is that of its only stream.
fn open_streams(
    directory: &Arc<dyn Directory>,
    options: &Options,
    gate: &Gate,
    one: &OpenOne<'_>,
) -> Result<(Vec<Opened>, Option<Id>), OpenError> {
    let asked = options.streams;
    let other = |found| OpenError::OtherStreams { found, asked };
    let state = match StreamsState::open(directory.as_ref())? {
        Some(state) if state.making == CreationState::Done => {
            if state.streams != asked {
                return Err(other(state.streams));
            }
            let folders = folders::existing(directory.as_ref(), &state)?;
            return Ok((open_all(&folders, &state, options, gate, one)?, Some(state.id)));
        }
        Some(state) if state.streams == asked => state,
        Some(state) => begin(directory.as_ref(), StreamsState { streams: asked, ..state })?,
        None if folders::has_only_stream(directory.as_ref())? => {
            if asked != 1 {
                return Err(other(1));
            }
            return open_only(directory, options, gate, one);
        }
        None => {
            folders::refuse_any(directory.as_ref(), asked)?;
            if asked == 1 {
                return open_only(directory, options, gate, one);
            }
            let id = options.log_id.unwrap_or_else(Id::random);
            begin(directory.as_ref(), StreamsState { id, streams: asked, making: CreationState::UnderWay })?
        }
    };
    let folders = folders::made(directory.as_ref(), &state)?;
    let opened = open_all(&folders, &state, options, gate, one)?;
    StreamsState { making: CreationState::Done, ..state }.write(directory.as_ref())?;
    Ok((opened, Some(state.id)))
}

/// Opens, or makes, the stream that lies in the log's own folder.
fn open_only(
    directory: &Arc<dyn Directory>,
    options: &Options,
    gate: &Gate,
    one: &OpenOne<'_>,
) -> Result<(Vec<Opened>, Option<Id>), OpenError> {
    Ok((vec![(one(StreamId::FIRST, directory, options, gate)?, None)], None))
}

fn begin(directory: &dyn Directory, state: StreamsState) -> Result<StreamsState, OpenError> {
    state.write(directory)?;
    Ok(state)
}

fn open_all(
    folders: &[Arc<dyn Directory>],
    state: &StreamsState,
    options: &Options,
    gate: &Gate,
    one: &OpenOne<'_>,
) -> Result<Vec<Opened>, OpenError> {
    let open = |index: usize| -> Result<Opened, OpenError> {
        let options = Options { log_id: Some(state.stream_id(index)), ..options.clone() };
        let lock = folders[index].lock()?;
        Ok((one(StreamId::new(index as u16), &folders[index], &options, gate)?, Some(lock)))
    };
    let mut outcomes = in_parallel(folders.len(), options.background, open);
    outcomes.sort_by_key(|(index, _)| *index);
    let mut opened = Vec::with_capacity(folders.len());
    let mut failed: Option<OpenError> = None;
    for (index, outcome) in outcomes {
        match outcome {
            Ok(stream) => opened.push(stream),
            // A refusal by the gate, which another stream's failure has shut, is not the cause.
            Err(error) if failed.as_ref().is_none_or(is_refusal) => failed = Some(of_stream(index, error)),
            Err(_) => {}
        }
    }
    failed.map_or(Ok(opened), Err)
}

/// Returns whether the error says only that the gate refused a call.
fn is_refusal(error: &OpenError) -> bool {
    matches!(error, OpenError::Device(error) if matches!(error.cause, Cause::Poisoned(_)))
}

/// Adds the stream's folder to an error. A failure of the device stays as it is, because it says
/// nothing about the stream, and names the file or directory itself.
pub(crate) fn of_stream(index: usize, error: OpenError) -> OpenError {
    match error {
        OpenError::Device(error) => OpenError::Device(error),
        source => OpenError::Stream { directory: stream_name(index), source: Box::new(source) },
    }
}

/// Returns the number of threads that only apply records; the threads that read records also apply
/// some.
pub(crate) fn appliers(background: Background) -> usize {
    match background {
        Background::Caller => 0,
        Background::Threads => std::thread::available_parallelism().map_or(0, |count| count.get() - 1),
    }
}

/// Runs `work` for `0..count` on as many threads as there are processors, or in order on this
/// thread, and returns all outcomes. After a failure no further `work` is begun.
pub(crate) fn in_parallel<T: Send, E: Send>(
    count: usize,
    background: Background,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Vec<(usize, Result<T, E>)> {
    let threads = match background {
        Background::Caller => 1,
        Background::Threads => std::thread::available_parallelism().map_or(1, usize::from).min(count),
    };
    // This is a leaf latch.
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
                // If a thread cannot be started, the others do its work.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium_options::FileOptions;
    use crate::{Append, CommitStamp, Kind, Log, inspect};
    use katydid_device::MemoryDirectory;
    use std::sync::Mutex;

    fn options(streams: u16) -> Options {
        Options {
            medium: FileOptions { segment_bytes: 16 << 10, ..FileOptions::default() }.into(),
            streams,
            reserve_bytes: 0,
            background: Background::Caller,
            ..Options::default()
        }
    }

    fn replayed(log: &Log) -> Vec<Vec<u8>> {
        let from: Vec<_> = log.streams().iter().map(crate::Stream::start).collect();
        let found = Mutex::new(Vec::new());
        let visit = |record: crate::Replayed<'_>| -> Result<(), ()> {
            found.lock().unwrap().push(record.payload.to_vec());
            Ok(())
        };
        log.replay(&from, &visit, &|_| {}).unwrap();
        found.into_inner().unwrap()
    }

    /// A log of one stream may have the file that counts streams: the memory engine made such logs
    /// before single streams were put into the log's own folder.
    #[test]
    fn a_file_that_counts_one_stream_is_believed() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        begin(
            directory.as_ref(),
            StreamsState { id: Id::new(7), streams: 1, making: CreationState::UnderWay },
        )
        .unwrap();
        for life in 0..3 {
            let log = Log::open_in(directory.clone(), options(1)).unwrap();
            assert_eq!((log.id(), log.streams().len(), replayed(&log).len()), (Id::new(7), 1, life));
            let record = Append::new(Kind::USER, &[b"record"]).stamp(CommitStamp::new(life as u64 + 1));
            log.session().unwrap().append(&record).unwrap();
            log.close().unwrap();
            assert!(!folders::has_only_stream(directory.as_ref()).unwrap());
        }
        assert!(folders::has_only_stream(first_folder(&directory).as_ref()).unwrap());
    }

    fn first_folder(directory: &Arc<dyn Directory>) -> Arc<dyn Directory> {
        directory.existing_subdirectory(&stream_name(0)).unwrap().unwrap()
    }

    #[test]
    fn one_stream_lies_in_the_folder_of_the_log_and_stays_the_only_one() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let log = Log::open_in(directory.clone(), options(1)).unwrap();
        let record = Append::new(Kind::USER, &[b"record"]).stamp(CommitStamp::new(1));
        log.session().unwrap().append(&record).unwrap();
        log.close().unwrap();
        let names = directory.list().unwrap();
        for asked in [2, 3] {
            match Log::open_in(directory.clone(), options(asked)) {
                Err(OpenError::OtherStreams { found: 1, asked: refused }) => assert_eq!(refused, asked),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(directory.list().unwrap(), names, "a refused opening makes nothing");
        assert!(directory.existing_subdirectory(&stream_name(0)).unwrap().is_none());
        let found = inspect(directory.as_ref()).unwrap();
        assert_eq!((found.is_complete, found.streams.len(), found.id), (true, 1, log.id()));
        assert_eq!(found.records(None).unwrap().count(), 1);
        assert_eq!(
            replayed(&Log::open_in(directory, options(1)).unwrap()),
            [b"record".to_vec()],
            "and it is opened as what it is"
        );
    }

    #[test]
    fn a_log_of_several_is_not_opened_as_one_stream() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        Log::open_in(directory.clone(), options(2)).unwrap().close().unwrap();
        let refused = Log::open_in(directory.clone(), options(1)).unwrap_err();
        assert!(matches!(refused, OpenError::OtherStreams { found: 2, asked: 1 }), "{refused}");
        directory.remove("streams.control").unwrap();
        let refused = Log::open_in(directory.clone(), options(1)).unwrap_err();
        assert!(matches!(refused, OpenError::MissingControl { .. }), "{refused}");
        assert!(!folders::has_only_stream(directory.as_ref()).unwrap(), "no log was made beside the streams");
    }
}
