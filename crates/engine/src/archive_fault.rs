//! Reasons why a log cannot be archived, or an archive cannot be restored. Nothing here does I/O.

use crate::CommitStamp;
use katydid_device::Id;
use katydid_wal::{LogKind, Lsn};
use std::time::SystemTime;

/// The reason for an [`Error::Archive`](crate::Error::Archive).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveFault {
    /// The archive is empty.
    #[error("the archive holds no log")]
    Empty,
    /// The archive, or a file in it, holds the log of another database.
    #[error("{file} has the log of database {found}, not of {wanted}")]
    OtherDatabase {
        /// The file.
        file: String,
        /// Id of the database whose log the file holds.
        found: Id,
        /// Id of the database whose log is wanted.
        wanted: Id,
    },
    /// Archiving found that the log was trimmed past the end of the archive. The records between
    /// these two positions are in no archive: make a new backup, and begin a new archive.
    #[error(
        "the archive ends at position {archived_to}, and the log starts at {log_start}: the records between are in no archive"
    )]
    LogTrimmed {
        /// The end of the archive.
        archived_to: Lsn,
        /// The start of the log.
        log_start: Lsn,
    },
    /// Archiving found that the archive and the log of the database have different histories,
    /// because the database was replaced by an older copy of its files.
    #[error(
        "the log of the database is not the one that was archived: record {at} is another one, or missing"
    )]
    OtherHistory {
        /// LSN of the last record in the archive, or the archive's end.
        at: Lsn,
    },
    /// The archive lacks a part of the log.
    #[error("no archived file has the log from position {from} to {to}")]
    Missing {
        /// The first position that is missing.
        from: Lsn,
        /// Position at which the archive continues.
        to: Lsn,
    },
    /// A file of the archive is damaged.
    #[error("{file} is corrupt, where it should have the log from position {at}: {finding}")]
    Corrupt {
        /// The file.
        file: String,
        /// The position in the log.
        at: Lsn,
        /// The fault, in words.
        finding: String,
    },
    /// A file of the archive was written by a newer version of the format.
    #[error("{file} has format version {found}, and this program reads version {known}")]
    NewerVersion {
        /// The file.
        file: String,
        /// The version of the file's format.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The backup has commits after the point that is wanted. An older backup is needed.
    #[error("the backup is of stamp {backup}, after stamp {wanted}: an older backup is needed")]
    BackupIsLater {
        /// The stamp of the backup.
        backup: CommitStamp,
        /// The stamp that is wanted.
        wanted: CommitStamp,
    },
    /// The archive ends before the stamp that is wanted.
    #[error("the archive ends at stamp {end}, before stamp {wanted}")]
    EndsBefore {
        /// The last stamp that can be restored.
        end: CommitStamp,
        /// The stamp that is wanted.
        wanted: CommitStamp,
    },
    /// The archive has noted no time at or before the wanted time, or none at or after the wanted
    /// time. So the commits up to that time are not known.
    #[error("what was committed at that time is not known: {}", KnownMoments(*first, *last))]
    TimeUnknown {
        /// The first time that the archive has noted, if it has noted any.
        first: Option<SystemTime>,
        /// The last time that the archive has noted, if it has noted any.
        last: Option<SystemTime>,
    },
    /// [`Database::compact`](crate::Database::compact) has moved the pages of the database after
    /// the backup was made. A backup made after the compaction is needed.
    #[error(
        "the database was compacted before position {at}, after the backup was made: a later backup is needed"
    )]
    Compacted {
        /// LSN of the first record after the compaction.
        at: Lsn,
    },
    /// The log of the database is in NVRAM. Only a log in files can be archived.
    #[error("its log is in NVRAM (kind {log}), and cannot be archived")]
    LogInNvram {
        /// The kind of log.
        log: LogKind,
    },
}

struct KnownMoments(Option<SystemTime>, Option<SystemTime>);

impl std::fmt::Display for KnownMoments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds =
            |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        match (self.0, self.1) {
            (Some(first), Some(last)) => write!(
                f,
                "the archive has noted moments from {} to {} (seconds since 1970)",
                seconds(first),
                seconds(last)
            ),
            _ => f.write_str("the archive has noted no moments"),
        }
    }
}
