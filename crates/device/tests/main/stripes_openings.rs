//! One striped set, opened more than once: no opening removes or takes over parts that another
//! opening made. It makes no difference here whether the openings are in one process or in several,
//! because the lock of a directory belongs to the opening.

use katydid_device::{
    Cause, Create, Directory, Error, FileDirectory, Method, SimDevice, StripedDirectory, Verb, WriteMode,
};
use std::io::IoSlice;
use std::thread;

const UNIT: u64 = 4096;
const SIZE: usize = 3 * UNIT as usize;

fn open(root: &dyn Directory) -> StripedDirectory {
    let inside = ["0", "1"].map(|name| root.subdirectory(name).expect("a directory"));
    StripedDirectory::open(inside.to_vec(), UNIT).expect("open")
}

/// Writes a file that is spread over all directories.
fn write(directory: &dyn Directory, name: &str, fill: u8) -> Result<(), Error> {
    let file = directory.open(name, Create::IfMissing, Method::Buffered)?;
    file.write_at(&[IoSlice::new(&[fill; SIZE])], 0, WriteMode::Durable)
}

fn check(directory: &dyn Directory, files: &[(&str, u8)]) {
    for (name, fill) in files {
        let mut bytes = vec![0; SIZE + 1];
        let file = directory.open_read_only(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(file.read_at(&mut bytes, 0).expect("read"), SIZE, "{name}");
        assert!(bytes[..SIZE].iter().all(|byte| byte == fill), "{name} is not full of {fill}");
    }
}

fn parts(device: &SimDevice) -> usize {
    device.image().keys().filter(|path| path.contains("/part.")).count()
}

fn refuses<T>(result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => false,
        Err(Error { verb: Verb::Lock, cause: Cause::Locked(_), .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn openings_that_take_turns_keep_each_others_files() {
    let device = SimDevice::new(1);
    let (one, two) = (open(&*device.directory()), open(&*device.directory()));
    write(&one, "a", 1).expect("the first of this opening");
    write(&two, "b", 2).expect("the first of the other");
    write(&one, "c", 3).expect("another");
    write(&two, "d", 4).expect("another");
    let files = [("a", 1), ("b", 2), ("c", 3), ("d", 4)];
    for directory in [&one, &two] {
        check(directory, &files);
    }
    assert_eq!(parts(&device), files.len());
    // A database is closed and opened again through a directory that was opened before the other
    // opening changed it.
    drop(two.lock().expect("no opening has it"));
    let _lock = one.lock().expect("given back");
    write(&one, "e", 5).expect("another");
    check(&one, &files);
    check(&two, &[("e", 5)]);
}

#[test]
fn a_second_opening_does_not_remove_the_parts_that_the_first_is_making() {
    let device = SimDevice::new(1);
    let (one, two) = (open(&*device.directory()), open(&*device.directory()));
    // The first opening has made the parts, and waits for the write of the header that will name
    // them.
    device.stall_writes(true);
    thread::scope(|scope| {
        let first = scope.spawn(|| write(&one, "a", 1));
        device.wait_stalled(1);
        let second = scope.spawn(|| write(&two, "b", 2));
        while !second.is_finished() && device.stalled() < 2 {
            thread::yield_now();
        }
        device.stall_writes(false);
        first.join().expect("no panic").expect("its own parts");
        assert!(refuses(second.join().expect("no panic")), "both make parts at once");
    });
    check(&two, &[("a", 1)]);
    write(&two, "b", 2).expect("the other has made its parts");
    check(&one, &[("a", 1), ("b", 2)]);
}

#[test]
fn while_one_opening_has_the_lock_the_other_makes_no_parts() {
    let device = SimDevice::new(1);
    let (one, two) = (open(&*device.directory()), open(&*device.directory()));
    let lock = one.lock().expect("no opening has it");
    assert!(refuses(two.lock()));
    assert!(refuses(write(&two, "b", 2)));
    write(&one, "a", 1).expect("its lock");
    let reading = two.open_read_only("a").expect("it may read");
    assert_eq!(reading.len().expect("length"), SIZE as u64);
    drop(lock);
    write(&two, "b", 2).expect("given back");
    let lock = two.lock().expect("given back");
    assert!(refuses(write(&one, "c", 3)), "what it had once is no lock");
    drop(lock);
    let reading = one.lock_to_read().expect("given back");
    assert!(refuses(write(&two, "c", 3)), "a check is under way");
    drop(reading);
    write(&two, "c", 3).expect("given back");
    check(&one, &[("a", 1), ("b", 2), ("c", 3)]);
}

#[test]
fn a_removal_does_not_bury_the_parts_that_another_opening_has_made_meanwhile() {
    for locked in [false, true] {
        let device = SimDevice::new(1);
        let (one, two) = (open(&*device.directory()), open(&*device.directory()));
        let lock = locked.then(|| one.lock().expect("no opening has it"));
        write(&one, "a", 1).expect("write");
        one.remove("a").expect("remove");
        drop(lock);
        // The second opening finds the parts of `a` without a file.
        write(&two, "b", 2).expect("write");
        one.sync().expect("sync");
        check(&two, &[("b", 2)]);
        // The first opening removes `b` before it takes the lock anew.
        one.remove("b").expect("remove");
        write(&two, "c", 3).expect("write");
        let lock = locked.then(|| one.lock().expect("no opening has it"));
        one.sync().expect("sync");
        check(&one, &[("c", 3)]);
        drop(lock);
        write(&two, "d", 4).expect("write");
        assert_eq!(parts(&device), 2, "what was removed is gone");
    }
}

#[test]
fn handles_of_one_opening_share_its_lock_also_below() {
    let device = SimDevice::new(1);
    let one = open(&*device.directory());
    let inner = one.subdirectory("inner").expect("make");
    let lock = inner.lock().expect("no opening has it");
    let again = one.subdirectory("inner").expect("there");
    assert!(refuses(again.lock()), "taken twice");
    let existing = one.existing_subdirectory("inner").expect("look").expect("there");
    drop(inner);
    write(&*again, "a", 1).expect("of this opening");
    write(&*existing, "b", 2).expect("of this opening");
    write(&one, "c", 3).expect("another directory, another lock");
    let two = open(&*device.directory());
    let other = two.subdirectory("inner").expect("there");
    assert!(refuses(write(&*other, "d", 4)));
    drop(lock);
    write(&*other, "d", 4).expect("given back");
    check(&*again, &[("a", 1), ("b", 2), ("d", 4)]);
}

/// Two sets may lie in directories of the same devices, as the data and the log of one database do.
#[test]
fn sets_beside_each_other_do_not_meet() {
    let device = SimDevice::new(1);
    let (one, two) = (open(&*device.directory()), open(&*device.directory()));
    let (data, log) = (one.subdirectory("data").expect("make"), two.subdirectory("log").expect("make"));
    let _locks = (data.lock().expect("its own"), log.lock().expect("its own"));
    write(&*data, "a", 1).expect("write");
    write(&*log, "a", 2).expect("write");
    check(&*data, &[("a", 1)]);
    check(&*log, &[("a", 2)]);
}

#[test]
#[cfg(not(miri))]
fn files_are_guarded_by_the_kernels_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = FileDirectory::open(folder.path()).expect("open");
    let (one, two) = (open(&root), open(&root));
    write(&one, "a", 1).expect("write");
    let lock = one.lock().expect("no opening has it");
    write(&one, "b", 2).expect("write");
    assert!(refuses(write(&two, "c", 3)));
    drop(lock);
    write(&two, "c", 3).expect("write");
    write(&one, "d", 4).expect("write");
    check(&two, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
}
