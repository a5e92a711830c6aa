//! The memory engine's clock, its slots of running transactions, and the status in which a
//! transaction ends (after Cicada).
//!
//! Any thread. Nothing here knows a record, an index or a log: what is asked of the log is in
//! [`Waits`] and [`DurablePlaces`].

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
    /// A transaction of this thread is about to wait for another: see to it that what this thread
    /// left to a group is written.
    fn before_wait(&self);
}

/// Questions that a transaction's status asks of the log.
pub trait DurablePlaces: Waits {
    /// Returns whether the stream is durable up to `place`. Once it is, it stays so.
    fn is_durable(&self, place: StreamLsn) -> bool;
}
