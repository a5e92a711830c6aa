//! The rules of [`Directory`] and [`File`] as a suite that every implementation has to pass.
//!
//! Call [`conformance`] with a function that makes empty directories. If a rule is broken, the
//! suite panics with the rule's name. Rules about crashes need a device that can crash, and are
//! tested with the simulated one.

pub mod memory;

use crate::aligned::AlignedBuffer;
use crate::directory::{Create, Directory, File, ManyRead, Method, WriteMode};
use crate::error::{Cause, Verb};
use fastrand::Rng;
use std::io::IoSlice;
use std::sync::Arc;

/// Returns the seed of random tests: the value of `KATYDID_SEED`, or a random number that the test
/// prints. libtest shows the printed line if the test fails.
pub fn seed() -> u64 {
    let given = std::env::var("KATYDID_SEED").ok().and_then(|text| text.trim().parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("replay with KATYDID_SEED={seed}");
    seed
}

/// Checks every rule of directories, each in a directory of its own.
pub fn conformance(make: impl Fn() -> Arc<dyn Directory>) {
    names_are_flat_and_checked(&*make());
    creating_follows_its_mode(&*make());
    renaming_replaces_and_open_files_go_on(&*make());
    subdirectories_are_apart(&*make());
    the_lock_is_exclusive(&*make());
    for method in Method::ALL {
        bytes_are_where_they_were_written(&*make(), method);
        many_parts_are_one_write(&*make(), method);
        reading_stops_at_the_end(&*make(), method);
        many_reads_are_each_a_read(&*make(), method);
        truncating_cuts_and_growing_again_shows_zeros(&*make(), method);
        preparing_fills_with_zeros(&*make(), method);
        read_only_files_refuse_changes(&*make(), method);
        writers_of_different_blocks_do_not_disturb_each_other(&*make(), method);
    }
}

fn write(file: &dyn File, bytes: &[u8], offset: u64, mode: WriteMode) {
    file.write_at(&[IoSlice::new(bytes)], offset, mode).expect("write");
}

fn read(file: &dyn File, offset: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xee; len];
    let count = file.read_at(&mut buffer, offset).expect("read");
    buffer.truncate(count);
    buffer
}

fn names_are_flat_and_checked(directory: &dyn Directory) {
    for bad in ["", ".", "..", "a/b", "/a", "a\0b", &"x".repeat(300)] {
        assert!(directory.open(bad, Create::IfMissing, Method::Buffered).is_err(), "{bad:?} is no file name");
        assert!(directory.subdirectory(bad).is_err(), "{bad:?} is no directory name");
    }
    for name in ["b", "a", "LOCK2", "c.tmp"] {
        directory.open(name, Create::New, Method::Buffered).expect("create");
    }
    directory.subdirectory("folder").expect("create a directory");
    directory.sync().expect("sync");
    assert_eq!(directory.list().expect("list"), ["LOCK2", "a", "b", "c.tmp"]);
    directory.remove("b").expect("remove");
    assert!(directory.remove("b").expect_err("removed twice").is_not_found());
    assert_eq!(directory.list().expect("list"), ["LOCK2", "a", "c.tmp"]);
    assert!(!directory.describe().is_empty());
}

fn creating_follows_its_mode(directory: &dyn Directory) {
    let open = |create| directory.open("a", create, Method::Buffered);
    let missing = open(Create::Never).expect_err("it does not exist");
    assert!(
        missing.is_not_found() && missing.verb == Verb::Open && missing.subject.contains('a'),
        "{missing}"
    );
    assert!(directory.open_read_only("a").expect_err("it does not exist").is_not_found());
    let file = open(Create::New).expect("create");
    assert!(file.is_empty().expect("length"));
    write(&*file, b"kept", 0, WriteMode::Written);
    assert!(matches!(open(Create::New).expect_err("it exists").cause, Cause::AlreadyExists));
    assert_eq!(read(&*open(Create::IfMissing).expect("open"), 0, 9), b"kept");
    assert_eq!(read(&*open(Create::Never).expect("open"), 0, 9), b"kept");
}

fn renaming_replaces_and_open_files_go_on(directory: &dyn Directory) {
    let one = directory.open("one", Create::New, Method::Buffered).expect("create");
    let two = directory.open("two", Create::New, Method::Buffered).expect("create");
    write(&*one, b"1", 0, WriteMode::Written);
    write(&*two, b"2", 0, WriteMode::Written);
    directory.rename("one", "two").expect("rename");
    assert_eq!(directory.list().expect("list"), ["two"]);
    write(&*one, b"3", 1, WriteMode::Written);
    assert_eq!(read(&*directory.open_read_only("two").expect("open"), 0, 9), b"13");
    assert_eq!(read(&*two, 0, 9), b"2", "a file without a name is still open");
    assert!(directory.rename("one", "three").expect_err("it has moved").is_not_found());
    directory.remove("two").expect("remove");
    assert_eq!(read(&*one, 0, 9), b"13");
}

fn subdirectories_are_apart(directory: &dyn Directory) {
    assert!(directory.existing_subdirectory("inner").expect("look").is_none());
    let inner = directory.subdirectory("inner").expect("create");
    inner.open("a", Create::New, Method::Buffered).expect("create");
    assert_eq!(directory.list().expect("list"), [""; 0]);
    let again = directory.existing_subdirectory("inner").expect("look").expect("it exists");
    assert_eq!(again.list().expect("list"), ["a"]);
    let again = directory.subdirectory("inner").expect("open");
    assert_eq!(again.list().expect("list"), ["a"]);
    let deep = again.subdirectory("deep").expect("create");
    deep.open("b", Create::New, Method::Buffered).expect("create");
    assert_eq!(inner.list().expect("list"), ["a"]);
}

fn the_lock_is_exclusive(directory: &dyn Directory) {
    let lock = directory.lock().expect("lock");
    let refused = directory.lock().expect_err("it is held by this process");
    assert!(matches!(refused.cause, Cause::Locked(Some(pid)) if pid == std::process::id()), "{refused}");
    assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
    let inner = directory.subdirectory("inner").expect("create");
    drop(inner.lock().expect("another directory, another lock"));
    let refused = directory.lock_to_read().expect_err("it is held by this process");
    assert!(matches!(refused.cause, Cause::Locked(Some(_))), "{refused}");
    drop(lock);
    let reading = directory.lock_to_read().expect("nobody has it");
    let refused = directory.lock().expect_err("it is being read");
    assert!(matches!(refused.cause, Cause::Locked(Some(_))), "{refused}");
    drop(reading);
    drop(directory.lock().expect("lock"));
    assert_eq!(directory.list().expect("list"), [""; 0], "the lock is no file of the store");
}

fn bytes_are_where_they_were_written(directory: &dyn Directory, method: Method) {
    const BYTES: usize = if cfg!(miri) { 24 << 10 } else { 600 << 10 };
    let file = directory.open("a", Create::New, method).expect("create");
    let mut rng = Rng::with_seed(seed());
    let mut model: Vec<u8> = Vec::new();
    let mut aligned = AlignedBuffer::new_zeroed(BYTES);
    for _ in 0..if cfg!(miri) { 8 } else { 300 } {
        let block = if rng.bool() { 4096 } else { 1 };
        let offset = rng.usize(0..BYTES / block) * block;
        let len = rng.usize(0..=(BYTES - offset).min(100_000) / block) * block;
        // The bytes begin at an aligned address, or not.
        let from = if rng.bool() { 0 } else { rng.usize(0..=(BYTES - len).min(4096)) };
        rng.fill(&mut aligned[from..from + len]);
        let source = &aligned[from..from + len];
        let cut = rng.usize(0..=len / block) * block;
        let mode = if rng.bool() { WriteMode::Durable } else { WriteMode::Written };
        let parts = [IoSlice::new(&source[..cut]), IoSlice::new(&[]), IoSlice::new(&source[cut..])];
        file.write_at(&parts, offset as u64, mode).expect("write");
        if len > 0 {
            model.resize(model.len().max(offset + len), 0);
            model[offset..offset + len].copy_from_slice(source);
        }
        match rng.u8(0..20) {
            0 => file.sync().expect("sync"),
            1 => {
                file.sync().expect("sync");
                file.drop_cache().expect("drop the cache");
            }
            _ => {}
        }
        assert_eq!(file.len().expect("length"), model.len() as u64);
        let offset = rng.usize(0..BYTES);
        let expected =
            &model[offset.min(model.len())..(offset + 50_000).min(model.len()).max(offset.min(model.len()))];
        assert!(read(&*file, offset as u64, 50_000) == expected, "bytes at {offset} ({method:?})");
        let blocks = rng.usize(0..BYTES / 4096 / 2) * 4096;
        let count = file.read_at(&mut aligned, blocks as u64).expect("read");
        assert!(
            aligned[..count] == model[blocks.min(model.len())..],
            "aligned bytes at {blocks} ({method:?})"
        );
    }
    drop(file);
    let again = directory.open_read_only("a").expect("open");
    assert!(read(&*again, 0, BYTES + 1) == model, "the whole file ({method:?})");
}

fn many_parts_are_one_write(directory: &dyn Directory, method: Method) {
    // More parts than the operating system takes at once, aligned and not.
    let count = if cfg!(miri) { 3 } else { 2500 };
    let file = directory.open("a", Create::New, method).expect("create");
    let aligned = AlignedBuffer::copy_of(&(0..4096 * 2).map(|at| (at / 13) as u8).collect::<Vec<_>>());
    for (block, skip) in [(4096, 0), (4096, 1), (7, 0)] {
        let parts: Vec<IoSlice<'_>> =
            (0..count).map(|_| IoSlice::new(&aligned[skip..skip + block])).collect();
        for mode in [WriteMode::Written, WriteMode::Durable] {
            file.write_at(&parts, 4096, mode).expect("write");
            let got = read(&*file, 4096, count * block);
            assert!(got.chunks(block).all(|part| part == &aligned[skip..skip + block]), "{method:?} {block}");
            assert_eq!(got.len(), count * block);
            file.truncate(0).expect("truncate");
        }
    }
}

fn reading_stops_at_the_end(directory: &dyn Directory, method: Method) {
    let file = directory.open("a", Create::New, method).expect("create");
    assert_eq!(read(&*file, 0, 10), b"");
    for len in [1usize, 511, 4096, 5000, 8192] {
        write(&*file, &vec![7; len], 0, WriteMode::Written);
        assert_eq!(read(&*file, 0, 10_000).len(), len);
        assert_eq!(read(&*file, len as u64 - 1, 10_000), [7]);
        assert_eq!(read(&*file, len as u64, 10), b"");
        assert_eq!(read(&*file, 1 << 40, 10), b"");
        let mut aligned = AlignedBuffer::new_zeroed(16 << 10);
        assert_eq!(file.read_at(&mut aligned, 0).expect("read"), len);
    }
    assert!(file.write_at(&[IoSlice::new(b"x")], u64::MAX, WriteMode::Written).is_err());
    assert!(file.prepare(0, u64::MAX).is_err(), "no device is that large");
    assert_eq!(file.len().expect("length"), 8192);
}

fn many_reads_are_each_a_read(directory: &dyn Directory, method: Method) {
    const BYTES: usize = 300_001;
    let file = directory.open("a", Create::New, method).expect("create");
    let mut random = Rng::with_seed(seed());
    let bytes: Vec<u8> = (0..BYTES).map(|_| random.u8(..)).collect();
    write(&*file, &bytes, 0, WriteMode::Durable);
    for count in [0, 1, 2, 7, 100] {
        file.drop_cache().expect("drop the cache");
        let mut memory: Vec<AlignedBuffer> =
            (0..count).map(|_| AlignedBuffer::new_zeroed(4096 * random.usize(1..4))).collect();
        // Half of the reads are aligned. Some end behind the file's end, and some begin there.
        let mut reads: Vec<ManyRead<'_>> = memory
            .iter_mut()
            .map(|buffer| match random.bool() {
                true => ManyRead::new(4096 * random.u64(0..80), &mut buffer[..]),
                false => {
                    let len = random.usize(0..=buffer.len());
                    ManyRead::new(random.u64(0..BYTES as u64 + 9000), &mut buffer[..len])
                }
            })
            .collect();
        file.read_many(&mut reads);
        for read in reads {
            let found = read.outcome.expect("read");
            let begin = BYTES.min(read.offset as usize);
            let expected = &bytes[begin..BYTES.min(begin + read.buffer.len())];
            assert!(read.buffer[..found] == *expected, "{found} bytes at {}", read.offset);
        }
    }
}

fn truncating_cuts_and_growing_again_shows_zeros(directory: &dyn Directory, method: Method) {
    let file = directory.open("a", Create::New, method).expect("create");
    write(&*file, &[9; 20_000], 0, WriteMode::Durable);
    file.truncate(5000).expect("truncate");
    assert_eq!(file.len().expect("length"), 5000);
    assert!(file.truncate(5001).is_err(), "truncating cannot grow");
    write(&*file, &[8], 19_999, WriteMode::Written);
    let got = read(&*file, 0, 30_000);
    assert_eq!(got.len(), 20_000);
    assert!(got[..5000] == [9; 5000] && got[5000..19_999] == [0; 14_999]);
    file.truncate(0).expect("truncate");
    assert!(file.is_empty().expect("length"));
}

fn preparing_fills_with_zeros(directory: &dyn Directory, method: Method) {
    let file = directory.open("a", Create::New, method).expect("create");
    write(&*file, &[9; 10_000], 0, WriteMode::Written);
    file.prepare(8192, 8192).expect("prepare nothing");
    let end = if cfg!(miri) { 40_000 } else { (5 << 20) + 77 };
    file.prepare(4096, end).expect("prepare");
    assert_eq!(file.len().expect("length"), end);
    let got = read(&*file, 0, end as usize + 1);
    assert!(got[..4096] == [9; 4096] && got[4096..] == vec![0; end as usize - 4096]);
    assert_eq!(got.len() as u64, end);
    file.prepare(1, 3).expect("prepare inside");
    assert_eq!(read(&*file, 0, 4), [9, 0, 0, 9]);
    assert_eq!(file.len().expect("length"), end);
}

fn read_only_files_refuse_changes(directory: &dyn Directory, method: Method) {
    write(&*directory.open("a", Create::New, method).expect("create"), b"abc", 0, WriteMode::Written);
    let file = directory.open_read_only("a").expect("open");
    assert!(file.write_at(&[IoSlice::new(b"x")], 0, WriteMode::Written).is_err());
    assert!(file.prepare(0, 10).is_err());
    assert!(file.truncate(0).is_err());
    assert_eq!(read(&*file, 0, 10), b"abc");
}

fn writers_of_different_blocks_do_not_disturb_each_other(directory: &dyn Directory, method: Method) {
    const BLOCK: usize = 4096;
    let (threads, rounds) = (4usize, if cfg!(miri) { 3 } else { 30 });
    let file = directory.open("a", Create::New, method).expect("create");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let file = &file;
            scope.spawn(move || {
                for round in 0..rounds {
                    let mut block = AlignedBuffer::new_zeroed(BLOCK);
                    block.fill((thread * 50 + round) as u8);
                    let offset = ((round * threads + thread) * BLOCK) as u64;
                    let mode = if round % 3 == 0 { WriteMode::Durable } else { WriteMode::Written };
                    write(&**file, &block, offset, mode);
                    assert!(read(&**file, offset, BLOCK) == block[..]);
                }
            });
        }
    });
    let got = read(&*file, 0, threads * rounds * BLOCK + 1);
    assert_eq!(got.len(), threads * rounds * BLOCK);
    for (at, block) in got.chunks(BLOCK).enumerate() {
        let expected = (at % threads * 50 + at / threads) as u8;
        assert!(block == [expected; BLOCK], "block {at} ({method:?})");
    }
}
