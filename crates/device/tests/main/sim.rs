//! The simulated device after crashes, faults and stalls.

use katydid_device::testing::seed;
use katydid_device::{
    AlignedBuffer, Cause, Create, Error, Fault, File, ManyRead, Method, SimDevice, Survival, Verb, WriteMode,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::Arc;

const SECTOR: usize = 512;
const SEEDS: u64 = if cfg!(miri) { 40 } else { 300 };

fn create(device: &SimDevice, name: &str) -> Arc<dyn File> {
    let file = device.directory().open(name, Create::New, Method::Direct).expect("create");
    device.directory().sync().expect("sync");
    file
}

fn write(file: &Arc<dyn File>, bytes: &[u8], offset: u64, mode: WriteMode) -> Result<(), Error> {
    file.write_at(&[IoSlice::new(bytes)], offset, mode)
}

fn written(file: &Arc<dyn File>, byte: u8, sectors: std::ops::Range<usize>) {
    let bytes = vec![byte; sectors.len() * SECTOR];
    write(file, &bytes, (sectors.start * SECTOR) as u64, WriteMode::Written).expect("write");
}

fn durable(file: &Arc<dyn File>, byte: u8, sectors: std::ops::Range<usize>) {
    let bytes = vec![byte; sectors.len() * SECTOR];
    write(file, &bytes, (sectors.start * SECTOR) as u64, WriteMode::Durable).expect("write");
}

/// Returns the first byte of each sector, after a check that each sector is whole.
fn sectors(device: &SimDevice, name: &str) -> Vec<u8> {
    let image = device.image();
    let bytes = image.get(name).unwrap_or_else(|| panic!("{name} is missing\n{}", device.dump()));
    bytes
        .chunks(SECTOR)
        .map(|sector| {
            assert!(sector == [sector[0]; SECTOR], "a sector is torn");
            sector[0]
        })
        .collect()
}

fn is_crashed<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error { cause: Cause::Crashed, .. }))
}

#[test]
fn un_synced_bytes_survive_as_the_seed_says_and_synced_ones_always() {
    let device = SimDevice::new(1);
    let file = create(&device, "a");
    durable(&file, 1, 0..16);
    written(&file, 2, 4..12);
    written(&file, 3, 8..16);
    durable(&file, 4, 15..16);
    let dropped = device.reopen_with(0, Survival::DropAll);
    let low = [vec![1; 15], vec![4]].concat();
    assert_eq!(sectors(&dropped, "a"), low);
    assert_eq!(device.durable_image()["a"], dropped.image()["a"]);
    let kept = device.reopen_with(0, Survival::KeepAll);
    let high = [vec![1; 4], vec![2; 4], vec![3; 7], vec![4]].concat();
    assert_eq!(sectors(&kept, "a"), high);

    let (mut torn, mut reordered, mut lowest, mut highest) = (false, false, false, false);
    for seed in 0..SEEDS {
        let found = sectors(&device.reopen_after_crash(seed), "a");
        assert!(found[..4].iter().all(|byte| *byte == 1), "seed {seed}");
        assert!(found[4..8].iter().all(|byte| [1, 2].contains(byte)), "seed {seed}");
        assert!(found[8..12].iter().all(|byte| [1, 2, 3].contains(byte)), "seed {seed}");
        assert!(found[12..15].iter().all(|byte| [1, 3].contains(byte)), "seed {seed}");
        assert_eq!(found[15], 4, "seed {seed}");
        torn |= found[4..8].contains(&1) && found[4..8].contains(&2);
        reordered |= found[4..8] == [1; 4] && found[8..15].contains(&3);
        lowest |= found == low;
        highest |= found == high;
    }
    assert!(torn && reordered && lowest && highest, "every kind of crash is met");
}

#[test]
fn the_same_seeds_and_calls_give_the_same_device() {
    let run = || {
        let device = SimDevice::new(5);
        let file = create(&device, "a");
        written(&file, 1, 0..40);
        device.fail_at(device.steps(), Fault::SyncIo);
        file.sync().expect_err("planned");
        written(&file, 2, 10..30);
        device.directory().rename("a", "b").expect("rename");
        device
    };
    for seed in 0..SEEDS {
        assert_eq!(run().reopen_after_crash(seed).image(), run().reopen_after_crash(seed).image());
    }
}

/// The values that each sector of a file may have after a crash, and the file's length.
#[derive(Default)]
struct Model {
    sectors: BTreeMap<usize, Vec<u8>>,
    lengths: BTreeSet<u64>,
    length: u64,
}

impl Model {
    fn write(&mut self, byte: u8, range: std::ops::Range<usize>, mode: WriteMode) {
        let end = (range.end * SECTOR) as u64;
        for sector in range {
            let versions = self.sectors.entry(sector).or_insert_with(|| vec![0]);
            if mode == WriteMode::Durable {
                versions.clear();
            }
            versions.push(byte);
        }
        self.length = self.length.max(end);
        self.lengths.insert(self.length);
        if mode == WriteMode::Durable {
            self.lengths = self.lengths.iter().map(|length| *length.max(&end)).collect();
        }
    }

    fn truncate(&mut self, sectors: usize) {
        for (_, versions) in self.sectors.range_mut(sectors..) {
            versions.push(0);
        }
        self.length = (sectors * SECTOR) as u64;
        self.lengths.insert(self.length);
    }

    fn sync(&mut self) {
        self.sectors.values_mut().for_each(|versions| *versions = versions.split_off(versions.len() - 1));
        self.lengths = BTreeSet::from([self.length]);
    }
}

#[test]
fn random_crashes_leave_only_what_the_rules_allow() {
    let base = seed();
    for round in 0..if cfg!(miri) { 2 } else { SEEDS } {
        let seed = base.wrapping_add(round);
        let mut rng = fastrand::Rng::with_seed(seed);
        let device = SimDevice::new(seed);
        let file = create(&device, "a");
        let mut model = Model { lengths: BTreeSet::from([0]), ..Model::default() };
        for byte in 1..=rng.u8(1..60) {
            let first = rng.usize(0..40);
            let range = first..first + rng.usize(1..20);
            match rng.u8(0..12) {
                0 => {
                    file.sync().expect("sync");
                    model.sync();
                }
                1 => {
                    let to = rng.usize(0..=(model.length as usize / SECTOR));
                    file.truncate((to * SECTOR) as u64).expect("truncate");
                    model.truncate(to);
                }
                2 => {
                    let (from, to) = ((range.start * SECTOR) as u64, (range.end * SECTOR) as u64);
                    file.prepare(from, to).expect("prepare");
                    model.write(0, range, WriteMode::Durable);
                }
                3..6 => {
                    durable(&file, byte, range.clone());
                    model.write(byte, range, WriteMode::Durable);
                }
                _ => {
                    written(&file, byte, range.clone());
                    model.write(byte, range, WriteMode::Written);
                }
            }
            assert_eq!(file.len().expect("length"), model.length, "seed {seed}");
        }
        let seen = sectors(&device, "a");
        for (at, byte) in seen.iter().enumerate() {
            let expected = model.sectors.get(&at).map_or(0, |versions| versions[versions.len() - 1]);
            assert_eq!(*byte, expected, "sector {at} before the crash, seed {seed}");
        }
        for (crash, survival) in
            [(0, Survival::DropAll), (0, Survival::KeepAll), (1, Survival::Random), (2, Survival::Random)]
        {
            let found = device.reopen_with(seed.wrapping_add(crash), survival);
            let image = sectors(&found, "a");
            assert!(model.lengths.contains(&((image.len() * SECTOR) as u64)), "length, seed {seed}");
            for (at, byte) in image.iter().enumerate() {
                let allowed = model.sectors.get(&at).map_or(&[0][..], |versions| versions);
                assert!(
                    allowed.contains(byte),
                    "sector {at} is {byte}, not {allowed:?}, seed {seed}, {survival:?}"
                );
            }
            if survival == Survival::KeepAll {
                assert_eq!(image, seen, "seed {seed}");
            }
            // All that a crash has left is durable, so another crash changes nothing.
            assert_eq!(found.image(), found.reopen_after_crash(seed).image());
        }
    }
}

/// Appends durably, one sector at a time, and keeps the count in a second file, which a rename
/// replaces.
fn counted_workload(device: &SimDevice) -> (u8, Option<Error>) {
    let mut acknowledged = 0;
    let mut run = || -> Result<(), Error> {
        let directory = device.directory();
        let file = directory.open("log", Create::IfMissing, Method::Direct)?;
        directory.sync()?;
        file.prepare(0, 16 * SECTOR as u64)?;
        for count in 1..=12u8 {
            let offset = (usize::from(count) * SECTOR) as u64;
            if count % 2 == 0 {
                write(&file, &[count; SECTOR], offset, WriteMode::Durable)?;
            } else {
                write(&file, &[count; SECTOR], offset, WriteMode::Written)?;
                file.sync()?;
            }
            let fresh = directory.open("count.new", Create::New, Method::Buffered)?;
            write(&fresh, &[count], 0, WriteMode::Durable)?;
            directory.rename("count.new", "count")?;
            directory.sync()?;
            acknowledged = count;
        }
        Ok(())
    };
    let error = run().err();
    (acknowledged, error)
}

#[test]
fn whatever_was_acknowledged_survives_a_crash_at_every_step() {
    let whole = SimDevice::new(0);
    assert!(counted_workload(&whole).1.is_none());
    let steps = whole.steps();
    for step in 0..steps {
        for seed in 0..if cfg!(miri) { 1 } else { 20 } {
            let device = SimDevice::new(seed);
            device.crash_at(step);
            let (acknowledged, error) = counted_workload(&device);
            assert!(is_crashed(error.map_or(Ok(()), Err)) && device.is_crashed());
            assert_eq!(device.steps(), step + 1, "nothing is a step after the crash");
            let found = device.reopen_after_crash(seed).image();
            if acknowledged == 0 {
                continue;
            }
            let log: Vec<u8> = found["log"].chunks(SECTOR).map(|sector| sector[0]).collect();
            for count in 1..=acknowledged {
                assert_eq!(log[usize::from(count)], count, "step {step}, seed {seed}");
            }
            let count = found["count"][0];
            assert!(count == acknowledged || count == acknowledged + 1, "step {step}, seed {seed}: {count}");
        }
    }
}

#[test]
fn after_a_crash_every_call_fails() {
    let device = SimDevice::new(1);
    let (directory, file) = (device.directory(), create(&device, "a"));
    durable(&file, 1, 0..1);
    let lock = directory.lock().expect("lock");
    device.freeze();
    assert!(is_crashed(write(&file, b"x", 0, WriteMode::Written)));
    assert!(is_crashed(file.sync()) && is_crashed(file.prepare(0, 10)) && is_crashed(file.truncate(0)));
    assert!(
        is_crashed(file.read_at(&mut [0; 4], 0)) && is_crashed(file.len()) && is_crashed(file.drop_cache())
    );
    assert!(
        is_crashed(directory.list()) && is_crashed(directory.sync()) && is_crashed(directory.remove("a"))
    );
    assert!(is_crashed(directory.open("a", Create::Never, Method::Direct)));
    assert!(is_crashed(directory.open_read_only("a")) && is_crashed(directory.rename("a", "b")));
    assert!(is_crashed(directory.subdirectory("s")) && is_crashed(directory.existing_subdirectory("s")));
    assert!(is_crashed(directory.lock()));
    let reopened = device.reopen_after_crash(1);
    let _lock = reopened.directory().lock().expect("a crash releases the lock");
    assert_eq!(reopened.steps(), 0);
    drop(lock);
}

#[test]
fn un_synced_names_survive_as_a_prefix_or_a_subset_and_renames_whole() {
    let device = SimDevice::new(1);
    let old = create(&device, "old");
    durable(&old, 1, 0..1);
    let directory = device.directory();
    let fresh = directory.open("fresh", Create::New, Method::Buffered).expect("create");
    durable(&fresh, 2, 0..1);
    directory.rename("fresh", "old").expect("rename");
    directory.open("later", Create::New, Method::Buffered).expect("create");
    let mut met = BTreeSet::new();
    for seed in 0..SEEDS {
        let image = device.reopen_after_crash(seed).image();
        let names: Vec<String> = image.keys().cloned().collect();
        assert!(matches!(image["old"][0], 1 | 2), "one of the two, whole");
        assert_eq!(image["old"].len(), SECTOR);
        assert!(!(image["old"][0] == 2 && image.contains_key("fresh")), "a rename moves");
        met.insert((image["old"][0], names));
    }
    let case = |byte, names: &[&str]| (byte, names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    for expected in [
        case(1, &["old"]),
        case(1, &["fresh", "old"]),
        case(2, &["old"]),
        case(2, &["later", "old"]),
        case(1, &["later", "old"]),
    ] {
        assert!(met.contains(&expected), "{expected:?} is not among {met:?}");
    }
    assert_eq!(device.reopen_with(0, Survival::DropAll).image().len(), 1);

    let device = SimDevice::new(1);
    durable(&create(&device, "a"), 1, 0..1);
    device.directory().remove("a").expect("remove");
    let after = |survival| device.reopen_with(3, survival).image().contains_key("a");
    assert!(after(Survival::DropAll) && !after(Survival::KeepAll), "a removal is a name change too");
}

#[test]
fn a_subdirectory_is_durable_once_made_and_may_be_lost_while_being_made() {
    let device = SimDevice::new(1);
    let inner = device.directory().subdirectory("inner").expect("create");
    let file = inner.open("a", Create::New, Method::Buffered).expect("create");
    durable(&file, 1, 0..1);
    inner.sync().expect("sync");
    device.crash_at(device.steps());
    assert!(is_crashed(device.directory().subdirectory("second")));
    let mut met = BTreeSet::new();
    for seed in 0..SEEDS {
        let found = device.reopen_after_crash(seed);
        assert_eq!(sectors(&found, "inner/a"), [1]);
        met.insert(found.directory().existing_subdirectory("second").expect("look").is_some());
    }
    assert_eq!(met.len(), 2);
}

#[test]
fn a_failed_sync_loses_bytes_that_no_later_sync_brings_back() {
    let mut met = BTreeSet::new();
    for seed in 0..SEEDS {
        let device = SimDevice::new(seed);
        let file = create(&device, "a");
        durable(&file, 1, 0..8);
        written(&file, 2, 0..8);
        device.fail_at(device.steps(), Fault::SyncIo);
        let error = file.sync().expect_err("planned");
        assert!(matches!(error.cause, Cause::Io(_)) && error.verb == Verb::Sync, "{error}");
        assert_eq!(sectors(&device, "a"), [2; 8], "the page cache still shows them");
        file.sync().expect("marked clean: nothing to do, so no error");
        let after = device.reopen_after_kill();
        let kept = sectors(&device.reopen_with(seed, Survival::KeepAll), "a");
        assert!(kept.iter().all(|byte| [1, 2].contains(byte)), "seed {seed}");
        met.extend(kept.iter().copied());
        // The process died, the machine did not: dropping the cache shows the device's bytes.
        let file = after.directory().open("a", Create::Never, Method::Buffered).expect("open");
        assert_eq!(sectors(&after, "a"), [2; 8]);
        file.drop_cache().expect("drop the cache");
        assert_eq!(sectors(&after, "a"), kept, "seed {seed}");
        // Sectors that are written anew are dirty again, and the next sync keeps them.
        written(&file, 3, 0..8);
        file.sync().expect("sync");
        assert_eq!(sectors(&after.reopen_with(0, Survival::DropAll), "a"), [3; 8]);
    }
    assert_eq!(met, BTreeSet::from([1, 2]), "some are lost, some are not");
}

#[test]
fn a_failed_durable_write_may_have_reached_the_device_or_not() {
    let mut met = BTreeSet::new();
    for seed in 0..SEEDS {
        let device = SimDevice::new(seed);
        let file = create(&device, "a");
        durable(&file, 1, 0..4);
        written(&file, 5, 3..4);
        device.fail_at(device.steps(), Fault::SyncIo);
        write(&file, &[2; 3 * SECTOR], 0, WriteMode::Durable).expect_err("planned");
        file.sync().expect("its own sectors are clean, the other's is kept");
        let kept = sectors(&device.reopen_with(seed, Survival::DropAll), "a");
        assert_eq!(kept[3], 5);
        met.extend(kept[..3].iter().copied());
    }
    assert_eq!(met, BTreeSet::from([1, 2]));
}

#[test]
fn a_failed_directory_sync_loses_names_for_good() {
    let mut met = BTreeSet::new();
    for seed in 0..SEEDS {
        let device = SimDevice::new(seed);
        device.directory().open("a", Create::New, Method::Buffered).expect("create");
        assert!(!device.has_lost_names());
        device.fail_at(device.steps(), Fault::Io);
        let error = device.directory().sync().expect_err("planned");
        assert_eq!(error.verb, Verb::SyncDirectory);
        let device = device.reopen_after_kill();
        device.directory().sync().expect("sync");
        assert_eq!(device.directory().list().expect("list"), ["a"]);
        assert!(device.has_lost_names(), "a kill and a later sync bring no name back");
        let device = device.reopen_with(seed, Survival::KeepAll);
        assert!(!device.has_lost_names(), "what is seen is durable");
        met.insert(device.image().len());
    }
    assert_eq!(met, BTreeSet::from([0, 1]));
}

#[test]
fn planned_faults_hit_the_call_they_name() {
    let device = SimDevice::new(1);
    let file = create(&device, "a");
    durable(&file, 1, 0..8);
    let next = device.steps();
    device.fail_at(next, Fault::Io);
    device.fail_at(next + 1, Fault::NoSpace);
    device.fail_at(next + 2, Fault::ShortWrite(3));
    let attempt = || write(&file, &[2; 8 * SECTOR], 0, WriteMode::Durable).expect_err("planned");
    assert!(matches!(attempt().cause, Cause::Io(_)));
    assert!(attempt().is_no_space());
    assert_eq!(sectors(&device, "a"), [1; 8], "neither changed anything");
    let error = attempt();
    assert!(error.to_string().contains("a bytes 0..4096"), "{error}");
    assert_eq!(sectors(&device, "a"), [2, 2, 2, 1, 1, 1, 1, 1]);
    assert_eq!(device.reopen_after_kill().durable_image()["a"][0], 1, "and un-synced");

    let device = SimDevice::new(1);
    let inner = device.directory().subdirectory("log").expect("create");
    let (one, two) =
        (inner.open("1", Create::New, Method::Direct), inner.open("2", Create::New, Method::Direct));
    let (one, two) = (one.expect("create"), two.expect("create"));
    device.fail_when(|verb, path, _| (verb == Verb::Write && path == "log/2").then_some(Fault::Io));
    durable(&one, 1, 0..1);
    write(&two, b"x", 0, WriteMode::Durable).expect_err("planned");
    two.sync().expect("only writes fail");
    inner.rename("1", "3").expect("rename");
    inner.rename("2", "1").expect("rename");
    write(&two, b"x", 0, WriteMode::Durable).expect("it has another name now");
    device.fail_when(|verb, _, _| (verb == Verb::Rename).then_some(Fault::Io));
    inner.rename("1", "4").expect_err("planned");
    device.heal();
    inner.rename("1", "4").expect("healed");
}

#[test]
fn unreadable_ranges_fail_reads_that_touch_them() {
    let device = SimDevice::new(1);
    let file = create(&device, "a");
    durable(&file, 1, 0..8);
    device.fail_reads("a", 1000..1001);
    let read = |from: u64, len: usize| file.read_at(&mut vec![0; len], from);
    read(0, 1000).expect("before it");
    read(1001, 100).expect("after it");
    let error = read(999, 2).expect_err("planned");
    assert!(matches!(error.cause, Cause::Io(_)) && error.verb == Verb::Read, "{error}");
    assert!(error.subject.contains("a bytes 999..1001"), "{error}");
    device.heal();
    read(0, 4096).expect("healed");
}

#[test]
fn an_unreadable_range_fails_only_those_of_many_reads_that_touch_it() {
    for method in Method::ALL {
        let device = SimDevice::new(1);
        let file = device.directory().open("a", Create::New, method).expect("create");
        durable(&file, 1, 0..16);
        device.fail_reads("a", 3 * SECTOR as u64..3 * SECTOR as u64 + 1);
        let mut memory = [[0; SECTOR]; 5];
        let mut read_all = || -> Vec<katydid_device::Result<usize>> {
            let buffers = memory.iter_mut().zip(0..);
            let mut reads: Vec<ManyRead<'_>> =
                buffers.map(|(buffer, nth)| ManyRead::new((nth + 1) * SECTOR as u64, buffer)).collect();
            file.read_many(&mut reads);
            reads.into_iter().map(|read| read.outcome).collect()
        };
        for (nth, outcome) in read_all().into_iter().enumerate() {
            match outcome {
                Ok(count) => assert!(nth != 2 && count == SECTOR, "{nth}: {count} bytes"),
                Err(error) => {
                    assert!(matches!(error.cause, Cause::Io(_)) && error.verb == Verb::Read, "{error}");
                    let place = format!("a bytes {}..{}", 3 * SECTOR, 4 * SECTOR);
                    assert!(nth == 2 && error.subject == place, "{nth}: {error}");
                }
            }
        }
        device.heal();
        assert!(read_all().into_iter().all(|outcome| matches!(outcome, Ok(SECTOR))), "healed");
        assert_eq!(device.most_reads_together(), if method == Method::Direct { 0 } else { 5 });
        device.freeze();
        for outcome in read_all() {
            assert!(matches!(outcome, Err(error) if matches!(error.cause, Cause::Crashed)));
        }
    }
}

#[test]
fn a_full_device_is_typed_and_clears_when_it_grows() {
    let device = SimDevice::new(1);
    let file = create(&device, "a");
    device.set_capacity(8 * SECTOR as u64);
    file.prepare(0, 4 * SECTOR as u64).expect("prepare");
    assert!(file.prepare(0, 9 * SECTOR as u64).expect_err("too much").is_no_space());
    assert_eq!(file.len().expect("length"), 4 * SECTOR as u64, "what it took was given back");
    let error = write(&file, &[1; 5 * SECTOR], 4 * SECTOR as u64, WriteMode::Durable).expect_err("too much");
    assert!(error.is_no_space() && error.verb == Verb::Write);
    assert_eq!(device.used(), 8 * SECTOR as u64, "what fitted was written");
    durable(&file, 2, 0..8);
    let other = create(&device, "b");
    assert!(write(&other, b"x", 0, WriteMode::Written).expect_err("full").is_no_space());
    device.set_capacity(u64::MAX);
    write(&other, b"x", 0, WriteMode::Written).expect("room again");
    device.directory().remove("b").expect("remove");
    drop(other);
    device.directory().sync().expect("sync");
    assert_eq!(device.used(), 8 * SECTOR as u64, "a removed and closed file takes no room");
    let next = device.reopen_after_crash(1);
    assert_eq!(next.used(), 8 * SECTOR as u64);
}

#[test]
fn a_killed_process_leaves_un_synced_bytes_un_synced() {
    let device = SimDevice::new(1);
    let file = create(&device, "a");
    durable(&file, 1, 0..4);
    written(&file, 2, 0..4);
    device.directory().rename("a", "b").expect("rename");
    let next = device.reopen_after_kill();
    assert!(is_crashed(file.len()));
    assert_eq!(sectors(&next, "b"), [2; 4]);
    let worst = next.reopen_with(0, Survival::DropAll);
    assert_eq!(sectors(&worst, "a"), [1; 4]);

    let next = device.reopen_after_kill();
    let file = next.directory().open("b", Create::Never, Method::Buffered).expect("open");
    file.sync().expect("sync");
    next.directory().sync().expect("sync");
    assert_eq!(sectors(&next.reopen_with(0, Survival::DropAll), "b"), [2; 4]);
}

#[test]
fn corruption_is_on_the_device_and_in_the_cache() {
    let device = SimDevice::new(1);
    let file = create(&device, "a");
    durable(&file, 1, 0..2);
    assert!(device.corrupt("a", 600, 0x10));
    assert!(!device.corrupt("a", 1024, 1) && !device.corrupt("b", 0, 1));
    assert_eq!(device.image()["a"][600], 0x11);
    assert_eq!(device.reopen_after_crash(1).image()["a"][600], 0x11);
    assert!(device.dump().contains("a: 1024 bytes"), "{}", device.dump());
}

#[test]
fn stalled_writers_wait_until_released_or_crashed() {
    let device = SimDevice::new(1);
    let file = create(&device, "a");
    durable(&file, 1, 0..1);
    device.stall_writes(true);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (2..5u8)
            .map(|at| {
                let file = &file;
                scope.spawn(move || write(file, &[at], u64::from(at), WriteMode::Durable))
            })
            .collect();
        device.wait_stalled(3);
        assert_eq!(device.stalled(), 3);
        assert_eq!(file.read_at(&mut [0; 512], 0).expect("reads go on"), 512);
        assert_eq!(device.image()["a"], [1; 512]);
        device.stall_writes(false);
        writers.into_iter().for_each(|writer| writer.join().expect("join").expect("write"));
    });
    assert_eq!(device.image()["a"][..6], [1, 1, 2, 3, 4, 1]);
    device.stall_writes(true);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| file.sync());
        device.wait_stalled(1);
        device.freeze();
        assert!(is_crashed(writer.join().expect("join")));
    });
}

/// Returns the number of sectors whose bytes are of no version of the file.
fn garbage(bytes: &[u8], versions: &[u8]) -> usize {
    let is_whole = |sector: &&[u8]| versions.iter().any(|version| sector.iter().all(|byte| byte == version));
    bytes.chunks(512).filter(|sector| !is_whole(sector)).count()
}

#[test]
fn sectors_of_interrupted_calls_may_become_garbage_and_no_others() {
    let mut damaged = [0; 3];
    for seed in 0..SEEDS {
        let device = SimDevice::new(1);
        let directory = device.directory();
        let file = directory.open("a", Create::New, Method::Direct).expect("create");
        directory.sync().expect("sync");
        file.write_at(&[IoSlice::new(&[1; 16384])], 0, WriteMode::Durable).expect("write");
        // This write is un-synced, and has ended before the crash.
        file.write_at(&[IoSlice::new(&[2; 4096])], 8192, WriteMode::Written).expect("write");
        device.crash_at(device.steps());
        file.write_at(&[IoSlice::new(&[3; 4096])], 4096, WriteMode::Durable).expect_err("planned");
        for (survival, is_trash) in [(Survival::Random, false), (Survival::Trash, true)] {
            let after = device.reopen_with(seed, survival).image().remove("a").expect("it is durable");
            assert_eq!(garbage(&after[..4096], &[1]) + garbage(&after[12288..], &[1]), 0, "seed {seed}");
            assert_eq!(garbage(&after[8192..12288], &[1, 2]), 0, "seed {seed}");
            let count = garbage(&after[4096..8192], &[1, 3]);
            assert!(is_trash || count == 0, "seed {seed}");
            damaged[0] += count;
        }

        // A sync writes all dirty sectors, so each of them may be garbage after a crash in the
        // sync.
        let device = SimDevice::new(1);
        let file = device.directory().open("a", Create::New, Method::Buffered).expect("create");
        device.directory().sync().expect("sync");
        file.write_at(&[IoSlice::new(&[1; 8192])], 0, WriteMode::Durable).expect("write");
        file.write_at(&[IoSlice::new(&[2; 4096])], 0, WriteMode::Written).expect("write");
        device.crash_at(device.steps());
        file.sync().expect_err("planned");
        let after = device.reopen_with(seed, Survival::Trash).image().remove("a").expect("it is durable");
        damaged[1] += garbage(&after[..4096], &[1, 2]);
        assert_eq!(garbage(&after[4096..], &[1]), 0, "seed {seed}");
        let killed = device.reopen_after_kill().reopen_with(seed, Survival::Trash);
        let after = killed.image().remove("a").expect("it is durable");
        assert_eq!(garbage(&after, &[1, 2]), 0, "seed {seed}: it was over when the machine crashed");
    }

    // Several calls are under way at once, and each takes effect in part.
    for seed in 0..SEEDS {
        let device = SimDevice::new(1);
        let file = device.directory().open("a", Create::New, Method::Direct).expect("create");
        device.directory().sync().expect("sync");
        file.write_at(&[IoSlice::new(&[1; 12288])], 0, WriteMode::Durable).expect("write");
        device.stall_writes(true);
        std::thread::scope(|scope| {
            for nth in 0..2u64 {
                let file = &file;
                scope.spawn(move || {
                    let bytes = [2 + nth as u8; 4096];
                    file.write_at(&[IoSlice::new(&bytes)], nth * 8192, WriteMode::Durable).expect_err("crash")
                });
            }
            device.wait_stalled(2);
            device.freeze();
        });
        let after = device.reopen_with(seed, Survival::Trash).image().remove("a").expect("it is durable");
        assert_eq!(garbage(&after[4096..8192], &[1]), 0, "seed {seed}");
        let (first, second) = (garbage(&after[..4096], &[1, 2]), garbage(&after[8192..], &[1, 3]));
        damaged[2] += usize::from(first > 0 && second > 0);
        let old = device.reopen_with(seed, Survival::Random).image().remove("a").expect("it is durable");
        assert!(old.iter().all(|byte| *byte == 1), "seed {seed}: a call that waits has no effect otherwise");
    }
    assert!(damaged.iter().all(|count| *count > 0), "{damaged:?}");
}

#[test]
fn direct_writes_that_a_real_device_would_not_take_are_counted() {
    let device = SimDevice::new(1);
    let aligned = AlignedBuffer::new_zeroed(8192);
    for (method, expected) in [(Method::Buffered, 0), (Method::Direct, 3), (Method::Uring, 6)] {
        let file = device.directory().open(method.name(), Create::New, method).expect("create");
        let write = |part: &[u8], at| file.write_at(&[IoSlice::new(part)], at, WriteMode::Written);
        write(&aligned, 4096).expect("as a device takes it");
        write(&aligned[..4096], 0).expect("as a device takes it");
        write(&aligned[..100], 0).expect("its length is odd");
        write(&aligned[..4096], 512).expect("its offset is odd");
        write(&aligned[8..4104], 0).expect("its address is odd");
        assert_eq!(device.unaligned_writes(), expected, "{method}");
    }
}
