//! Real files pass the suite that every directory passes. Other tests are about what only real
//! files have: refused methods, a full device, and locks between processes.

use katydid_device::testing::conformance;
use katydid_device::{
    AlignedBuffer, Cause, Create, Directory, FileDirectory, Gate, ManyRead, Method, StripedDirectory, Verb,
    WriteMode,
};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Returns a folder beside the build's files, because these are on a real file system, and the
/// system's temporary folder may not be.
fn scratch() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch directory")
}

/// Returns a function that makes a new directory below `scratch` at each call.
fn files(scratch: &TempDir) -> impl Fn() -> Arc<dyn Directory> {
    let count = RefCell::new(0);
    move || {
        *count.borrow_mut() += 1;
        let path = scratch.path().join(format!("{}/inner", count.borrow()));
        Arc::new(FileDirectory::open(path).expect("open"))
    }
}

#[test]
fn files_conform() {
    let scratch = scratch();
    conformance(files(&scratch));
}

#[test]
fn files_behind_a_gate_conform() {
    let scratch = scratch();
    let make = files(&scratch);
    conformance(|| Gate::wrap(make()).0);
}

#[test]
fn striped_files_conform() {
    let scratch = scratch();
    let make = files(&scratch);
    conformance(|| Arc::new(StripedDirectory::open(vec![make(), make(), make()], 16 << 10).expect("open")));
}

#[test]
fn files_in_the_temporary_directory_conform() {
    let scratch = TempDir::new().expect("a temporary directory");
    conformance(files(&scratch));
}

#[test]
fn a_method_the_file_system_refuses_is_replaced() {
    let scratch = scratch();
    let directory = FileDirectory::open(scratch.path()).expect("open");
    let file = directory.open("a", Create::New, Method::Direct).expect("create");
    let direct = file.method();
    match direct {
        Method::Direct => assert_eq!(file.alignment(), 4096),
        _ => assert_eq!((direct, file.alignment()), (Method::Buffered, 1)),
    }
    let file = directory.open("a", Create::Never, Method::Uring).expect("open");
    assert!(file.method() == direct || (direct, file.method()) == (Method::Direct, Method::Uring));
    let file = directory.open("a", Create::Never, Method::Buffered).expect("open");
    assert_eq!((file.method(), file.alignment()), (Method::Buffered, 1));
}

/// Returns the names of those threads of this process that the kernel made for its rings.
fn ring_workers() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("iou-")).collect()
}

#[test]
fn large_writes_of_several_threads_through_rings_arrive_whole_and_leave_no_thread() {
    const BYTES: usize = 3 << 20;
    let (threads, rounds) = (4, 6);
    let scratch = scratch();
    let directory = FileDirectory::open(scratch.path()).expect("open");
    // A write to a prepared file has several pieces in flight. If the write makes the file longer,
    // the kernel hands the pieces back, and the calling thread writes them.
    for prepared in [true, false] {
        let name = if prepared { "prepared" } else { "growing" };
        let file = directory.open(name, Create::New, Method::Uring).expect("create");
        if file.method() != Method::Uring {
            println!("skipped: this kernel gives out no rings, or this file system takes no direct writes");
            return;
        }
        if prepared {
            file.prepare(0, (threads * BYTES) as u64).expect("prepare");
        }
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let mode = if round % 2 == 0 { WriteMode::Durable } else { WriteMode::Written };
                        let number = (thread * rounds + round) as u32;
                        let words: Vec<u8> =
                            (0..BYTES as u32 / 4).flat_map(|at| (at ^ number << 24).to_le_bytes()).collect();
                        let bytes = AlignedBuffer::copy_of(&words);
                        let (one, two) = bytes.split_at(4096 * (1 + 37 * round));
                        let parts = [IoSlice::new(one), IoSlice::new(two)];
                        file.write_at(&parts, (thread * BYTES) as u64, mode).expect("write");
                        let mut found = AlignedBuffer::new_zeroed(BYTES);
                        assert_eq!(file.read_at(&mut found, (thread * BYTES) as u64).expect("read"), BYTES);
                        assert!(*found == *bytes, "{name}, thread {thread}, round {round}");
                    }
                });
            }
        });
        assert_eq!(file.len().expect("length"), (threads * BYTES) as u64);
    }
    assert_eq!(ring_workers(), [""; 0]);
}

#[test]
fn many_reads_of_several_threads_through_rings_arrive_whole_and_leave_no_thread() {
    const PAGE: usize = 4096;
    const PAGES: u64 = 512;
    let scratch = scratch();
    let directory = FileDirectory::open(scratch.path()).expect("open");
    let file = directory.open("a", Create::New, Method::Uring).expect("create");
    if file.method() != Method::Uring {
        println!("skipped: this kernel gives out no rings, or this file system takes no direct reads");
        return;
    }
    let page = |number: u64| number.to_le_bytes().repeat(PAGE / 8);
    let bytes: Vec<u8> = (0..PAGES).flat_map(page).collect();
    let bytes = AlignedBuffer::copy_of(&bytes);
    file.write_at(&[IoSlice::new(&bytes)], 0, WriteMode::Durable).expect("write");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let file = &file;
            scope.spawn(move || {
                let mut memory = AlignedBuffer::new_zeroed(100 * PAGE);
                for round in 0..20 {
                    // About one in a hundred of the pages lies behind the file's end.
                    let number = |nth: u64| (nth * 37 + thread * 11 + round) % (PAGES + 5);
                    let buffers = memory.chunks_mut(PAGE).zip(0..);
                    let mut reads: Vec<ManyRead<'_>> =
                        buffers.map(|(page, nth)| ManyRead::new(number(nth) * PAGE as u64, page)).collect();
                    file.read_many(&mut reads);
                    for (read, nth) in reads.iter().zip(0..) {
                        let expected = if number(nth) < PAGES { page(number(nth)) } else { Vec::new() };
                        let found = *read.outcome.as_ref().expect("read");
                        assert!(read.buffer[..found] == *expected, "page {}", number(nth));
                    }
                }
            });
        }
    });
    // After the file system has refused such reads, the file does not try them again.
    println!("reads overlap: {}", file.overlaps_reads());
    assert_eq!(ring_workers(), [""; 0]);
}

#[test]
fn opening_an_existing_directory_creates_nothing() {
    let scratch = scratch();
    let path = scratch.path().join("missing");
    assert!(FileDirectory::open_existing(&path).expect_err("it does not exist").is_not_found());
    assert!(!path.exists());
    std::fs::write(&path, b"a file").expect("write");
    assert!(FileDirectory::open(&path).is_err(), "a file is no directory");
}

/// A process may die after it has created a folder and before it has synced the folder's entry. The
/// next process must sync that entry, or a crash of the machine loses the folder with all records
/// that were acknowledged in it.
#[cfg(target_os = "linux")]
#[test]
fn opening_an_existing_directory_syncs_its_entry() {
    // The kernel refuses to sync a folder of `/proc`, so the refusal shows that a sync was tried.
    let error = FileDirectory::open("/proc/self/task").expect_err("its parent cannot be synced");
    assert_eq!(error.verb, Verb::SyncDirectory, "{error}");
    assert!(error.to_string().contains(&format!("/proc/{}", std::process::id())), "{error}");
    // A mount point has no entry in its parent that could be lost, and neither has the root.
    FileDirectory::open("/proc").expect("a mount point");
    FileDirectory::open("/").expect("the root");
    // An entry is also found through a symbolic link and `..`.
    let scratch = scratch();
    FileDirectory::open(scratch.path().join("a")).expect("create");
    std::os::unix::fs::symlink(scratch.path().join("a"), scratch.path().join("b")).expect("a link");
    for path in ["a", "b", "a/../a", "b/."] {
        FileDirectory::open(scratch.path().join(path)).expect(path);
    }
}

#[test]
fn no_room_is_typed_and_leaves_the_file_usable() {
    // `/dev/full` is the kernel's own full device.
    let directory = FileDirectory::open_existing("/dev").expect("open");
    let Ok(full) = directory.open("full", Create::Never, Method::Buffered) else { return };
    let error = full.prepare(0, 1 << 20).expect_err("it is full");
    assert!(error.is_no_space() && error.verb == Verb::Prepare, "{error}");
    for mode in [WriteMode::Written, WriteMode::Durable] {
        let error = full.write_at(&[IoSlice::new(b"x")], 0, mode).expect_err("it is full");
        assert!(error.is_no_space() && error.verb == Verb::Write, "{error}");
    }
    assert_eq!(full.read_at(&mut [0; 10], 0).expect("read"), 10);
}

#[test]
fn a_lock_held_by_another_process_names_it() {
    const VARIABLE: &str = "KATYDID_TEST_LOCK";
    if let Ok(path) = std::env::var(VARIABLE) {
        let directory = FileDirectory::open(path).expect("open");
        let _lock = directory.lock().expect("lock");
        println!("locked");
        std::io::stdout().flush().expect("flush");
        // The child holds the lock until the parent closes the pipe, or kills this process.
        std::io::stdin().read_to_end(&mut Vec::new()).expect("read");
        return;
    }
    let scratch = scratch();
    let directory = FileDirectory::open(scratch.path()).expect("open");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "files::a_lock_held_by_another_process_names_it", "--nocapture"])
        .env(VARIABLE, scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("locked")), "the child took the lock");
    let error = directory.lock().expect_err("the child has it");
    assert!(matches!(error.cause, Cause::Locked(Some(pid)) if pid == child.id()), "{error}");
    child.kill().expect("kill");
    child.wait().expect("wait");
    drop(directory.lock().expect("the kernel released it"));
}
