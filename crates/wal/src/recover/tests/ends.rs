//! Logs that end well, or in a torn write.

use super::bench::{Writer, bytes_of, directory_of, memory, payload, place};
use crate::inspect::inspect_stream as inspect;
use crate::recover::Finding;
use katydid_device::WriteMode;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Kind;

#[test]
fn a_new_log_is_empty_and_stays_itself() {
    let (_, directory) = memory();
    let first = Writer::open(&directory).unwrap();
    assert_eq!(first.opened.finding, Finding::Created);
    assert_eq!((first.incarnation, first.opened.start, first.opened.end), (1, Lsn::ZERO, Lsn::ZERO));
    assert_eq!(first.records().unwrap(), []);
    let second = Writer::open(&directory).unwrap();
    assert_eq!(second.opened.finding, Finding::CleanEnd { closed: false });
    assert_eq!((second.incarnation, second.opened.log_id), (2, first.opened.log_id));
    assert_eq!(second.opened.end, first.end(), "the first opening's Restart record is kept");
    assert_eq!(second.records().unwrap(), []);
}

#[test]
fn what_was_committed_is_read_back_over_many_segments() {
    let (_, directory) = memory();
    let mut expected = Vec::new();
    for round in 0..4 {
        let mut log = Writer::open(&directory).unwrap();
        for number in 0..40 {
            // Some records are larger than a fragment, some larger than a segment.
            let bytes = if number % 13 == 12 { 20_000 } else { 37 * number + round };
            expected.push(payload(expected.len(), bytes));
            log.commit(expected.last().unwrap()).unwrap();
        }
        assert_eq!(log.payloads(), expected);
        let records = log.records().unwrap();
        assert!(records.windows(2).all(|pair| pair[0].end <= pair[1].first), "in order");
        log.close().unwrap();
        let inspection = inspect(directory.as_ref()).unwrap();
        assert_eq!(inspection.finding.clone().unwrap(), Finding::CleanEnd { closed: true });
        let inspected: Vec<_> = inspection.records().unwrap().map(Result::unwrap).collect();
        let users: Vec<_> = inspected.iter().filter(|record| record.kind.is_user()).cloned().collect();
        assert_eq!(users, records);
        let restarts = inspected.iter().filter(|record| record.kind == Kind::RESTART).count();
        assert_eq!(restarts, round + 1);
    }
    let log = Writer::open(&directory).unwrap();
    assert_eq!(log.opened.finding, Finding::CleanEnd { closed: true });
    assert_eq!(log.payloads(), expected);
}

/// The last write, not known to have been durable, is cut at every sector; then each of its sectors
/// in turn is lost alone. Earlier records stay, the records found are a prefix, and the log
/// continues after that prefix and loses nothing more.
#[test]
fn a_torn_last_write_loses_only_what_it_held() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let mut kept: Vec<Vec<u8>> = (0..30).map(|number| payload(number, 300)).collect();
    for payload in &kept {
        log.commit(payload).unwrap();
    }
    let durable = log.durable;
    // Make room first, so that both images have the same files.
    while log.store.prepared_end() < durable.plus(16 << 10) {
        log.store.prepare_next().unwrap();
    }
    let before = bytes_of(directory.as_ref());
    let mut ends = vec![durable];
    for number in 0..24 {
        kept.push(payload(100 + number, 60 * number));
        log.append(kept.last().unwrap());
        ends.push(log.end());
    }
    log.write(WriteMode::Durable).unwrap();
    let after = bytes_of(directory.as_ref());
    assert_ne!(place(durable).0, place(log.end()).0, "the write crosses into another segment");
    let sectors: Vec<(&String, usize)> = after
        .iter()
        .flat_map(|(name, bytes)| (0..bytes.len() / 512).map(move |sector| (name, sector * 512)))
        .filter(|(name, at)| before[*name][*at..*at + 512] != after[*name][*at..*at + 512])
        .collect();
    assert!(sectors.len() > 20);
    let mut torn = 0;
    for first_lost in 0..=sectors.len() {
        for lost in [first_lost..sectors.len(), first_lost..(first_lost + 1).min(sectors.len())] {
            let mut image = after.clone();
            for (name, at) in &sectors[lost] {
                image.get_mut(*name).unwrap()[*at..*at + 512].copy_from_slice(&before[*name][*at..*at + 512]);
            }
            let directory = directory_of(&image);
            let mut log = Writer::open(&directory).unwrap();
            let found = log.payloads();
            assert!(found.len() >= 30, "durable records are lost");
            assert_eq!(found, kept[..found.len()]);
            assert!(ends.contains(&log.opened.end));
            if let Finding::TornTail { at, .. } = log.opened.finding {
                assert_eq!(at, log.opened.end);
                torn += 1;
            }
            // The log continues from there, also over further openings.
            log.commit(b"more").unwrap();
            log.close().unwrap();
            let mut log = Writer::open(&directory).unwrap();
            log.commit(b"and more").unwrap();
            let log = Writer::open(&directory).unwrap();
            let expected = [&found[..], &[b"more".to_vec(), b"and more".to_vec()]].concat();
            assert_eq!(log.payloads(), expected);
        }
    }
    assert!(torn > sectors.len(), "only {torn} of the cuts tore a record");
}

#[test]
fn fragments_without_a_last_one_are_no_record() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    log.commit(b"before").unwrap();
    let from = log.end();
    let lsn = log.append(&payload(1, 9_000));
    log.write(WriteMode::Durable).unwrap();
    let mut image = bytes_of(directory.as_ref());
    assert!(lsn > from.plus(4096), "it came in fragments");
    // The last fragment's first sector is lost.
    let (name, offset) = place(lsn);
    image.get_mut(&name).unwrap()[offset..offset / 512 * 512 + 512].fill(0);
    let directory = directory_of(&image);
    let mut log = Writer::open(&directory).unwrap();
    assert_eq!(log.payloads(), [b"before"]);
    log.commit(b"after").unwrap();
    let log = Writer::open(&directory).unwrap();
    assert_eq!(log.payloads(), [&b"before"[..], b"after"]);
}

/// The end of a window or of a segment may fall anywhere in a record; the lengths in this test make
/// it do so.
#[test]
fn the_end_may_be_anywhere_in_a_block_or_segment() {
    for bytes in (0..=1024).step_by(8) {
        let (_, directory) = memory();
        let mut log = Writer::open(&directory).unwrap();
        // The log's end comes within a kilobyte of the segment's end, on either side of it.
        log.commit(&vec![1; 900]).unwrap();
        for _ in 0..10 {
            log.commit(&vec![2; 952]).unwrap();
        }
        log.commit(&vec![3; bytes]).unwrap();
        let (records, end) = (log.records().unwrap(), log.end());
        let again = Writer::open(&directory).unwrap();
        assert_eq!(again.opened.end, end);
        assert_eq!(again.records().unwrap(), records);
    }
}
