//! `Database::close` while other calls run: it waits for the calls under way, and no thread of the
//! old opening touches the directory after `close` has returned.
//!
//! `device`: a directory that can hold up its device calls. `beside`: each public call, and pairs
//! of them, held up at each device call while another thread closes. `check`: a check held up while
//! the database is opened, changed and closed. `waits`: what close does not wait for, and from
//! where it may be called. `race`: committing threads while another thread closes, at random.

#[path = "../common/mod.rs"]
#[macro_use]
mod common;

mod beside;
mod check;
mod device;
mod race;
mod waits;

use beside::{each_call_held_up_at_each_device_call, pairs_of_calls_held_up};
use check::a_check_that_an_opening_overtakes_judges_what_is_there;
use race::committers_beside_close_leave_a_true_mark;
use waits::{
    a_begin_that_waits_for_a_slot_is_ended, a_body_may_close, a_callback_may_close,
    a_check_may_be_closed_from_its_progress, a_drop_that_waits_for_a_transaction_is_ended,
    a_failure_is_returned_to_every_closer, a_waiter_for_a_lock_is_ended, a_waker_may_close,
    closers_at_the_same_time_return_when_it_is_done, every_call_on_a_closed_database_says_so,
    the_last_handle_waits_as_well,
};

suite! {
    each_call_held_up_at_each_device_call,
    pairs_of_calls_held_up,
    committers_beside_close_leave_a_true_mark,
    a_begin_that_waits_for_a_slot_is_ended,
    a_body_may_close,
    a_callback_may_close,
    a_check_may_be_closed_from_its_progress,
    a_check_that_an_opening_overtakes_judges_what_is_there,
    a_drop_that_waits_for_a_transaction_is_ended,
    a_failure_is_returned_to_every_closer,
    a_waker_may_close,
    closers_at_the_same_time_return_when_it_is_done,
    every_call_on_a_closed_database_says_so,
    the_last_handle_waits_as_well,
}

#[test]
fn a_waiter_for_a_lock_is_ended_at_once() {
    a_waiter_for_a_lock_is_ended(katydid::EngineKind::Paged);
}
