//! Opening a database of the memory engine. The caller knows that the directory has such a
//! database, or wants a new one in it.
//!
//! Creation makes the control file last, after all other files are durable. If a crash comes before
//! the control file is durable, the other files may exist and the control file does not. The next
//! opening then begins creation again, and continues with the log and the database id that it
//! finds.

use super::checkpoint::{self, CheckpointFolder};
use super::database::MemoryDatabase;
use super::engine::{Engine, Parts, View};
use super::recovery::{Recovered, Recovery};
use super::store::{SLOTS_MAX, Settings, Source};
use super::{copy, dump, verify};
use crate::control::{Control, ControlFile, Shutdown};
use crate::copy::{Extension, Pace, Target, Unopened};
use crate::directory::{DatabaseDir, LOG_FILES, LOG_FOLDER};
use crate::engine::EngineFiles;
use crate::engine_options::MemoryOptions;
use crate::error::{CopyFault, Error, Foreign, Result};
use crate::limits::STREAMS_MAX;
use crate::log_entry::LogEntry;
use crate::options::Options;
use crate::report::{VerifyProgress, VerifyReport};
use katydid_device::{self as device, Directory, Id, Method, Verb};
use katydid_wal::{OpenError, Options as LogOptions};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Minimum bytes of a stream's ring and of its segments, unless the options set less for the whole
/// log.
const RING_BYTES_MIN: u64 = 1 << 20;
const SEGMENT_BYTES_MIN: u64 = 4 << 20;
const FIRST_SEGMENT_BYTES_MIN: u64 = 16 << 10;

/// Opens the database, and creates it if there is no control file.
fn open(
    place: DatabaseDir,
    options: Options,
    own: MemoryOptions,
    control: Option<ControlFile>,
) -> Result<MemoryDatabase> {
    let DatabaseDir { directory, name, gate, watch, opening } = place;
    let streams = match &control {
        Some(control) => control.get().streams,
        None => streams_of(own),
    };
    let folder = match &control {
        // A database with a control file must have a log. This opening looks for the log before it
        // makes a file in the folder: a log that this opening made would be empty, and the next
        // opening would take it for the database's log.
        Some(_) => match directory.existing_subdirectory(LOG_FOLDER)? {
            Some(folder) if folder.list()?.iter().any(|name| LOG_FILES.contains(&name.as_str())) => folder,
            Some(_) => return Err(missing(LOG_FILES[usize::from(streams > 1)])),
            None => return Err(missing(LOG_FOLDER)),
        },
        None => directory.subdirectory(LOG_FOLDER)?,
    };
    let method = options.advanced.log.method;
    let settings = Settings {
        contention: options.advanced.contention,
        old_versions: options.advanced.old_versions,
        ..Settings::new(own.memory_bytes, SLOTS_MAX, Source::monotonic())
    };
    let mut recovery =
        Recovery::new(settings, options.advanced.log.background, options.advanced.on_recovery.clone());
    let checkpoints = match &control {
        Some(control) => {
            let known = control.get();
            let Some(folder) = CheckpointFolder::existing(directory.as_ref(), method, known.database)? else {
                return Err(missing(checkpoint::FOLDER));
            };
            recovery.checkpoint(&folder, known.checkpoint_number, streams)?;
            Some(folder)
        }
        None => None,
    };
    let open_log = |streams: u16| {
        let log_id = match &control {
            Some(control) => control.get().database,
            None => options.advanced.log.log_id.unwrap_or_else(Id::random),
        };
        let share = share_of(&options.log_options(), streams);
        let log_options = LogOptions { log_id: Some(log_id), streams, ..share };
        recovery.open_log(folder.clone(), log_options, gate.clone(), watch.clone())
    };
    let (log, replayed) = match open_log(streams) {
        // An interrupted creation with another number of streams has made the log. This opening
        // continues with that log.
        Err(OpenError::OtherStreams { found, .. }) if control.is_none() => open_log(found)?,
        log => log?,
    };
    let streams = log.streams().len() as u16;
    // If a creation was interrupted, its log already has the database's id.
    let id = log.id();
    if let Some(control) = &control
        && id != control.get().database
    {
        return Err(Error::Foreign { place: name, what: Foreign::Identity(LOG_FOLDER.to_owned()) });
    }
    let report = replayed?;
    let (control, folder) = match (control, checkpoints) {
        (Some(control), Some(folder)) => (control, folder),
        _ => {
            let folder = CheckpointFolder::create(directory.as_ref(), method, id)?;
            directory.sync()?;
            (ControlFile::create(directory.as_ref(), method, Control::memory(id, streams))?, folder)
        }
    };
    let known = control.get();
    let view = View { log: log.clone(), gate: gate.clone(), background: options.advanced.log.background };
    let Recovered { store, tables, next_table, checkpointed } = recovery.finish(&report, Arc::new(view))?;
    // Removes the files of an unfinished checkpoint.
    folder.remove_all_but(&[known.checkpoint_number])?;
    if known.shutdown == Shutdown::Clean || known.next_table < next_table {
        control.update(|control| {
            control.shutdown = Shutdown::Unclean;
            control.next_table = control.next_table.max(next_table);
        })?;
    }
    let engine = Engine::new(Parts {
        options,
        own,
        place: name,
        gate,
        watch,
        opening,
        log,
        store,
        control,
        folder,
        trimmed_stamp: checkpointed,
    });
    if report.records + report.dropped > 0 {
        engine.uncovered.has_replayed();
    }
    engine
        .start_checkpoints()
        .map_err(|error| device::Error::from_io(Verb::Open, "the checkpoint thread", error))?;
    Ok(MemoryDatabase::new(engine, &tables))
}

/// Number of streams of a new database.
fn streams_of(own: MemoryOptions) -> u16 {
    match own.streams {
        0 => std::thread::available_parallelism().map_or(1, usize::from).clamp(1, STREAMS_MAX.into()) as u16,
        streams => streams,
    }
}

/// Divides the memory and the segment sizes of a log among its streams, because each stream serves
/// only some of the processors.
pub(super) fn share_of(log: &LogOptions, streams: u16) -> LogOptions {
    let streams = u64::from(streams);
    let ring = |bytes: u64| (bytes / streams).max(RING_BYTES_MIN.min(bytes));
    let mut log = log.clone();
    if let Some(files) = log.medium.files_mut() {
        files.ring_bytes = ring(files.ring_bytes as u64).next_power_of_two() as usize;
        log.run_ahead_bytes = log.run_ahead_bytes.min(files.ring_bytes / 2);
        let segment_bytes = (files.segment_bytes / streams).max(SEGMENT_BYTES_MIN.min(files.segment_bytes));
        files.segment_bytes = segment_bytes - segment_bytes % 4096;
        let first = files.first_segment_bytes;
        let first = (first / streams).max(FIRST_SEGMENT_BYTES_MIN.min(first));
        files.first_segment_bytes = first - first % 4096;
        log.reserve_bytes /= streams;
    }
    if let Some(memory) = log.medium.memory_mut() {
        // The size is rounded down to a power of two, because rounding up would take more memory
        // than the log has.
        memory.bytes = 1 << ring(memory.bytes).ilog2();
    }
    log
}

fn missing(name: &str) -> Error {
    Error::Corrupt {
        place: name.to_owned(),
        page: None,
        finding: "it is missing; the database cannot be read without it".to_owned(),
    }
}

impl EngineFiles for MemoryDatabase {
    type Options = MemoryOptions;

    fn open(
        directory: DatabaseDir,
        options: Options,
        own: MemoryOptions,
        control: Option<ControlFile>,
    ) -> Result<Self> {
        open(directory, options, own, control)
    }

    fn verify_files(
        directory: &dyn Directory,
        control: &Control,
        progress: Option<VerifyProgress>,
    ) -> Result<VerifyReport> {
        verify::verify_in(directory, control, progress)
    }

    fn copy_unopened(
        sources: &[Unopened],
        control: &Control,
        target: &Target,
        pace: &mut Pace<'_>,
        extension: Option<&Extension>,
    ) -> Result<Control> {
        match sources {
            [source] => copy::copy_files(source, control, target, pace, extension),
            _ => Err(Error::copy(target.directory.as_ref(), CopyFault::NoIncrements)),
        }
    }

    /// Changes nothing: a checkpoint has only rows, so there is no free space to remove.
    fn compact(
        directory: &Arc<dyn Directory>,
        control: &Control,
        method: Method,
        _progress: Option<&VerifyProgress>,
    ) -> Result<(u64, u64)> {
        let folder = CheckpointFolder::existing(directory.as_ref(), method, control.database)?;
        let bytes = match (folder, control.checkpoint_number) {
            (Some(folder), number) if number > 0 => {
                folder.read(number)?.manifest().parts.iter().map(|part| part.bytes).sum()
            }
            _ => 0,
        };
        Ok((bytes, bytes))
    }

    fn dump_log(
        directory: &dyn Directory,
        visit: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>,
    ) -> Result<String> {
        dump::dump_log_in(directory, visit)
    }
}
