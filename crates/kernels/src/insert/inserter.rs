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
    /// Slot `slot` is going to be used. The caller serialises these calls.
    fn open(&self, slot: usize);

    /// Reserves and fills; returns where the record starts.
    ///
    /// # Errors
    /// [`Stalled`]: admission refused the record, and nothing was reserved.
    ///
    /// # Safety
    /// Otherwise two threads may copy to the same bytes of the ring, or a thread to bytes that a
    /// leader is writing.
    ///
    /// 1. `slot` was opened ([`Inserter::open`]), and one thread at a time is in a call with it.
    ///    Each call happens after the one before with that slot, whichever thread made it.
    /// 2. `buffer` is the log buffer of this inserter: of the sizes and from the start that the
    ///    inserter was made with, the same in each call, and nothing else reserves in it.
    /// 3. The record has at most as many bytes as one of these sizes may
    ///    ([`BufferSizes::physical_bytes_max`](super::BufferSizes::physical_bytes_max)).
    unsafe fn insert(
        &self,
        buffer: &LogBuffer,
        slot: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> Result<Lsn, Stalled>;

    /// Finds out how far the log is filled, and advances that frontier.
    fn scan(&self, buffer: &LogBuffer) -> Scan;

    /// The waker of a thread that only scans, if this design has work for one.
    fn tracker(&self) -> Option<&Tracker> {
        None
    }

    /// Counters of the design.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

/// Byte counts that some designs keep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Effort {
    /// Bytes that were reserved and filled with padding.
    pub padding: u64,
    /// Bytes by which crawling has advanced the filled frontier.
    pub crawled: u64,
    /// Bytes by which hopping has advanced the filled frontier.
    pub hopped: u64,
}
