//! Logs far from their first byte: a record appended near a position of more than 32 bits gets the
//! right position, survives a crash, and is read back afterwards. The tests use one thread and the
//! simulated device.

use katydid_device::{SimDevice, Survival};
use katydid_wal::testing::begin_at;
use katydid_wal::{
    Append, Appended, Chain, Durability, FileOptions, InserterKind, Kind, Log, Lsn, Options, SyncKind,
};

/// Positions on both sides of which records are appended.
const BORDERS: [u64; 3] = [1 << 32, 1 << 48, 1 << 61];
/// The log begins at most this many bytes below the border, and ends at least this many bytes above
/// it. This distance is several times the ring's size.
const NEAR: u64 = 64 << 10;

fn options(inserter: InserterKind, sync: SyncKind) -> Options {
    Options {
        medium: FileOptions {
            inserter: inserter.into(),
            sync: sync.into(),
            segment_bytes: 32 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 2,
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 4 << 10,
        ..Options::default()
    }
}

/// The positions and the payload of a record.
type Known = (Appended, Vec<u8>);

/// Appends records until the log is `NEAR` beyond `border`.
fn append_past(log: &Log, border: u64, known: &mut Vec<Known>) {
    let mut session = log.session().expect("a session");
    let mut end = log.first().reserved();
    while end.get() < border + NEAR {
        let number = known.len();
        let payload = format!("{number} {}", "x".repeat(number * 37 % 900)).into_bytes();
        let prev = known.last().map_or(Lsn::ZERO, |(last, _)| last.lsn);
        let pieces = [&payload[..]];
        let append = Append::new(Kind::USER, &pieces).prev(prev);
        let appended = session.append(&append).expect("append");
        assert!(appended.first >= end && appended.end > appended.lsn, "{appended:?} behind {end}");
        end = appended.end;
        known.push((appended, payload));
        if number.is_multiple_of(16) {
            log.first().wait(end, Durability::Durable).expect("wait");
            assert!(log.first().durable() >= end);
        }
    }
    log.first().wait(end, Durability::Durable).expect("wait");
}

/// Checks that the log has all known records from its start on, in order and at their positions,
/// and no others.
fn check(log: &Log, known: &[Known], what: &str) {
    let mut left = known.iter().filter(|(appended, _)| appended.first >= log.first().start());
    let mut before = None;
    for record in log.first().reader(log.first().start()).expect("a reader") {
        let record = record.expect("a record");
        if record.kind != Kind::USER {
            continue;
        }
        let (appended, payload) = left.next().unwrap_or_else(|| panic!("{what}: more than was appended"));
        assert_eq!((record.lsn, &record.payload), (appended.lsn, payload), "{what}");
        assert!(
            before.is_none_or(|before| record.chain == Chain::Previous(before)),
            "{what}: another predecessor"
        );
        before = Some(record.lsn);
        assert_eq!(log.first().read(record.lsn).expect("read").payload, *payload, "{what}");
    }
    assert!(left.next().is_none(), "{what}: less than was appended");
}

#[test]
fn a_log_goes_on_across_positions_of_more_than_32_bits() {
    for border in BORDERS {
        for inserter in InserterKind::ALL {
            for sync in [SyncKind::Adaptive, SyncKind::Pipelined] {
                let options = options(inserter, sync);
                let what = format!("{border:#x}, {inserter}, {sync}");
                let device = SimDevice::new(border);
                let start = Lsn::new(border - NEAR);
                Log::open_in(device.directory(), options.clone()).expect("open").close().expect("close");
                begin_at(device.directory().as_ref(), start).expect("a log that holds nothing");
                let log = Log::open_in(device.directory(), options.clone()).expect("open");
                assert_eq!(log.first().start(), start, "{what}");
                let mut known = Vec::new();
                append_past(&log, border, &mut known);
                check(&log, &known, &what);
                // The machine crashes.
                let device = device.reopen_with(1, Survival::DropAll);
                drop(log);
                let log = Log::open_in(device.directory(), options.clone()).expect("open after the crash");
                check(&log, &known, &what);
                // The log is trimmed up to the border, and closed.
                let above = known.iter().map(|(at, _)| at.first).find(|first| first.get() >= border);
                let above = above.expect("a record above the border");
                log.first().trim(above).expect("trim");
                append_past(&log, border + NEAR, &mut known);
                log.close().expect("close");
                drop(log);
                let log = Log::open_in(device.directory(), options.clone()).expect("open after closing");
                assert_eq!(log.first().start(), above, "{what}");
                check(&log, &known, &what);
            }
        }
    }
}
