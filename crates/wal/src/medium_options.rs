//! The medium of a log, and the settings that belong to it.
//!
//! Plain values and pure functions. A medium has only the settings that have a meaning for it.

use katydid_device::nvram::Persistence;
use katydid_kernels::insert::{BufferSizes, InserterDesign};
use katydid_kernels::record::HEADER_BYTES;
use katydid_kernels::sync::SyncDesign;
use katydid_kernels::words;

/// Storage of a log. A directory stores the kind of its log, and cannot be opened with another
/// kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LogKind {
    /// Files: the log buffer in memory is written and synced.
    #[default]
    Disk,
    /// A ring in NVRAM, filled in place. An append persists its record, so a commit does not wait
    /// for holes below its record; opening the log looks for the holes (Fang et al., after ELEDA
    /// 6.4.3). With [`InserterDesign::Chunked`] a commit waits as in `NvRing`.
    NvDirect,
    /// A ring in NVRAM, filled in place. A commit waits until there is no hole below it, as in a
    /// log in files, and persists what all threads have filled. This project's design.
    NvRing,
    /// Records in a heap in NVRAM, and a ring of entries that name the places of the records. An
    /// entry is set when its record is persisted. Each entry takes 8 positions, so positions do not
    /// count bytes. There is no choice of an inserter. A commit waits as in `NvRing`, and a hole
    /// lasts as long as one store. This project's design, after NV-Logging.
    NvEntries,
    /// Heap and entries as in `NvEntries`, used as in NV-Logging: an append persists its record and
    /// then sets and persists its entry, and a commit moves the tail from entry to entry. Head and
    /// tail are in NVRAM, so a trim writes no control file. A hole lasts as long as it takes to
    /// persist an append.
    NvLogging,
}

words!(
    LogKind,
    "disk, nv_direct, nv_ring, nv_entries, nv_logging",
    Disk = "disk",
    NvDirect = "nv_direct",
    NvRing = "nv_ring",
    NvEntries = "nv_entries",
    NvLogging = "nv_logging"
);

impl LogKind {
    /// Every kind.
    pub const ALL: [LogKind; 5] =
        [LogKind::Disk, LogKind::NvDirect, LogKind::NvRing, LogKind::NvEntries, LogKind::NvLogging];

    /// Returns whether a commit waits, with every inserter, until there is no hole below its
    /// record. If not, opening looks for holes.
    pub(crate) const fn waits_for_holes(self) -> bool {
        !matches!(self, LogKind::NvDirect)
    }

    /// Returns true if records lie apart from their positions, and entries name their places.
    pub const fn lies_apart(self) -> bool {
        matches!(self, LogKind::NvEntries | LogKind::NvLogging)
    }

    /// Returns whether the log is in NVRAM. Such a log writes and syncs nothing, and only
    /// [`Stream::trim`](crate::Stream::trim) makes room in it.
    pub const fn in_nvram(self) -> bool {
        !matches!(self, LogKind::Disk)
    }
}

/// A medium and its settings.
///
/// `LogKind::NvRing.into()` is that medium with default settings, and `FileOptions { .. }.into()`
/// is a log in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediumOptions {
    /// See [`LogKind::Disk`].
    Files(FileOptions),
    /// See [`LogKind::NvDirect`].
    NvDirect {
        /// The ring.
        memory: NvramOptions,
        /// The inserter and its settings. Default: `Marks`.
        inserter: InserterDesign,
    },
    /// See [`LogKind::NvRing`].
    NvRing {
        /// The ring.
        memory: NvramOptions,
        /// The inserter and its settings. Default: `Marks`.
        inserter: InserterDesign,
    },
    /// See [`LogKind::NvEntries`].
    NvEntries {
        /// The heap.
        memory: NvramOptions,
        /// Number of entries, as for `NvLogging`.
        entries: u64,
    },
    /// See [`LogKind::NvLogging`].
    NvLogging {
        /// The heap.
        memory: NvramOptions,
        /// Number of entries, which take 8 bytes each outside of the heap: the maximum number of
        /// physical records that the log holds between two trims. Default 0: one for each 64 bytes
        /// of the heap. A power of two from 64 to 268,435,456. Only a new log uses this value.
        entries: u64,
    },
}

/// Settings of a log in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// Size up to which segment files grow: see [`FileOptions::first_segment_bytes`]. Default 64
    /// MiB; a multiple of 4 KiB from 8 KiB to 16 GiB. Larger segments mean fewer files and coarser
    /// trimming. Only a new log uses this value: an existing log keeps the size it was created
    /// with.
    pub segment_bytes: u64,
    /// Size of the first segment file of a new log. Default 256 KiB; a multiple of 4 KiB from 8 KiB
    /// to 16 GiB. Each further segment is twice as large as the one before, up to `segment_bytes`,
    /// so that a small log takes little of the disk. If this is `segment_bytes` or more, all
    /// segments have that size, and the log is prepared for full speed from its first record on.
    pub first_segment_bytes: u64,
    /// Number of segments kept prepared beyond the one being written, and of trimmed segments kept
    /// for reuse. Default 2; from 1 to 1,024. With more segments, slow preparation delays appends
    /// less often, and the log takes more of the disk.
    pub spare_segments: usize,
    /// Size of the log buffer, the ring in memory where records wait to be written. A power of two
    /// from 16 KiB to 1 GiB. Default: the result of [`FileOptions::ring_bytes_for`] for the number
    /// of this machine's processors. A program that sets it should also set
    /// [`run_ahead_bytes`](crate::Options::run_ahead_bytes), whose default suits the default ring.
    pub ring_bytes: usize,
    /// The inserter, which puts records into memory, and its settings. Default: `Marks`.
    pub inserter: InserterDesign,
    /// The sync protocol, which writes and syncs, and its settings. Default: `Adaptive`.
    pub sync: SyncDesign,
    /// Maximum bytes of one write. Default 1 MiB; a multiple of 4 KiB from 4 KiB to 64 MiB. A write
    /// is never larger than half of `ring_bytes`.
    pub write_bytes_max: usize,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions {
            segment_bytes: 64 << 20,
            first_segment_bytes: 256 << 10,
            spare_segments: 2,
            ring_bytes: FileOptions::ring_bytes_for(
                std::thread::available_parallelism().map_or(1, usize::from),
            ),
            inserter: InserterDesign::default(),
            sync: SyncDesign::default(),
            write_bytes_max: 1 << 20,
        }
    }
}

impl FileOptions {
    /// Returns the default ring size for a log that this number of processors appends to: 256 KiB
    /// for each processor, at least 2 MiB and at most 64 MiB, rounded up to a power of two. One
    /// half of the ring is filled while the other is written.
    pub fn ring_bytes_for(processors: usize) -> usize {
        BufferSizes::ring_bytes_for(processors)
    }
}

/// Memory of a log in NVRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NvramOptions {
    /// Bytes of the ring, or of the heap of [`LogKind::NvEntries`] and [`LogKind::NvLogging`]: the
    /// maximum that the log holds between two trims. Default 64 MiB; a power of two from 16 KiB to
    /// 16 GiB. Only a new log uses this value; an existing log keeps its size.
    pub bytes: u64,
    /// The memory to use. Default `Auto`: real NVRAM if the machine has it, otherwise emulated. An
    /// emulated latency is at most 1 s.
    pub want: Persistence,
}

impl Default for NvramOptions {
    fn default() -> Self {
        NvramOptions { bytes: 64 << 20, want: Persistence::default() }
    }
}

/// Settings of every medium, for a program that takes the kind of the log as a parameter.
/// [`MediumSettings::medium`] uses the settings of one medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MediumSettings {
    /// Settings of files. A ring in NVRAM uses the inserter of these settings.
    pub files: FileOptions,
    /// The memory of a log in NVRAM.
    pub memory: NvramOptions,
    /// Entries of [`LogKind::NvEntries`] and [`LogKind::NvLogging`]. Default 0: one for each 64
    /// bytes of the heap.
    pub entries: u64,
}

impl MediumSettings {
    /// Returns the medium of this kind, with these settings.
    pub const fn medium(self, kind: LogKind) -> MediumOptions {
        let MediumSettings { files, memory, entries } = self;
        match kind {
            LogKind::Disk => MediumOptions::Files(files),
            LogKind::NvDirect => MediumOptions::NvDirect { memory, inserter: files.inserter },
            LogKind::NvRing => MediumOptions::NvRing { memory, inserter: files.inserter },
            LogKind::NvEntries => MediumOptions::NvEntries { memory, entries },
            LogKind::NvLogging => MediumOptions::NvLogging { memory, entries },
        }
    }
}

impl From<MediumOptions> for MediumSettings {
    /// Returns the settings of this medium, and the default settings of all others.
    fn from(medium: MediumOptions) -> Self {
        let own = MediumSettings::default();
        match medium {
            MediumOptions::Files(files) => MediumSettings { files, ..own },
            MediumOptions::NvDirect { memory, inserter } | MediumOptions::NvRing { memory, inserter } => {
                MediumSettings { files: FileOptions { inserter, ..own.files }, memory, ..own }
            }
            MediumOptions::NvEntries { memory, entries } | MediumOptions::NvLogging { memory, entries } => {
                MediumSettings { memory, entries, ..own }
            }
        }
    }
}

impl Default for MediumOptions {
    fn default() -> Self {
        LogKind::default().into()
    }
}

impl From<LogKind> for MediumOptions {
    fn from(kind: LogKind) -> Self {
        MediumSettings::default().medium(kind)
    }
}

impl From<FileOptions> for MediumOptions {
    fn from(files: FileOptions) -> Self {
        MediumOptions::Files(files)
    }
}

/// Bytes of the heap for which there is one entry by default: few records are shorter.
const BYTES_PER_ENTRY: u64 = 64;

/// Returns whether a log may have this number of entries.
pub(crate) fn entries_valid(entries: u64) -> bool {
    entries.is_power_of_two() && (64..=1 << 28).contains(&entries)
}

/// Returns the maximum number of bytes kept for critical appends in a log with this number of
/// entries: half of the entries, each with a record of the shortest length.
pub(crate) fn reserve_bytes_max(entries: u64) -> u64 {
    entries / 2 * HEADER_BYTES as u64
}

impl MediumOptions {
    /// Returns the kind of this medium.
    pub const fn kind(&self) -> LogKind {
        match self {
            MediumOptions::Files(_) => LogKind::Disk,
            MediumOptions::NvDirect { .. } => LogKind::NvDirect,
            MediumOptions::NvRing { .. } => LogKind::NvRing,
            MediumOptions::NvEntries { .. } => LogKind::NvEntries,
            MediumOptions::NvLogging { .. } => LogKind::NvLogging,
        }
    }

    /// Returns the settings of files, if the medium is files.
    pub const fn files(&self) -> Option<FileOptions> {
        match *self {
            MediumOptions::Files(files) => Some(files),
            MediumOptions::NvDirect { .. }
            | MediumOptions::NvRing { .. }
            | MediumOptions::NvEntries { .. }
            | MediumOptions::NvLogging { .. } => None,
        }
    }

    /// Returns the settings of files, to be changed in place, if the medium is files.
    pub const fn files_mut(&mut self) -> Option<&mut FileOptions> {
        match self {
            MediumOptions::Files(files) => Some(files),
            MediumOptions::NvDirect { .. }
            | MediumOptions::NvRing { .. }
            | MediumOptions::NvEntries { .. }
            | MediumOptions::NvLogging { .. } => None,
        }
    }

    /// Returns the memory, if the medium is NVRAM.
    pub const fn memory(&self) -> Option<NvramOptions> {
        match *self {
            MediumOptions::Files(_) => None,
            MediumOptions::NvDirect { memory, .. }
            | MediumOptions::NvRing { memory, .. }
            | MediumOptions::NvEntries { memory, .. }
            | MediumOptions::NvLogging { memory, .. } => Some(memory),
        }
    }

    /// Returns the memory, to be changed in place, if the medium is NVRAM.
    pub const fn memory_mut(&mut self) -> Option<&mut NvramOptions> {
        match self {
            MediumOptions::Files(_) => None,
            MediumOptions::NvDirect { memory, .. }
            | MediumOptions::NvRing { memory, .. }
            | MediumOptions::NvEntries { memory, .. }
            | MediumOptions::NvLogging { memory, .. } => Some(memory),
        }
    }

    /// Returns the inserter, if the medium has a choice of inserters.
    pub const fn inserter(&self) -> Option<InserterDesign> {
        match *self {
            MediumOptions::Files(FileOptions { inserter, .. })
            | MediumOptions::NvDirect { inserter, .. }
            | MediumOptions::NvRing { inserter, .. } => Some(inserter),
            MediumOptions::NvEntries { .. } | MediumOptions::NvLogging { .. } => None,
        }
    }

    /// Returns the inserter, to be changed in place, if the medium has a choice of inserters.
    pub const fn inserter_mut(&mut self) -> Option<&mut InserterDesign> {
        match self {
            MediumOptions::Files(FileOptions { inserter, .. })
            | MediumOptions::NvDirect { inserter, .. }
            | MediumOptions::NvRing { inserter, .. } => Some(inserter),
            MediumOptions::NvEntries { .. } | MediumOptions::NvLogging { .. } => None,
        }
    }

    /// Returns whether a record lies above all records that any session has appended before. If
    /// not, an append must name the record that it comes after
    /// ([`Append::after`](crate::Append::after)).
    pub const fn keeps_order(&self) -> bool {
        match self.inserter() {
            Some(inserter) => inserter.keeps_order(),
            None => true,
        }
    }

    /// Returns the sizes of a new log: the bytes of a segment, a ring or a heap, and the number of
    /// entries.
    pub(crate) const fn created_with(&self) -> (u64, u64) {
        match *self {
            MediumOptions::Files(FileOptions { segment_bytes, .. }) => (segment_bytes, 0),
            MediumOptions::NvDirect { memory, .. } | MediumOptions::NvRing { memory, .. } => {
                (memory.bytes, 0)
            }
            MediumOptions::NvEntries { memory, entries: 0 }
            | MediumOptions::NvLogging { memory, entries: 0 } => {
                (memory.bytes, memory.bytes / BYTES_PER_ENTRY)
            }
            MediumOptions::NvEntries { memory, entries } | MediumOptions::NvLogging { memory, entries } => {
                (memory.bytes, entries)
            }
        }
    }
}
