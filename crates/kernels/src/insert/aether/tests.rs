//! Groups of records of different sizes, in the log buffer of production.

use super::super::{Admission, BufferSizes};
use super::*;
use crate::frontier::Frontiers;
use crate::record::{Chain, HEADER_BYTES, HeaderFields, Kind, Layout, Part, prepare_header};
use crate::ring::{RecordMemory, Ring};

const THREADS: usize = 3;
const SIZES: BufferSizes =
    BufferSizes { ring_bytes: 1 << 20, run_ahead_bytes: 512 << 10, reserve_bytes: 0, sessions: THREADS };

fn buffer() -> LogBuffer {
    let buffer = LogBuffer {
        frontiers: Frontiers::at(Lsn::ZERO),
        memory: RecordMemory::Ring(Ring::new(SIZES.ring_bytes)),
        admission: Admission::new(&SIZES),
    };
    buffer.admission.refresh(&buffer.frontiers, Lsn::LIMIT);
    buffer
}

fn insert<O: Order + Send + Sync + Debug>(
    aether: &Aether<O>,
    buffer: &LogBuffer,
    session: usize,
    bytes: usize,
) -> Lsn {
    let fields = HeaderFields {
        incarnation: 1,
        kind: Kind::USER,
        txn: 1,
        chain: Chain::NONE,
        durable: Lsn::ZERO,
        layout: Layout::InLine,
    };
    let payload = vec![session as u8; bytes - HEADER_BYTES];
    let payload = [payload.as_slice()];
    let prepared = prepare_header(&fields, Part::Whole, None, payload.into_iter());
    let mut record = PhysicalRecord { prepared: &prepared, payload: &payload, after: Lsn::ZERO };
    // SAFETY: each session has one thread. The buffer has the sizes with which the inserter was
    // made, and the records of all sessions fit into it.
    let inserted = unsafe { aether.insert(buffer, session, &mut record, AppendClass::Normal) };
    inserted.expect("there is room")
}

/// Takes the latch, starts threads, and asserts that they reserve as one group.
fn one_group_forms<O: Order + Send + Sync + Debug>(aether: &Aether<O>, buffer: &LogBuffer, bytes: usize) {
    let begin = buffer.frontiers.reserved().get();
    let total = (THREADS * bytes) as u64;
    let slots = aether.slots.as_ref().expect("a design with groups");
    aether.latch.take();
    let mut starts: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|session| scope.spawn(move || insert(aether, buffer, session, bytes).get()))
            .collect();
        // The loop is bounded, because threads that form no group wait for the latch and are never
        // seen in a slot.
        let joined = (0..1_000_000).any(|step| {
            pause(step % 1000);
            slots.joined_bytes() == total
        });
        aether.latch.give();
        let starts = threads.into_iter().map(|thread| thread.join().expect("appender")).collect();
        assert!(joined, "{THREADS} records of {bytes} bytes form one group");
        starts
    });
    starts.sort_unstable();
    let expected: Vec<u64> = (0..THREADS as u64).map(|member| begin + member * bytes as u64).collect();
    assert_eq!(starts, expected);
    let ends = [buffer.frontiers.reserved(), buffer.frontiers.filled()].map(Lsn::get);
    assert_eq!(ends, [begin + total; 2], "the last member releases the whole group");
}

/// Record sizes up to a third of the largest group: three larger records would form two groups.
const RECORD_BYTES: [usize; 5] = [1024, 1032, 1920, 12 << 10, 40 << 10];

#[test]
fn large_records_form_groups_as_small_ones_do() {
    let buffer = buffer();
    let consolidated = super::super::consolidated::inserter(1, &SIZES);
    RECORD_BYTES.iter().for_each(|&bytes| one_group_forms(&consolidated, &buffer, bytes));
    let buffer = self::buffer();
    let hybrid = super::super::hybrid::inserter(1, &SIZES);
    RECORD_BYTES.iter().for_each(|&bytes| one_group_forms(&hybrid, &buffer, bytes));
    let buffer = self::buffer();
    let delegated = super::super::delegated::inserter(1, &SIZES);
    RECORD_BYTES.iter().for_each(|&bytes| one_group_forms(&delegated, &buffer, bytes));
}
