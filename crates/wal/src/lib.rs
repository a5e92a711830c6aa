//! Under construction.

mod checksum;
mod control;
mod error;
mod inspect;
mod lsn;
mod options;
mod reader;
mod record;
mod recover;
mod segment;
mod sync_shim;

pub use control::FORMAT_VERSION;
pub use error::{AppendError, Error, OpenError, ReadError, Result};
pub use inspect::{Inspection, SegmentReport, SegmentState, inspect};
pub use lsn::Lsn;
pub use options::{Durability, InserterKind, Options, OptionsError, SyncKind, UnknownWord};
pub use reader::{Reader, Record, RecordRef};
pub use record::{HEADER_BYTES, Header, Kind, Part, RECORD_ALIGNMENT, RECORD_BYTES_MAX};
pub use recover::{Finding, RecoveryReport};
