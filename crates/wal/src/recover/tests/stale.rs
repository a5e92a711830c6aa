//! Records that an opening has cut off never come back.

use super::bench::{Bytes, Writer, bytes_of, directory_of, memory, payload, place};
use crate::recover::Finding;
use katydid_device::WriteMode;
use katydid_kernels::lsn::Lsn;

fn copy_block(from: &Bytes, to: &mut Bytes, at: Lsn) {
    let (name, offset) = place(at.floor_block());
    let bytes = from[&name][offset..offset + 4096].to_vec();
    to.get_mut(&name).unwrap()[offset..offset + 4096].copy_from_slice(&bytes);
}

/// A crash lost the first block that the second opening wrote, and kept the later blocks. The third
/// opening writes up to exactly where the records of those blocks begin. Later openings must not
/// take these old records for successors of the new ones.
#[test]
fn records_beyond_a_truncation_do_not_follow_what_a_later_opening_writes() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    log.commit(&payload(0, 100)).unwrap();
    let mut log = Writer::open(&directory).unwrap();
    log.commit(&payload(1, 100)).unwrap();
    // From here on records have 128 bytes, so that some begin at the start of a block.
    let aligned = log.end().get().next_multiple_of(128) + 128;
    let fillers = log.fill((aligned - log.end().get()) as usize);
    log.write(WriteMode::Durable).unwrap();
    let before = bytes_of(directory.as_ref());
    let from = log.end();
    // The second opening writes two more blocks of records, of which none is known to be durable.
    while log.end() < from.floor_block().plus(3 * 4096) {
        log.append(&payload(2, 80));
    }
    log.write(WriteMode::Durable).unwrap();
    let after = bytes_of(directory.as_ref());
    let mut image = before.clone();
    for file in after.keys() {
        image.entry(file.clone()).or_insert_with(|| after[file].clone());
    }
    copy_block(&after, &mut image, from.floor_block().plus(4096));
    copy_block(&after, &mut image, from.floor_block().plus(2 * 4096));
    // At the third opening the surviving records are beyond a hole.
    let directory = directory_of(&image);
    let mut log = Writer::open(&directory).unwrap();
    assert!(matches!(log.opened.finding, Finding::TornTail { dropped, .. } if dropped > 10));
    assert_eq!(log.payloads().len(), 2 + fillers);
    // Writes up to exactly the position at which an old record begins. These writes do not touch
    // the block of the old record.
    let stale = from.floor_block().plus(4096);
    let more = log.fill(stale.since(log.end()) as usize);
    log.write(WriteMode::Durable).unwrap();
    for _ in 0..3 {
        let log = Writer::open(&directory).unwrap();
        assert_eq!(log.payloads().len(), 2 + fillers + more);
        assert!(log.opened.end >= stale && log.opened.end <= stale.plus(2 * 48));
    }
}

/// The log is trimmed up to its very end, where bytes of an older incarnation make a whole record.
/// The next opening must not take this record for the first one of the log.
#[test]
fn records_of_an_older_incarnation_at_the_start_are_not_the_first() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let from = log.end();
    log.append(&payload(0, 200));
    let boundary = log.end();
    log.append(&payload(1, 40));
    log.write(WriteMode::Written).unwrap();
    let after = bytes_of(directory.as_ref());
    // The first of the two records is lost.
    let mut image = after.clone();
    let (name, offset) = place(from);
    image.get_mut(&name).unwrap()[offset..offset + 16].fill(0);
    let directory = directory_of(&image);
    let log = Writer::open(&directory).unwrap();
    assert_eq!(log.opened.end, from);
    assert_eq!(log.end(), from.plus(48));
    // Fills the log up to the second record, trims there, and puts that record's bytes back as if
    // their sector had never been rewritten.
    let mut log = log;
    log.fill(boundary.since(log.end()) as usize);
    log.write(WriteMode::Durable).unwrap();
    assert_eq!(log.end(), boundary);
    log.store.trim(boundary, log.durable).unwrap();
    drop(log);
    let mut image = bytes_of(directory.as_ref());
    let (name, offset) = place(boundary);
    let stale = after[&name][offset..offset + 88].to_vec();
    image.get_mut(&name).unwrap()[offset..offset + 88].copy_from_slice(&stale);
    let log = Writer::open(&directory_of(&image)).unwrap();
    assert_eq!(log.opened.end, boundary);
    assert_eq!(log.payloads(), Vec::<Vec<u8>>::new());
}

/// Recycled segments are full of valid records with lower LSNs, of which no opening may find one.
#[test]
fn records_of_a_recycled_segment_do_not_come_back() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let mut kept = Vec::new();
    for round in 0..8 {
        for number in 0..40 {
            kept.push(log.commit(&payload(number, 300)).unwrap());
        }
        let to = kept[kept.len() - 5 - round];
        log.store.trim(to, log.durable).unwrap();
        kept.retain(|&lsn| lsn >= to);
        let found: Vec<Lsn> = log.records().unwrap().iter().map(|record| record.lsn).collect();
        assert_eq!(found, kept);
        log = Writer::open(&directory).unwrap();
        let found: Vec<Lsn> = log.records().unwrap().iter().map(|record| record.lsn).collect();
        assert_eq!(found, kept);
        assert!(log.store.bytes_on_disk() < 8 * (16 << 10));
    }
}
