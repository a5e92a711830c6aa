//! Promises of a log of several streams.
//!
//! | file | what |
//! |---|---|
//! | `basics` | appending, waiting, acknowledging, replaying |
//! | `opening` | which streams there are, and what is missing, foreign or half made |
//! | `crashes` | devices that crash anywhere, also while the log is opened |
//! | `faults` | devices that fail |
//! | `while_opening` | replaying while the log is opened |

mod basics;
mod crashes;
mod faults;
mod opening;
mod while_opening;

use katydid_device::{Directory, Gate, Id, SimDevice, Watch};
use katydid_wal::{
    Append, AppendError, Batch, CommitStamp, Dependencies, FileOptions, InserterKind, InserterSettings, Kind,
    Log, Lsn, OpenError, Options, ReadError, Replay, ReplayError, ReplayReport, Replayed, Session, Stream,
    StreamLsn, SyncKind,
};
use std::sync::{Arc, Mutex};

/// Opens a log of `streams` streams.
pub fn open_in(directory: Arc<dyn Directory>, streams: u16, options: Options) -> Result<Log, OpenError> {
    Log::open_in(directory, Options { streams, ..options })
}

/// Opens a log of `streams` streams, and replays the records that it finds.
pub fn open_replaying<E: Send>(
    directory: Arc<dyn Directory>,
    streams: u16,
    options: Options,
    replay: Replay<'_, E>,
) -> Result<(Log, Result<ReplayReport, ReplayError<E>>), OpenError> {
    let watch = Watch::new(options.stall_after);
    let (directory, gate) = Gate::wrap(directory);
    Log::open_replaying(directory, Options { streams, ..options }, gate, watch, replay)
}

/// Gives a session a method that appends a transaction of one record.
pub trait Commit {
    /// Appends the record of a transaction, and returns its position.
    fn commit(
        &mut self,
        stamp: u64,
        depends: &Dependencies,
        payload: &[&[u8]],
    ) -> Result<StreamLsn, AppendError>;
}

impl Commit for Session {
    fn commit(
        &mut self,
        stamp: u64,
        depends: &Dependencies,
        payload: &[&[u8]],
    ) -> Result<StreamLsn, AppendError> {
        let record = Append::new(Kind::USER, payload).commit(CommitStamp::new(stamp), depends);
        Ok(self.append(&record)?.position())
    }
}

/// Returns options with small files, and with an id that is the same in every run.
pub fn options(inserter: InserterKind, sync: SyncKind) -> Options {
    let settings = InserterSettings { chunk_bytes: 512, chunk_always: true, ..InserterSettings::default() };
    Options {
        medium: FileOptions {
            segment_bytes: 32 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            inserter: settings.design(inserter),
            sync: sync.into(),
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 0,
        log_id: Some(Id::new(0x5eed)),
        ..Options::default()
    }
}

/// Returns dependencies on these positions.
pub fn depends(places: &[StreamLsn]) -> Dependencies {
    places.iter().copied().collect()
}

/// Timestamps and payloads, by timestamp.
type Found = Vec<(u64, Vec<u8>)>;

/// Returns all records replayed from the start, and the greatest timestamp of any record.
pub fn replayed(log: &Log) -> (Found, u64) {
    let starts: Vec<_> = log.streams().iter().map(Stream::start).collect();
    replayed_from(log, &starts, |_| false).expect("a device that works")
}

/// Returns all records replayed from these positions, and the greatest timestamp of any record;
/// `None` if the device failed in an expected way.
pub fn replayed_from(
    log: &Log,
    from: &[Lsn],
    expected: impl Fn(&katydid_device::Error) -> bool,
) -> Option<(Found, u64)> {
    let found = Mutex::new(Vec::new());
    let visit = |record: Replayed<'_>| -> Result<(), ()> {
        found.lock().expect("no panic").push((record.stamp.get(), record.payload.to_vec()));
        Ok(())
    };
    let report = match log.replay(from, &visit, &|_| {}) {
        Ok(report) => report,
        Err(ReplayError::Read { source: ReadError::Device(error), .. }) if expected(&error) => return None,
        Err(error) => panic!("replay: {error:?}"),
    };
    let mut found = found.into_inner().expect("no panic");
    assert_eq!(found.len() as u64, report.records);
    found.sort();
    Some((found, report.stamp_max.get()))
}

/// Result of a replay.
pub type Outcome = Result<(Found, u64), ReplayError<()>>;

/// Returns all records replayed while the log is opened, from these positions or each stream's
/// start, and the greatest timestamp of any record.
pub fn opened_replaying(
    device: &SimDevice,
    streams: u16,
    options: &Options,
    from: Option<&[Lsn]>,
) -> Result<(Log, Outcome), OpenError> {
    let found = Mutex::new(Vec::new());
    let visit = |batch: &Batch| {
        let records = batch.iter().map(|record| (record.stamp.get(), record.payload.to_vec()));
        found.lock().expect("no panic").extend(records);
        Ok(())
    };
    let reported = Mutex::new((0, 0));
    let progress = |done, of| {
        assert!(done <= of);
        let mut reported = reported.lock().expect("no panic");
        *reported = (reported.0.max(done), of);
    };
    let replay = Replay { from, visit: &visit, progress: &progress };
    let (log, outcome) = open_replaying(device.directory(), streams, options.clone(), replay)?;
    let outcome = outcome.map(|report| {
        let mut found = found.into_inner().expect("no panic");
        assert_eq!(found.len() as u64, report.records);
        assert_eq!(reported.into_inner().expect("no panic").0, report.bytes, "all that was read is reported");
        found.sort();
        (found, report.stamp_max.get())
    });
    Ok((log, outcome))
}
