//! Options for opening a log.
//!
//! Pure; any thread. Designs that exist side by side are variants of enums, with their own settings. The kind of the log and the number of
//! its streams are fixed when the log is created; all other options may differ at each opening.

use katydid_device::nvram::Persistence;
use katydid_device::{Device, Id, Method};
use katydid_kernels::insert::{BufferSizes, InserterDesign, OutOfRange};
use katydid_kernels::record::{HEADER_BYTES, RECORD_ALIGNMENT};
use katydid_kernels::sync::SyncDesign;
use katydid_kernels::words;
use std::time::Duration;

/// What a log is kept in. A directory remembers the kind of its log, and refuses another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LogKind {
    /// Files: the log buffer in memory is written and synced.
    #[default]
    Disk,
    /// A ring in NVRAM, filled in place. A commit waits for its own records only, and holes below it are looked for when the log is
    /// opened (Fang et al., after ELEDA 6.4.3). With [`InserterDesign::Chunked`] a commit waits as in `NvRing`.
    NvDirect,
    /// A ring in NVRAM, filled in place. A commit waits until there is no hole below it, as on disk, and persists what all have filled. Ours.
    NvRing,
    /// Records in a heap in NVRAM, and a ring of entries that name their places, set when the records are persisted (`NV-Logging`).
    /// Positions count entries, each 8, not bytes; the inserter is without meaning. A commit does as in `NvRing`, and a
    /// hole is as long as one store.
    NvLogging,
}

/// A log in NVRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NvramOptions {
    /// Bytes of the ring, or of the heap of `NvLogging`: most that the log holds between two trims. Default 64 MiB; a power of two from 16 KiB
    /// to 16 GiB. Only a new log takes it.
    pub bytes: u64,
    /// Entries of `NvLogging`, of 8 bytes each beside the heap: most physical records that the log holds between two trims. Default 0: one
    /// for each 64 bytes of the heap. A power of two from 64 to 268,435,456. Only a new log takes it.
    pub entries: u64,
    /// What memory to ask for. Default `Auto`: real where there is such, else emulated. An emulated latency is at most 1 s.
    pub want: Persistence,
}

impl Default for NvramOptions {
    fn default() -> Self {
        NvramOptions { bytes: 64 << 20, entries: 0, want: Persistence::default() }
    }
}

impl NvramOptions {
    /// How many entries there are to be.
    pub(crate) fn entries(&self) -> u64 {
        if self.entries == 0 { self.bytes / BYTES_PER_ENTRY } else { self.entries }
    }
}

/// Bytes of the heap for which there is one entry by default: few records are shorter.
const BYTES_PER_ENTRY: u64 = 64;

/// Whether a log may have so many entries.
pub(crate) fn entries_valid(entries: u64) -> bool {
    entries.is_power_of_two() && (64..=1 << 28).contains(&entries)
}

/// Who does what no caller waits for: preparing segments, and writing and syncing what was requested without blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Background {
    /// Threads of the log's own.
    #[default]
    Threads,
    /// The caller, when it says so or cannot go on without: for tests that must do the same in every run.
    Caller,
}

words!(
    LogKind,
    "disk, nv_direct, nv_ring, nv_logging",
    Disk = "disk",
    NvDirect = "nv_direct",
    NvRing = "nv_ring",
    NvLogging = "nv_logging"
);

impl LogKind {
    /// Every kind.
    pub const ALL: [LogKind; 4] = [LogKind::Disk, LogKind::NvDirect, LogKind::NvRing, LogKind::NvLogging];

    /// Whether it is in NVRAM: then nothing is written or synced, and [`Stream::trim`](crate::Stream::trim) alone makes room.
    pub const fn in_nvram(self) -> bool {
        !matches!(self, LogKind::Disk)
    }
}

/// Settings of a log. Take the default and change what you need:
///
/// ```
/// use katydid_wal::{Options, SyncKind};
/// let options = Options { segment_bytes: 1 << 20, sync: SyncKind::Pipelined.into(), ..Options::default() };
/// options.validate().unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What the log is kept in. Default `Disk`. In NVRAM there are no segments, no writes and no syncs: the settings of those have no effect.
    pub log: LogKind,
    /// Streams of the log: each has its own ring, files, sessions and syncs, so the sizes below count once for each. Default 1; from 1 to 1,024.
    /// Fixed when the log is created: another number is refused. Appends to different streams share no word. Recovery orders records of
    /// different streams only by what they say of each other ([`Append::commit`](crate::Append::commit)).
    pub streams: u16,
    /// Settings of a log in NVRAM. Its ring is the log buffer too, so `ring_bytes` has no effect then.
    pub nvram: NvramOptions,
    /// Size of one segment file. Default 64 MiB; a multiple of 4 KiB from 8 KiB to 16 GiB. Larger segments mean fewer
    /// files and coarser trimming. Only a new log takes it: an existing one keeps the size it was created with.
    pub segment_bytes: u64,
    /// Size of the log buffer, the ring in memory where records wait to be written. A power of two from 16 KiB to 1 GiB. Default
    /// [`Options::ring_bytes_for`] this machine's processors. Whoever sets it sets `run_ahead_bytes` too, whose default is for the default ring.
    pub ring_bytes: usize,
    /// How far reservations may run ahead of the filled frontier, in positions. Default an eighth of the default ring; from 4 KiB to half of
    /// `ring_bytes`. Smaller bounds the time a preempted thread can hold others up.
    pub run_ahead_bytes: usize,
    /// The inserter, which puts records into memory, and its settings. Default: `Marks`. Without meaning for [`LogKind::NvLogging`].
    pub inserter: InserterDesign,
    /// The sync protocol, which writes and syncs, and its settings. Default: `Adaptive`.
    pub sync: SyncDesign,
    /// Most bytes of one write. Default 1 MiB; a multiple of 4 KiB from 4 KiB to 64 MiB. Half of `ring_bytes` is a limit as well.
    pub write_bytes_max: usize,
    /// How bytes travel to segment files. Default `Direct`. `Uring` falls back to `Direct` where the kernel gives out no rings, and that to
    /// `Buffered` where the file system refuses; [`Stream::method`](crate::Stream::method) says what is in use. See [`Options::device`].
    pub method: Method,
    /// Most sessions open at once. Default 1,024; from 1 to 65,536. Each costs 128 bytes of memory for its mark.
    pub sessions_max: usize,
    /// Segments kept prepared beyond the one being written, and trimmed ones kept for reuse. Default 2; from 1 to
    /// 1,024. More hides slower preparation at the price of disk space.
    pub spare_segments: usize,
    /// Prepared bytes that only critical appends (those that finish or undo what is already in the log) may use.
    /// Default 16 MiB; at most 1,024 segments' worth, or in NVRAM a quarter of the ring or heap. Of `NvLogging` entries are kept for them too, as
    /// many as there may be records in so many bytes; at most half of all.
    pub reserve_bytes: u64,
    /// How long a device call may take before it is reported as a stall: as an event (`log`, target `katydid::device`) and in
    /// [`Log::device_stalls`](crate::Log::device_stalls). Default 1 s; zero: never. Of no other effect.
    pub stall_after: Duration,
    /// The id of a new log. Default none: a random one. Set it where files must come out the same in every run.
    pub log_id: Option<Id>,
    /// Who does what nobody waits for. For tests that must do the same in every run.
    #[doc(hidden)]
    pub background: Background,
}

impl Default for Options {
    fn default() -> Self {
        let ring_bytes = Options::ring_bytes_for(std::thread::available_parallelism().map_or(1, usize::from));
        Options {
            log: LogKind::default(),
            streams: 1,
            nvram: NvramOptions::default(),
            segment_bytes: 64 << 20,
            ring_bytes,
            run_ahead_bytes: ring_bytes / 8,
            inserter: InserterDesign::default(),
            sync: SyncDesign::default(),
            write_bytes_max: 1 << 20,
            method: Method::default(),
            sessions_max: 1024,
            spare_segments: 2,
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
    /// The field of [`Options`].
    pub option: &'static str,
    /// What it was.
    pub value: u64,
    /// What it may be.
    pub range: &'static str,
}

impl From<OutOfRange> for OptionsError {
    fn from(error: OutOfRange) -> Self {
        let OutOfRange { option, value, range } = error;
        OptionsError { option, value, range }
    }
}

/// Most streams of a log.
pub const STREAMS_MAX: u16 = 1024;

pub(crate) const SEGMENT_BYTES_MIN: u64 = 8 << 10;
pub(crate) const SEGMENT_BYTES_MAX: u64 = 16 << 30;
const SEGMENT_BYTES_RANGE: &str = "a multiple of 4096 from 8192 to 17179869184";

/// Whether a segment may have this many bytes; also asked of sizes read from files.
pub(crate) fn segment_bytes_valid(bytes: u64) -> bool {
    (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(4096)
}

impl Options {
    /// The default ring of a log that so many processors fill: 256 KiB for each; at least
    /// 2 MiB, of which one half is filled while the other is written, and at most 64 MiB.
    pub fn ring_bytes_for(processors: usize) -> usize {
        BufferSizes::ring_bytes_for(processors)
    }

    /// These options with the method, write size and number of writes in flight that suit a device. Choose the sync protocol before: a later
    /// choice replaces the number of writes in flight.
    ///
    /// ```no_run
    /// use katydid_wal::{Device, Log, Options};
    /// let device = Device::auto("/mnt/fast".as_ref())?;
    /// let log = Log::open("/mnt/fast/log", Options::default().device(&device))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn device(self, device: &Device) -> Self {
        let blocks = (device.write_bytes / 4096).clamp(1, (64 << 20) / 4096);
        let sync = match self.sync {
            // The protocol finds under load how many writes in flight pay.
            SyncDesign::Adaptive { depth_min, heuristics, .. } => SyncDesign::Adaptive {
                depth_max: u32::try_from(device.depth).map_or(64, |depth| depth.clamp(1, 64)).max(depth_min),
                depth_min,
                heuristics,
            },
            other => other,
        };
        Options { method: device.method, write_bytes_max: blocks * 4096, sync, ..self }
    }

    /// Refuses settings outside their documented ranges.
    ///
    /// # Errors
    /// Names the first option found out of range, its value and its range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let check = |good: bool, option, value: u64, range| {
            if good { Ok(()) } else { Err(OptionsError { option, value, range }) }
        };
        let ring = self.ring_bytes as u64;
        let run_ahead = self.run_ahead_bytes as u64;
        let sessions = self.sessions_max as u64;
        let spare = self.spare_segments as u64;
        let segment = self.segment_bytes;
        let streams = self.streams;
        check((1..=STREAMS_MAX).contains(&streams), "streams", streams.into(), "from 1 to 1024")?;
        check(segment_bytes_valid(segment), "segment_bytes", segment, SEGMENT_BYTES_RANGE)?;
        let ring_good = self.ring_bytes.is_power_of_two() && (16 << 10..=1 << 30).contains(&ring);
        check(ring_good, "ring_bytes", ring, "a power of two from 16384 to 1073741824")?;
        let run_ahead_good = (4 << 10..=ring / 2).contains(&run_ahead);
        check(run_ahead_good, "run_ahead_bytes", run_ahead, "from 4096 to half of ring_bytes")?;
        self.inserter.validate()?;
        self.sync.validate()?;
        let write = self.write_bytes_max as u64;
        let write_good = write.is_multiple_of(4096) && (4096..=64 << 20).contains(&write);
        check(write_good, "write_bytes_max", write, "a multiple of 4096 from 4096 to 67108864")?;
        check((1..=65_536).contains(&sessions), "sessions_max", sessions, "from 1 to 65536")?;
        check((1..=1_024).contains(&spare), "spare_segments", spare, "from 1 to 1024")?;
        let reserve = self.reserve_bytes;
        if self.log.in_nvram() {
            let bytes = self.nvram.bytes;
            let good = bytes.is_power_of_two() && (16 << 10..=16 << 30).contains(&bytes);
            check(good, "nvram.bytes", bytes, "a power of two from 16384 to 17179869184")?;
            if let Persistence::Emulated { latency } = self.nvram.want {
                let seconds = latency.as_secs();
                let good = latency <= Duration::from_secs(1);
                check(good, "nvram.want", seconds, "at most 1 second of latency")?;
            }
            if self.log == LogKind::NvLogging {
                let entries = self.nvram.entries();
                check(
                    entries_valid(entries),
                    "nvram.entries",
                    entries,
                    "a power of two from 64 to 268435456",
                )?;
                let good = reserve <= reserve_bytes_max(entries);
                check(good, "reserve_bytes", reserve, "at most 24 times nvram.entries")?;
            }
            return check(reserve <= bytes / 4, "reserve_bytes", reserve, "at most a quarter of nvram.bytes");
        }
        check(reserve / segment <= 1_024, "reserve_bytes", reserve, "at most 1024 times segment_bytes")
    }

    /// The same for a log with so many entries, and a heap of so many bytes, in NVRAM: what is said of positions goes for those of entries.
    pub(crate) fn with_entries(&self, entries: u64, heap: u64) -> Options {
        let reserve_bytes = self.reserve_bytes.min(heap / 4).min(reserve_bytes_max(entries));
        Options { reserve_bytes, ..self.with_ring(entries * RECORD_ALIGNMENT as u64) }
    }

    /// The same for a log whose ring of so many bytes is in NVRAM: what is said of the ring in memory goes for that.
    pub(crate) fn with_ring(&self, bytes: u64) -> Options {
        Options {
            ring_bytes: bytes as usize,
            run_ahead_bytes: self.run_ahead_bytes.min(bytes as usize / 2),
            reserve_bytes: self.reserve_bytes.min(bytes / 4),
            ..self.clone()
        }
    }

    /// The sizes of the log buffer.
    pub(crate) fn buffer_sizes(&self) -> BufferSizes {
        BufferSizes {
            ring_bytes: self.ring_bytes,
            run_ahead_bytes: self.run_ahead_bytes,
            reserve_bytes: self.reserve_bytes,
            sessions: self.sessions_max,
        }
    }

    /// The most bytes, header included, that one physical record of this log takes; longer records travel as
    /// fragments. An eighth of the ring, so that a large record cannot fill it, and never above the format's 64 KiB.
    pub(crate) fn physical_bytes_max(&self) -> usize {
        self.buffer_sizes().physical_bytes_max()
    }
}

/// Most bytes that can be kept for critical appends of a log with so many entries: half of these, of the shortest records.
fn reserve_bytes_max(entries: u64) -> u64 {
    entries / 2 * HEADER_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_kernels::sync::{Group, SyncKind};

    fn in_nvram(bytes: u64, reserve_bytes: u64) -> Options {
        let nvram = NvramOptions { bytes, ..NvramOptions::default() };
        Options { log: LogKind::NvRing, nvram, reserve_bytes, ..Options::default() }
    }

    #[test]
    fn the_default_is_valid_and_each_bad_field_is_named() {
        Options::default().validate().unwrap();
        let inserter = |inserter| Options { inserter, ..Options::default() };
        let sync = |sync| Options { sync, ..Options::default() };
        let bad = [
            ("segment_bytes", Options { segment_bytes: 4096, ..Options::default() }),
            ("segment_bytes", Options { segment_bytes: (1 << 20) + 1, ..Options::default() }),
            ("segment_bytes", Options { segment_bytes: u64::MAX, ..Options::default() }),
            ("streams", Options { streams: 0, ..Options::default() }),
            ("streams", Options { streams: 1025, ..Options::default() }),
            ("ring_bytes", Options { ring_bytes: 100_000, ..Options::default() }),
            ("ring_bytes", Options { ring_bytes: 0, ..Options::default() }),
            (
                "run_ahead_bytes",
                Options { ring_bytes: 1 << 20, run_ahead_bytes: 1 << 20, ..Options::default() },
            ),
            ("run_ahead_bytes", Options { run_ahead_bytes: 0, ..Options::default() }),
            ("consolidation_slots", inserter(InserterDesign::Consolidated { consolidation_slots: 0 })),
            ("consolidation_slots", inserter(InserterDesign::Hybrid { consolidation_slots: 65 })),
            ("hop_bytes", inserter(InserterDesign::Grasshopper { hop_bytes: 5000 })),
            ("chunk_bytes", inserter(InserterDesign::Chunked { chunk_bytes: 0, always: false })),
            ("depth_max", sync(SyncDesign::adaptive(1, 0))),
            ("depth_min", sync(SyncDesign::adaptive(9, 8))),
            (
                "group.microseconds",
                sync(SyncDesign::pipelined(Group { microseconds: u64::MAX, ..Group::default() })),
            ),
            ("write_bytes_max", Options { write_bytes_max: 5000, ..Options::default() }),
            ("sessions_max", Options { sessions_max: 0, ..Options::default() }),
            ("spare_segments", Options { spare_segments: 0, ..Options::default() }),
            ("reserve_bytes", Options { reserve_bytes: u64::MAX, ..Options::default() }),
            ("nvram.bytes", in_nvram(100_000, 0)),
            ("nvram.bytes", in_nvram(8 << 10, 0)),
            ("nvram.bytes", in_nvram(1 << 63, 0)),
            ("reserve_bytes", in_nvram(1 << 20, (256 << 10) + 1)),
        ];
        in_nvram(1 << 20, 256 << 10).validate().unwrap();
        let apart = |entries, reserve_bytes| {
            let nvram = NvramOptions { entries, ..in_nvram(1 << 20, 0).nvram };
            Options { log: LogKind::NvLogging, nvram, reserve_bytes, ..Options::default() }
        };
        apart(64, 24 * 64).validate().unwrap();
        apart(0, 256 << 10).validate().unwrap();
        for (name, entries, reserve) in
            [("nvram.entries", 32, 0), ("nvram.entries", 100, 0), ("reserve_bytes", 64, 24 * 64 + 1)]
        {
            assert_eq!(apart(entries, reserve).validate().unwrap_err().option, name);
        }
        for (name, options) in bad {
            assert_eq!(options.validate().unwrap_err().option, name);
        }
    }

    #[test]
    fn words_are_read_back() {
        for log in LogKind::ALL {
            assert_eq!(log.to_string().parse::<LogKind>().unwrap(), log);
        }
        for sync in SyncKind::ALL {
            assert_eq!(sync.to_string().parse::<SyncKind>().unwrap(), sync);
        }
    }
}
