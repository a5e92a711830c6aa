//! The sizes of the log that a rule of the suite needs, for every medium. The caller of the suite
//! opens the log under test with these sizes.

use crate::{FileOptions, Log, LogKind, MediumSettings, NvramOptions, Options};
use katydid_device::{Directory, MemoryDirectory};
use std::sync::Arc;

/// Opens a log over a directory with the given sizes, and with the designs under test.
pub type MakeLog<'a> = &'a dyn Fn(Arc<dyn Directory>, Sizes) -> Log;

/// The sizes that a rule asks for, for a log of any kind.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Settings of every medium.
    pub medium: MediumSettings,
    /// The other settings.
    pub common: Options,
}

impl Sizes {
    /// Returns the options of a log of this kind.
    pub fn options(self, kind: LogKind) -> Options {
        Options { medium: self.medium.medium(kind), ..self.common }
    }
}

/// Returns small sizes, so that the tests reach every limit.
pub(super) fn small() -> Sizes {
    let files = FileOptions {
        segment_bytes: 16 << 10,
        ring_bytes: 16 << 10,
        spare_segments: 2,
        ..FileOptions::default()
    };
    let common =
        Options { run_ahead_bytes: 8 << 10, sessions_max: 64, reserve_bytes: 4 << 10, ..Options::default() };
    Sizes { medium: MediumSettings { files, memory: memory_of(4 << 20), entries: 0 }, common }
}

/// Returns sizes at which ordinary records meet no limit.
pub(super) fn roomy() -> Sizes {
    let files = FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() };
    let common = Options { reserve_bytes: 64 << 10, ..Options::default() };
    Sizes { medium: MediumSettings { files, memory: memory_of(4 << 20), entries: 0 }, common }
}

fn memory_of(bytes: u64) -> NvramOptions {
    NvramOptions { bytes, ..NvramOptions::default() }
}

pub(super) fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}
