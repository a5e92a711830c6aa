//! Regions by name, in every kind of directory.

use katydid_device::nvram::{NvRegion, Persistence};
use katydid_device::testing::seed;
use katydid_device::{
    Cause, DelayedDirectory, Directory, Error, FileDirectory, Gate, MemoryDirectory, NvramFault, SimDevice,
    StripedDirectory, Waiting, Watch,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const BYTES: u64 = 1 << 14;

fn put(region: &NvRegion, at: u64, word: u64) {
    region.word(at).store(word, Ordering::Relaxed);
    region.persist(at, 8);
}

fn get(region: &NvRegion, at: u64) -> u64 {
    region.word(at).load(Ordering::Relaxed)
}

fn open(directory: &dyn Directory, bytes: u64) -> Result<Arc<NvRegion>, Error> {
    directory.nvram("log.nvram", bytes, Persistence::Auto)
}

#[test]
fn a_region_is_kept_by_its_name_and_is_one_holders_at_a_time() {
    let folder = tempfile::tempdir().expect("folder");
    let memory = || Arc::new(MemoryDirectory::new());
    let stripes = StripedDirectory::open(vec![memory(), memory()], 64 << 10).expect("stripes");
    let directories: Vec<Arc<dyn Directory>> = vec![
        Arc::new(FileDirectory::open(folder.path()).expect("folder")),
        memory(),
        SimDevice::new(1).directory(),
        Gate::wrap(memory()).0,
        Watch::new(Duration::ZERO).before(memory()),
        Arc::new(DelayedDirectory::new(memory(), Duration::ZERO, Waiting::Spin)),
        Arc::new(stripes),
    ];
    for directory in directories {
        let directory = directory.subdirectory("within").expect("subdirectory");
        let place = directory.describe();
        let region = open(directory.as_ref(), BYTES).expect("made");
        assert_eq!((region.len(), get(&region, 64)), (BYTES, 0), "{place}");
        put(&region, 64, 7);
        let second = open(directory.as_ref(), BYTES);
        assert!(matches!(second, Err(Error { cause: Cause::Locked(_), .. })), "{place}: {second:?}");
        drop(region);
        assert_eq!(get(&open(directory.as_ref(), BYTES).expect("opened"), 64), 7, "{place}");
        assert_eq!(directory.list().expect("list"), ["log.nvram"], "{place}");
        let other = open(directory.as_ref(), 2 * BYTES);
        let expected = NvramFault::Length { expected: 2 * BYTES, found: BYTES };
        assert!(
            matches!(&other, Err(Error { cause: Cause::Nvram(fault), .. }) if *fault == expected),
            "{place}: {other:?}"
        );
        let odd = directory.nvram("odd", 100, Persistence::Auto);
        assert!(matches!(odd, Err(Error { cause: Cause::Nvram(NvramFault::Bytes(100)), .. })), "{place}");
        directory.remove("log.nvram").expect("removed");
        assert!(directory.list().expect("list").is_empty(), "{place}");
    }
}

#[test]
fn memory_is_not_real() {
    let refused = MemoryDirectory::new().nvram("a", BYTES, Persistence::Real);
    assert!(matches!(refused, Err(Error { cause: Cause::Nvram(NvramFault::NoDax(_)), .. })), "{refused:?}");
}

#[test]
fn a_simulated_region_crashes_and_is_reopened_with_its_device() {
    let seed = seed();
    println!("seed {seed}");
    let device = SimDevice::new(seed);
    let region = open(device.directory().as_ref(), BYTES).expect("made");
    put(&region, 0, 1);
    region.word(8).store(2, Ordering::Relaxed);
    device.freeze();
    assert!(region.is_crashed());
    put(&region, 64, 3);
    let after = device.reopen_after_crash(seed);
    let region = open(after.directory().as_ref(), BYTES).expect("there");
    assert_eq!((get(&region, 0), get(&region, 64)), (1, 0), "persisted, and too late");
    assert!([0, 2].contains(&get(&region, 8)), "perhaps");

    // Above, the crash of the device stopped the memory. Now a step of the memory crashes the
    // device.
    let memory = after.nvram("log.nvram").expect("simulated");
    memory.crash_at(memory.steps() + 1);
    put(&region, 128, 4);
    assert!(after.is_crashed());
    drop(region);
    let again = after.reopen_after_kill();
    let region = open(again.directory().as_ref(), BYTES).expect("there");
    assert_eq!((get(&region, 0), get(&region, 128)), (1, 4), "a kill loses nothing");
    assert!(!again.is_crashed());
}

#[test]
fn a_device_that_crashes_while_a_region_is_made_has_it_or_not() {
    let device = SimDevice::new(1);
    device.crash_at(device.steps());
    assert!(open(device.directory().as_ref(), BYTES).is_err());
    let after = device.reopen_after_crash(1);
    assert_eq!(get(&open(after.directory().as_ref(), BYTES).expect("made"), 0), 0);
}
