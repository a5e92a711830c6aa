//! Readers over logs longer than their window, while the log grows, and while it is trimmed under
//! them.

use super::bench::{Fixed, SEGMENT_BYTES, Writer, memory, options, payload};
use crate::error::ReadError;
use crate::geometry::Geometry;
use crate::medium_options::FileOptions;
use crate::reader::{Reader, RecordFilter};
use crate::recover::Finding;
use crate::segment::Extent;
use crate::segment::SegmentStore;
use crate::segment::header::name;
use katydid_device::{Create, Method, WriteMode};
use katydid_kernels::lsn::Lsn;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A written frontier that a test moves, and the store's start.
#[derive(Debug)]
struct Moving {
    store: Arc<SegmentStore>,
    written: AtomicU64,
}

impl Extent for Moving {
    fn start(&self) -> Lsn {
        self.store.start()
    }

    fn written(&self) -> Lsn {
        Lsn::new(self.written.load(Ordering::Acquire))
    }
}

#[test]
fn a_log_of_several_windows_is_walked_searched_and_read() {
    let (_, directory) = memory();
    let (first_segment_bytes, segment_bytes) = (64 << 10, 1 << 20);
    let options = options().map_files(|files| FileOptions { first_segment_bytes, segment_bytes, ..files });
    let mut log = Writer::open_with(&directory, &options).unwrap();
    let mut count = 0;
    for _ in 0..40 {
        for _ in 0..200 {
            // With these sizes, windows end at many different offsets in a record.
            log.append(&payload(count, 300 + count % 701));
            count += 1;
        }
        log.write(WriteMode::Written).unwrap();
    }
    let damaged = log.append(b"damaged");
    let mut survivors = 0;
    while log.end() < damaged.plus(3 << 20) {
        log.append(&payload(survivors, 900));
        survivors += 1;
    }
    log.write(WriteMode::Written).unwrap();
    // None of these records was known to be durable, so this is a torn tail with many survivors.
    let geometry = Geometry::growing(first_segment_bytes, segment_bytes);
    let file = directory.open(&name(geometry.index(damaged)), Create::Never, Method::Buffered).unwrap();
    file.write_at(&[IoSlice::new(&[0; 16])], geometry.offset(damaged), WriteMode::Durable).unwrap();
    let log = Writer::open_with(&directory, &options).unwrap();
    assert_eq!(log.opened.end, damaged);
    assert_eq!(log.opened.finding, Finding::TornTail { at: damaged, dropped: survivors as u64 });
    assert_eq!(log.opened.records, count as u64 + 1);
    // Recovery reads every byte of the log once.
    let scanned = log.opened.scanned_bytes;
    let written = damaged.get() + (3 << 20);
    assert!((written..written + (2 << 20)).contains(&scanned), "{scanned} of {written}");
    let records = log.records().unwrap();
    assert_eq!(records.len(), count);
    let wrong = records.iter().enumerate().find(|(n, record)| record.payload != payload(*n, 300 + n % 701));
    assert!(wrong.is_none(), "record {:?}", wrong.map(|(n, _)| n));
}

#[test]
fn reading_ahead_shows_the_same_records_and_the_same_damage() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    for number in 0..600 {
        log.append(&payload(number, if number % 100 == 99 { 20_000 } else { 200 + number % 301 }));
    }
    log.write(WriteMode::Durable).unwrap();
    let damaged = log.append(b"damaged");
    for number in 0..200 {
        log.append(&payload(number, 900));
    }
    log.write(WriteMode::Durable).unwrap();
    let read = |ahead: bool| {
        let extent = log.extent();
        let reader =
            Reader::new(log.store.clone(), Arc::new(extent), extent.start, RecordFilter::Users).unwrap();
        let reader = if ahead { reader.read_ahead() } else { reader };
        reader.map(|record| record.map_err(|error| error.to_string())).collect::<Vec<_>>()
    };
    let whole = read(true);
    assert_eq!(whole.len(), 801);
    assert_eq!(whole, read(false));
    let geometry = Geometry::new(SEGMENT_BYTES);
    let file = directory.open(&name(geometry.index(damaged)), Create::Never, Method::Buffered).unwrap();
    file.write_at(&[IoSlice::new(&[0x55])], geometry.offset(damaged) + 48, WriteMode::Durable).unwrap();
    let cut = read(true);
    assert_eq!(cut.len(), 601, "600 records, and what is wrong with the next");
    assert!(cut[600].is_err());
    assert_eq!(cut, read(false));
}

#[test]
fn a_reader_at_the_end_goes_on_when_more_is_written() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let extent = Arc::new(Moving { store: log.store.clone(), written: AtomicU64::new(log.written.get()) });
    let mut reader = Reader::new(log.store.clone(), extent.clone(), Lsn::ZERO, RecordFilter::Users).unwrap();
    assert!(reader.next_record().unwrap().is_none());
    for number in 0..200 {
        let bytes = if number % 50 == 49 { 5_000 } else { number * 3 };
        log.commit(&payload(number, bytes)).unwrap();
        assert!(reader.next_record().unwrap().is_none(), "beyond the written frontier of the extent");
        extent.written.store(log.written.get(), Ordering::Release);
        let record = reader.next_record().unwrap().expect("it was written");
        assert_eq!(record.payload, payload(number, bytes));
        assert!(reader.next_record().unwrap().is_none());
    }
    assert_eq!(reader.position(), log.end());
}

#[test]
fn a_reader_that_was_overtaken_by_trimming_returns_an_error() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let commit = |log: &mut Writer| {
        for number in 0..100 {
            log.commit(&payload(number, 300)).unwrap();
        }
    };
    commit(&mut log);
    let extent = Arc::new(Moving { store: log.store.clone(), written: AtomicU64::new(5_000) });
    let at_first = log.records().unwrap()[0].first;
    let mut reader = Reader::new(log.store.clone(), extent.clone(), at_first, RecordFilter::Users).unwrap();
    assert!(reader.next_record().unwrap().is_some());
    // The reader's segments are trimmed and used again for later parts of the log.
    log.store.trim(log.durable, log.durable).unwrap();
    commit(&mut log);
    extent.written.store(log.written.get(), Ordering::Release);
    let error = loop {
        match reader.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the end of a log that goes on"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ReadError::Trimmed { start, .. } if start == log.store.start()), "{error}");
}

/// The log is trimmed up to the last fragment of a record: the other fragments are gone, and so is
/// the record.
#[test]
fn a_record_whose_first_fragments_were_trimmed_is_not_read() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let lsn = log.commit(&payload(0, 6_000)).unwrap();
    log.commit(b"whole").unwrap();
    log.store.trim(lsn, log.durable).unwrap();
    assert_eq!(log.payloads(), [b"whole"]);
    let extent = Fixed { start: lsn, written: log.written };
    let error = crate::reader::read_record(log.store.as_ref(), &extent, lsn).unwrap_err();
    assert!(matches!(error, ReadError::Trimmed { .. }), "{error}");
    let log = Writer::open(&directory).unwrap();
    assert_eq!(log.payloads(), [b"whole"]);
}

#[test]
fn trimming_to_what_is_no_boundary_is_refused_and_changes_nothing() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let lsn = log.commit(&payload(0, 600)).unwrap();
    log.append(b"in memory");
    for to in [lsn.plus(8), lsn.plus(1), log.end()] {
        log.store.trim(to, log.durable).unwrap_err();
        assert_eq!(log.store.start(), Lsn::ZERO);
    }
    log.store.trim(lsn, log.durable).unwrap();
    log.store.trim(Lsn::ZERO, log.durable).unwrap();
    assert_eq!(log.store.start(), lsn);
}
