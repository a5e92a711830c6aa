//! The memory engine's clock, its slots of running transactions, and the status in which a
//! transaction ends (after Cicada).
//!
//! Any thread may call this code. This module knows no record, index or log: the traits [`Waits`]
//! and [`DurablePlaces`] are its only questions to the log.

mod clock;
mod deadline;
mod slots;
mod status;
#[cfg(test)]
mod testing;

pub use clock::{Clock, HandClock, SLOTS_MAX, Source, Timestamp};
pub use deadline::Deadline;
pub use slots::{Slots, Stuck};
pub use status::{Outcome, TxnState, TxnStatus};

use crate::dependencies::StreamLsn;

/// Questions that a wait for another transaction asks of the log.
pub trait Waits {
    /// Called when a transaction of this thread is about to wait for another one. The log must make
    /// sure that the records that this thread left to a group are written.
    fn before_wait(&self);
}

/// Questions that a transaction's status asks of the log.
pub trait DurablePlaces: Waits {
    /// Returns whether the stream of `place` is durable up to `place.end`. A true result stays
    /// true.
    fn is_durable(&self, place: StreamLsn) -> bool;
}
