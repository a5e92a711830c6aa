//! Reads of recovery fail. Such a failure is an error of the device, never corruption. It changes
//! no record, and the next opening finds everything.

use crate::places::{Device, Plan, TestDevice, faulty};
use crate::{Acknowledged, append, check, on_every_protocol_and_device, options};
use katydid_device::{Directory, Verb};
use katydid_wal::{Durability, Log, OpenError, SyncKind};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Time for which a range of bytes stays unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultDuration {
    /// One read of the range fails.
    Once,
    /// All reads of the range fail until the device is repaired.
    Stays,
}

/// Makes a log of several segments that was not closed. Every record in it was acknowledged.
fn make(sync: SyncKind, place: &TestDevice) -> (Device, Vec<Acknowledged>) {
    let device = place.make();
    let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
    let mut counts = vec![Acknowledged::default(); 2];
    for number in [0, 1] {
        let mut session = log.session().expect("session");
        for _ in 0..50 {
            let end = append(&mut session, number, &mut counts[number as usize]).expect("append");
            if counts[number as usize].appended.is_multiple_of(10) {
                log.first().wait(end, Durability::Durable).expect("wait");
                counts[number as usize].acknowledged = counts[number as usize].appended;
            }
        }
    }
    (device, counts)
}

/// The name of a file, and a range of its bytes.
type Bytes = (String, Range<u64>);

/// Returns a directory whose read number `nth` fails. Also returns the range that this read asks
/// for, which is known once the read was made.
fn failing(
    inner: Arc<dyn Directory>,
    nth: usize,
    lasting: FaultDuration,
) -> (Arc<dyn Directory>, Arc<Mutex<Option<Bytes>>>) {
    let plan: Arc<Plan> = Arc::default();
    let place = Arc::new(Mutex::new(None));
    let bad = place.clone();
    let mut reads = 0;
    plan.fail_reads(move |name, range| {
        reads += 1;
        let mut bad = bad.lock().expect("no panic");
        match &*bad {
            None if reads == nth + 1 => {
                *bad = Some((name.to_owned(), range));
                true
            }
            Some((file, bytes)) => {
                lasting == FaultDuration::Stays
                    && file == name
                    && bytes.start < range.end
                    && range.start < bytes.end
            }
            None => false,
        }
    });
    (faulty(inner, plan), place)
}

fn segments(device: &Device) -> Vec<(String, Vec<u8>)> {
    device.image().into_iter().filter(|(name, _)| name.starts_with("log.0")).collect()
}

fn each_read_fails(sync: SyncKind, place: &TestDevice, lasting: FaultDuration) {
    let (made, counts) = make(sync, place);
    let (mut refused, mut reads) = (0, 0);
    loop {
        let device = match &made {
            Device::Simulated(device) => Device::Simulated(device.reopen_after_kill()),
            files => files.clone(),
        };
        let before = segments(&device);
        let (directory, place_of) = failing(device.directory(), reads, lasting);
        let outcome = Log::open_in(directory, options(sync, place));
        let Some((file, bytes)) = place_of.lock().expect("no panic").take() else {
            assert!(outcome.is_ok(), "{outcome:?}");
            break;
        };
        let what = format!("read {reads}, of {file} bytes {bytes:?}");
        reads += 1;
        match outcome {
            Err(OpenError::Device(error)) => {
                assert!(error.verb == Verb::Read && error.subject.contains(&file), "{what}: {error}");
                assert!(segments(&device) == before, "{what}: a refused opening changed a segment");
                refused += 1;
            }
            Ok(log) => {
                // The read failed once, and the opening read the range again.
                assert_eq!(lasting, FaultDuration::Once, "{what}: the read was not repeated");
                check(&log, &counts, &what);
            }
            Err(error) => panic!("{what}: a failing read was taken for {error}"),
        }
        let log = Log::open_in(device.directory(), options(sync, place)).expect(&what);
        check(&log, &counts, &what);
    }
    assert!(refused > 2, "only {refused} of {reads} failing reads were reported");
}

#[test]
fn a_read_of_recovery_that_fails_is_an_error_of_the_device_and_harms_nothing() {
    on_every_protocol_and_device(|sync, place| {
        each_read_fails(sync, place, FaultDuration::Once);
        each_read_fails(sync, place, FaultDuration::Stays);
    });
}
