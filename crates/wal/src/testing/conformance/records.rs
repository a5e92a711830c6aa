//! The records that the rules of the suite append, and the checks of the records that are found.

use crate::{Append, Kind, Log, Lsn, Record};

/// Returns a payload that names its thread and its number, and can be checked byte by byte.
pub(super) fn payload(thread: u64, number: u64, bytes: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(bytes + 16);
    payload.extend_from_slice(&thread.to_le_bytes());
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend((0..bytes).map(|at| (at as u64).wrapping_mul(31).wrapping_add(thread * 7 + number) as u8));
    payload
}

pub(super) fn record<'a>(thread: u64, payload: &'a [&'a [u8]]) -> Append<'a> {
    Append::new(Kind::USER, payload).txn(thread)
}

/// Returns all records, after checking that their positions grow and do not overlap.
pub(super) fn read_all(log: &Log) -> Vec<Record> {
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

/// Checks that each thread's records are whole and in the order of their appends, from the first
/// record on, and at least `least` of them. Returns the number of each thread's records.
pub(super) fn check_threads(records: &[Record], threads: usize, least: &[u64]) -> Vec<u64> {
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
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The ends of one thread's records; checks that they grow.
#[derive(Default)]
pub(super) struct Ends(Lsn);

impl Ends {
    pub(super) fn saw(&mut self, appended: &crate::Appended) {
        assert!(self.0 <= appended.first && appended.first <= appended.lsn && appended.lsn < appended.end);
        self.0 = appended.end;
    }
}
