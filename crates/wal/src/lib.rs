#![doc = include_str!("../README.md")]

mod append;
mod archive;
mod background;
mod closing;
mod completion;
mod consumer;
mod consumers;
mod control;
mod copy;
mod core;
mod counters;
mod entries;
mod error;
mod files;
mod follow;
mod geometry;
mod head;
mod inspect;
mod log;
mod maintenance;
mod medium;
mod medium_options;
mod nvram;
mod open_log;
mod options;
mod reader;
mod recover;
mod replay;
mod retention;
mod seal;
mod segment;
mod session;
mod stream;
mod streams;
pub mod testing;
mod truncate;
mod truncated;
mod wakers;

pub use append::{Append, Appended};
pub use archive::{ArchivedBytes, Cut, ExtendedLog, RecordMark, Stretch};
pub use completion::{Callback, Completion, Completions};
pub use consumer::{Consumer, ConsumerStat};
pub use control::FORMAT_VERSION;
pub use copy::{CopyTarget, copy_unopened, incarnations};
pub use counters::Counters;
pub use entries::{EntryError, EntryIndex, EntryStep};
pub use error::{AppendError, Error, OpenError, ReadError, Result};
pub use follow::{DependencyStatus, Follower, Stamped};
pub use inspect::{
    Inspection, Records, SegmentReport, SegmentState, StreamInspection, StreamRecord, Survival, inspect,
};
/// The crate of directories and devices. [`Log::open_in`] and [`inspect()`] take its types.
pub use katydid_device as device;
pub use katydid_device::nvram::{Form, Persistence};
pub use katydid_device::{
    Cause, Device, Directory, Error as DeviceError, FileDirectory, Id, MemoryDirectory, Method,
};
pub use katydid_device::{Stall, Stalls, Verb};
pub use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
pub use katydid_kernels::durability::Durability;
pub use katydid_kernels::insert::{AppendClass, InserterDesign, InserterKind, InserterSettings, OutOfRange};
pub use katydid_kernels::lsn::Lsn;
pub use katydid_kernels::record::{
    Chain, DEPENDENCY_BYTES, HEADER_BYTES, Header, Kind, Part, RECORD_ALIGNMENT, RECORD_BYTES_MAX,
};
pub use katydid_kernels::stamp::CommitStamp;
pub use katydid_kernels::sync::{Group, SyncDesign, SyncKind};
#[doc(hidden)]
pub use katydid_kernels::sync::{Heuristic, Heuristics};
pub use katydid_kernels::words::UnknownWord;
pub use log::Log;
pub use medium_options::{FileOptions, LogKind, MediumOptions, MediumSettings, NvramOptions};
#[doc(hidden)]
pub use options::Background;
pub use options::{Options, OptionsError, STREAMS_MAX};
pub use reader::{Reader, Record, RecordRef};
pub use recover::{Finding, RecoveryReport};
pub use replay::{Batch, Replay, ReplayError, ReplayReport, Replayed};
pub use retention::Pin;
pub use session::Session;
pub use stream::{ReserveGuard, Space, Stream};
pub use truncate::Truncation;
