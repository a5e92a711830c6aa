//! Description of a figure, and the lists with which the command line can vary it.
//!
//! Pure functions.

use crate::host::device::{Device, MethodName};
use katydid_wal::{Group, InserterKind, LogKind, SyncKind};
use std::time::Duration;

/// Flags that may have a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFlag {
    Threads,
    Sync,
    Skew,
    Delay,
    Payload,
    IoUnit,
    InFlight,
}

impl ListFlag {
    pub fn flag(self) -> &'static str {
        match self {
            ListFlag::Threads => "--threads",
            ListFlag::Sync => "--sync",
            ListFlag::Skew => "--skew",
            ListFlag::Delay => "--delay",
            ListFlag::Payload => "--payload",
            ListFlag::IoUnit => "--io-unit",
            ListFlag::InFlight => "--in-flight",
        }
    }
}

/// Description of a figure.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub name: &'static str,
    /// Subject of the figure, with paper and number.
    pub about: &'static str,
    /// Result of the paper.
    pub saw: &'static str,
    /// Explanation of our version of the figure.
    pub note: &'static str,
    /// Flags of the settings that the figure varies.
    pub varies: &'static [ListFlag],
    /// I/O method of the log, unless the command line chooses one.
    pub method: MethodName,
    /// Device of the log, unless the command line chooses one.
    pub device: Device,
    /// Seconds of each run. All runs of the figure, with opening, loading and checking, take about
    /// a minute.
    pub seconds: f64,
    /// Number of runs of each case.
    pub rounds: usize,
}

/// Lists from the command line. An empty list leaves the figure's own.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    pub threads: Vec<usize>,
    pub syncs: Vec<SyncKind>,
    pub skews: Vec<f64>,
    pub delays: Vec<Duration>,
    pub payloads: Vec<usize>,
    pub io_units: Vec<usize>,
    pub in_flight: Vec<usize>,
    /// Inserter; `None` for the figure's own, which is the log's default if the paper names none.
    pub inserter: Option<InserterKind>,
    pub log: LogKind,
}

pub const MS: Duration = Duration::from_millis(1);
pub const BLOCKING: usize = 1;
/// Transactions in flight of the figure's clients that do not block in each commit.
pub const IN_FLIGHT: &[usize] = &[100];

/// ELEDA's I/O unit (4.3, 6.5.3): the flusher writes when a unit is full, or after a time that the
/// paper does not state.
pub fn fill(unit: usize) -> Group {
    Group { commits: 0, bytes: unit as u64, microseconds: FILL_US }
}

const FILL_US: u64 = 1000;

/// The protocols with these names, in this order.
pub fn syncs_called(names: &[&str]) -> Vec<SyncKind> {
    let called =
        |name: &&str| SyncKind::ALL.into_iter().find(|kind| kind.to_string().replace('_', "-") == **name);
    names.iter().filter_map(called).collect()
}
