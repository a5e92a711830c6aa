//! The report of recovery.

use katydid_device::Id;
use katydid_kernels::lsn::Lsn;

/// Finding about the log's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// There was no log: this opening made one, or finished making one.
    Created,
    /// No write was interrupted when the log was last used, or no part of the interrupted write
    /// reached the device.
    CleanEnd {
        /// True if the log had been closed.
        closed: bool,
    },
    /// A crash interrupted a write. The part that was written is cut off; no record in that part
    /// was acknowledged as durable.
    TornTail {
        /// End of the valid log.
        at: Lsn,
        /// Number of valid records beyond `at`, which are dropped because a record before them is
        /// missing.
        dropped: u64,
    },
    /// A crash left holes between records that were acknowledged, as may happen in a log of kind
    /// [`LogKind::NvDirect`](crate::LogKind::NvDirect). Recovery has filled the holes with padding.
    Holes {
        /// Position of the first hole.
        at: Lsn,
        /// Number of holes.
        holes: u64,
    },
}

/// Findings and actions of recovery when the log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// The log's id.
    pub log_id: Id,
    /// Start of the log. Everything below was trimmed.
    pub start: Lsn,
    /// End of the valid log, where the internal Restart record is. Recovery made every record below
    /// `end` durable before it relied on the record.
    pub end: Lsn,
    /// The incarnation that begins with this opening: the number of the opening.
    pub incarnation: u32,
    /// Finding about the log's end.
    pub finding: Finding,
    /// Number of physical records that were read, internal ones included.
    pub records: u64,
    /// Number of bytes that were read to find the end.
    pub scanned_bytes: u64,
    /// Size of the largest segment files, or of the ring or heap in NVRAM, in bytes.
    pub segment_bytes: u64,
}
