//! The tables of TATP and their numbers.

/// The tables, in the order in which the workload numbers them.
pub const TABLES: [&str; 5] =
    ["subscriber", "access_info", "special_facility", "call_forwarding", "subscriber_by_number"];

pub(crate) const SUBSCRIBER: usize = 0;
pub(crate) const ACCESS_INFO: usize = 1;
pub(crate) const SPECIAL_FACILITY: usize = 2;
pub(crate) const CALL_FORWARDING: usize = 3;
/// The table that maps telephone numbers to subscribers.
pub(crate) const SUBSCRIBER_BY_NUMBER: usize = 4;
