//! Headers of striped files: an opening does not rely on a header that only the page cache has, it
//! notices a lost header, and a sync that fails while a file is opened shuts the gate.

use katydid_device::testing::seed;
use katydid_device::{
    Cause, Create, Directory, Error, Fault, Gate, Method, SimDevice, StripedDirectory, StripesFault,
    Survival, Verb, WriteMode,
};
use std::io::IoSlice;
use std::sync::Arc;

const UNIT: u64 = 4096;
const BYTES: usize = 6 * UNIT as usize;

fn open(device: &SimDevice) -> Result<StripedDirectory, Error> {
    let directories = (0..2).map(|nth| device.directory().subdirectory(&nth.to_string()));
    StripedDirectory::open(directories.collect::<Result<_, _>>()?, UNIT)
}

/// Makes a file with parts, or continues a file that exists. If the function succeeds, the whole
/// file is durable.
fn write(directory: &dyn Directory, name: &str, fill: u8, method: Method) -> Result<(), Error> {
    let file = directory.open(name, Create::IfMissing, method)?;
    file.prepare(0, BYTES as u64)?;
    file.write_at(&[IoSlice::new(&[fill; BYTES])], 0, WriteMode::Durable)?;
    file.sync()?;
    directory.sync()
}

/// Runs one process, which opens the set and writes a file.
fn live(device: &SimDevice, method: Method) -> Result<(), Error> {
    let (directory, _gate) = Gate::wrap(Arc::new(open(device)?));
    let _lock = directory.lock()?;
    write(directory.as_ref(), "a", 7, method)
}

/// Makes the step of this number fail, if it is a call on the file or its part.
fn fail(device: &SimDevice, step: u64, fault: Fault) {
    device.fail_when(move |_, path, number| {
        (number == step && (path == "0/a" || path.starts_with("1/part"))).then_some(fault)
    });
}

fn read(directory: &dyn Directory, name: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; BYTES];
    let count = directory.open_read_only(name)?.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// A failing call ends the first process, and for some steps also the second one. The third process
/// reads from the page cache what they wrote, even a header that no later sync writes to the
/// device.
#[test]
fn what_is_written_to_parts_is_not_lost_with_a_header_that_failed_calls_left_in_the_cache() {
    let base = seed();
    for method in [Method::Direct, Method::Buffered] {
        let whole = SimDevice::new(base);
        live(&whole, method).expect("no fault");
        let mut failed = 0;
        for (first, seed) in (0..whole.steps()).flat_map(|first| (0..12).map(move |seed| (first, seed))) {
            for fault in [Fault::SyncIo, Fault::ShortWrite(12)] {
                let seed = base.wrapping_add(seed);
                let left = SimDevice::new(seed);
                fail(&left, first, fault);
                if live(&left, method).is_ok() {
                    continue;
                }
                failed += 1;
                for second in 0..12 {
                    let device = left.reopen_after_kill();
                    fail(&device, second, Fault::SyncIo);
                    // If step `second` is no call on the file or its part, no call of this process
                    // fails.
                    drop(live(&device, method));
                    let device = device.reopen_after_kill();
                    live(&device, method).expect("no fault");

                    let device = device.reopen_with(seed, Survival::DropAll);
                    let striped = open(&device).expect("open after the crash");
                    write(&striped, "b", 8, method).expect("parts that no header names are removed");
                    let what =
                        format!("{method:?}: {fault:?} at step {first}, then at {second}, seed {seed}");
                    assert!(read(&striped, "a").expect("read") == [7; BYTES], "{what}");
                }
            }
        }
        assert!(failed > 12, "only {failed} failures");
    }
}

#[test]
fn a_lost_header_is_noticed_and_its_parts_are_kept() {
    let device = SimDevice::new(1);
    let striped = open(&device).expect("make");
    write(&striped, "a", 7, Method::Buffered).expect("write");
    drop(striped);
    let first = device.directory().existing_subdirectory("0").expect("look").expect("it is there");
    let part = first.open("a", Create::Never, Method::Buffered).expect("open");
    let mut header = [0; UNIT as usize];
    part.read_at(&mut header, 0).expect("read");
    part.write_at(&[IoSlice::new(&[0; UNIT as usize])], 0, WriteMode::Durable).expect("lose");

    let striped = open(&device).expect("open");
    let _lock = striped.lock().expect("lock");
    let is_damaged = |error: &Error| matches!(error.cause, Cause::Stripes(StripesFault::Damaged));
    for create in [Create::Never, Create::IfMissing] {
        assert!(is_damaged(&striped.open("a", create, Method::Buffered).expect_err("it is lost")));
    }
    assert!(is_damaged(&striped.open_read_only("a").expect_err("it is lost")));
    let error =
        write(&striped, "b", 8, Method::Buffered).expect_err("it is unknown which numbers are in use");
    assert!(is_damaged(&error), "{error}");
    part.write_at(&[IoSlice::new(&header)], 0, WriteMode::Durable).expect("put back");
    assert!(read(&striped, "a").expect("read") == [7; BYTES]);
}

#[test]
fn a_file_that_is_opened_is_synced_by_an_open_gate_only_and_a_failure_shuts_it() {
    let device = SimDevice::new(1);
    live(&device, Method::Buffered).expect("write");
    let device = device.reopen_after_kill();
    let (directory, gate) = Gate::wrap(Arc::new(open(&device).expect("open")));
    let file = directory.open("a", Create::Never, Method::Buffered).expect("open");
    device.fail_when(|verb, path, _| (verb == Verb::Sync && path == "0/a").then_some(Fault::SyncIo));
    let error = directory.open("a", Create::Never, Method::Buffered).expect_err("planned");
    assert!(error.verb == Verb::Sync && gate.is_shut(), "{error}");
    device.heal();
    assert!(matches!(file.sync(), Err(Error { cause: Cause::Poisoned(_), .. })));
    // Reading goes on, and takes no step of the device.
    let steps = device.steps();
    let found = directory.open("a", Create::Never, Method::Buffered).expect("open to read");
    let mut bytes = [0; BYTES];
    assert_eq!(found.read_at(&mut bytes, 0).expect("read"), BYTES);
    assert!(bytes == [7; BYTES] && device.steps() == steps);
}
