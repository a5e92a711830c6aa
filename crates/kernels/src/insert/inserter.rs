//! The trait of the designs that put records into the log buffer.
//!
//! The rules for designs are in the head of [`insert`](crate::insert).

use super::admission::AppendClass;
use super::buffer::{LogBuffer, PhysicalRecord, Stalled};
use super::marks::kernel::Scan;
use super::tracker::Tracker;
use crate::lsn::Lsn;
use std::fmt::Debug;

/// A design by which threads put records into the ring.
pub trait Inserter: Send + Sync + Debug {
    /// Announces that `slot` will be used from now on. Callers make these calls one at a time.
    fn open(&self, slot: usize);

    /// Reserves bytes for a record and fills them. Returns the position at which the record starts.
    ///
    /// # Errors
    /// [`Stalled`]: admission refused the record, and nothing was reserved.
    ///
    /// # Safety
    /// If a caller breaks one of these rules, two threads may copy to the same bytes of the ring,
    /// or a thread may copy to bytes that a leader is writing.
    ///
    /// 1. `slot` was opened ([`Inserter::open`]), and one thread at a time is in a call with it.
    ///    Each call with a slot happens after the previous call with that slot, also if another
    ///    thread made that call.
    /// 2. `buffer` is the log buffer of this inserter. The buffer has the sizes and the start with
    ///    which the inserter was made, and is the same in each call. No other code reserves in it.
    /// 3. The record has at most the maximum size of a physical record
    ///    ([`BufferSizes::physical_bytes_max`](super::BufferSizes::physical_bytes_max)).
    unsafe fn insert(
        &self,
        buffer: &LogBuffer,
        slot: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> Result<Lsn, Stalled>;

    /// Finds out how far the log is filled, and advances the filled frontier.
    fn scan(&self, buffer: &LogBuffer) -> Scan;

    /// The tracker of this design, if the design has work for a thread that only scans.
    fn tracker(&self) -> Option<&Tracker> {
        None
    }

    /// The design's counters.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

/// Byte counts that some designs keep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Effort {
    /// Bytes that were filled with padding (`chunked`).
    pub padding: u64,
    /// Bytes by which crawling (`grasshopper`) has advanced the filled frontier.
    pub crawled: u64,
    /// Bytes by which hopping (`grasshopper`) has advanced the filled frontier.
    pub hopped: u64,
}
