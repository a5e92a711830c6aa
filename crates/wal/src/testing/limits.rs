//! The rate that no inserter can exceed: header, checksum and copy of a record, without an
//! inserter.
//!
//! The measurements run real threads. No thread computes the filled frontier, and no thread makes
//! room: the rings are written over and over.

use super::rate::{Tally, batch, on_threads};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{
    Chain, HEADER_BYTES, HeaderFields, Kind, Layout, Part, padded_len, prepare_header,
};
use katydid_kernels::ring::Ring;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs `threads` threads, each of which puts records into a ring of its own; the threads share no
/// word.
///
/// # Panics
/// If a record is larger than the ring.
pub fn private_rings(ring_bytes: usize, threads: usize, record: usize, time: Duration) -> Tally {
    assert!(padded_len(record) <= ring_bytes, "a record of {record} bytes in a ring of {ring_bytes}");
    on_threads(threads, time, |number| {
        let (ring, payload) = (Ring::new(ring_bytes), payload(number, record));
        let mut at = Lsn::ZERO;
        move || {
            let batch = batch(record);
            for _ in 0..batch {
                put(&ring, &payload, |bytes| {
                    let start = at;
                    at = start.plus(bytes);
                    start
                });
            }
            (batch, batch * record as u64)
        }
    })
}

/// Runs one thread, which reserves by adding to a word, without admission, and puts records into a
/// ring.
///
/// # Panics
/// If a record is larger than the ring.
pub fn bare_word(ring_bytes: usize, record: usize, time: Duration) -> Tally {
    assert!(padded_len(record) <= ring_bytes, "a record of {record} bytes in a ring of {ring_bytes}");
    let reserved = AtomicU64::new(0);
    on_threads(1, time, |number| {
        let (ring, payload) = (Ring::new(ring_bytes), payload(number, record));
        let reserved = black_box(&reserved);
        move || {
            let batch = batch(record);
            for _ in 0..batch {
                put(&ring, &payload, |bytes| Lsn::new(reserved.fetch_add(bytes, Ordering::SeqCst)));
            }
            (batch, batch * record as u64)
        }
    })
}

fn payload(number: usize, record: usize) -> Vec<u8> {
    vec![number as u8; record.saturating_sub(HEADER_BYTES)]
}

/// Stands for the durable frontier, which each header stores.
static DURABLE: AtomicU64 = AtomicU64::new(0);

/// Puts a record as an inserter does: the checksum first, then the reservation, then the copies.
#[inline]
fn put(ring: &Ring, payload: &[u8], reserve: impl FnOnce(u64) -> Lsn) {
    let durable = Lsn::new(DURABLE.load(Ordering::Acquire));
    let fields = HeaderFields {
        incarnation: 1,
        kind: Kind::USER,
        txn: 1,
        chain: Chain::NONE,
        durable,
        layout: Layout::InLine,
    };
    let prepared = prepare_header(&fields, Part::Whole, None, std::iter::once(black_box(payload)));
    let at = reserve(prepared.padded() as u64);
    let head = prepared.header(at);
    let padding = prepared.padded() - prepared.len();
    // SAFETY: the ring is this thread's own, nothing reads it, and the record is no larger than the
    // ring (the callers check).
    unsafe {
        ring.fill(at, &[&head], 0);
        ring.fill(at.plus(head.len() as u64), &[payload], padding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the check a release build writes a larger record beyond the end of the ring.
    #[test]
    fn a_record_larger_than_the_ring_is_refused() {
        let time = Duration::from_millis(1);
        for record in [4097, 60_000] {
            std::panic::catch_unwind(|| private_rings(4096, 1, record, time)).expect_err("too large");
            std::panic::catch_unwind(|| bare_word(4096, record, time)).expect_err("too large");
            std::panic::catch_unwind(|| super::super::rate::alone(4096, 1, record, 1))
                .expect_err("too large");
        }
    }

    #[test]
    fn counts_what_it_does() {
        let time = Duration::from_millis(2);
        for record in [48, 120, 12_288] {
            for tally in [private_rings(64 << 10, 2, record, time), bare_word(64 << 10, record, time)] {
                assert_eq!(tally.bytes, tally.records * record as u64, "{tally:?}");
                assert!(tally.of_one_thread.0 > 0 && tally.records_per_second() > 0.0, "{tally:?}");
            }
        }
    }
}
