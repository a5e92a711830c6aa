//! Options of a backup and its report.

use crate::CommitStamp;
use crate::report::VerifyReport;
use katydid_device::Id;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// A receiver of progress, called with the number of bytes copied so far and the number of bytes to
/// copy in all. The second number may grow, because it counts only the parts of the source that
/// were measured so far. Returning `Break` cancels the backup.
///
/// The receiver runs on the thread that copies: between two pieces of at most 1 MiB, and at least
/// ten times a second while the thread sleeps to keep to a speed limit. The receiver may use the
/// database, and close it.
pub type BackupProgress = Arc<dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync>;

/// Options of a backup or a restore.
#[derive(Clone, Default)]
pub struct BackupOptions {
    /// Maximum number of bytes copied per second, averaged since the beginning of the copy.
    /// Default: `None`, no limit.
    pub bytes_per_second: Option<NonZeroU64>,
    /// True to check the finished copy as [`Database::verify_path`](crate::Database::verify_path)
    /// does: the check recovers the copy in memory and reads all of it, and does not change it.
    /// Default: false.
    pub verify: bool,
    /// A receiver of progress. Default: `None`.
    pub on_progress: Option<BackupProgress>,
}

impl fmt::Debug for BackupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupOptions")
            .field("bytes_per_second", &self.bytes_per_second)
            .field("verify", &self.verify)
            .field("on_progress", &self.on_progress.is_some())
            .finish()
    }
}

/// The outcome of a backup or a restore.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BackupReport {
    /// The id of the copy, which no other database has.
    pub id: Id,
    /// The stamp of the copy. Paged engine: the copy has exactly the commits with this stamp or a
    /// lower one. Memory engine: the copy has no commit with a higher stamp, and it has all commits
    /// with a lower stamp that were durable when the copying ended.
    pub stamp: CommitStamp,
    /// Number of bytes copied.
    pub bytes: u64,
    /// Time that the copying took, without the check.
    pub elapsed: Duration,
    /// The findings of the check, if [`BackupOptions::verify`] asked for one.
    pub verified: Option<VerifyReport>,
}
