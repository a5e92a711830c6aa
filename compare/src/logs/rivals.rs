//! The logs, all behind the same two traits. Each is used as its documentation says.

use crate::Result;
use okaywal::{Configuration, Entry, EntryId, LogManager, SegmentReader, WriteAheadLog};
use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// An open log, shared by all threads.
pub trait Log: Sync {
    /// The appender of one thread.
    fn appender(&self, thread: usize) -> Result<Box<dyn Appender + '_>>;
    /// Work that a user of the log does every few milliseconds: mostly, dropping records that are
    /// not needed any more.
    fn housekeeping(&self) {}
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's appender.
pub trait Appender: Send {
    /// Appends a record. It is durable when the call returns.
    fn append(&mut self, payload: &[u8]) -> Result<()>;
}

/// All logs. The first is compared with each of the others.
pub const NAMES: [&str; 5] =
    ["katydid-wal", "raft-engine", "raft-engine-prefilled", "okaywal", "okaywal-large"];

/// The name, if there is a log with this name.
pub fn known(name: &str) -> Result<&'static str> {
    let found = NAMES.into_iter().find(|known| *known == name);
    found.ok_or_else(|| format!("no log {name:?}; there are {}", NAMES.join(", ")).into())
}

/// Opens a new log.
pub fn open(name: &str, place: &Path) -> Result<Box<dyn Log>> {
    Ok(match name {
        "katydid-wal" => Box::new(Katydid::open(place)?),
        "raft-engine" | "raft-engine-prefilled" => Box::new(RaftEngine(open_raft_engine(name, place)?)),
        "okaywal" => Box::new(Okay(Configuration::default_for(place).open(Forget)?)),
        // The files are fewer and larger than by default, as in katydid-wal and raft-engine.
        _ => {
            let config = Configuration::default_for(place);
            let config = config.preallocate_bytes(64 << 20).checkpoint_after_bytes(48 << 20);
            Box::new(Okay(config.open(Forget)?))
        }
    })
}

struct Katydid(katydid_wal::Log);

impl Katydid {
    fn open(place: &Path) -> Result<Katydid> {
        let log = katydid_wal::Log::open(place, katydid_wal::Options::default())?;
        wait_for_segments(&log);
        Ok(Katydid(log))
    }
}

/// Waits until the background thread of a new log has prepared its segments.
pub fn wait_for_segments(log: &katydid_wal::Log) {
    let (mut before, mut still) = (0, 0);
    while still < 20 {
        still = if log.space().prepared > before { 0 } else { still + 1 };
        before = log.space().prepared;
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Log for Katydid {
    fn appender(&self, _thread: usize) -> Result<Box<dyn Appender + '_>> {
        Ok(Box::new(KatydidAppender { session: self.0.session()? }))
    }

    fn housekeeping(&self) {
        if self.0.space().live > 64 << 20 {
            // A refused trim is tried again some milliseconds later.
            self.0.first().trim(self.0.first().durable()).ok();
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

struct KatydidAppender {
    session: katydid_wal::Session,
}

impl Appender for KatydidAppender {
    fn append(&mut self, payload: &[u8]) -> Result<()> {
        let payload = [payload];
        let record = katydid_wal::Append::new(katydid_wal::Kind::USER, &payload);
        let end = self.session.append(&record)?.end;
        Ok(self.session.stream().wait(end, katydid_wal::Durability::Durable)?)
    }
}

/// One raft group for each thread.
struct RaftEngine(Engine);

/// Opens raft-engine, with its defaults or, under the name `raft-engine-prefilled`, with files that
/// are written ahead. Users of raft-engine have such files after some hours. A durable write into
/// such a file is cheaper.
pub fn open_raft_engine(name: &str, place: &Path) -> Result<Engine> {
    let mut config = Config { dir: place.display().to_string(), ..Config::default() };
    if name == "raft-engine-prefilled" {
        config.prefill_for_recycle = true;
        config.prefill_limit = Some(ReadableSize::mb(512));
    }
    Ok(Engine::open(config)?)
}

impl Log for RaftEngine {
    fn appender(&self, thread: usize) -> Result<Box<dyn Appender + '_>> {
        Ok(Box::new(RaftAppender {
            engine: &self.0,
            group: thread as u64 + 1,
            index: 0,
            batch: LogBatch::default(),
        }))
    }

    fn housekeeping(&self) {
        // raft-engine removes files only above a threshold that short runs do not reach.
        self.0.purge_expired_files().ok();
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.0);
        Ok(())
    }
}

/// Entries of raft-engine whose first eight bytes are their index.
pub struct Indexed;

impl MessageExt for Indexed {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        entry.value.first_chunk().map_or(0, |index| u64::from_le_bytes(*index))
    }
}

struct RaftAppender<'l> {
    engine: &'l Engine,
    group: u64,
    index: u64,
    batch: LogBatch,
}

/// Number of entries that each group retains.
const KEPT: u64 = 1024;

impl Appender for RaftAppender<'_> {
    fn append(&mut self, payload: &[u8]) -> Result<()> {
        self.index += 1;
        let mut entry = BytesValue::new();
        entry.value = payload.to_vec();
        entry.value[..8].copy_from_slice(&self.index.to_le_bytes());
        self.batch.add_entries::<Indexed>(self.group, &[entry])?;
        self.engine.write(&mut self.batch, true)?;
        if self.index.is_multiple_of(KEPT) {
            self.engine.compact_to(self.group, self.index - 1);
        }
        Ok(())
    }
}

struct Okay(WriteAheadLog);

impl Log for Okay {
    fn appender(&self, _thread: usize) -> Result<Box<dyn Appender + '_>> {
        Ok(Box::new(OkayAppender(&self.0)))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.shutdown()?)
    }
}

struct OkayAppender<'l>(&'l WriteAheadLog);

impl Appender for OkayAppender<'_> {
    fn append(&mut self, payload: &[u8]) -> Result<()> {
        let mut entry = self.0.begin_entry()?;
        entry.write_chunk(payload)?;
        entry.commit()?;
        Ok(())
    }
}

/// Manager of an okaywal log. It ignores entries that are recovered or leave the log, because the
/// measurement never reads an entry again.
#[derive(Debug)]
struct Forget;

impl LogManager for Forget {
    fn recover(&mut self, _entry: &mut Entry<'_>) -> std::io::Result<()> {
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _last: EntryId,
        _entries: &mut SegmentReader,
        _log: &WriteAheadLog,
    ) -> std::io::Result<()> {
        Ok(())
    }
}

/// Median time in microseconds of durable writes of 4 KiB to a file of zeros, one after the other.
/// On this device no append can be faster, unless the log bypasses the page cache, as `katydid-wal`
/// does.
#[expect(clippy::disallowed_methods, reason = "this is the device as any program has it")]
pub fn raw_write_us(dir: &Path, time: Duration) -> Result<f64> {
    const BLOCKS: usize = 1024;
    let path = dir.join("raw");
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    file.write_all_at(&vec![0; BLOCKS * 4096], 0)?;
    file.sync_all()?;
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        let since = Instant::now();
        file.write_all_at(&[times.len() as u8; 4096], (times.len() % BLOCKS * 4096) as u64)?;
        file.sync_data()?;
        times.push(since.elapsed().as_nanos() as u64);
    }
    std::fs::remove_file(path)?;
    times.sort_unstable();
    Ok(times.get(times.len() / 2).map_or(0.0, |nanos| *nanos as f64 / 1000.0))
}
