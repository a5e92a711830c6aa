//! The report of recovery.

use katydid_device::Id;
use katydid_kernels::lsn::Lsn;

/// Finding about the log's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// There was no log: a new one was made, or the making of one finished.
    Created,
    /// Nothing was being written when the log was last used, or nothing of it arrived.
    CleanEnd {
        /// True if the log had been closed.
        closed: bool,
    },
    /// A crash cut what was being written. None of it had been acknowledged as durable; it is gone.
    TornTail {
        /// End of the valid log.
        at: Lsn,
        /// Number of valid records beyond that, which had nothing to stand on.
        dropped: u64,
    },
    /// A crash left holes between records that were acknowledged, as it may in a log of kind
    /// [`LogKind::NvDirect`](crate::LogKind::NvDirect). They are padding now.
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
    /// End of the valid log. Every record below was made durable before it was believed. The
    /// internal Restart record lies here now.
    pub end: Lsn,
    /// The incarnation that begins with this opening.
    pub incarnation: u32,
    /// Finding about the log's end.
    pub finding: Finding,
    /// Number of physical records walked, internal ones included.
    pub records: u64,
    /// Bytes read to find the end.
    pub scanned_bytes: u64,
    /// Size of each segment file, or of the ring in NVRAM, in bytes.
    pub segment_bytes: u64,
}
