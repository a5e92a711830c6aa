//! A new log is small, and its segments double as it grows, up to the size that was asked for.
//!
//! The tests of crashes while segments double are in `src/recover/tests/crashes.rs`.

use katydid_device::{Create, Directory, MemoryDirectory, Method, SimDevice, WriteMode};
use katydid_wal::{
    Append, AppendClass, Background, Durability, Error, FileOptions, Kind, Log, Lsn, OpenError, Options,
    SegmentState, inspect,
};
use std::io::IoSlice;
use std::sync::Arc;

const KIB: u64 = 1 << 10;

fn options() -> Options {
    sized(16 * KIB, 128 * KIB)
}

/// Returns options with a first segment and large segments of these sizes.
fn sized(first_segment_bytes: u64, segment_bytes: u64) -> Options {
    let files = FileOptions {
        first_segment_bytes,
        segment_bytes,
        ring_bytes: 16 << 10,
        spare_segments: 1,
        ..FileOptions::default()
    };
    Options {
        medium: files.into(),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 4 * KIB,
        sessions_max: 2,
        ..Options::default()
    }
}

fn open(directory: &MemoryDirectory, options: Options) -> Result<Log, OpenError> {
    Log::open_in(Arc::new(directory.clone()), options)
}

/// Appends records of 1 KiB until the log ends at or beyond `to`; all records are durable then.
fn fill(log: &Log, to: u64) -> Lsn {
    let mut session = log.session().expect("session");
    loop {
        let end = session.append(&Append::new(Kind::USER, &[&[7; 1 << 10]])).expect("append").end;
        if end.get() >= to {
            log.first().wait(end, Durability::Durable).expect("wait");
            return end;
        }
    }
}

/// Returns the lengths of the segments' files by their indexes.
fn lengths(directory: &MemoryDirectory) -> Vec<(u64, u64)> {
    let mut lengths: Vec<(u64, u64)> = (directory.list().expect("list").into_iter())
        .filter_map(|name| {
            let index = u64::from_str_radix(name.strip_prefix("log.")?, 16).ok()?;
            Some((index, directory.open_read_only(&name).expect("open").len().expect("length")))
        })
        .collect();
    lengths.sort_unstable();
    lengths
}

#[test]
fn a_new_log_with_the_default_options_takes_less_than_2_mib() {
    let directory = MemoryDirectory::new();
    for _ in 0..3 {
        let log = open(&directory, Options::default()).expect("open");
        let mut session = log.session().expect("session");
        let end = session.append(&Append::new(Kind::USER, &[b"one"])).expect("append").end;
        log.first().wait(end, Durability::Durable).expect("wait");
        log.close().expect("close");
        let bytes: u64 = lengths(&directory).iter().map(|(_, bytes)| bytes).sum();
        assert!((1..2 << 20).contains(&bytes), "{bytes}");
    }
}

#[test]
fn a_reserve_larger_than_any_log_is_refused_and_takes_nothing_from_other_guards() {
    let directory = MemoryDirectory::new();
    let log = open(&directory, options()).expect("open");
    let standing = log.space().reserve;
    let guard = log.first().raise_reserve(64 * KIB).expect("there is room");
    let most = Lsn::LIMIT.get();
    for bytes in [u64::MAX, u64::MAX - 64 * KIB, most + 1] {
        let refused = log.first().raise_reserve(bytes);
        assert!(matches!(refused, Err(Error::TooLarge { limit, .. }) if limit == most), "{refused:?}");
        assert_eq!(log.space().reserve, standing + 64 * KIB);
    }
    // No segment is prepared for a position that no log reaches.
    assert!(matches!(log.first().raise_reserve(most), Err(Error::NoSpace)));
    assert!(log.space().on_disk < 1 << 20, "{:?}", log.space());
    assert_eq!(log.space().reserve, standing + 64 * KIB);
    drop(guard);
    assert_eq!(log.space().reserve, standing);
    fill(&log, 256 * KIB);
}

/// Zero-filling a segment takes longer than filling the ring. If a young log prepared only as much
/// ahead as the ring holds, fast appends would wait for each segment that is larger than the ring.
#[test]
fn a_young_log_prepares_more_ahead_than_its_ring_holds() {
    let directory = MemoryDirectory::new();
    let files = FileOptions { ring_bytes: 2 << 20, ..FileOptions::default() };
    let options = Options {
        medium: files.into(),
        run_ahead_bytes: 256 << 10,
        background: Background::Caller,
        ..Options::default()
    };
    let log = open(&directory, options).expect("open");
    let prepared = |to: u64| {
        let end = fill(&log, to).get();
        log.run_background();
        lengths(&directory).iter().map(|(_, bytes)| bytes).sum::<u64>() - end
    };
    for at in [1 << 20, 2 << 20, 3200 * KIB, 8 << 20] {
        // A quarter of the ring is slack.
        let reserve = (256 * KIB + 3 * at).min(16 << 20);
        let room = at.max(2 << 20);
        assert!(prepared(at) >= reserve + room + 512 * KIB, "at {at}");
    }
    assert!(log.space().on_disk < 65 << 20, "{:?}", log.space());
}

#[test]
fn segments_double_up_to_the_full_size_and_are_used_again() {
    let directory = MemoryDirectory::new();
    let sizes = |index: u64| ((16 * KIB) << index.min(8)).min(128 * KIB);
    for life in 1..=4 {
        let log = open(&directory, options()).expect("open");
        let end = fill(&log, life * 300 * KIB);
        for (index, bytes) in lengths(&directory) {
            assert_eq!(bytes, sizes(index), "segment {index}");
        }
        assert!(log.space().on_disk <= end.get() + 3 * 128 * KIB, "{:?}", log.space());
        // The trim makes smaller segments available for later ones.
        log.first().trim(end).expect("trim");
        log.close().expect("close");
        let found = inspect(&directory).expect("inspect");
        let found = found.first().expect("a stream");
        assert!(found.finding.is_ok(), "{:?}", found.finding);
        let bad = found.segments.iter().find(|segment| matches!(segment.state, SegmentState::Corrupt(_)));
        assert_eq!(bad, None);
    }
    assert!(lengths(&directory).iter().all(|(index, _)| *index > 3));
}

/// Each trimmed segment is used again at once, mostly with a larger size, and has its full length
/// before anything is written into it.
#[test]
fn a_segment_that_is_used_again_has_the_length_of_its_new_place() {
    let directory = MemoryDirectory::new();
    for _ in 0..40 {
        let log = open(&directory, options()).expect("open");
        let end = fill(&log, log.first().reserved().get() + 12 * KIB);
        log.first().trim(end).expect("trim");
        // The segments that are prepared now are made of trimmed ones.
        fill(&log, end.get() + KIB);
        while log.space().prepared < 40 * KIB {
            std::thread::yield_now();
        }
        log.close().expect("close");
        let found = inspect(&directory).expect("inspect");
        let finding = &found.first().expect("a stream").finding;
        assert!(finding.is_ok(), "{finding:?}");
    }
}

#[test]
fn a_log_keeps_the_sizes_that_it_was_made_with() {
    let fixed = || sized(32 * KIB, 32 * KIB);
    for (made, bytes, doubles) in [(options(), 16 * KIB, true), (fixed(), 32 * KIB, false)] {
        let directory = MemoryDirectory::new();
        fill(&open(&directory, made).expect("open"), KIB);
        for other in [options(), fixed(), sized(8 * KIB, 32 * KIB)] {
            let log = open(&directory, other).expect("open");
            fill(&log, log.first().reserved().get() + 60 * KIB);
        }
        let lengths = lengths(&directory);
        assert_eq!(lengths[0].1, bytes);
        assert_eq!(lengths[1].1, if doubles { 2 * bytes } else { bytes });
    }
}

/// A segment with the size of another index is refused, whatever its header says.
#[test]
fn a_segment_of_another_size_is_refused_by_name() {
    let directory = MemoryDirectory::new();
    fill(&open(&directory, options()).expect("open"), 60 * KIB);
    let file = directory.open("log.0000000000000002", Create::Never, Method::Buffered).expect("open");
    file.truncate(48 * KIB).expect("truncate");
    match open(&directory, options()) {
        Err(OpenError::CorruptSegment { file, reason }) => {
            assert_eq!((file.as_str(), reason), ("log.0000000000000002", "it is cut short"));
        }
        other => panic!("{other:?}"),
    }
    let mut header = vec![0; 4096];
    file.read_at(&mut header, 0).expect("read");
    file.prepare(48 * KIB, 64 * KIB).expect("prepare");
    // Writes the whole file under the name of another index.
    let next = directory.open("log.0000000000000001", Create::Never, Method::Buffered).expect("open");
    next.write_at(&[IoSlice::new(&header)], 0, WriteMode::Durable).expect("write");
    match open(&directory, options()) {
        Err(OpenError::CorruptSegment { file, reason }) => {
            assert_eq!(file, "log.0000000000000001");
            assert!(reason.contains("another size"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

/// In a young log on a full device there is enough room for critical records that undo everything
/// ever appended, although the log has prepared far less than its whole reserve.
#[test]
fn a_young_log_on_a_full_device_has_room_to_undo_everything() {
    let device = SimDevice::new(1);
    let files = FileOptions {
        segment_bytes: 8 << 20,
        first_segment_bytes: 64 * KIB,
        ring_bytes: 256 << 10,
        ..FileOptions::default()
    };
    let options = Options {
        medium: files.into(),
        run_ahead_bytes: 64 << 10,
        reserve_bytes: 8 << 20,
        ..Options::default()
    };
    for room in [300 * KIB, 700 * KIB, 3 << 20, 20 << 20] {
        let device = device.reopen_after_kill();
        let folder = device.directory().subdirectory(&format!("log-{room}")).expect("folder");
        let log = Log::open_in(folder, options.clone()).expect("open");
        device.set_capacity(device.used() + room);
        let mut session = log.session().expect("session");
        let payload = [7; 1000];
        let mut appended = 0_u64;
        while let Ok(done) = session.append(&Append::new(Kind::USER, &[&payload])) {
            appended += done.end.since(done.lsn);
        }
        assert!(appended > 0);
        let pieces: [&[u8]; 1] = [&payload];
        let mut critical = Append::new(Kind::USER, &pieces);
        critical.class = AppendClass::Critical;
        let mut undone = 0;
        while undone < (2 * appended + 64 * KIB).min((8 << 20) - 2 * KIB) {
            let done = session.append(&critical).expect("the reserve");
            undone += done.end.since(done.lsn);
        }
        device.set_capacity(u64::MAX);
    }
}
