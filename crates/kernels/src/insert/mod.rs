//! Stages one and two of a commit: a thread reserves a range of the log, and fills it.
//!
//! All designs implement the trait [`Inserter`] and pass `testing::conformance` of `katydid-wal`.
//! Each design has a file of its own. Every appending thread runs this code.
//!
//! Rules for every design:
//!
//! 1. A thread asks for admission before the reservation, with the value of `reserved` at which the
//!    reservation starts. Small records of a few slots may use an older value (see [`Admission`]).
//!    No thread waits while it owns a hole.
//! 2. Between the reservation and the end of the copy a thread only copies: no allocation, no lock,
//!    no call to other modules.
//! 3. `scan` reports only filled bytes as filled, and its cutoff covers every reservation that
//!    happened before the scan.
//!
//! A crash loses records that are only in the log buffer. None of them was acknowledged as written
//! or durable.

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
