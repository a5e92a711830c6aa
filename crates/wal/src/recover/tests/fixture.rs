//! The log kept under `tests/fixtures`, and the writer that makes it.
//!
//! Run with `KATYDID_WRITE_FIXTURES=1` to write it anew, which is right only together with a new format version, in a
//! folder of its own: the files of a version that was ever released stay as they are.

use super::bench::{Bytes, Writer, bytes_of, memory, options, payload};
use crate::inspect::inspect;
use katydid_device::WriteMode;
use katydid_kernels::record::Kind;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Two lives of a log: records of two kinds, some in fragments and some across segments, a trimmed first segment, one
/// clean close and one end without.
fn make() -> Bytes {
    let (_, directory) = memory();
    let options = crate::Options { segment_bytes: 8 << 10, ..options() };
    let mut log = Writer::open_with(&directory, &options).unwrap();
    let mut lsns = Vec::new();
    for number in 0..12 {
        let bytes = payload(number, number * 80);
        lsns.push(log.append_kind(Kind::new(16 + number as u8 % 2), &bytes));
        log.write(WriteMode::Durable).unwrap();
    }
    lsns.push(log.commit(&payload(12, 3_000)).unwrap());
    log.commit(&payload(13, 10)).unwrap();
    log.store.trim(lsns[11], log.durable).unwrap();
    log.close().unwrap();
    let mut log = Writer::open_with(&directory, &options).unwrap();
    log.commit(&payload(14, 700)).unwrap();
    log.append(&payload(15, 0));
    log.write(WriteMode::Durable).unwrap();
    bytes_of(directory.as_ref())
}

/// What is in it, one line for each record.
fn list() -> String {
    let files = make();
    let inspection = inspect(super::bench::directory_of(&files).as_ref()).unwrap();
    let mut list = String::from("lsn first end kind txn prev bytes text\n");
    for record in inspection.records().unwrap().map(Result::unwrap) {
        let text: String = record.payload.iter().take(12).map(|&byte| char::from(byte)).collect();
        let (lsn, first, end) = (record.lsn, record.first, record.end);
        let (kind, txn, prev, bytes) = (record.kind, record.txn, record.prev, record.payload.len());
        writeln!(list, "{lsn} {first} {end} {kind} {txn} {prev} {bytes} {}", text.trim_end()).unwrap();
    }
    list
}

#[test]
fn the_fixture_is_what_this_version_writes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let mut files = make();
    files.insert("records.txt".to_owned(), list().into_bytes());
    if std::env::var_os("KATYDID_WRITE_FIXTURES").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in &files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in &files {
        let kept = std::fs::read(folder.join(name)).unwrap();
        let differs = kept.iter().zip(bytes).position(|(kept, now)| kept != now);
        assert_eq!((kept.len(), differs), (bytes.len(), None), "{name}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), files.len());
}
