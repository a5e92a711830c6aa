//! Streams that exist, and streams that are missing, foreign, damaged or half made.

use crate::{Commit, open_in, options, replayed};
use katydid_device::{Cause, Create, Directory, MemoryDirectory, Method, SimDevice, WriteMode};
use katydid_wal::{Dependencies, InserterKind, OpenError, Options, STREAMS_MAX, SyncKind, inspect};
use std::io::IoSlice;
use std::sync::Arc;

fn marks() -> Options {
    Options {
        background: katydid_wal::Background::Caller,
        ..options(InserterKind::Marks, SyncKind::Adaptive)
    }
}

/// Returns a log of three streams with a record in each.
fn three() -> Arc<dyn Directory> {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let log = open_in(directory.clone(), 3, marks()).expect("open");
    for index in 0..3 {
        let mut session = log.streams()[index].session().expect("session");
        session.commit(index as u64 + 1, &Dependencies::default(), &[b"record"]).expect("append");
    }
    log.close().expect("close");
    directory
}

fn folder(directory: &Arc<dyn Directory>, name: &str) -> Arc<dyn Directory> {
    directory.existing_subdirectory(name).expect("look").expect("a folder")
}

fn contents(directory: &dyn Directory) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let file = directory.open_read_only(&name).expect("open");
        let mut bytes = vec![0; file.len().expect("length") as usize];
        file.read_at(&mut bytes, 0).expect("read");
        (name, bytes)
    };
    directory.list().expect("list").into_iter().map(read).collect()
}

fn replace(directory: &dyn Directory, files: &[(String, Vec<u8>)]) {
    directory.list().expect("list").iter().for_each(|name| directory.remove(name).expect("remove"));
    for (name, bytes) in files {
        let file = directory.open(name, Create::New, Method::Buffered).expect("create");
        file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Written).expect("write");
    }
}

/// Checks that opening fails with this error, and changes nothing.
fn refused(directory: &Arc<dyn Directory>, streams: u16, expected: &str) {
    let all = |directory: &Arc<dyn Directory>| {
        let folders = (0..3).map(|index| contents(folder(directory, &format!("stream-00{index}")).as_ref()));
        (contents(directory.as_ref()), folders.collect::<Vec<_>>())
    };
    let before = all(directory);
    let error = open_in(directory.clone(), streams, marks()).expect_err("opening is refused");
    assert_eq!(error.to_string(), expected);
    assert_eq!(all(directory), before, "{expected}");
}

#[test]
fn another_number_of_streams_is_refused() {
    let directory = three();
    refused(&directory, 2, "the log has 3 streams, not 2");
    refused(&directory, 4, "the log has 3 streams, not 4");
    for none in [0, STREAMS_MAX + 1] {
        let error = open_in(directory.clone(), none, marks()).expect_err("no such log");
        assert!(matches!(error, OpenError::Options(_)), "{error}");
    }
    let log = open_in(directory, 3, marks()).expect("open");
    assert_eq!(replayed(&log).0.len(), 3);
}

#[test]
fn a_stream_that_is_gone_is_named_and_none_is_made_in_its_place() {
    let directory = three();
    replace(folder(&directory, "stream-001").as_ref(), &[]);
    refused(&directory, 3, "stream-001, a stream of the log, is missing");
    let error = inspect(directory.as_ref()).expect_err("it is unknown what survives");
    assert!(matches!(error, OpenError::MissingStream { directory } if directory == "stream-001"));
}

#[test]
fn streams_in_each_others_place_are_noticed() {
    let directory = three();
    let (left, right) = (folder(&directory, "stream-001"), folder(&directory, "stream-002"));
    let (first, second) = (contents(left.as_ref()), contents(right.as_ref()));
    replace(left.as_ref(), &second);
    replace(right.as_ref(), &first);
    let ids = (0x5eed_u128 + 2, 0x5eed_u128 + 1);
    refused(
        &directory,
        3,
        &format!("stream-001 holds log {:032x}, not {:032x}, this log's stream of that name", ids.0, ids.1),
    );
}

#[test]
fn streams_without_the_file_that_counts_them_are_refused() {
    let directory = three();
    directory.remove("streams.control").expect("remove");
    refused(&directory, 3, "the log has segments (such as stream-000) but no control file streams.control");
    assert!(inspect(directory.as_ref()).is_err());
    let damaged = three();
    let file = damaged.open("streams.control", Create::Never, Method::Buffered).expect("open");
    file.write_at(&[IoSlice::new(&[9])], 12, WriteMode::Written).expect("write");
    refused(&damaged, 3, "the control file streams.control is corrupt: its checksum does not match");
}

#[test]
fn damage_in_one_stream_is_reported_with_its_name() {
    let device = SimDevice::new(1);
    for life in 0..2 {
        let log = open_in(device.directory(), 2, marks()).expect("open");
        let mut session = log.streams()[1].session().expect("session");
        session.commit(life + 1, &Dependencies::default(), &[&[7; 500]]).expect("append");
        log.close().expect("close");
    }
    assert!(device.corrupt("stream-001/log.0000000000000000", 4096 + 48 + 60, 1));
    let error = open_in(device.directory(), 2, marks()).expect_err("damaged");
    match error {
        OpenError::Stream { directory, source } => {
            assert_eq!(directory, "stream-001");
            assert!(matches!(*source, OpenError::CorruptBelowDurable { .. }), "{source}");
        }
        other => panic!("{other}"),
    }
    let found = inspect(device.directory().as_ref()).expect("it can be looked at");
    assert!(found.streams[0].finding.is_ok() && found.streams[1].finding.is_err());
}

#[test]
fn an_open_log_is_locked() {
    let device = SimDevice::new(1);
    let log = open_in(device.directory(), 2, marks()).expect("open");
    let error = open_in(device.directory(), 2, marks()).expect_err("it is in use");
    assert!(matches!(error, OpenError::Device(error) if matches!(error.cause, Cause::Locked(_))));
    log.close().expect("close");
    let again = open_in(device.directory(), 2, marks()).expect("open");
    drop(again);
    open_in(device.directory(), 2, marks()).expect("dropping gives it back");
}

/// The next opening finishes an interrupted creation, with the number of streams in its options.
/// Once creation is finished, the number stays.
#[test]
fn creation_is_finished_wherever_it_was_interrupted() {
    let open = |device: &SimDevice, streams| open_in(device.directory(), streams, marks());
    let device = SimDevice::new(1);
    open(&device, 3).expect("open");
    let steps = device.steps();
    let (mut began, mut whole) = (0, 0);
    for crash_at in 0..=steps {
        for seed in 0..4 {
            let device = SimDevice::new(1);
            device.crash_at(crash_at);
            let created = open(&device, 3).is_ok();
            let mut device = device.reopen_after_crash(seed);
            if let Ok(found) = inspect(device.directory().as_ref()) {
                began += usize::from(!found.is_complete);
                whole += usize::from(found.is_complete);
            }
            // The next opening is also interrupted, if it takes this number of steps.
            device.crash_at(seed * 5);
            drop(open(&device, 3));
            device = device.reopen_after_crash(seed);
            let other = if seed % 2 == 0 { 2 } else { 4 };
            let streams = match open(&device, other) {
                Ok(_) => other,
                Err(OpenError::OtherStreams { found: 3, .. }) => 3,
                Err(error) => panic!("crashed at {crash_at}: {error}"),
            };
            assert!(!created || streams == 3, "it was whole");
            let log = open(&device, streams).expect("open");
            let mut session = log.streams()[1].session().expect("session");
            session.commit(1, &Dependencies::default(), &[b"record"]).expect("append");
            log.close().expect("close");
            assert_eq!(replayed(&open(&device, streams).expect("open")).0, [(1, b"record".to_vec())]);
        }
    }
    assert!(began > 0 && whole > 0);
}
