//! The conformance suite: rules for every combination of an inserter and a sync protocol.
//!
//! Call [`conformance`] with a function that opens a log; a broken rule panics in a function named
//! after it. No rule depends on time: the simulated device notifies the rule when a thread waits in
//! a call.

mod completing;
mod failing;
mod filling;
mod in_nvram;
mod records;
mod setup;
mod waiting;

pub use setup::{MakeLog, Sizes};

use crate::{Log, LogKind, SyncKind};
use katydid_device::Directory;
use std::sync::Arc;

/// Checks every rule, each on a log of its own, which has protocol `sync`.
pub fn conformance(sync: SyncKind, make: impl Fn(Arc<dyn Directory>, Sizes) -> Log) {
    let make: MakeLog<'_> = &make;
    filling::records_of_one_session_are_in_order_and_whole(make);
    filling::small_rings_and_segments_wrap(make);
    filling::large_records_travel_as_fragments(make);
    filling::the_largest_record_is_read_back(make);
    filling::too_large_a_record_is_refused_and_nothing_of_it_stays(make);
    filling::a_large_ring_is_written_in_pieces(make);
    filling::sessions_come_and_go(make);
    filling::a_short_run_ahead_is_enough(make);
    filling::frontiers_are_ordered_and_only_grow(make);
    filling::what_is_trimmed_is_recycled(make);
    waiting::each_level_is_reached_before_it_is_acknowledged(make);
    waiting::a_sync_covers_everything_before_it(make);
    waiting::a_position_beyond_the_end_is_refused(make);
    waiting::a_stalled_device_holds_appenders_back_and_lets_them_go(make);
    // The papers' baselines group no commits, or few.
    if sync.shares_syncs() {
        waiting::one_write_serves_all_who_wait(make);
    }
    waiting::closing_keeps_everything_and_refuses_more(make);
    waiting::closing_under_load_keeps_what_was_acknowledged(make, LogKind::Disk);
    waiting::dropping_keeps_everything(make);
    waiting::a_crash_keeps_what_was_durable(make);
    completing::callbacks_run_in_order_where_they_are_polled(make);
    completing::plain_values_come_back_as_callbacks_do(make);
    completing::a_dropped_queue_calls_no_callback(make);
    completing::futures_resolve(make);
    completing::a_dropped_future_is_not_woken(make);
    completing::a_request_needs_no_waiter(make);
    failing::a_failed_write_reaches_everybody(make);
    failing::a_failed_sync_reaches_everybody(make);
    failing::after_a_failure_reading_goes_on_and_opening_recovers(make);
    failing::no_space_is_typed_and_clears(make);
    failing::the_reserve_is_for_critical_records(make);
}

/// The conformance suite for logs in NVRAM: the rules that do not concern devices, and the rules of
/// logs in NVRAM.
pub fn conformance_in_nvram(kind: LogKind, make: impl Fn(Arc<dyn Directory>, Sizes) -> Log) {
    let make: MakeLog<'_> = &make;
    filling::records_of_one_session_are_in_order_and_whole(make);
    filling::small_rings_and_segments_wrap(make);
    filling::large_records_travel_as_fragments(make);
    filling::too_large_a_record_is_refused_and_nothing_of_it_stays(make);
    filling::sessions_come_and_go(make);
    filling::a_short_run_ahead_is_enough(make);
    filling::frontiers_are_ordered_and_only_grow(make);
    filling::what_is_trimmed_is_recycled(make);
    waiting::a_sync_covers_everything_before_it(make);
    waiting::a_position_beyond_the_end_is_refused(make);
    waiting::closing_keeps_everything_and_refuses_more(make);
    waiting::closing_under_load_keeps_what_was_acknowledged(make, kind);
    waiting::dropping_keeps_everything(make);
    waiting::a_crash_keeps_what_was_durable(make);
    completing::plain_values_come_back_as_callbacks_do(make);
    completing::a_request_needs_no_waiter(make);
    failing::the_reserve_is_for_critical_records(make);
    // In `NvDirect` commits do not wait for holes, so a record may be durable while the frontiers
    // still lie below it. The next three rules compare commits with frontiers.
    if kind != LogKind::NvDirect {
        waiting::each_level_is_reached_before_it_is_acknowledged(make);
        completing::callbacks_run_in_order_where_they_are_polled(make);
        completing::futures_resolve(make);
    }
    in_nvram::a_full_ring_is_typed_and_trimming_clears_it(make);
    in_nvram::a_ring_that_goes_round_under_load_loses_nothing(make);
    in_nvram::a_record_that_no_ring_holds_is_refused(make);
    in_nvram::many_threads_on_few_processors_all_end(make);
    in_nvram::readers_and_trimming_do_not_meet(make);
    // A trim of `NvLogging` writes no file that could fail.
    if kind != LogKind::NvLogging {
        in_nvram::a_log_that_cannot_be_trimmed_has_failed(make);
    }
    in_nvram::a_full_log_can_be_opened(make);
}
