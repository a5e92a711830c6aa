#![doc = include_str!("../README.md")]

mod background;
mod checksum;
mod closing;
mod completion;
mod control;
mod core;
mod counters;
mod error;
mod frontier;
mod insert;
mod inspect;
mod log;
mod lsn;
mod maintenance;
mod nvram;
mod options;
mod parallel;
mod reader;
mod record;
mod recover;
mod ring;
mod segment;
mod session;
mod sync;
mod sync_shim;
pub mod testing;
mod wakers;

pub use completion::{Callback, Completion, Completions};
pub use control::FORMAT_VERSION;
pub use counters::Counters;
pub use error::{AppendError, Error, OpenError, ReadError, Result};
pub use insert::Admission;
pub use inspect::{Inspection, SegmentReport, SegmentState, inspect};
pub use katydid_device::nvram::{Form, Persistence};
pub use katydid_device::{Device, Method};
pub use katydid_device::{Stall, Stalls};
pub use log::{Log, ReserveGuard, Space};
pub use lsn::Lsn;
#[doc(hidden)]
pub use options::Background;
pub use options::{
    Durability, Group, InserterKind, LogKind, NvramOptions, Options, OptionsError, SyncKind, UnknownWord,
};
pub use parallel::{
    Batch, Dependences, Fate, MalformedRecord, ParallelCompletion, ParallelCompletions, ParallelInspection,
    ParallelLog, ParallelReadError, ParallelRecord, ParallelRecords, ParallelSession, Place, Replay,
    ReplayError, ReplayReport, Replayed, STREAMS_MAX, StreamId, inspect_parallel,
};
pub use reader::{Reader, Record, RecordRef};
pub use record::{HEADER_BYTES, Header, Kind, Part, RECORD_ALIGNMENT, RECORD_BYTES_MAX};
pub use recover::{Finding, RecoveryReport};
pub use session::{Append, Appended, Session};
