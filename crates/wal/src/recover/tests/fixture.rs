//! The log kept under `tests/fixtures`, and the writer that makes it.
//!
//! With `KATYDID_WRITE_FIXTURES=1` the test writes the log anew. Write it anew only for a new
//! format version, and in a folder of its own: the files of a version that was ever released stay
//! as they are.

use super::bench::{Bytes, Writer, bytes_of, memory, options, payload};
use crate::inspect::inspect_stream as inspect;
use katydid_device::WriteMode;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{Chain, Kind};
use katydid_kernels::stamp::CommitStamp;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Returns the chain of record `number`; the records use every kind of chain in turn. Only the
/// number of dependencies is right; their bytes are the payload's.
fn chain(number: usize, last: Lsn) -> Chain {
    match number % 3 {
        0 => Chain::Previous(last),
        1 => Chain::NONE,
        _ => Chain::Commit {
            stamp: CommitStamp::new(1 << 40 | number as u64),
            dependencies: number as u16 / 4,
        },
    }
}

/// Makes a log in two lives: records of two kinds, some in fragments and some across segments,
/// every kind of chain, a trimmed first segment, one clean close, and one end without a close.
fn make() -> Bytes {
    let (_, directory) = memory();
    let options = options().map_files(|files| crate::FileOptions { segment_bytes: 8 << 10, ..files });
    let mut log = Writer::open_with(&directory, &options).unwrap();
    let mut lsns = Vec::new();
    for number in 0..12 {
        let bytes = payload(number, number * 80);
        let last = lsns.last().copied().unwrap_or(Lsn::ZERO);
        lsns.push(log.append_chained(Kind::new(16 + number as u8 % 2), chain(number, last), &bytes));
        log.write(WriteMode::Durable).unwrap();
    }
    let stamp = CommitStamp::new(1 << 40 | 12);
    let commit = Chain::Commit { stamp, dependencies: 120 };
    lsns.push(log.append_chained(Kind::USER, commit, &payload(12, 3_000)));
    log.write(WriteMode::Durable).unwrap();
    log.commit(&payload(13, 10)).unwrap();
    log.store.trim(lsns[11], log.durable).unwrap();
    log.close().unwrap();
    let mut log = Writer::open_with(&directory, &options).unwrap();
    log.commit(&payload(14, 700)).unwrap();
    log.append(&payload(15, 0));
    log.write(WriteMode::Durable).unwrap();
    bytes_of(directory.as_ref())
}

/// Returns the contents of the log, one line for each record.
fn list() -> String {
    let files = make();
    let inspection = inspect(super::bench::directory_of(&files).as_ref()).unwrap();
    let mut list = String::from("lsn first end kind txn chain bytes text\n");
    for record in inspection.records().unwrap().map(Result::unwrap) {
        let text: String = record.payload.iter().take(12).map(|&byte| char::from(byte)).collect();
        let (lsn, first, end) = (record.lsn, record.first, record.end);
        let (kind, txn, bytes) = (record.kind, record.txn, record.payload.len());
        let chain = match record.chain {
            Chain::Previous(previous) => previous.to_string(),
            Chain::Commit { stamp, dependencies } => format!("{stamp}+{dependencies}"),
        };
        writeln!(list, "{lsn} {first} {end} {kind} {txn} {chain} {bytes} {}", text.trim_end()).unwrap();
    }
    list
}

#[test]
fn the_fixture_is_what_this_version_writes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v2");
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
