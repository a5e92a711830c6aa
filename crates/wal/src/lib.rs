#![doc = include_str!("../README.md")]

mod background;
mod closing;
mod completion;
mod control;
mod core;
mod counters;
mod error;
mod inspect;
mod log;
mod maintenance;
mod nvram;
mod options;
mod parallel;
mod reader;
mod recover;
mod seal;
mod segment;
mod session;
pub mod testing;
mod wakers;

pub use completion::{Callback, Completion, Completions};
pub use control::FORMAT_VERSION;
pub use counters::Counters;
pub use error::{AppendError, Error, OpenError, ReadError, Result};

pub use inspect::{Inspection, SegmentReport, SegmentState, inspect};
pub use katydid_device::nvram::{Form, Persistence};
pub use katydid_device::{Device, Method};
pub use katydid_device::{Stall, Stalls};
pub use katydid_kernels::durability::Durability;
pub use katydid_kernels::insert::{AppendClass, InserterKind};
pub use katydid_kernels::lsn::Lsn;
pub use katydid_kernels::record::{
    Chain, DEPENDENCY_BYTES, HEADER_BYTES, Header, Kind, Part, RECORD_ALIGNMENT, RECORD_BYTES_MAX,
};
pub use katydid_kernels::stamp::CommitStamp;
pub use katydid_kernels::sync::{Group, SyncKind};
#[doc(hidden)]
pub use katydid_kernels::sync::{Heuristic, Heuristics};
pub use katydid_kernels::words::UnknownWord;
pub use log::{Log, ReserveGuard, Space};
#[doc(hidden)]
pub use options::Background;
pub use options::{LogKind, NvramOptions, Options, OptionsError};
pub use parallel::{
    Batch, CommitRecord, Dependencies, MalformedRecord, ParallelCompletion, ParallelCompletions,
    ParallelInspection, ParallelLog, ParallelReadError, ParallelRecord, ParallelRecords, ParallelSession,
    Replay, ReplayError, ReplayReport, Replayed, STREAMS_MAX, StreamId, StreamLsn, Survival,
    inspect_parallel,
};
pub use reader::{Reader, Record, RecordRef};
pub use recover::{Finding, RecoveryReport};
pub use session::{Append, Appended, Session};
