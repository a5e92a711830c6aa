//! What every combination of an inserter and a sync protocol has to do.
//!
//! Call [`conformance`] with something that opens a log; a broken rule panics in a function named after it. Nothing here
//! depends on time: where a thread must have come to a halt, the simulated device says so.

mod failing;
mod filling;
mod in_nvram;
mod telling;
mod waiting;

use crate::{
    Append, FileOptions, Kind, Log, LogKind, Lsn, MediumSettings, NvramOptions, Options, Record, SyncKind,
};
use katydid_device::{Directory, MemoryDirectory};
use std::sync::Arc;

/// Opens a log over a directory with the given options, but for the designs under test, which it chooses itself.
pub type MakeLog<'a> = &'a dyn Fn(Arc<dyn Directory>, Sizes) -> Log;

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
    waiting::each_level_is_reached_before_it_is_told(make);
    waiting::a_sync_covers_everything_before_it(make);
    waiting::a_position_beyond_the_end_is_refused(make);
    waiting::a_stalled_device_holds_appenders_back_and_lets_them_go(make);
    // The papers' baseline does not group.
    if sync != SyncKind::PerCommit {
        waiting::one_write_serves_all_who_wait(make);
    }
    waiting::closing_keeps_everything_and_refuses_more(make);
    waiting::closing_under_load_keeps_what_was_acknowledged(make, LogKind::Disk);
    waiting::dropping_keeps_everything(make);
    waiting::a_crash_keeps_what_was_durable(make);
    telling::callbacks_run_in_order_where_they_are_polled(make);
    telling::plain_values_come_back_as_callbacks_do(make);
    telling::a_queue_dropped_tells_nobody(make);
    telling::futures_resolve(make);
    telling::a_dropped_future_is_not_woken(make);
    telling::a_request_needs_nobody_to_wait(make);
    failing::a_failed_write_reaches_everybody(make);
    failing::a_failed_sync_reaches_everybody(make);
    failing::after_a_failure_reading_goes_on_and_opening_recovers(make);
    failing::no_space_is_typed_and_clears(make);
    failing::the_reserve_is_for_critical_records(make);
}

/// The same for logs in NVRAM: the rules that do not speak of devices, and those of such logs.
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
    telling::plain_values_come_back_as_callbacks_do(make);
    telling::a_request_needs_nobody_to_wait(make);
    failing::the_reserve_is_for_critical_records(make);
    // Where holes are not waited for, a frontier may lag behind what is durable.
    if kind != LogKind::NvDirect {
        waiting::each_level_is_reached_before_it_is_told(make);
        telling::callbacks_run_in_order_where_they_are_polled(make);
        telling::futures_resolve(make);
    }
    in_nvram::a_full_ring_is_typed_and_trimming_clears_it(make);
    in_nvram::a_ring_that_goes_round_under_load_loses_nothing(make);
    in_nvram::a_record_that_no_ring_holds_is_refused(make);
    in_nvram::many_threads_on_few_processors_all_end(make);
    in_nvram::readers_and_trimming_do_not_meet(make);
    in_nvram::a_log_that_cannot_be_trimmed_has_failed(make);
    in_nvram::a_full_log_can_be_opened(make);
}

/// The sizes of a log that a rule asks for, whatever it is kept in.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Settings of every medium.
    pub medium: MediumSettings,
    /// The other settings.
    pub common: Options,
}

impl Sizes {
    /// Options of a log of this kind.
    pub fn options(self, kind: LogKind) -> Options {
        Options { medium: self.medium.medium(kind), ..self.common }
    }
}

/// Small sizes, so that every limit is met.
fn small() -> Sizes {
    let files = FileOptions {
        segment_bytes: 16 << 10,
        ring_bytes: 16 << 10,
        spare_segments: 2,
        ..FileOptions::default()
    };
    let common =
        Options { run_ahead_bytes: 8 << 10, sessions_max: 64, reserve_bytes: 4 << 10, ..Options::default() };
    Sizes { medium: MediumSettings { files, memory: memory_of(4 << 20), entries: 0 }, common }
}

/// Sizes at which ordinary records meet no limit.
fn roomy() -> Sizes {
    let files = FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() };
    let common = Options { reserve_bytes: 64 << 10, ..Options::default() };
    Sizes { medium: MediumSettings { files, memory: memory_of(4 << 20), entries: 0 }, common }
}

fn memory_of(bytes: u64) -> NvramOptions {
    NvramOptions { bytes, ..NvramOptions::default() }
}

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// A payload that says who wrote it as which record, and can be checked byte by byte.
fn payload(thread: u64, number: u64, bytes: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(bytes + 16);
    payload.extend_from_slice(&thread.to_le_bytes());
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend((0..bytes).map(|at| (at as u64).wrapping_mul(31).wrapping_add(thread * 7 + number) as u8));
    payload
}

fn record<'a>(thread: u64, payload: &'a [&'a [u8]]) -> Append<'a> {
    Append::new(Kind::USER, payload).txn(thread)
}

/// All records, after checking that their positions grow and do not overlap.
fn read_all(log: &Log) -> Vec<Record> {
    let records: Vec<Record> = log
        .first()
        .reader(log.first().start())
        .expect("reader")
        .map(|record| record.expect("record"))
        .collect();
    for pair in records.windows(2) {
        assert!(pair[0].end <= pair[1].lsn, "records overlap or are out of order");
    }
    records
}

/// Checks that each thread's records are there, whole, in the order it wrote them, from its first to at least `least` of
/// them; how many there are of each.
fn check_threads(records: &[Record], threads: usize, least: &[u64]) -> Vec<u64> {
    let mut next = vec![0; threads];
    for record in records {
        let word =
            |at: usize| record.payload[at..at + 8].try_into().map(u64::from_le_bytes).expect("eight bytes");
        let (thread, number) = (word(0), word(8));
        assert_eq!(thread, record.txn, "a record of somebody else");
        assert_eq!(number, next[thread as usize], "thread {thread}: a record is missing or out of order");
        assert_eq!(record.payload, payload(thread, number, record.payload.len() - 16), "damaged");
        next[thread as usize] += 1;
    }
    for (thread, least) in least.iter().enumerate() {
        assert!(
            next[thread] >= *least,
            "thread {thread}: {} records, {least} were acknowledged",
            next[thread]
        );
    }
    next
}

/// Numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The ends of what one thread appended: checks that they grow.
#[derive(Default)]
struct Ends(Lsn);

impl Ends {
    fn saw(&mut self, appended: &crate::Appended) {
        assert!(self.0 <= appended.first && appended.first <= appended.lsn && appended.lsn < appended.end);
        self.0 = appended.end;
    }
}
