//! Stages one and two: a place in the log is reserved, and filled.
//!
//! One trait, [`Inserter`]; one file per design; all of them pass `testing::conformance`. Run by
//! every appending thread.
//!
//! Rules for every design:
//!
//! 1. Admission is asked with the value of `reserved` that the reservation starts from (or, for
//!    small records of a few slots, an older one: see [`Admission`]), and before the reservation.
//!    No thread waits while it owns a hole.
//! 2. Between reservation and "filled" there is a copy and nothing else: no allocation, no lock, no
//!    call to the outside.
//! 3. `scan` never claims bytes that are not filled, and sees every reservation that happened
//!    before it.
//!
//! A crash loses what is only here. No caller was told that it is safe.

mod admission;
pub(crate) mod aether;
mod bitmap;
mod buffer;
mod chunked;
mod consolidated;
mod decoupled;
mod delegated;
mod design;
mod grasshopper;
mod hybrid;
mod inserter;
mod marks;
mod mutants;
mod mutex;
#[cfg(test)]
mod small_log;
mod tracker;

pub use admission::{Admission, AppendClass, young_bytes};
pub use buffer::{Admitted, BufferSizes, LogBuffer, OnBuffer, PhysicalRecord, Stalled};
pub use design::{InserterDesign, InserterKind, InserterSettings, OutOfRange};
pub use inserter::{Effort, Inserter};
pub use marks::kernel::{Marks, Scan};
pub use tracker::{Tracker, track};
