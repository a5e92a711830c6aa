//! Files of every version of the format are kept in `tests/fixtures`. Through the public API, the
//! files of the current version are read here, and those of other versions are refused.
//!
//! The test in `src/recover/tests/fixture.rs` makes the files of the current version.

use katydid_device::{Create, Directory, Id, MemoryDirectory, Method, WriteMode};
use katydid_wal::{
    Chain, Durability, FORMAT_VERSION, FileOptions, Finding, Log, Lsn, OpenError, Options, Record,
    SegmentState, inspect,
};
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;

fn folder(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version)
}

/// Returns a copy in memory of the files of a version, so that the files in the folder stay as they
/// are.
fn copy(version: &str) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    for entry in std::fs::read_dir(folder(version)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !name.ends_with(".txt") {
            let bytes = std::fs::read(entry.path()).unwrap();
            let file = directory.open(&name, Create::New, Method::Buffered).unwrap();
            file.write_at(&[IoSlice::new(&bytes)], 0, WriteMode::Durable).unwrap();
        }
    }
    directory
}

fn line(record: &Record) -> String {
    let text: String = record.payload.iter().take(12).map(|&byte| char::from(byte)).collect();
    let Record { lsn, first, end, kind, txn, chain, payload } = record;
    let chain = match chain {
        Chain::Previous(previous) => previous.to_string(),
        Chain::Commit { stamp, dependencies } => format!("{stamp}+{dependencies}"),
    };
    format!("{lsn} {first} {end} {kind} {txn} {chain} {} {}", payload.len(), text.trim_end())
}

#[test]
fn version_2_is_read_and_goes_on() {
    let expected = std::fs::read_to_string(folder("v2").join("records.txt")).unwrap();
    let directory = copy("v2");
    let found = inspect(&directory).unwrap();
    let inspection = found.first().unwrap();
    assert_eq!((found.id, found.streams.len(), found.is_complete), (Id::new(0x5eed), 1, true));
    assert_eq!(inspection.finding.clone().unwrap(), Finding::CleanEnd { closed: false });
    assert_eq!(
        (inspection.log_id, inspection.segment_bytes, inspection.incarnation),
        (Id::new(0x5eed), 8 << 10, 2)
    );
    let states: Vec<SegmentState> = inspection.segments.iter().map(|segment| segment.state).collect();
    assert_eq!(states, [SegmentState::Trimmed, SegmentState::Live, SegmentState::Live]);
    assert!(inspection.start > Lsn::ZERO);
    let lines: Vec<String> = inspection.records().unwrap().map(|record| line(&record.unwrap())).collect();
    assert_eq!(lines, expected.lines().skip(1).collect::<Vec<_>>());

    let options = Options {
        medium: FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() }.into(),
        reserve_bytes: 0,
        ..Options::default()
    };
    let log = Log::open_in(Arc::new(directory.clone()), options).unwrap();
    assert_eq!((log.first().recovery().incarnation, log.first().recovery().end), (3, inspection.end));
    assert_eq!(log.first().recovery().segment_bytes, 8 << 10, "the size it was created with");
    log.session()
        .unwrap()
        .append(&katydid_wal::Append::new(katydid_wal::Kind::USER, &[b"record of today"]))
        .unwrap();
    let end = log.first().sync().unwrap();
    log.first().wait(end, Durability::Durable).unwrap();
    let users: Vec<Record> = log.first().reader(log.first().start()).unwrap().map(Result::unwrap).collect();
    let kept = inspection.records().unwrap().map(Result::unwrap).filter(|record| record.kind.is_user());
    assert!(kept.eq(users[..users.len() - 1].iter().cloned()));
    assert_eq!(users.last().unwrap().payload, b"record of today");
    log.close().unwrap();
}

/// Returns the name and bytes of every file of the directory.
fn content(directory: &MemoryDirectory) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let file = directory.open_read_only(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        let got = file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(got, bytes.len());
        (name, bytes)
    };
    let mut names = directory.list().unwrap();
    names.sort();
    names.into_iter().map(read).collect()
}

#[test]
fn version_1_is_refused_by_name_and_stays_as_it_is() {
    let directory = copy("v1");
    let before = content(&directory);
    let opened = Log::open_in(Arc::new(directory.clone()), Options::default()).map(drop);
    for refused in [opened, inspect(&directory).map(drop)] {
        let error = refused.unwrap_err();
        let OpenError::OtherVersion { directory: place, file, found: 1, supported: 2 } = &error else {
            panic!("{error}");
        };
        assert_eq!((place, file.as_str()), (&directory.describe(), "log.control"));
        let text = "the log has format version 1; this program reads version 2";
        assert_eq!(error.to_string(), format!("{text} (log.control in {})", directory.describe()));
    }
    assert_eq!(FORMAT_VERSION, 2);
    assert!(content(&directory) == before, "a refused log was changed");
}
