//! The engine of a database and the settings that belong to it.
//!
//! Nothing here does I/O.

use crate::error::{Error, Result};
use crate::ids::EngineKind;
use crate::limits::STREAMS_MAX;
use katydid_device::Method;
use std::fmt;

/// An engine and its settings.
///
/// `EngineKind::Memory.into()` is the memory engine with default settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineOptions {
    /// See [`EngineKind::Paged`].
    Paged(PagedOptions),
    /// See [`EngineKind::Memory`].
    Memory(MemoryOptions),
}

/// Settings of the paged engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagedOptions {
    /// Bytes in a page; fixed when the database is created. A power of two from 4,096 to 32,768;
    /// default 8,192. With 4,096, keys have at most 512 bytes.
    pub page_bytes: usize,
    /// Bytes of pages kept in memory; at least 16 pages. The default 0 stands for a share of the
    /// memory that this process may use when it opens the database
    /// ([`device::memory_limit`](crate::device::memory_limit)), and for at least 16 MiB. The share
    /// is a quarter with [`Method::Buffered`], because the system's page cache holds pages as well,
    /// and half with other methods. If the system does not report its memory, 0 stands for 256 MiB.
    /// The cache takes memory as pages are read. Maps from keys to pages take up to 1/16 of
    /// `cache_bytes` in addition. Set this option if the process opens several databases, or needs
    /// the memory for other work.
    pub cache_bytes: usize,
    /// Method of reading and writing pages. Default: [`Method::Buffered`], through the system's
    /// page cache, so that free memory holds pages. [`Method::Direct`] bypasses the system's page
    /// cache, so no page is in memory twice. `Direct` suits a process that may use most of the
    /// machine's memory for `cache_bytes`. [`Method::Uring`] is like `Direct`, and has the reads of
    /// a scan or batch in flight together. Commits are equally durable with all methods. The log
    /// has an option of its own ([`LogOptions::method`](crate::LogOptions::method)). Each opening
    /// may choose another method.
    pub page_method: Method,
    /// Bytes of undo kept in memory per transaction. Default 1 MiB. Transactions below this limit
    /// roll back without reading the log; larger ones read the rest of their undo from the log.
    pub undo_bytes: usize,
    /// Maximum bytes of old values and their keys kept for read views (transactions with
    /// [`Access::ReadOnly`](crate::Access::ReadOnly)). At least 64 KiB, default 256 MiB. Above this
    /// limit the oldest views are given up: their reads fail with `Error::ViewTooOld`. Writers
    /// never wait and never fail because of a view. An open transaction keeps the old values of its
    /// writes even while no view is open, in case a view opens. If these values alone exceed the
    /// limit, views that open before the transaction ends cannot read the tables that it has
    /// written.
    pub view_bytes_max: u64,
}

impl Default for PagedOptions {
    fn default() -> Self {
        PagedOptions {
            page_bytes: 8192,
            cache_bytes: 0,
            page_method: Method::Buffered,
            undo_bytes: 1 << 20,
            view_bytes_max: 256 << 20,
        }
    }
}

/// Settings of the memory engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Maximum bytes of keys, values and their bookkeeping, old versions included, before writes
    /// fail with `Error::MemoryFull`. At least 1 MiB, default 4 GiB. While the database is opened,
    /// recovery may take more memory for a time, because it also reads rows that were deleted since
    /// the last checkpoint, or whose table was dropped since.
    pub memory_bytes: u64,
    /// Number of streams of the log, each with its own memory, files and syncs; fixed when the
    /// database is created. From 1 (one central log) to 64 ([`STREAMS_MAX`](crate::STREAMS_MAX));
    /// 0, the default, stands for one stream for each processor, at most 64. The reserve, the ring
    /// and the sizes of segments of [`AdvancedOptions::log`](crate::AdvancedOptions::log) are
    /// divided among the streams. A stream gets a ring of at least 1 MiB, segments of at least 4
    /// MiB, and a first segment of at least 16 KiB, unless the undivided size is smaller.
    pub streams: u16,
    /// Transactions whose records a commit waits for, besides its own record. Default:
    /// [`CommitDependencies::Tracked`].
    pub commit_dependencies: CommitDependencies,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions { memory_bytes: 4 << 30, streams: 0, commit_dependencies: CommitDependencies::Tracked }
    }
}

/// The transactions whose records a commit of the memory engine waits for, besides its own record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CommitDependencies {
    /// The records of the transactions whose versions the commit has read, and the records that
    /// those records depend on (the "pre-committed" status of versions in Cicada with P-WAL,
    /// section III-B).
    #[default]
    Tracked,
    /// All records that any stream held when the transaction committed (P-WAL's minimum over all
    /// workers, section II-B).
    All,
}

impl fmt::Display for CommitDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CommitDependencies::Tracked => "tracked",
            CommitDependencies::All => "all",
        })
    }
}

impl std::str::FromStr for CommitDependencies {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "tracked" => Ok(CommitDependencies::Tracked),
            "all" => Ok(CommitDependencies::All),
            _ => Err(Error::Option {
                option: "commit_dependencies",
                reason: format!("must be tracked or all, not {text:?}"),
            }),
        }
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineKind::default().into()
    }
}

impl From<EngineKind> for EngineOptions {
    fn from(kind: EngineKind) -> Self {
        kind.with(PagedOptions::default(), MemoryOptions::default())
    }
}

impl From<PagedOptions> for EngineOptions {
    fn from(options: PagedOptions) -> Self {
        EngineOptions::Paged(options)
    }
}

impl From<MemoryOptions> for EngineOptions {
    fn from(options: MemoryOptions) -> Self {
        EngineOptions::Memory(options)
    }
}

impl EngineKind {
    /// Returns this engine with its own settings, `paged` or `memory`; the call ignores the
    /// settings of the other engine.
    pub const fn with(self, paged: PagedOptions, memory: MemoryOptions) -> EngineOptions {
        match self {
            EngineKind::Paged => EngineOptions::Paged(paged),
            EngineKind::Memory => EngineOptions::Memory(memory),
        }
    }
}

impl EngineOptions {
    /// Returns the kind of this engine.
    pub const fn kind(&self) -> EngineKind {
        match self {
            EngineOptions::Paged(_) => EngineKind::Paged,
            EngineOptions::Memory(_) => EngineKind::Memory,
        }
    }

    /// Returns the settings of the paged engine; `None` for the memory engine.
    pub const fn paged_mut(&mut self) -> Option<&mut PagedOptions> {
        match self {
            EngineOptions::Paged(paged) => Some(paged),
            EngineOptions::Memory(_) => None,
        }
    }

    /// Returns the settings of the memory engine; `None` for the paged engine.
    pub const fn memory_mut(&mut self) -> Option<&mut MemoryOptions> {
        match self {
            EngineOptions::Paged(_) => None,
            EngineOptions::Memory(memory) => Some(memory),
        }
    }

    /// Refuses values out of range.
    pub(crate) fn validate(&self) -> Result<()> {
        let check = |good: bool, option, reason: &str| {
            if good { Ok(()) } else { Err(Error::Option { option, reason: reason.to_owned() }) }
        };
        match *self {
            EngineOptions::Paged(PagedOptions { page_bytes: page, cache_bytes, view_bytes_max, .. }) => {
                let good = page.is_power_of_two() && (4096..=32768).contains(&page);
                check(good, "page_bytes", "must be a power of two from 4096 to 32768")?;
                let good = cache_bytes == 0 || cache_bytes / page >= 16;
                check(good, "cache_bytes", "must hold at least 16 pages, or be 0")?;
                check(view_bytes_max >= 64 << 10, "view_bytes_max", "must be at least 65536")
            }
            EngineOptions::Memory(MemoryOptions { memory_bytes, streams, .. }) => {
                check(memory_bytes >= 1 << 20, "memory_bytes", "must be at least 1048576")?;
                check(streams <= STREAMS_MAX, "streams", &format!("must be at most {STREAMS_MAX}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_setting_is_named() {
        let paged = PagedOptions::default();
        let memory = MemoryOptions::default();
        let bad: [(&str, EngineOptions); 6] = [
            ("page_bytes", PagedOptions { page_bytes: 5000, ..paged }.into()),
            ("page_bytes", PagedOptions { page_bytes: 0, ..paged }.into()),
            ("cache_bytes", PagedOptions { cache_bytes: 4096, ..paged }.into()),
            ("view_bytes_max", PagedOptions { view_bytes_max: 1, ..paged }.into()),
            ("memory_bytes", MemoryOptions { memory_bytes: 1, ..memory }.into()),
            ("streams", MemoryOptions { streams: STREAMS_MAX + 1, ..memory }.into()),
        ];
        for (name, options) in bad {
            assert!(
                matches!(options.validate(), Err(Error::Option { option, .. }) if option == name),
                "{name}"
            );
        }
        for kind in [EngineKind::Paged, EngineKind::Memory] {
            let options = EngineOptions::from(kind);
            assert_eq!(options.kind(), kind);
            options.validate().unwrap();
        }
    }
}
