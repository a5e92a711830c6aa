//! Options for opening a log.
//!
//! Plain values and pure functions. Designs that exist side by side are variants of enums, with
//! their own settings. The kind of the log and the number of its streams are fixed when the log is
//! created; all other options may differ at each opening.

use crate::medium_options::{FileOptions, MediumOptions, NvramOptions, entries_valid, reserve_bytes_max};
use katydid_device::nvram::Persistence;
use katydid_device::{Device, Id, Method};
use katydid_kernels::insert::{BufferSizes, OutOfRange};
use katydid_kernels::record::RECORD_ALIGNMENT;
use std::time::Duration;

/// The thread that does background work: preparing segments, and writing and syncing for requests
/// that do not block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Background {
    /// Threads of the log's own.
    #[default]
    Threads,
    /// The caller, when it calls [`Log::run_background`](crate::Log::run_background) or cannot
    /// continue without that work. Meant for tests that must do the same in every run, and for
    /// openings that discard their changes.
    Caller,
}

/// Settings of a log. Take the default and change what you need:
///
/// ```
/// use katydid_wal::{FileOptions, LogKind, Options, SyncKind};
/// let files = FileOptions { segment_bytes: 1 << 20, sync: SyncKind::Pipelined.into(), ..FileOptions::default() };
/// Options { medium: files.into(), ..Options::default() }.validate().unwrap();
/// Options { medium: LogKind::NvRing.into(), ..Options::default() }.validate().unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Medium of the log, with its settings. Default: files.
    pub medium: MediumOptions,
    /// Number of streams of the log: each has its own ring, files, sessions and syncs, so the sizes
    /// below apply to each. Default 1; from 1 to 1,024. Fixed when the log is created: opening it
    /// with another number fails. Appends to different streams share no word of memory. Recovery
    /// orders records of different streams only by their dependencies
    /// ([`Append::commit`](crate::Append::commit)).
    pub streams: u16,
    /// Maximum number of positions from the filled frontier to the start of a reservation (a
    /// position is a byte, except in a log of entries). Default: an eighth of the default ring.
    /// From 4 KiB to half of `ring_bytes`; in NVRAM a value above half of the ring counts as half
    /// of the ring. The limit bounds the number of bytes whose commits one preempted thread delays.
    pub run_ahead_bytes: usize,
    /// I/O method for the files of the log, and for the files of a database whose log is in NVRAM.
    /// Default: `Direct`. `Uring` falls back to `Direct` where the kernel provides no ring, and
    /// `Direct` to `Buffered` where the file system refuses direct I/O;
    /// [`Stream::method`](crate::Stream::method) returns the method in use. See
    /// [`Options::device`].
    pub method: Method,
    /// Maximum number of open sessions. Default 1,024; from 1 to 65,536. Each session takes 128
    /// bytes of memory for its mark.
    pub sessions_max: usize,
    /// Prepared bytes that only critical appends may use: appends that finish or undo changes
    /// already in the log. Default: 16 MiB. In a young log the reserve is at most 256 KiB plus
    /// three times the bytes that were ever appended, because only changes in the log may have to
    /// be undone. At most 1,024 times `segment_bytes`, or in NVRAM a quarter of the ring or heap.
    /// `NvEntries` and `NvLogging` also keep entries for critical appends: as many as there may be
    /// records in this number of bytes, at most half of all entries.
    pub reserve_bytes: u64,
    /// Time after which a device call is reported as a stall: as an event (`log`, target
    /// `katydid::device`) and in [`Log::device_stalls`](crate::Log::device_stalls). Default: 1 s.
    /// Zero turns these reports off. The option has no other effect.
    pub stall_after: Duration,
    /// Id of a new log. Default `None`: a random id. Set it for files that must be the same in
    /// every run.
    pub log_id: Option<Id>,
    /// The thread that performs background work. Default: threads of the log. Tests that must do
    /// the same in every run choose [`Background::Caller`], and so do openings that discard their
    /// changes.
    #[doc(hidden)]
    pub background: Background,
}

impl Default for Options {
    fn default() -> Self {
        let medium = FileOptions::default();
        Options {
            medium: medium.into(),
            streams: 1,
            run_ahead_bytes: medium.ring_bytes / 8,
            method: Method::default(),
            sessions_max: 1024,
            reserve_bytes: 16 << 20,
            stall_after: Duration::from_secs(1),
            log_id: None,
            background: Background::Threads,
        }
    }
}

/// An option outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("option {option} is {value}; it must be {range}")]
pub struct OptionsError {
    /// The field of [`Options`], or of a medium's settings.
    pub option: &'static str,
    /// Value that was given.
    pub value: u64,
    /// Range of legal values.
    pub range: &'static str,
}

impl From<OutOfRange> for OptionsError {
    fn from(error: OutOfRange) -> Self {
        let OutOfRange { option, value, range } = error;
        OptionsError { option, value, range }
    }
}

/// Maximum number of streams of a log.
pub const STREAMS_MAX: u16 = 1024;

pub(crate) const SEGMENT_BYTES_MIN: u64 = 8 << 10;
pub(crate) const SEGMENT_BYTES_MAX: u64 = 16 << 30;
const SEGMENT_BYTES_RANGE: &str = "a multiple of 4096 from 8192 to 17179869184";

/// Returns whether a segment may have this number of bytes. Checks options, and sizes read from
/// files.
pub(crate) fn segment_bytes_valid(bytes: u64) -> bool {
    (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(4096)
}

fn check(good: bool, option: &'static str, value: u64, range: &'static str) -> Result<(), OptionsError> {
    if good { Ok(()) } else { Err(OptionsError { option, value, range }) }
}

impl Options {
    /// Returns these options with other settings of files. Options of a log that is not in files
    /// are returned unchanged.
    ///
    /// ```
    /// use katydid_wal::{FileOptions, Options};
    /// let options = Options::default().map_files(|files| FileOptions { segment_bytes: 1 << 20, ..files });
    /// # options.validate().unwrap();
    /// ```
    pub fn map_files(mut self, map: impl FnOnce(FileOptions) -> FileOptions) -> Self {
        if let MediumOptions::Files(files) = &mut self.medium {
            *files = map(*files);
        }
        self
    }

    /// Returns these options with the I/O method that suits a device and, for a log in files, with
    /// the device's write size. Choose the medium before this call, because choosing a medium
    /// replaces these settings. The number of writes in flight is unchanged: see
    /// [`SyncDesign::Adaptive`](crate::SyncDesign::Adaptive).
    ///
    /// ```no_run
    /// use katydid_wal::{Device, Log, Options};
    /// let device = Device::auto("/mnt/fast".as_ref())?;
    /// let log = Log::open("/mnt/fast/log", Options::default().device(&device))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn device(self, device: &Device) -> Self {
        let blocks = (device.write_bytes / 4096).clamp(1, (64 << 20) / 4096);
        Options { method: device.method, ..self }
            .map_files(|files| FileOptions { write_bytes_max: blocks * 4096, ..files })
    }

    /// Refuses settings outside their documented ranges.
    ///
    /// # Errors
    /// The first option that is out of range, with its value and its range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let streams = self.streams;
        check((1..=STREAMS_MAX).contains(&streams), "streams", streams.into(), "from 1 to 1024")?;
        match &self.medium {
            MediumOptions::Files(files) => self.validate_files(files),
            MediumOptions::NvDirect { memory, inserter } | MediumOptions::NvRing { memory, inserter } => {
                inserter.validate()?;
                self.validate_memory(memory)?;
                self.validate_share(memory)
            }
            MediumOptions::NvEntries { memory, .. } | MediumOptions::NvLogging { memory, .. } => {
                self.validate_memory(memory)?;
                let (_, entries) = self.medium.created_with();
                let range = "a power of two from 64 to 268435456";
                check(entries_valid(entries), "nvram.entries", entries, range)?;
                let good = self.reserve_bytes <= reserve_bytes_max(entries);
                check(good, "reserve_bytes", self.reserve_bytes, "at most 24 times nvram.entries")?;
                self.validate_share(memory)
            }
        }
    }

    fn validate_files(&self, files: &FileOptions) -> Result<(), OptionsError> {
        let segment = files.segment_bytes;
        check(segment_bytes_valid(segment), "segment_bytes", segment, SEGMENT_BYTES_RANGE)?;
        let first = files.first_segment_bytes;
        check(segment_bytes_valid(first), "first_segment_bytes", first, SEGMENT_BYTES_RANGE)?;
        let ring = files.ring_bytes as u64;
        let ring_good = ring.is_power_of_two() && (16 << 10..=1 << 30).contains(&ring);
        check(ring_good, "ring_bytes", ring, "a power of two from 16384 to 1073741824")?;
        let run_ahead = self.run_ahead_bytes as u64;
        let run_ahead_good = (4 << 10..=ring / 2).contains(&run_ahead);
        check(run_ahead_good, "run_ahead_bytes", run_ahead, "from 4096 to half of ring_bytes")?;
        files.inserter.validate()?;
        files.sync.validate()?;
        let write = files.write_bytes_max as u64;
        let write_good = write.is_multiple_of(4096) && (4096..=64 << 20).contains(&write);
        check(write_good, "write_bytes_max", write, "a multiple of 4096 from 4096 to 67108864")?;
        self.validate_sessions()?;
        let spare = files.spare_segments as u64;
        check((1..=1_024).contains(&spare), "spare_segments", spare, "from 1 to 1024")?;
        let reserve = self.reserve_bytes;
        check(reserve <= 1_024 * segment, "reserve_bytes", reserve, "at most 1024 times segment_bytes")
    }

    fn validate_memory(&self, memory: &NvramOptions) -> Result<(), OptionsError> {
        let run_ahead = self.run_ahead_bytes as u64;
        check(run_ahead >= 4 << 10, "run_ahead_bytes", run_ahead, "at least 4096")?;
        self.validate_sessions()?;
        let bytes = memory.bytes;
        let good = bytes.is_power_of_two() && (16 << 10..=16 << 30).contains(&bytes);
        check(good, "nvram.bytes", bytes, "a power of two from 16384 to 17179869184")?;
        if let Persistence::Emulated { latency } = memory.want {
            let good = latency <= Duration::from_secs(1);
            check(good, "nvram.want", latency.as_secs(), "at most 1 second of latency")?;
        }
        Ok(())
    }

    fn validate_share(&self, memory: &NvramOptions) -> Result<(), OptionsError> {
        let reserve = self.reserve_bytes;
        check(reserve <= memory.bytes / 4, "reserve_bytes", reserve, "at most a quarter of nvram.bytes")
    }

    fn validate_sessions(&self) -> Result<(), OptionsError> {
        let sessions = self.sessions_max as u64;
        check((1..=65_536).contains(&sessions), "sessions_max", sessions, "from 1 to 65536")
    }

    /// Returns the sizes of the log buffer of a log whose ring in memory has `ring_bytes`.
    pub(crate) fn buffer_sizes(&self, ring_bytes: usize) -> BufferSizes {
        BufferSizes {
            ring_bytes,
            run_ahead_bytes: self.run_ahead_bytes,
            reserve_bytes: self.reserve_bytes,
            sessions: self.sessions_max,
        }
    }

    /// Returns the sizes of the log buffer of a log whose ring of `bytes` is in NVRAM.
    pub(crate) fn nvram_sizes(&self, bytes: u64) -> BufferSizes {
        BufferSizes {
            run_ahead_bytes: self.run_ahead_bytes.min(bytes as usize / 2),
            reserve_bytes: self.reserve_bytes.min(bytes / 4),
            ..self.buffer_sizes(bytes as usize)
        }
    }

    /// Returns the sizes of the log buffer of a log with this number of entries and a heap of
    /// `heap` bytes in NVRAM. The positions of such a log are those of its entries.
    pub(crate) fn entry_sizes(&self, entries: u64, heap: u64) -> BufferSizes {
        let sizes = self.nvram_sizes(entries * RECORD_ALIGNMENT as u64);
        let reserve_bytes = self.reserve_bytes.min(heap / 4).min(reserve_bytes_max(entries));
        BufferSizes { reserve_bytes, ..sizes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium_options::{LogKind, MediumSettings};
    use katydid_kernels::insert::InserterDesign;
    use katydid_kernels::sync::{Group, SyncDesign, SyncKind};

    fn in_files(change: impl FnOnce(&mut FileOptions)) -> Options {
        let mut files = FileOptions::default();
        change(&mut files);
        Options { medium: files.into(), ..Options::default() }
    }

    fn in_nvram(bytes: u64, reserve_bytes: u64) -> Options {
        let memory = NvramOptions { bytes, ..NvramOptions::default() };
        let medium = MediumOptions::NvRing { memory, inserter: InserterDesign::default() };
        Options { medium, reserve_bytes, ..Options::default() }
    }

    fn apart(entries: u64, reserve_bytes: u64) -> Options {
        let memory = NvramOptions { bytes: 1 << 20, ..NvramOptions::default() };
        let medium = MediumOptions::NvLogging { memory, entries };
        Options { medium, reserve_bytes, ..Options::default() }
    }

    #[test]
    fn the_default_is_valid_and_each_bad_field_is_named() {
        Options::default().validate().unwrap();
        for kind in LogKind::ALL {
            Options { medium: kind.into(), ..Options::default() }.validate().unwrap();
        }
        in_nvram(1 << 20, 256 << 10).validate().unwrap();
        apart(64, 24 * 64).validate().unwrap();
        apart(0, 256 << 10).validate().unwrap();
        let inserter = |inserter| in_files(|files| files.inserter = inserter);
        let sync = |sync| in_files(|files| files.sync = sync);
        let ring = |ring_bytes| in_files(|files| files.ring_bytes = ring_bytes);
        let latency = Duration::from_secs(2);
        let slow = NvramOptions { want: Persistence::Emulated { latency }, ..NvramOptions::default() };
        let chunked = InserterDesign::Chunked { chunk_bytes: 0, always: false };
        let group = Group { microseconds: u64::MAX, ..Group::default() };
        let bad = [
            ("segment_bytes", in_files(|files| files.segment_bytes = 4096)),
            ("segment_bytes", in_files(|files| files.segment_bytes = (1 << 20) + 1)),
            ("segment_bytes", in_files(|files| files.segment_bytes = u64::MAX)),
            ("first_segment_bytes", in_files(|files| files.first_segment_bytes = 4096)),
            ("streams", Options { streams: 0, ..Options::default() }),
            ("streams", Options { streams: 1025, ..Options::default() }),
            ("ring_bytes", ring(100_000)),
            ("ring_bytes", ring(0)),
            ("run_ahead_bytes", Options { run_ahead_bytes: 1 << 20, ..ring(1 << 20) }),
            ("run_ahead_bytes", Options { run_ahead_bytes: 0, ..Options::default() }),
            ("run_ahead_bytes", Options { run_ahead_bytes: 0, ..in_nvram(1 << 20, 0) }),
            ("consolidation_slots", inserter(InserterDesign::Consolidated { consolidation_slots: 0 })),
            ("consolidation_slots", inserter(InserterDesign::Hybrid { consolidation_slots: 65 })),
            ("hop_bytes", inserter(InserterDesign::Grasshopper { hop_bytes: 5000 })),
            ("chunk_bytes", inserter(chunked)),
            (
                "chunk_bytes",
                Options {
                    medium: MediumOptions::NvDirect { memory: NvramOptions::default(), inserter: chunked },
                    ..Options::default()
                },
            ),
            ("depth", sync(SyncDesign::adaptive(0))),
            ("depth", sync(SyncDesign::adaptive(65))),
            ("group.microseconds", sync(SyncDesign::pipelined(group))),
            ("write_bytes_max", in_files(|files| files.write_bytes_max = 5000)),
            ("sessions_max", Options { sessions_max: 0, ..Options::default() }),
            ("sessions_max", Options { sessions_max: 0, ..in_nvram(1 << 20, 0) }),
            ("spare_segments", in_files(|files| files.spare_segments = 0)),
            ("reserve_bytes", Options { reserve_bytes: u64::MAX, ..Options::default() }),
            ("reserve_bytes", Options { reserve_bytes: (1_024 << 26) + 1, ..Options::default() }),
            ("nvram.bytes", in_nvram(100_000, 0)),
            ("nvram.bytes", in_nvram(8 << 10, 0)),
            ("nvram.bytes", in_nvram(1 << 63, 0)),
            (
                "nvram.want",
                Options {
                    medium: MediumOptions::NvLogging { memory: slow, entries: 0 },
                    ..Options::default()
                },
            ),
            ("reserve_bytes", in_nvram(1 << 20, (256 << 10) + 1)),
            ("nvram.entries", apart(32, 0)),
            ("nvram.entries", apart(100, 0)),
            ("reserve_bytes", apart(64, 24 * 64 + 1)),
            ("reserve_bytes", apart(1 << 20, (256 << 10) + 1)),
        ];
        for (name, options) in bad {
            assert_eq!(options.validate().unwrap_err().option, name);
        }
    }

    #[test]
    fn words_are_read_back() {
        for log in LogKind::ALL {
            assert_eq!(log.to_string().parse::<LogKind>().unwrap(), log);
            assert_eq!(MediumOptions::from(log).kind(), log);
        }
        for sync in SyncKind::ALL {
            assert_eq!(sync.to_string().parse::<SyncKind>().unwrap(), sync);
        }
    }

    #[test]
    fn settings_of_a_medium_come_back_from_it() {
        let inserter = InserterDesign::Mutex;
        let settings = MediumSettings {
            files: FileOptions { inserter, ..FileOptions::default() },
            memory: NvramOptions { bytes: 1 << 20, ..NvramOptions::default() },
            entries: 64,
        };
        for kind in LogKind::ALL {
            let medium = settings.medium(kind);
            assert_eq!(MediumSettings::from(medium).medium(kind), medium);
            assert_eq!(medium.inserter(), (!kind.lies_apart()).then_some(inserter));
            assert_eq!(medium.memory(), kind.in_nvram().then_some(settings.memory));
        }
    }
}
