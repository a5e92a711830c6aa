//! Promises of a log on a device that may write sectors in part: [`Survival::Trash`].
//!
//! If the last block of the log already holds records, the next commit writes this block again, and
//! with it the sectors of acknowledged records. A device that leaves garbage in a sector that it
//! was writing can therefore destroy acknowledged records. Only records that end in the block in
//! which the interrupted write began are exposed. No record is ever found that was not appended.

use katydid_device::{Id, Method, SimDevice, Survival};
use katydid_wal::{Append, Background, Durability, FileOptions, Kind, Log, OpenError, Options};

const BLOCK: u64 = 4096;

fn options(method: Method) -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: 16 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            ..FileOptions::default()
        }
        .into(),
        method,
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 0,
        log_id: Some(Id::new(1)),
        background: Background::Caller,
        ..Options::default()
    }
}

fn payload(number: u32) -> Vec<u8> {
    let words = (0..50 + number * 7 % 90).flat_map(|word| (number * 1000 + word).to_le_bytes());
    number.to_le_bytes().into_iter().chain(words).collect()
}

/// Appends and commits one record after the other until the device crashes. Returns the end of each
/// acknowledged record.
fn run(device: &SimDevice, method: Method) -> Vec<u64> {
    let mut ends = Vec::new();
    let Ok(log) = Log::open_in(device.directory(), options(method)) else { return ends };
    let Ok(mut session) = log.session() else { return ends };
    for number in 0..60 {
        let bytes = payload(number);
        let Ok(appended) = session.append(&Append::new(Kind::USER, &[&bytes])) else { break };
        if log.first().wait(appended.end, Durability::Durable).is_err() {
            break;
        }
        ends.push(appended.end.get());
    }
    ends
}

/// Returns the number of acknowledged records that the crash has destroyed.
fn lost(device: &SimDevice, method: Method, ends: &[u64], what: &str) -> usize {
    // The interrupted write began with the block that the last acknowledged record ends in.
    let exposed = ends.last().map_or(0, |end| end / BLOCK * BLOCK);
    let safe: Vec<u64> = ends.iter().copied().filter(|end| *end <= exposed).collect();
    let log = match Log::open_in(device.directory(), options(method)) {
        Ok(log) => log,
        Err(OpenError::CorruptBelowDurable { at, .. }) => {
            // `at` may lie below `exposed`, because a record that ends in the exposed block may
            // begin in the block before.
            assert!(
                safe.iter().all(|end| *end <= at.get()),
                "{what}: damage at {at}, exposed from {exposed}"
            );
            return ends.iter().filter(|end| **end > at.get()).count();
        }
        Err(error) => panic!("{what}: {error}"),
    };
    let mut found = 0;
    for record in log.first().reader(log.first().start()).expect("a reader") {
        let record = record.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(record.payload == payload(found), "{what}: record {found} was never appended so");
        found += 1;
    }
    let found = found as usize;
    assert!(
        found >= safe.len(),
        "{what}: {found} found of {} in blocks that were not being written",
        safe.len()
    );
    // The log continues from there.
    let mut session = log.session().expect("a session");
    let end = session.append(&Append::new(Kind::USER, &[b"next"])).expect("there is room").end;
    log.first().wait(end, Durability::Durable).expect("nothing fails");
    ends.len().saturating_sub(found)
}

#[test]
fn garbage_in_sectors_being_written_destroys_no_acknowledged_record_outside_the_block_they_are_in() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    for method in [Method::Direct, Method::Buffered] {
        let whole = SimDevice::new(1);
        run(&whole, method);
        let (mut whole_sectors, mut garbage) = (0, 0);
        for step in 0..whole.steps() {
            let device = SimDevice::new(1);
            device.crash_at(step);
            let ends = run(&device, method);
            for nth in 0..4 {
                let what = format!("{method}, crash at {step}, seed {seed}, {nth}");
                let after = |survival| device.reopen_with(seed.wrapping_add(nth), survival);
                whole_sectors += lost(&after(Survival::Random), method, &ends, &what);
                garbage += lost(&after(Survival::Trash), method, &ends, &what);
            }
        }
        assert_eq!(whole_sectors, 0, "{method}: sectors are written whole or not at all: nothing is lost");
        // docs/recovery.md says that such records can be lost. If this assertion fails, correct
        // that document.
        assert!(garbage > 0, "{method}: no acknowledged record was exposed");
    }
}

#[test]
fn the_log_writes_to_direct_files_what_a_device_takes_as_it_is() {
    let device = SimDevice::new(1);
    assert_eq!(run(&device, Method::Direct).len(), 60);
    assert_eq!(device.unaligned_writes(), 0);
}
