//! The medium of a stream: where its records lie, and how filled bytes become durable.
//!
//! [`Medium`] has two implementations: `files/` writes segments, `nvram/medium.rs` persists memory.
//! The rest of the log calls the trait, and need not know the kind of the log. Recovery makes the
//! medium, and everything else that depends on the kind ([`Parts`]).
//!
//! Any thread may call this code. Methods that take a [`Core`] are called with the core that the
//! medium belongs to.
//!
//! Invariants of every implementation:
//!
//! 1. `written` moves only after the medium has taken the bytes, and `durable` only after the
//!    medium keeps them. Both move without a gap.
//! 2. [`Medium::plan`] decides and changes no stored byte; [`Medium::perform`] and [`Medium::sync`]
//!    do what was decided.
//! 3. Each movement of a frontier releases the wakers that wait for it.

use super::Core;
use crate::error::{AppendError, Result};
use crate::geometry::Geometry;
use crate::medium_options::LogKind;
use crate::segment::Source;
use katydid_device::nvram::Form;
use katydid_device::{self as device, Method};
use katydid_kernels::durability::Durability;
use katydid_kernels::insert::{Admission, AppendClass, Inserter};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::ring::RecordMemory;
use katydid_kernels::sync::{Ask, Plan, Planned, SyncProtocol};
use std::fmt;
use std::sync::Arc;

/// The use of the medium's space, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    /// Bytes of records from the start on.
    pub(crate) live: u64,
    /// Bytes that appends may take without further preparation.
    pub(crate) prepared: u64,
}

/// See the head of this file.
pub(crate) trait Medium: fmt::Debug + Send + Sync {
    // ---- what it is

    fn kind(&self) -> LogKind;

    /// Returns the form of the memory (real, emulated or simulated), if records lie in NVRAM.
    fn form(&self) -> Option<Form>;

    /// Returns the I/O method of the file that holds `at`, if records lie in files.
    fn method(&self, at: Lsn) -> Option<Method>;

    /// Sizes of the segments, if records lie in files.
    fn geometry(&self) -> Option<Geometry>;

    /// Returns the source that readers read from.
    fn source(&self) -> Arc<dyn Source>;

    // ---- space

    fn start(&self) -> Lsn;

    /// Returns the first position beyond the prepared space: reservations end here.
    fn prepared_end(&self) -> Lsn;

    /// Returns the number of bytes that the medium takes on its device.
    fn bytes(&self) -> u64;

    /// Returns the space that a log ending at `reserved` uses.
    fn space(&self, reserved: Lsn) -> Use;

    /// Returns the maximum number of bytes between the start and the reserved frontier when `slack`
    /// bytes cannot be used; `None` if the medium's size is not fixed.
    fn capacity(&self, slack: u64) -> Option<u64>;

    /// Returns the maximum bytes of one record of this class in a log that holds nothing else.
    fn record_bytes_max(&self, admission: &Admission, class: AppendClass) -> u64;

    /// Returns the maximum bytes by which the reserve of a log that holds nothing can be raised.
    fn raise_bytes_max(&self, admission: &Admission) -> u64;

    /// Returns the used part of the space for normal appends, in per mille, if the medium's size is
    /// fixed.
    fn fullness(&self, core: &Core) -> Option<u32>;

    /// Drops the log below `to`, durably. If the start is at or above `to` already, does nothing.
    fn trim(&self, core: &Core, to: Lsn) -> Result<()>;

    /// Stores durably that the log is durable up to `durable`. Called when the log closes.
    fn note_durable(&self, durable: Lsn) -> device::Result<()>;

    /// Returns whether a log of this kind can be truncated.
    fn is_truncatable(&self) -> bool {
        false
    }

    /// Returns whether the log may have records that truncate.
    fn truncates(&self) -> bool {
        false
    }

    /// Stores durably that the log may have records that truncate, if its kind allows them.
    fn allow_truncations(&self) -> device::Result<()> {
        Ok(())
    }

    /// Does, or waits for, the work that must be done before `bytes` can be admitted; `step` counts
    /// the attempts.
    fn make_room(
        &self,
        core: &Core,
        bytes: u64,
        class: AppendClass,
        step: u32,
    ) -> std::result::Result<(), AppendError>;

    /// Waits until there is prepared space for `bytes` more.
    fn make_prepared(
        &self,
        core: &Core,
        bytes: u64,
        class: AppendClass,
    ) -> std::result::Result<(), AppendError>;

    /// Returns whether a maintenance thread has to prepare space.
    fn is_prepared_ahead(&self) -> bool;

    /// Prepares space once, and returns true; returns false if space is prepared up to `reach` and
    /// as far ahead as wanted. Called by the maintenance thread.
    fn prepare(&self, core: &Core, reach: u64) -> device::Result<bool>;

    /// Wakes the maintenance thread if space runs short.
    fn nudge_maintenance(&self, core: &Core);
    /// Returns whether this is one of several streams, is still in its first segment, and has no
    /// prepared space for a further record. A stream that was never used may be in this state.
    /// Closing appends no record to such a stream, because the record would need another segment.
    fn is_unused(&self, _: &Core) -> bool {
        false
    }

    // ---- from filled to durable

    /// Moves the frontiers over records that appends have made durable by themselves.
    fn look(&self, core: &Core);

    /// Returns whether `end`, which the frontiers have not reached, is at `level` nevertheless.
    fn is_settled(&self, core: &Core, end: Lsn, level: Durability) -> bool;

    /// Tries to bring `end` to `level` on the calling thread, without blocking. Returns whether
    /// `end` is at `level`, or never will be.
    fn try_here(&self, core: &Core, end: Lsn, level: Durability) -> bool;

    /// In NVRAM, waits until the frontiers have reached `end`: there is then no hole below it. In
    /// files, does nothing, because no record above a hole is acknowledged there.
    fn settle(&self, core: &Core, end: Lsn);

    /// Decides on the next write. Called by one thread at a time: rules of
    /// [`katydid_kernels::sync`].
    fn plan(&self, core: &Core, ask: Ask) -> Plan;

    /// Performs a write that was planned.
    fn perform(&self, core: &Core, write: &Planned);

    /// Ends a write after [`Medium::perform`] has panicked.
    fn abandon(&self, core: &Core, write: &Planned);

    /// Makes all written bytes durable; if `again` is set, syncs even if all of them are durable
    /// already.
    fn sync(&self, core: &Core, again: bool);

    /// Returns whether the medium keeps everything below `to`.
    fn is_durable(&self, core: &Core, to: Lsn) -> bool;

    /// Returns the position up to which whole records can be read.
    fn readable(&self, core: &Core) -> Lsn;

    /// Waits until no write is under way. Called when no write begins any more.
    fn wait_for_writes(&self);
}

/// The parts of a stream that depend on its medium.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) medium: Box<dyn Medium>,
    pub(crate) memory: RecordMemory,
    pub(crate) admission: Admission,
    pub(crate) inserter: Box<dyn Inserter>,
    pub(crate) protocol: Box<dyn SyncProtocol>,
    /// True if records lie in the order of their appends.
    pub(crate) in_order: bool,
    /// Maximum bytes of a physical record.
    pub(crate) physical_bytes_max: usize,
}
