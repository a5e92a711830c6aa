//! Striped directories: they pass the suite that every directory passes, spread large files, refuse
//! directories that do not belong together, and lose nothing over crashes at any step of making,
//! growing, renaming and removing.

use katydid_device::testing::{conformance, seed};
use katydid_device::{
    AlignedBuffer, Cause, Create, Directory, Error, Fault, Gate, MemoryDirectory, Method, SimDevice,
    StripedDirectory, StripesFault, Survival, Verb, WriteMode,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::Arc;

const UNIT: u64 = 4096;

fn memories(count: usize) -> Vec<Arc<dyn Directory>> {
    (0..count).map(|_| Arc::new(MemoryDirectory::new()) as Arc<dyn Directory>).collect()
}

/// Returns directories of one device, so that they crash together.
fn inside(device: &SimDevice, count: usize) -> Result<Vec<Arc<dyn Directory>>, Error> {
    (0..count).map(|nth| device.directory().subdirectory(&nth.to_string())).collect()
}

fn simulated(device: &SimDevice, count: usize) -> Result<StripedDirectory, Error> {
    StripedDirectory::open(inside(device, count)?, UNIT)
}

fn write(directory: &dyn Directory, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let file = directory.open(name, Create::IfMissing, Method::Direct)?;
    file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Durable)
}

fn read(directory: &dyn Directory, name: &str) -> Result<Vec<u8>, Error> {
    let file = directory.open_read_only(name)?;
    let mut bytes = vec![0; file.len()? as usize + 10];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    assert_eq!(count as u64, file.len()?, "{name}");
    Ok(bytes)
}

fn fault(result: Result<StripedDirectory, Error>) -> (StripesFault, String) {
    match result {
        Err(Error { cause: Cause::Stripes(fault), subject, .. }) => (fault, subject),
        other => panic!("{other:?}"),
    }
}

#[test]
fn striped_directories_conform() {
    for (count, unit) in [(1, UNIT), (2, UNIT), (3, UNIT), (2, 64 << 10)] {
        conformance(|| Arc::new(StripedDirectory::open(memories(count), unit).expect("open")));
        if cfg!(miri) {
            return;
        }
    }
    conformance(|| Arc::new(simulated(&SimDevice::new(1), 3).expect("open")));
    conformance(|| Gate::wrap(Arc::new(simulated(&SimDevice::new(1), 2).expect("open"))).0);
    conformance(|| simulated(&SimDevice::new(1), 2).expect("open").subdirectory("below").expect("create"));
}

#[test]
fn what_is_large_is_spread_evenly_and_what_is_small_stays_whole() {
    let directories = memories(2);
    let striped = StripedDirectory::open(directories.clone(), UNIT).expect("open");
    write(&striped, "small", &[7; UNIT as usize]).expect("write");
    let parts = |nth: usize| directories[nth].list().expect("list").len();
    assert_eq!((parts(0), parts(1)), (2, 1), "labels, and the file");
    let bytes: Vec<u8> = (0..8 * UNIT).map(|at| (at / 64) as u8).collect();
    write(&striped, "large", &bytes).expect("write");
    assert_eq!((parts(0), parts(1)), (3, 2));
    let name = directories[1].list().expect("list").into_iter().find(|name| name.starts_with("part."));
    let part = directories[1].open_read_only(&name.expect("a part")).expect("open");
    assert_eq!(part.len().expect("length"), 4 * UNIT);
    assert_eq!(directories[0].open_read_only("large").expect("open").len().expect("length"), 5 * UNIT);
    assert!(read(&striped, "large").expect("read") == bytes);
    striped.rename("large", "small").expect("rename");
    assert!(read(&striped, "small").expect("read") == bytes);
    assert_eq!(striped.list().expect("list"), ["small"]);
    striped.remove("small").expect("remove");
    assert_eq!(parts(1), 2, "the removal is not durable yet");
    striped.sync().expect("sync");
    assert_eq!((parts(0), parts(1)), (1, 1));
    for name in ["STRIPES", "STRIPES.new"] {
        assert!(striped.open(name, Create::IfMissing, Method::Buffered).is_err());
        assert!(striped.rename(name, "x").is_err() && striped.remove(name).is_err());
    }
}

#[test]
fn a_file_that_another_handle_spreads_is_the_same_file() {
    let striped = StripedDirectory::open(memories(3), UNIT).expect("open");
    let open = |create| striped.open("a", create, Method::Buffered).expect("open");
    let (one, two) = (open(Create::New), open(Create::Never));
    let only = striped.open_read_only("a").expect("open");
    one.write_at(&[IoSlice::new(b"one")], 0, WriteMode::Written).expect("write");
    two.write_at(&[IoSlice::new(b"two")], 4 * UNIT, WriteMode::Written).expect("write");
    for file in [&one, &two, &only] {
        assert_eq!(file.len().expect("length"), 4 * UNIT + 3);
        let mut found = vec![9; 5 * UNIT as usize];
        assert_eq!(file.read_at(&mut found, 0).expect("read"), 4 * UNIT as usize + 3);
        assert!(found.starts_with(b"one\0") && found[4 * UNIT as usize..].starts_with(b"two\x09"));
        assert!(found[3..4 * UNIT as usize].iter().all(|byte| *byte == 0), "never written, so zeros");
    }
    for length in [3 * UNIT, 2 * UNIT + 5, 2, 0] {
        one.truncate(length).expect("truncate");
        assert_eq!(two.len().expect("length"), length, "though nothing was written between");
    }
}

#[test]
fn an_existing_set_keeps_its_unit_and_is_opened_without_writing() {
    let device = SimDevice::new(1);
    let striped = simulated(&device, 2).expect("make");
    write(&striped, "a", &[1; 3 * UNIT as usize]).expect("write");
    let again = StripedDirectory::open(inside(&device, 2).expect("open"), 1 << 20).expect("open");
    assert_eq!(again.unit_bytes(), UNIT);
    let steps = device.steps();
    let again = StripedDirectory::open_existing(inside(&device, 2).expect("open")).expect("open");
    assert_eq!(read(&again, "a").expect("read"), [1; 3 * UNIT as usize]);
    assert_eq!(device.steps(), steps);
    let none = StripedDirectory::open_existing(memories(2)).expect_err("there is none");
    assert!(none.is_not_found());
    for unit in [0, 5000, 2048, 2 << 30] {
        assert!(StripedDirectory::open(memories(2), unit).is_err());
    }
    assert!(StripedDirectory::open(Vec::new(), UNIT).is_err());
}

#[test]
fn directories_that_do_not_belong_together_are_named() {
    let device = SimDevice::new(1);
    let root = device.directory();
    let at = |names: [&str; 2]| names.map(|name| root.subdirectory(name).expect("open")).to_vec();
    let open = |names| StripedDirectory::open(at(names), UNIT);
    drop((open(["a", "b"]).expect("make"), open(["c", "d"]).expect("make")));
    let before = device.image();
    assert!(matches!(fault(open(["b", "a"])), (StripesFault::Misplaced { given: 0, belongs: 1 }, _)));
    let (found, subject) = fault(open(["a", "d"]));
    assert!(matches!(found, StripesFault::Foreign { .. }) && subject.contains("/d/"), "{subject}");
    let (found, subject) = fault(open(["a", "a"]));
    assert!(matches!(found, StripesFault::Misplaced { given: 1, belongs: 0 }), "{subject}");
    let (found, subject) = fault(open(["a", "e"]));
    assert!(matches!(found, StripesFault::Missing) && subject.contains("/e/"), "{subject}");
    // The first directory may be the one that is not mounted.
    let (found, subject) = fault(open(["e", "b"]));
    assert!(matches!(found, StripesFault::Missing) && subject.contains("/e/"), "{subject}");
    let (found, subject) = fault(open(["e", "a"]));
    assert!(matches!(found, StripesFault::Misplaced { given: 1, belongs: 0 }), "{subject}");
    assert!(subject.contains("/a/"), "{subject}");
    let three = ["a", "b", "e"].map(|name| root.subdirectory(name).expect("open")).to_vec();
    assert!(matches!(
        fault(StripedDirectory::open(three, UNIT)).0,
        StripesFault::Count { given: 3, count: 2 }
    ));
    let full = root.subdirectory("full").expect("create");
    write(&*full, "somebody's", b"own").expect("write");
    for names in [["e", "full"], ["full", "e"]] {
        let (found, subject) = fault(open(names));
        assert!(matches!(found, StripesFault::NotEmpty) && subject.contains("/full/"), "{subject}");
    }
    full.remove("somebody's").expect("remove");
    assert_eq!(device.image(), before, "a refusal changes nothing");
    assert!(device.corrupt("b/STRIPES", 30, 1));
    let (found, subject) = fault(open(["a", "b"]));
    assert!(matches!(found, StripesFault::Damaged) && subject.contains("/b/"), "{subject}");
}

#[test]
fn a_damaged_header_is_an_error_and_its_parts_are_kept() {
    let device = SimDevice::new(1);
    let striped = simulated(&device, 2).expect("make");
    write(&striped, "a", &[1; 3 * UNIT as usize]).expect("write");
    striped.sync().expect("sync");
    let before = device.image();
    assert!(device.corrupt("0/a", 33, 1));
    let error = striped.open_read_only("a").expect_err("it is damaged");
    assert!(matches!(error.cause, Cause::Stripes(StripesFault::Damaged)), "{error}");
    drop(striped.lock().expect("lock"));
    assert_eq!(device.image().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[test]
fn the_parts_of_a_lost_file_stay_until_the_next_file_gets_parts() {
    let device = SimDevice::new(1);
    let striped = simulated(&device, 2).expect("make");
    write(&striped, "a", &[1; 3 * UNIT as usize]).expect("write");
    striped.sync().expect("sync");
    drop(striped);
    let kept = device.image()["0/a"].clone();
    device.directory().existing_subdirectory("0").expect("list").expect("there").remove("a").expect("lose");
    let before = device.image();
    // The next opening takes the lock and makes no parts, so it removes none.
    let striped = simulated(&device, 2).expect("open");
    drop((striped.lock().expect("lock"), striped));
    assert!(device.image() == before, "the other half was removed");
    // The test puts the file back.
    let first = device.directory().existing_subdirectory("0").expect("list").expect("there");
    let file = first.open("a", Create::New, Method::Buffered).expect("create");
    file.write_at(&[std::io::IoSlice::new(&kept)], 0, katydid_device::WriteMode::Durable).expect("write");
    let striped = simulated(&device, 2).expect("open");
    let _lock = striped.lock().expect("lock");
    spread(&striped).expect("the next file");
    let mut bytes = vec![0; 3 * UNIT as usize];
    assert_eq!(striped.open_read_only("a").expect("open").read_at(&mut bytes, 0).expect("read"), bytes.len());
    assert!(bytes.iter().all(|byte| *byte == 1));
    check_parts(&device, 2, "after all");
}

/// Makes a file with parts. When an opening makes its first such file, it removes the parts that no
/// file names.
fn spread(striped: &StripedDirectory) -> Result<(), Error> {
    striped.open("spread", Create::IfMissing, Method::Direct)?.prepare(0, 3 * UNIT)?;
    striped.sync()
}

/// The files that the steps of the workload so far must leave.
#[derive(Debug, Default)]
struct Model {
    /// The byte that each file is filled with, durably.
    files: BTreeMap<String, u8>,
    /// Files that a step under way creates, replaces or removes, and the bytes that each may be
    /// filled with.
    open: BTreeMap<String, BTreeSet<u8>>,
}

const SIZE: usize = 5 * UNIT as usize;

impl Model {
    /// Fills a file of full size with `fill`, durably. If a crash interrupts this, the file is
    /// filled in part.
    fn fill(&mut self, striped: &StripedDirectory, name: &str, fill: u8) -> Result<(), Error> {
        let before = self.files.remove(name);
        self.open.insert(name.to_owned(), before.into_iter().chain([0, fill]).collect());
        write(striped, name, &AlignedBuffer::copy_of(&[fill; SIZE]))?;
        Ok(())
    }

    /// Syncs the directory, which settles the steps under way.
    fn settle(&mut self, striped: &StripedDirectory, files: &[(&str, u8)]) -> Result<(), Error> {
        striped.sync()?;
        self.open.clear();
        self.files.extend(files.iter().map(|(name, fill)| ((*name).to_owned(), *fill)));
        Ok(())
    }

    fn touch(&mut self, name: &str, other: &str) {
        let fills: BTreeSet<u8> =
            [name, other].iter().filter_map(|name| self.files.get(*name)).copied().collect();
        for name in [name, other] {
            self.files.remove(name);
            self.open.insert(name.to_owned(), fills.clone());
        }
    }

    fn check(&self, striped: &StripedDirectory, what: &str) {
        let names: BTreeSet<String> = striped.list().expect("list").into_iter().collect();
        for (name, fill) in &self.files {
            let bytes = read(striped, name).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(bytes == vec![*fill; SIZE], "{what}: {name} is not full of {fill}");
        }
        for name in names.iter().filter(|name| !self.files.contains_key(*name)) {
            let allowed = self.open.get(name).unwrap_or_else(|| panic!("{what}: {name} came back"));
            let bytes = read(striped, name).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(bytes.len() <= SIZE);
            assert!(bytes.iter().all(|byte| *byte == 0 || allowed.contains(byte)), "{what}: {name}");
        }
    }
}

/// Miri takes more than half an hour for a crash at each step of a workload, so it visits every
/// eleventh step.
const STRIDE: usize = if cfg!(miri) { 11 } else { 1 };

/// Does what a log does: makes files ahead, gives them names, fills them, uses old ones again,
/// removes some, and replaces one.
fn workload(device: &SimDevice, count: usize, model: &mut Model) -> Result<(), Error> {
    let striped = simulated(device, count)?;
    let _lock = striped.lock()?;
    for fill in 1..=3u8 {
        let name = format!("log.{fill}");
        model.open.insert("made".to_owned(), BTreeSet::new());
        model.open.insert(name.clone(), BTreeSet::from([fill]));
        let file = striped.open("made", Create::IfMissing, Method::Direct)?;
        file.prepare(0, SIZE as u64)?;
        striped.rename("made", &name)?;
        model.settle(&striped, &[(&name, 0)])?;
        model.fill(&striped, &name, fill)?;
        model.settle(&striped, &[(&name, fill)])?;
    }
    // `state` is replaced by a file that has parts of its own.
    for fill in [11, 12] {
        model.fill(&striped, "state.new", fill)?;
        model.settle(&striped, &[("state.new", fill)])?;
        model.touch("state.new", "state");
        striped.rename("state.new", "state")?;
        model.settle(&striped, &[("state", fill)])?;
    }
    // A file is used again under another name.
    model.touch("log.1", "log.4");
    striped.rename("log.1", "log.4")?;
    model.settle(&striped, &[("log.4", 1)])?;
    model.fill(&striped, "log.4", 4)?;
    model.settle(&striped, &[("log.4", 4)])?;
    model.touch("log.2", "log.2");
    striped.remove("log.2")?;
    model.settle(&striped, &[])?;
    // The new file has the name of the file that was just removed.
    model.fill(&striped, "log.2", 5)?;
    model.settle(&striped, &[("log.2", 5)])
}

/// Checks that every file with parts has all of them, and that there are no other parts.
fn check_parts(device: &SimDevice, count: usize, what: &str) {
    let image = device.image();
    let named: BTreeSet<u64> = image
        .iter()
        .filter(|(path, bytes)| path.starts_with("0/") && bytes.starts_with(b"KATYDSTR"))
        .map(|(_, bytes)| u64::from_le_bytes(bytes[32..40].try_into().expect("8 bytes")))
        .collect();
    for nth in 1..count {
        let prefix = format!("{nth}/part.");
        let ids = image.keys().filter_map(|path| path.strip_prefix(&prefix));
        let ids: BTreeSet<u64> = ids.map(|id| u64::from_str_radix(id, 16).expect("a number")).collect();
        assert_eq!(ids, named, "{what}: directory {nth}");
    }
}

/// Opens the set that a crash left, and checks its files, and that the set can still be changed.
fn recover(device: &SimDevice, count: usize, model: &Model, what: &str) {
    let striped = simulated(device, count).unwrap_or_else(|error| panic!("{what}: {error}"));
    let lock = striped.lock().unwrap_or_else(|error| panic!("{what}: {error}"));
    model.check(&striped, what);
    spread(&striped).unwrap_or_else(|error| panic!("{what}: {error}"));
    check_parts(device, count, what);
    striped.remove("spread").and_then(|()| striped.sync()).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop((lock, striped));
}

#[test]
fn what_was_acknowledged_as_durable_survives_a_crash_at_every_step() {
    let base = seed();
    for count in [2, 3] {
        let whole = SimDevice::new(0);
        workload(&whole, count, &mut Model::default()).expect("no fault");
        for step in (0..whole.steps()).step_by(STRIDE) {
            for nth in 0..if cfg!(miri) { 1 } else { 6 } {
                let seed = base.wrapping_add(step * 100 + nth);
                let device = SimDevice::new(seed);
                device.crash_at(step);
                let mut model = Model::default();
                let error = workload(&device, count, &mut model).expect_err("it crashes");
                assert!(matches!(error.cause, Cause::Crashed), "{error}");
                let survival = [Survival::Random, Survival::DropAll, Survival::KeepAll][nth as usize % 3];
                let what = format!("{count} directories, step {step}, seed {seed}, {survival:?}");
                let found = device.reopen_with(seed, survival);
                recover(&found, count, &model, &what);
                // A new file shows no bytes of earlier files.
                let striped = simulated(&found, count).expect("open");
                let file = striped.open("fresh", Create::New, Method::Direct).expect("create");
                file.prepare(0, SIZE as u64).expect("prepare");
                assert!(read(&striped, "fresh").expect("read") == vec![0; SIZE], "{what}");
                model.open.insert("fresh".to_owned(), BTreeSet::new());
                recover(&found.reopen_after_crash(seed), count, &model, &format!("{what}, again"));
            }
        }
    }
}

#[test]
fn what_a_killed_process_left_is_not_built_upon_before_it_is_durable() {
    let base = seed();
    let count = 2;
    let whole = SimDevice::new(0);
    workload(&whole, count, &mut Model::default()).expect("no fault");
    let recoveries = if cfg!(miri) { 2 } else { 8 };
    for step in (0..whole.steps()).step_by(STRIDE) {
        let seed = base.wrapping_add(step);
        let device = SimDevice::new(seed);
        device.crash_at(step);
        let mut model = Model::default();
        workload(&device, count, &mut model).expect_err("it crashes");
        // Only the process dies at `step`. The machine crashes during or after the next opening.
        for within in 0..40 {
            let next = device.reopen_after_kill();
            next.crash_at(within);
            let opened = simulated(&next, count).and_then(|striped| striped.lock().map(drop));
            for nth in 0..recoveries {
                let survival = if nth == 0 { Survival::DropAll } else { Survival::Random };
                let what = format!("step {step}, within {within}, seed {seed} + {nth}");
                recover(&next.reopen_with(seed + nth, survival), count, &model, &what);
            }
            if opened.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn a_folder_that_a_killed_process_was_making_is_durable_once_the_next_one_has_it() {
    let seed = seed();
    for step in 0.. {
        let device = SimDevice::new(seed.wrapping_add(step));
        let striped = simulated(&device, 2).expect("make");
        device.crash_at(device.steps() + step);
        let Err(error) = striped.subdirectory("inner") else { return assert!(step > 5, "{step} steps") };
        assert!(matches!(error.cause, Cause::Crashed), "{error}");
        let next = device.reopen_after_kill();
        simulated(&next, 2).and_then(|striped| striped.subdirectory("inner")).expect("the process goes on");
        let found = simulated(&next.reopen_with(seed, Survival::DropAll), 2).expect("the machine crashed");
        assert!(found.existing_subdirectory("inner").expect("look").is_some(), "step {step}, seed {seed}");
    }
}

#[test]
fn a_failure_in_any_directory_is_everybodys() {
    let attempts: [(Verb, Fault); 3] =
        [(Verb::Write, Fault::Io), (Verb::Write, Fault::SyncIo), (Verb::Sync, Fault::SyncIo)];
    for (verb, kind) in attempts {
        let device = SimDevice::new(1);
        let (striped, gate) = Gate::wrap(Arc::new(simulated(&device, 3).expect("make")));
        let file = striped.open("a", Create::New, Method::Direct).expect("create");
        file.prepare(0, 6 * UNIT).expect("prepare");
        device.fail_when(move |found, path, _| (found == verb && path.starts_with("2/")).then_some(kind));
        let bytes = AlignedBuffer::new_zeroed(6 * UNIT as usize);
        let write = |at: usize| file.write_at(&[IoSlice::new(&bytes[at..])], at as u64, WriteMode::Durable);
        let error = if verb == Verb::Write { write(0) } else { file.sync() }.expect_err("planned");
        assert!(error.verb == verb && error.subject.contains("2/part."), "{error}");
        assert!(
            gate.is_shut()
                && matches!(write(5 * UNIT as usize), Err(Error { cause: Cause::Poisoned(_), .. }))
        );
    }
}

/// Bytes that a failed sync left only in the cache of one directory are not read after the cache
/// was dropped.
#[test]
fn dropping_the_cache_of_a_file_drops_that_of_each_part() {
    const BYTES: usize = 6 * UNIT as usize;
    for failing in ["0/", "1/", "2/"] {
        let mut met = BTreeSet::new();
        for seed in 0..8 {
            let device = SimDevice::new(seed);
            let striped = simulated(&device, 3).expect("make");
            write(&striped, "a", &[1; BYTES]).expect("write");
            let file = striped.open("a", Create::Never, Method::Buffered).expect("open");
            file.write_at(&[IoSlice::new(&[2; BYTES])], 0, WriteMode::Written).expect("write");
            device.fail_when(move |verb, path, _| {
                (verb == Verb::Sync && path.starts_with(failing)).then_some(Fault::SyncIo)
            });
            file.sync().expect_err("planned");
            let after = device.reopen_after_kill();
            let kept = simulated(&device.reopen_with(seed, Survival::KeepAll), 3).expect("open");
            let kept = read(&kept, "a").expect("read");
            let striped = simulated(&after, 3).expect("open");
            assert!(read(&striped, "a").expect("read") == [2; BYTES], "the cache shows all");
            striped.open("a", Create::Never, Method::Buffered).expect("open").drop_cache().expect("drop");
            assert!(read(&striped, "a").expect("read") == kept, "{failing}, seed {seed}");
            // One byte of each sector is enough, because a crash keeps or loses a sector whole.
            met.extend(kept.iter().step_by(512).copied());
        }
        assert_eq!(met, BTreeSet::from([1, 2]), "{failing}: some bytes are lost, some are not");
    }
}

#[test]
fn no_room_in_one_directory_gives_back_what_the_others_took() {
    let device = SimDevice::new(1);
    let (striped, gate) = Gate::wrap(Arc::new(simulated(&device, 3).expect("make")));
    let file = striped.open("a", Create::New, Method::Direct).expect("create");
    file.prepare(0, 3 * UNIT).expect("prepare");
    let (length, used) = (file.len().expect("length"), device.used());
    device.fail_when(|verb, path, _| {
        (verb == Verb::Prepare && path.starts_with("1/")).then_some(Fault::NoSpace)
    });
    let error = file.prepare(3 * UNIT, 30 * UNIT).expect_err("planned");
    assert!(error.is_no_space() && error.verb == Verb::Prepare, "{error}");
    assert_eq!((file.len().expect("length"), device.used()), (length, used));
    // Directory 2 has no room for its part, so the parts that were already made for the file are
    // removed again.
    device
        .fail_when(|verb, path, _| (verb == Verb::Open && path.starts_with("2/")).then_some(Fault::NoSpace));
    let fresh = striped.open("b", Create::New, Method::Direct).expect("create");
    let error = fresh.prepare(0, 3 * UNIT).expect_err("planned");
    assert!(error.is_no_space() && error.verb == Verb::Prepare, "{error}");
    assert!(!gate.is_shut());
    device.heal();
    fresh.prepare(0, 3 * UNIT).expect("there is room");
    check_parts(&device, 3, "after all");
}

/// The inner directory itself is never locked here. Parts in it that no file names are removed when
/// an opening makes its first file with parts there.
#[test]
fn parts_of_files_removed_in_a_subdirectory_go_with_the_next_file_that_gets_parts() {
    let device = SimDevice::new(1);
    for life in 0..5u8 {
        let striped = simulated(&device, 2).expect("open");
        let _lock = striped.lock().expect("lock");
        let inner = striped.subdirectory("inner").expect("there, or made");
        for name in inner.list().expect("list") {
            inner.remove(&name).expect("remove");
        }
        // Only the first process syncs the removal before it dies.
        if life == 0 {
            inner.sync().expect("sync");
        }
        write(&*inner, &format!("file-{life}"), &[life; 3 * UNIT as usize]).expect("write");
        let parts = device.image().keys().filter(|path| path.starts_with("1/inner/part.")).count();
        // The part of the file removed in this life may stay, because its removal may not be
        // durable yet.
        assert!(parts <= 2, "life {life}: {parts} parts");
    }
}
