//! What every design of putting records into the log buffer does.
//!
//! The rules for designs are in the head of [`insert`](crate::insert).

use super::admission::AppendClass;
use super::buffer::{LogBuffer, PhysicalRecord, Stalled};
use super::marks::kernel::Scan;
use super::tracker::Tracker;
use crate::lsn::Lsn;
use std::fmt::Debug;

/// A design of putting records into the ring.
pub trait Inserter: Send + Sync + Debug {
    /// Slot `slot` is going to be used. The caller serialises these calls.
    fn open(&self, slot: usize);

    /// Reserves and fills; returns where the record starts. At most one thread at a time uses one slot.
    fn insert(
        &self,
        buffer: &LogBuffer,
        slot: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> Result<Lsn, Stalled>;

    /// Finds out how far the log is filled, and advances that frontier.
    fn scan(&self, buffer: &LogBuffer) -> Scan;

    /// How a thread that only scans is woken, if this design has work for one.
    fn tracker(&self) -> Option<&Tracker> {
        None
    }

    /// What it has done so far.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

/// What some designs count, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Effort {
    /// Reserved and filled with padding.
    pub padding: u64,
    /// By which the filled frontier was advanced in crawling.
    pub crawled: u64,
    /// By which it was advanced in hopping.
    pub hopped: u64,
}
