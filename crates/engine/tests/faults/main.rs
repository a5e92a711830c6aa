//! The store on a device that fails, stalls, or is full: every engine, sync protocol, lock release
//! and method.
//!
//! Each file has faults of its own kind:
//!
//! - `matrix`: one write or sync of the log fails, while callers of every kind wait for it, and
//!   other callers read the writes of those that wait.
//! - `steps`: each call that changes the device fails in one run of a whole life of a database;
//!   each read of recovery fails in one opening.
//! - `stalls`: nothing fails, but calls take a long time.
//! - `creation`: the machine crashes while a database is made.
//! - `futures`: nothing fails; callers drop their futures.
//! - `loads`: any one call of a bulk load fails, or the machine crashes at it.
//! - `unsafe_commits`: the process or the machine ends, after commits that asked for less than
//!   durability.
//! - `single`: one kind of failure in each test.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod creation;
mod futures;
mod loads;
mod matrix;
mod single;
mod stalls;
mod steps;
mod unsafe_commits;

use katydid::{
    CommitDependencies, EngineKind, Error, Group, LockRelease, MemoryOptions, Method, Options, PagedOptions,
    SyncDesign, SyncKind,
};
use katydid_device::{Id, SimDevice, Survival};
use std::time::Duration;

/// One way to open a database.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Engine of the database.
    pub engine: EngineKind,
    /// Sync protocol.
    pub sync: SyncKind,
    /// Lock release.
    pub release: LockRelease,
    /// I/O method. A further method is a further line in [`Setting::all`].
    pub method: Method,
    /// Method of the paged engine's pages. The method changes from setting to setting.
    pub page_method: Method,
    /// Number of streams of the log; 1 in the paged engine.
    pub streams: u16,
    /// The memory engine's rule for the commits that a commit waits for.
    pub commit_dependencies: CommitDependencies,
    /// Bytes of a page of the paged engine. The size changes from setting to setting.
    pub page_bytes: usize,
}

/// Group commit as in Cicada with P-WAL: up to 5 commits, or 500 us.
const GROUP: Group = Group { commits: 5, bytes: 0, microseconds: 500 };

/// Returns whether a file is one of the log's segments.
pub fn is_segment(path: &str) -> bool {
    path.starts_with("log/") && path.contains("/log.0")
}

impl Setting {
    /// Returns all settings. The memory engine has single and group commit and the defaults, with
    /// streams and rules in turn.
    pub fn all(engine: EngineKind) -> Vec<Setting> {
        let syncs = match engine {
            EngineKind::Paged => &SyncKind::ALL[..],
            _ => &[SyncKind::PerCommit, SyncKind::Pipelined, SyncKind::Inline, SyncKind::Adaptive],
        };
        let mut all = Vec::new();
        for sync in syncs.iter().copied() {
            for release in [LockRelease::Early, LockRelease::AfterDurable] {
                for method in [Method::Direct, Method::Buffered] {
                    let number = all.len();
                    let streams = if engine == EngineKind::Paged { 1 } else { 1 + number as u16 % 3 };
                    let commit_dependencies =
                        [CommitDependencies::Tracked, CommitDependencies::All][(number / 3) % 2];
                    // The size is shifted at each round, so that each size is combined with every
                    // release and method.
                    let page_bytes = 4096 << ((number + number / 4) % 4);
                    let page_method = [Method::Buffered, Method::Direct][(number + number / 2) % 2];
                    all.push(Setting {
                        engine,
                        sync,
                        release,
                        method,
                        page_method,
                        streams,
                        commit_dependencies,
                        page_bytes,
                    });
                }
            }
        }
        all
    }

    /// Returns options with small files, and without checkpoints except requested ones.
    pub fn options(self) -> Options {
        let mut options = common::small_options();
        let page_bytes = self.page_bytes;
        options.engine = self.engine.with(
            PagedOptions {
                page_bytes,
                cache_bytes: 16 * page_bytes,
                page_method: self.page_method,
                ..common::SMALL_PAGES
            },
            MemoryOptions {
                streams: self.streams,
                commit_dependencies: self.commit_dependencies,
                ..MemoryOptions::default()
            },
        );
        options.advanced.lock_release = self.release;
        options.advanced.checkpoint_bytes = 1 << 30;
        options.advanced.log_soft_bytes = 1 << 30;
        // A wait this long is seen as a hang of the test.
        options.lock_wait = Duration::from_secs(600);
        let sync = match (self.engine, self.sync) {
            (EngineKind::Memory, SyncKind::Pipelined) => SyncDesign::pipelined(GROUP),
            (EngineKind::Memory, SyncKind::Inline) => SyncDesign::Inline { group: GROUP },
            (_, sync) => sync.into(),
        };
        options.advanced.log.method = self.method;
        options.advanced.log = options.advanced.log.map_files(|files| katydid::FileOptions {
            segment_bytes: 64 << 10,
            ring_bytes: 64 << 10,
            sync,
            ..files
        });
        options.advanced.log.reserve_bytes = 64 << 10;
        options.advanced.log.run_ahead_bytes = 16 << 10;
        options.advanced.log.log_id = Some(Id::new(1));
        options
    }
}

/// Returns the states that the next opening may find on a device, each with a name.
pub fn later(device: &SimDevice) -> Vec<(String, SimDevice)> {
    let mut later = vec![("the process died".to_owned(), device.reopen_after_kill())];
    for (survival, seeds) in
        [(Survival::DropAll, 1), (Survival::KeepAll, 1), (Survival::Prefix, 2), (Survival::Random, 2)]
    {
        for seed in 0..seeds {
            later.push((
                format!("the machine crashed, {survival:?} {seed}"),
                device.reopen_with(seed, survival),
            ));
        }
    }
    later
}

/// Returns the text of the first failure, which caused all later errors.
pub fn first(error: &Error) -> String {
    fn of_device(error: &katydid_device::Error) -> String {
        match &error.cause {
            katydid_device::Cause::Poisoned(earlier) => of_device(earlier),
            _ => error.to_string(),
        }
    }
    match error {
        Error::Poisoned { cause } | Error::MustRollBack { cause } => first(cause),
        Error::Device(error) => of_device(error),
        other => other.to_string(),
    }
}
