//! Options for a replica whose log has the paper's designs.
//!
//! Pure functions.

use katydid::{
    EngineOptions, FileOptions, InserterDesign, LogOptions, Method, Options, SyncDesign, SyncKind,
};

/// The paper's pool of slots (section 4).
const SLOTS: u32 = 16;

/// Options of a replica's database: durable commits by the protocol `sync`, a consolidation array
/// of 16 slots and 16 flush slots as in the paper, and writes of the log through the page cache.
/// [`SyncKind::Slotted`] is the paper's existing scheme, [`SyncKind::Aggregated`] its proposed one.
pub fn paper_options(engine: EngineOptions, sync: SyncKind) -> Options {
    let sync = match sync {
        SyncKind::Aggregated => SyncDesign::Aggregated { flush_slots: SLOTS },
        SyncKind::Slotted => SyncDesign::Slotted { flush_slots: SLOTS },
        other => other.into(),
    };
    let files = FileOptions {
        inserter: InserterDesign::Consolidated { consolidation_slots: SLOTS as usize },
        sync,
        ..FileOptions::default()
    };
    let mut options = Options { engine, ..Options::default() };
    options.advanced.log =
        LogOptions { medium: files.into(), method: Method::Buffered, ..options.advanced.log };
    options
}
